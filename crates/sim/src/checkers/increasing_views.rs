//! W3: views are numbered upwards. Each regular view of a process has a larger number than the one before, so that none is
//! ever installed twice.
use super::{Checker, PromiseRule, Verdict};
use crate::trace::{Occurrence, PerProcess, TraceEvent};
use consort_types::ViewId;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    last: PerProcess<Option<ViewId>>,
}

impl Checker for Numbers {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "W3", name: "views are numbered upwards" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let Occurrence::View(view) = &event.what else { return Ok(()) };
        if view.transitional {
            return Ok(());
        }
        match self.last.of(event.process).replace(view.id) {
            Some(last) if last.number >= view.id.number => Err(format!("view {} after view {last}", view.id)),
            _ => Ok(()),
        }
    }
}
