//! Between the handles of a replica and its thread.
use crate::machine::Position;
use crate::options::{Error, Response};
use crate::pending::Answer;
use bytes::Bytes;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// What is asked of the thread that runs a replica.
pub(crate) enum Request {
    Call(Bytes, Answer<Response>),
    /// Answered once the machine has all that was answered before.
    Mark(Answer<()>),
    Stop(Answer<()>),
}

/// What it tells all handles.
#[derive(Debug)]
pub(crate) struct Shared<M> {
    pub machine: RwLock<M>,
    pub state: Mutex<State>,
    pub wake: OwnedFd,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub position: Position,
    /// Why it is not up to date, or orders nothing.
    pub waits: Option<String>,
    pub ended: Option<Error>,
}

impl<M> Shared<M> {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the replica's thread look.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}
