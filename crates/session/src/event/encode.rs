//! Events to frames, appended where the client will read them.
use super::{DISCONNECT, GROUP_VIEW, MESSAGE, PONG, PROGRESS, Progress, REFUSED, STATUS, VIEW, WELCOME, Welcome};
use crate::frame::{self, HEAD_LEN};
use crate::{Farewell, Refusal};
use bytes::{BufMut, BytesMut};
use consort_group::table::Change;
use consort_group::{Member, targets};
use consort_types::{ClientId, MemberId, NodeId, Primary, Service, View, ViewKind};
use consort_wire::{Payload, Writer};

/// The bytes that name a message's sender.
pub(super) const SENDER_LEN: usize = 6;
/// The bytes of a message's frame before its targets.
pub const MESSAGE_HEAD_LEN: usize = HEAD_LEN + SENDER_LEN;
/// The longest text, in bytes.
const TEXT_MAX: usize = u16::MAX as usize;

/// Appends a message whose targets and payload stand from byte `from` of an ordered payload on.
pub fn put_message(out: &mut BytesMut, sender: (NodeId, ClientId), service: Service, ordered: &Payload, from: usize) {
    let len = ordered.len().saturating_sub(from);
    let mut head = [0; MESSAGE_HEAD_LEN];
    let mut fields = &mut head[..];
    fields.put_u32((1 + SENDER_LEN + len) as u32);
    fields.put_u8(MESSAGE | service as u8);
    fields.put_u16(sender.0.0);
    fields.put_u32(sender.1.0);
    out.reserve(MESSAGE_HEAD_LEN + len);
    out.extend_from_slice(&head);
    ordered.for_each(from, len, |part| out.extend_from_slice(part));
}

/// Appends a group's new membership.
pub fn put_group_view(out: &mut BytesMut, change: &Change<'_>) {
    frame::put(out, GROUP_VIEW, |out| {
        targets::put_name(change.group.as_bytes(), out);
        out.put_view_id(change.id.view);
        out.put_u64(change.id.change);
        out.put_u8(change.cause as u8);
        put_clients(out, change.who);
        put_clients(out, change.members);
    });
}

/// Appends a network view.
pub fn put_view(out: &mut BytesMut, view: &View) {
    frame::put(out, VIEW, |out| {
        out.put_view_id(view.id);
        out.put_u8(match view.kind {
            ViewKind::Regular => 1,
            ViewKind::Transitional => 2,
        });
        out.put_u8(match view.primary {
            Primary::Yes => 1,
            Primary::Pending => 2,
            Primary::No => 3,
        });
        put_daemons(out, &view.members);
        put_daemons(out, &view.moved_together);
        put_text(out, &view.why());
    });
}

/// Appends a daemon's status.
pub fn put_status(out: &mut BytesMut, pairs: &[(String, String)]) {
    let pairs = &pairs[..pairs.len().min(TEXT_MAX)];
    frame::put(out, STATUS, |out| {
        out.put_count(pairs.len());
        for (key, value) in pairs {
            put_text(out, key);
            put_text(out, value);
        }
    });
}

pub(crate) fn put_welcome(out: &mut BytesMut, welcome: &Welcome) {
    frame::put(out, WELCOME, |out| {
        out.put_u16(welcome.version);
        out.put_member(welcome.daemon);
        out.put_u64(welcome.session);
        out.put_u32(welcome.client.0);
        put_text(out, &welcome.daemon_name);
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

pub(crate) fn put_refused(out: &mut BytesMut, request: u64, refusal: &Refusal) {
    frame::put(out, REFUSED, |out| {
        out.put_u64(request);
        out.put_u8(refusal.cause as u8);
        put_text(out, &refusal.text);
    });
}

pub(crate) fn put_pong(out: &mut BytesMut, token: u64) {
    frame::put_head(out, PONG, 8);
    out.put_u64(token);
}

pub(crate) fn put_disconnect(out: &mut BytesMut, farewell: &Farewell) {
    frame::put(out, DISCONNECT, |out| {
        out.put_u8(farewell.parting as u8);
        put_text(out, &farewell.text);
    });
}

fn put_daemons(out: &mut BytesMut, daemons: &[MemberId]) {
    out.put_count(daemons.len());
    daemons.iter().for_each(|daemon| out.put_member(*daemon));
}

fn put_clients(out: &mut BytesMut, members: &[Member]) {
    out.put_u32(members.len() as u32);
    for member in members {
        out.put_member(member.daemon);
        out.put_u32(member.client.0);
        targets::put_name(member.name.as_str().as_bytes(), out);
    }
}

/// Appends a text behind its length; what is too long is cut where a character ends.
fn put_text(out: &mut BytesMut, text: &str) {
    let mut len = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    out.put_count(len);
    out.put_slice(&text.as_bytes()[..len]);
}
