//! What the thread of a candidate and its program both see.
use crate::{CandidateId, Fence};
use consort_types::Instant;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the thread and the program both see.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<Seen>);

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub lease: Option<(Fence, Instant)>,
    pub leader: Option<(CandidateId, Fence)>,
    /// The program has resigned, and the thread does not know yet.
    pub resigns: bool,
}

impl Shared {
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
