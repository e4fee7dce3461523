//! What the ring puts on the network.
//!
//! All packets begin with a kind byte. Lengths without the envelope:
//!
//! | kind | bytes | fields |
//! |---|---|---|
//! | 1 data | 38 + content | flags, ring, seq, originator, round, content |
//! | 2 token | 70 + 12 a run | ring, token_seq, seq, aru, aru_by, fcc (packets, bytes), idle (highest bit: rested, next: granted), window, room, personal, signs, requests |
//! | 3 ack | 35 | ring, aru, stable |
//! | 4 token request | 19 | ring |
//! | 5 join | see [`Join`] | sets of members, number, ring, heard, leave, episode, attempt |
//! | 6 commit | see [`Commit`] | ring, rotation, members, what each old ring's members hold |
//! | 7 beacon | see [`Beacon`] | ring, members, heard, wants, settled, annotation, padding |
//! | 8 late | 32 + 2 a node | asks (0 or 1), ring, token_seq, to, counted heard |
//! | 9 stamped token | 8 more than a token | stamp, then as a token |
//! | 10 reach | 20 | asks (0 or 1), ring |
//!
//! Content by flag: messages (none), a packet of an old ring (2: old ring's index, originator, body; `round` holds the old
//! seq), or the event that makes a view primary (4: nothing). Bit 0 marks a retransmission, bit 3 (8) messages whose sender
//! requests acknowledgements, bit 4 (16) a stamp (8) before the content. Membership packets (5 to 7) may be larger than a datagram of the configured size; they alone may be fragmented by IP.
use crate::RingId;
use crate::holdings::HoldingsMap;
use crate::load::{RotationSigns, SentLoad};
pub use crate::requests::RUN_LEN;
use crate::requests::Requests;
pub use crate::{SEQ_END, STAMP_END};
use bytes::{BufMut, Bytes, BytesMut};
pub use consort_member::Clocks;
pub use consort_member::packet::{Beacon, NUMBER_MAX, Proposal};
use consort_member::packet::{flags, optional};
use consort_types::{MemberId, NodeId, Seq};
use consort_wire::cursor::VIEW_ID_LEN;
use consort_wire::pack::Body;
use consort_wire::{MEMBER_LEN, Malformed, Reader, Writer};
use std::collections::BTreeSet;

/// One packet of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingPacket {
    /// A numbered packet of messages.
    Data(DataPacket),
    /// The right to number messages.
    Token(Token),
    /// What the sender holds, told outside of any rotation.
    Ack(Ack),
    /// Asks the representative for the token.
    TokenRequest(TokenRequest),
    /// Asks whether a granted token would come and come back.
    Reach(Reach),
    /// Who I think should form a ring.
    Join(Join),
    /// The agreed members tell each other what they hold.
    Commit(Commit),
    /// Who I am with and whom I hear.
    Beacon(Beacon),
    /// The token does not come.
    Late(Late),
}

/// A numbered packet: one seq, one datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPacket {
    /// The ring that numbered it.
    pub ring: RingId,
    /// Its sequence number.
    pub seq: Seq,
    /// Who numbered it; who sends it may be another, when it was asked for again.
    pub originator: NodeId,
    /// Which of the originator's visits it belongs to, by the sender's method of priority.
    pub round: u64,
    /// Sent because it was asked for.
    pub retransmission: bool,
    /// Its sender requests an acknowledgement of all once they hold everything up to here.
    pub ack_request: bool,
    /// Of its first message; the others follow one by one. 0 where the ring stamps nothing.
    pub stamp: u64,
    /// What it carries.
    pub content: DataContent,
}

/// What a numbered packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataContent {
    /// Messages.
    Messages(Body),
    /// A packet of an old ring, for those that lack it.
    Recovered(Recovered),
    /// All members installed the view: from here on it is primary.
    Primary,
}

/// A packet of an old ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Which old ring: its index in the commit token.
    pub old: u8,
    /// Its sequence number there.
    pub seq: Seq,
    /// Who numbered it there.
    pub originator: NodeId,
    /// Its stamp there.
    pub stamp: u64,
    /// Its content there; never itself recovered, since a recovered packet is put back into its own ring on arrival.
    pub body: Option<Body>,
}

/// The count of idle rotations goes no further.
pub(crate) const IDLE_MAX: u8 = 0x3f;
/// These stand beside that count in its byte.
const RESTED: u8 = 0x80;
const GRANTED: u8 = 0x40;

/// The token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Token {
    /// The ring it belongs to.
    pub ring: RingId,
    /// Grows by one at every hop, so that a repeated token is known.
    pub token_seq: u64,
    /// The highest sequence number given away so far.
    pub seq: Seq,
    /// All members are believed to have received everything up to here.
    pub aru: Seq,
    /// Who lowered aru last; it alone may raise it again.
    pub aru_by: Option<NodeId>,
    /// What was sent in the last rotation.
    pub fcc: SentLoad,
    /// Rotations in which nothing was left to do, as counted by the representative.
    pub idle: u8,
    /// The representative has let it rest in this rotation.
    pub rested: bool,
    /// It is on its way from the representative to one member, or back from there: not a part of any rotation.
    pub granted: bool,
    /// Bytes that may be sent in this rotation: the least room reported in the last one.
    pub window: u32,
    /// The least room reported in this rotation so far.
    pub room: u32,
    /// Packets that a member may send in a visit of this rotation; the other windows follow from it.
    pub personal: u16,
    /// What members have seen in this rotation so far that bears on the next one's windows.
    pub signs: RotationSigns,
    /// The highest stamp given away so far; 0 where the ring stamps nothing.
    pub stamp: u64,
    /// Which sequence numbers somebody misses.
    pub requests: Requests,
}

/// Who the sender thinks should form a ring, and who should not. Sent again and again while it gathers.
///
/// Bytes: kind 1, flags 1 (bit 0 leave, bit 1 attempt present), number 8, ring 18, episode 8, attempt 18, then three
/// counted lists: proc and fail (10 a member), heard (2 a node); then the clocks (see [`consort_member::Clocks`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Whom it wants.
    pub proposal: Proposal,
    /// The ring it has installed.
    pub ring: RingId,
    /// The ring whose commit token it saw last without that ring coming to stand.
    pub attempt: Option<RingId>,
}

/// The commit token. The first rotation collects what each member holds of its old ring; the second tells all.
///
/// Bytes: kind 1, rotation 1, ring 18, counted members (11 each: member, index of its old ring or 255), counted old
/// rings (ring 18, line 8, counted obligations of 10 each, map of what is held).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The ring to be formed.
    pub ring: RingId,
    /// 1 collects, 2 tells.
    pub rotation: u8,
    /// All members in ring order, each with its old ring once it has told.
    pub members: Vec<(MemberId, Option<u8>)>,
    /// The old rings that the members come from.
    pub olds: Vec<OldRing>,
}

/// What the members that come from one old ring hold of it together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldRing {
    /// Which ring.
    pub ring: RingId,
    /// Safe messages up to here were proven to be held by all its members.
    pub line: Seq,
    /// Whose messages must be delivered even after a hole.
    pub obligations: BTreeSet<MemberId>,
    /// Who holds what.
    pub held: HoldingsMap,
}

/// Says what the sender holds of a ring, and what it knows all to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The ring.
    pub ring: RingId,
    /// The sender holds everything up to here.
    pub aru: Seq,
    /// All members do up to here.
    pub stable: Seq,
}

/// Asks the representative for a parked token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// The ring whose token is wanted.
    pub ring: RingId,
}

/// Asks whether packets pass from the representative to a member and back, or answers that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The ring.
    pub ring: RingId,
    /// The representative asks; otherwise a member answers.
    pub asks: bool,
}

/// Says that the token does not come, or answers whoever says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The ring whose token is missed.
    pub ring: RingId,
    /// The sender misses the token and wants to hear who is there.
    pub asks: bool,
    /// What the sender knows of the token.
    pub trail: Trail,
    /// Whom the sender knows to be there since it misses the token.
    pub heard: BTreeSet<NodeId>,
}

/// Where the token was last, as far as one member knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trail {
    /// That of the token which the member passed on last, or has.
    pub token_seq: u64,
    /// To whom it was passed on; the member itself, if it was not.
    pub to: NodeId,
}

/// The bytes of a data packet before its content.
pub const DATA_LEN: usize = 2 + VIEW_ID_LEN + 8 + 2 + 8;
/// The bytes of a stamp.
pub const STAMP_LEN: usize = 8;
/// The bytes of a recovered packet before its body.
pub const RECOVERED_LEN: usize = DATA_LEN + 1 + 2;
/// The bytes of a token without requests.
pub const TOKEN_LEN: usize = 1 + VIEW_ID_LEN + 8 + 8 + 8 + 3 + 8 + 1 + 4 + 4 + 2 + 3 + 2;
const DATA: u8 = 1;
const TOKEN: u8 = 2;
const ACK: u8 = 3;
const TOKEN_REQUEST: u8 = 4;
const JOIN: u8 = 5;
const COMMIT: u8 = 6;
const BEACON: u8 = 7;
const LATE: u8 = 8;
const STAMPED_TOKEN: u8 = 9;
const REACH: u8 = 10;
const RETRANSMISSION: u8 = 1;
const RECOVERED: u8 = 2;
const PRIMARY: u8 = 4;
const ACK_REQUEST: u8 = 8;
const STAMPED: u8 = 16;
const UNKNOWN: u8 = 0xff;

fn read_asks(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    match reader.u8("asks")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(reader.bad("asks")),
    }
}

impl consort_wire::Packet for RingPacket {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        match self {
            Self::Data(data) => return data.encode(head),
            Self::Token(token) => token.encode(head),
            Self::Ack(ack) => {
                head.put_u8(ACK);
                head.put_view_id(ack.ring);
                head.put_u64(ack.aru.0);
                head.put_u64(ack.stable.0);
            }
            Self::TokenRequest(request) => {
                head.put_u8(TOKEN_REQUEST);
                head.put_view_id(request.ring);
            }
            Self::Reach(reach) => {
                head.put_u8(REACH);
                head.put_u8(u8::from(reach.asks));
                head.put_view_id(reach.ring);
            }
            Self::Join(join) => join.encode(head),
            Self::Commit(commit) => commit.encode(head),
            Self::Beacon(beacon) => {
                head.put_u8(BEACON);
                beacon.encode(head);
            }
            Self::Late(late) => {
                head.put_u8(LATE);
                head.put_u8(u8::from(late.asks));
                head.put_view_id(late.ring);
                head.put_u64(late.trail.token_seq);
                head.put_u16(late.trail.to.0);
                head.put_nodes(&late.heard);
            }
        }
        Bytes::new()
    }

    fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&bytes);
        match reader.u8("kind")? {
            DATA => DataView::new(&bytes)?.value().map(Self::Data),
            // One call for both: it is put in line.
            kind @ (TOKEN | STAMPED_TOKEN) => {
                let stamp = if kind == STAMPED_TOKEN { read_stamp(&mut reader)? } else { 0 };
                Token::decode(reader, stamp).map(Self::Token)
            }
            JOIN => Join::decode(reader).map(Self::Join),
            COMMIT => Commit::decode(reader).map(Self::Commit),
            BEACON => Beacon::decode(reader).map(Self::Beacon),
            ACK => {
                let ring = reader.view_id("ring")?;
                let (aru, stable) = (Seq(reader.u64("aru")?), Seq(reader.u64("stable")?));
                if aru.0 >= SEQ_END || stable > aru {
                    return Err(reader.bad("stable beyond aru"));
                }
                reader.end("ack")?;
                Ok(Self::Ack(Ack { ring, aru, stable }))
            }
            TOKEN_REQUEST => {
                let ring = reader.view_id("ring")?;
                reader.end("token request")?;
                Ok(Self::TokenRequest(TokenRequest { ring }))
            }
            REACH => {
                let asks = read_asks(&mut reader)?;
                let ring = reader.view_id("ring")?;
                reader.end("reach")?;
                Ok(Self::Reach(Reach { ring, asks }))
            }
            LATE => {
                let asks = read_asks(&mut reader)?;
                let ring = reader.view_id("ring")?;
                let trail = Trail { token_seq: reader.u64("token_seq")?, to: NodeId(reader.u16("to")?) };
                let heard = reader.nodes("heard")?;
                reader.end("late")?;
                Ok(Self::Late(Late { ring, asks, trail, heard }))
            }
            _ => Err(reader.bad("kind")),
        }
    }
}

impl DataContent {
    /// Whether it must not be delivered before it is stable.
    pub fn is_safe(&self) -> bool {
        matches!(self, Self::Messages(body) if body.is_safe())
    }

    fn len(&self) -> usize {
        match self {
            Self::Messages(body) => body.as_bytes().len(),
            Self::Recovered(recovered) => 3 + recovered.body.as_ref().map_or(0, |body| body.as_bytes().len()),
            Self::Primary => 0,
        }
    }
}

impl DataPacket {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let retransmission = flag(self.retransmission, RETRANSMISSION);
        let (flags, round) = match &self.content {
            DataContent::Messages(_) => (flag(self.ack_request, ACK_REQUEST), self.round),
            DataContent::Recovered(recovered) => (RECOVERED, recovered.seq.0),
            DataContent::Primary => (PRIMARY, self.round),
        };
        head.put_u8(DATA);
        head.put_u8(flags | retransmission | flag(self.stamp > 0, STAMPED));
        head.put_view_id(self.ring);
        head.put_u64(self.seq.0);
        head.put_u16(self.originator.0);
        head.put_u64(round);
        if self.stamp > 0 {
            head.put_u64(self.stamp);
        }
        match &self.content {
            DataContent::Messages(body) => body.as_bytes().clone(),
            DataContent::Primary => Bytes::new(),
            DataContent::Recovered(recovered) => {
                head.put_u8(recovered.old);
                head.put_u16(recovered.originator.0);
                recovered.body.as_ref().map_or_else(Bytes::new, |body| body.as_bytes().clone())
            }
        }
    }

    /// The bytes it takes as a packet.
    pub fn wire_len(&self) -> usize {
        let stamp = if self.stamp > 0 { STAMP_LEN } else { 0 };
        DATA_LEN + stamp + self.content.len()
    }
}

/// Checked bytes of a data packet: length and flags are right, fields are read where they lie.
#[derive(Clone, Copy, Debug)]
pub struct DataView<'a>(&'a Bytes);

impl<'a> DataView<'a> {
    /// Checks the length and the flags.
    ///
    /// # Errors
    /// [`Malformed`] where the packet cannot be one of ours.
    pub fn new(bytes: &'a Bytes) -> Result<Self, Malformed> {
        if bytes.len() < DATA_LEN {
            return Err(Malformed { what: "data packet", at: bytes.len() });
        }
        match bytes[1] & !(RETRANSMISSION | STAMPED) {
            0 | ACK_REQUEST | RECOVERED | PRIMARY => Ok(Self(bytes)),
            _ => Err(Malformed { what: "flags", at: 1 }),
        }
    }

    fn value(self) -> Result<DataPacket, Malformed> {
        let mut reader = Reader::new(self.0);
        reader.take(1, "kind")?;
        let flags = reader.u8("flags")?;
        let ring = reader.view_id("ring")?;
        let seq = read_seq(&mut reader, "seq")?;
        let originator = NodeId(reader.u16("originator")?);
        let has = |flag| flags & flag != 0;
        let round = reader.u64("round")?;
        let stamp = if has(STAMPED) { read_stamp(&mut reader)? } else { 0 };
        let (content, round) = match flags & !(RETRANSMISSION | STAMPED) {
            RECOVERED => (DataContent::Recovered(self.recovered(&mut reader, round, stamp)?), 0),
            PRIMARY => {
                reader.end("primary")?;
                (DataContent::Primary, round)
            }
            _ => (DataContent::Messages(Body::new(self.0.slice(reader.at()..))?), round),
        };
        let (retransmission, ack_request) = (has(RETRANSMISSION), has(ACK_REQUEST));
        Ok(DataPacket { ring, seq, originator, round, retransmission, ack_request, stamp, content })
    }

    fn recovered(self, reader: &mut Reader<'_>, seq: u64, stamp: u64) -> Result<Recovered, Malformed> {
        let seq = checked_seq(reader, seq, "old seq")?;
        let old = reader.u8("old ring")?;
        let originator = NodeId(reader.u16("old originator")?);
        let rest = self.0.slice(reader.at()..);
        let body = if rest.is_empty() { None } else { Some(Body::new(rest)?) };
        Ok(Recovered { old, seq, originator, stamp, body })
    }
}

fn read_seq(reader: &mut Reader<'_>, what: &'static str) -> Result<Seq, Malformed> {
    let seq = reader.u64(what)?;
    checked_seq(reader, seq, what)
}

fn checked_seq(reader: &Reader<'_>, seq: u64, what: &'static str) -> Result<Seq, Malformed> {
    if seq == 0 || seq >= SEQ_END { Err(reader.bad(what)) } else { Ok(Seq(seq)) }
}

fn read_stamp(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    let stamp = reader.u64("stamp")?;
    if stamp == 0 || stamp >= STAMP_END { Err(reader.bad("stamp")) } else { Ok(stamp) }
}

impl Token {
    fn encode(&self, head: &mut BytesMut) {
        if self.stamp > 0 {
            head.put_u8(STAMPED_TOKEN);
            head.put_u64(self.stamp);
        } else {
            head.put_u8(TOKEN);
        }
        head.put_view_id(self.ring);
        head.put_u64(self.token_seq);
        head.put_u64(self.seq.0);
        head.put_u64(self.aru.0);
        head.put_u8(u8::from(self.aru_by.is_some()));
        head.put_u16(self.aru_by.unwrap_or_default().0);
        head.put_u32(self.fcc.packets);
        head.put_u32(self.fcc.bytes);
        let (rested, granted) = (if self.rested { RESTED } else { 0 }, if self.granted { GRANTED } else { 0 });
        head.put_u8(self.idle.min(IDLE_MAX) | rested | granted);
        head.put_u32(self.window);
        head.put_u32(self.room);
        head.put_u16(self.personal);
        head.put_u8(self.signs.flags());
        head.put_u16(self.signs.lost);
        self.requests.encode(head);
    }

    fn decode(mut reader: Reader<'_>, stamp: u64) -> Result<Self, Malformed> {
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
        let fcc = SentLoad { packets: reader.u32("fcc")?, bytes: reader.u32("fcc")? };
        let idle = reader.u8("idle")?;
        let (idle, rested, granted) = (idle & IDLE_MAX, idle & RESTED != 0, idle & GRANTED != 0);
        let (window, room) = (reader.u32("window")?, reader.u32("room")?);
        let personal = reader.u16("personal")?;
        let flags = reader.u8("signs")?;
        let signs = RotationSigns::new(flags, reader.u16("lost")?).ok_or_else(|| reader.bad("signs"))?;
        let requests = Requests::decode(&mut reader, seq)?;
        reader.end("token")?;
        Ok(Self {
            ring,
            token_seq,
            seq,
            aru,
            aru_by,
            fcc,
            idle,
            rested,
            granted,
            window,
            room,
            personal,
            signs,
            stamp,
            requests,
        })
    }
}

impl Join {
    fn encode(&self, head: &mut BytesMut) {
        head.put_u8(JOIN);
        head.put_u8(u8::from(self.proposal.leave) | u8::from(self.attempt.is_some()) << 1);
        head.put_u64(self.proposal.number);
        head.put_view_id(self.ring);
        head.put_u64(self.proposal.episode);
        head.put_view_id(self.attempt.unwrap_or_default());
        self.proposal.encode_lists(head);
    }

    fn decode(mut reader: Reader<'_>) -> Result<Self, Malformed> {
        let (leave, attempted) = flags(&mut reader)?;
        let number = reader.u64("number")?;
        let ring = reader.view_id("ring")?;
        let episode = reader.u64("episode")?;
        let attempt = optional(&mut reader, attempted, "attempt")?;
        if number > NUMBER_MAX {
            return Err(reader.bad("number"));
        }
        let proposal = Proposal { leave, number, episode, ..Proposal::decode_lists(reader)? };
        Ok(Self { proposal, ring, attempt })
    }
}

/// The most sequence numbers that all maps of a commit token may cover together: a few bytes can claim many.
pub const SEQS_ALL: usize = 1 << 20;

impl Commit {
    fn encode(&self, head: &mut BytesMut) {
        head.put_u8(COMMIT);
        head.put_u8(self.rotation);
        head.put_view_id(self.ring);
        head.put_count(self.members.len());
        for (member, old) in &self.members {
            head.put_member(*member);
            head.put_u8(old.unwrap_or(UNKNOWN));
        }
        head.put_count(self.olds.len());
        for old in &self.olds {
            head.put_view_id(old.ring);
            head.put_u64(old.line.0);
            head.put_members(&old.obligations);
            old.held.encode(head);
        }
    }

    fn decode(mut reader: Reader<'_>) -> Result<Self, Malformed> {
        let rotation = reader.u8("rotation")?;
        if !(1..=2).contains(&rotation) {
            return Err(reader.bad("rotation"));
        }
        let ring = reader.view_id("ring")?;
        let n = reader.count(MEMBER_LEN + 1, "members")?;
        let members = (0..n)
            .map(|_| {
                let member = reader.member("member")?;
                let old = reader.u8("old ring")?;
                Ok((member, (old != UNKNOWN).then_some(old)))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let n = reader.count(VIEW_ID_LEN + 8, "old rings")?;
        if n > members.len() {
            return Err(reader.bad("old rings"));
        }
        let mut left = SEQS_ALL;
        let olds = (0..n).map(|_| OldRing::decode(&mut reader, &mut left)).collect::<Result<Vec<_>, _>>()?;
        reader.end("commit")?;
        let commit = Self { ring, rotation, members, olds };
        if commit.is_sound() { Ok(commit) } else { Err(reader.bad("commit")) }
    }

    /// Whether members ascend by node, told members stand before untold ones, and all indices exist.
    fn is_sound(&self) -> bool {
        let ascending = self.members.is_sorted_by(|(a, _), (b, _)| a.node < b.node);
        let told = self.members.iter().take_while(|(_, old)| old.is_some()).count();
        let rest_untold = self.members[told..].iter().all(|(_, old)| old.is_none());
        let exist = self.members.iter().flat_map(|(_, old)| old).all(|old| usize::from(*old) < self.olds.len());
        let numbers = self.ring.number <= NUMBER_MAX && self.olds.iter().all(|old| old.ring.number < self.ring.number);
        let led = self.members.first().is_some_and(|(first, _)| *first == self.ring.representative);
        let holders =
            self.olds.iter().all(|old| old.held.holders().all(|holder| usize::from(holder) < self.members.len()));
        ascending
            && rest_untold
            && exist
            && numbers
            && led
            && holders
            && (self.rotation == 1 || told == self.members.len())
    }

    /// How many sequence numbers all maps cover together.
    pub fn seqs(&self) -> usize {
        self.olds.iter().map(|old| old.held.seqs()).sum()
    }

    /// How many members have told what they hold.
    pub fn told(&self) -> usize {
        self.members.iter().take_while(|(_, old)| old.is_some()).count()
    }

    /// The members alone.
    pub fn member_ids(&self) -> Vec<MemberId> {
        self.members.iter().map(|(member, _)| *member).collect()
    }

    /// The members that come from one old ring.
    pub fn moving_from(&self, old: u8) -> impl Iterator<Item = MemberId> {
        self.members.iter().filter(move |(_, from)| *from == Some(old)).map(|(member, _)| *member)
    }
}

impl OldRing {
    /// Reads one, and takes the sequence numbers of its map off those that are `left`.
    fn decode(reader: &mut Reader<'_>, left: &mut usize) -> Result<Self, Malformed> {
        let ring = reader.view_id("old ring")?;
        let line = Seq(reader.u64("line")?);
        let obligations = reader.members("obligations")?.into_iter().collect();
        let held = HoldingsMap::decode(reader, *left)?;
        *left -= held.seqs();
        Ok(Self { ring, line, obligations, held })
    }
}
