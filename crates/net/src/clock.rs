//! The loop's clock, and how the kernel's stamps are read on it.
use consort_types::Instant;
use std::time::{Duration, SystemTime};

/// Counts from when the loop began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    zero: std::time::Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { zero: std::time::Instant::now() }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant(u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Where the time of day stands on the loop's clock, at one moment. Taken anew for each batch, because the time of day
/// may be set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping {
    now: Instant,
    day: Duration,
}

impl Mapping {
    pub(crate) fn at(now: Instant) -> Self {
        Self::new(now, SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
    }

    const fn new(now: Instant, day: Duration) -> Self {
        Self { now, day }
    }

    /// When something happened that the kernel stamped with a time of day. What is known bounds the answer: it is not
    /// later than now and not earlier than when its socket was last seen empty.
    pub(crate) fn arrival(&self, stamp: Option<Duration>, empty: Instant) -> Instant {
        let Some(stamp) = stamp else { return self.now };
        let age = u64::try_from(self.day.saturating_sub(stamp).as_nanos()).unwrap_or(u64::MAX);
        Instant(self.now.0.saturating_sub(age)).max(empty).min(self.now)
    }
}

/// What time it is, in seconds since 1970.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_keep_their_distance_and_a_clock_that_jumps_does_no_harm() {
        let second = Duration::from_secs(1);
        let mapping = Mapping::new(Instant(10_000), Duration::from_secs(1_000));
        let empty = Instant(4_000);
        let arrival = |stamp| mapping.arrival(Some(stamp), empty).0;
        assert_eq!(arrival(Duration::from_secs(1_000) - Duration::from_nanos(2_500)), 7_500);
        assert_eq!(arrival(Duration::from_secs(1_000) + second), 10_000);
        assert_eq!(arrival(Duration::from_secs(1_000) - second), 4_000);
        assert_eq!(mapping.arrival(None, empty), Instant(10_000));
    }
}
