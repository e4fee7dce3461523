//! FIFO: a sender's messages are delivered in the order in which it submitted them, and within a view none of them is
//! left out.
use super::{Checker, Rule, Verdict};
use crate::trace::{Event, PerProcess, What};

/// The number of each origin's last message, and in which of the process's views it was delivered. What follows in the
/// closing of a view belongs to it.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    last: PerProcess<PerProcess<(u64, u64)>>,
    views: PerProcess<u64>,
}

impl Checker for Fifo {
    fn rule(&self) -> Rule {
        Rule { id: "FIFO", name: "sender order" }
    }

    fn see(&mut self, event: &Event) -> Verdict {
        match &event.what {
            What::View(view) => *self.views.of(event.process) += u64::from(!view.transitional),
            What::Deliver(delivered) => {
                let Some(mark) = delivered.mark else { return Ok(()) };
                let view = *self.views.of(event.process);
                let (last, in_view) =
                    std::mem::replace(self.last.of(event.process).of(mark.origin), (mark.count, view));
                if mark.count <= last {
                    return Err(format!("{mark} after the same sender's message {last}"));
                }
                if last > 0 && in_view == view && mark.count != last + 1 {
                    return Err(format!("{mark} although the same sender's message {} is missing", last + 1));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
