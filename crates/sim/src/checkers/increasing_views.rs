//! W3: views are numbered upwards. Each regular view of a process has a larger number than the one before, so that none is
//! ever installed twice.
use super::{Checker, Rule, Verdict};
use crate::trace::{Event, PerProcess, What};
use consort_types::ViewId;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    last: PerProcess<Option<ViewId>>,
}

impl Checker for Numbers {
    fn rule(&self) -> Rule {
        Rule { id: "W3", name: "views are numbered upwards" }
    }

    fn see(&mut self, event: &Event) -> Verdict {
        let What::View(view) = &event.what else { return Ok(()) };
        if view.transitional {
            return Ok(());
        }
        match self.last.of(event.process).replace(view.id) {
            Some(last) if last.number >= view.id.number => Err(format!("view {} after view {last}", view.id)),
            _ => Ok(()),
        }
    }
}
