"""The client for asyncio.

One thread for each client receives, another one sends where a send may have to wait. What was received is handed to the
event loop. The loop waits for a daemon 10 ms at most, where its socket takes nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Callable, Deque, Optional, Tuple, Type, TypeVar

from . import _consort
from ._client import Event, Payload, ReadFrom, Targets, names, plain
from ._codes import Service, SlowPolicy
from ._errors import Closed, Disconnected, Error, Unread, WouldBlock

#: How many bytes of payload may wait to be received.
UNREAD_MAX = 64 << 20
#: How long the receiving thread waits before it looks whether it is still wanted, in seconds.
LOOK = 0.5

Result = TypeVar("Result")


class AsyncClient:
    """A session with a daemon, for the tasks of one event loop.

    >>> async with await AsyncClient.connect("127.0.0.1:4840") as client:
    ...     await client.join("orders")
    ...     await client.multicast(Service.AGREED, "orders", b"a pound of tea")
    ...     async for event in client:
    ...         print(event)

    Close it: its threads end then. Events that were not received wait, 64 MiB of payload at most: then nothing more is read, and sends raise
    :class:`Unread`. A task that is cancelled loses no event; what it was sending may be sent still.
    """

    def __init__(self, session: _consort.Connection) -> None:
        self._loop = asyncio.get_running_loop()
        self._sends = session
        self._receives = session.split()
        self._events: Deque[Tuple[Event, Optional[str]]] = deque()
        self._bookmark: Optional[str] = None
        self._end: Optional[BaseException] = None
        self._unread = 0
        self._came = asyncio.Event()
        self._may_read = threading.Event()
        self._may_read.set()
        self._is_wanted = True
        self._is_closing = False
        #: How many sends the sending thread has yet to do: no other one may pass them, or use the session meanwhile.
        self._queued = 0
        self._flush_is_due = False
        self._sender = ThreadPoolExecutor(1, "consort-send")
        self._receiver = threading.Thread(target=self._receive_all, name="consort-receive", daemon=True)
        self._receiver.start()

    @classmethod
    async def connect(
        cls,
        address: str,
        *,
        name: Optional[str] = None,
        views: bool = False,
        positions: bool = False,
        unbatched: bool = False,
        shared_memory: bool = True,
        connect_within: float = 5.0,
        send_within: Optional[float] = None,
        host_timeout: float = 2.0,
        token: Optional[str] = None,
        tls: Optional[_consort.Tls] = None,
        slow: Optional[SlowPolicy] = None,
        slow_bytes: int = 0,
        slow_time: Optional[float] = None,
    ) -> "AsyncClient":
        """Connects to a daemon; see :meth:`Client.connect`."""

        options = _consort.Options(
            name,
            views,
            positions,
            unbatched,
            shared_memory,
            connect_within,
            send_within,
            host_timeout,
            token,
            slow,
            slow_bytes,
            slow_time,
            tls,
        )

        def opens() -> _consort.Connection:
            return _consort.Connection.connect(address, options)

        return cls(await asyncio.get_running_loop().run_in_executor(None, opens))

    @property
    def name(self) -> str:
        """What the client is called."""
        return self._sends.name

    @property
    def private_name(self) -> str:
        """The name by which others send to this client alone, as to a group."""
        return self._sends.private_name

    @property
    def node(self) -> int:
        """The node of the client's daemon."""
        return self._sends.node

    @property
    def number(self) -> int:
        """The client's number at its daemon."""
        return self._sends.number

    @property
    def message_max(self) -> int:
        """The largest payload of one message, in bytes."""
        return self._sends.message_max

    async def join(self, group: str, *, closed: bool = False) -> int:
        """Asks to join a group; returns the send's number."""
        return await self._send(lambda: self._sends.join(group, closed))

    async def leave(self, group: str) -> int:
        """Asks to leave a group; returns the send's number."""
        return await self._send(lambda: self._sends.leave(group))

    async def multicast(self, service: Service, to: Targets, payload: Payload) -> int:
        """Sends a message to groups, and to clients by their private names; returns the send's number.

        What is sent is written when the loop has nothing else to do.
        """
        targets, content = names(to), plain(payload)
        self._check()
        if self._queued == 0:
            try:
                sent = self._sends.multicast(service, targets, content, False)
            except WouldBlock:
                pass
            else:
                self._flush_soon()
                return sent

        def sends() -> int:
            sent = self._sends.multicast(service, targets, content, True)
            self._sends.flush()
            return sent

        return await self._send(sends)

    async def wait_ordered(self, timeout: Optional[float] = None) -> None:
        """Waits until every send is ordered or refused."""
        await self._send(lambda: self._sends.wait_ordered(timeout))

    async def read(self, groups: Targets, from_: ReadFrom = "start") -> None:
        """Reads groups by position; see :meth:`Client.read`."""
        named, begin = names(groups), str(from_)
        await self._send(lambda: self._sends.read(named, begin))

    async def stop_reading(self) -> None:
        """Ends the reading; a :class:`ReadingEnded` follows."""
        await self._send(self._sends.stop_reading)

    @property
    def bookmark(self) -> Optional[str]:
        """How far the reading has come, behind the last message that was received."""
        return self._bookmark

    async def receive(self) -> Event:
        """The next event, in the order in which things happened."""
        self._sends.check_process()
        while not self._events:
            if self._end is not None:
                raise self._end
            if not self._is_wanted:
                raise Closed("this client was closed; connect anew")
            self._came.clear()
            await self._came.wait()
        event, bookmark = self._events.popleft()
        self._bookmark = bookmark or self._bookmark
        self._unread -= weight(event)
        if self._unread <= UNREAD_MAX:
            self._may_read.set()
        return event

    def __aiter__(self) -> "AsyncClient":
        return self

    async def __anext__(self) -> Event:
        try:
            return await self.receive()
        except Closed:
            raise StopAsyncIteration from None
        except Disconnected as end:
            if end.reason == "goodbye":
                raise StopAsyncIteration from None
            raise

    async def close(self, timeout: Optional[float] = 5.0) -> None:
        """Says good-bye, and waits until the daemon has taken all that was sent. Events that came are received still."""
        if self._is_closing:
            return
        self._sends.check_process()
        try:
            if self._end is None:
                closing = self._send(lambda: self._sends.close(timeout))
                self._is_closing = True
                await closing
                self._may_read.set()
                await self._loop.run_in_executor(None, self._receiver.join, timeout)
        finally:
            self._is_closing, self._is_wanted = True, False
            self._may_read.set()
            self._came.set()
            self._sender.shutdown(wait=False)

    async def __aenter__(self) -> "AsyncClient":
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
        # A child of fork() has none of the threads.
        self._sends.check_process()
        if self._is_closing:
            raise Closed("this client was closed; connect anew")
        if self._unread > UNREAD_MAX:
            raise Unread(f"{self._unread} bytes of events wait to be received; receive them before sending more")

    def _send(self, act: Callable[[], Result]) -> "asyncio.Future[Result]":
        """Has the sending thread do something, behind all that it has to do already."""
        self._check()
        return self._queue(act)

    def _queue(self, act: Callable[[], Result]) -> "asyncio.Future[Result]":
        def done(_: object) -> None:
            self._queued -= 1

        self._queued += 1
        # Given up or not, it is done: only then may another one be.
        doing = self._sender.submit(act)
        doing.add_done_callback(lambda _: self._tell(done, None))
        return asyncio.wrap_future(doing)

    def _flush_soon(self) -> None:
        """Flushes once, however much is sent in one turn of the loop."""
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        if not self._is_closing:
            # What ended the session is told by the thread that receives.
            self._queue(self._sends.flush).add_done_callback(lambda flushing: flushing.exception())

    def _receive_all(self) -> None:
        """What the receiving thread does."""
        while self._is_wanted:
            self._may_read.wait()
            try:
                event = self._receives.receive(LOOK)
            except BaseException as end:
                # Whatever it is: who waits for events is told.
                self._tell(self._ended, end)
                return
            if event is not None:
                self._tell(self._received, (event, self._receives.bookmark if reads(event) else None))

    def _tell(self, act: Callable[[Result], None], what: Result) -> None:
        try:
            self._loop.call_soon_threadsafe(act, what)
        except RuntimeError:
            # The loop is closed: nobody listens any more.
            self._is_wanted = False

    def _received(self, what: Tuple[Event, Optional[str]]) -> None:
        self._events.append(what)
        self._unread += weight(what[0])
        if self._unread > UNREAD_MAX and not self._is_closing:
            self._may_read.clear()
        self._came.set()

    def _ended(self, end: BaseException) -> None:
        self._end = end
        self._came.set()


def weight(event: object) -> int:
    """How many bytes of payload an event keeps."""
    return len(event.payload) if isinstance(event, _consort.Message) else 0


def reads(event: object) -> bool:
    """Whether a reading has come further with this event."""
    if isinstance(event, _consort.Message):
        return event.was_read
    return isinstance(event, (_consort.ReadingBegan, _consort.CaughtUp, _consort.Gap))
