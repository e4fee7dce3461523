"""The client for asyncio, against a real daemon."""

import asyncio
import signal
import unittest

import consort
from consort import AsyncClient, GroupView, Message, Service
from daemon import Daemon

#: Nothing that is to happen takes longer, in seconds.
LONG = 30.0


class Async(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.daemon = Daemon()
        self.addCleanup(self.daemon.__exit__, None, None, None)

    async def test_events_come_in_order_to_a_loop_that_does_other_things(self) -> None:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        turning = asyncio.create_task(turn())
        async with await AsyncClient.connect(self.daemon.unix, name="ann") as ann:
            await ann.join("tea")
            for number in range(3_000):
                await ann.multicast(Service.FIFO, "tea", number.to_bytes(2, "big") * 500)
            await ann.wait_ordered(LONG)
            events = [await asyncio.wait_for(ann.receive(), LONG) for _ in range(3_001)]
        turning.cancel()
        self.assertIsInstance(events[0], GroupView)
        numbers = [int.from_bytes(event.payload[:2], "big") for event in events[1:] if isinstance(event, Message)]
        self.assertEqual(numbers, list(range(3_000)))
        self.assertGreater(turns, 20, "the loop stood still")

    async def test_a_cancelled_wait_loses_nothing(self) -> None:
        async with await AsyncClient.connect(self.daemon.unix) as ann:
            for _ in range(3):
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(ann.receive(), 0.02)
            await ann.join("tea")
            self.assertIsInstance(await asyncio.wait_for(ann.receive(), LONG), GroupView)

    async def test_a_daemon_that_falls_silent_is_given_up(self) -> None:
        ann = await AsyncClient.connect(self.daemon.tcp)
        self.daemon.process.send_signal(signal.SIGSTOP)
        with self.assertRaisesRegex(consort.ConnectionLost, "nothing was heard of the daemon .* for 2s"):
            await asyncio.wait_for(ann.receive(), LONG)

    async def test_iteration_ends_with_ones_own_goodbye_and_raises_any_other_end(self) -> None:
        ann = await AsyncClient.connect(self.daemon.tcp)
        await ann.join("tea")
        await ann.multicast(Service.AGREED, "tea", b"leaf")
        await ann.wait_ordered(LONG)
        await ann.close()
        self.assertEqual([type(event) async for event in ann], [GroupView, Message])
        with self.assertRaises(consort.Closed):
            await ann.join("tea")
        bob = await AsyncClient.connect(self.daemon.tcp)
        self.daemon.stop()
        with self.assertRaises(consort.Disconnected) as caught:
            async for _ in bob:
                self.fail("an event")
        self.assertEqual(caught.exception.reason, "stopping")
        await bob.close()

    async def test_sends_wait_their_turn_and_say_so_in_time(self) -> None:
        ann = await AsyncClient.connect(self.daemon.tcp, send_within=0.2)
        self.daemon.process.send_signal(signal.SIGSTOP)
        with self.assertRaises(TimeoutError):
            for _ in range(100):
                await ann.multicast(Service.AGREED, "tea", bytes(10_000))
        self.daemon.process.send_signal(signal.SIGCONT)
        await ann.wait_ordered(LONG)
        await ann.close()

    async def test_wrong_arguments_raise(self) -> None:
        with self.assertRaises(consort.CannotConnect):
            await AsyncClient.connect("/nowhere/at/all")
        async with await AsyncClient.connect(self.daemon.unix) as ann:
            with self.assertRaisesRegex(ValueError, "at 3"):
                await ann.join("two words")
            with self.assertRaises(ValueError):
                await ann.multicast(9, "tea", b"")  # type: ignore[arg-type]
            await ann.join("tea")
            self.assertIsInstance(await asyncio.wait_for(ann.receive(), LONG), GroupView)


if __name__ == "__main__":
    unittest.main()
