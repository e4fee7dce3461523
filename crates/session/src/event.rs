//! What daemons say.
//!
//! | kind | event | body |
//! |---|---|---|
//! | 80 | heartbeat | |
//! | 81 | welcome | see [`Welcome`] |
//! | 82 | progress | accepted (8), ordered (8), credit (8) |
//! | 83 | refused | request (8), cause (1), text |
//! | 84 | view | id (18), kind (1), primary (1), members, moved together, cause as text |
//! | 85 | group view | group (1 + n), id (18 + 8), flags (1), primary (1), cause (1), who came or went, members with their sets |
//! | 86 | status | count (2), pairs of text |
//! | 87 | pong | token (8) |
//! | 88 | disconnect | parting (1), text |
//! | 89 | transitional signal | group (1 + n), id (18 + 8) |
//! | 8d | revoke | offer (8) |
//! | 8e | confirm | offer (8) |
//! | 8f | waiting | up to (8), cause (1), node (2) |
//! | 91-95 | message; the second digit is the service | sender's node (2), client number (4), name (1 + n), targets, payload |
//! | a1-a5 | offer; the second digit is the service | offer (8), microseconds (4), then as in a message |
//! | b1-b5 | batch of messages; likewise | sender's node (2), client number (4), name (1 + n), messages as in [`consort_group::batch`] |
//! | c1-c5, d1-d5 | message or batch, with where it stands | position (8), in a batch index (2), then as without |
//! | e1-e5, f1-f5 | the same for a reader | likewise |
//! | f8-fb | see [`crate::reading`] | |
//! | f6, f7, fd-ff | see [`crate::numbering`] | |
//! | fc | incarnation | node (2), incarnation (8): who sends from here on |
//!
//! Texts stand behind their length in two bytes.
mod batch;
mod borrow;
mod decode;
mod encode;

pub(crate) use batch::Batch;
pub use borrow::{InPlace, look};
pub use encode::{
    ToldAs, message, placed, put_group_signal, put_group_view, put_message, put_placed, put_pong, put_refused,
    put_status, put_view,
};
pub(crate) use encode::{
    put_confirm, put_disconnect, put_heartbeat, put_incarnation, put_offer, put_progress, put_revoke, put_waiting,
    put_welcome,
};

use crate::{Bound, DeclareStatus, Disconnect, Place, ProducerStatus, ReadingStatus, Refusal, RotationStatus};
use bytes::Bytes;
use consort_group::{ChangeCause, ClientName, GroupViewId, Member, PrivateName, Targets};
use consort_types::{
    ClientId, Copies, Duration, GroupName, Incarnation, MemberId, NodeId, OrderWait, Primary, Service, ViewId, ViewKind,
};
use std::ops::Range;

const HEARTBEAT: u8 = 0x80;
const WELCOME: u8 = 0x81;
const PROGRESS: u8 = 0x82;
const REFUSED: u8 = 0x83;
const VIEW: u8 = 0x84;
const GROUP_VIEW: u8 = 0x85;
const STATUS: u8 = 0x86;
const PONG: u8 = 0x87;
const DISCONNECT: u8 = 0x88;
const GROUP_SIGNAL: u8 = 0x89;
const REVOKE: u8 = 0x8d;
const CONFIRM: u8 = 0x8e;
const WAITING: u8 = 0x8f;
const MESSAGE: u8 = 0x90;
const OFFER: u8 = 0xa0;
/// The bytes of an offer before those of its message.
const OFFER_LEN: usize = 12;
const BATCH: u8 = 0xb0;
const PLACED: u8 = 0xc0;
const PLACED_BATCH: u8 = 0xd0;
const READ_MESSAGE: u8 = 0xe0;
const READ_BATCH: u8 = 0xf0;
const INCARNATION: u8 = 0xfc;
/// The bytes before those of a message that say where it stands, and before those of a batch.
const PLACED_LEN: usize = 8;
const PLACED_BATCH_LEN: usize = 8 + 2;
/// What requests wait for, by number.
const WINDOW: u8 = 1;
const MEMBERSHIP: u8 = 2;
const SLOW: u8 = 3;
const SLOW_CLIENT: u8 = 4;
const RETENTION: u8 = 5;
const QUORUM: u8 = 6;
const RING: u8 = 7;
/// The flag of a group view whose group only members may send to.
const CLOSED: u8 = 1;

/// A frame of a daemon, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonEvent {
    /// The session is open.
    Welcome(Welcome),
    /// The next message of the order, for a group this client is in.
    Message(Message),
    /// The next message of a reading by position.
    Read(Message),
    /// What the daemon says of a reading beside its messages.
    Reading(ReadingStatus),
    /// What the daemon says of this client's producer.
    Producer(ProducerStatus),
    /// What became of a checkpoint that this client declared.
    Declared(DeclareStatus),
    /// What the order knows of the copies of a program.
    Copies(Copies),
    /// What became of a copy of a program that this client wants bound.
    Bound(Bound),
    /// What became of this client's request that all daemons seal with the next key.
    Rotated(RotationStatus),
    /// Which incarnation of its node sends messages from here on.
    Incarnation(MemberId),
    /// The same before its place is final; only optimistic clients are told so, and nothing as a message.
    Offer(Offer),
    /// The message of the offer with this number will stand elsewhere, or nowhere: as if it had not been offered.
    Revoke(u64),
    /// The message of the offer with this number is the next one of the order.
    Confirm(u64),
    /// A group this client is in changed, here in the order.
    GroupView(GroupView),
    /// Some members of a group this client is in do not move along into the next network view: what follows until the
    /// next group view is promised only among those that do.
    GroupSignal(GroupSignal),
    /// The network changed, here in the order.
    View(NetworkView),
    /// How far this client's numbered requests are.
    Progress(Progress),
    /// Some of this client's numbered requests wait for long.
    Waiting(WaitNotice),
    /// One numbered request was not taken.
    Refused {
        /// Its number.
        request: u64,
        /// Why.
        refusal: Refusal,
    },
    /// The daemon's status, as pairs of key and value.
    Status(Vec<(String, String)>),
    /// The daemon is at work, as it tells those who asked for it.
    Heartbeat,
    /// The answer to a ping, with its token.
    Pong(u64),
    /// The daemon ends the session; nothing follows.
    Disconnect(Disconnect),
}

/// What a client is told when its session opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version the daemon speaks from here on.
    pub version: u16,
    /// The daemon.
    pub daemon: MemberId,
    /// Names the session.
    pub session: u64,
    /// The client's number at this daemon; with the daemon it names the client to all others.
    pub client: ClientId,
    /// What the daemon is called.
    pub daemon_name: String,
    /// What the client is called.
    pub name: ClientName,
    /// The largest payload of one multicast, in bytes.
    pub message_max: u32,
    /// How many bytes of frames may be sent and not yet ordered.
    pub credit: u32,
    /// How many groups one multicast may name.
    pub groups_max: u16,
}

/// A delivered message. Holds the bytes of its frame and shares them, or borrows them: [`BorrowedMessage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<B = Bytes> {
    sender: (NodeId, ClientId),
    placement: Option<Placement>,
    service: Service,
    body: B,
    // Places in the body. They are small, so that a message is moved without a call.
    name_end: u32,
    targets_at: u32,
    payload: Range<u32>,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its place.
    pub place: Place,
    /// The place that follows: where to read on once this message is done with.
    pub next: Place,
    /// Which incarnation of its node has sent it, if the daemon said.
    pub incarnation: Option<Incarnation>,
    /// Whether it was read, and not delivered to a member.
    pub is_read: bool,
}

/// Where a message's body has the sender's name: behind its node and its number.
const NAME_AT: usize = 6;

/// A delivered message whose bytes are somebody else's.
pub type BorrowedMessage<'a> = Message<&'a [u8]>;

impl<B: AsRef<[u8]>> Message<B> {
    /// Who sent it: a daemon, and a client's number there.
    pub const fn sender(&self) -> (NodeId, ClientId) {
        self.sender
    }

    /// Where it stands in the order, if the client asked for that ([`Hello::wants_positions`](crate::Hello)) or reads.
    /// Where the ordering protocol retains nothing, positions mean something within one network view only.
    pub const fn placement(&self) -> Option<Placement> {
        self.placement
    }

    /// The position at which it stands, likewise. Messages that were ordered as one have the same.
    pub fn position(&self) -> Option<u64> {
        self.placement.map(|placement| placement.place.position)
    }

    /// The sender's daemon with its incarnation, likewise.
    pub fn sender_daemon(&self) -> Option<MemberId> {
        let incarnation = self.placement?.incarnation?;
        Some(MemberId { node: self.sender.0, incarnation })
    }

    /// What the sender is called.
    pub fn sender_name(&self) -> &str {
        std::str::from_utf8(&self.body.as_ref()[NAME_AT + 1..self.name_end as usize]).unwrap_or_default()
    }

    /// The name by which the sender alone is sent to.
    pub fn sender_private(&self) -> Option<PrivateName> {
        let name = ClientName::new(self.sender_name().as_bytes())?;
        Some(PrivateName::new(&name, self.sender.0))
    }

    /// What the sender asked for.
    pub const fn service(&self) -> Service {
        self.service
    }

    /// The groups and clients it was sent to, in the sender's order.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let list = Targets::read(&self.body.as_ref()[self.targets_at as usize..]).ok();
        list.into_iter().flat_map(Targets::names).filter_map(|name| std::str::from_utf8(name).ok())
    }

    /// The sender's bytes.
    pub fn payload(&self) -> &[u8] {
        &self.body.as_ref()[self.payload.start as usize..self.payload.end as usize]
    }

    /// The same message, to be looked at.
    #[inline]
    pub fn borrowed(&self) -> BorrowedMessage<'_> {
        let Self { sender, placement, service, name_end, targets_at, ref payload, .. } = *self;
        Message { sender, placement, service, body: self.body.as_ref(), name_end, targets_at, payload: payload.clone() }
    }

    /// A copy, to be kept.
    pub fn to_kept(&self) -> Message {
        let Self { sender, placement, service, name_end, targets_at, ref payload, .. } = *self;
        let body = Bytes::copy_from_slice(self.body.as_ref());
        Message { sender, placement, service, body, name_end, targets_at, payload: payload.clone() }
    }
}

impl DaemonEvent {
    /// A message, to a member or a reader.
    pub(crate) fn of(message: Message) -> Self {
        if message.is_read() { Self::Read(message) } else { Self::Message(message) }
    }
}

impl<B> Message<B> {
    /// Whether it was read by position, and not delivered to a member.
    pub const fn is_read(&self) -> bool {
        matches!(self.placement, Some(Placement { is_read: true, .. }))
    }

    pub(crate) const fn has_placement(&self) -> bool {
        self.placement.is_some()
    }

    pub(crate) const fn node(&self) -> NodeId {
        self.sender.0
    }

    /// Adds which incarnation of its node has sent it, where it is known where it stands.
    pub(crate) fn sent_by(&mut self, incarnation: Option<Incarnation>) {
        if let Some(placement) = &mut self.placement {
            placement.incarnation = incarnation;
        }
    }
}

impl Message {
    /// The sender's bytes, to be kept. They share the buffer in which they were read; copy small ones that are kept long.
    pub fn into_payload(self) -> Bytes {
        self.body.slice(self.payload.start as usize..self.payload.end as usize)
    }
}

/// A message whose place is likely, but not final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The offer's number, counted from 1 in each session; a message that is offered again gets a new one.
    pub number: u64,
    /// For how long from now on nothing need be undone by a program that does nothing with the message.
    pub free: Duration,
    /// The message.
    pub message: Message,
}

/// One membership of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Which group.
    pub group: GroupName,
    /// Names the membership; equal at every daemon. No fencing number: see [`GroupViewId`].
    pub id: GroupViewId,
    /// Whether only members may send to it.
    pub closed: bool,
    /// Whether the members may act as the primary part of the network, from here until the next group view of this group.
    /// This says all; it need not, and must not, be combined with [`NetworkView::primary`].
    pub primary: Primary,
    /// Why it changed. With [`ChangeCause::Primary`] it did not: the same membership is told once more, because `primary` changed.
    pub cause: ChangeCause,
    /// Who came or went: who of them is a member came.
    pub who: Vec<Member>,
    /// Who is in the group now, by node, incarnation and client number.
    pub members: Vec<Member>,
    /// For each member the number of its set. Says nothing with [`ChangeCause::Primary`].
    pub sets: Vec<u16>,
}

impl GroupView {
    /// Those that were given the same messages of this group as `member` since the group view before, itself among them;
    /// nobody if it is no member.
    pub fn together_with(&self, member: (MemberId, ClientId)) -> impl Iterator<Item = &Member> {
        let at = self.members.iter().position(|other| other.key() == member);
        let set = at.and_then(|at| self.sets.get(at));
        let listed = self.members.iter().zip(&self.sets);
        listed.filter(move |(_, other)| Some(*other) == set).map(|(member, _)| member)
    }
}

/// Some members of a group do not move along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSignal {
    /// Which group.
    pub group: GroupName,
    /// The membership that held until here.
    pub id: GroupViewId,
}

/// One configuration of the daemons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkView {
    /// Which; a transitional view carries the id of the regular one that it closes.
    pub id: ViewId,
    /// Regular or transitional.
    pub kind: ViewKind,
    /// Whether the view of daemons is primary. A program acts by [`GroupView::primary`]: where daemons come together, this
    /// is told before the group view that says who else is there.
    pub primary: Primary,
    /// All daemons in it.
    pub members: Vec<MemberId>,
    /// Those that came here together from this daemon's previous regular view.
    pub moved_together: Vec<MemberId>,
    /// Why it came.
    pub cause: String,
}

/// How far a client's numbered requests are. All counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The daemon has read all requests up to this number.
    pub accepted: u64,
    /// All requests up to this number have their place in the order, or were refused.
    pub ordered: u64,
    /// How many bytes of credit have come back, from the start of the session.
    pub credit: u64,
}

/// What requests wait for that were not ordered soon. It holds until all of them are ordered or refused, or until it is
/// said anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitNotice {
    /// Those up to this number, as far as they are not ordered.
    pub up_to: u64,
    /// What they wait for.
    pub cause: OrderWait,
}
