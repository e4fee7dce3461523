//! What the two halves of a client know together.
use crate::stream::until;
use crate::{Error, Origin, ReadFrom, WaitCause};
use consort_session::client::unknown_fate;
use consort_session::{Disconnect, Progress, WaitNotice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(crate) struct SessionState {
    origin: Origin,
    sent: AtomicU64,
    known: Mutex<Known>,
    changed: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) progress: Progress,
    /// What the daemon said last that sends wait for.
    waiting: Option<WaitNotice>,
    ended: Option<SessionEnd>,
    nobody_receives: bool,
    /// Where the last reading was asked to begin.
    reads: Option<ReadFrom>,
}

impl Known {
    fn cause(&self) -> Option<WaitCause> {
        // Once all of them are ordered it is over.
        let holds = self.waiting.filter(|waiting| self.progress.ordered < waiting.up_to);
        holds.map(|waiting| waiting.cause.into())
    }
}

/// How a session came to its end.
#[derive(Clone, Debug)]
pub(crate) enum SessionEnd {
    Farewell(Disconnect),
    Lost(String),
}

impl SessionState {
    /// Fails in a child of `fork()`. It looks at nothing that a thread of the parent may have locked.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.origin.check()
    }

    /// All sends up to this number were made.
    pub(crate) fn has_sent(&self, number: u64) {
        self.sent.store(number, Ordering::Relaxed);
    }

    pub(crate) fn progress(&self) -> Progress {
        self.known().progress
    }

    pub(crate) fn has_progressed(&self, progress: Progress) {
        self.known().progress = progress;
        self.changed.notify_all();
    }

    /// The daemon says what sends wait for.
    pub(crate) fn has_to_wait(&self, waiting: WaitNotice) {
        self.known().waiting = Some(waiting);
    }

    /// A reading was asked for, by whichever half.
    pub(crate) fn asked_to_read(&self, from: &ReadFrom) {
        self.known().reads = Some(from.clone());
    }

    /// Where the last reading was asked to begin.
    pub(crate) fn reads(&self) -> Option<ReadFrom> {
        self.known().reads.clone()
    }

    /// What sends under way wait for, as far as the daemon said.
    pub(crate) fn cause(&self) -> Option<WaitCause> {
        self.known().cause()
    }

    /// The error for whoever waited for as long as it may.
    pub(crate) fn timed_out(&self) -> Error {
        Error::TimedOut { cause: self.cause() }
    }

    /// The session is over, as the receiver sees: it has read all that came before. Returns the error to be told.
    pub(crate) fn end(&self, end: SessionEnd) -> Error {
        if let Err(forked) = self.check() {
            return forked;
        }
        let mut known = self.known();
        let end = known.ended.get_or_insert(end).clone();
        self.changed.notify_all();
        self.error(end, known.progress)
    }

    /// The error to be told, if the session is over.
    pub(crate) fn ended(&self) -> Option<Error> {
        if let Err(forked) = self.check() {
            return Some(forked);
        }
        let known = self.known();
        known.ended.clone().map(|end| self.error(end, known.progress))
    }

    /// The error for a send that the connection did not take. What the daemon said before is still to be received.
    pub(crate) fn lost(&self, why: &std::io::Error) -> Error {
        let known = self.known();
        let end = known.ended.clone().unwrap_or(SessionEnd::Lost(why.to_string()));
        self.error(end, known.progress)
    }

    pub(crate) fn receiver_is_gone(&self) {
        if self.check().is_err() {
            return;
        }
        self.known().nobody_receives = true;
        self.changed.notify_all();
    }

    /// Waits until `enough` of what is known.
    pub(crate) fn wait(&self, within: Option<Duration>, enough: impl Fn(Progress) -> bool) -> Result<Progress, Error> {
        let deadline = until(within);
        let mut known = self.known();
        loop {
            if enough(known.progress) {
                return Ok(known.progress);
            }
            if let Some(end) = known.ended.clone() {
                return Err(self.error(end, known.progress));
            }
            if known.nobody_receives {
                return Err(Error::NobodyReceives);
            }
            known = self.wait_once(known, deadline)?;
        }
    }

    fn wait_once<'a>(
        &self,
        known: MutexGuard<'a, Known>,
        deadline: Option<Instant>,
    ) -> Result<MutexGuard<'a, Known>, Error> {
        let Some(deadline) = deadline else {
            return Ok(self.changed.wait(known).unwrap_or_else(PoisonError::into_inner));
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::TimedOut { cause: known.cause() });
        }
        Ok(self.changed.wait_timeout(known, left).unwrap_or_else(PoisonError::into_inner).0)
    }

    fn error(&self, end: SessionEnd, progress: Progress) -> Error {
        let unknown_fate = unknown_fate(self.sent.load(Ordering::Relaxed), progress);
        match end {
            SessionEnd::Farewell(farewell) => Error::Disconnected { farewell, unknown_fate },
            SessionEnd::Lost(why) => Error::ConnectionLost { why, unknown_fate },
        }
    }

    /// What is known stays true though a thread panicked while it looked.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
