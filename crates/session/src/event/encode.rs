//! Events to frames, appended where the client will read them.
use super::{
    BATCH, CLOSED, CONFIRM, DISCONNECT, GROUP_SIGNAL, GROUP_VIEW, HEARTBEAT, INCARNATION, MEMBERSHIP, MESSAGE, OFFER,
    OFFER_LEN, PLACED, PLACED_BATCH, PLACED_BATCH_LEN, PLACED_LEN, PONG, PROGRESS, Progress, QUORUM, READ_BATCH,
    READ_MESSAGE, REFUSED, RETENTION, REVOKE, RING, SLOW, SLOW_CLIENT, STATUS, VIEW, WAITING, WELCOME, WINDOW,
    WaitNotice, Welcome,
};
use crate::frame::{self, HEAD_LEN};
use crate::output::FrameQueue;
use crate::{Disconnect, PendingOffer, Place, Refusal, text};
use bytes::{BufMut, Bytes, BytesMut};
use consort_group::ordered::MulticastLayout;
use consort_group::{GroupChange, GroupViewId, Member, TransitionalSignal, targets};
use consort_types::{Duration, MemberId, NodeId, OrderWait, Service, View, ViewKind};
use consort_wire::{MEMBER_LEN, Payload, Writer, append};

/// The bytes of a message's frame that do not stand in the ordered payload.
const MESSAGE_HEAD_LEN: usize = HEAD_LEN + 2;

/// Appends a message of a client of node `sender`, or a batch of them: what receivers are told of an ordered multicast.
pub fn put_message(
    out: &mut FrameQueue,
    sender: NodeId,
    service: Service,
    multicast: &Payload,
    told: &MulticastLayout,
) {
    let len = multicast.len().saturating_sub(told.at);
    out.put(MESSAGE_HEAD_LEN + len).extend_from_slice(&message_head(sender, service, len, told));
    multicast.for_each_part(told.at, len, |part, range| out.inlay(part, range));
}

/// As whose message, and where, it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldAs {
    /// A member's, in its order.
    Member(Place),
    /// A reader's.
    Reader(Place),
}

impl ToldAs {
    const fn place(self) -> Place {
        match self {
            Self::Member(place) | Self::Reader(place) => place,
        }
    }

    const fn kind(self, batch: bool) -> u8 {
        match (self, batch) {
            (Self::Member(_), false) => PLACED,
            (Self::Member(_), true) => PLACED_BATCH,
            (Self::Reader(_), false) => READ_MESSAGE,
            (Self::Reader(_), true) => READ_BATCH,
        }
    }
}

/// As [`put_message`], with where it stands; in a batch the index is the first message's.
pub fn put_placed(
    out: &mut FrameQueue,
    sender: NodeId,
    service: Service,
    multicast: &Payload,
    told: &MulticastLayout,
    told_as: ToldAs,
) {
    let len = multicast.len().saturating_sub(told.at);
    let head = placed_head(sender, service, len, told.batch, told_as);
    out.put(head.len() + len).extend_from_slice(&head);
    multicast.for_each_part(told.at, len, |part, range| out.inlay(part, range));
}

/// The same in one piece, which many clients may read.
pub fn placed(sender: NodeId, service: Service, multicast: &Payload, told: &MulticastLayout, told_as: ToldAs) -> Bytes {
    let len = multicast.len().saturating_sub(told.at);
    let mut out = placed_head(sender, service, len, told.batch, told_as);
    out.reserve(len);
    multicast.for_each(told.at, len, |part| append(&mut out, part));
    out.freeze()
}

fn placed_head(sender: NodeId, service: Service, len: usize, batch: bool, told_as: ToldAs) -> BytesMut {
    let (place, at) = (told_as.place(), if batch { PLACED_BATCH_LEN } else { PLACED_LEN });
    let mut out = BytesMut::with_capacity(MESSAGE_HEAD_LEN + at);
    frame::put_head(&mut out, told_as.kind(batch) | service as u8, at + 2 + len);
    out.put_u64(place.position);
    if batch {
        out.put_u16(place.index);
    }
    out.put_u16(sender.0);
    out
}

/// Appends which incarnation of its node sends from here on.
pub(crate) fn put_incarnation(out: &mut BytesMut, sender: MemberId) {
    frame::put_head(out, INCARNATION, MEMBER_LEN);
    out.put_member(sender);
}

/// The same in one piece, which many clients may read.
pub fn message(sender: NodeId, service: Service, multicast: &Payload, told: &MulticastLayout) -> Bytes {
    let len = multicast.len().saturating_sub(told.at);
    let mut out = BytesMut::with_capacity(MESSAGE_HEAD_LEN + len);
    out.extend_from_slice(&message_head(sender, service, len, told));
    multicast.for_each(told.at, len, |part| append(&mut out, part));
    out.freeze()
}

fn message_head(sender: NodeId, service: Service, len: usize, told: &MulticastLayout) -> [u8; MESSAGE_HEAD_LEN] {
    let kind = if told.batch { BATCH } else { MESSAGE };
    let mut head = [0; MESSAGE_HEAD_LEN];
    let mut fields = &mut head[..];
    fields.put_u32((1 + 2 + len) as u32);
    fields.put_u8(kind | service as u8);
    fields.put_u16(sender.0);
    head
}

/// Appends an offer, which may be taken back for nothing for the time `free`.
pub(crate) fn put_offer(out: &mut BytesMut, number: u64, free: Duration, offered: &PendingOffer) {
    let PendingOffer { sender, service, multicast, told_at, .. } = offered;
    let len = multicast.len().saturating_sub(*told_at);
    frame::put_head(out, OFFER | *service as u8, OFFER_LEN + 2 + len);
    out.reserve(OFFER_LEN + 2 + len);
    out.put_u64(number);
    out.put_u32(u32::try_from(free.as_micros()).unwrap_or(u32::MAX));
    out.put_u16(sender.0);
    multicast.for_each(*told_at, len, |part| out.extend_from_slice(part));
}

pub(crate) fn put_revoke(out: &mut BytesMut, number: u64) {
    frame::put_head(out, REVOKE, 8);
    out.put_u64(number);
}

pub(crate) fn put_confirm(out: &mut BytesMut, number: u64) {
    frame::put_head(out, CONFIRM, 8);
    out.put_u64(number);
}

/// Appends that the daemon is at work.
pub(crate) fn put_heartbeat(out: &mut BytesMut) {
    frame::put_head(out, HEARTBEAT, 0);
}

/// Appends a group's new membership.
pub fn put_group_view(out: &mut BytesMut, change: &GroupChange<'_>) {
    frame::put(out, GROUP_VIEW, |out| {
        targets::put_name(change.group.as_bytes(), out);
        put_group_view_id(out, change.id);
        out.put_u8(if change.closed { CLOSED } else { 0 });
        out.put_u8(change.primary.to_wire());
        out.put_u8(change.cause as u8);
        out.put_u32(change.who.len() as u32);
        change.who.iter().for_each(|member| put_client(out, member));
        out.put_u32(change.members.len() as u32);
        for (member, set) in change.members.iter().zip(change.sets) {
            put_client(out, member);
            out.put_u16(*set);
        }
    });
}

/// Appends a transitional signal.
pub fn put_group_signal(out: &mut BytesMut, signal: &TransitionalSignal<'_>) {
    frame::put(out, GROUP_SIGNAL, |out| {
        targets::put_name(signal.group.as_bytes(), out);
        put_group_view_id(out, signal.id);
    });
}

fn put_group_view_id(out: &mut BytesMut, id: GroupViewId) {
    out.put_view_id(id.view);
    out.put_u64(id.change);
}

/// Appends a network view.
pub fn put_view(out: &mut BytesMut, view: &View) {
    frame::put(out, VIEW, |out| {
        out.put_view_id(view.id);
        out.put_u8(match view.kind {
            ViewKind::Regular => 1,
            ViewKind::Transitional => 2,
        });
        out.put_u8(view.primary.to_wire());
        put_daemons(out, &view.members);
        put_daemons(out, &view.moved_together);
        text::put(out, &view.why());
    });
}

/// Appends a daemon's status.
pub fn put_status(out: &mut BytesMut, pairs: &[(String, String)]) {
    let pairs = &pairs[..pairs.len().min(text::MAX)];
    frame::put(out, STATUS, |out| {
        out.put_count(pairs.len());
        for (key, value) in pairs {
            text::put(out, key);
            text::put(out, value);
        }
    });
}

pub(crate) fn put_welcome(out: &mut BytesMut, welcome: &Welcome) {
    frame::put(out, WELCOME, |out| {
        out.put_u16(welcome.version);
        out.put_member(welcome.daemon);
        out.put_u64(welcome.session);
        out.put_u32(welcome.client.0);
        text::put(out, &welcome.daemon_name);
        targets::put_name(welcome.name.as_str().as_bytes(), out);
        out.put_u32(welcome.message_max);
        out.put_u32(welcome.credit);
        out.put_u16(welcome.groups_max);
    });
}

pub(crate) fn put_progress(out: &mut BytesMut, progress: Progress) {
    frame::put_head(out, PROGRESS, 24);
    out.put_u64(progress.accepted);
    out.put_u64(progress.ordered);
    out.put_u64(progress.credit);
}

pub(crate) fn put_waiting(out: &mut BytesMut, waiting: WaitNotice) {
    let (cause, node, client) = match waiting.cause {
        OrderWait::Window => (WINDOW, 0, None),
        OrderWait::Membership => (MEMBERSHIP, 0, None),
        OrderWait::Slow(node) => (SLOW, node.0, None),
        OrderWait::SlowClient(node, client) => (SLOW_CLIENT, node.0, Some(client)),
        OrderWait::Retention => (RETENTION, 0, None),
        OrderWait::Quorum => (QUORUM, 0, None),
        OrderWait::Ring(ring) => (RING, ring, None),
    };
    frame::put(out, WAITING, |out| {
        out.put_u64(waiting.up_to);
        out.put_u8(cause);
        out.put_u16(node);
        if let Some(client) = client {
            out.put_u32(client.0);
        }
    });
}

/// Appends a refusal: of a request by its number, or, with 0, of what has none.
pub fn put_refused(out: &mut BytesMut, request: u64, refusal: &Refusal) {
    frame::put(out, REFUSED, |out| {
        out.put_u64(request);
        out.put_u8(refusal.cause as u8);
        text::put(out, &refusal.text);
    });
}

/// Appends the answer to a ping.
pub fn put_pong(out: &mut BytesMut, token: u64) {
    frame::put_head(out, PONG, 8);
    out.put_u64(token);
}

pub(crate) fn put_disconnect(out: &mut BytesMut, farewell: &Disconnect) {
    frame::put(out, DISCONNECT, |out| {
        out.put_u8(farewell.reason as u8);
        text::put(out, &farewell.text);
    });
}

fn put_daemons(out: &mut BytesMut, daemons: &[MemberId]) {
    out.put_count(daemons.len());
    daemons.iter().for_each(|daemon| out.put_member(*daemon));
}

fn put_client(out: &mut BytesMut, member: &Member) {
    out.put_member(member.daemon);
    out.put_u32(member.client.0);
    targets::put_name(member.name.as_str().as_bytes(), out);
}
