//! The payloads that travel in the one order.
//!
//! | size | field |
//! |---|---|
//! | 1 | kind: 1 multicast, 2 join, 3 leave, 4 disconnect, 5 join that closes the group if it opens it, 6 [part], 7 multicast with a note, 8 batch, 9 numbered, 10 open, 11 forget, 12 complete, 13 confirm, 14 reads, 15 hold, 16 [keys](crate::keys) |
//! | 5 | multicast with a note: what only receivers of the sender's session protocol understand |
//! | 4 | all but parts, numbered ones, complete, confirm, reads and keys: the client's number at the daemon that sent this |
//! | … | numbered: the producer (16), its epoch (8 + 8), the number (8), then a multicast or batch with its kind |
//! | … | open: the producer (16), the session (8), its attempt (8), flags (1): 1 it was opened before, 2 whoever has it is to be stopped |
//! | … | forget: the producer (16), the place at which it stands (8 + 8) |
//! | … | complete: the view |
//! | … | reads: how many groups (2), then the name of each behind its length in one byte |
//! | … | multicast: the client's name behind its length in one byte, then [`Targets`], then the client's bytes, both as they stood in the client's frame |
//! | … | batch: the client's name behind its length in one byte, then its messages as in [`crate::batch`] |
//! | … | join: the client's name, then the group's, each behind its length in one byte |
//! | … | hold: 1 if it begins, 0 if it ends; then, if it begins, the names concerned as [`Targets`] |
//! | … | leave: the group's name behind its length in one byte |
use crate::batch;
use crate::keys::{KEYS, KeyMessage};
use crate::member::ClientName;
pub(crate) use crate::part::PART;
pub use crate::part::read_client;
use crate::part::{self, StatePart};
use crate::producers::{HistoryPlace, Numbered, OpenRequest, ProducerId, read_producer};
use crate::targets::{self, Addressee, Targets, put_name, read_group};
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::{ClientId, GroupName, ViewId};
use consort_wire::cursor::VIEW_ID_LEN;
use consort_wire::{Malformed, Payload, Reader, Writer};

const MULTICAST: u8 = 1;
const JOIN: u8 = 2;
const LEAVE: u8 = 3;
const DISCONNECT: u8 = 4;
const JOIN_CLOSED: u8 = 5;
const NOTED: u8 = 7;
const BATCH: u8 = 8;
const NUMBERED: u8 = 9;
const OPEN: u8 = 10;
const FORGET: u8 = 11;
const COMPLETE: u8 = 12;
const CONFIRM: u8 = 13;
const READS: u8 = 14;
const HOLD: u8 = 15;

/// Where what receivers are told begins in a multicast without a note.
pub const TOLD_AT: usize = 1;
/// The bytes of a note.
pub const NOTE_LEN: usize = 5;
/// What stands before a numbered multicast.
pub const NUMBERED_LEN: usize = 1 + Numbered::LEN;
/// The kind, a client's number, and the length of its name.
const HEAD_LEN: usize = 6;
/// How many groups are named at once as being read.
pub const READS_MAX: usize = 100;
/// More than a join, leave or disconnect can take.
const CONTROL_MAX: usize = HEAD_LEN + 1 + ClientName::MAX + GroupName::MAX;

/// What a client's multicasts begin with, made once per client; behind it goes, unchanged, what stood in the client's
/// frame.
pub fn multicast_prefix(client: ClientId, name: &ClientName) -> Bytes {
    let mut out = start(MULTICAST, client);
    put_name(name.as_str().as_bytes(), &mut out);
    out.freeze()
}

/// What a client's batches begin with; behind it go its frames.
pub fn batch_prefix(client: ClientId, name: &ClientName) -> Bytes {
    let mut out = start(BATCH, client);
    put_name(name.as_str().as_bytes(), &mut out);
    out.freeze()
}

/// The same as [`multicast_prefix`] for one multicast with a note.
pub fn noted_prefix(client: ClientId, name: &ClientName, note: [u8; NOTE_LEN]) -> BytesMut {
    let mut out = BytesMut::with_capacity(NOTE_LEN + HEAD_LEN + ClientName::MAX);
    out.put_u8(NOTED);
    out.put_slice(&note);
    out.put_u32(client.0);
    put_name(name.as_str().as_bytes(), &mut out);
    out
}

/// A client joins a group under its name. If the group has no members yet, `closed` says whether only members may send
/// to it.
pub fn join(client: ClientId, name: &ClientName, group: &GroupName, closed: bool) -> Bytes {
    let mut out = start(if closed { JOIN_CLOSED } else { JOIN }, client);
    put_name(name.as_str().as_bytes(), &mut out);
    put_name(group.as_bytes(), &mut out);
    out.freeze()
}

/// A client leaves a group.
pub fn leave(client: ClientId, group: &GroupName) -> Bytes {
    let mut out = start(LEAVE, client);
    put_name(group.as_bytes(), &mut out);
    out.freeze()
}

/// A client is gone, and with it its place in every group.
pub fn disconnect(client: ClientId) -> Bytes {
    start(DISCONNECT, client).freeze()
}

/// What goes before a multicast or a batch of a producer.
pub fn numbered_prefix(numbered: Numbered) -> Bytes {
    let mut out = BytesMut::with_capacity(NUMBERED_LEN);
    out.put_u8(NUMBERED);
    numbered.put(&mut out);
    out.freeze()
}

/// A client opens a producer.
pub fn open(client: ClientId, request: &OpenRequest) -> Bytes {
    let mut out = start(OPEN, client);
    request.put(&mut out);
    out.freeze()
}

/// A producer that still stands there is to be forgotten.
pub fn forget(client: ClientId, producer: ProducerId, at: HistoryPlace) -> Bytes {
    let mut out = start(FORGET, client);
    out.put_slice(&producer.0);
    at.put(&mut out);
    out.freeze()
}

/// A daemon has completed a view.
pub fn complete(view: ViewId) -> Bytes {
    let mut out = BytesMut::with_capacity(1 + VIEW_ID_LEN);
    out.put_u8(COMPLETE);
    out.put_view_id(view);
    out.freeze()
}

/// A client does not read: nothing is to be sent to these until it does, or is gone. None, and that ends. The names are
/// at most [`Targets::MAX`].
pub fn hold<T: Addressee>(client: ClientId, names: &[T]) -> Bytes {
    let mut out = start(HOLD, client);
    let begins = targets::encode(names.iter(), &mut BytesMut::new());
    out.put_u8(u8::from(begins));
    if begins {
        targets::encode(names.iter(), &mut out);
    }
    out.freeze()
}

/// A message that says nothing: ordered safe, it shows that all members hold what stands before it.
pub fn confirm() -> Bytes {
    Bytes::from_static(&[CONFIRM])
}

/// Clients read these groups: what is sent to them is to be retained. The caller has checked that there are at most
/// [`READS_MAX`].
pub fn reads<'a>(groups: impl ExactSizeIterator<Item = &'a GroupName>) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(READS);
    out.put_count(groups.len());
    groups.for_each(|group| put_name(group.as_bytes(), &mut out));
    out.freeze()
}

/// Whether a producer numbers what an ordered payload says.
pub fn is_numbered(payload: &Payload) -> bool {
    payload.first() == Some(NUMBERED)
}

/// Whether a client joins by an ordered payload.
pub fn is_join(payload: &Payload) -> bool {
    matches!(payload.first(), Some(JOIN | JOIN_CLOSED))
}

/// How many bytes of an ordered payload stand for its client's: all but what a producer's number takes.
pub fn client_len(payload: &Payload) -> usize {
    let extra = if is_numbered(payload) { NUMBERED_LEN } else { 0 };
    payload.len().saturating_sub(extra)
}

fn start(kind: u8, client: ClientId) -> BytesMut {
    let mut out = BytesMut::with_capacity(CONTROL_MAX);
    out.put_u8(kind);
    out.put_u32(client.0);
    out
}

/// What an ordered payload says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ordered {
    /// A client sends.
    Multicast {
        /// Which one.
        client: ClientId,
        /// What stands where.
        told: MulticastLayout,
        /// The number of the message, or of the first one of a batch, if a producer sends.
        numbered: Option<Numbered>,
    },
    /// A client joins.
    Join {
        /// Which one.
        client: ClientId,
        /// Under this name.
        name: ClientName,
        /// This group.
        group: GroupName,
        /// Closing it, if it opens it.
        closed: bool,
    },
    /// A client leaves.
    Leave {
        /// Which one.
        client: ClientId,
        /// This group.
        group: GroupName,
    },
    /// A client is gone.
    Disconnect {
        /// Which one.
        client: ClientId,
    },
    /// What a daemon's clients are in.
    Part(StatePart),
    /// A client opens a producer.
    Open {
        /// Which client.
        client: ClientId,
        /// Which producer, and how.
        request: OpenRequest,
    },
    /// A producer that still stands there is to be forgotten.
    Forget {
        /// The client that says so; a daemon's own has the number 0.
        client: ClientId,
        /// Which producer.
        producer: ProducerId,
        /// Where it stands.
        at: HistoryPlace,
    },
    /// A daemon has completed this view.
    Complete(ViewId),
    /// Says nothing.
    Confirm,
    /// Clients read these groups.
    Reads(Vec<GroupName>),
    /// A client does not read, or reads again.
    Hold {
        /// Which one.
        client: ClientId,
        /// Where the list of targets stands to which nothing is to be sent until it reads; `None` if it does again.
        targets_at: Option<usize>,
    },
    /// What a daemon says of keys.
    Keys(KeyMessage),
}

/// Where a multicast's fields stand in its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulticastLayout {
    /// Where what receivers are told begins: the client's number, its name, and then the targets and the client's bytes,
    /// or the messages of a batch.
    pub at: usize,
    /// Where the list of targets starts, which is not checked yet; in a batch that of its first message.
    pub targets_at: usize,
    /// Whether it is a batch.
    pub batch: bool,
    /// What rides along.
    pub note: Option<[u8; NOTE_LEN]>,
}

impl MulticastLayout {
    /// Reads what the sender is called.
    pub fn name(&self, payload: &Payload) -> Vec<u8> {
        let from = self.at + HEAD_LEN - 1;
        let mut name = Vec::new();
        payload.for_each(from, self.body_at().saturating_sub(from), |part| name.extend_from_slice(part));
        name
    }

    /// Where the client's frame's body starts, or the frames of a batch.
    pub const fn body_at(&self) -> usize {
        if self.batch { self.targets_at - batch::HEAD_LEN } else { self.targets_at }
    }
}

/// Reads a payload.
///
/// # Errors
/// [`Malformed`] says which field is wrong.
pub fn decode(payload: &Payload) -> Result<Ordered, Malformed> {
    match payload.first() {
        None => Err(Malformed { what: "kind", at: 0 }),
        Some(PART) => part::decode(&payload.to_bytes()).map(Ordered::Part),
        Some(MULTICAST) => decode_multicast(payload, 0, false, None),
        Some(NOTED) => decode_multicast(payload, NOTE_LEN, false, None),
        Some(BATCH) => decode_multicast(payload, 0, true, None),
        Some(NUMBERED) => decode_numbered(payload),
        Some(READS) => decode_reads(payload),
        Some(HOLD) => decode_hold(payload),
        Some(kind) => decode_control(kind, payload),
    }
}

#[cold]
#[inline(never)]
fn decode_reads(payload: &Payload) -> Result<Ordered, Malformed> {
    if payload.len() > 3 + READS_MAX * (1 + GroupName::MAX) {
        return Err(Malformed { what: "length", at: 3 });
    }
    let bytes = payload.to_bytes();
    let mut reader = Reader::new(&bytes);
    reader.u8("kind")?;
    let count = reader.count(2, "group count")?;
    let groups = (0..count).map(|_| read_group(&mut reader)).collect::<Result<_, _>>()?;
    reader.end("end")?;
    Ok(Ordered::Reads(groups))
}

fn decode_numbered(payload: &Payload) -> Result<Ordered, Malformed> {
    let short = Malformed { what: "number", at: payload.len() };
    let head: [u8; NUMBERED_LEN + 1] = front(payload, 0).ok_or(short)?;
    let mut reader = Reader::new(&head[1..]);
    let numbered = Some(Numbered::read(&mut reader)?);
    match head[NUMBERED_LEN] {
        MULTICAST => decode_multicast(payload, NUMBERED_LEN, false, numbered),
        BATCH => decode_multicast(payload, NUMBERED_LEN, true, numbered),
        _ => Err(Malformed { what: "kind", at: NUMBERED_LEN }),
    }
}

/// Reads a multicast or batch before which `skip` bytes stand: a note, or a producer's number.
fn decode_multicast(
    payload: &Payload,
    skip: usize,
    batch: bool,
    numbered: Option<Numbered>,
) -> Result<Ordered, Malformed> {
    let short = Malformed { what: "client", at: payload.len() };
    let [_, a, b, c, d, len] = front(payload, skip).ok_or(short)?;
    let client = ClientId(u32::from_be_bytes([a, b, c, d]));
    let note_at = 1;
    let noted = (skip > 0 && numbered.is_none()).then(|| front(payload, note_at)).flatten();
    let body_at = skip + HEAD_LEN + usize::from(len);
    let targets_at = if batch { body_at + batch::HEAD_LEN } else { body_at };
    let told = MulticastLayout { at: skip + TOLD_AT, targets_at, batch, note: noted };
    Ok(Ordered::Multicast { client, told, numbered })
}

fn decode_hold(payload: &Payload) -> Result<Ordered, Malformed> {
    let short = Malformed { what: "hold", at: payload.len() };
    let [_, a, b, c, d, begins] = front(payload, 0).ok_or(short)?;
    let client = ClientId(u32::from_be_bytes([a, b, c, d]));
    match begins {
        0 if payload.len() == HEAD_LEN => Ok(Ordered::Hold { client, targets_at: None }),
        1 => {
            let len = Targets::of(payload, HEAD_LEN, |targets| targets.check().map(|()| targets.encoded_len()))??;
            match HEAD_LEN + len == payload.len() {
                true => Ok(Ordered::Hold { client, targets_at: Some(HEAD_LEN) }),
                false => Err(Malformed { what: "end", at: HEAD_LEN + len }),
            }
        }
        _ => Err(Malformed { what: "hold", at: HEAD_LEN - 1 }),
    }
}

/// The bytes from `at` on.
fn front<const N: usize>(payload: &Payload, at: usize) -> Option<[u8; N]> {
    if let Some(front) = payload.parts().next().and_then(|part| part.get(at..)?.first_chunk()) {
        return Some(*front);
    }
    let mut bytes = Vec::new();
    payload.for_each(at, N, |part| bytes.extend_from_slice(part));
    bytes.first_chunk().copied()
}

fn decode_control(kind: u8, payload: &Payload) -> Result<Ordered, Malformed> {
    if payload.len() > CONTROL_MAX {
        return Err(Malformed { what: "length", at: CONTROL_MAX });
    }
    let bytes = payload.to_bytes();
    let mut reader = Reader::new(&bytes);
    reader.u8("kind")?;
    let ordered = match kind {
        COMPLETE => Ordered::Complete(reader.view_id("view")?),
        CONFIRM => Ordered::Confirm,
        KEYS => Ordered::Keys(KeyMessage::read(&mut reader)?),
        _ => decode_request(kind, ClientId(reader.u32("client")?), &mut reader)?,
    };
    reader.end("end")?;
    Ok(ordered)
}

/// Reads what a client asks for.
fn decode_request(kind: u8, client: ClientId, reader: &mut Reader<'_>) -> Result<Ordered, Malformed> {
    Ok(match kind {
        JOIN | JOIN_CLOSED => {
            let (name, group) = (read_client(reader)?, read_group(reader)?);
            Ordered::Join { client, name, group, closed: kind == JOIN_CLOSED }
        }
        LEAVE => Ordered::Leave { client, group: read_group(reader)? },
        DISCONNECT => Ordered::Disconnect { client },
        OPEN => Ordered::Open { client, request: OpenRequest::read(reader)? },
        FORGET => {
            Ordered::Forget { client, producer: read_producer(reader)?, at: HistoryPlace::read(reader, "place")? }
        }
        _ => return Err(Malformed { what: "kind", at: 0 }),
    })
}

#[cfg(test)]
mod tests;
