"""The blocking client."""

from __future__ import annotations

from types import TracebackType
from typing import Iterator, Optional, Sequence, Tuple, Type, TypeVar, Union

from . import _consort
from ._codes import Service, SlowPolicy
from ._errors import Closed, Disconnected, Error

Event = Union[
    _consort.Message,
    _consort.GroupView,
    _consort.GroupSignal,
    _consort.View,
    _consort.Refused,
    _consort.ReadingBegan,
    _consort.CaughtUp,
    _consort.Gap,
    _consort.ReadingEnded,
]
#: Where a reading begins: ``"start"`` is the oldest message that there is, ``"new"`` what comes; or a position, or a bookmark.
ReadFrom = Union[int, str]
Payload = Union[bytes, bytearray, memoryview]
Targets = Union[str, Sequence[str]]
Self = TypeVar("Self", bound="_Half")


def names(to: Targets) -> Sequence[str]:
    return [to] if isinstance(to, str) else list(to)


def plain(payload: Payload) -> bytes:
    # Of a number `bytes` makes as many zeros.
    return payload if isinstance(payload, bytes) else memoryview(payload).tobytes()


class _Half:
    """What whole clients and both halves have in common."""

    def __init__(self, session: _consort.Connection) -> None:
        self._session = session

    @property
    def name(self) -> str:
        """What the client is called."""
        return self._session.name

    @property
    def private_name(self) -> str:
        """The name by which others send to this client alone, as to a group."""
        return self._session.private_name

    @property
    def node(self) -> int:
        """The node of the client's daemon."""
        return self._session.node

    @property
    def number(self) -> int:
        """The client's number at its daemon."""
        return self._session.number

    @property
    def message_max(self) -> int:
        """The largest payload of one message, in bytes."""
        return self._session.message_max

    def close(self, timeout: Optional[float] = 5.0) -> None:
        """Says good-bye. A whole client waits until the daemon has taken all that was sent."""
        self._session.close(timeout)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        try:
            self.close()
        except Error:
            # The first failure says more than that the end failed, too.
            if error is None:
                raise


class _Sends(_Half):
    def join(self, group: str, *, closed: bool = False) -> int:
        """Asks to join a group; returns the send's number. The group view that follows says that it happened.

        With ``closed``, only members may send to the group from here on, if it has no members yet.
        """
        return self._session.join(group, closed)

    def leave(self, group: str) -> int:
        """Asks to leave a group; returns the send's number."""
        return self._session.leave(group)

    def multicast(self, service: Service, to: Targets, payload: Payload) -> int:
        """Sends a message to groups, and to clients by their private names; returns the send's number.

        Waits for credit. Sends are collected for a while: :meth:`flush`.
        """
        return self._session.multicast(service, names(to), plain(payload), True)

    def try_multicast(self, service: Service, to: Targets, payload: Payload) -> int:
        """The same, but raises :class:`WouldBlock` where it would wait for credit."""
        return self._session.multicast(service, names(to), plain(payload), False)

    def flush(self) -> None:
        """Writes all that was collected. So do joins, leaves, and every wait."""
        self._session.flush()

    def wait_ordered(self, timeout: Optional[float] = None) -> None:
        """Waits until every send is ordered or refused."""
        self._session.wait_ordered(timeout)

    def read(self, groups: Targets, from_: ReadFrom = "start") -> None:
        """Reads by position what groups were sent, and then what comes. No group is joined, and nobody learns of it.

        :class:`ReadingBegan` says that it begins, or :class:`ReadingEnded` why not; each message is a :class:`Message`
        with ``was_read``. A client has one reading; another one ends it.
        """
        self._session.read(names(groups), str(from_))

    def stop_reading(self) -> None:
        """Ends the reading. What was told before is received still, then a :class:`ReadingEnded`."""
        self._session.stop_reading()

    def progress(self) -> Tuple[int, int]:
        """The numbers of the last send, and of the last that is ordered or refused with all before it."""
        return self._session.progress()


class _Receives(_Half):
    def receive(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The next event, in the order in which things happened; None if none came in so many seconds."""
        return self._session.receive(timeout)

    def try_receive(self) -> Optional[Event]:
        """The next event if one is here; waits for nothing."""
        return self._session.receive(0)

    @property
    def bookmark(self) -> Optional[str]:
        """How far the reading has come, behind the last message that was received: with this it goes on later, at any
        daemon. None before any began."""
        return self._session.bookmark

    def __iter__(self) -> Iterator[Event]:
        """All events, until this client says good-bye. Any other end is raised."""
        while True:
            try:
                event = self.receive()
            except Closed:
                return
            except Disconnected as end:
                if end.reason == "goodbye":
                    return
                raise
            if event is not None:
                yield event


class Sender(_Sends):
    """The half of a client that sends, for one thread."""


class Receiver(_Receives):
    """The half of a client that receives, for one thread. The sender hears of free credit only while it is read."""


class Client(_Sends, _Receives):
    """A session with a daemon, for one thread at a time: a second one gets :class:`Busy`.

    >>> with Client.connect("127.0.0.1:4840") as client:
    ...     client.join("orders")
    ...     client.multicast(Service.AGREED, "orders", b"a pound of tea")
    ...     for event in client:
    ...         print(event)
    """

    @classmethod
    def connect(
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
    ) -> "Client":
        """Connects to a daemon: at a path of a Unix socket, with a slash in it, or at ``host:port``.

        ``views`` asks for views of the network, ``positions`` for the position of each message. Times are seconds.
        ``token`` proves who the client is, where the daemon asks for it; ``consort token`` makes it.

        ``tls`` has TLS 1.3 spoken with a daemon at ``host:port``, at an address of ``listen_tls``: see :class:`Tls`. A Unix
        socket has no TLS, and this says nothing there.

        ``host_timeout`` is how long a daemon at ``host:port`` may be silent before the connection is given up, as
        :class:`ConnectionLost`: 1.0 to 21600.0. Its machine has vanished then, or the daemon is stopped for that long.
        A daemon of this machine, at a Unix socket, is given up after 10 s. Only the time in which the client waits for
        something counts.

        ``slow`` says what the daemon does if this client does not read, ``slow_bytes`` and ``slow_time`` with which
        budgets; 0 and None are the daemon's own, which bound any other. A daemon that does not allow the policy refuses
        the session for ``not_allowed``.
        """
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
        return cls(_consort.Connection.connect(address, options))

    def split(self) -> Tuple[Sender, Receiver]:
        """Makes two halves for two threads. The client itself does nothing any more but send."""
        receiver = Receiver(self._session.split())
        return Sender(self._session), receiver
