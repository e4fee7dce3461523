//! What an acceptor keeps on its disk.
//!
//! | kind | fields |
//! |---|---|
//! | 1 checkpoint of before slots | log (8), incarnations, promised ballot (22), instance (8), place (8), view; read |
//! | 2 incarnation | a later incarnation of an acceptor (10) |
//! | 3 promised | the ballot (22) |
//! | 4 accepted | the ballot (22), instance (8), item, payload |
//! | 5 learnt | instance (8), item, payload: decided, and not what was accepted there |
//! | 6 decided | everything below this instance (8) is decided as accepted or learnt |
//! | 7 empty | nothing that stands before it counts |
//! | 8 checkpoint of before copies | log (8), who began it, incarnations, promised ballot (22), instance (8), place (8), slots (8), view, holders; read |
//! | 9 checkpoint | the same, and programs with their copies |
use crate::ballot::{Ballot, Incarnations, Item, LogId};
use crate::learner::Checkpoint;
use crate::packet::{bounded, put_ballot, put_checkpoint, put_incarnations, put_item, put_members};
use crate::packet::{
    read_ballot, read_checkpoint, read_checkpoint_of_holders, read_incarnations, read_item, read_members,
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
    /// An acceptor has come back in this incarnation and may have forgotten.
    Incarnation(MemberId),
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
    /// Of each acceptor the latest incarnation that is known.
    pub incarnations: Incarnations,
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
            Self::Checkpoint(_) | Self::Incarnation(_) | Self::Promised(_) | Self::Decided(_) | Self::Empty => None,
        }
    }

    /// The bytes that go to the disk.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Checkpoint(start) => {
                out.put_u8(9);
                out.put_u64(start.log.0);
                put_members(&mut out, start.founders.iter().copied());
                put_incarnations(&mut out, &start.incarnations);
                put_ballot(&mut out, start.promised);
                put_checkpoint(&mut out, &start.from);
            }
            Self::Incarnation(incarnation) => {
                out.put_u8(2);
                out.put_member(*incarnation);
            }
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
        let record = match reader.u8("kind")? {
            1 => {
                let (log, incarnations) = (LogId(reader.u64("log")?), read_incarnations(&mut reader)?);
                let (promised, from) = (read_ballot(&mut reader)?, read_slotless_checkpoint(&mut reader)?);
                Self::Checkpoint(Box::new(LogStart { log, founders: Vec::new(), incarnations, promised, from }))
            }
            kind @ (8 | 9) => {
                let (log, founders) = (LogId(reader.u64("log")?), read_members(&mut reader)?);
                let (incarnations, promised) = (read_incarnations(&mut reader)?, read_ballot(&mut reader)?);
                let from =
                    if kind == 8 { read_checkpoint_of_holders(&mut reader) } else { read_checkpoint(&mut reader) }?;
                Self::Checkpoint(Box::new(LogStart { log, founders, incarnations, promised, from }))
            }
            2 => Self::Incarnation(reader.member("incarnation")?),
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
