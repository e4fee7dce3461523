//! The scheduling class of a thread.
use super::checked;
use std::io;

/// Has the calling thread run before all of ordinary priority, in turn with others like it; what it starts is ordinary.
pub(crate) fn run_in_real_time() -> io::Result<()> {
    // SAFETY: the call has no preconditions.
    let lowest = checked(unsafe { libc::sched_get_priority_min(libc::SCHED_RR) })?;
    let wanted = libc::sched_param { sched_priority: lowest };
    // SAFETY: `wanted` lives through the call; 0 stands for the calling thread.
    checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, &raw const wanted) })
        .map(drop)
}
