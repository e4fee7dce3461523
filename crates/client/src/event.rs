//! What a program receives.
use crate::Status;
use consort_session::{
    self as session, BorrowedMessage, Bound, DeclareStatus, GroupSignal, GroupView, Message, NetworkView, Offer,
    ProducerStatus, ReadingStatus, Refusal, RotationStatus,
};
use consort_types::Copies;

/// What happened, in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The next message of the order for a group this client is in.
    Message(Message),
    /// The next message of a reading: [`Client::read`](crate::Client::read).
    Read(Message),
    /// How a reading is: that it began, that all there is was told, that something is lost, that it is refused or over.
    Reading(ReadingStatus),
    /// How this client's producer is; a [`Session`](crate::Session) takes these for itself.
    Producer(ProducerStatus),
    /// What became of a checkpoint that this client declared: [`Client::declare`](crate::Client::declare).
    Declared(DeclareStatus),
    /// What the order knows of the copies of a program: [`Client::ask_copies`](crate::Client::ask_copies).
    Copies(Copies),
    /// What became of a copy that this client wants bound: [`Client::bind`](crate::Client::bind).
    Bound(Bound),
    /// What became of this client's request that all daemons seal with the next key: [`Client::rotate_key`](crate::Client::rotate_key).
    Rotated(RotationStatus),
    /// The same before its place is final. Only optimistic clients get offers, and they get no messages.
    Offer(Offer),
    /// An offered message will stand elsewhere, or nowhere: as if it had not been offered.
    Revoke {
        /// The offer's number.
        offer: u64,
    },
    /// An offered message is the next one of the order.
    Confirm {
        /// The offer's number.
        offer: u64,
    },
    /// A group this client is in changed, here in the order.
    GroupView(GroupView),
    /// Some members of a group this client is in do not move along into the next network view: what follows until the
    /// next group view is promised only among those that do.
    GroupSignal(GroupSignal),
    /// The network changed, here in the order.
    View(NetworkView),
    /// One send was not taken, or changed nothing.
    Refused {
        /// Its number.
        send: u64,
        /// Why.
        refusal: Refusal,
    },
    /// The daemon's status.
    Status(Status),
}

/// An event, for as long as it is looked at: what [`Client::receive_borrowed`](crate::Client::receive_borrowed) shows.
#[derive(Debug)]
pub enum Shown<'a> {
    /// The next message of the order for a group this client is in; its `to_kept` makes a copy.
    Message(BorrowedMessage<'a>),
    /// Any other event.
    Other(Event),
}

impl Shown<'_> {
    /// Shows an event that was received: one.
    pub(crate) fn show(event: Event, see: &mut impl FnMut(Shown<'_>)) -> usize {
        match event {
            Event::Message(message) => see(Shown::Message(message.borrowed())),
            other => see(Shown::Other(other)),
        }
        1
    }
}

/// As the daemon told it.
impl From<Event> for session::DaemonEvent {
    fn from(event: Event) -> Self {
        match event {
            Event::Message(message) => Self::Message(message),
            Event::Read(message) => Self::Read(message),
            Event::Reading(status) => Self::Reading(status),
            Event::Producer(status) => Self::Producer(status),
            Event::Declared(status) => Self::Declared(status),
            Event::Copies(copies) => Self::Copies(copies),
            Event::Bound(bound) => Self::Bound(bound),
            Event::Rotated(status) => Self::Rotated(status),
            Event::Offer(offer) => Self::Offer(offer),
            Event::Revoke { offer } => Self::Revoke(offer),
            Event::Confirm { offer } => Self::Confirm(offer),
            Event::GroupView(view) => Self::GroupView(view),
            Event::GroupSignal(signal) => Self::GroupSignal(signal),
            Event::View(view) => Self::View(view),
            Event::Refused { send, refusal } => Self::Refused { request: send, refusal },
            Event::Status(status) => Self::Status(status.into_pairs()),
        }
    }
}

impl Event {
    /// A message, to a member or a reader.
    pub(crate) fn of(message: Message) -> Self {
        if message.is_read() { Self::Read(message) } else { Self::Message(message) }
    }

    /// About how many bytes it keeps.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Message(message) | Self::Read(message) | Self::Offer(Offer { message, .. }) => {
                    message.payload().len()
                }
                Self::GroupView(view) => {
                    size_of_val(&view.members[..]) + size_of_val(&view.who[..]) + 2 * view.sets.len()
                }
                Self::GroupSignal(_) | Self::View(_) | Self::Refused { .. } | Self::Status(_) => 0,
                Self::Reading(_) | Self::Producer(_) | Self::Declared(_) | Self::Rotated(_) => 0,
                Self::Copies(copies) => copies.seats.iter().map(|seat| size_of_val(seat) + seat.label.len()).sum(),
                Self::Bound(_) => 0,
                Self::Revoke { .. } | Self::Confirm { .. } => 0,
            }
    }
}
