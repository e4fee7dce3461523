"""Numbers with names: those of the session protocol."""

from enum import IntEnum


class Service(IntEnum):
    """What a sender asks for one message."""

    #: Delivered to all members that stay.
    RELIABLE = 1
    #: After the sender's earlier messages.
    FIFO = 2
    #: After all messages that the sender had received or sent before.
    CAUSAL = 3
    #: In one total order at all members.
    AGREED = 4
    #: Agreed, and only once every member of the view is known to hold it.
    SAFE = 5


class Cause(IntEnum):
    """Why a group changed."""

    JOIN = 1
    LEAVE = 2
    #: A client's connection to its daemon ended.
    DISCONNECT = 3
    #: Daemons went or came, and their clients with them.
    NETWORK = 4
    #: Nobody came or went: the members have become the primary part, or are it no more.
    PRIMARY = 5


class Primary(IntEnum):
    """Whether members may act as the primary part of the network."""

    YES = 1
    PENDING = 2
    NO = 3
    #: No policy is configured: it is not asked.
    NO_POLICY = 4


class Refusal(IntEnum):
    """Why a send was refused."""

    BUDGET = 1
    TOO_LARGE = 2
    TOO_MANY_TARGETS = 3
    LEAVING = 4
    UNSUPPORTED = 5
    ALREADY_MEMBER = 6
    NOT_MEMBER = 7
    TOO_MANY_GROUPS = 8
    CLOSED = 9
    GROUPS_FULL = 10
    NOT_REPRESENTABLE = 11
    NOT_PRIMARY = 12
    MISSING = 13
    FENCED = 14
    FORGOTTEN = 15
    DENIED = 16
    DEMOTED = 17
    ACROSS_RINGS = 18


class SlowPolicy(IntEnum):
    """What a daemon does about a client that does not read."""

    #: Keeps some bytes for it, then sends it away.
    DISCONNECT = 1
    #: Keeps what it has yet to read on disk.
    SPOOL = 2
    #: Has those wait who send to its groups.
    BLOCK = 3
    #: Takes it out of its groups; it may read them by position.
    DEMOTE = 4


class Fate(IntEnum):
    """What became of a send of a session."""

    #: It is ordered, once, and stays so.
    ORDERED = 1
    #: It is not ordered, and never will be.
    REFUSED = 2
    #: Nobody knows: it may be ordered or not. The daemons have forgotten the producer.
    FORGOTTEN = 3


class ReadingEnd(IntEnum):
    """Why there is no reading by position, or none any more."""

    #: What was asked for is not retained any more.
    TRIMMED = 1
    #: The order does not reach that far.
    BEYOND_END = 2
    #: The daemon's ordering protocol retains nothing.
    UNSUPPORTED = 3
    #: A closed group that the client is not in.
    CLOSED = 4
    #: What no group can be called.
    BAD_GROUP = 5
    #: The position belongs to another order than the daemon's.
    OTHER_ORDER = 6
    #: The client ended it, or began another.
    ENDED = 7
    #: The daemon's history is another than the one that was read.
    PARTED = 8
    #: The rules do not let the client receive what is sent to a group.
    DENIED = 9
