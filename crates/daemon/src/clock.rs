//! The one clock that all processes of a machine share.
use rustix::time::{ClockId, clock_gettime};
use std::num::NonZeroU64;

/// Makes this thread wake up when it wanted to, not up to 50 us later: else a load generator measures its own sleep.
pub fn wake_precisely() {
    // Where the kernel does not grant it, figures are a little higher and no less true.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Nanoseconds of the system's monotonic clock: comparable between processes of one machine until it restarts.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Seconds since the machine started, and nanoseconds below a second: neither is ever negative.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}
