"""The session over several daemons, blocking."""

from __future__ import annotations

from types import TracebackType
from typing import Iterator, Optional, Sequence, Type, Union

from . import _consort
from ._client import Event, Payload, ReadFrom, Targets, names, plain
from ._codes import Service, SlowPolicy
from ._errors import Closed, Error

SessionEvent = Union[
    Event,
    _consort.Sent,
    _consort.JoinRefused,
    _consort.Connected,
    _consort.Lost,
    _consort.Parted,
    _consort.Waits,
    _consort.Resumed,
]


class Session:
    """A session over several daemons, for one thread at a time: when its daemon is lost it goes on at the next.

    >>> with Session.connect(["10.0.0.1:4840", "10.0.0.2:4840"]) as session:
    ...     send = session.send(Service.AGREED, "orders", b"a pound of tea")
    ...     print(session.outcome(send))

    Each send has exactly one fate, told as :class:`Sent`: one whose fate is not known when a connection is lost is asked
    about, not repeated. Groups are joined again. A reading goes on where it was: each message once, in order; what cannot be
    told is told as :class:`Gap` or :class:`Parted`.

    It needs a policy that says which part of a parted network goes on: ``primary = "majority"``, or ``protocol =
    "paxos"``. In another part sends wait.
    """

    def __init__(self, session: _consort.Session, send_within: Optional[float]) -> None:
        self._session = session
        self._send_within = send_within

    @classmethod
    def connect(
        cls,
        daemons: Sequence[str],
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
        unsettled_max: int = 4 << 20,
        reconnect_within: float = 60.0,
        producer: Optional[str] = None,
    ) -> "Session":
        """Connects to the first of these daemons that can be reached; addresses and options as in :meth:`Client.connect`.

        Sends wait while ``unsettled_max`` bytes have no fate, for ``send_within`` at most. Where no daemon is reached for
        ``reconnect_within`` seconds the session ends as :class:`Unreachable`. With the ``producer`` of an earlier session
        it goes on behind that one's last send, and stops it: :class:`Resumed` says how many of its sends are ordered.
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
        daemons = names(daemons)
        return cls(_consort.Session.connect(daemons, options, unsettled_max, reconnect_within, producer), send_within)

    @property
    def producer(self) -> str:
        """Whose sends these are. Store it, with the payloads of sends without a fate, for a session that goes on later. Who
        knows it may send under it."""
        return self._session.producer

    @property
    def name(self) -> Optional[str]:
        """What the client is called at the present daemon; None while there is no connection."""
        return self._session.name

    @property
    def private_name(self) -> Optional[str]:
        """The name by which others send to this client alone while it is at this daemon; likewise."""
        return self._session.private_name

    @property
    def node(self) -> Optional[int]:
        """The node of the present daemon; likewise."""
        return self._session.node

    @property
    def message_max(self) -> Optional[int]:
        """The largest payload of one message, in bytes; likewise."""
        return self._session.message_max

    @property
    def unsettled(self) -> int:
        """How many sends have no fate yet."""
        return self._session.unsettled

    @property
    def bookmark(self) -> Optional[str]:
        """How far the reading has come, behind the last message that was received. Store it: with it a reading goes on
        later, at any daemon. None before any began."""
        return self._session.bookmark

    def join(self, group: str, *, closed: bool = False) -> None:
        """Joins a group, and joins it again after each loss. A group view follows, or a :class:`JoinRefused`.

        With ``closed``, only members may send to the group from here on, if it has no members yet.
        """
        self._session.join(group, closed)

    def leave(self, group: str) -> None:
        """Leaves a group."""
        self._session.leave(group)

    def send(self, service: Service, to: Targets, payload: Payload) -> int:
        """Sends a message to groups, and to clients by their private names, once; returns the send's number.

        Its fate comes as a :class:`Sent`, or by :meth:`outcome`. Sends are collected; what finds no event and looks
        for more writes them, such as :meth:`try_receive` until it returns None. A session goes on while it is called, and
        does nothing by itself.
        """
        return self._session.send(service, names(to), plain(payload), self._send_within)

    def outcome(self, send: int, timeout: Optional[float] = None) -> _consort.Sent:
        """Waits for the fate of a send, which is not received any more then. Other events are kept for :meth:`receive`."""
        return self._session.outcome(send, timeout)

    def settle(self, timeout: Optional[float] = None) -> None:
        """Waits until every send has its fate. Events are kept."""
        self._session.settle(timeout)

    def read(self, groups: Targets, from_: ReadFrom = "start") -> None:
        """Reads by position what groups were sent, and what comes; goes on with it at the next daemon. As
        :meth:`Client.read` otherwise."""
        self._session.read(names(groups), str(from_))

    def receive(self, timeout: Optional[float] = None) -> Optional[SessionEvent]:
        """The next event; None if none came in so many seconds."""
        return self._session.receive(timeout)

    def try_receive(self) -> Optional[SessionEvent]:
        """The next event if one is here; waits for nothing but a connection that is due."""
        return self._session.receive(0)

    def __iter__(self) -> Iterator[SessionEvent]:
        """All events, until this session is closed. Any other end is raised."""
        while True:
            try:
                event = self.receive()
            except Closed:
                return
            if event is not None:
                yield event

    def close(self, timeout: Optional[float] = 5.0) -> None:
        """Waits until every send has its fate, and ends the session; the daemons forget its producer. What came is received
        still. With :class:`TimedOut` it ends all the same, and a session with its producer can go on."""
        self._session.close(timeout)

    def __enter__(self) -> "Session":
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
