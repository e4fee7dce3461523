//! So many bytes a second.
use consort_types::{Duration, Instant};

const SECOND: i128 = 1_000_000_000;
/// Nobody is told to wait longer at once, in nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// Lets so many bytes a second pass on average, and as many as a second brings at once. Whoever has any left may pass
/// with more: what is too much then is waited for before the next may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    rate: u64,
    /// Bytes times nanoseconds in a second: nothing is lost to rounding.
    level: i128,
    at: Instant,
}

impl Bucket {
    /// A full one; `rate` is in bytes a second, and 1 at least.
    pub fn new(now: Instant, rate: u64) -> Self {
        let rate = rate.max(1);
        Self { rate, level: i128::from(rate) * SECOND, at: now }
    }

    /// From here on so many bytes a second.
    pub fn set_rate(&mut self, now: Instant, rate: u64) {
        self.fill(now);
        self.rate = rate.max(1);
        self.level = self.level.min(self.full());
    }

    /// Takes so many bytes.
    ///
    /// # Errors
    /// When to ask again; nothing was taken.
    pub fn take(&mut self, now: Instant, bytes: usize) -> Result<(), Instant> {
        self.fill(now);
        if self.level > 0 {
            self.level -= bytes as i128 * SECOND;
            return Ok(());
        }
        let nanos = (1 - self.level).div_euclid(i128::from(self.rate)) + 1;
        Err(self.at + Duration::from_nanos(u64::try_from(nanos).unwrap_or(LONGEST).min(LONGEST)))
    }

    /// Whether nothing was taken lately: it is as a new one.
    pub fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.level == self.full()
    }

    fn full(&self) -> i128 {
        i128::from(self.rate) * SECOND
    }

    fn fill(&mut self, now: Instant) {
        let passed = u64::try_from(now.since(self.at).as_nanos()).unwrap_or(u64::MAX);
        self.at = self.at.max(now);
        self.level = (self.level + i128::from(passed) * i128::from(self.rate)).min(self.full());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_second_passes_at_once_and_then_as_much_as_time_brings() {
        let mut bucket = Bucket::new(at(0), 1_000);
        assert_eq!(bucket.take(at(0), 400), Ok(()));
        assert_eq!(bucket.take(at(0), 600), Ok(()));
        let again = bucket.take(at(0), 1).unwrap_err();
        assert!(again > at(0) && again <= at(1), "{again:?}");
        assert_eq!(bucket.take(again, 100), Ok(()));
        let again = bucket.take(again, 1).unwrap_err();
        assert!(again > at(99) && again <= at(102), "{again:?}");
    }

    #[test]
    fn what_is_larger_than_a_second_passes_and_is_waited_for() {
        let mut bucket = Bucket::new(at(0), 1_000);
        assert_eq!(bucket.take(at(0), 5_000), Ok(()));
        let again = bucket.take(at(0), 1).unwrap_err();
        assert!(again > at(3_999) && again <= at(4_001), "{again:?}");
        assert!(bucket.take(at(3_999), 1).is_err() && bucket.take(again, 1).is_ok());
    }

    #[test]
    fn over_time_the_rate_is_kept() {
        let (mut bucket, mut now, mut passed) = (Bucket::new(at(0), 12_345), at(0), 0_u64);
        while now < at(100_000) {
            match bucket.take(now, 777) {
                Ok(()) => passed += 777,
                Err(again) => {
                    assert!(again > now);
                    now = again;
                }
            }
        }
        let most = 12_345 * 101 + 777;
        assert!((most - 12_345..=most).contains(&passed), "{passed}");
    }

    #[test]
    fn a_clock_that_stands_or_numbers_that_are_huge_do_no_harm() {
        let mut bucket = Bucket::new(at(5), u64::MAX);
        assert_eq!(bucket.take(at(1), usize::MAX), Ok(()));
        let mut bucket = Bucket::new(at(0), 0);
        assert_eq!(bucket.take(at(0), usize::MAX), Ok(()));
        assert!(bucket.take(at(u64::MAX / 2_000_000), 1).is_err());
        let mut bucket = Bucket::new(at(0), 1_000);
        bucket.set_rate(at(0), 10);
        assert!(bucket.is_full(at(0)) && bucket.take(at(0), 10).is_ok() && bucket.take(at(0), 1).is_err());
        assert!(!bucket.is_full(at(500)) && bucket.is_full(at(1_001)));
    }
}
