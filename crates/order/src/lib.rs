//! The contract between an ordering protocol and everything else.
//!
//! An [`Engine`] is a pure state machine: no clock, socket, thread, file, or unseeded chance. A driver hands it *one*
//! input, drains [`Engine::poll_output`] until it answers `None`, and only then hands it the next. The same inputs give
//! the same outputs, on a real network as in the simulator.
//!
//! # The law of the drain
//! The order of outputs is the order in which they must happen. An engine sends what must leave before the token by
//! putting it before the token; messages and views share the queue because Extended Virtual Synchrony is exactly the
//! order between the two.

pub use advice::Advice;
use bytes::Bytes;
use consort_types::{
    Class, Copies, Holder, Incarnation, Instant, MemberId, MessageId, NodeId, OfferId, OrderStream, OrderWait,
    Position, Service, Ticket, View, ViewCause, ViewId,
};
pub use consort_wire::{Lane, Malformed, Packet, Payload};
pub use fact::{Fact, PeerReach, Pressure, each_counter, state_of, trouble_of};
pub use lag::Lag;
pub use obstacle::{LackingQuorum, Obstacle};
pub use queue::{Rides, SubmitQueue};
pub use replay::{Declaration, DeclarationKind, DeclareProgress, Overfull, Retained};

mod advice;
mod fact;
mod lag;
mod obstacle;
mod queue;
mod replay;

/// What a protocol can do. Sessions read it to know what they may ask for, the conformance suite to choose checkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The protocol's name in configuration and status.
    pub protocol: &'static str,
    /// The service levels that differ from the next stronger one; the others ride as that one.
    pub services: &'static [Service],
    /// Which messages it offers before their order is final (`EarlyDelivery`, `Revoke`, `Confirm`).
    pub offers: Offers,
    /// Needs the arrival time of each packet: its driver receives data without coalescing. To others a driver tells when it
    /// read the packet, and what [`Lag`] says after a pause.
    pub needs_arrival_times: bool,
    /// Needs a majority of configured voters to order anything. All views are in one order then, by rising numbers, and
    /// each says whether its node missed one that was primary.
    pub quorum: bool,
    /// Survives a restart of all nodes: uses `Persist`.
    pub durable: bool,
    /// Sends on [`Lane::Reliable`]: its driver keeps a reliable link to each other node.
    pub reliable_links: bool,
    /// Goes on in a minority part of a partition.
    pub continues_in_minority: bool,
    /// Positions are consecutive, outlive restarts, and what stands there can be read again: `retained` and `replay`.
    pub replays: bool,
    /// How orders of separated parts relate.
    pub across_partitions: AcrossPartitions,
}

/// Which messages are offered before their order is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offers {
    /// None.
    None,
    /// Those of services below [`Service::Causal`] where they wait for their place, in their sender's order. They get their
    /// places in another order than they were offered in; one is revoked only if a view ends without a place for it.
    Fifo,
    /// All, in the order in which they are likely to stand. A message gets its place only when nothing is on offer that was
    /// offered before it.
    Likely,
}

/// How the orders that separated parts of the network see relate to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcrossPartitions {
    /// One order for any two messages, whoever delivers both (Extended Virtual Synchrony).
    Evs,
    /// One order within each part only.
    PerComponent,
}

/// A message handed over for ordering.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Control messages pass the gate after a new view; client messages wait for `resume`.
    pub class: Class,
    /// How strong a promise the sender wants.
    pub service: Service,
    /// In which order it shall stand.
    pub stream: OrderStream,
    /// Its bytes.
    pub payload: Payload,
}

/// What messages may be about, as a number that stands for the name of a group. Two groups may have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(pub u16);

/// Why a message was not accepted. Nothing changed; nothing was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The queue of messages that wait for their place is full. [`Output::Room`] will tell when to try again.
    #[error("{queued} bytes wait for their place already, {limit} are allowed")]
    Full {
        /// Bytes that wait.
        queued: usize,
        /// The budget.
        limit: usize,
    },
    /// Larger than this cluster allows.
    #[error("a message of {len} bytes; this cluster allows {max}")]
    TooLarge {
        /// The message's length.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// This engine has no such stream.
    #[error("there is no stream {stream}")]
    NoSuchStream {
        /// The one that was asked for.
        stream: OrderStream,
    },
    /// This node is leaving and takes no more.
    #[error("this node is leaving")]
    Leaving,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// All other nodes of the configuration, by multicast where there is one.
    All,
    /// One node.
    One(NodeId),
}

/// How a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, on the driver's clock; never later than the `now` it is handed in with.
    pub at: Instant,
    /// Which incarnation of which node sent it.
    pub from: MemberId,
    /// On which lane.
    pub lane: Lane,
}

/// Whether a reliable stream to a peer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// It stands.
    Up,
    /// It broke; what was in it may be lost.
    Down,
}

/// What an engine asks for, in the order in which it must happen.
#[derive(Clone, Debug)]
pub enum Output<P> {
    /// Put a packet on the network.
    Send {
        /// To whom.
        to: Destination,
        /// On which lane.
        lane: Lane,
        /// What.
        packet: P,
    },
    /// The next message of a stream, its place final.
    Deliver(Delivery),
    /// Here stands a message of topics that this node does not read; others are given it.
    Passed {
        /// In which order it stands.
        stream: OrderStream,
        /// Where.
        position: Position,
        /// Who sent it.
        sender: MemberId,
    },
    /// Every member holds all messages of a stream up to here. The daemon does nothing with it; the simulator's checkers do.
    Stable {
        /// Which stream.
        stream: OrderStream,
        /// Up to where.
        up_to: Position,
    },
    /// A message whose place is likely but not final. Exactly one `Revoke` or `Confirm` closes it, before the same message is
    /// offered again and before the next regular view. [`Offers`] says in which order messages on offer get their places.
    Offer(EarlyDelivery),
    /// An offered message will stand elsewhere; undo it. It may be offered again.
    Revoke {
        /// Which stream.
        stream: OrderStream,
        /// Which message.
        offer: OfferId,
    },
    /// The next message of a stream, its place final; it is on offer. Stands where `Deliver` stands for one that is not.
    Confirm {
        /// Which message.
        offer: OfferId,
        /// The same message, now with its position.
        delivery: Delivery,
    },
    /// From here on this view holds.
    Install(View),
    /// From here on this view is primary: an ordered event at all its members.
    Primary(ViewId),
    /// The view is given up, and nothing is ordered until members have found each other. For the log alone.
    Interrupted {
        /// Why.
        cause: ViewCause,
        /// Members that are to be in the next view no more.
        out: Vec<MemberId>,
    },
    /// The node has said good-bye: nothing more will come, and the driver may stop.
    Left,
    /// Another member's beacon carried this annotation.
    Beacon {
        /// Whose.
        from: MemberId,
        /// What its upper layer gave to `annotate`.
        annotation: Bytes,
    },
    /// A submit that was refused as full may be tried again: there is room for it.
    Room,
    /// Write a record; answer with `handle_persisted`. What depends on it is sent only then.
    Persist {
        /// Names the write.
        ticket: Ticket,
        /// The bytes.
        record: Bytes,
        /// Whether it must have reached the disk.
        sync: bool,
    },
    /// This node has missed more of the order than any other still has, and cannot go on in this incarnation: it is to be
    /// started anew in a new one, with its records.
    Restart {
        /// What happened, for the log.
        cause: String,
        /// What an engine that keeps no records must not forget all the same; one that does finds its own.
        records: Vec<Bytes>,
        /// The new incarnation must have a larger number than this: others know it, and accept no earlier one.
        exceed: Option<Incarnation>,
    },
    /// Records up to this ticket are not needed any more, those of earlier incarnations among them.
    Trim {
        /// The last one that may go.
        up_to: Ticket,
    },
}

/// One delivered message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// In which order it stands.
    pub stream: OrderStream,
    /// Where.
    pub position: Position,
    /// Who sent it.
    pub sender: MemberId,
    /// What `submit` returned, where the sender is this node.
    pub id: Option<MessageId>,
    /// Control or client.
    pub class: Class,
    /// The level that was asked for.
    pub service: Service,
    /// Its bytes.
    pub payload: Payload,
}

/// A message before its place is final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlyDelivery {
    /// Names the message in what follows.
    pub id: OfferId,
    /// Whoever does nothing with it before this time need not undo anything if it is revoked by then.
    pub free_until: Instant,
    /// The message. Its position is not known yet and stands at 0.
    pub delivery: Delivery,
}

/// An ordering protocol.
///
/// Four families of methods, to be used in this rhythm: *capability* once; one input (`start`, `submit`, `handle_*`,
/// `annotate`, `resume`); then `poll_output` until `None`; then `poll_timeout` and `reads_first`, which may have changed.
/// `now` never runs backwards from one input to the next.
pub trait Engine {
    /// What this protocol puts on the network.
    type Packet: Packet;

    /// What this protocol can do; never changes.
    fn capability(&self) -> Capability;

    /// The first input, once, with the durable records of earlier incarnations: they have the tickets from 1 on, and those of
    /// this incarnation follow.
    fn start(&mut self, now: Instant, records: &[Bytes]);

    /// Takes a message for ordering and names it.
    ///
    /// # Errors
    /// [`Refused`] says why not; nothing changed.
    fn submit(&mut self, now: Instant, submission: Submission) -> Result<MessageId, Refused>;

    /// Takes a message that only nodes need that read one of these topics; without topics, or with too many, all need it.
    /// Others may be given it all the same, by most engines always.
    ///
    /// # Errors
    /// [`Refused`] says why not; nothing changed.
    fn submit_to(&mut self, now: Instant, submission: Submission, _topics: &[Topic]) -> Result<MessageId, Refused> {
        self.submit(now, submission)
    }

    /// Whether this engine spares nodes what they do not read. To others nobody need tell topics.
    fn filters(&self) -> bool {
        false
    }

    /// From here on this node needs messages of these topics only, and those for all. Before the first word it needs all.
    fn read(&mut self, _now: Instant, _topics: &[Topic]) {}

    /// Whether this node is given every message of a topic that stands behind what it submits from here on.
    fn reads(&self, _topic: Topic) -> bool {
        true
    }

    /// A packet came. Packets of strangers, of earlier incarnations, and duplicates are the engine's to drop and count.
    fn handle_packet(&mut self, now: Instant, arrival: Arrival, packet: Self::Packet);

    /// The time that `poll_timeout` named has come. Harmless if it has not.
    fn handle_timeout(&mut self, now: Instant);

    /// A `Persist` is done.
    fn handle_persisted(&mut self, now: Instant, ticket: Ticket);

    /// A reliable stream to a peer came up or broke.
    fn handle_link(&mut self, now: Instant, peer: NodeId, link: Link);

    /// What the layer above wants carried in this node's beacons from now on.
    fn annotate(&mut self, annotation: Bytes);

    /// The driver or the layer above is under pressure. An engine with flow control has less sent; others ignore it.
    fn handle_pressure(&mut self, _pressure: Pressure) {}

    /// A registry outside of the order advises something. An engine whose order somebody leads may follow it, where that costs no
    /// promise; others ignore it.
    fn advise(&mut self, _now: Instant, _advice: Advice) {}

    /// The layer above has settled into this view: client messages may flow again. Ignored for any other view.
    fn resume(&mut self, now: Instant, view: ViewId);

    /// Leaves the group: no more messages are accepted, what was accepted is sent, the others are told. `Left` follows
    /// within a bounded time. Ignored the second time.
    fn leave(&mut self, now: Instant);

    /// The next thing to do; `None` when all is done.
    fn poll_output(&mut self) -> Option<Output<Self::Packet>>;

    /// When to call `handle_timeout`, if nothing happens before.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Which lane to read first; asked before every packet, also inside a batch already received.
    fn reads_first(&self) -> Lane;

    /// What can be read again; `None` while nothing can, and always where `replays` is not set.
    fn retained(&self) -> Option<Retained> {
        None
    }

    /// Shows what is retained from a position on, in its order, until `see` says no or the end is reached. It shows nothing
    /// where the position is not retained. One call costs what it shows, whatever is retained.
    fn replay(&self, _from: Position, _see: &mut dyn FnMut(&Delivery) -> bool) {}

    /// Programs have yet to read what stands from this position on, or nothing: an engine that retains what it has ordered lets
    /// it go later, within bounds. Others ignore it.
    fn hold(&mut self, _from: Option<Position>) {}

    /// A copy of a program keeps by itself what is below a position, or starts, or holds nothing any more. An order that lasts
    /// retains the rest for it at every node. To be called again, as a resending, until it is not pending any more.
    fn declare(&mut self, _now: Instant, _declaration: &Declaration) -> DeclareProgress {
        DeclareProgress::Unsupported
    }

    /// What the order knows of the copies of a holder's program, as far as this node has read it.
    fn copies(&self, holder: &Holder) -> Copies {
        Copies::unsupported(holder.clone())
    }

    /// What messages of clients wait for because the log is full; `None` while it is not. Asked before each message.
    fn overfull(&self) -> Option<&Overfull> {
        None
    }

    /// Why nothing that is submitted now is ordered soon, that is within about two seconds; `None` if it is, as far as this
    /// engine knows. A node is not ready as long as there is a reason, and the same reason is the cause for which clients wait.
    fn obstacle(&self, _now: Instant) -> Option<Obstacle> {
        None
    }

    /// What the messages wait for that were submitted here and are not yet delivered here, if there is no
    /// [`obstacle`](Engine::obstacle). `None` while there are none, and from engines that do not know.
    fn wait_cause(&self) -> Option<OrderWait> {
        None
    }

    /// What keeps anything new of a topic from coming, if something lasting does.
    fn stalled(&self, _topic: Topic) -> Option<OrderWait> {
        None
    }

    /// Tells every [`Fact`], for status, metrics and tests. Exactly one of them is [`Fact::State`].
    fn observe(&self, now: Instant, see: &mut dyn FnMut(Fact));
}
