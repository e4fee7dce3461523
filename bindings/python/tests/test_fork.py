"""A child of fork() neither sends nor ends what its parent owns, and the parent goes on as if there were no child."""

import asyncio
import multiprocessing
import os
import unittest
from typing import Any, Awaitable, Callable, List, Tuple

import consort
from consort import AsyncClient, AsyncSession, Client, Fate, GroupView, Lost, Message, Sent, Service, Session
from daemon import LONG, Cluster, Daemon

GROUP = "forked"
#: How many sends are made before the fork, and how many in all.
BEFORE, SENDS = 50, 300
FORK = multiprocessing.get_context("fork")
Call = Tuple[str, Callable[[], object]]
AsyncCall = Tuple[str, Callable[[], Awaitable[object]]]


def payload(number: int) -> bytes:
    return number.to_bytes(4, "big") * 300


def refusals(calls: List[Call]) -> List[str]:
    """What is wrong with what these calls answer in a child."""
    wrong = []
    for name, call in calls:
        try:
            wrong.append(f"{name} returned {call()!r}")
        except consort.Forked as error:
            if str(error) != f"this client was made in process {os.getppid()}; make one in each process after fork()":
                wrong.append(f"{name} says {error}")
        except BaseException as error:
            wrong.append(f"{name} raised {error!r}")
    return wrong


def async_refusals(calls: List[AsyncCall]) -> List[str]:
    def run(call: Callable[[], Awaitable[object]]) -> Callable[[], object]:
        async def soon() -> object:
            return await asyncio.wait_for(call(), 10)

        return lambda: asyncio.run(soon())

    return refusals([(name, run(call)) for name, call in calls])


class Forks(unittest.TestCase):
    def in_child(self, act: Callable[[], List[str]]) -> None:
        """Runs it in a child that ends as processes of multiprocessing do; it returns what is wrong."""
        told: "multiprocessing.Queue[List[str]]" = FORK.Queue()
        child = FORK.Process(target=lambda: told.put(act()))
        child.start()
        self.assertEqual(told.get(timeout=LONG), [])
        child.join(LONG)
        self.assertEqual(child.exitcode, 0)

    def each_once(self, client: Client, children: int) -> None:
        own: List[bytes] = []
        others = 0
        while len(own) < SENDS or others < children:
            event = client.receive(LONG)
            assert event is not None, (len(own), others)
            if isinstance(event, Message):
                if event.payload == b"child":
                    others += 1
                else:
                    own.append(event.payload)
        self.assertEqual(own, [payload(number) for number in range(SENDS)])
        self.assertIsNone(client.receive(0.2))

    def client_stays(self, address: str, memory: bool) -> None:
        client = Client.connect(address, shared_memory=memory)
        client.join(GROUP)
        self.assertIsInstance(client.receive(LONG), GroupView)
        for number in range(BEFORE):
            client.multicast(Service.AGREED, GROUP, payload(number))

        def uses() -> List[str]:
            def enters() -> None:
                with client:
                    pass

            calls: List[Call] = [
                ("multicast", lambda: client.multicast(Service.AGREED, GROUP, b"x")),
                ("try_multicast", lambda: client.try_multicast(Service.AGREED, GROUP, b"x")),
                ("join", lambda: client.join("other")),
                ("leave", lambda: client.leave(GROUP)),
                ("flush", client.flush),
                ("wait_ordered", lambda: client.wait_ordered(LONG)),
                ("progress", client.progress),
                ("receive", lambda: client.receive(LONG)),
                ("try_receive", client.try_receive),
                ("next", lambda: next(iter(client))),
                ("read", lambda: client.read(GROUP)),
                ("stop_reading", client.stop_reading),
                ("bookmark", lambda: client.bookmark),
                ("split", client.split),
                ("close", client.close),
                ("with", enters),
            ]
            wrong = refusals(calls)
            with Client.connect(address, shared_memory=memory) as own:
                own.multicast(Service.AGREED, GROUP, b"child")
            return wrong

        self.in_child(uses)
        child = os.fork()
        if child == 0:
            del client
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        for number in range(BEFORE, SENDS):
            client.multicast(Service.AGREED, GROUP, payload(number))
        self.each_once(client, 1)
        client.close()

    def test_a_client_stays_its_parents(self) -> None:
        with Daemon() as daemon:
            for address, memory in ((daemon.unix, True), (daemon.unix, False), (daemon.tcp, False)):
                with self.subTest(address=address, memory=memory):
                    self.client_stays(address, memory)

    def test_a_session_stays_its_parents(self) -> None:
        cluster = Cluster()
        self.addCleanup(cluster.end)
        session = Session.connect(cluster.addresses)

        def uses() -> List[str]:
            calls: List[Call] = [
                ("send", lambda: session.send(Service.AGREED, GROUP, b"x")),
                ("join", lambda: session.join("other")),
                ("leave", lambda: session.leave(GROUP)),
                ("settle", lambda: session.settle(LONG)),
                ("outcome", lambda: session.outcome(1, LONG)),
                ("read", lambda: session.read(GROUP)),
                ("receive", lambda: session.receive(LONG)),
                ("close", session.close),
            ]
            wrong = refusals(calls)
            with Session.connect(cluster.addresses) as own:
                own.send(Service.AGREED, GROUP, b"child")
            return wrong

        for number in range(SENDS):
            if number == BEFORE:
                self.in_child(uses)
            session.send(Service.AGREED, GROUP, payload(number))
        session.settle(LONG)
        session.close()
        events = list(session)
        self.assertFalse([event for event in events if isinstance(event, Lost)])
        fates = [(event.send, event.fate) for event in events if isinstance(event, Sent)]
        self.assertEqual(fates, [(number + 1, Fate.ORDERED) for number in range(SENDS)])

    def test_an_async_client_stays_its_parents(self) -> None:
        async def talk(address: str) -> None:
            async with await AsyncClient.connect(address) as client:
                await client.join(GROUP)
                self.assertIsInstance(await asyncio.wait_for(client.receive(), LONG), GroupView)
                for number in range(SENDS):
                    if number == BEFORE:
                        await asyncio.sleep(0.1)
                        self.in_child(lambda: async_refusals(calls_of(client)))
                    await client.multicast(Service.AGREED, GROUP, payload(number))
                for number in range(SENDS):
                    event: Any = await asyncio.wait_for(client.receive(), LONG)
                    self.assertEqual(event.payload, payload(number))

        def calls_of(client: AsyncClient) -> List[AsyncCall]:
            return [
                ("multicast", lambda: client.multicast(Service.AGREED, GROUP, b"x")),
                ("join", lambda: client.join("other")),
                ("leave", lambda: client.leave(GROUP)),
                ("wait_ordered", lambda: client.wait_ordered(LONG)),
                ("receive", client.receive),
                ("read", lambda: client.read(GROUP)),
                ("stop_reading", client.stop_reading),
                ("close", client.close),
            ]

        with Daemon() as daemon:
            for address in (daemon.unix, daemon.tcp):
                with self.subTest(address=address):
                    asyncio.run(talk(address))

    def test_an_async_session_stays_its_parents(self) -> None:
        cluster = Cluster()
        self.addCleanup(cluster.end)

        def calls_of(session: AsyncSession) -> List[AsyncCall]:
            return [
                ("send", lambda: session.send(Service.AGREED, GROUP, b"x")),
                ("outcome", lambda: session.outcome(1)),
                ("settle", session.settle),
                ("join", lambda: session.join("other")),
                ("leave", lambda: session.leave(GROUP)),
                ("receive", session.receive),
                ("read", lambda: session.read(GROUP)),
                ("close", session.close),
            ]

        async def talk() -> None:
            async with await AsyncSession.connect(cluster.addresses) as session:
                for number in range(SENDS):
                    if number == BEFORE:
                        self.in_child(lambda: async_refusals(calls_of(session)))
                    await session.send(Service.AGREED, GROUP, payload(number))
                await session.settle(LONG)
            events = [event async for event in session]
            self.assertFalse([event for event in events if isinstance(event, Lost)])
            fates = [event.fate for event in events if isinstance(event, Sent)]
            self.assertEqual(fates, [Fate.ORDERED] * SENDS)

        asyncio.run(talk())
