//! A timer that the event queue can wait for, finer than the milliseconds of its own timeout.
use super::checked;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A `timerfd`: readable once its time has come.
#[derive(Debug)]
pub(crate) struct TimerFd(OwnedFd);

impl TimerFd {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let fd =
            checked(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) })?;
        // SAFETY: the kernel has just given us this descriptor; nobody else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Goes off once, that long from now; also clears an earlier expiry.
    pub(crate) fn set(&self, after: Duration) -> io::Result<()> {
        let after = after.max(Duration::from_nanos(1)); // zero would mean never
        let value = libc::timespec {
            tv_sec: libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(after.subsec_nanos() as i32),
        };
        let once = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // SAFETY: `once` lives through the call; the old value is not asked for.
        checked(unsafe { libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const once, std::ptr::null_mut()) })
            .map(drop)
    }
}

impl AsRawFd for TimerFd {
    fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }
}
