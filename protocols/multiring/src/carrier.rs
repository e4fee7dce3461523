//! What travels within the order of a ring: its messages are these.
//!
//! | kind | bytes | fields behind the kind byte and the view (18) |
//! |---|---|---|
//! | 1 data | 47 + payload | member 2 (index in the view), number 8, done 8, ring 1, stamp 8 (0 on its first ring), level 1, payload |
//! | 2 horizons | 21 + 17 each | counted rings: ring 1, reached 8, held 8 |
//! | 3 begin, 4 end | 37 | the configuration of the ring 18 |
//! | 5 passed | 21 + 28 each | counted messages whose bytes nobody here reads: as data, without payload |
//! | 6 reads | 34 + 2 each | member 2, version 8, whether it reads everything 1, counted topics 2 |
//! | 7 echo | 31 | gateway 2, member 2, version 8 |
//!
//! The level has the service in its lowest 3 bits; bit 3 marks a control message, bit 4 the event that makes a view primary, bit
//! 5 a message without its bytes. A message's payload begins with its topics: how many (1), then each (2).
use crate::horizon::Horizon;
use crate::key::RingNumber;
use bytes::{BufMut, BytesMut};
use consort_order::Topic;
use consort_ring::STAMP_END;
use consort_types::{Class, Service, ViewId};
use consort_wire::cursor::VIEW_ID_LEN;
use consort_wire::{Malformed, Payload, Reader, Writer};

/// The most bytes that stand before a message's own.
pub const HEADER: usize = 1 + VIEW_ID_LEN + 28;

/// So many topics a message has at most; one of more is for all.
pub const TOPICS: usize = 8;
/// The most bytes that a message's topics take.
pub const TOPICS_LEN: usize = 1 + 2 * TOPICS;
/// What a ring can carry at least, so that every word of the engine finds room.
pub const CARRIED_LEAST: usize = 16 << 10;
/// So many messages go without their bytes in one word at most.
pub const PASSED: usize = 256;
/// So many topics are told one by one; who reads more reads everything.
pub const READS: usize = 4096;

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
    /// Messages that a gateway did not send on, as nobody behind it reads them: all but their bytes.
    Passed(Vec<CarriedMessage>),
    /// A member tells what it reads.
    Reads(Reads),
    /// A gateway has heard what a member reads, and holds back nothing of it from here on.
    Echo(Echo),
}

/// What a member reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reads {
    /// Which member, by its index in the view.
    pub member: u16,
    /// How often it has said so.
    pub version: u64,
    /// The topics, ascending; none where it reads everything.
    pub topics: Option<Vec<Topic>>,
}

/// A gateway's answer to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Which gateway, by its index in the view.
    pub gateway: u16,
    /// Whom it has heard.
    pub member: u16,
    /// Which of that member's words.
    pub version: u64,
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
    /// Its bytes are elsewhere: none of its topics is read here.
    pub passed: bool,
    /// Its topics, then its bytes.
    pub payload: Payload,
}

const DATA: u8 = 1;
const HORIZONS: u8 = 2;
const BEGIN: u8 = 3;
const END: u8 = 4;
const PASSED_OVER: u8 = 5;
const READ: u8 = 6;
const ECHO: u8 = 7;
const CONTROL: u8 = 8;
const PRIMARY: u8 = 16;
pub(crate) const WITHOUT_BYTES: u8 = 32;
const PASSED_LEN: usize = 28;
const ENTRY_LEN: usize = 17;

impl Message {
    /// Service, class and kind in one byte.
    pub(crate) fn level(&self) -> u8 {
        let control = if self.class == Class::Control { CONTROL } else { 0 };
        let primary = if self.makes_primary { PRIMARY } else { 0 };
        self.service as u8 | control | primary | if self.passed { WITHOUT_BYTES } else { 0 }
    }

    /// Reads such a byte.
    pub(crate) fn of_level(level: u8, payload: Payload) -> Option<Self> {
        let service = Service::from_wire(level & 7)?;
        let class = if level & CONTROL != 0 { Class::Control } else { Class::Client };
        let (makes_primary, passed) = (level & PRIMARY != 0, level & WITHOUT_BYTES != 0);
        let message = Self { class, service, makes_primary, passed, payload };
        let well = if makes_primary || passed {
            message.payload.is_empty() && !(makes_primary && passed)
        } else {
            message.topics().is_some()
        };
        (level <= 63 && well).then_some(message)
    }

    /// The same with topics before its bytes.
    pub(crate) fn with_topics(topics: &[Topic], payload: &Payload) -> Payload {
        let mut head = BytesMut::with_capacity(1 + 2 * topics.len());
        head.put_u8(topics.len() as u8);
        topics.iter().for_each(|topic| head.put_u16(topic.0));
        std::iter::once(head.freeze()).chain(payload.parts().cloned()).collect()
    }

    /// Its topics; none where it is for all.
    pub(crate) fn topics(&self) -> Option<impl Iterator<Item = Topic>> {
        let n = usize::from(self.payload.first()?);
        let mut reader = self.payload.read_from(1);
        let topics = (0..n.min(TOPICS)).map(|_| reader.take().map(u16::from_be_bytes).map(Topic));
        let topics = topics.collect::<Option<Vec<_>>>()?;
        (n <= TOPICS).then(|| topics.into_iter())
    }

    /// Its bytes, without its topics.
    pub(crate) fn into_bytes(mut self) -> Payload {
        let n = self.payload.first().map_or(0, |n| 1 + 2 * usize::from(n));
        drop(self.payload.split_to(n.min(self.payload.len())));
        self.payload
    }

    /// The same without its bytes.
    pub(crate) fn without_bytes(&self) -> Self {
        Self { passed: true, payload: Payload::new(), ..self.clone() }
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
        let is_safe = |data: &CarriedMessage| data.message.service == Service::Safe;
        match &self.content {
            CarrierContent::Data(data) if is_safe(data) => Service::Safe,
            CarrierContent::Passed(messages) if messages.iter().any(is_safe) => Service::Safe,
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
                data.put(&mut head);
                let parts = data.message.payload.parts().cloned();
                return std::iter::once(head.freeze()).chain(parts).collect();
            }
            CarrierContent::Horizons(entries) => {
                head.put_u8(HORIZONS);
                head.put_view_id(self.view);
                put_horizons(&mut head, entries);
            }
            CarrierContent::Passed(messages) => {
                head.put_u8(PASSED_OVER);
                head.put_view_id(self.view);
                head.put_count(messages.len());
                messages.iter().for_each(|data| data.put(&mut head));
            }
            CarrierContent::Reads(reads) => {
                head.put_u8(READ);
                head.put_view_id(self.view);
                reads.put(&mut head);
            }
            CarrierContent::Echo(Echo { gateway, member, version }) => {
                head.put_u8(ECHO);
                head.put_view_id(self.view);
                head.put_u16(*gateway);
                head.put_u16(*member);
                head.put_u64(*version);
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
            DATA => match read_data(&mut reader, payload)? {
                data if data.message.passed => return Err(reader.bad("level")),
                data => CarrierContent::Data(data),
            },
            HORIZONS => CarrierContent::Horizons(read_horizons(&mut reader)?),
            PASSED_OVER => CarrierContent::Passed(read_passed(&mut reader)?),
            READ => CarrierContent::Reads(Reads::read(&mut reader)?),
            ECHO => {
                let (gateway, member) = (reader.u16("gateway")?, reader.u16("member")?);
                CarrierContent::Echo(Echo { gateway, member, version: reader.u64("version")? })
            }
            BEGIN => CarrierContent::Begin(reader.view_id("ring")?),
            END => CarrierContent::End(reader.view_id("ring")?),
            _ => return Err(reader.bad("kind")),
        };
        reader.end("message of a ring")?;
        Ok(Self { view, content })
    }
}

impl CarriedMessage {
    fn put(&self, head: &mut BytesMut) {
        head.put_u16(self.member);
        head.put_u64(self.number);
        head.put_u64(self.done);
        head.put_u8(self.ring.0);
        head.put_u64(self.stamp);
        head.put_u8(self.message.level());
    }
}

impl Reads {
    fn put(&self, head: &mut BytesMut) {
        head.put_u16(self.member);
        head.put_u64(self.version);
        head.put_u8(u8::from(self.topics.is_none()));
        let topics = self.topics.as_deref().unwrap_or_default();
        head.put_count(topics.len());
        topics.iter().for_each(|topic| head.put_u16(topic.0));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (member, version) = (reader.u16("member")?, reader.u64("version")?);
        let everything = reader.u8("everything")?;
        let n = reader.count(2, "topics")?;
        let topics = (0..n).map(|_| reader.u16("topic").map(Topic)).collect::<Result<Vec<_>, _>>()?;
        let topics = match everything {
            0 if n <= READS && topics.is_sorted_by(|a, b| a < b) => Some(topics),
            1 if n == 0 => None,
            _ => return Err(reader.bad("topics")),
        };
        Ok(Self { member, version, topics })
    }
}

fn read_passed(reader: &mut Reader<'_>) -> Result<Vec<CarriedMessage>, Malformed> {
    let n = reader.count(PASSED_LEN, "passed messages")?;
    let messages = (0..n).map(|_| read_data(reader, Payload::new())).collect::<Result<Vec<_>, _>>()?;
    if messages.iter().all(|data| data.message.passed && data.stamp > 0) {
        Ok(messages)
    } else {
        Err(reader.bad("level"))
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
