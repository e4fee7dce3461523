//! FIFO: a sender's messages are delivered in the order in which it submitted them, and within a view none of them is
//! left out.
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::trace::{Occurrence, PerProcess, TraceEvent};

/// The number of each origin's last message, and in which of the process's views it was delivered. What follows in the
/// closing of a view belongs to it.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    last: PerProcess<PerProcess<(u64, u64)>>,
    /// The same of messages that are delivered before the one order. Which of the two misses one cannot be told.
    early: PerProcess<PerProcess<(u64, u64)>>,
    views: PerProcess<u64>,
    promised: PromisedOrder,
}

impl Fifo {
    /// Judges each sender's messages in the one order, and those before it, by themselves.
    pub(super) fn new(promised: PromisedOrder) -> Self {
        Self { promised, ..Self::default() }
    }
}

impl Checker for Fifo {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "FIFO", name: "sender order" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match &event.what {
            Occurrence::View(view) => *self.views.of(event.process) += u64::from(!view.transitional),
            Occurrence::Deliver(delivered) => {
                let Some(mark) = delivered.mark else { return Ok(()) };
                let view = *self.views.of(event.process);
                let track = if self.promised.is_ordered(delivered) { &mut self.last } else { &mut self.early };
                let (last, in_view) = std::mem::replace(track.of(event.process).of(mark.origin), (mark.count, view));
                if mark.count <= last {
                    return Err(format!("{mark} after the same sender's message {last}"));
                }
                if !self.promised.early && last > 0 && in_view == view && mark.count != last + 1 {
                    return Err(format!("{mark} although the same sender's message {} is missing", last + 1));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
