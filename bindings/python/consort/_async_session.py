"""The session over several daemons, for asyncio.

One thread has the session: it does what tasks ask for, receives, and goes from daemon to daemon. It waits at the
connection and at a socket by which it is woken.
"""

from __future__ import annotations

import asyncio
import select
import socket
import threading
import time
from collections import deque
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Callable, Deque, Dict, Optional, Sequence, Tuple, Type, TypeVar

from . import _consort
from ._async import UNREAD_MAX, reads, weight
from ._client import Payload, ReadFrom, Targets, names, plain
from ._codes import Service, SlowPolicy
from ._errors import Busy, Closed, Error, InvalidArgument, TimedOut, Unread
from ._session import SessionEvent

#: How long the thread waits while nothing is under way, in seconds: so late a silent daemon is noticed.
LOOK = 0.1
#: How long it does while something is, or there is no connection.
BUSY = 0.01

Result = TypeVar("Result")


class _Step:
    """What a task asks the thread to do."""

    def __init__(self, act: Callable[[], Any], within: Optional[float]) -> None:
        self.act = act
        #: What comes too late is tried again until then; for as long as it takes with None.
        self.until = None if within is None else time.monotonic() + within
        self.done: "Future[Any]" = Future()

    def begins(self) -> bool:
        """Whether it is wanted still."""
        return self.done.running() or self.done.set_running_or_notify_cancel()

    def fail(self, error: BaseException) -> None:
        if self.begins():
            self.done.set_exception(error)

    def do(self, is_closing: bool) -> bool:
        """False where it is to be tried again."""
        if not self.begins():
            return True
        try:
            self.done.set_result(self.act())
        except TimedOut as late:
            if not is_closing and (self.until is None or time.monotonic() < self.until):
                return False
            self.done.set_exception(late)
        except BaseException as error:
            self.done.set_exception(error)
        return True


class AsyncSession:
    """A session over several daemons, for the tasks of one event loop; see :class:`Session`.

    >>> async with await AsyncSession.connect(["10.0.0.1:4840", "10.0.0.2:4840"]) as session:
    ...     send = await session.send(Service.AGREED, "orders", b"a pound of tea")
    ...     print(await session.outcome(send))

    Close it: its thread ends then. Events that were not received wait, 64 MiB of payload at most: then nothing more is
    read, and sends raise :class:`Unread`. A task that is cancelled loses no event; what it was sending may be sent still. It
    shares no memory with its daemon.
    """

    def __init__(self, session: _consort.Session, send_within: Optional[float]) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = session
        self._send_within = send_within
        self._events: Deque[Tuple[SessionEvent, Optional[str]]] = deque()
        self._bookmark: Optional[str] = None
        self._end: Optional[BaseException] = None
        self._unread = 0
        #: How many sends were made, and how many of them have a fate.
        self._made = self._told = 0
        self._outcomes: Dict[int, "asyncio.Future[_consort.Sent]"] = {}
        self._came = asyncio.Event()
        #: It settles, and is closed then.
        self._ends = False
        self._is_closing = False
        self._may_read = True
        self._is_wanted = True
        self._steps: Deque[_Step] = deque()
        self._wakes, self._woken = socket.socketpair()
        for end in (self._wakes, self._woken):
            end.setblocking(False)
        threading.Thread(target=self._serve, name="consort-session", daemon=True).start()

    @classmethod
    async def connect(
        cls,
        daemons: Sequence[str],
        *,
        name: Optional[str] = None,
        views: bool = False,
        positions: bool = False,
        unbatched: bool = False,
        connect_within: float = 5.0,
        send_within: Optional[float] = None,
        host_timeout: float = 2.0,
        token: Optional[str] = None,
        tls: Optional[_consort.Tls] = None,
        slow: Optional[SlowPolicy] = None,
        slow_bytes: int = 0,
        slow_time: Optional[float] = None,
        unsettled_max: int = 4 << 20,
        reconnect_within: float = 60.0,
        producer: Optional[str] = None,
    ) -> "AsyncSession":
        """Connects to the first of these daemons that can be reached; see :meth:`Session.connect`."""
        options = _consort.Options(
            name,
            views,
            positions,
            unbatched,
            False,
            connect_within,
            send_within,
            host_timeout,
            token,
            slow,
            slow_bytes,
            slow_time,
            tls,
        )
        daemons = names(daemons)

        def connects() -> _consort.Session:
            return _consort.Session.connect(daemons, options, unsettled_max, reconnect_within, producer)

        return cls(await asyncio.get_running_loop().run_in_executor(None, connects), send_within)

    @property
    def producer(self) -> str:
        """Whose sends these are; see :attr:`Session.producer`."""
        return self._session.producer

    @property
    def unsettled(self) -> int:
        """How many sends have no fate yet."""
        return self._made - self._told

    @property
    def bookmark(self) -> Optional[str]:
        """How far the reading has come, behind the last message that was received; see :attr:`Session.bookmark`."""
        return self._bookmark

    async def join(self, group: str, *, closed: bool = False) -> None:
        """Joins a group, and joins it again after each loss."""
        await self._do(lambda: self._session.join(group, closed))

    async def leave(self, group: str) -> None:
        """Leaves a group."""
        await self._do(lambda: self._session.leave(group))

    async def send(self, service: Service, to: Targets, payload: Payload) -> int:
        """Sends a message once; returns the send's number. Its fate comes as a :class:`Sent`, or by :meth:`outcome`."""
        targets, content = names(to), plain(payload)

        def sends() -> int:
            sent = self._session.send(service, targets, content, 0)
            self._tell(self._count, None)
            return sent

        self._check_unread()
        return await self._do(sends, self._send_within)

    async def outcome(self, send: int, timeout: Optional[float] = None) -> _consort.Sent:
        """Waits for the fate of a send, which is not received any more then."""
        self._session.check_process()
        for at, (event, _) in enumerate(self._events):
            if isinstance(event, _consort.Sent) and event.send == send:
                del self._events[at]
                return event
        if send in self._outcomes:
            raise Busy(f"another task waits for the fate of send {send}")
        self._check()
        self._check_unread()
        outcome: "asyncio.Future[_consort.Sent]" = self._loop.create_future()
        self._outcomes[send] = outcome
        self._refuse_unknown()
        try:
            await asyncio.wait({outcome}, timeout=timeout)
        except asyncio.CancelledError:
            if outcome.done() and not outcome.exception():
                self._events.appendleft((outcome.result(), None))
            raise
        finally:
            self._outcomes.pop(send, None)
        if not outcome.done():
            raise TimedOut(f"send {send} has no fate yet")
        return outcome.result()

    async def settle(self, timeout: Optional[float] = None) -> None:
        """Waits until every send has its fate. Events are kept."""
        self._session.check_process()

        async def settled() -> None:
            while self._told < self._made:
                self._check()
                self._check_unread()
                self._came.clear()
                await self._came.wait()

        if self._told == self._made:
            return
        try:
            await asyncio.wait_for(settled(), timeout)
        except asyncio.TimeoutError:
            raise TimedOut(f"{self.unsettled} sends have no fate yet") from None

    async def read(self, groups: Targets, from_: ReadFrom = "start") -> None:
        """Reads groups by position, and goes on with it at the next daemon; see :meth:`Session.read`."""
        named, begin = names(groups), str(from_)
        await self._do(lambda: self._session.read(named, begin))

    async def receive(self) -> SessionEvent:
        """The next event."""
        self._session.check_process()
        while not self._events:
            if self._end is not None:
                raise self._end
            self._came.clear()
            await self._came.wait()
        event, bookmark = self._events.popleft()
        self._bookmark = bookmark or self._bookmark
        self._unread -= weight(event)
        if not self._may_read and self._unread <= UNREAD_MAX:
            self._may_read = True
            self._wake()
        return event

    def __aiter__(self) -> "AsyncSession":
        return self

    async def __anext__(self) -> SessionEvent:
        try:
            return await self.receive()
        except Closed:
            raise StopAsyncIteration from None

    async def close(self, timeout: Optional[float] = 5.0) -> None:
        """Waits until every send has its fate, and ends the session; see :meth:`Session.close`."""
        self._session.check_process()
        if self._is_closing or self._end is not None:
            return
        # What comes until then is received still, however much it is.
        self._ends = True
        self._may_read = True
        self._wake()
        try:
            await self.settle(timeout)
        except TimedOut:
            # The session says so itself, and ends.
            pass
        closing = self._do(lambda: self._session.close(0), 0)
        self._is_closing = True
        await closing

    async def __aenter__(self) -> "AsyncSession":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            await self.close()
        except Error:
            # The first failure says more than that the end failed, too.
            if error is None:
                raise

    def _check(self) -> None:
        # A child of fork() has no such thread.
        self._session.check_process()
        if self._end is not None:
            raise self._end
        if self._is_closing:
            raise Closed("this session was closed; connect anew")

    def _check_unread(self) -> None:
        if self._unread > UNREAD_MAX and not self._ends:
            raise Unread(f"{self._unread} bytes of events wait to be received; receive them first")

    def _do(self, act: Callable[[], Result], within: Optional[float] = None) -> "asyncio.Future[Result]":
        """Has the thread do something, behind all that it has to do already. What comes too late is tried again."""
        self._check()
        step = _Step(act, within)
        self._steps.append(step)
        self._wake()
        return asyncio.wrap_future(step.done)

    def _wake(self) -> None:
        try:
            self._wakes.send(b"\0")
        except OSError:
            # It is awake, or gone.
            pass

    def _serve(self) -> None:
        """What the thread does."""
        while self._is_wanted:
            while self._steps and self._steps[0].do(self._is_closing):
                self._steps.popleft()
            try:
                event = self._next()
                bookmark = self._session.bookmark if event is not None and reads(event) else None
            except BaseException as end:
                # Whatever it is: who waits is told.
                self._tell(self._ended, end)
                return
            if event is not None:
                self._tell(self._received, (event, bookmark))

    def _next(self) -> Optional[SessionEvent]:
        """The next event, or None after a while."""
        if not self._may_read:
            self._wait(None)
            return None
        event = self._session.receive(0)
        if event is not None:
            return event
        descriptor = self._session.descriptor()
        if descriptor is None or self._steps or self._session.unsettled > 0:
            # It connects, or writes.
            return self._session.receive(BUSY)
        self._wait(descriptor)
        return None

    def _wait(self, descriptor: Optional[int]) -> None:
        """Waits until something came, or is to be done."""
        poll = select.poll()
        for waits in (descriptor, self._woken.fileno()):
            if waits is not None:
                poll.register(waits, select.POLLIN)
        poll.poll(LOOK * 1000)
        try:
            self._woken.recv(4096)
        except BlockingIOError:
            pass

    def _tell(self, act: Callable[[Result], None], what: Result) -> None:
        try:
            self._loop.call_soon_threadsafe(act, what)
        except RuntimeError:
            # The loop is closed: nobody listens any more.
            self._is_wanted = False

    def _count(self, _: None) -> None:
        self._made += 1

    def _received(self, what: Tuple[SessionEvent, Optional[str]]) -> None:
        event = what[0]
        outcome = None
        if isinstance(event, _consort.Sent):
            self._told += 1
            outcome = self._outcomes.pop(event.send, None)
        if outcome is not None and isinstance(event, _consort.Sent):
            outcome.set_result(event)
        else:
            self._events.append(what)
            self._unread += weight(event)
        self._refuse_unknown()
        if self._unread > UNREAD_MAX and not self._ends:
            # No fate comes before some of them are received: who waits for one is told so.
            self._may_read = False
            for outcome in self._outcomes.values():
                outcome.set_exception(Unread(f"{self._unread} bytes of events wait to be received; receive them first"))
            self._outcomes.clear()
        self._came.set()

    def _refuse_unknown(self) -> None:
        """Where every send has its fate nobody need wait for one."""
        if self._told < self._made:
            return
        for send, outcome in self._outcomes.items():
            text = f"send {send}: no fate of this send is left to tell: it was told, or there is no such send"
            outcome.set_exception(InvalidArgument(text))
        self._outcomes.clear()

    def _ended(self, end: BaseException) -> None:
        self._end = end
        for outcome in self._outcomes.values():
            outcome.set_exception(end)
        self._outcomes.clear()
        # What comes behind the end meets it, too.
        while self._steps:
            self._steps.popleft().fail(end)
        for pair in (self._wakes, self._woken):
            pair.close()
        self._came.set()
