//! Waits that release the interpreter, and end where Ctrl-C is pressed; and threads that must not wait for each other.
use crate::failure::Failure;
use consort::Origin;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// How long Ctrl-C may have to wait.
const SLICE: Duration = Duration::from_millis(100);

/// How long a call may wait: seconds, or as long as it takes.
pub(crate) fn span(seconds: Option<f64>) -> Result<Option<Duration>, Failure> {
    let Some(seconds) = seconds else { return Ok(None) };
    // A longer time than can be told is as good as none.
    if seconds >= 1e12 {
        return Ok(None);
    }
    let told = Duration::try_from_secs_f64(seconds);
    told.map(Some)
        .map_err(|_| Failure::invalid(format!("{seconds} is no time to wait; give seconds from 0 on, or None")))
}

/// Tries for as long as it may; each try is told how long it may take. Nothing, where none came to anything.
pub(crate) fn in_slices<T: Send>(
    py: Python<'_>,
    within: Option<Duration>,
    mut attempt: impl FnMut(Duration) -> Result<Option<T>, Failure> + Send,
) -> PyResult<Option<T>> {
    let deadline = within.and_then(|within| Instant::now().checked_add(within));
    loop {
        let left = deadline.map_or(SLICE, |deadline| deadline.saturating_duration_since(Instant::now()));
        if let Some(done) = py.detach(|| attempt(left.min(SLICE)))? {
            return Ok(Some(done));
        }
        py.check_signals()?;
        if left.is_zero() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(None);
        }
    }
}

/// A try that was late comes to nothing; why it was late is kept.
pub(crate) fn unless_late<T>(tried: Result<T, Failure>, late: &mut Option<Failure>) -> Result<Option<T>, Failure> {
    match tried {
        Err(failure) if failure.is_late() => {
            *late = Some(failure);
            Ok(None)
        }
        other => other.map(Some),
    }
}

pub(crate) fn still_late(late: Option<Failure>) -> PyErr {
    late.unwrap_or_else(|| Failure::new("TimedOut", "the time allowed was not enough")).into()
}

/// What serves one thread at a time, of the process that made it.
pub(crate) struct Owned<S> {
    origin: Origin,
    state: Arc<Mutex<S>>,
}

impl<S> Owned<S> {
    pub(crate) fn new(state: S) -> Self {
        Self { origin: Origin::here(), state: Arc::new(Mutex::new(state)) }
    }

    /// Fails in a child of `fork()`.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        Ok(self.origin.check()?)
    }

    /// Does something with it; another thread is told the remedy, and so is another process.
    pub(crate) fn exclusively<T>(
        &self,
        remedy: &str,
        act: impl FnOnce(&mut S) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.check()?;
        match self.state.try_lock() {
            Ok(mut state) => act(&mut state),
            Err(TryLockError::WouldBlock) => Err(Failure::new("Busy", remedy)),
            Err(TryLockError::Poisoned(_)) => {
                Err(Failure::new("Error", "a fault of this library broke this client; connect anew"))
            }
        }
    }
}

/// A child of `fork()` leaves alone what a thread of its parent was changing: it may be half changed, and no thread of the
/// child will end that.
impl<S> Drop for Owned<S> {
    fn drop(&mut self) {
        if self.check().is_err() && matches!(self.state.try_lock(), Err(TryLockError::WouldBlock)) {
            std::mem::forget(Arc::clone(&self.state));
        }
    }
}
