//! The one clock that all processes of a machine share.
use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the system's monotonic clock: comparable between processes of one machine until it restarts.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Seconds since the machine started, and nanoseconds below a second: neither is ever negative.
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// What time it is, in seconds since 1970.
pub fn unix_seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}
