//! Something that is polled by several tasks at a time, each of which may take a step for all.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// What can be shared.
pub(crate) trait Steps {
    /// How often it took a step: a change means that whoever waits may go on.
    fn steps(&self) -> u64;
}

#[derive(Debug)]
pub(crate) struct SharedPoll<T> {
    state: Mutex<T>,
    waiting: Arc<Waiting>,
}

/// Who waits. All are woken by whatever one of them waits for: the one whose step it is takes it.
#[derive(Debug, Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Waiting {
    fn add(&self, waker: &Waker) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.iter().any(|other| other.will_wake(waker)) {
            all.push(waker.clone());
        }
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().for_each(Waker::wake);
    }
}

impl<T: Steps> SharedPoll<T> {
    pub(crate) fn new(state: T) -> Self {
        Self { state: Mutex::new(state), waiting: Arc::default() }
    }

    /// The same by itself, if nobody else has it.
    pub(crate) fn unshared(this: Arc<Self>) -> Result<T, Arc<Self>> {
        Arc::try_unwrap(this).map(|shared| shared.state.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what waits for nothing. Whoever waits is woken if that took a step.
    pub(crate) fn act<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let mut state = self.lock();
        let before = state.steps();
        let done = act(&mut state);
        if state.steps() != before {
            self.waiting.wake_by_ref();
        }
        done
    }

    /// Polls it. Whoever waits is woken if that took a step, this one included: its own waker may stand for several.
    pub(crate) fn poll<R>(
        &self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut T, &mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        // Before it is polled: what it waits for may come at once, on another thread.
        self.waiting.add(cx.waker());
        let waker = Waker::from(Arc::clone(&self.waiting));
        self.act(|state| poll(state, &mut Context::from_waker(&waker)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Counted {
        value: u64,
        waker: Option<Waker>,
    }

    impl Steps for Counted {
        fn steps(&self) -> u64 {
            self.value
        }
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn wait(counted: &mut Counted, cx: &mut Context<'_>) -> Poll<()> {
        counted.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    #[test]
    fn all_who_wait_are_woken_by_a_step_of_one_and_by_what_it_waits_for() {
        let shared = SharedPoll::new(Counted::default());
        let woken = [Arc::new(Woken::default()), Arc::new(Woken::default())];
        let wakers = woken.each_ref().map(|woken| Waker::from(Arc::clone(woken)));
        let [mut one, mut two] = wakers.each_ref().map(Context::from_waker);
        let counts = || woken.each_ref().map(|woken| woken.0.load(Ordering::SeqCst));
        for _ in 0..3 {
            assert!(shared.poll(&mut one, wait).is_pending() && shared.poll(&mut two, wait).is_pending());
        }
        assert_eq!(counts(), [0, 0], "nothing happened");
        let waker = shared.lock().waker.take().unwrap();
        waker.wake();
        assert_eq!(counts(), [1, 1], "the latest waits for both");
        assert!(shared.poll(&mut one, wait).is_pending());
        let step = |counted: &mut Counted, _: &mut Context<'_>| {
            counted.value += 1;
            Poll::Ready(counted.value)
        };
        assert_eq!(shared.poll(&mut two, step), Poll::Ready(1));
        assert_eq!(counts(), [2, 2]);
    }
}
