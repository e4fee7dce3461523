//! AK: what is acknowledged is delivered. When a process is told that its messages up to one stand in the order, it has
//! been given them back already: whatever becomes of its node from then on, they are not lost unnoticed.
use super::{Checker, PromiseRule, Verdict};
use crate::message::Process;
use crate::trace::{Occurrence, PerProcess, TraceEvent};

/// See the module. How far each process's own messages came back: they come in their order, which is FIFO's matter.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    back: PerProcess<u64>,
}

impl Checker for Acknowledged {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "AK", name: "acknowledged means delivered" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match &event.what {
            Occurrence::Deliver(delivered) => {
                if let Some(mark) = delivered.mark.filter(|mark| mark.origin == event.process) {
                    let back = self.back.of(event.process);
                    *back = mark.count.max(*back);
                }
                Ok(())
            }
            Occurrence::Ordered(count) => self.on_ordered(event.process, *count),
            _ => Ok(()),
        }
    }
}

impl Acknowledged {
    fn on_ordered(&self, process: Process, count: u64) -> Verdict {
        let back = self.back.get(process).copied().unwrap_or(0);
        if back >= count {
            return Ok(());
        }
        Err(format!("its messages up to {count} are called ordered, but it was given only {back} back"))
    }
}
