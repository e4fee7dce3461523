//! Between the handles of a replica and its thread.
use crate::line::Origin;
use crate::machine::Position;
use crate::options::{Error, Response};
use crate::pending::Answer;
use bytes::Bytes;
use consort::GroupName;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// What is asked of the thread that runs a replica.
pub(crate) enum Request {
    Call(Bytes, Answer<Response>),
    /// Answered once the machine has all that was answered before.
    Mark(Answer<()>),
    /// To these groups, of which the own is one.
    Cut(CutId, Vec<GroupName>),
    Stop(Answer<()>),
}

impl Request {
    /// Answers that it is not carried out, and why.
    pub fn refuse<M>(self, shared: &Shared<M>, why: Error) {
        match self {
            Self::Call(_, answer) => answer.give(Err(why)),
            Self::Mark(answer) | Self::Stop(answer) => answer.give(Err(why)),
            Self::Cut(id, _) => shared.miss(id, why),
        }
    }
}

/// What it tells all handles.
#[derive(Debug)]
pub(crate) struct Shared<M> {
    pub machine: RwLock<M>,
    pub state: Mutex<State>,
    pub wake: OwnedFd,
    pub group: GroupName,
    pub origin: Origin,
    /// How many cuts were begun here.
    pub cuts: AtomicU64,
    pub looks: Mutex<Looks<M>>,
    /// It is asked to stop: what waits behind commands that are under way waits no more.
    pub stops: AtomicBool,
    /// Bytes of checkpoints that were written.
    pub written: AtomicU64,
}

/// Names a place in the order where machines are looked at: who asked, and its how manieth question.
pub(crate) type CutId = (Origin, u64);

/// What looks at a machine; with an error where the place was missed.
pub(crate) type Look<M> = Box<dyn FnOnce(Result<&M, Error>) + Send>;

/// Who looks at this machine, and where.
pub(crate) struct Looks<M> {
    /// While it is up to date no place is missed.
    pub current: bool,
    pub waiting: BTreeMap<CutId, Look<M>>,
}

impl<M> Default for Looks<M> {
    fn default() -> Self {
        Self { current: false, waiting: BTreeMap::new() }
    }
}

impl<M> std::fmt::Debug for Looks<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Looks").field("current", &self.current).field("waiting", &self.waiting.len()).finish()
    }
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub position: Position,
    /// Why it is not up to date, or orders nothing.
    pub waits: Option<String>,
    pub ended: Option<Error>,
    /// The thread is done, its last checkpoint included.
    pub finished: bool,
    /// Those that asked it to stop after something else had ended it; answered once it is done.
    pub stopping: Vec<Answer<()>>,
}

impl<M> Shared<M> {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn looks(&self) -> MutexGuard<'_, Looks<M>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The machine stands at a place: whoever waits for it looks.
    pub fn pass(&self, id: CutId) {
        let look = self.looks().waiting.remove(&id);
        if let Some(look) = look {
            look(Ok(&self.machine.read().unwrap_or_else(PoisonError::into_inner)));
        }
    }

    /// The place is missed here, or nowhere in the order.
    pub fn miss(&self, id: CutId, why: Error) {
        let look = self.looks().waiting.remove(&id);
        look.into_iter().for_each(|look| look(Err(why.clone())));
    }

    /// It is up to date from here, or misses all that is waited for.
    pub fn told_current(&self, current: bool, why: &Error) {
        let mut looks = self.looks();
        looks.current = current;
        let missed = if current { BTreeMap::new() } else { std::mem::take(&mut looks.waiting) };
        drop(looks);
        missed.into_values().for_each(|look| look(Err(why.clone())));
    }

    /// The thread is done.
    pub fn finish(&self, ended: &Error) {
        let mut state = self.state();
        state.finished = true;
        let stopping = std::mem::take(&mut state.stopping);
        drop(state);
        stopping.into_iter().for_each(|answer| answer.give(Err(ended.clone())));
    }

    /// The replica has ended: whatever was asked, or waits, learns why.
    pub fn end(&self, requests: &Receiver<Request>, why: &Error) {
        let mut state = self.state();
        (state.ended, state.waits) = (Some(why.clone()), Some(why.to_string()));
        drop(state);
        requests.try_iter().for_each(|request| match request {
            Request::Stop(answer) => self.state().stopping.push(answer),
            request => request.refuse(self, why.clone()),
        });
        self.told_current(false, why);
    }

    /// Has the replica's thread look.
    pub fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}
