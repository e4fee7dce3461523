//! The scheduling class of the loop's thread.
use crate::sys;
use crate::{IdleProfile, RunError, Scheduling};

/// Takes the class that was asked for; returns what `status` tells of it.
pub(super) fn take(wanted: Scheduling, idling: IdleProfile) -> Result<&'static str, RunError> {
    match (wanted, idling) {
        (Scheduling::Normal, _) => Ok("normal"),
        // Who yields in real time starves all others, and is stopped by the kernel for it.
        (Scheduling::Auto, IdleProfile::Latency) => Ok("normal: idling `latency` yields"),
        (Scheduling::RealTime, _) => sys::run_in_real_time().map_err(RunError::RealTime).map(|()| real_time()),
        (Scheduling::Auto, _) => match sys::run_in_real_time() {
            Ok(()) => Ok(real_time()),
            Err(error) => {
                tracing::info!(%error, "real time is not permitted: scheduling is normal");
                Ok("normal: real time is not permitted")
            }
        },
    }
}

fn real_time() -> &'static str {
    tracing::info!("runs in real time (SCHED_RR 1)");
    "real time"
}
