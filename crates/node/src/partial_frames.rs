//! Frames that clients have begun and not finished: how much memory the large ones may take together, and how long each may
//! take to come.
use consort_types::{ClientId, Duration, Instant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Frames up to that many bytes need no room of their own.
const SMALL: usize = 64 << 10;
/// How many bytes of a frame have to come in a millisecond, on the whole.
const PACE: u64 = 64;

/// Who has begun what. A client has at most one such frame: the one behind all it said before.
#[derive(Debug)]
pub(crate) struct PartialFrames {
    max: usize,
    within: Duration,
    frames: BTreeMap<ClientId, PartialFrame>,
    by: BTreeSet<(Instant, ClientId)>,
    /// What the large ones will take.
    bytes: usize,
    /// Large ones for which there was no room yet, with their clients; first come first served.
    waiting: VecDeque<(ClientId, PartialFrame)>,
}

#[derive(Clone, Copy, Debug)]
struct PartialFrame {
    number: u64,
    len: usize,
    /// By when more of it must have come.
    by: Instant,
    /// By when all of it.
    latest: Instant,
}

impl PartialFrame {
    const fn cost(&self) -> usize {
        if self.len > SMALL { self.len } else { 0 }
    }
}

impl PartialFrames {
    /// Large frames may take `max` bytes together, but one always may come. More of each must come `within` so long, and all
    /// of it within that and what its length takes.
    pub fn new(max: usize, within: Duration) -> Self {
        Self { max, within, frames: BTreeMap::new(), by: BTreeSet::new(), bytes: 0, waiting: VecDeque::new() }
    }

    /// A client has begun this frame, or goes on with it. False if there is no room for it yet.
    pub fn begin(&mut self, now: Instant, client: ClientId, (number, len): (u64, usize)) -> bool {
        if let Some(frame) = self.frames.get_mut(&client).filter(|frame| frame.number == number) {
            self.by.remove(&(frame.by, client));
            frame.by = frame.latest.min(now + self.within);
            self.by.insert((frame.by, client));
            return true;
        }
        self.finish(client);
        let frame = PartialFrame { number, len, by: now, latest: now };
        if frame.cost() > 0 && (!self.waiting.is_empty() || !self.has_room(&frame)) {
            self.waiting.push_back((client, frame));
            return false;
        }
        self.admit(now, client, frame);
        true
    }

    fn has_room(&self, frame: &PartialFrame) -> bool {
        self.bytes == 0 || self.bytes + frame.cost() <= self.max
    }

    fn admit(&mut self, now: Instant, client: ClientId, frame: PartialFrame) {
        let by = now + self.within;
        self.bytes += frame.cost();
        self.by.insert((by, client));
        self.frames
            .insert(client, PartialFrame { by, latest: by + Duration::from_millis(frame.len as u64 / PACE), ..frame });
    }

    /// The client's frame is whole, or will never be.
    pub fn finish(&mut self, client: ClientId) {
        if let Some(frame) = self.frames.remove(&client) {
            self.bytes -= frame.cost();
            self.by.remove(&(frame.by, client));
        } else {
            self.waiting.retain(|(other, _)| *other != client);
        }
    }

    /// A client that waited and for whose frame there is room now.
    pub fn next_with_room(&mut self, now: Instant) -> Option<ClientId> {
        let (client, frame) = self.waiting.front().copied().filter(|(_, frame)| self.has_room(frame))?;
        self.waiting.pop_front();
        self.admit(now, client, frame);
        Some(client)
    }

    /// A client that took too long with its frame, and the number of that. Nothing is expected of it by any time until it
    /// begins another, or [`Self::postpone`] is called.
    pub fn next_late(&mut self, now: Instant) -> Option<(ClientId, u64)> {
        let (_, client) = self.by.first().copied().filter(|(by, _)| *by <= now)?;
        self.by.pop_first();
        self.frames.get(&client).map(|frame| (client, frame.number))
    }

    /// What a client has begun was not read meanwhile, so it has as long once more.
    pub fn postpone(&mut self, now: Instant, client: ClientId) {
        if let Some(frame) = self.frames.get_mut(&client) {
            self.by.remove(&(frame.by, client));
            (frame.by, frame.latest) = (now + self.within, frame.latest.max(now) + self.within);
            self.by.insert((frame.by, client));
        }
    }

    /// When [`Self::next_late`] may have something to say.
    pub fn next_by(&self) -> Option<Instant> {
        self.by.first().map(|(by, _)| *by)
    }

    /// How many bytes the large frames will take that are read now.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId(1);
    const B: ClientId = ClientId(2);
    const C: ClientId = ClientId(3);
    const MIB: usize = 1 << 20;

    fn at(millis: u64) -> Instant {
        Instant(millis * 1_000_000)
    }

    fn begun() -> PartialFrames {
        PartialFrames::new(10 * MIB, Duration::from_secs(1))
    }

    #[test]
    fn large_frames_share_the_room_in_the_order_in_which_they_came() {
        let mut begun = begun();
        assert!(begun.begin(at(0), A, (1, 6 * MIB)) && begun.begin(at(0), A, (1, 6 * MIB)));
        assert!(!begun.begin(at(0), B, (1, 6 * MIB)));
        assert!(!begun.begin(at(0), C, (1, MIB)), "nobody overtakes");
        assert!(begun.begin(at(0), ClientId(9), (1, SMALL)), "small ones need no room");
        assert_eq!((begun.next_with_room(at(0)), begun.bytes()), (None, 6 * MIB));
        begun.finish(A);
        assert_eq!([begun.next_with_room(at(0)), begun.next_with_room(at(0))], [Some(B), Some(C)]);
        assert!(begun.begin(at(0), B, (1, 6 * MIB)) && begun.next_with_room(at(0)).is_none());
        assert_eq!(begun.bytes(), 7 * MIB);
    }

    #[test]
    fn a_frame_larger_than_all_room_comes_alone() {
        let mut begun = begun();
        assert!(begun.begin(at(0), A, (1, 16 * MIB)) && !begun.begin(at(0), B, (1, 16 * MIB)));
        assert!(!begun.begin(at(0), A, (2, 16 * MIB)), "its next one stands behind");
        assert_eq!([begun.next_with_room(at(0)), begun.next_with_room(at(0))], [Some(B), None]);
        begun.finish(A);
        begun.finish(B);
        assert_eq!((begun.next_with_room(at(0)), begun.bytes()), (None, 0));
    }

    #[test]
    fn each_has_its_time_from_when_there_is_room() {
        let mut begun = begun();
        begun.begin(at(0), A, (1, 6_400_000));
        assert!(!begun.begin(at(0), B, (1, 6_400_000)));
        assert_eq!(begun.next_by(), Some(at(1_000)));
        begun.begin(at(50_000), A, (1, 6_400_000));
        assert_eq!(begun.next_by(), Some(at(51_000)), "more of it came");
        begun.begin(at(100_500), A, (1, 6_400_000));
        let late = [100_999, 101_000].map(|ms| begun.next_late(at(ms)).map(|(client, _)| client));
        assert_eq!(late, [None, Some(A)], "but too slowly");
        begun.finish(A);
        assert_eq!((begun.next_with_room(at(200_000)), begun.next_by()), (Some(B), Some(at(201_000))));
        begun.finish(B);
        assert_eq!(begun.next_late(at(999_999)), None);
    }
}
