"""The session for asyncio, against real daemons."""

import asyncio
import signal
import unittest
from typing import List

import consort
from consort import AsyncSession, CaughtUp, Connected, Fate, Gap, GroupView, Lost, Message, Parted, Sent, Service
from daemon import LONG, Cluster


async def numbers(session: AsyncSession, last: int) -> List[int]:
    """The numbers of all messages up to this one."""
    came: List[int] = []
    while not came or came[-1] != last:
        event = await asyncio.wait_for(session.receive(), LONG)
        assert not isinstance(event, (Gap, Parted)), event
        if isinstance(event, Message):
            came.append(int.from_bytes(event.payload, "big"))
    return came


class AsyncSessions(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.cluster = Cluster()
        self.addCleanup(self.cluster.end)

    async def session(self, first: int) -> AsyncSession:
        return await AsyncSession.connect(self.cluster.from_(first), reconnect_within=LONG)

    async def test_tasks_send_and_are_told_though_their_daemon_is_killed(self) -> None:
        async with await self.session(0) as session, await self.session(2) as reader:
            await reader.read("orders", "new")
            while not isinstance(await asyncio.wait_for(reader.receive(), LONG), CaughtUp):
                pass
            await session.join("orders")

            async def feed(first: int) -> List[Sent]:
                outcomes = []
                for n in range(first, first + 50):
                    sent = await session.send(Service.AGREED, "orders", n.to_bytes(4, "big"))
                    outcomes.append(asyncio.create_task(session.outcome(sent, LONG)))
                return list(await asyncio.gather(*outcomes))

            feeding = [asyncio.create_task(feed(first)) for first in (0, 1_000)]
            await asyncio.sleep(0.05)
            self.cluster.kill(0)
            fates = [fate for fed in feeding for fate in await fed]
            self.assertEqual({fate.fate for fate in fates}, {Fate.ORDERED})
            last = await session.send(Service.SAFE, "orders", (5_000).to_bytes(4, "big"))
            await session.settle(LONG)
            self.assertEqual(session.unsettled, 0)
            with self.assertRaisesRegex(consort.InvalidArgument, f"send {last + 1}: no fate"):
                await session.outcome(last + 1, LONG)
            came = await numbers(reader, 5_000)
            for first in (0, 1_000):
                own = [n for n in came if first <= n < first + 1_000]
                self.assertEqual(own, list(range(first, first + 50)))
        kinds = [type(event) async for event in session]
        self.assertEqual((kinds.count(Lost), kinds.count(Connected), kinds.count(Sent)), (1, 2, 1))
        self.assertIn(GroupView, kinds)
        with self.assertRaises(consort.Closed):
            await session.join("orders")

    async def test_a_reading_goes_on_behind_its_bookmark(self) -> None:
        async with await self.session(0) as reader, await self.session(2) as sender:
            await reader.read("orders", "new")
            while not isinstance(await asyncio.wait_for(reader.receive(), LONG), CaughtUp):
                pass
            for n in range(1, 101):
                await sender.send(Service.AGREED, ["orders"], n.to_bytes(4, "big"))
            await sender.settle(LONG)
            self.assertEqual(await numbers(reader, 40), list(range(1, 41)))
            bookmark = reader.bookmark
            assert bookmark is not None
            self.cluster.kill(0)
            self.assertEqual(await numbers(reader, 100), list(range(41, 101)))
            # Whatever came since, the place is that of the last message that was received then.
            async with await self.session(1) as other:
                await other.read("orders", bookmark)
                self.assertEqual(await numbers(other, 100), list(range(41, 101)))

    async def test_what_came_before_it_was_closed_is_received_still_and_then_its_end(self) -> None:
        async with await self.session(2) as sender:
            reader = await self.session(0)
            await reader.read("orders", "new")
            while not isinstance(await asyncio.wait_for(reader.receive(), LONG), CaughtUp):
                pass
            for n in range(1, 501):
                await sender.send(Service.AGREED, ["orders"], n.to_bytes(4, "big"))
            await sender.settle(LONG)
            came = await numbers(reader, 1)
            await reader.close()

            async def rest() -> None:
                async for event in reader:
                    if isinstance(event, Message):
                        came.append(int.from_bytes(event.payload, "big"))

            await asyncio.wait_for(rest(), LONG)
            self.assertEqual(came, list(range(1, len(came) + 1)))
            self.assertIsNotNone(reader.bookmark)

    async def test_waits_that_are_given_up_lose_nothing(self) -> None:
        async with await self.session(0) as session:
            self.assertIsInstance(await asyncio.wait_for(session.receive(), LONG), Connected)
            for _ in range(3):
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(session.receive(), 0.02)
            for at in (1, 2):
                self.cluster.daemons[at].send_signal(signal.SIGSTOP)
            # Alone a daemon orders nothing.
            sent = await session.send(Service.AGREED, "orders", b"leaf")
            with self.assertRaises(consort.TimedOut):
                await session.outcome(sent, 0.05)
            with self.assertRaisesRegex(TimeoutError, "1 sends have no fate yet"):
                await session.settle(0.05)
            waits = asyncio.create_task(session.outcome(sent))
            await asyncio.sleep(0.05)
            with self.assertRaises(consort.Busy):
                await session.outcome(sent)
            waits.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waits
            for at in (1, 2):
                self.cluster.daemons[at].send_signal(signal.SIGCONT)
            self.assertEqual((await session.outcome(sent, LONG)).fate, Fate.ORDERED)

    async def test_a_session_that_is_taken_over_says_so_to_all(self) -> None:
        first = await self.session(0)
        await first.outcome(await first.send(Service.AGREED, "orders", b"one"), LONG)
        second = await AsyncSession.connect(self.cluster.from_(1), producer=first.producer)
        await second.outcome(await second.send(Service.AGREED, "orders", b"two"), LONG)
        late = await first.send(Service.AGREED, "orders", b"late")
        with self.assertRaises(consort.TakenOver):
            await first.outcome(late, LONG)
        with self.assertRaises(consort.TakenOver):
            async for _ in first:
                pass
        with self.assertRaises(consort.TakenOver):
            await first.send(Service.AGREED, "orders", b"later")
        await first.close()
        await second.close()

    async def test_wrong_arguments_raise(self) -> None:
        with self.assertRaisesRegex(consort.InvalidArgument, "no daemon is named"):
            await AsyncSession.connect([])
        with self.assertRaisesRegex(consort.Unreachable, "within 200ms"):
            await AsyncSession.connect(["/nowhere/at/all"], reconnect_within=0.2)
        async with await self.session(0) as session:
            with self.assertRaises(consort.InvalidArgument):
                await session.send(Service.AGREED, "two words", b"")
            with self.assertRaises(consort.BadTargets):
                await session.send(Service.AGREED, [], b"")
            with self.assertRaisesRegex(ValueError, "is no place to read from"):
                await session.read("orders", "yesterday")
            sent = await session.send(Service.AGREED, "orders", b"")
            self.assertEqual((await session.outcome(sent, LONG)).send, sent)


if __name__ == "__main__":
    unittest.main()
