//! A gift on its way: chunks in private messages, numbered, each acknowledged.
#![doc(hidden)]
use crate::codec::{read_count, read_u128};
use crate::engine::{Base, Gift};
use crate::frame::{Claim, Hello, Peer, put_line, read_line};
use crate::line::{Entry, Origin, ReplicaId, Seen, SeenOf};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use consort::{ClientId, NodeId};
use consort_wire::{Malformed, Reader, Writer};
use std::collections::VecDeque;
use std::io::{self, Read};

/// Bytes of a chunk. Its messages cost calls their turn, so few of them carry much.
const CHUNK: usize = 128 << 10;
/// What stands in front of a chunk.
const PART_HEAD: usize = 18;

/// Bytes of a chunk where a message has at most so many.
pub fn chunk_of(message_max: usize) -> usize {
    CHUNK.min(message_max.saturating_sub(PART_HEAD).max(1))
}

const PART: u8 = 16;
const RECEIVED: u8 = 17;

/// What a donor and its replica tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Private {
    /// The next bytes of a gift.
    Part { ask: u64, number: u64, last: bool, bytes: Bytes },
    /// All chunks before this number came.
    Received { id: ReplicaId, ask: u64, next: u64 },
}

impl Private {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Part { ask, number, last, bytes } => {
                out.reserve(PART_HEAD + bytes.len());
                out.put_u8(PART);
                out.put_u64(*ask);
                out.put_u64(*number);
                out.put_u8((*last).into());
                out.extend_from_slice(bytes);
            }
            Self::Received { id, ask, next } => {
                out.put_u8(RECEIVED);
                out.put_u128(id.0);
                out.put_u64(*ask);
                out.put_u64(*next);
            }
        }
        out.freeze()
    }

    pub fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        match reader.u8("kind")? {
            PART => {
                let (ask, number) = (reader.u64("ask")?, reader.u64("number")?);
                let last = reader.u8("last")? != 0;
                Ok(Self::Part { ask, number, last, bytes: bytes.slice(reader.at()..) })
            }
            RECEIVED => {
                let id = ReplicaId(read_u128(&mut reader, "replica")?);
                let (ask, next) = (reader.u64("ask")?, reader.u64("next")?);
                reader.end("end of frame")?;
                Ok(Self::Received { id, ask, next })
            }
            _ => Err(Malformed { what: "kind", at: 0 }),
        }
    }
}

/// What came of a gift.
#[derive(Debug, Default)]
pub struct Incoming {
    from: Option<(NodeId, ClientId)>,
    ask: u64,
    next: u64,
    parts: Parts,
}

impl Incoming {
    /// Takes a chunk; the whole gift once the last is there. A first chunk begins anew, as another donor does: what the
    /// one before had under way is not of it.
    pub fn take(
        &mut self,
        from: (NodeId, ClientId),
        (ask, number, last): (u64, u64, bool),
        bytes: Bytes,
    ) -> Option<Parts> {
        if number == 0 {
            *self = Self { from: Some(from), ask, ..Self::default() };
        }
        if (Some(from), ask, number) != (self.from, self.ask, self.next) {
            return None;
        }
        self.next += 1;
        self.parts.push(bytes);
        last.then(|| std::mem::take(self).parts)
    }

    /// The number of the chunk that is awaited.
    pub const fn next(&self) -> u64 {
        self.next
    }
}

/// Bytes in pieces.
#[derive(Debug, Default)]
pub struct Parts(VecDeque<Bytes>);

impl Parts {
    fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.0.push_back(bytes);
        }
    }

    /// Takes what stands in front of the snapshot.
    pub fn gift(&mut self) -> Result<Gift, Malformed> {
        let short = || Malformed { what: "gift", at: 0 };
        let mut len = [0; 8];
        self.read_exact(&mut len).map_err(|_| short())?;
        let len = usize::try_from(u64::from_be_bytes(len)).map_err(|_| short())?;
        if len > self.0.iter().map(Bytes::len).sum() {
            return Err(short());
        }
        let mut head = vec![0; len];
        self.read_exact(&mut head).map_err(|_| short())?;
        read_gift(&Bytes::from(head))
    }
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(front) = self.0.front_mut() else { return Ok(0) };
        let len = front.len().min(buffer.len());
        front.copy_to_slice(&mut buffer[..len]);
        if front.is_empty() {
            self.0.pop_front();
        }
        Ok(len)
    }
}

/// What stands in front of the snapshot, with its length.
pub fn encode(gift: &Gift) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u64(0);
    out.put_u64(gift.ask);
    out.put_u64(gift.covers);
    match &gift.base {
        Base::Line(entries) => put_entries(&mut out, 0, entries),
        Base::Applied(entries) => put_entries(&mut out, 1, entries),
        Base::Snapshot { parted } => out.put_u8(2 + u8::from(*parted)),
    }
    put_line(&mut out, &gift.line);
    out.put_u32(gift.bound.len() as u32);
    for (id, peer) in &gift.bound {
        put_bound(&mut out, *id, *peer);
    }
    out.put_u32(gift.asks.len() as u32);
    for (hello, step) in &gift.asks {
        hello.put(&mut out);
        out.put_u64(*step);
    }
    put_seen(&mut out, &gift.seen);
    out.put_u8(gift.claim.is_some().into());
    gift.claim.iter().for_each(|claim| claim.put(&mut out));
    let len = out.len() as u64 - 8;
    out[..8].copy_from_slice(&len.to_be_bytes());
    out.freeze()
}

fn read_gift(bytes: &Bytes) -> Result<Gift, Malformed> {
    let mut reader = Reader::new(bytes);
    let (ask, covers) = (reader.u64("ask")?, reader.u64("covered")?);
    let base = match reader.u8("base")? {
        0 => Base::Line(read_entries(&mut reader, bytes)?),
        1 => Base::Applied(read_entries(&mut reader, bytes)?),
        kind @ 2..=3 => Base::Snapshot { parted: kind == 3 },
        _ => return Err(reader.bad("base")),
    };
    let line = read_line(&mut reader)?;
    let count = read_count(&mut reader, 36, "replicas")?;
    let bound = (0..count).map(|_| read_bound(&mut reader)).collect::<Result<_, _>>()?;
    let count = read_count(&mut reader, 100, "asks")?;
    let ask_of = |reader: &mut Reader<'_>| {
        reader.u8("kind")?;
        Ok((Hello::read(reader)?, reader.u64("step")?))
    };
    let asks = (0..count).map(|_| ask_of(&mut reader)).collect::<Result<_, _>>()?;
    let seen = read_seen(&mut reader)?;
    let claim = match reader.u8("claimed")? {
        0 => None,
        _ => reader.u8("kind").and_then(|_| Claim::read(&mut reader)).map(Some)?,
    };
    reader.end("end of gift")?;
    Ok(Gift { ask, covers, base, line, bound, asks, seen, claim })
}

fn put_bound(out: &mut BytesMut, id: ReplicaId, peer: Peer) {
    out.put_u128(id.0);
    out.put_member(peer.0);
    out.put_u32(peer.1.0);
}

fn read_bound(reader: &mut Reader<'_>) -> Result<(ReplicaId, Peer), Malformed> {
    let id = ReplicaId(read_u128(reader, "replica")?);
    Ok((id, (reader.member("daemon")?, ClientId(reader.u32("client")?))))
}

fn put_entries(out: &mut BytesMut, kind: u8, entries: &[Entry]) {
    out.put_u8(kind);
    out.put_u32(entries.len() as u32);
    for Entry { origin, number, body } in entries {
        out.put_u128(origin.0);
        out.put_u64(*number);
        out.put_u32(body.len() as u32);
        out.extend_from_slice(body);
    }
}

fn read_entries(reader: &mut Reader<'_>, bytes: &Bytes) -> Result<Vec<Entry>, Malformed> {
    let count = read_count(reader, 28, "commands")?;
    let entry = |reader: &mut Reader<'_>| {
        let (origin, number) = (Origin(read_u128(reader, "origin")?), reader.u64("number")?);
        let len = reader.u32("length")? as usize;
        let from = reader.at();
        reader.take(len, "command")?;
        Ok(Entry { origin, number, body: bytes.slice(from..from + len) })
    };
    (0..count).map(|_| entry(reader)).collect()
}

pub fn put_seen(out: &mut BytesMut, seen: &Seen) {
    out.put_u32(seen.0.len() as u32);
    for (origin, of) in &seen.0 {
        out.put_u128(origin.0);
        out.put_u64(of.all_to);
        out.put_u64(of.last);
        out.put_u32(of.ahead.len() as u32);
        of.ahead.iter().for_each(|number| out.put_u64(*number));
    }
}

pub fn read_seen(reader: &mut Reader<'_>) -> Result<Seen, Malformed> {
    let count = read_count(reader, 36, "origins")?;
    let of = |reader: &mut Reader<'_>| {
        let origin = Origin(read_u128(reader, "origin")?);
        let (all_to, last) = (reader.u64("all to")?, reader.u64("last")?);
        let ahead = crate::codec::read_count(reader, 8, "numbers ahead")?;
        let ahead = (0..ahead).map(|_| reader.u64("number ahead")).collect::<Result<_, _>>()?;
        Ok((origin, SeenOf { all_to, ahead, last }))
    };
    (0..count).map(|_| of(reader)).collect::<Result<_, _>>().map(Seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::Line;
    use consort_types::{MemberId, Rng};

    const DONOR: (NodeId, ClientId) = (NodeId(1), ClientId(1));

    fn gift(base: Base) -> Gift {
        let peer = (MemberId::new(3, 77), ClientId(2));
        let line = Line {
            history: 1,
            counting: vec![[ReplicaId(4)].into()],
            fresh: [(ReplicaId(6), 8)].into(),
            ..Line::default()
        };
        let (id, at, applied) = (ReplicaId(8), (1, 2), line.end);
        let hello = Hello {
            id,
            peer,
            ask: 3,
            at,
            clean: true,
            forces: false,
            heard: (1, [id].into()),
            line: line.clone(),
            applied,
            recalls: None,
        };
        let mut seen = Seen::default();
        seen.insert(Origin(5), 1, 1);
        seen.insert(Origin(5), 7, 2);
        let claim =
            Claim { view: 2, came: [id].into(), history: 1, epoch: 1, step: 4, end: line.end, silent: [1].into() };
        let (bound, asks) = ([(ReplicaId(4), peer)].into(), vec![(hello, 9)]);
        Gift { ask: 3, covers: 2, base, line, bound, asks, seen, claim: Some(claim) }
    }

    fn gifts() -> [Gift; 3] {
        let entry = Entry { origin: Origin(1), number: 2, body: Bytes::from_static(b"set") };
        [Base::Line(vec![entry.clone(), entry]), Base::Applied(Vec::new()), Base::Snapshot { parted: true }].map(gift)
    }

    #[test]
    fn a_gift_comes_as_it_was_sent_with_the_snapshot_behind_it() {
        for gift in gifts() {
            let mut incoming = Incoming::default();
            let all = [&encode(&gift)[..], b"snapshot"].concat();
            let chunks: Vec<_> = all.chunks(10).map(Bytes::copy_from_slice).collect();
            let mut whole = None;
            for (number, chunk) in chunks.iter().enumerate() {
                assert!(whole.is_none());
                assert!(
                    incoming.take(DONOR, (3, number as u64 + 2, false), chunk.clone()).is_none(),
                    "a chunk that is not next"
                );
                whole = incoming.take(DONOR, (3, number as u64, number + 1 == chunks.len()), chunk.clone());
            }
            let mut whole = whole.unwrap();
            assert_eq!(whole.gift().unwrap(), gift);
            let mut rest = Vec::new();
            whole.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, b"snapshot");
        }
    }

    #[test]
    fn chunks_of_a_donor_that_was_replaced_are_not_taken_for_those_of_the_next() {
        let (second, chunk) = ((NodeId(2), ClientId(1)), Bytes::from_static(b"x"));
        let mut incoming = Incoming::default();
        assert!(incoming.take(DONOR, (3, 0, false), chunk.clone()).is_none());
        assert!(incoming.take(second, (3, 0, false), chunk.clone()).is_none());
        assert!(incoming.take(DONOR, (3, 1, true), chunk.clone()).is_none(), "half of it is another's");
        assert_eq!(incoming.next(), 1);
        assert!(incoming.take(second, (3, 1, true), chunk).is_some());
    }

    #[test]
    fn gifts_and_private_frames_that_are_cut_or_changed_are_refused_or_read() {
        let mut rng = Rng::new(2);
        for bytes in gifts().map(|gift| encode(&gift)) {
            for len in 0..bytes.len() {
                assert!(Parts(VecDeque::from([bytes.slice(..len)])).gift().is_err(), "{len}");
            }
            for _ in 0..2_000 {
                let mut changed = bytes.to_vec();
                let at = rng.below(changed.len() as u64) as usize;
                changed[at] = rng.next_u64() as u8;
                let _ = Parts(VecDeque::from([Bytes::from(changed)])).gift();
            }
        }
        let part = Private::Part { ask: 1, number: 2, last: true, bytes: Bytes::from_static(b"x") };
        let received = Private::Received { id: ReplicaId(1), ask: 2, next: 3 };
        for frame in [part, received] {
            let bytes = frame.encode();
            assert_eq!(Private::decode(&bytes).unwrap(), frame);
            (0..18).for_each(|len| assert!(Private::decode(&bytes.slice(..len)).is_err()));
        }
    }
}
