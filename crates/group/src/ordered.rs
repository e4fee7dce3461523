//! The payloads that travel in the one order.
//!
//! | size | field |
//! |---|---|
//! | 1 | kind: 1 multicast, 2 join, 3 leave, 4 disconnect, 5 join that closes the group if it opens it, 6 [part], 7 multicast with a note, 8 batch |
//! | 5 | multicast with a note: what only receivers at doors like the sender's understand |
//! | 4 | all but parts: the client's number at the daemon that sent this |
//! | … | multicast: the client's name behind its length in one byte, then [`Targets`](crate::Targets), then the client's bytes, both as they stood in the client's frame |
//! | … | batch: the client's name behind its length in one byte, then its messages as in [`crate::batch`] |
//! | … | join: the client's name, then the group's, each behind its length in one byte |
//! | … | leave: the group's name behind its length in one byte |
use crate::batch;
use crate::member::ClientName;
pub(crate) use crate::part::PART;
pub use crate::part::read_client;
use crate::part::{self, StatePart};
use crate::targets::{put_name, read_group};
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::{ClientId, GroupName};
use consort_wire::{Malformed, Payload, Reader};

const MULTICAST: u8 = 1;
const JOIN: u8 = 2;
const LEAVE: u8 = 3;
const DISCONNECT: u8 = 4;
const JOIN_CLOSED: u8 = 5;
const NOTED: u8 = 7;
const BATCH: u8 = 8;

/// Where what receivers are told begins in a multicast without a note.
pub const TOLD_AT: usize = 1;
/// The bytes of a note.
pub const NOTE_LEN: usize = 5;
/// The kind, a client's number, and the length of its name.
const HEAD_LEN: usize = 6;
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
        Some(MULTICAST) => decode_multicast(payload, 0, false),
        Some(NOTED) => decode_multicast(payload, NOTE_LEN, false),
        Some(BATCH) => decode_multicast(payload, 0, true),
        Some(kind) => decode_control(kind, payload),
    }
}

fn decode_multicast(payload: &Payload, note: usize, batch: bool) -> Result<Ordered, Malformed> {
    let short = Malformed { what: "client", at: payload.len() };
    let [_, a, b, c, d, len] = front(payload, note).ok_or(short)?;
    let client = ClientId(u32::from_be_bytes([a, b, c, d]));
    let note_at = 1;
    let noted = (note > 0).then(|| front(payload, note_at)).flatten();
    let body_at = note + HEAD_LEN + usize::from(len);
    let targets_at = if batch { body_at + batch::HEAD_LEN } else { body_at };
    let told = MulticastLayout { at: note + TOLD_AT, targets_at, batch, note: noted };
    Ok(Ordered::Multicast { client, told })
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
    let client = ClientId(reader.u32("client")?);
    let ordered = match kind {
        JOIN | JOIN_CLOSED => {
            let (name, group) = (read_client(&mut reader)?, read_group(&mut reader)?);
            Ordered::Join { client, name, group, closed: kind == JOIN_CLOSED }
        }
        LEAVE => Ordered::Leave { client, group: read_group(&mut reader)? },
        DISCONNECT => Ordered::Disconnect { client },
        _ => return Err(Malformed { what: "kind", at: 0 }),
    };
    reader.end("end")?;
    Ok(ordered)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOB: ClientId = ClientId(9);

    fn group() -> GroupName {
        GroupName::new(b"orders").unwrap()
    }

    fn name() -> ClientName {
        ClientName::new(b"bob").unwrap()
    }

    fn every_kind() -> [(Payload, Ordered); 7] {
        let (client, name, group) = (BOB, name(), group());
        let body = Bytes::from_static(b"\0\x01\x01gpayload");
        let batch = Bytes::from_static(b"\0\0\0\x06\x14\0\x01\x01ga\0\0\0\x05\x14\0\x01\x01g");
        let joins = |closed| Ordered::Join { client, name: name.clone(), group: group.clone(), closed };
        [
            (
                [multicast_prefix(client, &name), body.clone()].into_iter().collect(),
                Ordered::Multicast { client, told: MulticastLayout { at: 1, targets_at: 9, batch: false, note: None } },
            ),
            (
                [batch_prefix(client, &name), batch].into_iter().collect(),
                Ordered::Multicast { client, told: MulticastLayout { at: 1, targets_at: 14, batch: true, note: None } },
            ),
            (
                [noted_prefix(client, &name, *b"12345").freeze(), body].into_iter().collect(),
                Ordered::Multicast {
                    client,
                    told: MulticastLayout { at: 6, targets_at: 14, batch: false, note: Some(*b"12345") },
                },
            ),
            (join(client, &name, &group, false).into(), joins(false)),
            (join(client, &name, &group, true).into(), joins(true)),
            (leave(client, &group).into(), Ordered::Leave { client, group: group.clone() }),
            (disconnect(client).into(), Ordered::Disconnect { client }),
        ]
    }

    #[test]
    fn every_kind_reads_back_however_it_was_cut() {
        for (payload, meant) in every_kind() {
            let bytes = payload.to_bytes();
            for cut in 0..=bytes.len() {
                let rope: Payload = [bytes.slice(..cut), bytes.slice(cut..)].into_iter().collect();
                assert_eq!(decode(&rope), Ok(meant.clone()));
                if let Ordered::Multicast { told, .. } = &meant {
                    assert_eq!(told.name(&rope), b"bob");
                }
            }
        }
    }

    #[test]
    fn no_mutation_panics() {
        //= G01 test
        for (payload, _) in every_kind() {
            consort_wire::mutate::each(&payload.to_bytes(), 3_000, |bytes| {
                let _ = decode(&Bytes::copy_from_slice(bytes).into());
            });
        }
    }

    #[test]
    fn trailing_bytes_and_giants_are_refused() {
        let long = [disconnect(BOB), Bytes::from_static(b"x")].into_iter().collect();
        assert_eq!(decode(&long), Err(Malformed { what: "end", at: 5 }));
        let giant = [leave(BOB, &group()), Bytes::from(vec![0; 1 << 20])].into_iter().collect();
        assert_eq!(decode(&giant), Err(Malformed { what: "length", at: CONTROL_MAX }));
        assert_eq!(decode(&Payload::new()), Err(Malformed { what: "kind", at: 0 }));
    }
}
