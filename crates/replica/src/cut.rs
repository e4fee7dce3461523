//! Looking at the machines of several groups at one place of the order.
//!
//! A cut is one message to all the groups, so that it has one place in the order of each. Whoever looks is entered at
//! each replica before it is sent. A replica that is up to date misses no place; where it is not, the cut fails and is
//! asked for again. It is never sent a second time: the second place would be another.
use crate::machine::StateMachine;
use crate::options::Error;
use crate::pending::{Answer, Pending, pending};
use crate::shared::{CutId, Look, Shared};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// What was seen of several machines at one place of the order, under way: wait for it in a thread, or await it in a task.
/// Dropped before, nobody looks any more.
#[derive(Debug)]
pub struct Cut<M: StateMachine, T> {
    pending: Pending<Vec<T>>,
    entries: Entries<M>,
}

/// Where somebody is entered to look; taken away when this is dropped.
pub(crate) struct Entries<M> {
    shared: Vec<Arc<Shared<M>>>,
    id: CutId,
}

impl<M> std::fmt::Debug for Entries<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entries").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What was seen so far.
struct Seen<T> {
    parts: Vec<Option<T>>,
    answer: Option<Answer<Vec<T>>>,
}

impl<T> Seen<T> {
    fn take(&mut self, which: usize, part: Result<T, Error>) {
        match part {
            Ok(part) => {
                if let Some(seen) = self.parts.get_mut(which) {
                    *seen = Some(part);
                }
            }
            Err(error) => return self.give(|_| Err(error)),
        }
        if self.parts.iter().all(Option::is_some) {
            self.give(|parts| Ok(parts.drain(..).flatten().collect()));
        }
    }

    fn give(&mut self, answer: impl FnOnce(&mut Vec<Option<T>>) -> Result<Vec<T>, Error>) {
        if let Some(asked) = self.answer.take() {
            asked.give(answer(&mut self.parts));
        }
    }
}

impl<M: StateMachine> Entries<M> {
    /// Enters a look at each of these; true if all will come by.
    pub fn enter<T: Send + 'static>(
        shared: Vec<Arc<Shared<M>>>,
        id: CutId,
        look: impl Fn(usize, &M) -> T + Send + Sync + 'static,
    ) -> (Self, Pending<Vec<T>>, bool) {
        let (answer, pending) = pending();
        if shared.is_empty() {
            answer.give(Ok(Vec::new()));
            return (Self { shared, id }, pending, false);
        }
        let parts = shared.iter().map(|_| None).collect();
        let (seen, look) = (Arc::new(Mutex::new(Seen { parts, answer: Some(answer) })), Arc::new(look));
        let mut all_wait = true;
        for (which, shared) in shared.iter().enumerate() {
            let (seen, look) = (Arc::clone(&seen), Arc::clone(&look));
            let at_place: Look<M> = Box::new(move |machine| {
                let part = machine.map(|machine| look(which, machine));
                seen.lock().unwrap_or_else(PoisonError::into_inner).take(which, part);
            });
            all_wait &= wait(shared, id, at_place);
        }
        (Self { shared, id }, pending, all_wait)
    }
}

/// Enters a look where the replica is up to date; otherwise it fails at once.
fn wait<M>(shared: &Shared<M>, id: CutId, look: Look<M>) -> bool {
    let mut looks = shared.looks();
    if looks.current {
        looks.waiting.insert(id, look);
        return true;
    }
    drop(looks);
    let why = shared.state().waits.clone().unwrap_or_else(|| "the replica is not up to date yet".to_owned());
    look(Err(shared.state().ended.clone().unwrap_or(Error::Outside(why))));
    false
}

impl<M> Drop for Entries<M> {
    fn drop(&mut self) {
        for shared in &self.shared {
            // The look may hold the last handle of something: it goes once the lock is open.
            let gone = shared.looks().waiting.remove(&self.id);
            drop(gone);
        }
    }
}

impl<M: StateMachine, T> Cut<M, T> {
    pub(crate) const fn new(pending: Pending<Vec<T>>, entries: Entries<M>) -> Self {
        Self { pending, entries }
    }

    /// Waits for it: one for each replica, in the order in which they were given.
    ///
    /// # Errors
    /// See [`Replica::cut`](crate::Replica::cut).
    pub fn wait(self) -> Result<Vec<T>, Error> {
        let Self { pending, entries } = self;
        let seen = pending.wait();
        drop(entries);
        seen
    }
}

impl<M: StateMachine, T> Future for Cut<M, T> {
    type Output = Result<Vec<T>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.pending).poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(count: usize) -> (Seen<usize>, Pending<Vec<usize>>) {
        let (answer, pending) = pending();
        (Seen { parts: (0..count).map(|_| None).collect(), answer: Some(answer) }, pending)
    }

    #[test]
    fn it_is_answered_once_all_have_looked_in_the_order_of_the_replicas() {
        let (mut seen, pending) = seen(3);
        [2, 0, 1].into_iter().for_each(|which| seen.take(which, Ok(10 + which)));
        seen.take(1, Err(Error::Stopped));
        assert_eq!(pending.wait().unwrap(), [10, 11, 12]);
    }

    #[test]
    fn where_one_has_missed_its_place_all_of_it_fails_with_that_cause() {
        let (mut seen, pending) = seen(2);
        seen.take(0, Ok(1));
        seen.take(1, Err(Error::Outside("away".into())));
        seen.take(1, Err(Error::Stopped));
        let error = pending.wait().unwrap_err();
        assert!(matches!(&error, Error::Outside(why) if why == "away"), "{error}");
    }
}
