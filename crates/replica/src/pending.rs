//! An answer that comes later, to a thread or a task.
use crate::options::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// An answer under way: wait for it in a thread, or await it in a task.
#[derive(Debug)]
pub struct Pending<T>(Arc<Shared<T>>);

/// Where the answer is put. Dropped without one it is [`Error::Stopped`].
#[derive(Debug)]
pub(crate) struct Answer<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    slot: Mutex<Slot<T>>,
    filled: Condvar,
}

#[derive(Debug)]
struct Slot<T> {
    answer: Option<Result<T, Error>>,
    waker: Option<Waker>,
}

pub(crate) fn pending<T>() -> (Answer<T>, Pending<T>) {
    let slot = Mutex::new(Slot { answer: None, waker: None });
    let shared = Arc::new(Shared { slot, filled: Condvar::new() });
    (Answer(Arc::clone(&shared)), Pending(shared))
}

impl<T> Shared<T> {
    fn slot(&self) -> MutexGuard<'_, Slot<T>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, answer: Result<T, Error>) {
        let mut slot = self.slot();
        if slot.answer.is_none() {
            slot.answer = Some(answer);
            slot.waker.take().into_iter().for_each(Waker::wake);
            self.filled.notify_all();
        }
    }
}

impl<T> Answer<T> {
    pub fn give(self, answer: Result<T, Error>) {
        self.0.fill(answer);
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        self.0.fill(Err(Error::Stopped));
    }
}

impl<T> Pending<T> {
    /// Waits for it.
    ///
    /// # Errors
    /// What became of the call instead.
    pub fn wait(self) -> Result<T, Error> {
        let mut slot = self.0.slot();
        loop {
            match slot.answer.take() {
                Some(answer) => return answer,
                None => slot = self.0.filled.wait(slot).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.slot();
        match slot.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
