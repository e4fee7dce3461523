//! What daemons say.
use crate::header::{self, NO_HINT, SpreadHeader};
use crate::{GROUPS_MAX, MulticastNote, kind, name_field};
use bytes::{BufMut, BytesMut};
use consort_group::{ChangeCause, GroupViewId, Member, Targets};
use consort_types::{GroupName, MemberId, NodeId};
use consort_wire::Payload;

/// The bytes of a group view's name.
const ID_LEN: usize = 12;
/// The bytes of a list's count.
const COUNT_LEN: usize = 4;

/// A message of the order, for one client.
#[derive(Clone, Copy, Debug)]
pub struct RegularMessage<'a> {
    /// The sender's private name.
    pub sender: &'a str,
    /// What rode along.
    pub note: MulticastNote,
    /// To whom it was sent.
    pub targets: Targets<'a>,
    /// The ordered payload.
    pub payload: &'a Payload,
    /// Where the sender's bytes start in it.
    pub from: usize,
}

/// Appends a message.
pub fn put_message(out: &mut BytesMut, message: &RegularMessage<'_>) {
    let RegularMessage { sender, note, targets, payload, from } = message;
    let data = payload.len().saturating_sub(*from);
    header::put(out, note.kind(), sender.as_bytes(), targets.count(), note.hint(), data);
    targets.names().for_each(|name| name_field::put(name, out));
    payload.for_each(*from, data, |part| out.put_slice(part));
}

/// A membership of one group, for the members at one daemon.
#[derive(Clone, Copy, Debug)]
pub struct MembershipMessage<'a> {
    /// Which group.
    pub group: &'a GroupName,
    /// Names the membership.
    pub id: GroupViewId,
    /// Why it changed.
    pub cause: ChangeCause,
    /// Who is in the group.
    pub members: &'a [Member],
    /// For each member the number of its set: those of one number came here together.
    pub sets: &'a [u16],
    /// Who came or went.
    pub who: &'a [Member],
    /// The daemon whose clients are told.
    pub me: MemberId,
}

/// Appends a group view.
pub fn put_view(out: &mut BytesMut, view: &MembershipMessage<'_>) {
    let all = in_spread_order(view.members.iter().enumerate());
    let (sets, own) = sets(view, &all);
    let sets_len: usize = sets.iter().map(|set| set_len(set.len())).sum();
    let kind = kind::REGULAR_VIEW | kind::of_cause(view.cause);
    let data = ID_LEN + 2 * COUNT_LEN + sets_len;
    header::put(out, kind, view.group.as_bytes(), all.len(), NO_HINT, data);
    all.iter().for_each(|(_, member)| put_member(member, out));
    put_id(view.id, out);
    out.put_u32_le(sets.len() as u32);
    out.put_u32_le(own as u32);
    for set in &sets {
        out.put_u32_le(set.len() as u32);
        set.iter().for_each(|member| put_member(member, out));
    }
}

//= S32
/// By daemon, then by name.
fn in_spread_order<'a>(members: impl Iterator<Item = (usize, &'a Member)>) -> Vec<(usize, &'a Member)> {
    let mut all: Vec<_> = members.collect();
    all.sort_by(|(_, a), (_, b)| (a.daemon, &a.name).cmp(&(b.daemon, &b.name)));
    all
}

//= S33
/// Who came together, and at which byte of the list of sets the receivers' own one starts. Where the network did not make
/// the change, the one set is whoever made it.
fn sets<'a>(view: &MembershipMessage<'a>, all: &[(usize, &'a Member)]) -> (Vec<Vec<&'a Member>>, usize) {
    if view.cause != ChangeCause::Network {
        return (vec![view.who.iter().collect()], 0);
    }
    let set_of = |at: usize| view.sets.get(at).copied().unwrap_or(0);
    let mut numbers: Vec<u16> = all.iter().map(|(at, _)| set_of(*at)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let set = |number| all.iter().filter(|(at, _)| set_of(*at) == number).map(|(_, member)| *member).collect();
    let sets: Vec<Vec<_>> = numbers.into_iter().map(set).collect();
    let is_own = |set: &&Vec<&Member>| set.iter().any(|member| member.daemon == view.me);
    let before = sets.iter().take_while(|set| !is_own(set)).map(|set| set_len(set.len())).sum();
    (sets, before)
}

const fn set_len(members: usize) -> usize {
    COUNT_LEN + members * name_field::LEN
}

//= S34
/// Appends a transitional signal: the group's members get it before anything that is promised only among those who move
/// on together. `id` names the membership that is being left.
pub fn put_signal(out: &mut BytesMut, group: &GroupName, id: GroupViewId) {
    header::put(out, kind::TRANSITION, group.as_bytes(), 0, NO_HINT, ID_LEN);
    put_id(id, out);
}

//= S35
/// Appends that the client itself has left a group.
pub fn put_self_leave(out: &mut BytesMut, group: &GroupName) {
    header::put(out, kind::CAUSED_BY_LEAVE, group.as_bytes(), 0, NO_HINT, 0);
}

//= S24
/// Appends that a request was not taken: its own type, its names with the sender's behind them, its data.
pub fn put_reject(out: &mut BytesMut, request: &SpreadHeader, body: &[u8], private: &str) {
    let discard = request.kind & kind::SELF_DISCARD;
    let (names, data) = body.split_at(body.len().min(request.groups * name_field::LEN));
    let kept = request.groups.min(GROUPS_MAX - 1);
    header::put(out, kind::REJECT | discard, private.as_bytes(), kept + 1, request.hint, data.len());
    out.put_u32_le(rejected_type(request.kind) | kind::MARK);
    out.put_slice(&names[..names.len().min(kept * name_field::LEN)]);
    name_field::put(private.as_bytes(), out);
    out.put_slice(data);
}

const fn rejected_type(kind: u32) -> u32 {
    match kind & kind::REQUESTS {
        kind::JOIN => kind::CAUSED_BY_JOIN,
        kind::LEAVE => kind::CAUSED_BY_LEAVE,
        _ => kind & (kind::REGULAR | kind::SELF_DISCARD),
    }
}

fn put_member(member: &Member, out: &mut BytesMut) {
    name_field::put(private_text(member.name.as_str().as_bytes(), member.daemon.node).as_bytes(), out);
}

//= S23
/// What everybody calls a client of this name at this node.
pub fn private_text(name: &[u8], node: NodeId) -> String {
    format!("#{}#{node}", String::from_utf8_lossy(name))
}

//= S31
/// Three numbers: of the ring that made the view, a hash of what names it and its number; and which change this is since,
/// from 1, which the network's own is.
fn put_id(id: GroupViewId, out: &mut BytesMut) {
    out.put_u32_le(hash(id));
    out.put_u32_le(id.view.number as u32);
    out.put_u32_le((id.change as u32).wrapping_add(1));
}

/// FNV-1a over the ring's name, folded.
fn hash(id: GroupViewId) -> u32 {
    let representative = id.view.representative;
    let parts = [id.view.number, u64::from(representative.node.0), representative.incarnation.0];
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = parts.into_iter().flat_map(u64::to_be_bytes).fold(0xcbf2_9ce4_8422_2325, mix);
    (hash ^ hash >> 32) as u32
}
