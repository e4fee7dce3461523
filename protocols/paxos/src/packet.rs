//! What the engine puts on the network. Every packet begins with its kind (1 byte) and the log it belongs to (8); a ballot
//! takes 22 bytes, a member 10, a value's name 26.
//!
//! | kind | fields |
//! |---|---|
//! | 1 beat | number, flags, promised ballot, next instance, a part of the log and its digest, view, heard members, whose records it had, three lists of incarnations and those that its disk knows, echoed ballot and number, lead, annotation |
//! | 2 value | name, links left to go, body |
//! | 3 prepare | ballot, first instance |
//! | 4 promise | ballot, incarnations, next instance, accepted items with their ballots |
//! | 5 nack | ballot, promised ballot |
//! | 6 accept | ballot, instance, links left to go, item |
//! | 7 vote | ballot, instance, incarnations |
//! | 8 decide | instance, links left to go, item |
//! | 9 fetch | names of values |
//! | 10 learn | first instance; the largest there is for where the log ends |
//! | 11 learnt | first instance, items with their payloads |
//! | 12 recover | |
//! | 13 recovered | promised ballot, incarnations, next instance, accepted items with ballots, who began the log, three lists of incarnations |
//! | 14 checkpoint | instance, place, slots, view: its number, whether primary, members and those away, each with a number; holders, each with a place; programs with their copies |
//! | 17 end | the same: where the log ends, for who asked to learn that |
//! | 15 declare | an item: what a program says of one of its copies |
//! | 16 yield | ballot, who is to lead |
//! | 18 outdated | a later incarnation of the receiver's node |
use crate::ballot::{Ballot, Began, Incarnations, Item, LogId, ValueId};
use crate::checkpoints::{Bind, Bound, Declared, Program, Seat, Statement};
use crate::learner::{Checkpoint, Present};
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::{Binding, Holder, Incarnation, MemberId, NodeId};
use consort_wire::pack::Body;
use consort_wire::{MEMBER_LEN, Malformed, Reader, Writer};
use std::collections::BTreeMap;

/// One packet of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The log that it belongs to; none where its sender has none yet.
    pub log: LogId,
    /// What it says.
    pub content: Content,
}

/// What a packet says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// I live.
    Beat(Box<Beat>),
    /// A payload on its way round.
    Value(Value),
    /// Phase 1: promise to heed no earlier ballot.
    Prepare {
        /// The ballot.
        ballot: Ballot,
        /// Everything below is known to the coordinator.
        from: u64,
    },
    /// Promised.
    Promise {
        /// For which ballot.
        ballot: Ballot,
        /// What the acceptor told.
        told: Told,
    },
    /// Refused.
    Nack {
        /// The ballot that was refused.
        ballot: Ballot,
        /// What is promised instead.
        promised: Ballot,
    },
    /// Phase 2: vote for this.
    Accept {
        /// The ballot.
        ballot: Ballot,
        /// The instance.
        at: u64,
        /// What is to stand there.
        item: Item,
        /// How many links it has yet to pass.
        hops: u16,
    },
    /// A vote, on the disk where there is one.
    Vote {
        /// The ballot.
        ballot: Ballot,
        /// The instance.
        at: u64,
        /// What incarnations its sender knows.
        incarnations: Incarnations,
    },
    /// This stands.
    Decide {
        /// Where.
        at: u64,
        /// What.
        item: Item,
        /// How many links it has yet to pass.
        hops: u16,
    },
    /// Payloads of these are asked for.
    Fetch(Vec<ValueId>),
    /// Decided items from here on are asked for.
    Learn(u64),
    /// Decided items, with their payloads.
    Learnt {
        /// The first one's instance.
        from: u64,
        /// They follow each other.
        entries: Vec<(Item, Option<Body>)>,
    },
    /// An acceptor that has forgotten asks what it may have promised.
    Recover,
    /// What another knows for it.
    Recovered(Box<Recovered>),
    /// What was asked for is not retained any more; the log goes on from here.
    Checkpoint(Box<Checkpoint>),
    /// The coordinator is asked to put this into the log.
    Declare(Box<Statement>),
    /// Where the log ends, as far as its sender knows.
    End(Box<Checkpoint>),
    /// This incarnation of the receiver's node is known, is later than the receiver, and says nothing.
    Outdated(Incarnation),
    /// The coordinator leads no more by its ballot: another is to stand at once.
    Yield {
        /// By which ballot it led.
        ballot: Ballot,
        /// Who is to lead.
        to: MemberId,
    },
}

/// What an acceptor tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Of each acceptor the latest incarnation that it knows.
    pub incarnations: Incarnations,
    /// Everything below is decided and known to it.
    pub next: u64,
    /// What it accepted from there on: instance, ballot, item.
    pub accepted: Vec<(u64, Ballot, Item)>,
}

/// What an acceptor tells one that has forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// What it promised.
    pub promised: Ballot,
    /// What it accepted.
    pub told: Told,
    /// The incarnations that began the log: none of these has forgotten anything of it.
    pub founders: Vec<MemberId>,
    /// The incarnations of acceptors that it knows, which the part before does not name.
    pub began: Began,
}

/// A payload and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its name.
    pub id: ValueId,
    /// How many links it has yet to pass.
    pub hops: u16,
    /// Whole messages.
    pub body: Body,
}

/// What every node tells all others, at intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// Its number among its sender's.
    pub number: u64,
    /// What kind of acceptor the sender is.
    pub acceptor: Acceptance,
    /// Whether the sender is leaving.
    pub leaving: bool,
    /// Whether it does so only because it has other logs to read first.
    pub reserved: bool,
    /// Whether its disk has kept nothing for a while of what it was given, so that it neither promises nor votes.
    pub hangs: bool,
    /// What it has promised, or the latest ballot it knows.
    pub promised: Ballot,
    /// Everything below is known to it.
    pub next: u64,
    /// A part of its log, for comparison.
    pub sample: Sample,
    /// The number of the view that it is in; 0 where it is in none.
    pub view: u64,
    /// Whom it hears.
    pub hears: Vec<MemberId>,
    /// The incarnation that wrote the records which the sender found at its start; 0 for none.
    pub follows: Incarnation,
    /// The incarnations of acceptors that the sender knows.
    pub began: Began,
    /// Of each acceptor the latest that its disk knows to have voted, or to have been about to.
    pub noted: Incarnations,
    /// The coordinator's beat that was heard last.
    pub echo: Option<(Ballot, u64)>,
    /// What the coordinator says.
    pub lead: Option<Lead>,
    /// What the layer above wants carried.
    pub annotation: Bytes,
}

/// A part of a log, as a number that another log has only if it is the same there. One that is empty says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Its first instance.
    pub from: u64,
    /// The one behind its last.
    pub to: u64,
    /// What the items come to.
    pub digest: u64,
}

/// What the coordinator says in its beats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// By which right it leads.
    pub ballot: Ballot,
    /// The order's number among its ballot's.
    pub version: u64,
    /// Who passes things on to whom: each to the one behind it, the last to the first.
    pub ring: Vec<NodeId>,
}

/// What kind of acceptor a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acceptance {
    /// None.
    #[default]
    None,
    /// One that knows nothing, and may have forgotten.
    Blank,
    /// One that has a log and has promised nothing yet.
    Fresh,
    /// One that votes.
    Ready,
    /// One that has a log, and asks whether it voted after its records.
    Asking,
    /// One that has all it may have promised, and is about to vote.
    Announcing,
}

impl Acceptance {
    /// Whether it votes, or is about to.
    pub(crate) const fn is_voter(self) -> bool {
        matches!(self, Self::Fresh | Self::Ready | Self::Announcing)
    }
}

const BALLOT_LEN: usize = 4 + 8 + MEMBER_LEN;
const VALUE_ID_LEN: usize = MEMBER_LEN + 8 + 8;
const ITEM_LEAST: usize = 1;
const DECLARE_LEAST: usize = 10;
const PROGRAM_LEAST: usize = 2 + 8 + 2 + SEAT_LEAST;
const SEAT_LEAST: usize = 2 + 8 + 16;
const LEAVING: u8 = 8;
const RESERVED: u8 = 16;
const HANGS: u8 = 32;

/// More than any instance, round, view or turn ever has: sums with them do not overflow.
const NUMBER_MAX: u64 = 1 << 62;
/// Who asks to learn from here on wants to know where the log ends.
pub const AT_THE_END: u64 = NUMBER_MAX - 1;

pub(crate) fn bounded(reader: &mut Reader<'_>, what: &'static str) -> Result<u64, Malformed> {
    //= X76
    let number = reader.u64(what)?;
    if number < NUMBER_MAX { Ok(number) } else { Err(reader.bad(what)) }
}

/// The same of slots, which positions have fewer bits for.
const SLOT_MAX: u64 = 1 << 55;

fn read_slot(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    //= X76
    let slot = reader.u64("slot")?;
    if slot < SLOT_MAX { Ok(slot) } else { Err(reader.bad("slot")) }
}

pub(crate) fn put_ballot(out: &mut BytesMut, ballot: Ballot) {
    out.put_u32(ballot.generation);
    out.put_u64(ballot.round);
    out.put_member(ballot.owner);
}

pub(crate) fn read_ballot(reader: &mut Reader<'_>) -> Result<Ballot, Malformed> {
    let (generation, round) = (reader.u32("generation")?, bounded(reader, "round")?);
    Ok(Ballot { generation, round, owner: reader.member("owner")? })
}

fn put_id(out: &mut BytesMut, id: ValueId) {
    out.put_member(id.sender);
    out.put_u64(id.view);
    out.put_u64(id.number);
}

fn read_id(reader: &mut Reader<'_>) -> Result<ValueId, Malformed> {
    let sender = reader.member("sender")?;
    Ok(ValueId { sender, view: bounded(reader, "view")?, number: bounded(reader, "number")? })
}

pub(crate) fn put_members(out: &mut BytesMut, members: impl ExactSizeIterator<Item = MemberId>) {
    out.put_count(members.len());
    members.for_each(|member| out.put_member(member));
}

pub(crate) fn read_members(reader: &mut Reader<'_>) -> Result<Vec<MemberId>, Malformed> {
    let n = reader.count(MEMBER_LEN, "members")?;
    (0..n).map(|_| reader.member("member")).collect()
}

pub(crate) fn put_item(out: &mut BytesMut, item: &Item) {
    match item {
        Item::Nothing => out.put_u8(0),
        Item::View { number, after, members } => {
            out.put_u8(1);
            out.put_u64(*number);
            out.put_u64(*after);
            put_members(out, members.iter().copied());
        }
        Item::Value(id) => {
            out.put_u8(2);
            put_id(out, *id);
        }
        Item::Primary(number) => {
            out.put_u8(3);
            out.put_u64(*number);
        }
        Item::Declare(statement) => put_statement(out, statement),
        Item::Skip(to) => {
            out.put_u8(5);
            out.put_u64(*to);
        }
    }
}

pub(crate) fn read_item(reader: &mut Reader<'_>) -> Result<Item, Malformed> {
    Ok(match reader.u8("item")? {
        0 => Item::Nothing,
        1 => {
            let (number, after) = (bounded(reader, "number")?, bounded(reader, "after")?);
            let members = read_members(reader)?;
            if number <= after || members.is_empty() || !members.is_sorted_by(|a, b| a.node < b.node) {
                return Err(reader.bad("view"));
            }
            Item::View { number, after, members }
        }
        2 => Item::Value(read_id(reader)?),
        3 => Item::Primary(bounded(reader, "number")?),
        5 => Item::Skip(read_slot(reader)?),
        kind => Item::Declare(Box::new(read_statement(kind, reader)?)),
    })
}

pub(crate) fn put_incarnations(out: &mut BytesMut, incarnations: &Incarnations) {
    out.put_count(incarnations.len());
    incarnations.iter().for_each(|incarnation| out.put_member(incarnation));
}

pub(crate) fn read_incarnations(reader: &mut Reader<'_>) -> Result<Incarnations, Malformed> {
    Ok(read_members(reader)?.into_iter().collect())
}

const DECLARE: u8 = 4;
const DECLARE_BOUND: u8 = 6;
const BIND: u8 = 7;

fn put_statement(out: &mut BytesMut, statement: &Statement) {
    match statement {
        Statement::Declare { holder, epoch: 0, from } => {
            out.put_u8(DECLARE);
            put_declare(out, holder, *from);
        }
        Statement::Declare { holder, epoch, from } => {
            out.put_u8(DECLARE_BOUND);
            put_declare(out, holder, *from);
            out.put_u64(*epoch);
        }
        Statement::Bind(Bind { holder, token, replaces, from, copies, label }) => {
            out.put_u8(BIND);
            put_declare(out, holder, Some(*from));
            out.put_u64(*replaces);
            out.put_u16(*copies);
            out.put_u128(*token);
            put_text(out, label);
        }
    }
}

fn read_statement(kind: u8, reader: &mut Reader<'_>) -> Result<Statement, Malformed> {
    if !matches!(kind, DECLARE | DECLARE_BOUND | BIND) {
        return Err(reader.bad("item"));
    }
    let before = reader.clone();
    let (holder, from) = read_declare(reader)?;
    match kind {
        DECLARE => return Ok(Statement::Declare { holder, epoch: 0, from }),
        DECLARE_BOUND => return Ok(Statement::Declare { holder, epoch: read_epoch(reader)?, from }),
        _ => {}
    }
    let from = from.ok_or(before.bad("place"))?;
    let (replaces, copies) = (bounded(reader, "epoch")?, reader.u16("copies")?);
    let (token, label) = (read_token(reader)?, read_label(reader)?);
    if token == 0 {
        return Err(before.bad("token"));
    }
    Ok(Statement::Bind(Bind { holder, token, replaces, from, copies, label }))
}

fn read_epoch(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    let before = reader.clone();
    match bounded(reader, "epoch")? {
        0 => Err(before.bad("epoch")),
        epoch => Ok(epoch),
    }
}

fn read_token(reader: &mut Reader<'_>) -> Result<u128, Malformed> {
    Ok(u128::from(reader.u64("token")?) << 64 | u128::from(reader.u64("token")?))
}

/// Of a text of at most 255 bytes: those who make one have checked its length.
fn put_text(out: &mut BytesMut, text: &str) {
    out.put_u8(text.len() as u8);
    out.put_slice(text.as_bytes());
}

fn read_text<'a>(reader: &mut Reader<'a>, what: &'static str) -> Result<&'a str, Malformed> {
    let before = reader.clone();
    let len = usize::from(reader.u8(what)?);
    std::str::from_utf8(reader.take(len, what)?).map_err(|_| before.bad(what))
}

fn read_label(reader: &mut Reader<'_>) -> Result<Box<str>, Malformed> {
    let before = reader.clone();
    let label = read_text(reader, "label")?;
    if label.len() <= Binding::LABEL_MAX { Ok(label.into()) } else { Err(before.bad("label")) }
}

fn read_holder(reader: &mut Reader<'_>) -> Result<Holder, Malformed> {
    let before = reader.clone();
    read_text(reader, "holder")?.parse().map_err(|_| before.bad("holder"))
}

fn put_declare(out: &mut BytesMut, holder: &Holder, from: Option<u64>) {
    put_text(out, holder.as_str());
    out.put_u64(from.unwrap_or(0));
}

fn read_declare(reader: &mut Reader<'_>) -> Result<(Holder, Option<u64>), Malformed> {
    let (holder, from) = (read_holder(reader)?, bounded(reader, "place")?);
    Ok((holder, (from > 0).then_some(from)))
}

fn put_holders(out: &mut BytesMut, declared: &Declared) {
    out.put_count(declared.holders().len());
    declared.holders().for_each(|(holder, from)| put_declare(out, holder, Some(from)));
}

fn read_holders(reader: &mut Reader<'_>) -> Result<BTreeMap<Holder, u64>, Malformed> {
    let mut holders = BTreeMap::new();
    for _ in 0..reader.count(DECLARE_LEAST, "holders")? {
        let before = reader.clone();
        let (holder, from) = read_declare(reader)?;
        holders.insert(holder, from.ok_or(before.bad("place"))?);
    }
    Ok(holders)
}

/// A copy that was withdrawn has token 0, and nothing behind it.
fn put_programs(out: &mut BytesMut, declared: &Declared) {
    out.put_count(declared.programs().len());
    for (_, program) in declared.programs() {
        out.put_u16(program.copies());
        out.put_u64(program.began());
        out.put_count(program.seats().len());
        for (holder, Seat { epoch, bound }) in program.seats() {
            put_text(out, holder.as_str());
            out.put_u64(*epoch);
            out.put_u128(bound.as_ref().map_or(0, |bound| bound.token));
            if let Some(Bound { from, label, .. }) = bound {
                out.put_u64(*from);
                put_text(out, label);
            }
        }
    }
}

fn read_programs(reader: &mut Reader<'_>) -> Result<BTreeMap<Box<str>, Program>, Malformed> {
    let n = reader.count(PROGRAM_LEAST, "programs")?;
    (0..n).map(|_| read_program(reader)).collect()
}

fn read_program(reader: &mut Reader<'_>) -> Result<(Box<str>, Program), Malformed> {
    let before = reader.clone();
    let (copies, began) = (reader.u16("copies")?, bounded(reader, "began")?);
    let n = reader.count(SEAT_LEAST, "seats")?;
    let seats = (0..n).map(|_| read_seat(reader)).collect::<Result<BTreeMap<_, _>, _>>()?;
    let name: Box<str> = seats.keys().next().map(Holder::program).ok_or(before.bad("seats"))?.into();
    if seats.keys().any(|holder| holder.program() != &*name) || n > usize::from(copies) {
        return Err(before.bad("seats"));
    }
    Ok((name, Program::of(copies, began, seats)))
}

fn read_seat(reader: &mut Reader<'_>) -> Result<(Holder, Seat), Malformed> {
    let (holder, epoch) = (read_holder(reader)?, read_epoch(reader)?);
    let bound = match read_token(reader)? {
        0 => None,
        token => Some(Bound { token, from: bounded(reader, "place")?, label: read_label(reader)? }),
    };
    Ok((holder, Seat { epoch, bound }))
}

fn put_numbers(out: &mut BytesMut, numbers: &BTreeMap<MemberId, u64>) {
    out.put_count(numbers.len());
    for (member, number) in numbers {
        out.put_member(*member);
        out.put_u64(*number);
    }
}

fn read_numbers(reader: &mut Reader<'_>) -> Result<BTreeMap<MemberId, u64>, Malformed> {
    let n = reader.count(MEMBER_LEN + 8, "members")?;
    (0..n).map(|_| Ok((reader.member("member")?, bounded(reader, "number")?))).collect()
}

pub(crate) fn put_checkpoint(out: &mut BytesMut, from: &Checkpoint) {
    let Checkpoint { at, place, slots, present: Present { number, last, primary, away }, declared } = from;
    out.put_u64(*at);
    out.put_u64(*place);
    out.put_u64(*slots);
    out.put_u64(*number);
    out.put_u8(u8::from(*primary));
    put_numbers(out, last);
    put_numbers(out, away);
    put_holders(out, declared);
    put_programs(out, declared);
}

pub(crate) fn read_checkpoint(reader: &mut Reader<'_>) -> Result<Checkpoint, Malformed> {
    let from = read_checkpoint_of_holders(reader)?;
    let holders = from.declared.holders().map(|(holder, from)| (holder.clone(), from)).collect();
    let declared = Declared::of(holders, read_programs(reader)?);
    if declared.len() > Declared::MOST {
        return Err(reader.bad("programs"));
    }
    Ok(Checkpoint { declared, ..from })
}

/// One of before programs had copies in the log.
pub(crate) fn read_checkpoint_of_holders(reader: &mut Reader<'_>) -> Result<Checkpoint, Malformed> {
    let (at, place) = (bounded(reader, "instance")?, bounded(reader, "place")?);
    let slots = read_slot(reader)?;
    let from = read_present(reader, Checkpoint { at, place, slots, ..Checkpoint::default() })?;
    Ok(Checkpoint { declared: Declared::of(read_holders(reader)?, BTreeMap::new()), ..from })
}

/// One of before logs had slots and holders: messages alone filled slots.
pub(crate) fn read_slotless_checkpoint(reader: &mut Reader<'_>) -> Result<Checkpoint, Malformed> {
    let (at, place) = (bounded(reader, "instance")?, bounded(reader, "place")?);
    read_present(reader, Checkpoint { at, place, slots: place.min(SLOT_MAX - 1), ..Checkpoint::default() })
}

fn read_present(reader: &mut Reader<'_>, from: Checkpoint) -> Result<Checkpoint, Malformed> {
    let number = bounded(reader, "view")?;
    let primary = match reader.u8("primary")? {
        0 => false,
        1 => true,
        _ => return Err(reader.bad("primary")),
    };
    let (last, away) = (read_numbers(reader)?, read_numbers(reader)?);
    Ok(Checkpoint { present: Present { number, last, primary, away }, ..from })
}

pub(crate) fn put_began(out: &mut BytesMut, began: &Began) {
    [&began.all, &began.voted, &began.adopted].into_iter().for_each(|incarnations| put_incarnations(out, incarnations));
}

pub(crate) fn read_began(reader: &mut Reader<'_>) -> Result<Began, Malformed> {
    let (all, voted) = (read_incarnations(reader)?, read_incarnations(reader)?);
    Ok(Began { all, voted, adopted: read_incarnations(reader)? })
}

fn put_told(out: &mut BytesMut, told: &Told) {
    put_incarnations(out, &told.incarnations);
    out.put_u64(told.next);
    out.put_u32(u32::try_from(told.accepted.len()).unwrap_or(u32::MAX));
    for (at, ballot, item) in &told.accepted {
        out.put_u64(*at);
        put_ballot(out, *ballot);
        put_item(out, item);
    }
}

fn read_told(reader: &mut Reader<'_>) -> Result<Told, Malformed> {
    let (incarnations, next) = (read_incarnations(reader)?, bounded(reader, "next")?);
    let n = reader.u32("accepted")? as usize;
    if n.saturating_mul(8 + BALLOT_LEN + ITEM_LEAST) > reader.left() {
        return Err(reader.bad("accepted"));
    }
    let entry = |reader: &mut Reader<'_>| Ok((bounded(reader, "instance")?, read_ballot(reader)?, read_item(reader)?));
    let accepted = (0..n).map(|_| entry(reader)).collect::<Result<_, _>>()?;
    Ok(Told { incarnations, next, accepted })
}

impl Beat {
    fn encode(&self, out: &mut BytesMut) {
        out.put_u64(self.number);
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        let flags = flag(LEAVING, self.leaving) | flag(RESERVED, self.reserved) | flag(HANGS, self.hangs);
        out.put_u8(self.acceptor as u8 | flags);
        put_ballot(out, self.promised);
        out.put_u64(self.next);
        [self.sample.from, self.sample.to, self.sample.digest].into_iter().for_each(|word| out.put_u64(word));
        out.put_u64(self.view);
        put_members(out, self.hears.iter().copied());
        out.put_u64(self.follows.0);
        put_began(out, &self.began);
        put_incarnations(out, &self.noted);
        out.put_u8(u8::from(self.echo.is_some()) | u8::from(self.lead.is_some()) << 1);
        if let Some((ballot, number)) = self.echo {
            put_ballot(out, ballot);
            out.put_u64(number);
        }
        if let Some(lead) = &self.lead {
            put_ballot(out, lead.ballot);
            out.put_u64(lead.version);
            out.put_count(lead.ring.len());
            lead.ring.iter().for_each(|node| out.put_u16(node.0));
        }
        out.put_slice(&self.annotation);
    }

    fn decode(mut reader: Reader<'_>, bytes: &Bytes) -> Result<Self, Malformed> {
        let (number, flags) = (reader.u64("number")?, reader.u8("flags")?);
        let acceptor = match flags & !(LEAVING | RESERVED | HANGS) {
            0 => Acceptance::None,
            1 => Acceptance::Blank,
            2 => Acceptance::Fresh,
            3 => Acceptance::Ready,
            4 => Acceptance::Asking,
            5 => Acceptance::Announcing,
            _ => return Err(reader.bad("flags")),
        };
        let (promised, next) = (read_ballot(&mut reader)?, bounded(&mut reader, "next")?);
        let sample = Sample {
            from: bounded(&mut reader, "sample")?,
            to: bounded(&mut reader, "sample")?,
            digest: reader.u64("digest")?,
        };
        let view = bounded(&mut reader, "view")?;
        let hears = read_members(&mut reader)?;
        let follows = Incarnation(reader.u64("follows")?);
        let (began, noted) = (read_began(&mut reader)?, read_incarnations(&mut reader)?);
        let more = reader.u8("more")?;
        if more > 3 {
            return Err(reader.bad("more"));
        }
        let echo = if more & 1 != 0 { Some((read_ballot(&mut reader)?, reader.u64("echo")?)) } else { None };
        let lead = if more & 2 != 0 { Some(Lead::decode(&mut reader)?) } else { None };
        let annotation = bytes.slice(reader.at()..);
        Ok(Self {
            number,
            acceptor,
            leaving: flags & LEAVING != 0,
            reserved: flags & RESERVED != 0,
            hangs: flags & HANGS != 0,
            promised,
            next,
            sample,
            view,
            hears,
            follows,
            began,
            noted,
            echo,
            lead,
            annotation,
        })
    }
}

impl Lead {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (ballot, version) = (read_ballot(reader)?, reader.u64("version")?);
        let n = reader.count(2, "ring")?;
        let ring = (0..n).map(|_| reader.u16("node").map(NodeId)).collect::<Result<_, _>>()?;
        Ok(Self { ballot, version, ring })
    }
}

fn put_entries(out: &mut BytesMut, entries: &[(Item, Option<Body>)]) {
    out.put_count(entries.len());
    for (item, body) in entries {
        put_item(out, item);
        let bytes = body.as_ref().map_or(&[][..], |body| &body.as_bytes()[..]);
        out.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        out.put_slice(bytes);
    }
}

fn read_entries(reader: &mut Reader<'_>, bytes: &Bytes) -> Result<Vec<(Item, Option<Body>)>, Malformed> {
    let n = reader.count(ITEM_LEAST + 4, "entries")?;
    let entry = |reader: &mut Reader<'_>| {
        let item = read_item(reader)?;
        let len = reader.u32("length")? as usize;
        let at = reader.at();
        reader.take(len, "payload")?;
        let body = if len == 0 { None } else { Some(Body::new(bytes.slice(at..at + len))?) };
        if matches!(item, Item::Value(_)) != body.is_some() {
            return Err(reader.bad("payload"));
        }
        Ok((item, body))
    };
    (0..n).map(|_| entry(reader)).collect()
}

impl Content {
    const fn kind(&self) -> u8 {
        match self {
            Self::Beat(_) => 1,
            Self::Value(_) => 2,
            Self::Prepare { .. } => 3,
            Self::Promise { .. } => 4,
            Self::Nack { .. } => 5,
            Self::Accept { .. } => 6,
            Self::Vote { .. } => 7,
            Self::Decide { .. } => 8,
            Self::Fetch(_) => 9,
            Self::Learn(_) => 10,
            Self::Learnt { .. } => 11,
            Self::Recover => 12,
            Self::Recovered(_) => 13,
            Self::Checkpoint(_) => 14,
            Self::Declare(_) => 15,
            Self::Yield { .. } => 16,
            Self::End(_) => 17,
            Self::Outdated(_) => 18,
        }
    }

    fn encode(&self, out: &mut BytesMut) -> Bytes {
        match self {
            Self::Beat(beat) => beat.encode(out),
            Self::Value(Value { id, hops, body }) => {
                put_id(out, *id);
                out.put_u16(*hops);
                return body.as_bytes().clone();
            }
            Self::Prepare { ballot, from } => {
                put_ballot(out, *ballot);
                out.put_u64(*from);
            }
            Self::Promise { ballot, told } => {
                put_ballot(out, *ballot);
                put_told(out, told);
            }
            Self::Recovered(recovered) => {
                put_ballot(out, recovered.promised);
                put_told(out, &recovered.told);
                put_members(out, recovered.founders.iter().copied());
                put_began(out, &recovered.began);
            }
            Self::Nack { ballot, promised } => {
                put_ballot(out, *ballot);
                put_ballot(out, *promised);
            }
            Self::Accept { ballot, at, item, hops } => {
                put_ballot(out, *ballot);
                out.put_u64(*at);
                out.put_u16(*hops);
                put_item(out, item);
            }
            Self::Vote { ballot, at, incarnations } => {
                put_ballot(out, *ballot);
                out.put_u64(*at);
                put_incarnations(out, incarnations);
            }
            Self::Decide { at, item, hops } => {
                out.put_u64(*at);
                out.put_u16(*hops);
                put_item(out, item);
            }
            Self::Fetch(ids) => {
                out.put_count(ids.len());
                ids.iter().for_each(|id| put_id(out, *id));
            }
            Self::Learn(from) => out.put_u64(*from),
            Self::Learnt { from, entries } => {
                out.put_u64(*from);
                put_entries(out, entries);
            }
            Self::Checkpoint(from) | Self::End(from) => put_checkpoint(out, from),
            Self::Declare(statement) => put_statement(out, statement),
            Self::Yield { ballot, to } => {
                put_ballot(out, *ballot);
                out.put_member(*to);
            }
            Self::Outdated(incarnation) => out.put_u64(incarnation.0),
            Self::Recover => {}
        }
        Bytes::new()
    }

    fn decode(kind: u8, reader: &mut Reader<'_>, bytes: &Bytes) -> Result<Self, Malformed> {
        Ok(match kind {
            3 => Self::Prepare { ballot: read_ballot(reader)?, from: bounded(reader, "from")? },
            4 => Self::Promise { ballot: read_ballot(reader)?, told: read_told(reader)? },
            5 => Self::Nack { ballot: read_ballot(reader)?, promised: read_ballot(reader)? },
            6 => {
                let (ballot, at, hops) = (read_ballot(reader)?, bounded(reader, "instance")?, reader.u16("hops")?);
                Self::Accept { ballot, at, hops, item: read_item(reader)? }
            }
            7 => Self::Vote {
                ballot: read_ballot(reader)?,
                at: bounded(reader, "instance")?,
                incarnations: read_incarnations(reader)?,
            },
            8 => {
                let (at, hops) = (bounded(reader, "instance")?, reader.u16("hops")?);
                Self::Decide { at, hops, item: read_item(reader)? }
            }
            9 => {
                let n = reader.count(VALUE_ID_LEN, "names")?;
                Self::Fetch((0..n).map(|_| read_id(reader)).collect::<Result<_, _>>()?)
            }
            10 => Self::Learn(bounded(reader, "from")?),
            11 => Self::Learnt { from: bounded(reader, "from")?, entries: read_entries(reader, bytes)? },
            12 => Self::Recover,
            13 => {
                let (promised, told) = (read_ballot(reader)?, read_told(reader)?);
                let (founders, began) = (read_members(reader)?, read_began(reader)?);
                Self::Recovered(Box::new(Recovered { promised, told, founders, began }))
            }
            14 => Self::Checkpoint(Box::new(read_checkpoint(reader)?)),
            15 => {
                let kind = reader.u8("item")?;
                Self::Declare(Box::new(read_statement(kind, reader)?))
            }
            16 => Self::Yield { ballot: read_ballot(reader)?, to: reader.member("to")? },
            17 => Self::End(Box::new(read_checkpoint(reader)?)),
            18 => Self::Outdated(Incarnation(reader.u64("incarnation")?)),
            _ => return Err(reader.bad("kind")),
        })
    }
}

impl consort_wire::Packet for Packet {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        head.put_u8(self.content.kind());
        head.put_u64(self.log.0);
        self.content.encode(head)
    }

    fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&bytes);
        let (kind, log) = (reader.u8("kind")?, LogId(reader.u64("log")?));
        let content = match kind {
            1 => Content::Beat(Box::new(Beat::decode(reader, &bytes)?)),
            2 => {
                let (id, hops) = (read_id(&mut reader)?, reader.u16("hops")?);
                Content::Value(Value { id, hops, body: Body::new(bytes.slice(reader.at()..))? })
            }
            _ => {
                let content = Content::decode(kind, &mut reader, &bytes)?;
                reader.end("packet")?;
                content
            }
        };
        Ok(Self { log, content })
    }
}
