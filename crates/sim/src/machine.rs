//! What runs on a host: a whole node with its clients, or an engine alone.
use crate::checkers::KEPT_OUT;
use crate::digest::TraceDigest;
use crate::fault::NodeSet;
use crate::message::index_of;
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{Grouped, LedRecord, NumberedRecord, OfferRecord, ReadingRecord, ReplicaRecord, ResumedRecord};
use bytes::Bytes;
use consort_order::{Advice, Destination, Engine, Fact, Link};
use consort_session::{ChangeCause, GroupView, Member};
use consort_types::{
    Class, ClientId, Incarnation, Instant, MemberId, MessageId, NodeId, OrderStream, Position, Primary, Service,
    Ticket, ViewId,
};
use consort_wire::{Lane, Payload};

mod bare;
mod whole;

pub use bare::{Bare, CONTROL, Holds};
pub(crate) use whole::private;
pub use whole::{
    Bookmarks, ElectionTouch, OrderBelow, ResumingReaders, RoamingSessions, ServerFlaw, ServerTouch, Servers, Whole,
};

/// A state machine that the world can drive: one input, then [`Machine::poll`] until `None`.
pub trait Machine {
    /// How many processes take deliveries here; their client numbers count from 0.
    fn processes(&self) -> u16;

    /// The first input, with the records that an earlier incarnation left on the disk.
    fn start(&mut self, now: Instant, records: &[Bytes]);

    /// The node is to leave in good order; [`MachineOutput::Left`] follows.
    fn leave(&mut self, now: Instant);

    /// A registry advises something.
    fn advise(&mut self, now: Instant, advice: Advice);

    /// The true time, before each input: what is on other machines has clocks of its own.
    fn note_time(&mut self, _now: Instant) {}

    /// Whether its processes come into views that their node is in already.
    fn is_joined_late(&self) -> bool;

    /// Whether it needs to know when each datagram arrived.
    fn needs_arrival_times(&self) -> bool;

    /// A datagram was taken from a socket; `arrived` as a driver would tell it.
    fn handle_datagram(&mut self, now: Instant, arrived: Instant, bytes: Bytes);

    /// Datagrams that came found no room. Told with the next one that did, as the kernel tells it.
    fn handle_overflow(&mut self, now: Instant);

    /// The time that `poll_timeout` named has come.
    fn handle_timeout(&mut self, now: Instant);

    /// A record is on the disk.
    fn handle_persisted(&mut self, now: Instant, ticket: Ticket);

    /// A reliable stream to a peer came up or broke.
    fn handle_link(&mut self, now: Instant, peer: NodeId, link: Link);

    /// A client hands a message over.
    fn submit(&mut self, now: Instant, client: u16, class: Class, service: Service, payload: Payload) -> SubmitAnswer;

    /// The next thing to do.
    fn poll(&mut self) -> Option<MachineOutput>;

    /// It has ended amid what it does: the next thing that had happened already to a client that outlives it.
    fn poll_last(&mut self) -> Option<MachineOutput> {
        None
    }

    /// When to wake it.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Which lane it wants to read first.
    fn reads_first(&self) -> Lane;

    /// Whether it holds the message at a position of a view, or has held it until all did; `None` if that cannot be seen,
    /// or it is not in that view.
    fn holds(&self, view: ViewId, position: Position) -> Option<bool>;

    /// Counters and gauges.
    fn observe(&self, see: &mut dyn FnMut(&str, u64));

    /// In which state it is and what it waits for, in one line.
    fn describe(&self, now: Instant) -> String;
}

/// Whom an engine keeps out for a while, as a gauge.
fn observe_kept_out<E: Engine>(engine: &E, now: Instant, see: &mut dyn FnMut(&str, u64)) {
    let mut kept_out = NodeSet::default();
    engine.observe(now, &mut |fact| match fact {
        Fact::Peer(reach) if reach.quarantined => kept_out = kept_out.with(reach.node),
        _ => {}
    });
    see(KEPT_OUT, kept_out.0);
}

/// What became of a submit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmitAnswer {
    /// It was accepted, and named if the client is told a name.
    Accepted(Option<MessageId>),
    /// There is no room; [`MachineOutput::Room`] will say when there is.
    Full,
    /// The node is leaving and takes no more.
    Leaving,
    /// It was refused for another reason.
    Refused(String),
}

/// What a machine asks for, in the order in which it must happen.
#[derive(Debug)]
pub enum MachineOutput {
    /// Put a datagram on the network.
    Send {
        /// To whom.
        to: Destination,
        /// On which lane.
        lane: Lane,
        /// What.
        bytes: Bytes,
    },
    /// A process is given a message.
    Deliver {
        /// Which client.
        client: u16,
        /// What it is given.
        message: ReceivedMessage,
    },
    /// A process is offered a message before its place is final.
    Offer {
        /// Which client.
        client: u16,
        /// What it is.
        offer: OfferRecord,
    },
    /// An offer is taken back from a process.
    Revoke {
        /// Which client.
        client: u16,
        /// Which offer.
        offer: u64,
    },
    /// An offered message has its place; the message follows.
    Confirm {
        /// Which client.
        client: u16,
        /// Which offer.
        offer: u64,
        /// A sum of the message's bytes.
        sum: u64,
    },
    /// A process is told a view.
    View {
        /// Which client.
        client: u16,
        /// The view.
        view: SeenView,
    },
    /// A process that does not take part (yet) is told a view.
    Network {
        /// Which client.
        client: u16,
        /// The view.
        view: SeenView,
    },
    /// A process is told that a view is primary.
    Primary {
        /// Which client.
        client: u16,
        /// The view.
        view: ViewId,
    },
    /// A process is told who is in its group.
    Group {
        /// Which client.
        client: u16,
        /// What it is told.
        group: Box<GroupSeen>,
    },
    /// A process is told that members of a group do not move along.
    Signal {
        /// Which client.
        client: u16,
        /// The group.
        group: Box<str>,
    },
    /// A process has sent a message that is not of the workload.
    Spoke {
        /// Which client.
        client: u16,
        /// Its number among the client's.
        count: u64,
        /// Whom it was sent to.
        groups: Vec<Box<str>>,
    },
    /// A process is given a message that is not of the workload.
    Side {
        /// Which client.
        client: u16,
        /// Who sent it: a node's client.
        from: (MemberId, u16),
        /// Its number among the sender's.
        count: u64,
        /// Whom it was sent to.
        groups: Vec<Box<str>>,
    },
    /// A client reads by position, or was given a message with its place.
    Reading {
        /// Which client.
        client: u16,
        /// What it was told.
        read: ReadingRecord,
    },
    /// A client sends under a producer, was given what was sent so, or its node's table of producers was looked at.
    Numbered {
        /// Which client.
        client: u16,
        /// What happened.
        step: NumberedRecord,
    },
    /// A client reads and outlives its nodes, or was given what such clients read.
    Resumed {
        /// Which client.
        client: u16,
        /// What happened.
        step: Box<ResumedRecord>,
    },
    /// A client wants to lead.
    Led {
        /// Which client.
        client: u16,
        /// What happened.
        step: Box<LedRecord>,
    },
    /// A server with a replicated state, or one of its callers, does something.
    Replica {
        /// Which client the server is, or was last.
        client: u16,
        /// What happened.
        step: Box<ReplicaRecord>,
    },
    /// A client that is no process of the plan has gone.
    Gone {
        /// Which client.
        client: u16,
    },
    /// A process is told that its own messages up to one stand in the order.
    Ordered {
        /// Which client.
        client: u16,
        /// The number of that message among its own.
        count: u64,
    },
    /// All members hold everything up to here.
    Stable {
        /// In which stream.
        stream: OrderStream,
        /// Up to where.
        up_to: Position,
    },
    /// A message that had been accepted was refused after all, or a client was sent away.
    Refused {
        /// Which client.
        client: u16,
        /// Why.
        why: String,
    },
    /// A client that was refused for want of room may submit again.
    Room {
        /// Which client; `None` for all.
        client: Option<u16>,
    },
    /// Write a record.
    Persist {
        /// Names the write.
        ticket: Ticket,
        /// What is to be written.
        record: Bytes,
        /// Whether it is done only once it outlasts a crash.
        sync: bool,
    },
    /// It is to be started anew in a later incarnation.
    Restart {
        /// What happened.
        cause: String,
        /// What it starts with, unless its disk holds records.
        records: Vec<Bytes>,
    },
    /// Records up to this one are not needed any more.
    Trim {
        /// The last that may go.
        up_to: Ticket,
    },
    /// The node has said good-bye and may be stopped.
    Left,
}

/// A view as a process is told it.
#[derive(Clone, Debug, Default)]
pub struct SeenView {
    /// Its name.
    pub id: ViewId,
    /// Whether it only closes the view before it.
    pub transitional: bool,
    /// Its members.
    pub members: Vec<MemberId>,
    /// Those that came along.
    pub together: Vec<MemberId>,
    /// Whether it may become primary.
    pub pending: bool,
}

/// A view of a group as a process is told it.
#[derive(Clone, Debug)]
pub struct GroupSeen {
    /// Which group.
    pub group: Box<str>,
    /// In which configuration of nodes.
    pub view: ViewId,
    /// Its number in that.
    pub change: u64,
    /// Why it changed.
    pub cause: ChangeCause,
    /// Whether only members may send to it.
    pub closed: bool,
    /// Whether its members may act as the primary part.
    pub primary: bool,
    /// Its members: a node's client each.
    pub members: Vec<(MemberId, u16)>,
    /// Those of them that the process was given the same messages with.
    pub together: Vec<(MemberId, u16)>,
}

impl GroupSeen {
    /// A view of a group as one of its members, or one that has just left, is told it.
    pub fn of(view: &GroupView, me: (MemberId, ClientId)) -> Self {
        let place = |member: &Member| (member.daemon, index_of(member.client));
        Self {
            group: view.group.as_str().into(),
            view: view.id.view,
            change: view.id.change,
            cause: view.cause,
            closed: view.closed,
            primary: view.primary == Primary::Yes,
            members: view.members.iter().map(place).collect(),
            together: view.together_with(me).map(place).collect(),
        }
    }

    /// The same, with its members by their incarnations.
    pub(crate) fn grouped(self, mut incarnation: impl FnMut(MemberId) -> ProcessIncarnation) -> Grouped {
        let mut processes = |members: &[(MemberId, u16)]| {
            let mut members: Vec<_> = members.iter().map(|(m, client)| Process::of(incarnation(*m), *client)).collect();
            members.sort_unstable();
            members
        };
        Grouped {
            id: self.view,
            change: self.change,
            network: self.cause == ChangeCause::Network,
            again: self.cause == ChangeCause::Primary,
            closed: self.closed,
            primary: self.primary,
            members: processes(&self.members),
            together: processes(&self.together),
            group: self.group,
        }
    }
}

/// A message as a process is given it.
#[derive(Clone, Debug, Default)]
pub struct ReceivedMessage {
    /// In which order it stands.
    pub stream: OrderStream,
    /// Where, if the process is told.
    pub position: Option<Position>,
    /// Which node sent it.
    pub sender: NodeId,
    /// In which incarnation, if the process is told.
    pub incarnation: Option<Incarnation>,
    /// Which of the clients there, if the process is told.
    pub client: Option<u16>,
    /// The id with which it comes back to its sender.
    pub own: Option<MessageId>,
    /// Its class, if the process is told.
    pub class: Option<Class>,
    /// The level that was asked for.
    pub service: Service,
    /// Its bytes.
    pub payload: Payload,
}

/// A number that stands for the bytes of an offered message.
fn sum(payload: &Payload) -> u64 {
    let mut sum = TraceDigest::default();
    sum.add_bytes(&payload.to_bytes());
    sum.0
}
