//! How far a replica is, in which history.
#![doc(hidden)]
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Names a replica, over its restarts where it keeps checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u128);

/// Names one start of a replica: who numbers commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(pub u128);

/// Random bytes: for names that no other has.
///
/// # Panics
/// If the operating system has none.
#[allow(clippy::expect_used, reason = "documented: nothing can be done without random bytes")]
pub fn random() -> u128 {
    let mut bytes = [0; 16];
    let read = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    assert_eq!(read.expect("the operating system has random bytes"), bytes.len(), "random bytes");
    u128::from_be_bytes(bytes)
}

/// Names all commands up to one, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(pub u128);

impl Digest {
    /// The same and one command more. An origin gives a number to one command only, so these two name it.
    pub fn then(self, origin: Origin, number: u64) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0.to_be_bytes());
        hash.update(origin.0.to_be_bytes());
        hash.update(number.to_be_bytes());
        let mut front = [0; 16];
        front.copy_from_slice(&hash.finalize()[..16]);
        Self(u128::from_be_bytes(front))
    }
}

/// A command's number in the history, from 1, and what names all up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    pub position: u64,
    pub digest: Digest,
}

/// How far one has followed a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Names the history; 0 before there is one.
    pub history: u64,
    /// Names the latest view of which something was followed: by its number, or by one more than the epoch before if that
    /// was greater, because parts of a network count their views by themselves.
    pub epoch: u64,
    /// Counts what was followed: commands, and what replicas tell each other.
    pub step: u64,
    pub end: Point,
    /// Those that count: as they are at the end, and before that each set that came before, back to where the view began to
    /// close. Others may have stopped at any of these steps, so a majority of each set must go on.
    pub counting: Vec<BTreeSet<ReplicaId>>,
    /// Those that are up to date and do not count yet, with the number of their question.
    pub fresh: BTreeMap<ReplicaId, u64>,
}

/// Those that may go on without a replica, as its directory has them. A checkpoint may be older.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Where that was so.
    pub history: u64,
    pub epoch: u64,
    pub step: u64,
    pub ids: BTreeSet<ReplicaId>,
}

static NONE: BTreeSet<ReplicaId> = BTreeSet::new();

impl Line {
    /// Those that count at its end.
    pub fn counts(&self) -> &BTreeSet<ReplicaId> {
        self.counting.last().unwrap_or(&NONE)
    }

    /// These count from now on.
    pub fn set_counts(&mut self, counts: BTreeSet<ReplicaId>) {
        if self.counts() != &counts {
            self.counting.push(counts);
        }
    }

    /// No view is closing: all others know who counts at its end, or will.
    pub fn settle(&mut self) {
        self.counting.drain(..self.counting.len().saturating_sub(1));
    }

    /// Whether each of its sets has a majority among these.
    pub fn has_majorities_in(&self, some: &BTreeSet<ReplicaId>) -> bool {
        self.counting.iter().all(|set| is_majority(some, set))
    }

    /// Those that are up to date at its end.
    pub fn up_to_date(&self) -> BTreeSet<ReplicaId> {
        self.counts().iter().chain(self.fresh.keys()).copied().collect()
    }

    /// All that may have gone on as far as it knows.
    pub fn may_go_on(&self) -> BTreeSet<ReplicaId> {
        self.counting.iter().flatten().chain(self.fresh.keys()).copied().collect()
    }
}

/// Whether some are more than half of all, or the half with the lowest.
pub fn is_majority(some: &BTreeSet<ReplicaId>, all: &BTreeSet<ReplicaId>) -> bool {
    let there = all.intersection(some).count();
    2 * there > all.len() || 2 * there == all.len() && all.first().is_none_or(|lowest| some.contains(lowest))
}

/// One command of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub origin: Origin,
    pub number: u64,
    pub body: Bytes,
}

/// The latest commands, as many as fit.
#[derive(Clone, Debug)]
pub struct Log {
    base: Point,
    entries: VecDeque<(Point, Entry)>,
    bytes: usize,
    bytes_max: usize,
}

/// What an entry costs besides its body.
const ENTRY: usize = 96;

impl Log {
    pub fn new(bytes_max: usize) -> Self {
        Self { base: Point::default(), entries: VecDeque::new(), bytes: 0, bytes_max }
    }

    pub fn push(&mut self, at: Point, entry: Entry) {
        self.bytes += ENTRY + entry.body.len();
        self.entries.push_back((at, entry));
        while self.bytes > self.bytes_max
            && let Some((point, gone)) = self.entries.pop_front()
        {
            (self.base, self.bytes) = (point, self.bytes - ENTRY - gone.body.len());
        }
    }

    /// Nothing is known of what stands before this.
    pub fn restart(&mut self, base: Point) {
        (self.base, self.bytes) = (base, 0);
        self.entries.clear();
    }

    /// Forgets what stands behind this; true if it was there.
    pub fn cut_to(&mut self, point: Point) -> bool {
        if !self.holds(point) {
            return false;
        }
        while self.entries.back().is_some_and(|(at, _)| at.position > point.position)
            && let Some((_, gone)) = self.entries.pop_back()
        {
            self.bytes -= ENTRY + gone.body.len();
        }
        true
    }

    /// Whether the history passes there and all behind it is here.
    pub fn holds(&self, point: Point) -> bool {
        let Some(behind) = point.position.checked_sub(self.base.position) else { return false };
        match behind.checked_sub(1) {
            None => self.base == point,
            Some(index) => self.entries.get(index as usize).is_some_and(|(at, _)| *at == point),
        }
    }

    /// Whether the history is known not to pass there.
    pub fn refutes(&self, point: Point) -> bool {
        let end = self.entries.back().map_or(self.base.position, |(at, _)| at.position);
        point.position > end || point.position >= self.base.position && !self.holds(point)
    }

    /// What stands behind a point that is held.
    pub fn behind(&self, point: Point) -> Vec<Entry> {
        let from = point.position.saturating_sub(self.base.position) as usize;
        self.entries.iter().skip(from).map(|(_, entry)| entry.clone()).collect()
    }
}

/// How many origins are remembered; the one that was silent for longest is forgotten for a new one.
const ORIGINS_MAX: usize = 4_096;
/// How many numbers behind a hole are remembered of each.
const AHEAD_MAX: usize = 65_536;

/// Which commands were applied already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen(pub BTreeMap<Origin, SeenOf>);

/// The same of one origin: all up to a number, and some behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenOf {
    pub all_to: u64,
    pub ahead: BTreeSet<u64>,
    /// The position of its last one.
    pub last: u64,
}

impl Seen {
    pub fn contains(&self, origin: Origin, number: u64) -> bool {
        self.0.get(&origin).is_some_and(|of| number <= of.all_to || of.ahead.contains(&number))
    }

    /// Whether one of these commands, but for those held back, is not among the others.
    pub fn has_more_than(&self, others: &Self, held: &BTreeSet<(Origin, u64)>) -> bool {
        self.0.iter().any(|(origin, of)| {
            let there = others.0.get(origin);
            if there.is_none() && others.0.len() >= ORIGINS_MAX {
                // It may be forgotten there.
                return false;
            }
            let all_to = there.map_or(0, |there| there.all_to);
            let mut numbers = (all_to + 1..=of.all_to).chain(of.ahead.iter().copied());
            numbers.any(|number| !others.contains(*origin, number) && !held.contains(&(*origin, number)))
        })
    }

    pub fn insert(&mut self, origin: Origin, number: u64, position: u64) {
        if !self.0.contains_key(&origin) && self.0.len() >= ORIGINS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, of)| of.last).map(|(origin, _)| *origin);
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        let of = self.0.entry(origin).or_default();
        of.last = position;
        of.ahead.insert(number);
        while let Some(first) = of.ahead.first().copied()
            && (first == of.all_to + 1 || of.ahead.len() > AHEAD_MAX)
        {
            of.all_to = first;
            of.ahead.pop_first();
        }
    }
}

impl Seen {
    /// Forgets the command that was inserted last of this origin.
    pub fn remove(&mut self, origin: Origin, number: u64) {
        let Some(of) = self.0.get_mut(&origin) else { return };
        if !of.ahead.remove(&number) && number <= of.all_to {
            of.ahead.extend(number + 1..=of.all_to);
            of.all_to = number - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64) -> Entry {
        Entry { origin: Origin(1), number, body: Bytes::from_static(b"four") }
    }

    fn points(count: u64) -> Vec<Point> {
        let mut point = Point::default();
        let next = |number| {
            point = Point { position: number, digest: point.digest.then(Origin(1), number) };
            point
        };
        std::iter::once(Point::default()).chain((1..=count).map(next)).collect()
    }

    #[test]
    fn a_log_gives_what_stands_behind_a_point_as_far_as_it_has_room() {
        let (points, mut log) = (points(10), Log::new(4 * (ENTRY + 4)));
        (1..=10).for_each(|number| log.push(points[number as usize], entry(number)));
        assert!(!log.holds(points[5]) && !log.refutes(points[5]), "it is not known any more");
        assert_eq!(log.behind(points[8]), [entry(9), entry(10)]);
        assert!(log.holds(points[6]) && log.holds(points[10]));
        let other = Point { position: 8, digest: Digest(3) };
        assert!(log.refutes(other) && log.refutes(Point { position: 11, ..other }));
        assert!(log.cut_to(points[8]) && !log.cut_to(other));
        assert_eq!(log.behind(points[7]), [entry(8)]);
    }

    #[test]
    fn a_command_that_another_has_not_seen_is_noticed_unless_it_is_held_back_or_may_be_forgotten() {
        let seen = |numbers: &[(u128, u64)]| {
            let mut seen = Seen::default();
            numbers.iter().for_each(|(origin, number)| seen.insert(Origin(*origin), *number, 1));
            seen
        };
        let (none, own) = (BTreeSet::new(), seen(&[(1, 1), (1, 2), (2, 4)]));
        assert!(!own.has_more_than(&own, &none) && !own.has_more_than(&seen(&[(1, 1), (1, 2), (1, 3), (2, 4)]), &none));
        for less in [&[(1, 1), (2, 4)][..], &[(1, 2), (2, 4)], &[(1, 1), (1, 2)], &[(1, 1), (1, 2), (2, 5)]] {
            assert!(own.has_more_than(&seen(less), &none), "{less:?}");
        }
        assert!(!own.has_more_than(&seen(&[(1, 1), (1, 2)]), &[(Origin(2), 4)].into()));
        let mut many = seen(&[(1, 1), (1, 2)]);
        (0..ORIGINS_MAX as u128).for_each(|other| many.insert(Origin(100 + other), 1, 2));
        assert!(!own.has_more_than(&many, &none), "origins were forgotten");
    }

    #[test]
    fn numbers_that_came_last_can_be_taken_back() {
        let numbers = [(1, 1), (1, 2), (1, 4), (2, 1), (1, 3)];
        let mut before = vec![Seen::default()];
        for (origin, number) in numbers {
            let mut seen = before.last().unwrap().clone();
            seen.insert(Origin(origin), number, 1);
            before.push(seen);
        }
        let mut seen = before.pop().unwrap();
        for (origin, number) in numbers.into_iter().rev() {
            seen.remove(Origin(origin), number);
            let before = before.pop().unwrap();
            for (origin, number) in numbers.into_iter().chain([(1, 5), (3, 1)]) {
                let (origin, is_there) = (Origin(origin), before.contains(Origin(origin), number));
                assert_eq!(seen.contains(origin, number), is_there, "{origin:?} {number}");
            }
            seen.remove(Origin(7), 1);
        }
    }

    #[test]
    fn a_number_is_seen_once_whatever_the_order_and_the_silent_are_forgotten() {
        let mut seen = Seen::default();
        for number in [2, 1, 4] {
            assert!(!seen.contains(Origin(7), number));
            seen.insert(Origin(7), number, 1);
        }
        assert!([1, 2, 4].iter().all(|number| seen.contains(Origin(7), *number)) && !seen.contains(Origin(7), 3));
        assert_eq!(seen.0[&Origin(7)].all_to, 2);
        (0..ORIGINS_MAX as u128).for_each(|other| seen.insert(Origin(100 + other), 1, 2));
        assert!(!seen.contains(Origin(7), 1) && seen.0.len() == ORIGINS_MAX);
    }
}
