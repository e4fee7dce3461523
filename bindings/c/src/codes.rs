//! The numbers that C sees. Those of services, causes, refusals and reasons are the session protocol's.
use consort::{
    ChangeCause, DisconnectReason, Event, Fate, Primary, ReadingStatus, RefusalCause, Service, SessionEvent,
};

/// So many bytes hold any bookmark, with the zero byte at its end.
pub const CONSORT_BOOKMARK_MAX: usize = 2048;

/// What a call came to.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum consort_code {
    /// It is done.
    CONSORT_OK = 0,
    /// Nothing came in time. That is no failure.
    CONSORT_NOTHING = 1,
    /// An argument is null, no name, no text, or out of range. Nothing was done.
    CONSORT_INVALID = 2,
    /// Another thread uses this client or session. Nothing was done.
    CONSORT_BUSY = 3,
    /// This half of a client that was split does not do that, or the client or session was closed. Nothing was done.
    CONSORT_WRONG_HALF = 4,
    /// It cannot be had here, as the text says.
    CONSORT_UNSUPPORTED = 5,
    /// No connection came about.
    CONSORT_CANNOT_CONNECT = 6,
    /// Something answers there, but not as a daemon does.
    CONSORT_NO_DAEMON = 7,
    /// The daemon refused the session: consort_last_reason().
    CONSORT_NOT_WELCOME = 8,
    /// The time allowed was not enough. A send that was waited with was not sent.
    CONSORT_TIMED_OUT = 9,
    /// Too many bytes are under way for this send to follow now. It was not sent.
    CONSORT_WOULD_BLOCK = 10,
    /// The payload is larger than this cluster allows. It was not sent.
    CONSORT_TOO_LARGE = 11,
    /// To no group, or to more than a message may name. It was not sent.
    CONSORT_TARGETS = 12,
    /// Too many events wait to be received. Receive them before sending more.
    CONSORT_UNREAD = 13,
    /// The half that receives was freed, so nobody hears of free credit.
    CONSORT_NOBODY_RECEIVES = 14,
    /// The connection to the daemon broke: consort_last_unknown_fate().
    CONSORT_CONNECTION_LOST = 15,
    /// The daemon ended the session: consort_last_reason(), consort_last_unknown_fate().
    CONSORT_DISCONNECTED = 16,
    /// A fault of this library. Free the client; it does nothing any more.
    CONSORT_INTERNAL = 17,
    /// No daemon of a session could be reached for as long as was allowed. Its sends are of unknown fate.
    CONSORT_UNREACHABLE = 18,
    /// Another session sends as this one's producer. Nothing more is sent here.
    CONSORT_TAKEN_OVER = 19,
    /// The daemons cannot keep account of what a session sends, as the text says.
    CONSORT_NOT_OPENED = 20,
    /// The client or session is the parent's of this process: make one here after fork(). Nothing was done.
    CONSORT_FORKED = 21,
}

/// What a sender asks for one message.
#[repr(i32)]
pub enum consort_service {
    /// Delivered to all members that stay.
    CONSORT_RELIABLE = 1,
    /// After the sender's earlier messages.
    CONSORT_FIFO = 2,
    /// After all messages that the sender had received or sent before.
    CONSORT_CAUSAL = 3,
    /// In one total order at all members.
    CONSORT_AGREED = 4,
    /// Agreed, and only once every member of the view is known to hold it.
    CONSORT_SAFE = 5,
}

/// What kind of event.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum consort_event_kind {
    /// None: the event is null.
    CONSORT_EVENT_NONE = 0,
    /// The next message of the order for a group this client is in.
    CONSORT_EVENT_MESSAGE = 1,
    /// A group this client is in changed, here in the order.
    CONSORT_EVENT_GROUP_VIEW = 2,
    /// Some members of a group do not move along into the next view: what follows until the next group view is promised
    /// only among those that do.
    CONSORT_EVENT_GROUP_SIGNAL = 3,
    /// The network changed, here in the order.
    CONSORT_EVENT_VIEW = 4,
    /// One send was not taken, or changed nothing.
    CONSORT_EVENT_REFUSED = 5,
    /// One that this version of the library does not tell. Ignore it.
    CONSORT_EVENT_OTHER = 6,
    /// The next message of a reading: consort_read(). Told as CONSORT_EVENT_MESSAGE otherwise.
    CONSORT_EVENT_READ = 7,
    /// A reading begins: the messages follow.
    CONSORT_EVENT_READING_BEGAN = 8,
    /// All that there was is read; messages that follow are new.
    CONSORT_EVENT_CAUGHT_UP = 9,
    /// What stands from one place to another cannot be read any more; that one is not included. The reading goes on there.
    CONSORT_EVENT_GAP = 10,
    /// A reading was refused, or is over.
    CONSORT_EVENT_READING_ENDED = 11,
    /// What became of a session's send: one for each.
    CONSORT_EVENT_SENT = 12,
    /// A session's join was refused.
    CONSORT_EVENT_JOIN_REFUSED = 13,
    /// A session is connected, at first or again. Groups were joined again: messages between the loss and the group's next
    /// view are not received. What is read goes on where it was.
    CONSORT_EVENT_CONNECTED = 14,
    /// A session's connection was lost, or left for a daemon that may know what was read; others are tried.
    CONSORT_EVENT_LOST = 15,
    /// The daemons' history is another than the one that a session read: behind a place that both have, or, where there is
    /// none, at all. What was read behind it is not in theirs. The reading goes on there, or with the oldest that is
    /// retained.
    CONSORT_EVENT_PARTED = 16,
    /// A session's sends wait.
    CONSORT_EVENT_WAITS = 17,
    /// A session goes on with the producer that it was given.
    CONSORT_EVENT_RESUMED = 18,
}

/// What became of a session's send.
#[repr(i32)]
pub enum consort_fate {
    /// It is ordered, once, and stays so.
    CONSORT_FATE_ORDERED = 1,
    /// It is not ordered, and never will be.
    CONSORT_FATE_REFUSED = 2,
    /// Nobody knows: it may be ordered or not. The daemons have forgotten the producer.
    CONSORT_FATE_FORGOTTEN = 3,
}

/// Why there is no reading by position, or none any more.
#[repr(i32)]
pub enum consort_reading_end {
    /// What was asked for is not retained any more.
    CONSORT_READING_TRIMMED = 1,
    /// The order does not reach that far.
    CONSORT_READING_BEYOND_END = 2,
    /// The daemon's ordering protocol retains nothing.
    CONSORT_READING_UNSUPPORTED = 3,
    /// A closed group that the client is not in.
    CONSORT_READING_CLOSED = 4,
    /// What no group can be called.
    CONSORT_READING_BAD_GROUP = 5,
    /// The position belongs to another order than the daemon's.
    CONSORT_READING_OTHER_ORDER = 6,
    /// The client ended it, or began another.
    CONSORT_READING_ENDED = 7,
    /// The daemon's history is another than the one that was read.
    CONSORT_READING_PARTED = 8,
    /// The rules do not let the client receive what is sent to a group.
    CONSORT_READING_DENIED = 9,
}

/// What a daemon does about a client that does not read.
#[repr(i32)]
pub enum consort_slow {
    /// Keeps some bytes for it, then sends it away.
    CONSORT_SLOW_DISCONNECT = 1,
    /// Keeps what it has yet to read on disk.
    CONSORT_SLOW_SPOOL = 2,
    /// Has those wait who send to its groups.
    CONSORT_SLOW_BLOCK = 3,
    /// Takes it out of its groups; it may read them by position.
    CONSORT_SLOW_DEMOTE = 4,
}

/// Why a group changed.
#[repr(i32)]
pub enum consort_cause {
    /// A client joined.
    CONSORT_CAUSE_JOIN = 1,
    /// A client left.
    CONSORT_CAUSE_LEAVE = 2,
    /// A client's connection to its daemon ended.
    CONSORT_CAUSE_DISCONNECT = 3,
    /// Daemons went or came, and their clients with them.
    CONSORT_CAUSE_NETWORK = 4,
    /// Nobody came or went: the members have become the primary part, or are it no more.
    CONSORT_CAUSE_PRIMARY = 5,
}

/// Whether members may act as the primary part of the network.
#[repr(i32)]
pub enum consort_primary {
    /// They may.
    CONSORT_PRIMARY_YES = 1,
    /// They may once all are known to be there.
    CONSORT_PRIMARY_PENDING = 2,
    /// They may not.
    CONSORT_PRIMARY_NO = 3,
    /// No policy is configured: it is not asked.
    CONSORT_PRIMARY_NO_POLICY = 4,
}

/// Why a send was refused.
#[repr(i32)]
pub enum consort_refusal {
    /// More bytes under way than the credit allows.
    CONSORT_REFUSED_BUDGET = 1,
    /// Larger than this cluster allows.
    CONSORT_REFUSED_TOO_LARGE = 2,
    /// More groups than one message may name.
    CONSORT_REFUSED_TOO_MANY_TARGETS = 3,
    /// The daemon is leaving and takes no more.
    CONSORT_REFUSED_LEAVING = 4,
    /// The daemon's ordering protocol has no place for it.
    CONSORT_REFUSED_UNSUPPORTED = 5,
    /// A join of a group the client is in.
    CONSORT_REFUSED_ALREADY_MEMBER = 6,
    /// A leave of a group the client is not in.
    CONSORT_REFUSED_NOT_MEMBER = 7,
    /// The client is in as many groups as it may be.
    CONSORT_REFUSED_TOO_MANY_GROUPS = 8,
    /// The message names a closed group that the client is not in.
    CONSORT_REFUSED_CLOSED = 9,
    /// All groups together take as much memory as they may.
    CONSORT_REFUSED_GROUPS_FULL = 10,
    /// A Spread client among the receivers could not be told the message.
    CONSORT_REFUSED_NOT_REPRESENTABLE = 11,
    /// A producer's message in a part of the network that does not count for producers.
    CONSORT_REFUSED_NOT_PRIMARY = 12,
    /// A producer's message that does not follow its last one.
    CONSORT_REFUSED_MISSING = 13,
    /// A producer's message after it was opened elsewhere.
    CONSORT_REFUSED_FENCED = 14,
    /// A message of a producer that is not known any more.
    CONSORT_REFUSED_FORGOTTEN = 15,
    /// The rules do not let the client do it.
    CONSORT_REFUSED_DENIED = 16,
    /// The client does not read, and was made to leave the group.
    CONSORT_REFUSED_DEMOTED = 17,
    /// A message to groups of rings that no ring covers together.
    CONSORT_REFUSED_ACROSS_RINGS = 18,
}

/// Why a daemon ends a session, or opens none.
#[repr(i32)]
pub enum consort_reason {
    /// The client said good-bye.
    CONSORT_REASON_GOODBYE = 1,
    /// The client sent what is no frame of the protocol.
    CONSORT_REASON_MALFORMED = 2,
    /// The client speaks another version.
    CONSORT_REASON_VERSION = 3,
    /// The connection did not complete what it had begun in time.
    CONSORT_REASON_SILENT = 4,
    /// The client did not read what was waiting for it.
    CONSORT_REASON_SLOW = 5,
    /// The daemon stops.
    CONSORT_REASON_STOPPING = 6,
    /// Another client of this daemon is called so.
    CONSORT_REASON_NAME_TAKEN = 7,
    /// The client's user may not use this daemon.
    CONSORT_REASON_NOT_ALLOWED = 8,
    /// The daemon has as many clients as it may have.
    CONSORT_REASON_TOO_MANY_CLIENTS = 9,
    /// The daemon starts anew at once; connect again.
    CONSORT_REASON_RESTARTING = 10,
    /// What the client had yet to read could not be kept on disk.
    CONSORT_REASON_SPOOL_FAILED = 11,
    /// The rules do not let the client be called so, or have one more connection.
    CONSORT_REASON_DENIED = 12,
    /// The client has to prove who it is, by a token or a certificate, and has not.
    CONSORT_REASON_UNPROVEN = 13,
    /// What the client showed is no token.
    CONSORT_REASON_TOKEN_MALFORMED = 14,
    /// The client's token was not given out here, or not any more.
    CONSORT_REASON_TOKEN_UNKNOWN = 15,
    /// The client's token is too old.
    CONSORT_REASON_TOKEN_EXPIRED = 16,
}

impl consort_event_kind {
    pub(crate) const fn of(event: &SessionEvent) -> Self {
        match event {
            SessionEvent::Event(event) => Self::of_client(event),
            SessionEvent::Sent { .. } => Self::CONSORT_EVENT_SENT,
            SessionEvent::JoinRefused { .. } => Self::CONSORT_EVENT_JOIN_REFUSED,
            SessionEvent::Connected { .. } => Self::CONSORT_EVENT_CONNECTED,
            SessionEvent::Lost { .. } => Self::CONSORT_EVENT_LOST,
            SessionEvent::Gap { .. } => Self::CONSORT_EVENT_GAP,
            SessionEvent::Parted { .. } => Self::CONSORT_EVENT_PARTED,
            SessionEvent::Waits(_) => Self::CONSORT_EVENT_WAITS,
            SessionEvent::Resumed { .. } => Self::CONSORT_EVENT_RESUMED,
            _ => Self::CONSORT_EVENT_OTHER,
        }
    }

    const fn of_client(event: &Event) -> Self {
        match event {
            Event::Message(_) => Self::CONSORT_EVENT_MESSAGE,
            Event::Read(_) => Self::CONSORT_EVENT_READ,
            Event::Reading(ReadingStatus::Began { .. }) => Self::CONSORT_EVENT_READING_BEGAN,
            Event::Reading(ReadingStatus::CaughtUp { .. }) => Self::CONSORT_EVENT_CAUGHT_UP,
            Event::Reading(ReadingStatus::Lost { .. } | ReadingStatus::Gap { .. }) => Self::CONSORT_EVENT_GAP,
            Event::Reading(ReadingStatus::Ended(_)) => Self::CONSORT_EVENT_READING_ENDED,
            Event::GroupView(_) => Self::CONSORT_EVENT_GROUP_VIEW,
            Event::GroupSignal(_) => Self::CONSORT_EVENT_GROUP_SIGNAL,
            Event::View(_) => Self::CONSORT_EVENT_VIEW,
            Event::Refused { .. } => Self::CONSORT_EVENT_REFUSED,
            _ => Self::CONSORT_EVENT_OTHER,
        }
    }
}

/// A consort_fate.
pub(crate) const fn fate(fate: &Fate) -> i32 {
    match fate {
        Fate::Ordered { .. } => consort_fate::CONSORT_FATE_ORDERED as i32,
        Fate::Refused(_) => consort_fate::CONSORT_FATE_REFUSED as i32,
        Fate::Forgotten => consort_fate::CONSORT_FATE_FORGOTTEN as i32,
    }
}

/// The service with this number.
pub(crate) fn service(number: i32) -> Option<Service> {
    u8::try_from(number).ok().and_then(Service::from_wire)
}

pub(crate) const fn cause(cause: ChangeCause) -> i32 {
    cause as i32
}

pub(crate) fn primary(primary: Primary) -> i32 {
    primary.to_wire().into()
}

pub(crate) const fn refusal(cause: RefusalCause) -> i32 {
    cause as i32
}

pub(crate) const fn reason(reason: DisconnectReason) -> i32 {
    reason as i32
}
