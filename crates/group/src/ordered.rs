//! The payloads that travel in the one order.
//!
//! | size | field |
//! |---|---|
//! | 1 | kind: 1 multicast, 2 join, 3 leave, 4 disconnect |
//! | 4 | the client's number at the daemon that sent this |
//! | … | multicast: [`Targets`](crate::Targets), then the client's bytes, both as they stood in the client's frame |
//! | … | join: the client's name, then the group's, each behind its length in one byte |
//! | … | leave: the group's name behind its length in one byte |
use crate::member::ClientName;
use crate::targets::{put_name, read_group};
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::{ClientId, GroupName};
use consort_wire::{Malformed, Payload, Reader};

const MULTICAST: u8 = 1;
const JOIN: u8 = 2;
const LEAVE: u8 = 3;
const DISCONNECT: u8 = 4;

/// The bytes before a multicast's list of groups.
pub const PREFIX_LEN: usize = 5;
/// More than a join, leave or disconnect can take.
const CONTROL_MAX: usize = PREFIX_LEN + 2 + ClientName::MAX + GroupName::MAX;

/// What a client's multicasts begin with, made once per client; behind it goes, unchanged, what stood in the client's
/// frame.
pub fn multicast_prefix(client: ClientId) -> Bytes {
    start(MULTICAST, client).freeze()
}

/// A client joins a group under its name.
pub fn join(client: ClientId, name: &ClientName, group: &GroupName) -> Bytes {
    let mut out = start(JOIN, client);
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
    /// Its list of groups starts at [`PREFIX_LEN`] and is not checked yet.
    Multicast,
    /// The client joins.
    Join {
        /// Under this name.
        name: ClientName,
        /// This group.
        group: GroupName,
    },
    /// The client leaves.
    Leave {
        /// This group.
        group: GroupName,
    },
    /// The client is gone.
    Disconnect,
}

/// Reads a payload: whose it is and what it says.
///
/// # Errors
/// [`Malformed`] says which field is wrong.
pub fn decode(payload: &Payload) -> Result<(ClientId, Ordered), Malformed> {
    let [kind, a, b, c, d] = prefix(payload).ok_or(Malformed { what: "prefix", at: payload.len() })?;
    let client = ClientId(u32::from_be_bytes([a, b, c, d]));
    let ordered = if kind == MULTICAST { Ordered::Multicast } else { decode_control(kind, payload)? };
    Ok((client, ordered))
}

fn prefix(payload: &Payload) -> Option<[u8; PREFIX_LEN]> {
    if let Some(prefix) = payload.parts().next().and_then(|part| part.first_chunk()) {
        return Some(*prefix);
    }
    let mut bytes = Vec::new();
    payload.for_each(0, PREFIX_LEN, |part| bytes.extend_from_slice(part));
    bytes.first_chunk().copied()
}

fn decode_control(kind: u8, payload: &Payload) -> Result<Ordered, Malformed> {
    if payload.len() > CONTROL_MAX {
        return Err(Malformed { what: "length", at: CONTROL_MAX });
    }
    let bytes = payload.to_bytes();
    let mut reader = Reader::new(&bytes);
    reader.take(PREFIX_LEN, "prefix")?;
    let ordered = match kind {
        JOIN => Ordered::Join { name: read_client(&mut reader)?, group: read_group(&mut reader)? },
        LEAVE => Ordered::Leave { group: read_group(&mut reader)? },
        DISCONNECT => Ordered::Disconnect,
        _ => return Err(Malformed { what: "kind", at: 0 }),
    };
    reader.end("end")?;
    Ok(ordered)
}

/// Reads a client's name.
///
/// # Errors
/// [`Malformed`] where it is none.
pub fn read_client(reader: &mut Reader<'_>) -> Result<ClientName, Malformed> {
    let before = reader.clone();
    let len = reader.u8("client name")?;
    ClientName::new(reader.take(usize::from(len), "client name")?).ok_or(before.bad("client name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> GroupName {
        GroupName::new(b"orders").unwrap()
    }

    fn every_kind() -> [(Payload, Ordered); 4] {
        let (client, name) = (ClientId(9), ClientName::new(b"bob").unwrap());
        let body = Bytes::from_static(b"\0\x01\x01gpayload");
        [
            ([multicast_prefix(client), body].into_iter().collect(), Ordered::Multicast),
            (join(client, &name, &group()).into(), Ordered::Join { name, group: group() }),
            (leave(client, &group()).into(), Ordered::Leave { group: group() }),
            (disconnect(client).into(), Ordered::Disconnect),
        ]
    }

    #[test]
    fn every_kind_reads_back_however_it_was_cut() {
        for (payload, meant) in every_kind() {
            let bytes = payload.to_bytes();
            for cut in 0..=bytes.len() {
                let rope: Payload = [bytes.slice(..cut), bytes.slice(cut..)].into_iter().collect();
                assert_eq!(decode(&rope), Ok((ClientId(9), meant.clone())));
            }
        }
    }

    #[test]
    fn no_mutation_panics() {
        for (payload, _) in every_kind() {
            consort_wire::mutate::each(&payload.to_bytes(), 3_000, |bytes| {
                let _ = decode(&Bytes::copy_from_slice(bytes).into());
            });
        }
    }

    #[test]
    fn trailing_bytes_and_giants_are_refused() {
        let long = [disconnect(ClientId(1)), Bytes::from_static(b"x")].into_iter().collect();
        assert_eq!(decode(&long), Err(Malformed { what: "end", at: 5 }));
        let giant = [leave(ClientId(1), &group()), Bytes::from(vec![0; 1 << 20])].into_iter().collect();
        assert_eq!(decode(&giant), Err(Malformed { what: "length", at: CONTROL_MAX }));
    }
}
