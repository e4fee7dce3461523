//! What the engine puts on the network. Every packet begins with the number of its ring (1 byte), then its kind (1).
//!
//! | kind | bytes behind both | fields |
//! |---|---|---|
//! | 1 of the ring | | a packet of that ring |
//! | 2 relayed | 18 + 3 + content | the node that said it 10, which of its packets it is 8, whom it is for (flag 1, node 2), content |
//!
//! Relayed content by its first byte: 0x80 and above a packet of the membership. Else:
//!
//! | kind | fields behind the kind byte and the sender's installed view (18) |
//! |---|---|
//! | 1 handed out | counted numbers 8, one for each member: how many of its messages are |
//! | 2 known | flags 1 (bit 0 asks for the same), counted rings: ring 1, reached 8, held 8 |
//! | 3 wants | member 2, number 8, offset 4: from where on it wants that member's messages; flags 1 (bit 0 goes only the way that messages went) |
//! | 5 parted | ring 1, counted members 2: who hears the sender there |
//! | 4 pieces | up to the end: member 2, number 8, ring 1, stamp 8, level 1, length of the whole 4, offset 4, last 1, counted bytes 2 |
use crate::carrier::{put_horizons, read_horizons};
use crate::horizon::Horizon;
use crate::key::{Key, RingNumber};
use bytes::{BufMut, Bytes, BytesMut};
use consort_member::vs::MembershipPacket;
use consort_ring::STAMP_END;
use consort_ring::packet::RingPacket;
use consort_types::{MemberId, NodeId, ViewId};
use consort_wire::cursor::VIEW_ID_LEN;
use consort_wire::{MEMBER_LEN, Malformed, Packet as _, Reader, Writer};

/// What stands before a ring's own packet.
pub const RING_LEN: usize = 2;
/// What stands around a relayed packet's content.
pub const AROUND: usize = RING_LEN + MEMBER_LEN + 8 + 3;
/// What stands around pieces, with [`AROUND`].
pub const PIECES_AROUND: usize = AROUND + 1 + VIEW_ID_LEN;
/// What stands before the bytes of each piece.
pub const PIECE_HEADER: usize = 31;

/// One packet of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The ring whose nodes it is for.
    pub ring: RingNumber,
    /// What it says.
    pub content: Content,
}

/// What a packet says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Something of the ring's own.
    Ring(RingPacket),
    /// Something that gateways send on, as it is.
    Relayed(Relayed),
}

/// What any node says to any other, whatever rings lie between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relayed {
    /// Who says it.
    pub from: MemberId,
    /// Which of its packets, from 1: it may come on several ways.
    pub number: u64,
    /// Whom it is for; all where it names nobody.
    pub to: Option<NodeId>,
    /// What it says.
    pub content: RelayedContent,
}

/// What is said over several rings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayedContent {
    /// Something of the membership.
    Member(MembershipPacket),
    /// What the sender has handed out of each member of its view.
    HandedOut {
        /// The view.
        view: ViewId,
        /// How many messages of each member, by its index.
        numbers: Vec<u64>,
    },
    /// What the sender knows of each ring, now that its view ends.
    Known {
        /// The view that ends.
        view: ViewId,
        /// The sender lacks what others know.
        asks: bool,
        /// It.
        horizons: Vec<(RingNumber, Horizon)>,
    },
    /// The sender lacks messages of the view that ends.
    Wants {
        /// The view that ends.
        view: ViewId,
        /// Whose messages, by its index.
        member: u16,
        /// From which on.
        number: u64,
        /// How many bytes of that one it has.
        offset: u32,
        /// It goes only the way that messages of the view went.
        strict: bool,
    },
    /// The sender's ring lacks members that stood there when the view began.
    Parted {
        /// The view.
        view: ViewId,
        /// The ring, by its number in the view.
        ring: RingNumber,
        /// Those that are left, by their indices.
        members: Vec<u16>,
    },
    /// Such messages, and parts of them.
    Pieces {
        /// The view that ends.
        view: ViewId,
        /// As many as one packet takes.
        pieces: Vec<Piece>,
    },
}

/// A message of a view that ends, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Whose message, by its index.
    pub member: u16,
    /// Which of that member's.
    pub number: u64,
    /// Where it stands.
    pub key: Key,
    /// Its service, class and kind.
    pub level: u8,
    /// How long it is.
    pub len: u32,
    /// Where in it these bytes stand.
    pub offset: u32,
    /// Nothing follows before it is asked for.
    pub last: bool,
    /// Bytes of it.
    pub bytes: Bytes,
}

const RING: u8 = 1;
const RELAYED: u8 = 2;
const HANDED_OUT: u8 = 1;
const KNOWN: u8 = 2;
const WANTS: u8 = 3;
const PIECES: u8 = 4;
const PARTED: u8 = 5;

impl RelayedContent {
    /// The view that the sender has installed; a packet of the membership names none.
    pub const fn view(&self) -> Option<ViewId> {
        match self {
            Self::Member(_) => None,
            Self::HandedOut { view, .. }
            | Self::Known { view, .. }
            | Self::Wants { view, .. }
            | Self::Parted { view, .. }
            | Self::Pieces { view, .. } => Some(*view),
        }
    }

    fn encode(&self, head: &mut BytesMut) -> Bytes {
        match self {
            Self::Member(packet) => return packet.encode(head),
            Self::HandedOut { view, numbers } => {
                head.put_u8(HANDED_OUT);
                head.put_view_id(*view);
                head.put_count(numbers.len());
                numbers.iter().for_each(|number| head.put_u64(*number));
            }
            Self::Known { view, asks, horizons } => {
                head.put_u8(KNOWN);
                head.put_view_id(*view);
                head.put_u8(u8::from(*asks));
                put_horizons(head, horizons);
            }
            Self::Wants { view, member, number, offset, strict } => {
                head.put_u8(WANTS);
                head.put_view_id(*view);
                head.put_u16(*member);
                head.put_u64(*number);
                head.put_u32(*offset);
                head.put_u8(u8::from(*strict));
            }
            Self::Parted { view, ring, members } => {
                head.put_u8(PARTED);
                head.put_view_id(*view);
                head.put_u8(ring.0);
                head.put_count(members.len());
                members.iter().for_each(|member| head.put_u16(*member));
            }
            Self::Pieces { view, pieces } => {
                head.put_u8(PIECES);
                head.put_view_id(*view);
                pieces.iter().for_each(|piece| piece.encode(head));
            }
        }
        Bytes::new()
    }

    fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("kind")?;
        if MembershipPacket::is_kind(kind) {
            return MembershipPacket::decode(bytes.clone()).map(Self::Member);
        }
        let view = reader.view_id("view")?;
        let content = match kind {
            HANDED_OUT => {
                let n = reader.count(8, "handed out")?;
                let numbers = (0..n).map(|_| reader.u64("handed out")).collect::<Result<_, _>>()?;
                Self::HandedOut { view, numbers }
            }
            KNOWN => {
                let asks = flag(&mut reader, "asks")?;
                Self::Known { view, asks, horizons: read_horizons(&mut reader)? }
            }
            WANTS => {
                let (member, number) = (reader.u16("member")?, reader.u64("number")?);
                let offset = reader.u32("offset")?;
                Self::Wants { view, member, number, offset, strict: flag(&mut reader, "strict")? }
            }
            PARTED => {
                let ring = RingNumber(reader.u8("ring")?);
                let n = reader.count(2, "members")?;
                Self::Parted { view, ring, members: (0..n).map(|_| reader.u16("member")).collect::<Result<_, _>>()? }
            }
            PIECES => {
                let mut pieces = Vec::new();
                while reader.left() > 0 {
                    pieces.push(Piece::decode(&mut reader, bytes)?);
                }
                Self::Pieces { view, pieces }
            }
            _ => return Err(reader.bad("kind")),
        };
        reader.end("relayed packet")?;
        Ok(content)
    }
}

impl Piece {
    /// Whether it stands for a message without its bytes.
    pub const fn is_passed(&self) -> bool {
        self.level & crate::carrier::WITHOUT_BYTES != 0
    }

    /// What it takes of a packet.
    pub const fn size(&self) -> usize {
        PIECE_HEADER + self.bytes.len()
    }

    fn encode(&self, head: &mut BytesMut) {
        head.put_u16(self.member);
        head.put_u64(self.number);
        head.put_u8(self.key.ring.0);
        head.put_u64(self.key.stamp);
        head.put_u8(self.level);
        head.put_u32(self.len);
        head.put_u32(self.offset);
        head.put_u8(u8::from(self.last));
        head.put_count(self.bytes.len());
        head.extend_from_slice(&self.bytes);
    }

    fn decode(reader: &mut Reader<'_>, all: &Bytes) -> Result<Self, Malformed> {
        let (member, number) = (reader.u16("member")?, reader.u64("number")?);
        let ring = RingNumber(reader.u8("ring")?);
        let key = Key { stamp: reader.u64("stamp")?, ring };
        let level = reader.u8("level")?;
        let (len, offset) = (reader.u32("length")?, reader.u32("offset")?);
        let last = flag(reader, "last")?;
        let n = reader.count(1, "bytes")?;
        let bytes = all.slice(reader.at()..reader.at() + n);
        reader.take(n, "bytes")?;
        let fits = (offset as usize).saturating_add(bytes.len()) <= len as usize;
        if number == 0
            || key.stamp == 0
            || key.stamp >= STAMP_END
            || !fits
            || len as usize > consort_wire::pack::LARGEST
        {
            return Err(reader.bad("piece"));
        }
        Ok(Self { member, number, key, level, len, offset, last, bytes })
    }
}

impl consort_wire::Packet for Packet {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        head.put_u8(self.ring.0);
        match &self.content {
            Content::Ring(packet) => {
                head.put_u8(RING);
                packet.encode(head)
            }
            Content::Relayed(relayed) => {
                head.put_u8(RELAYED);
                head.put_member(relayed.from);
                head.put_u64(relayed.number);
                head.put_u8(u8::from(relayed.to.is_some()));
                head.put_u16(relayed.to.unwrap_or_default().0);
                relayed.content.encode(head)
            }
        }
    }

    fn network(&self) -> u8 {
        self.ring.0
    }

    fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&bytes);
        let ring = RingNumber(reader.u8("ring")?);
        let content = match reader.u8("kind")? {
            RING => Content::Ring(RingPacket::decode(bytes.slice(2..))?),
            RELAYED => {
                let (from, number) = (reader.member("from")?, reader.u64("number")?);
                let to = match (reader.u8("to")?, NodeId(reader.u16("to")?)) {
                    (0, NodeId(0)) => None,
                    (1, node) => Some(node),
                    _ => return Err(reader.bad("to")),
                };
                let content = RelayedContent::decode(&bytes.slice(reader.at()..))?;
                Content::Relayed(Relayed { from, number, to, content })
            }
            _ => return Err(reader.bad("kind")),
        };
        Ok(Self { ring, content })
    }
}

fn flag(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, Malformed> {
    match reader.u8(what)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.bad(what)),
    }
}
