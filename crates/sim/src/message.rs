//! Who sends what: names for processes and messages, and payloads from which a receiver can read the name back.
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::{ClientId, NodeId, Rng};
use consort_wire::Payload;
use std::fmt;

/// One incarnation of one node: what a crash ends and a restart begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessIncarnation {
    /// Which node.
    pub node: NodeId,
    /// Which of its incarnations, counted from 0.
    pub count: u16,
}

impl fmt::Display for ProcessIncarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 => f.pad(&self.node.to_string()),
            count => f.pad(&format!("{}.{}", self.node, u32::from(count) + 1)),
        }
    }
}

/// Whoever submits or delivers: a client of one incarnation of a node, or the node itself where an engine is driven
/// bare. What a crash ends never comes back: after a restart there are other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// On which node.
    pub node: NodeId,
    /// In which incarnation of it, counted from 0.
    pub incarnation: u16,
    /// Which of its clients.
    pub client: u16,
}

impl Process {
    /// Stands for the run as a whole.
    pub const WORLD: Self = Self { node: NodeId(u16::MAX), incarnation: 0, client: u16::MAX };

    /// Names a client of a node in its first incarnation.
    pub const fn new(node: NodeId, client: u16) -> Self {
        Self { node, incarnation: 0, client }
    }

    /// Names a client of an incarnation.
    pub const fn of(incarnation: ProcessIncarnation, client: u16) -> Self {
        Self { node: incarnation.node, incarnation: incarnation.count, client }
    }

    /// The incarnation it belongs to.
    pub const fn incarnation(self) -> ProcessIncarnation {
        ProcessIncarnation { node: self.node, count: self.incarnation }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::WORLD => f.pad("world"),
            Self { client, .. } => f.pad(&format!("{}c{client}", self.incarnation())),
        }
    }
}

/// The name of a message, which no position and no sequence number of the protocol under test goes into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// Who submitted it.
    pub origin: Process,
    /// Its number among the origin's accepted messages, from 1.
    pub count: u64,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}#{}", self.origin, self.count))
    }
}

/// The bytes that name a message; a shorter payload carries as many of them as it has room for.
pub const HEADER: usize = 12;
/// The largest payload that can be made.
pub const LARGEST: usize = 256 << 10;
/// Where in the pattern a payload begins depends on its message, so that no two have the same bytes.
const OFFSETS: u64 = 251;

/// Makes payloads and recognises them. The bulk of all payloads is one shared pattern: large ones cost nothing.
#[derive(Clone, Debug)]
pub struct Pattern(Bytes);

impl Default for Pattern {
    fn default() -> Self {
        let mut rng = Rng::new(0x7a77e2);
        let words = (LARGEST + OFFSETS as usize).div_ceil(8);
        Self((0..words).flat_map(|_| rng.next_u64().to_le_bytes()).collect())
    }
}

impl Pattern {
    /// The payload of a message: `len` bytes, at most [`LARGEST`].
    pub fn payload(&self, mark: Mark, len: usize) -> Payload {
        let mut header = BytesMut::with_capacity(HEADER);
        header.put_slice(&header_of(mark));
        header.truncate(len);
        let mut payload = Payload::from(header.freeze());
        payload.push(self.filler(mark, len));
        payload
    }

    /// Whether these are the bytes of that message.
    pub fn is_payload(&self, mark: Mark, payload: &Payload) -> bool {
        let (len, header) = (payload.len(), header_of(mark));
        let filler = self.filler(mark, len);
        if len > LARGEST {
            return false;
        }
        let mut at = 0;
        let mut equal = true;
        payload.for_each(0, len, |part| {
            let (front, back) = part.split_at(HEADER.saturating_sub(at).min(part.len()));
            equal &= front == &header[at.min(HEADER)..(at + front.len()).min(HEADER)];
            at += front.len();
            let from = at.saturating_sub(HEADER);
            equal &= filler.get(from..from + back.len()) == Some(back);
            at += back.len();
        });
        equal
    }

    fn filler(&self, mark: Mark, len: usize) -> Bytes {
        let origin = u64::from(mark.origin.node.0) + 7 * u64::from(mark.origin.incarnation);
        let from = (mark.count.wrapping_mul(31) + origin) % OFFSETS;
        let from = from as usize;
        self.0.slice(from..from + len.min(LARGEST).saturating_sub(HEADER))
    }
}

/// The name that a payload carries, if it is long enough. It may be a lie: see [`Pattern::is_payload`].
pub fn mark_of(payload: &Payload) -> Option<Mark> {
    if payload.len() < HEADER {
        return None;
    }
    let mut header = [0; HEADER];
    let mut at = 0;
    payload.for_each(0, HEADER, |part| {
        header[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    });
    let [c0, c1, c2, c3, c4, c5, n0, n1, l0, l1, p0, p1] = header;
    let pair = |low, high| u16::from_le_bytes([low, high]);
    let origin = Process { node: NodeId(pair(n0, n1)), incarnation: pair(l0, l1), client: pair(p0, p1) };
    Some(Mark { origin, count: u64::from_le_bytes([c0, c1, c2, c3, c4, c5, 0, 0]) })
}

/// Low bytes first, so that the shortest payloads differ most.
fn header_of(mark: Mark) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..6].copy_from_slice(&mark.count.to_le_bytes()[..6]);
    header[6..8].copy_from_slice(&mark.origin.node.0.to_le_bytes());
    header[8..10].copy_from_slice(&mark.origin.incarnation.to_le_bytes());
    header[10..].copy_from_slice(&mark.origin.client.to_le_bytes());
    header
}

/// Clients are numbered from 1 by their connections, from 0 in traces.
pub fn index_of(client: ClientId) -> u16 {
    u16::try_from(client.0.saturating_sub(1)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(node: u16, client: u16, count: u64) -> Mark {
        Mark { origin: Process { node: NodeId(node), incarnation: 2, client }, count }
    }

    #[test]
    fn names_tell_incarnations_apart() {
        let process = |incarnation| Process { node: NodeId(3), incarnation, client: 1 }.to_string();
        assert_eq!([process(0), process(1)], ["n3c1", "n3.2c1"]);
        assert_eq!(mark(3, 1, 9).to_string(), "n3.3c1#9");
    }

    #[test]
    fn a_payload_names_its_message_however_it_was_cut() {
        let pattern = Pattern::default();
        for len in [HEADER, HEADER + 1, 100, 5_000, LARGEST] {
            let mut payload = pattern.payload(mark(3, 1, 77), len);
            assert_eq!(payload.len(), len);
            let front = payload.split_to(len / 3);
            let rope: Payload = front.parts().chain(payload.parts()).cloned().collect();
            assert_eq!(mark_of(&rope), Some(mark(3, 1, 77)));
            assert!(pattern.is_payload(mark(3, 1, 77), &rope));
        }
    }

    #[test]
    fn short_payloads_have_no_name_but_are_recognised() {
        let pattern = Pattern::default();
        for len in 0..HEADER {
            let payload = pattern.payload(mark(3, 1, 77), len);
            assert_eq!((payload.len(), mark_of(&payload)), (len, None));
            assert!(pattern.is_payload(mark(3, 1, 77), &payload));
            assert_eq!(pattern.is_payload(mark(3, 1, 78), &payload), len == 0);
        }
    }

    #[test]
    fn any_change_is_noticed() {
        let pattern = Pattern::default();
        let good = pattern.payload(mark(0, 0, 5), 300).to_bytes().to_vec();
        for at in 0..300 {
            let mut bad = good.clone();
            bad[at] ^= 4;
            assert!(!pattern.is_payload(mark(0, 0, 5), &Bytes::from(bad).into()), "byte {at}");
        }
        assert!(!pattern.is_payload(mark(0, 0, 5), &Bytes::from(vec![0; LARGEST + 1]).into()));
    }
}
