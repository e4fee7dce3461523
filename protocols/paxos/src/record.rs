//! What an acceptor keeps on its disk.
//!
//! | kind | fields |
//! |---|---|
//! | 1 checkpoint of before slots | log (8), incarnations, promised ballot (22), instance (8), place (8), view; read |
//! | 2 voter | a later incarnation of an acceptor (10), which had records, and votes or is about to |
//! | 3 promised | the ballot (22) |
//! | 4 accepted | the ballot (22), instance (8), item, payload |
//! | 5 learnt | instance (8), item, payload: decided, and not what was accepted there |
//! | 6 decided | everything below this instance (8) is decided as accepted or learnt |
//! | 7 empty | nothing that stands before it counts |
//! | 8 checkpoint of before copies | log (8), who began it, incarnations, promised ballot (22), instance (8), place (8), slots (8), view, holders; read |
//! | 9 checkpoint of before voters | the same, and programs with their copies |
//! | 10 asker | a later incarnation of an acceptor (10), which has forgotten and asks |
//! | 11 checkpoint | as 9; behind all incarnations those that voted with their records, and those that had forgotten |
//! | 12 adopter | a later incarnation of an acceptor (10), which had forgotten, and votes or is about to |
//! | 13 outdated | the incarnation (10) of this acceptor that has voted after these records |
use crate::ballot::{Ballot, Began, Item, LogId};
use crate::learner::Checkpoint;
use crate::packet::{bounded, put_ballot, put_began, put_checkpoint, put_item, put_members};
use crate::packet::{
    read_ballot, read_began, read_checkpoint, read_checkpoint_of_holders, read_incarnations, read_item, read_members,
    read_slotless_checkpoint,
};
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::MemberId;
use consort_wire::pack::Body;
use consort_wire::{Malformed, Reader, Writer};

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// It belongs to this log, and what is retained begins here. Without it the disk counts as empty.
    Checkpoint(Box<LogStart>),
    /// An acceptor has come back in this incarnation with its records, and votes or is about to.
    Voter(MemberId),
    /// An acceptor has come back in this incarnation, had forgotten, and votes or is about to.
    Adopter(MemberId),
    /// An acceptor has come back in this incarnation, has forgotten, and asks what it promised.
    Asker(MemberId),
    /// This acceptor has voted after these records, in this incarnation.
    Outdated(MemberId),
    /// No earlier ballot is heeded.
    Promised(Ballot),
    /// Promised and accepted in one.
    Accepted {
        /// By which ballot.
        ballot: Ballot,
        /// Where.
        at: u64,
        /// What.
        item: Item,
        /// Its payload, where it has one.
        body: Option<Body>,
    },
    /// Decided, and not what was accepted there.
    Learnt {
        /// Where.
        at: u64,
        /// What.
        item: Item,
        /// Its payload, where it has one.
        body: Option<Body>,
    },
    /// Everything below is decided as accepted or learnt.
    Decided(u64),
    /// Nothing that stands before it counts.
    Empty,
}

/// All that an acceptor must know of a log beside what it accepted and learnt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStart {
    /// The log's name.
    pub log: LogId,
    /// The incarnations that began it, where they are known.
    pub founders: Vec<MemberId>,
    /// The incarnations of acceptors that are known.
    pub began: Began,
    /// No earlier ballot is heeded.
    pub promised: Ballot,
    /// Where what is retained begins.
    pub from: Checkpoint,
}

impl Record {
    /// The instance that it tells of, where it tells of one.
    pub const fn instance(&self) -> Option<u64> {
        match self {
            Self::Accepted { at, .. } | Self::Learnt { at, .. } => Some(*at),
            Self::Checkpoint(_)
            | Self::Voter(_)
            | Self::Adopter(_)
            | Self::Asker(_)
            | Self::Outdated(_)
            | Self::Promised(_)
            | Self::Decided(_)
            | Self::Empty => None,
        }
    }

    /// The bytes that go to the disk.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Checkpoint(start) => {
                out.put_u8(11);
                out.put_u64(start.log.0);
                put_members(&mut out, start.founders.iter().copied());
                put_began(&mut out, &start.began);
                put_ballot(&mut out, start.promised);
                put_checkpoint(&mut out, &start.from);
            }
            Self::Voter(incarnation) => put_named(&mut out, 2, *incarnation),
            Self::Asker(incarnation) => put_named(&mut out, 10, *incarnation),
            Self::Adopter(incarnation) => put_named(&mut out, 12, *incarnation),
            Self::Outdated(incarnation) => put_named(&mut out, 13, *incarnation),
            Self::Promised(ballot) => {
                out.put_u8(3);
                put_ballot(&mut out, *ballot);
            }
            Self::Accepted { ballot, at, item, body } => {
                out.put_u8(4);
                put_ballot(&mut out, *ballot);
                put_entry(&mut out, *at, item, body.as_ref());
            }
            Self::Learnt { at, item, body } => {
                out.put_u8(5);
                put_entry(&mut out, *at, item, body.as_ref());
            }
            Self::Decided(next) => {
                out.put_u8(6);
                out.put_u64(*next);
            }
            Self::Empty => out.put_u8(7),
        }
        out.freeze()
    }

    /// Reads a record back.
    ///
    /// # Errors
    /// [`Malformed`] for any bytes that `encode` cannot have written.
    pub fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8("kind")?;
        let record = match kind {
            1 => {
                let (log, began) = (LogId(reader.u64("log")?), read_began_in(&mut reader, kind)?);
                let (promised, from) = (read_ballot(&mut reader)?, read_slotless_checkpoint(&mut reader)?);
                Self::Checkpoint(Box::new(LogStart { log, founders: Vec::new(), began, promised, from }))
            }
            8 | 9 | 11 => {
                let (log, founders) = (LogId(reader.u64("log")?), read_members(&mut reader)?);
                let (began, promised) = (read_began_in(&mut reader, kind)?, read_ballot(&mut reader)?);
                let from =
                    if kind == 8 { read_checkpoint_of_holders(&mut reader) } else { read_checkpoint(&mut reader) }?;
                Self::Checkpoint(Box::new(LogStart { log, founders, began, promised, from }))
            }
            2 => Self::Voter(reader.member("incarnation")?),
            10 => Self::Asker(reader.member("incarnation")?),
            12 => Self::Adopter(reader.member("incarnation")?),
            13 => Self::Outdated(reader.member("incarnation")?),
            3 => Self::Promised(read_ballot(&mut reader)?),
            4 => {
                let ballot = read_ballot(&mut reader)?;
                let (at, item, body) = read_entry(&mut reader, bytes)?;
                Self::Accepted { ballot, at, item, body }
            }
            5 => {
                let (at, item, body) = read_entry(&mut reader, bytes)?;
                Self::Learnt { at, item, body }
            }
            6 => Self::Decided(bounded(&mut reader, "next")?),
            7 => Self::Empty,
            _ => return Err(reader.bad("kind")),
        };
        reader.end("record")?;
        Ok(record)
    }
}

fn put_named(out: &mut BytesMut, kind: u8, incarnation: MemberId) {
    out.put_u8(kind);
    out.put_member(incarnation);
}

/// Checkpoints of before voters do not say who only asked: all counted as voters then.
fn read_began_in(reader: &mut Reader<'_>, kind: u8) -> Result<Began, Malformed> {
    if kind == 11 {
        return read_began(reader);
    }
    let all = read_incarnations(reader)?;
    Ok(Began { voted: all.clone(), all, ..Began::default() })
}

fn put_entry(out: &mut BytesMut, at: u64, item: &Item, body: Option<&Body>) {
    out.put_u64(at);
    put_item(out, item);
    if let Some(body) = body {
        out.put_slice(body.as_bytes());
    }
}

fn read_entry(reader: &mut Reader<'_>, bytes: &Bytes) -> Result<(u64, Item, Option<Body>), Malformed> {
    let (at, item) = (bounded(reader, "instance")?, read_item(reader)?);
    let start = reader.at();
    let rest = reader.rest();
    let body = if rest.is_empty() { None } else { Some(Body::new(bytes.slice(start..))?) };
    if matches!(item, Item::Value(_)) != body.is_some() {
        return Err(reader.bad("payload"));
    }
    Ok((at, item, body))
}
