//! What the engine puts on the network. Every packet begins with its ring (1 byte), then its kind (1).
//!
//! | kind | fields |
//! |---|---|
//! | 1 of the ring | a packet of Ring Paxos |
//! | 2 wanted | slot (8), the slot that the ring has reached there (8), the slot of now there (8) |
//!
//! Every message in a ring has before its bytes the number of the view it was sent in (8), and its own among those of its
//! class that its sender sent in that view (8).
use crate::pace::Wanted;
use crate::slot::{RingId, Slot};
use bytes::{BufMut, Bytes, BytesMut};
use consort_wire::{Malformed, Payload, Reader};

/// How many bytes a [`Stamp`] takes.
pub const HEADER: usize = 16;

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
    Wanted(Wanted),
}

impl consort_wire::Packet for Packet {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        head.put_u8(self.ring.0);
        match &self.content {
            Content::Ring(packet) => {
                head.put_u8(1);
                packet.encode(head)
            }
            Content::Wanted(Wanted { slot, reached, clock }) => {
                head.put_u8(2);
                [slot, reached, clock].into_iter().for_each(|slot| head.put_u64(slot.0));
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
                let mut slot = |name| {
                    let slot = Slot(reader.u64(name)?);
                    if slot > Slot::LAST { Err(reader.bad(name)) } else { Ok(slot) }
                };
                let wanted = Wanted { slot: slot("slot")?, reached: slot("reached")?, clock: slot("clock")? };
                reader.end("wanted")?;
                Content::Wanted(wanted)
            }
            _ => return Err(reader.bad("kind")),
        };
        Ok(Self { ring, content })
    }
}

/// What stands before a message's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The number of the view it is sent in.
    pub view: u64,
    /// Its own, from 1, among those of its class that its sender sends in that view.
    pub number: u64,
}

/// A message with its stamp.
pub fn stamp(stamp: Stamp, payload: Payload) -> Payload {
    let mut head = BytesMut::with_capacity(HEADER);
    head.put_u64(stamp.view);
    head.put_u64(stamp.number);
    std::iter::once(head.freeze()).chain(payload.parts().cloned()).collect()
}

/// A message's stamp, and its bytes; nothing where it is too short to have one.
pub fn unstamp(bytes: &Bytes) -> Option<(Stamp, Bytes)> {
    let (view, rest) = bytes.split_first_chunk()?;
    let number = rest.first_chunk()?;
    let stamp = Stamp { view: u64::from_be_bytes(*view), number: u64::from_be_bytes(*number) };
    Some((stamp, bytes.slice(HEADER..)))
}
