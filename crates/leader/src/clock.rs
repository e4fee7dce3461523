//! The clock of leases: it runs on while the machine sleeps.
use consort_types::Instant;
use rustix::time::{ClockId, clock_gettime};

/// The time since the machine started, its sleep included.
pub(crate) fn now() -> Instant {
    //= L01
    let read = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(read.tv_sec).unwrap_or(0), u64::try_from(read.tv_nsec).unwrap_or(0));
    Instant(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}
