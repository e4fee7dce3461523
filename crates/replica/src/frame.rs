//! What replicas tell each other, as bytes. Whatever comes is a frame or a [`Malformed`].
#![doc(hidden)]
use crate::codec::{read_count, read_u128};
use crate::durable::Said;
use crate::line::{Digest, Line, Origin, Others, Point, ReplicaId};
use bytes::{BufMut, Bytes, BytesMut};
use consort::Place;
use consort_types::{ClientId, MemberId};
use consort_wire::{Malformed, Reader, Writer};
use std::collections::BTreeSet;

/// Who a replica is to the group: its daemon, and its number there.
pub type Peer = (MemberId, ClientId);

const COMMAND: u8 = 1;
const MARK: u8 = 2;
const HELLO: u8 = 3;
const READY: u8 = 4;
const GONE: u8 = 5;
const CUT: u8 = 6;
const CLAIM: u8 = 7;
const OPEN: u8 = 8;
const NUMBERED: u8 = 9;
const SAID: u8 = 10;
const ADMIT: u8 = 11;

/// What all replicas are told, in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Command {
        origin: Origin,
        number: u64,
        body: Bytes,
    },
    /// Who reads waits for its own.
    Mark {
        origin: Origin,
        number: u64,
    },
    Hello(Box<Hello>),
    /// It has the state as it was where it asked, and all since.
    Ready {
        id: ReplicaId,
        peer: Peer,
        ask: u64,
    },
    /// One that is up to date has received this *ready*.
    Admit {
        id: ReplicaId,
        ask: u64,
    },
    /// One that counts has received that this one is in the group no more, or that it asked.
    Gone {
        id: ReplicaId,
        peer: Peer,
        /// The number of its question; 0 if it left.
        ask: u64,
    },
    /// Replicas of several groups are looked at where this stands.
    Cut {
        origin: Origin,
        number: u64,
    },
    Claim(Box<Claim>),
    /// On an order that lasts: from its position on an origin numbers commands.
    Open {
        origin: Origin,
    },
    /// On an order that lasts: a command that counts if it is the next of its origin under this epoch.
    Numbered {
        origin: Origin,
        epoch: Place,
        number: u64,
        body: Bytes,
    },
    /// Between durable copies.
    Said(Box<Said>),
}

/// Who goes on in a new view says on what. Where two lines go on in one view, the later one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The view's number.
    pub view: u64,
    /// Those that go on, with the replica that says so.
    pub came: BTreeSet<ReplicaId>,
    /// Of the line as it was when the view came.
    pub history: u64,
    pub epoch: u64,
    pub step: u64,
    pub end: Point,
    /// The epochs of the views that the line went through since it took something.
    pub silent: BTreeSet<u64>,
}

impl Claim {
    /// So many views are named, the latest.
    pub const SILENT_MOST: usize = 64;

    /// The epoch of what is taken in the view.
    pub fn epoch_here(&self) -> u64 {
        let last = self.silent.last().copied().unwrap_or(0).max(self.epoch);
        self.view.max(last.saturating_add(1))
    }

    /// Those of one line are equal. Of two lines that one is later which a view that counts followed later.
    pub const fn rank(&self) -> (u64, u64, u64, u64, u128) {
        (self.epoch, self.step, self.end.position, self.history, self.end.digest.0)
    }

    /// With its kind in front.
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u8(CLAIM);
        out.put_u64(self.view);
        put_ids(out, &self.came);
        out.put_u64(self.history);
        out.put_u64(self.epoch);
        out.put_u64(self.step);
        put_point(out, self.end);
        out.put_u32(self.silent.len() as u32);
        self.silent.iter().for_each(|view| out.put_u64(*view));
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (view, came) = (reader.u64("view")?, read_ids(reader)?);
        let (history, epoch) = (reader.u64("history")?, reader.u64("epoch")?);
        let (step, end) = (reader.u64("step")?, read_point(reader)?);
        let count = read_count(reader, 8, "silent views")?;
        let silent = (0..count).map(|_| reader.u64("silent view")).collect::<Result<_, _>>()?;
        Ok(Self { view, came, history, epoch, step, end, silent })
    }
}

/// A replica that is not up to date says how far it is, and asks for the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub id: ReplicaId,
    pub peer: Peer,
    /// Numbers its questions.
    pub ask: u64,
    /// In which membership of the group.
    pub at: (u64, u64),
    /// It has followed its last view to the end.
    pub clean: bool,
    /// It is to count as all that is left.
    pub forces: bool,
    /// The epoch of the latest view in which others went on before its eyes, and who.
    pub heard: (u64, BTreeSet<ReplicaId>),
    pub line: Line,
    /// How far its machine is; the rest of the line is held back.
    pub applied: Point,
    /// What its directory has of others, if that is of a later step of this history.
    pub recalls: Option<Others>,
}

impl Frame {
    /// The bytes in front of a command's own.
    pub const COMMAND_HEAD: usize = 25;
    /// The same on an order that lasts.
    pub const NUMBERED_HEAD: usize = 35;

    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Command { origin, number, body } => {
                out.reserve(25 + body.len());
                put_numbered(&mut out, COMMAND, *origin, *number);
                out.extend_from_slice(body);
            }
            Self::Mark { origin, number } => put_numbered(&mut out, MARK, *origin, *number),
            Self::Cut { origin, number } => put_numbered(&mut out, CUT, *origin, *number),
            Self::Hello(hello) => hello.put(&mut out),
            Self::Ready { id, peer, ask } => {
                put_peer(&mut out, READY, *id, *peer);
                out.put_u64(*ask);
            }
            Self::Admit { id, ask } => {
                out.put_u8(ADMIT);
                out.put_u128(id.0);
                out.put_u64(*ask);
            }
            Self::Gone { id, peer, ask } => {
                put_peer(&mut out, GONE, *id, *peer);
                out.put_u64(*ask);
            }
            Self::Claim(claim) => claim.put(&mut out),
            Self::Open { origin } => {
                out.put_u8(OPEN);
                out.put_u128(origin.0);
            }
            Self::Numbered { origin, epoch, number, body } => {
                out.reserve(Self::NUMBERED_HEAD + body.len());
                put_numbered(&mut out, NUMBERED, *origin, *number);
                put_place(&mut out, *epoch);
                out.extend_from_slice(body);
            }
            Self::Said(said) => {
                out.put_u8(SAID);
                said.put(&mut out);
            }
        }
        out.freeze()
    }

    pub fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let frame = match reader.u8("kind")? {
            COMMAND => {
                let (origin, number) = (Origin(read_u128(&mut reader, "origin")?), reader.u64("number")?);
                return Ok(Self::Command { origin, number, body: bytes.slice(reader.at()..) });
            }
            MARK => Self::Mark { origin: Origin(read_u128(&mut reader, "origin")?), number: reader.u64("number")? },
            CUT => Self::Cut { origin: Origin(read_u128(&mut reader, "origin")?), number: reader.u64("number")? },
            HELLO => Self::Hello(Box::new(Hello::read(&mut reader)?)),
            CLAIM => Self::Claim(Box::new(Claim::read(&mut reader)?)),
            READY => {
                let (id, peer) = read_peer(&mut reader)?;
                Self::Ready { id, peer, ask: reader.u64("ask")? }
            }
            ADMIT => Self::Admit { id: ReplicaId(read_u128(&mut reader, "replica")?), ask: reader.u64("ask")? },
            GONE => {
                let (id, peer) = read_peer(&mut reader)?;
                Self::Gone { id, peer, ask: reader.u64("ask")? }
            }
            OPEN => Self::Open { origin: Origin(read_u128(&mut reader, "origin")?) },
            NUMBERED => {
                let (origin, number) = (Origin(read_u128(&mut reader, "origin")?), reader.u64("number")?);
                let epoch = read_place(&mut reader)?;
                return Ok(Self::Numbered { origin, epoch, number, body: bytes.slice(reader.at()..) });
            }
            SAID => Self::Said(Box::new(Said::read(&mut reader, bytes)?)),
            _ => return Err(Malformed { what: "kind", at: 0 }),
        };
        reader.end("end of frame")?;
        Ok(frame)
    }
}

impl Hello {
    pub fn put(&self, out: &mut BytesMut) {
        put_peer(out, HELLO, self.id, self.peer);
        out.put_u64(self.ask);
        out.put_u64(self.at.0);
        out.put_u64(self.at.1);
        let recalls = self.recalls.is_some();
        out.put_u8(u8::from(self.clean) | u8::from(self.forces) << 1 | u8::from(recalls) << 2);
        out.put_u64(self.heard.0);
        put_ids(out, &self.heard.1);
        put_line(out, &self.line);
        put_point(out, self.applied);
        self.recalls.iter().for_each(|others| put_others(out, others));
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (id, peer) = read_peer(reader)?;
        let (ask, at) = (reader.u64("ask")?, (reader.u64("view")?, reader.u64("change")?));
        let flags = reader.u8("flags")?;
        if flags > 7 {
            return Err(reader.bad("flags"));
        }
        let heard = (reader.u64("heard")?, read_ids(reader)?);
        let (line, applied) = (read_line(reader)?, read_point(reader)?);
        let recalls = if flags & 4 != 0 { Some(read_others(reader)?) } else { None };
        let (clean, forces) = (flags & 1 != 0, flags & 2 != 0);
        Ok(Self { id, peer, ask, at, clean, forces, heard, line, applied, recalls })
    }
}

fn put_numbered(out: &mut BytesMut, kind: u8, origin: Origin, number: u64) {
    out.put_u8(kind);
    out.put_u128(origin.0);
    out.put_u64(number);
}

fn put_peer(out: &mut BytesMut, kind: u8, id: ReplicaId, peer: Peer) {
    out.put_u8(kind);
    out.put_u128(id.0);
    out.put_member(peer.0);
    out.put_u32(peer.1.0);
}

fn read_peer(reader: &mut Reader<'_>) -> Result<(ReplicaId, Peer), Malformed> {
    let id = ReplicaId(read_u128(reader, "replica")?);
    Ok((id, (reader.member("daemon")?, ClientId(reader.u32("client")?))))
}

pub fn put_place(out: &mut BytesMut, place: Place) {
    out.put_u64(place.position);
    out.put_u16(place.index);
}

pub fn read_place(reader: &mut Reader<'_>) -> Result<Place, Malformed> {
    Ok(Place { position: reader.u64("position")?, index: reader.u16("index")? })
}

pub fn put_point(out: &mut BytesMut, point: Point) {
    out.put_u64(point.position);
    out.put_u128(point.digest.0);
}

pub fn read_point(reader: &mut Reader<'_>) -> Result<Point, Malformed> {
    Ok(Point { position: reader.u64("position")?, digest: Digest(read_u128(reader, "digest")?) })
}

pub fn put_line(out: &mut BytesMut, line: &Line) {
    put_reached(out, line);
    out.put_u32(line.counting.len() as u32);
    line.counting.iter().for_each(|set| put_ids(out, set));
    out.put_u32(line.fresh.len() as u32);
    for (id, ask) in &line.fresh {
        out.put_u128(id.0);
        out.put_u64(*ask);
    }
}

/// Of a line whose view is not closing, without the questions of those that do not count yet: none of an earlier start is
/// answered.
pub fn put_saved_line(out: &mut BytesMut, line: &Line) {
    put_reached(out, line);
    put_ids(out, &line.may_go_on());
    put_ids(out, line.counts());
}

pub fn put_others(out: &mut BytesMut, others: &Others) {
    out.put_u64(others.history);
    out.put_u64(others.epoch);
    out.put_u64(others.step);
    put_ids(out, &others.ids);
}

pub fn read_others(reader: &mut Reader<'_>) -> Result<Others, Malformed> {
    let (history, epoch, step) = (reader.u64("history")?, reader.u64("epoch")?, reader.u64("step")?);
    Ok(Others { history, epoch, step, ids: read_ids(reader)? })
}

fn put_reached(out: &mut BytesMut, line: &Line) {
    out.put_u64(line.history);
    out.put_u64(line.epoch);
    out.put_u64(line.step);
    put_point(out, line.end);
}

fn put_ids(out: &mut BytesMut, ids: &BTreeSet<ReplicaId>) {
    out.put_u32(ids.len() as u32);
    ids.iter().for_each(|id| out.put_u128(id.0));
}

fn read_ids(reader: &mut Reader<'_>) -> Result<BTreeSet<ReplicaId>, Malformed> {
    let count = read_count(reader, 16, "replicas")?;
    (0..count).map(|_| read_u128(reader, "replica").map(ReplicaId)).collect()
}

pub fn read_line(reader: &mut Reader<'_>) -> Result<Line, Malformed> {
    let mut line = read_reached(reader)?;
    let count = read_count(reader, 4, "sets of replicas")?;
    line.counting = (0..count).map(|_| read_ids(reader)).collect::<Result<_, _>>()?;
    let count = read_count(reader, 24, "replicas")?;
    let fresh = |reader: &mut Reader<'_>| Ok((ReplicaId(read_u128(reader, "replica")?), reader.u64("ask")?));
    line.fresh = (0..count).map(|_| fresh(reader)).collect::<Result<_, _>>()?;
    Ok(line)
}

pub fn read_saved_line(reader: &mut Reader<'_>) -> Result<Line, Malformed> {
    let mut line = read_reached(reader)?;
    let (all, counts) = (read_ids(reader)?, read_ids(reader)?);
    line.fresh = all.difference(&counts).map(|id| (*id, 0)).collect();
    line.set_counts(counts);
    Ok(line)
}

fn read_reached(reader: &mut Reader<'_>) -> Result<Line, Malformed> {
    let (history, epoch) = (reader.u64("history")?, reader.u64("epoch")?);
    let (step, end) = (reader.u64("step")?, read_point(reader)?);
    Ok(Line { history, epoch, step, end, ..Line::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Rng;

    fn frames() -> Vec<Frame> {
        let (origin, id, peer) = (Origin(1 << 70), ReplicaId(9), (MemberId::new(3, 77), ClientId(2)));
        let point = Point { position: 4, digest: Digest(1 << 100) };
        let counting = vec![[id, ReplicaId(1)].into(), [id].into()];
        let line = Line { history: 1, epoch: 2, step: 3, end: point, counting, fresh: [(ReplicaId(2), 5)].into() };
        let hello = Hello {
            id,
            peer,
            ask: 6,
            at: (1, 2),
            clean: true,
            forces: false,
            heard: (1, [id].into()),
            line,
            applied: point,
            recalls: Some(Others { history: 1, epoch: 2, step: 9, ids: [id].into() }),
        };
        let claim =
            Claim { view: 5, came: [id].into(), history: 1, epoch: 2, step: 3, end: point, silent: [3, 4].into() };
        vec![
            Frame::Command { origin, number: 5, body: Bytes::from_static(b"set") },
            Frame::Mark { origin, number: 6 },
            Frame::Cut { origin, number: 7 },
            Frame::Hello(Box::new(hello)),
            Frame::Ready { id, peer, ask: 1 },
            Frame::Admit { id, ask: 1 },
            Frame::Gone { id, peer, ask: 1 },
            Frame::Claim(Box::new(claim)),
            Frame::Open { origin },
            Frame::Numbered {
                origin,
                epoch: Place { position: 3, index: 1 },
                number: 8,
                body: Bytes::from_static(b"set"),
            },
            Frame::Said(Box::new(Said::Synced { term: 4, copy: 2, index: 8 })),
        ]
    }

    #[test]
    fn frames_read_back() {
        for frame in frames() {
            assert_eq!(Frame::decode(&frame.encode()).unwrap(), frame);
        }
    }

    #[test]
    fn a_line_that_was_saved_names_all_that_may_have_gone_on_and_those_that_count() {
        let ids = |ids: &[u128]| ids.iter().copied().map(ReplicaId).collect::<BTreeSet<_>>();
        let line =
            Line { history: 1, counting: vec![ids(&[1, 2])], fresh: [(ReplicaId(3), 5)].into(), ..Line::default() };
        for (line, counting) in [(line, vec![ids(&[1, 2])]), (Line::default(), vec![])] {
            let mut out = BytesMut::new();
            put_saved_line(&mut out, &line);
            let read = read_saved_line(&mut Reader::new(&out)).unwrap();
            assert_eq!((read.counting.clone(), read.may_go_on()), (counting, line.may_go_on()));
        }
    }

    #[test]
    fn frames_that_are_cut_or_changed_are_frames_or_malformed() {
        let mut rng = Rng::new(1);
        for frame in frames() {
            let bytes = frame.encode();
            for len in 0..bytes.len() {
                let cut = Frame::decode(&bytes.slice(..len));
                let least = match frame {
                    Frame::Command { .. } => Frame::COMMAND_HEAD,
                    Frame::Numbered { .. } => Frame::NUMBERED_HEAD,
                    _ => bytes.len(),
                };
                assert!(cut.is_err() || len >= least, "{frame:?} to {len}");
            }
            for _ in 0..2_000 {
                let mut changed = bytes.to_vec();
                let at = rng.below(changed.len() as u64) as usize;
                changed[at] = rng.next_u64() as u8;
                let _ = Frame::decode(&changed.into());
            }
        }
        assert!(Frame::decode(&Bytes::from_static(b"\x0c")).is_err());
    }
}
