"""What can go wrong. Each exception says what, where, and what to do."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """A call failed."""

    #: The daemon's reason, such as ``"name_taken"``, where it gave one.
    reason: Optional[str]
    #: The numbers of the sends that may be ordered still, or never.
    unknown_fate: range

    def __init__(self, text: str, reason: Optional[str] = None, first: int = 0, end: int = 0) -> None:
        super().__init__(text)
        self.reason = reason
        self.unknown_fate = range(first, end)


class InvalidArgument(Error, ValueError):
    """An argument is no name, no address, or out of range. Nothing was done."""


class Busy(Error):
    """Another thread uses this client. Nothing was done."""


class Closed(Error):
    """The client was closed. Nothing was done."""


class Forked(Error):
    """The client is the parent's of this process: make one here, after the fork. Nothing was done."""


class CannotConnect(Error, ConnectionError):
    """No connection came about."""


class NoDaemon(Error, ConnectionError):
    """Something answers there, but not as a daemon does."""


class NotWelcome(Error, ConnectionError):
    """The daemon refused the session, for ``reason``."""


class TimedOut(Error, TimeoutError):
    """The time allowed was not enough. A send that was waited with was not sent."""


class WouldBlock(Error):
    """Too many bytes are under way for this send to follow now. It was not sent."""


class TooLarge(Error, ValueError):
    """The payload is larger than this cluster allows. It was not sent."""


class BadTargets(Error, ValueError):
    """To no group, or to more than a message may name. It was not sent."""


class Unread(Error):
    """Too many events wait to be received. Receive them before sending more."""


class NobodyReceives(Error):
    """The half that receives is gone, so nobody hears of free credit."""


class ConnectionLost(Error, ConnectionError):
    """The connection to the daemon broke, which leaves sends of ``unknown_fate``."""


class Disconnected(Error, ConnectionError):
    """The daemon ended the session for ``reason``, which leaves sends of ``unknown_fate``."""


class Unreachable(Error, ConnectionError):
    """No daemon of a session could be reached for as long as was allowed. Its sends are of unknown fate."""


class TakenOver(Error):
    """Another session sends as this one's producer. Nothing more is sent here."""


class NotOpened(Error, ConnectionError):
    """The daemons cannot keep account of what a session sends, for ``reason``."""
