//! What the engine puts on the network. Lengths without the envelope:
//!
//! | kind | bytes | fields |
//! |---|---|---|
//! | 1 message | 32 + 8 an acknowledgement + body | content 1, view, sender's place, k, counted acknowledgements (place 2, k 6), body |
//! | 2 nak | 22 + 16 a range | view, sender's place, counted ranges (first, last) |
//! | 3 status | 21 + 8 a member | view, counted numbers of packets held |
//! | 0x80 and up | | the membership's: [`consort_member::vs::MembershipPacket`] |
//!
//! Content is 0 for messages, 1 for nothing (a packet that only acknowledges), 2 for the event that makes a view primary.
//! A *place* is a member's among the view's members, which ascend by node.
use bytes::{BufMut, Bytes, BytesMut};
use consort_member::vs;
use consort_types::ViewId;
use consort_wire::cursor::VIEW_ID_LEN;
use consort_wire::pack::Body;
use consort_wire::{Malformed, Reader, Writer};

/// One packet of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TotoPacket {
    /// A node of the DAG.
    Message(DagMessage),
    /// I lack these.
    Nak(Nak),
    /// This I hold.
    Status(HoldingsStatus),
    /// The membership's.
    Member(vs::MembershipPacket),
}

/// A node of the DAG: one packet, one number, one datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DagMessage {
    /// The view it belongs to.
    pub view: ViewId,
    /// Its sender's place; who sends it may be another, when it was asked for again.
    pub sender: u16,
    /// Its number among its sender's, from 1.
    pub k: u64,
    /// Which messages of others it follows directly; its sender's previous one is implied.
    pub acks: Vec<(u16, u64)>,
    /// What it carries.
    pub content: DagContent,
}

/// What a node of the DAG carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DagContent {
    /// Messages of one level.
    Body(Body),
    /// Nothing: it only votes and acknowledges.
    Null,
    /// All members installed the view: from here on it is primary.
    Primary,
}

/// Asks for packets of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nak {
    /// The view they belong to.
    pub view: ViewId,
    /// The place of the member that sent them first.
    pub sender: u16,
    /// First and last number of each run.
    pub ranges: Vec<(u64, u64)>,
}

/// How many packets of each member the sender holds without a gap; its own among them, so that a lost last one shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldingsStatus {
    /// The view they belong to.
    pub view: ViewId,
    /// By place.
    pub held: Vec<u64>,
}

/// The bytes of a message before its acknowledgements.
pub const HEAD_LEN: usize = 2 + VIEW_ID_LEN + 2 + 8 + 2;
/// The bytes of one acknowledgement.
pub const ACK_LEN: usize = 8;
/// Numbers end here.
pub const K_END: u64 = 1 << 48;

const MESSAGE: u8 = 1;
const NAK: u8 = 2;
const STATUS: u8 = 3;
const BODY: u8 = 0;
const NULL: u8 = 1;
const PRIMARY: u8 = 2;

impl TotoPacket {
    /// The view that a packet of the engine belongs to; none for the membership's.
    pub const fn view(&self) -> Option<ViewId> {
        match self {
            Self::Message(message) => Some(message.view),
            Self::Nak(nak) => Some(nak.view),
            Self::Status(status) => Some(status.view),
            Self::Member(_) => None,
        }
    }
}

impl consort_wire::Packet for TotoPacket {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        match self {
            Self::Message(message) => return message.encode(head),
            Self::Nak(nak) => {
                head.put_u8(NAK);
                head.put_view_id(nak.view);
                head.put_u16(nak.sender);
                head.put_count(nak.ranges.len());
                for (first, last) in &nak.ranges {
                    head.put_u64(*first);
                    head.put_u64(*last);
                }
            }
            Self::Status(status) => {
                head.put_u8(STATUS);
                head.put_view_id(status.view);
                head.put_count(status.held.len());
                status.held.iter().for_each(|held| head.put_u64(*held));
            }
            Self::Member(packet) => return packet.encode(head),
        }
        Bytes::new()
    }

    fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&bytes);
        let packet = match reader.u8("kind")? {
            MESSAGE => return DagMessage::decode(reader, &bytes).map(Self::Message),
            NAK => Self::Nak(Nak::decode(&mut reader)?),
            STATUS => {
                let view = reader.view_id("view")?;
                let n = reader.count(8, "held")?;
                let held = (0..n).map(|_| number(&mut reader, 0, "held")).collect::<Result<_, _>>()?;
                Self::Status(HoldingsStatus { view, held })
            }
            kind if vs::MembershipPacket::is_kind(kind) => {
                return vs::MembershipPacket::decode(bytes).map(Self::Member);
            }
            _ => return Err(reader.bad("kind")),
        };
        reader.end("packet")?;
        Ok(packet)
    }
}

impl DagMessage {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        head.put_u8(MESSAGE);
        head.put_u8(match self.content {
            DagContent::Body(_) => BODY,
            DagContent::Null => NULL,
            DagContent::Primary => PRIMARY,
        });
        head.put_view_id(self.view);
        head.put_u16(self.sender);
        head.put_u64(self.k);
        head.put_count(self.acks.len());
        for (place, k) in &self.acks {
            head.put_u64(u64::from(*place) << 48 | *k);
        }
        match &self.content {
            DagContent::Body(body) => body.as_bytes().clone(),
            DagContent::Null | DagContent::Primary => Bytes::new(),
        }
    }

    fn decode(mut reader: Reader<'_>, bytes: &Bytes) -> Result<Self, Malformed> {
        let content = reader.u8("content")?;
        let (view, sender) = (reader.view_id("view")?, reader.u16("sender")?);
        let k = number(&mut reader, 1, "number")?;
        let n = reader.count(ACK_LEN, "acknowledgements")?;
        let ack = |_| {
            let word = reader.u64("acknowledgement")?;
            let (place, k) = ((word >> 48) as u16, word & (K_END - 1));
            if k == 0 || place == sender { Err(reader.bad("acknowledgement")) } else { Ok((place, k)) }
        };
        let acks = (0..n).map(ack).collect::<Result<Vec<_>, _>>()?;
        if !acks.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(reader.bad("acknowledgements"));
        }
        let content = match content {
            BODY => DagContent::Body(Body::new(bytes.slice(reader.at()..))?),
            NULL => DagContent::Null,
            PRIMARY => DagContent::Primary,
            _ => return Err(reader.bad("content")),
        };
        if !matches!(content, DagContent::Body(_)) {
            reader.end("message")?;
        }
        Ok(Self { view, sender, k, acks, content })
    }

    /// The bytes it takes as a packet.
    pub fn wire_len(&self) -> usize {
        let body = match &self.content {
            DagContent::Body(body) => body.as_bytes().len(),
            DagContent::Null | DagContent::Primary => 0,
        };
        HEAD_LEN + ACK_LEN * self.acks.len() + body
    }
}

impl Nak {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (view, sender) = (reader.view_id("view")?, reader.u16("sender")?);
        let n = reader.count(16, "ranges")?;
        let range = |_| {
            let (first, last) = (number(reader, 1, "first")?, number(reader, 1, "last")?);
            if first > last { Err(reader.bad("range")) } else { Ok((first, last)) }
        };
        Ok(Self { view, sender, ranges: (0..n).map(range).collect::<Result<_, _>>()? })
    }
}

fn number(reader: &mut Reader<'_>, least: u64, what: &'static str) -> Result<u64, Malformed> {
    let k = reader.u64(what)?;
    if k < least || k >= K_END { Err(reader.bad(what)) } else { Ok(k) }
}
