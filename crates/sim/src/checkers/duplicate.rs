//! ND (part of D1): no duplicate. No process is given the same message twice.
use super::{Checker, PromiseRule, Verdict};
use crate::trace::{Occurrence, PerMessage, PerProcess, TraceEvent};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Duplicate {
    delivered: PerProcess<PerMessage<bool>>,
}

impl Checker for Duplicate {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "ND", name: "no duplicate" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let Occurrence::Deliver(delivered) = &event.what else { return Ok(()) };
        let Some(mark) = delivered.mark else { return Ok(()) };
        let before = self.delivered.of(event.process).of(mark);
        if std::mem::replace(before, true) { Err(format!("{mark} was delivered before")) } else { Ok(()) }
    }
}
