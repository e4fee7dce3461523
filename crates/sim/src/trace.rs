//! What happened, as the checkers see it: one list of events, each process's own in their true order.
//!
//! A trace can be written as text and read back, so that the checkers that judge a simulation can judge any run:
//! one event per line, `<nanoseconds> <process> <what> name=value ...`.
use crate::message::{Mark, Process, ProcessIncarnation};
use consort_session::Place;
use consort_types::{Class, Instant, MessageId, NodeId, OrderStream, Position, Service, ViewId};
use std::borrow::Cow;

mod leadership;
mod producer_sends;
mod reader_steps;
mod replica_steps;
mod text;
pub mod witness;

pub use leadership::{LedRecord, LedStep};
pub use producer_sends::{NumberedRecord, NumberedStep};
pub use reader_steps::{ResumedRecord, ResumedStep};
pub use replica_steps::{REGISTERS, RegisterCommand, RegisterDeed, ReplicaRecord, ReplicaStep};
pub use text::Unreadable;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// When, on a clock that all processes share.
    pub at: Instant,
    /// To whom; [`Process::WORLD`] for what concerns all.
    pub process: Process,
    /// What.
    pub what: Occurrence,
}

/// What can happen. What a process submits, is given and is told up to its crash is its trace; a restarted node is
/// other processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// The process takes part from here on and wants every message.
    Start {
        /// It comes into a view that its node is in already, and misses what was delivered in it before.
        late: bool,
    },
    /// The process has installed a view.
    View(Box<InstallRecord>),
    /// The process, which does not take part (yet), was told that its node has installed a view.
    Network(Box<InstallRecord>),
    /// The process was told that the view is primary.
    Primary(ViewId),
    /// The process was told who is in a group of its.
    Group(Box<Grouped>),
    /// The process was told that members of a group of its do not move along.
    Signal(Box<str>),
    /// The process sent a message that is not of the workload.
    Spoke(Box<SaidMessage>),
    /// The process was given a message that is not of the workload.
    Side(Box<SaidMessage>),
    /// The process reads by position, or was given a message with its place.
    Reading(ReadingRecord),
    /// The process sends under a producer, was given what was sent so, or its node's table of producers was looked at.
    Numbered(NumberedRecord),
    /// The process reads and outlives its nodes, or was given what such readers read.
    Resumed(Box<ResumedRecord>),
    /// The process wants to lead.
    Led(Box<LedRecord>),
    /// A server with a replicated state, which the process connects, or one that calls it.
    Replica(Box<ReplicaRecord>),
    /// The process, which is none of the plan, has gone.
    Gone,
    /// The process submitted a message and it was accepted.
    Submit(Submitted),
    /// A submit was refused because a queue is full; the process waits for room.
    Wait,
    /// The process may submit again.
    Room,
    /// A submit was refused for another reason, although the limits allow it.
    Refused(Cow<'static, str>),
    /// The process asked for wake-ups in the past, over and over.
    Spins,
    /// A message was delivered to the process.
    Deliver(DeliveryRecord),
    /// The process was offered a message before its place is final.
    Offer(OfferRecord),
    /// An offer was taken back.
    Revoke(u64),
    /// An offered message has its place; it is delivered next.
    Confirm {
        /// Which offer.
        offer: u64,
        /// A sum of the message's bytes.
        sum: u64,
    },
    /// The process was told that all its own messages up to this number stand in the order.
    Ordered(u64),
    /// The process was told that all members hold everything up to a position.
    Stable {
        /// In which stream.
        stream: OrderStream,
        /// Up to where.
        up_to: Position,
        /// Who did not hold the message at that position, where the run can tell.
        missing: Vec<NodeId>,
    },
    /// A counter or gauge of the process's node had this value.
    Gauge {
        /// Which.
        name: Cow<'static, str>,
        /// Its value.
        value: u64,
    },
    /// The process's node was asked to leave.
    Leave,
    /// The process's node has said good-bye: the trace of the process ends.
    Left,
    /// The process's node crashed: the trace of the process ends.
    Crash,
    /// From here on the network and the hosts are whole, and nobody submits anything new.
    Calm,
    /// The run has been idle since all was delivered, or gave up waiting for that; gauges that follow are the last.
    Quiet,
}

/// A view of the network as a process sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstallRecord {
    /// Which configuration. A transitional view carries the name of the regular one that it closes.
    pub id: ViewId,
    /// Whether it only closes the view before it.
    pub transitional: bool,
    /// Its members, ascending.
    pub members: Vec<ProcessIncarnation>,
    /// Those of them that came here together from the process's last regular view, ascending.
    pub together: Vec<ProcessIncarnation>,
    /// Whether it may become primary.
    pub pending: bool,
}

/// A view of a group as a process sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grouped {
    /// Which group.
    pub group: Box<str>,
    /// Which configuration of nodes it was made in.
    pub id: ViewId,
    /// Its number in that.
    pub change: u64,
    /// Whether the network made it.
    pub network: bool,
    /// Whether the same membership is told once more, because whether it is primary has changed.
    pub again: bool,
    /// Whether only members may send to the group.
    pub closed: bool,
    /// Whether its members may act as the primary part.
    pub primary: bool,
    /// Its members, ascending.
    pub members: Vec<Process>,
    /// Those of them that the process was given the same messages with, ascending.
    pub together: Vec<Process>,
}

impl Grouped {
    /// What names it, with the group's name.
    pub const fn name(&self) -> (ViewId, u64) {
        (self.id, self.change)
    }
}

/// A message that is not of the workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaidMessage {
    /// Who sent it.
    pub from: Process,
    /// Its number among the sender's.
    pub count: u64,
    /// Whom it was sent to.
    pub groups: Vec<Box<str>>,
}

/// A step of a reading by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadingRecord {
    /// Which.
    pub step: ReadingStep,
    /// The message's place, the first that is read, asked for or lost.
    pub at: Place,
    /// The last position that is meant: of what is lost, of all that was told, or of the order.
    pub to: u64,
    /// A sum of the message's bytes; of a reading that begins, the order's name.
    pub sum: u64,
    /// The oldest position that there is, as the process was told.
    pub oldest: u64,
    /// The oldest position that its node retains now.
    pub retained: u64,
}

/// What is said of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingStep {
    /// A member was given a message with its place.
    Placed,
    /// A place is asked for.
    Asked,
    /// It begins.
    Began,
    /// A message was read.
    Message,
    /// All there is was told.
    CaughtUp,
    /// Something cannot be told.
    Lost,
    /// It is refused: the place is not retained any more.
    Trimmed,
    /// It is refused: the order does not reach so far.
    BeyondEnd,
    /// It is over.
    Ended,
}

impl ReadingStep {
    /// All of them, with the words for them.
    const ALL: [(Self, &'static str); 9] = [
        (Self::Placed, "placed"),
        (Self::Asked, "asked"),
        (Self::Began, "began"),
        (Self::Message, "message"),
        (Self::CaughtUp, "caught_up"),
        (Self::Lost, "lost"),
        (Self::Trimmed, "trimmed"),
        (Self::BeyondEnd, "beyond_end"),
        (Self::Ended, "ended"),
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(step, _)| *step == self).map_or("", |(_, name)| name)
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(step, _)| *step)
    }
}

/// A message that is offered before its place is final.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfferRecord {
    /// The offer's number.
    pub offer: u64,
    /// A sum of the message's bytes.
    pub sum: u64,
    /// Whether it is confirmed only when nothing is on offer that was offered before it.
    pub strict: bool,
}

/// A message that was accepted. Its origin is the event's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Submitted {
    /// Its number among the origin's.
    pub count: u64,
    /// What `submit` returned, where the process sees that.
    pub id: Option<MessageId>,
    /// Control or client.
    pub class: Option<Class>,
    /// The level that was asked for.
    pub service: Service,
    /// Its length in bytes.
    pub len: u64,
}

/// A delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// Which message it is by its bytes; `None` where nobody submitted such a message, or where it is `nameless`.
    pub mark: Option<Mark>,
    /// It is too short to carry its name, its sender submitted several such, and what was delivered before does not
    /// tell which of them it is.
    pub nameless: bool,
    /// Whether all bytes are as submitted.
    pub intact: bool,
    /// Which node sent it, according to the delivery; if the process is told, in which incarnation, and which client.
    pub sender: Option<DeliverySender>,
    /// In which order it stands.
    pub stream: OrderStream,
    /// Where, if the process is told.
    pub position: Option<Position>,
    /// Control or client, according to the delivery, if the process is told.
    pub class: Option<Class>,
    /// The service level, according to the delivery.
    pub service: Service,
    /// The id with which it was given back to its sender.
    pub own: Option<MessageId>,
    /// Its length in bytes.
    pub len: u64,
    /// Members of the view that did not hold it at this moment, where the run can tell and the message is safe.
    pub missing: Vec<NodeId>,
}

/// Who sent a message, as far as a delivery tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliverySender {
    /// Which node.
    pub node: NodeId,
    /// Which of its incarnations.
    pub incarnation: Option<u16>,
    /// Which of its clients.
    pub client: Option<u16>,
}

impl DeliverySender {
    /// Whether this may be that process.
    pub fn may_be(&self, process: Process) -> bool {
        self.node == process.node
            && self.incarnation.is_none_or(|incarnation| incarnation == process.incarnation)
            && self.client.is_none_or(|client| client == process.client)
    }
}

/// A list of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// In the order in which they happened.
    pub events: Vec<TraceEvent>,
}

/// Something for each process, found by its numbers.
#[derive(Clone, Debug, Default)]
pub struct PerProcess<T>(Vec<Vec<Vec<T>>>);

impl<T: Default + Clone> PerProcess<T> {
    /// The process's, made now if there was none.
    pub fn of(&mut self, process: Process) -> &mut T {
        let incarnations = grown(&mut self.0, process.node.0);
        let clients = grown(incarnations, process.incarnation);
        grown(clients, process.client)
    }

    /// The process's, if there is any.
    pub fn get(&self, process: Process) -> Option<&T> {
        self.0.get(usize::from(process.node.0))?.get(usize::from(process.incarnation))?.get(usize::from(process.client))
    }

    /// All, by ascending process.
    pub fn iter(&self) -> impl Iterator<Item = (Process, &T)> {
        let incarnations = self.0.iter().zip(0..).flat_map(|(incarnations, node)| {
            incarnations
                .iter()
                .zip(0..)
                .map(move |(clients, count)| (clients, ProcessIncarnation { node: NodeId(node), count }))
        });
        incarnations.flat_map(|(clients, incarnation)| {
            clients.iter().zip(0..).map(move |(item, client)| (Process::of(incarnation, client), item))
        })
    }

    /// Those of one incarnation, by ascending client.
    pub fn of_incarnation(&self, incarnation: ProcessIncarnation) -> impl Iterator<Item = (Process, &T)> {
        let incarnations = self.0.get(usize::from(incarnation.node.0));
        let clients = incarnations.and_then(|incarnations| incarnations.get(usize::from(incarnation.count)));
        let clients = clients.map_or(&[][..], |clients| clients);
        clients.iter().zip(0..).map(move |(item, client)| (Process::of(incarnation, client), item))
    }
}

fn grown<T: Default + Clone>(items: &mut Vec<T>, at: u16) -> &mut T {
    let at = usize::from(at);
    if items.len() <= at {
        items.resize(at + 1, T::default());
    }
    &mut items[at]
}

/// Something for each message, found by its origin and its number.
#[derive(Clone, Debug, Default)]
pub struct PerMessage<T>(PerProcess<Vec<T>>);

/// More messages than any run has; a mark beyond is a lie that must not cost memory.
const MESSAGES_MAX: u64 = 1 << 24;

impl<T: Default + Clone> PerMessage<T> {
    /// The message's, made now if there was none.
    pub fn of(&mut self, mark: Mark) -> &mut T {
        let items = self.0.of(mark.origin);
        let at = mark.count.min(MESSAGES_MAX) as usize;
        if items.len() <= at {
            items.resize(at + 1, T::default());
        }
        &mut items[at]
    }

    /// The message's, if there is any.
    pub fn get(&self, mark: Mark) -> Option<&T> {
        self.0.get(mark.origin)?.get(usize::try_from(mark.count).ok()?)
    }

    /// All, by ascending mark.
    pub fn iter(&self) -> impl Iterator<Item = (Mark, &T)> {
        self.0.iter().flat_map(|(origin, items)| {
            items.iter().zip(0..).skip(1).map(move |(item, count)| (Mark { origin, count }, item))
        })
    }
}
