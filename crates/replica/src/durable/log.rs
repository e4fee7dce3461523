//! The log of a durable copy: entries with the term in which each was ordered first.
//!
//! Within a term the log only grows, and a term begins with a whole log. So two logs that have the same term at an index have
//! the same entries up to there.
use bytes::Bytes;
use std::collections::VecDeque;

/// An entry: its term, and a frame as bytes.
pub type Item = (u64, Bytes);

/// What an entry costs besides its bytes.
const ITEM: usize = 64;

/// Entries behind a base. What is up to the base is in checkpoints, and was committed.
#[derive(Clone, Debug, Default)]
pub struct Log {
    base: u64,
    items: VecDeque<Item>,
    runs: VecDeque<Run>,
    bytes: usize,
}

/// Entries of one term that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub term: u64,
    /// The index of the last.
    pub last: u64,
}

/// How far a log goes, as its owner says to the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    pub base: u64,
    pub end: u64,
    /// Up to there it is known to be committed, so that each later log has it.
    pub committed: u64,
    /// The latest runs, in their order.
    pub runs: Vec<Run>,
}

impl Log {
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// The index of the last entry.
    pub fn end(&self) -> u64 {
        self.base + self.items.len() as u64
    }

    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn get(&self, index: u64) -> Option<&Item> {
        self.items.get(index.checked_sub(self.base + 1)? as usize)
    }

    pub fn push(&mut self, item: Item) {
        let last = self.end() + 1;
        match self.runs.back_mut() {
            Some(run) if run.term == item.0 => run.last = last,
            _ => self.runs.push_back(Run { term: item.0, last }),
        }
        self.bytes += ITEM + item.1.len();
        self.items.push_back(item);
    }

    /// Takes off what is behind this index.
    pub fn cut_to(&mut self, index: u64) {
        while self.end() > index
            && let Some((_, bytes)) = self.items.pop_back()
        {
            self.bytes -= ITEM + bytes.len();
        }
        let end = self.end();
        while self.runs.back().is_some_and(|run| run.last > end) {
            let gone = self.runs.pop_back();
            let before = self.runs.back().map_or(self.base, |run| run.last);
            if let Some(run) = gone.filter(|_| before < end) {
                self.runs.push_back(Run { last: end, ..run });
            }
        }
    }

    /// What is up to this index is in checkpoints.
    pub fn release_to(&mut self, index: u64) {
        while self.base < index
            && let Some((_, bytes)) = self.items.pop_front()
        {
            (self.base, self.bytes) = (self.base + 1, self.bytes - ITEM - bytes.len());
        }
        self.base = self.base.max(index);
        while self.runs.front().is_some_and(|run| run.last <= self.base) {
            self.runs.pop_front();
        }
    }

    /// How far it goes, with this number of runs at most. What it has released was committed.
    pub fn extent(&self, committed: u64, runs_max: usize) -> Extent {
        let skipped = self.runs.len().saturating_sub(runs_max);
        let runs = self.runs.iter().skip(skipped).copied().collect();
        let committed = committed.max(self.base).min(self.end());
        Extent { base: self.base, end: self.end(), committed, runs }
    }
}

impl Extent {
    /// Up to which index this log and that one are known to be equal.
    pub fn common(&self, other: &Self) -> u64 {
        let mut common = self.committed.min(other.end);
        for run in &self.runs {
            let same = other.runs.iter().find(|of| of.term == run.term);
            common = common.max(same.map_or(0, |of| of.last.min(run.last)));
        }
        common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(terms: &[u64]) -> Log {
        let mut log = Log::default();
        terms.iter().for_each(|term| log.push((*term, Bytes::from_static(b"x"))));
        log
    }

    fn extent(terms: &[u64]) -> Extent {
        log(terms).extent(0, 10)
    }

    #[test]
    fn runs_follow_what_is_added_and_taken_off() {
        let runs = |log: &Log| log.extent(0, 10).runs.iter().map(|run| (run.term, run.last)).collect::<Vec<_>>();
        let mut log = log(&[1, 1, 2, 5, 5, 5]);
        assert_eq!(runs(&log), [(1, 2), (2, 3), (5, 6)]);
        log.cut_to(4);
        assert_eq!((runs(&log), log.end()), (vec![(1, 2), (2, 3), (5, 4)], 4));
        log.cut_to(3);
        assert_eq!(runs(&log), [(1, 2), (2, 3)]);
        log.release_to(2);
        assert_eq!((runs(&log), log.base(), log.get(3).is_some()), (vec![(2, 3)], 2, true));
        log.release_to(9);
        assert_eq!((runs(&log), log.base(), log.end(), log.bytes()), (vec![], 9, 9, 0));
        log.push((7, Bytes::new()));
        assert_eq!((runs(&log), log.get(10).map(|item| item.0)), (vec![(7, 10)], Some(7)));
        log.cut_to(9);
        assert_eq!((runs(&log), log.bytes()), (vec![], 0));
    }

    #[test]
    fn logs_are_equal_up_to_the_last_term_they_share() {
        let common = |one: &[u64], other: &[u64]| extent(one).common(&extent(other));
        assert_eq!(common(&[1, 1, 2], &[1, 1, 2, 2]), 3);
        assert_eq!(common(&[1, 1, 2, 2], &[1, 1, 1, 3]), 2);
        assert_eq!(common(&[4, 4], &[1, 1]), 0);
        let released = |terms: &[u64], base: u64| {
            let mut log = log(terms);
            log.release_to(base);
            log.extent(base, 10)
        };
        assert_eq!(released(&[1, 1, 2], 2).common(&extent(&[1, 1, 3])), 2, "what was released is committed");
        assert_eq!(extent(&[1, 1, 2]).common(&released(&[1, 1, 2, 4], 3)), 0, "nothing is known of what is before");
        assert_eq!(extent(&[1, 1, 2]).common(&released(&[1, 1, 2, 2], 3)), 3);
    }
}
