//! What the ring puts on the network.
//!
//! All packets begin with a kind byte. Lengths without the envelope:
//!
//! | kind | bytes | fields |
//! |---|---|---|
//! | 1 data | 38 + body | flags, ring, seq, originator, round, body of chunks |
//! | 2 token | 65 + 12 a run | ring, token_seq, seq, aru, aru_by, fcc (packets, bytes), idle, window, room, requests |
//! | 3 form | 22 + 10 a member | ring, rotation, members |
//! | 4 hold-cancel | 19 | ring |
use crate::RingId;
use crate::flow::Load;
use crate::requests::Requests;
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::{MemberId, NodeId, Seq};
use consort_wire::cursor::VIEW_ID_LEN;
use consort_wire::pack::Body;
use consort_wire::{MEMBER_LEN, Malformed, Reader, Writer};

/// One packet of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A numbered packet of messages.
    Data(Data),
    /// The right to number messages.
    Token(Token),
    /// The configured members find each other.
    Form(Form),
    /// Asks the representative not to park the token.
    HoldCancel(HoldCancel),
}

/// A numbered packet of messages: one seq, one datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// The ring that numbered it.
    pub ring: RingId,
    /// Its place.
    pub seq: Seq,
    /// Who numbered it; who sends it may be another, when it was asked for again.
    pub originator: NodeId,
    /// Which of the originator's visits it belongs to, by the sender's method of priority.
    pub round: u64,
    /// Sent because it was asked for.
    pub retransmission: bool,
    /// The messages.
    pub body: Body,
}

/// The token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Token {
    /// The ring it belongs to.
    pub ring: RingId,
    /// Grows by one at every hop, so that a repeated token is known.
    pub token_seq: u64,
    /// The highest place given away so far.
    pub seq: Seq,
    /// All members are believed to have received everything up to here.
    pub aru: Seq,
    /// Who lowered aru last; it alone may raise it again.
    pub aru_by: Option<NodeId>,
    /// What was sent in the last rotation.
    pub fcc: Load,
    /// Rotations in which nothing was left to do, as counted by the representative.
    pub idle: u8,
    /// Bytes that may be sent in this rotation: the least room reported in the last one.
    pub window: u32,
    /// The least room reported in this rotation so far.
    pub room: u32,
    /// Which places somebody misses.
    pub requests: Requests,
}

/// A rotation of formation. The first collects the members, the second tells all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The ring that is proposed.
    pub ring: RingId,
    /// 1 collects, 2 tells.
    pub rotation: u8,
    /// The members found so far, in ring order.
    pub members: Vec<MemberId>,
}

/// Asks for a parked token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldCancel {
    /// The ring whose token is wanted.
    pub ring: RingId,
}

/// The bytes of a data packet before its body.
pub const DATA_LEN: usize = 2 + VIEW_ID_LEN + 8 + 2 + 8;
/// The bytes of a token without requests.
pub const TOKEN_LEN: usize = 1 + VIEW_ID_LEN + 8 + 8 + 8 + 3 + 8 + 1 + 4 + 4 + 2;
/// The bytes of one run of requests.
pub const RUN_LEN: usize = 12;

const DATA: u8 = 1;
const TOKEN: u8 = 2;
const FORM: u8 = 3;
const HOLD_CANCEL: u8 = 4;
const RETRANSMISSION: u8 = 1;

impl consort_wire::Packet for Packet {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        match self {
            Self::Data(data) => return data.encode(head),
            Self::Token(token) => token.encode(head),
            Self::Form(form) => form.encode(head),
            Self::HoldCancel(cancel) => {
                head.put_u8(HOLD_CANCEL);
                head.put_view_id(cancel.ring);
            }
        }
        Bytes::new()
    }

    fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&bytes);
        match reader.u8("kind")? {
            DATA => DataView::new(&bytes)?.value().map(Self::Data),
            TOKEN => Token::decode(reader).map(Self::Token),
            FORM => Form::decode(reader).map(Self::Form),
            HOLD_CANCEL => {
                let ring = reader.view_id("ring")?;
                reader.end("hold-cancel")?;
                Ok(Self::HoldCancel(HoldCancel { ring }))
            }
            _ => Err(reader.bad("kind")),
        }
    }
}

impl Data {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        head.put_u8(DATA);
        head.put_u8(if self.retransmission { RETRANSMISSION } else { 0 });
        head.put_view_id(self.ring);
        head.put_u64(self.seq.0);
        head.put_u16(self.originator.0);
        head.put_u64(self.round);
        self.body.as_bytes().clone()
    }

    /// The bytes it takes as a packet.
    pub const fn wire_len(&self) -> usize {
        DATA_LEN + self.body.as_bytes().len()
    }
}

/// Checked bytes of a data packet: what is needed to drop a duplicate is read in place, before the body is looked at.
#[derive(Clone, Copy, Debug)]
pub struct DataView<'a>(&'a Bytes);

impl<'a> DataView<'a> {
    /// Checks the length and the flags.
    ///
    /// # Errors
    /// [`Malformed`] where the packet cannot be one of ours.
    pub fn new(bytes: &'a Bytes) -> Result<Self, Malformed> {
        if bytes.len() <= DATA_LEN {
            return Err(Malformed { what: "data packet", at: bytes.len() });
        }
        if bytes[1] & !RETRANSMISSION != 0 {
            return Err(Malformed { what: "flags", at: 1 });
        }
        Ok(Self(bytes))
    }

    fn value(self) -> Result<Data, Malformed> {
        let mut reader = Reader::new(self.0);
        reader.take(1, "kind")?;
        let retransmission = reader.u8("flags")? == RETRANSMISSION;
        let ring = reader.view_id("ring")?;
        let seq = Seq(reader.u64("seq")?);
        if seq.0 == 0 || seq.0 >= SEQ_END {
            return Err(reader.bad("seq"));
        }
        let originator = NodeId(reader.u16("originator")?);
        let round = reader.u64("round")?;
        let body = Body::new(self.0.slice(reader.at()..))?;
        Ok(Data { ring, seq, originator, round, retransmission, body })
    }
}

/// Places end here: a position keeps 16 bits for the message within its packet.
pub const SEQ_END: u64 = 1 << 48;

impl Token {
    fn encode(&self, head: &mut BytesMut) {
        head.put_u8(TOKEN);
        head.put_view_id(self.ring);
        head.put_u64(self.token_seq);
        head.put_u64(self.seq.0);
        head.put_u64(self.aru.0);
        head.put_u8(u8::from(self.aru_by.is_some()));
        head.put_u16(self.aru_by.unwrap_or_default().0);
        head.put_u32(self.fcc.packets);
        head.put_u32(self.fcc.bytes);
        head.put_u8(self.idle);
        head.put_u32(self.window);
        head.put_u32(self.room);
        self.requests.encode(head);
    }

    fn decode(mut reader: Reader<'_>) -> Result<Self, Malformed> {
        let ring = reader.view_id("ring")?;
        let token_seq = reader.u64("token_seq")?;
        let seq = Seq(reader.u64("seq")?);
        let aru = Seq(reader.u64("aru")?);
        if seq.0 >= SEQ_END || aru > seq {
            return Err(reader.bad("aru beyond seq"));
        }
        let aru_by = match (reader.u8("aru_by")?, NodeId(reader.u16("aru_by")?)) {
            (0, NodeId(0)) => None,
            (1, node) => Some(node),
            _ => return Err(reader.bad("aru_by")),
        };
        let fcc = Load { packets: reader.u32("fcc")?, bytes: reader.u32("fcc")? };
        let idle = reader.u8("idle")?;
        let (window, room) = (reader.u32("window")?, reader.u32("room")?);
        let requests = Requests::decode(&mut reader, seq)?;
        reader.end("token")?;
        Ok(Self { ring, token_seq, seq, aru, aru_by, fcc, idle, window, room, requests })
    }
}

impl Form {
    fn encode(&self, head: &mut BytesMut) {
        head.put_u8(FORM);
        head.put_view_id(self.ring);
        head.put_u8(self.rotation);
        head.put_count(self.members.len());
        self.members.iter().for_each(|member| head.put_member(*member));
    }

    fn decode(mut reader: Reader<'_>) -> Result<Self, Malformed> {
        let ring = reader.view_id("ring")?;
        let rotation = reader.u8("rotation")?;
        if !(1..=2).contains(&rotation) {
            return Err(reader.bad("rotation"));
        }
        let n = reader.count(MEMBER_LEN, "members")?;
        let members = (0..n).map(|_| reader.member("member")).collect::<Result<Vec<_>, _>>()?;
        if members.is_empty() || members.windows(2).any(|pair| pair[0].node >= pair[1].node) {
            return Err(reader.bad("members"));
        }
        reader.end("form")?;
        Ok(Self { ring, rotation, members })
    }
}
