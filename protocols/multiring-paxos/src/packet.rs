//! What the engine puts on the network. Every packet begins with its ring (1 byte), then its kind (1).
//!
//! | kind | fields |
//! |---|---|
//! | 1 of the ring | a packet of Ring Paxos |
//! | 2 wanted | slot (8), how long was waited, in nanoseconds (8) |
//!
//! Every message in a ring has the number of the view it was sent in before its bytes (8).
use crate::slot::{RingId, Slot};
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::Duration;
use consort_wire::{Malformed, Payload, Reader};

/// What stands before a message's bytes.
pub const HEADER: usize = 8;

/// One packet of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The ring that it is about.
    pub ring: RingId,
    /// What it says.
    pub content: Content,
}

/// What a packet says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Something of the ring's own.
    Ring(consort_paxos::packet::Packet),
    /// Messages wait for this ring.
    Wanted {
        /// The slot that it must reach.
        slot: Slot,
        /// How long messages have waited for this ring at most, since it was said last.
        waited: Duration,
    },
}

impl consort_wire::Packet for Packet {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        head.put_u8(self.ring.0);
        match &self.content {
            Content::Ring(packet) => {
                head.put_u8(1);
                packet.encode(head)
            }
            Content::Wanted { slot, waited } => {
                head.put_u8(2);
                head.put_u64(slot.0);
                head.put_u64(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX));
                Bytes::new()
            }
        }
    }

    fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&bytes);
        let ring = RingId(reader.u8("ring")?);
        let content = match reader.u8("kind")? {
            1 => Content::Ring(consort_paxos::packet::Packet::decode(bytes.slice(2..))?),
            2 => {
                let slot = Slot(reader.u64("slot")?);
                if slot > Slot::LAST {
                    return Err(reader.bad("slot"));
                }
                let waited = Duration::from_nanos(reader.u64("waited")?);
                reader.end("wanted")?;
                Content::Wanted { slot, waited }
            }
            _ => return Err(reader.bad("kind")),
        };
        Ok(Self { ring, content })
    }
}

/// A message with the number of the view it is sent in.
pub fn stamp(view: u64, payload: Payload) -> Payload {
    let head = Bytes::copy_from_slice(&view.to_be_bytes());
    std::iter::once(head).chain(payload.parts().cloned()).collect()
}

/// The view that a message was sent in, and its bytes; nothing where it is too short to tell.
pub fn unstamp(bytes: &Bytes) -> Option<(u64, Bytes)> {
    let view = bytes.first_chunk::<HEADER>()?;
    Some((u64::from_be_bytes(*view), bytes.slice(HEADER..)))
}
