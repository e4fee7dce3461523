//! A time that is waited for by polling. It stays set though whoever waits gives up.
use crate::Origin;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Instant, Sleep, sleep_until};

#[derive(Debug, Default)]
pub(crate) struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    set: bool,
    origin: Origin,
}

/// In a child of `fork()` it is left as it is: the runtime's timers may be locked by a thread that only the parent has.
impl Drop for Timer {
    fn drop(&mut self) {
        if self.origin.check().is_err() {
            std::mem::forget(self.sleep.take());
        }
    }
}

impl Timer {
    /// Waits until the time that was set, or until this one if none was. Then none is set.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, at: impl FnOnce() -> Instant) -> Poll<()> {
        let sleep = match &mut self.sleep {
            Some(sleep) if self.set => sleep,
            Some(sleep) => {
                sleep.as_mut().reset(at());
                sleep
            }
            none => none.insert(Box::pin(sleep_until(at()))),
        };
        self.set = true;
        let polled = sleep.as_mut().poll(cx);
        self.set = polled.is_pending();
        polled
    }

    /// Nothing is waited for any more.
    pub(crate) const fn clear(&mut self) {
        self.set = false;
    }
}
