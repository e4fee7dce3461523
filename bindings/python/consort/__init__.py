"""Ordered, reliable multicast: a client of a Consort daemon.

:class:`Client` waits; :class:`AsyncClient` is for asyncio. Both receive events in one order: messages, and changes of the
groups they are in. Exceptions are named by cause, below :class:`Error`.
"""

from ._async import AsyncClient
from ._client import Client, Event, Receiver, Sender
from ._codes import Cause, Primary, Refusal, Service
from ._consort import (
    GroupSignal,
    GroupView,
    Member,
    Message,
    Refused,
    View,
    ViewId,
    __version__,
)
from ._errors import (
    BadTargets,
    Busy,
    CannotConnect,
    Closed,
    ConnectionLost,
    Disconnected,
    Error,
    InvalidArgument,
    NobodyReceives,
    NoDaemon,
    NotWelcome,
    TimedOut,
    TooLarge,
    Unread,
    WouldBlock,
)

__all__ = [
    "AsyncClient",
    "BadTargets",
    "Busy",
    "CannotConnect",
    "Cause",
    "Client",
    "Closed",
    "ConnectionLost",
    "Disconnected",
    "Error",
    "Event",
    "GroupSignal",
    "GroupView",
    "InvalidArgument",
    "Member",
    "Message",
    "NoDaemon",
    "NobodyReceives",
    "NotWelcome",
    "Primary",
    "Receiver",
    "Refusal",
    "Refused",
    "Sender",
    "Service",
    "TimedOut",
    "TooLarge",
    "Unread",
    "View",
    "ViewId",
    "WouldBlock",
    "__version__",
]
