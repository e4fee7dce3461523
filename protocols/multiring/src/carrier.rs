//! What travels within the order of a ring: its messages are these.
//!
//! | kind | bytes | fields behind the kind byte and the view (18) |
//! |---|---|---|
//! | 1 data | 47 + payload | member 2 (index in the view), number 8, done 8, ring 1, stamp 8 (0 on its first ring), level 1, payload |
//! | 2 horizons | 21 + 17 each | counted rings: ring 1, reached 8, held 8 |
//! | 3 begin, 4 end | 37 | the configuration of the ring 18 |
//!
//! The level has the service in its lowest 3 bits; bit 3 marks a control message, bit 4 the event that makes a view primary.
use crate::horizon::Horizon;
use crate::key::RingNumber;
use bytes::{BufMut, BytesMut};
use consort_ring::STAMP_END;
use consort_types::{Class, Service, ViewId};
use consort_wire::cursor::VIEW_ID_LEN;
use consort_wire::{Malformed, Payload, Reader, Writer};

/// The most bytes that stand before a message's own.
pub const HEADER: usize = 1 + VIEW_ID_LEN + 28;

/// What it takes to hold a message, beside its bytes.
pub(crate) const MESSAGE_COST: usize = 64;

/// One message of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// The view of the network that it belongs to; in others it means nothing.
    pub view: ViewId,
    /// What it brings.
    pub content: CarrierContent,
}

/// What a message of a ring brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CarrierContent {
    /// A message, on its first ring or sent on by a gateway.
    Data(CarriedMessage),
    /// A gateway tells of the rings behind it.
    Horizons(Vec<(RingNumber, Horizon)>),
    /// The sender has installed the view, and uses this configuration of the ring for it.
    Begin(ViewId),
    /// The sender's view ends.
    End(ViewId),
}

/// A message as it is carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedMessage {
    /// The member that sent it, by its index in the view.
    pub member: u16,
    /// Which of that member's, from 1.
    pub number: u64,
    /// So many of that member's had been handed out by all when it was sent.
    pub done: u64,
    /// The ring that it was first sent on.
    pub ring: RingNumber,
    /// The stamp that it got there. 0 on that ring itself, where its place tells.
    pub stamp: u64,
    /// What it is.
    pub message: Message,
}

/// A message itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Control or client.
    pub class: Class,
    /// The level that was asked for.
    pub service: Service,
    /// It has no bytes, and makes the view primary.
    pub makes_primary: bool,
    /// Its bytes.
    pub payload: Payload,
}

const DATA: u8 = 1;
const HORIZONS: u8 = 2;
const BEGIN: u8 = 3;
const END: u8 = 4;
const CONTROL: u8 = 8;
const PRIMARY: u8 = 16;
const ENTRY_LEN: usize = 17;

impl Message {
    /// Service, class and kind in one byte.
    pub(crate) fn level(&self) -> u8 {
        let control = if self.class == Class::Control { CONTROL } else { 0 };
        self.service as u8 | control | if self.makes_primary { PRIMARY } else { 0 }
    }

    /// Reads such a byte.
    pub(crate) fn of_level(level: u8, payload: Payload) -> Option<Self> {
        let service = Service::from_wire(level & 7)?;
        let class = if level & CONTROL != 0 { Class::Control } else { Class::Client };
        (level <= 31).then_some(Self { class, service, makes_primary: level & PRIMARY != 0, payload })
    }

    /// What it counts where memory is bounded.
    pub(crate) const fn cost(&self) -> usize {
        self.payload.len() + MESSAGE_COST
    }
}

impl Carrier {
    /// As which level it goes through a ring: a safe message may not be handed out by it before all its nodes hold it.
    pub fn rides(&self) -> Service {
        //= TM14
        match &self.content {
            CarrierContent::Data(data) if data.message.service == Service::Safe => Service::Safe,
            _ => Service::Agreed,
        }
    }

    /// As a message of a ring.
    pub fn encode(&self) -> Payload {
        let mut head = BytesMut::with_capacity(HEADER);
        match &self.content {
            CarrierContent::Data(data) => {
                head.put_u8(DATA);
                head.put_view_id(self.view);
                head.put_u16(data.member);
                head.put_u64(data.number);
                head.put_u64(data.done);
                head.put_u8(data.ring.0);
                head.put_u64(data.stamp);
                head.put_u8(data.message.level());
                let parts = data.message.payload.parts().cloned();
                return std::iter::once(head.freeze()).chain(parts).collect();
            }
            CarrierContent::Horizons(entries) => {
                head.put_u8(HORIZONS);
                head.put_view_id(self.view);
                put_horizons(&mut head, entries);
            }
            CarrierContent::Begin(ring) | CarrierContent::End(ring) => {
                let begins = matches!(self.content, CarrierContent::Begin(_));
                head.put_u8(if begins { BEGIN } else { END });
                head.put_view_id(self.view);
                head.put_view_id(*ring);
            }
        }
        head.freeze().into()
    }

    /// Reads a message of a ring.
    ///
    /// # Errors
    /// [`Malformed`] where it cannot be one of ours.
    pub fn decode(mut payload: Payload) -> Result<Self, Malformed> {
        let first = payload.first().unwrap_or_default();
        let head = if first == DATA { payload.split_to(HEADER).to_bytes() } else { payload.to_bytes() };
        let mut reader = Reader::new(&head);
        let kind = reader.u8("kind")?;
        let view = reader.view_id("view")?;
        let content = match kind {
            DATA => CarrierContent::Data(read_data(&mut reader, payload)?),
            HORIZONS => CarrierContent::Horizons(read_horizons(&mut reader)?),
            BEGIN => CarrierContent::Begin(reader.view_id("ring")?),
            END => CarrierContent::End(reader.view_id("ring")?),
            _ => return Err(reader.bad("kind")),
        };
        reader.end("message of a ring")?;
        Ok(Self { view, content })
    }
}

fn read_data(reader: &mut Reader<'_>, payload: Payload) -> Result<CarriedMessage, Malformed> {
    let (member, number, done) = (reader.u16("member")?, reader.u64("number")?, reader.u64("done")?);
    let (ring, stamp) = (RingNumber(reader.u8("ring")?), reader.u64("stamp")?);
    let message = Message::of_level(reader.u8("level")?, payload).ok_or(reader.bad("level"))?;
    if done >= number || stamp >= STAMP_END {
        return Err(reader.bad("number or stamp"));
    }
    Ok(CarriedMessage { member, number, done, ring, stamp, message })
}

/// Writes what is known of rings.
pub(crate) fn put_horizons(head: &mut BytesMut, entries: &[(RingNumber, Horizon)]) {
    head.put_count(entries.len());
    for (ring, horizon) in entries {
        head.put_u8(ring.0);
        head.put_u64(horizon.reached);
        head.put_u64(horizon.held);
    }
}

/// Reads what is known of rings.
pub(crate) fn read_horizons(reader: &mut Reader<'_>) -> Result<Vec<(RingNumber, Horizon)>, Malformed> {
    let n = reader.count(ENTRY_LEN, "rings")?;
    let entry = |_| {
        let ring = RingNumber(reader.u8("ring")?);
        let horizon = Horizon { reached: reader.u64("reached")?, held: reader.u64("held")? };
        if horizon.reached.max(horizon.held) >= STAMP_END { Err(reader.bad("stamp")) } else { Ok((ring, horizon)) }
    };
    (0..n).map(entry).collect()
}
