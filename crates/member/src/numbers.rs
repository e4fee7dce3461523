//! Numbers of views: never used twice, not even after a restart.
//!
//! A ceiling is reserved on disk ahead of use and in the background, so that nothing is written while a view is being
//! formed. A restarted node begins at its ceiling.

/// How far ahead the ceiling is reserved.
const AHEAD: u64 = 1_000;
/// When less than this is left, more is reserved.
const LEAST: u64 = 500;
/// The distance between the highest number known and the next one proposed.
const STEP: u64 = 4;

/// A number further ahead than this is not believed: no group of nodes forms so many views, and what was believed once
/// is on disk for ever.
const LEAP: u64 = 1 << 40;

/// The numbers one node knows of.
#[derive(Clone, Debug, Default)]
pub struct ViewNumbers {
    highest: u64,
    durable: u64,
    pending: Option<u64>,
}

/// A ceiling to be written to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Every number up to here may be used once this is on disk.
    pub ceiling: u64,
}

impl ViewNumbers {
    /// Begins at the ceiling of an earlier incarnation, 0 if there was none.
    pub const fn new(stored: u64) -> Self {
        Self { highest: stored.saturating_add(1), durable: stored, pending: None }
    }

    /// Whether a number may be true. One lie must not use up the numbers of a whole group.
    pub const fn believes(&self, number: u64) -> bool {
        number <= self.highest.saturating_add(LEAP)
    }

    /// Notes a number that somebody used.
    pub fn saw(&mut self, number: u64) {
        self.highest = self.highest.max(number);
    }

    /// The highest number known.
    pub const fn highest(&self) -> u64 {
        self.highest
    }

    /// The number for a view to be proposed.
    pub const fn propose(&self) -> u64 {
        self.highest.saturating_add(STEP)
    }

    /// Whether a number may be used: it must lie below what is on disk.
    pub const fn may_use(&self, number: u64) -> bool {
        number <= self.durable
    }

    /// What to write now, if anything.
    pub fn reserve(&mut self) -> Option<Reservation> {
        if self.pending.is_some() || self.durable >= self.highest.saturating_add(LEAST) {
            return None;
        }
        let ceiling = self.highest.saturating_add(AHEAD);
        self.pending = Some(ceiling);
        Some(Reservation { ceiling })
    }

    /// The last reservation is on disk.
    pub fn reserved(&mut self) {
        self.durable = self.pending.take().unwrap_or(self.durable).max(self.durable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_only_below_the_ceiling_on_disk() {
        let mut numbers = ViewNumbers::new(0);
        assert!(!numbers.may_use(numbers.propose()));
        assert_eq!(numbers.reserve(), Some(Reservation { ceiling: 1_001 }));
        assert_eq!(numbers.reserve(), None, "one at a time");
        assert!(!numbers.may_use(numbers.propose()), "not on disk yet");
        numbers.reserved();
        assert!(numbers.may_use(numbers.propose()));
        assert_eq!(numbers.reserve(), None);
        numbers.saw(700);
        assert_eq!(numbers.reserve(), Some(Reservation { ceiling: 1_700 }));
    }

    #[test]
    fn a_number_far_out_of_reach_is_not_believed() {
        let numbers = ViewNumbers::new(5_000);
        assert!(numbers.believes(3) && numbers.believes(9_000) && numbers.believes(1 << 40));
        assert!(!numbers.believes(1 << 41) && !numbers.believes(u64::MAX));
        assert_eq!(ViewNumbers::new(u64::MAX).highest(), u64::MAX, "a record that cannot be true wraps nothing");
    }

    #[test]
    fn a_restart_begins_above_everything_the_earlier_incarnation_may_have_used() {
        let numbers = ViewNumbers::new(1_700);
        assert!(numbers.highest() > 1_700);
    }
}
