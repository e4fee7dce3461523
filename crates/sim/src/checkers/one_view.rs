//! D2: a message belongs to one view. All that deliver it do so in the same regular view or while they close it, and its
//! sender is a member of that view.
use super::process_views::Stands;
use super::{Checker, PromiseRule, Verdict};
use crate::message::{Mark, Process};
use crate::trace::{Occurrence, PerMessage, TraceEvent};
use consort_types::ViewId;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct OneView {
    stands: Stands,
    view_of: PerMessage<Option<ViewId>>,
}

impl Checker for OneView {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "D2", name: "a message belongs to one view" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        self.stands.see(event);
        match &event.what {
            Occurrence::Deliver(delivered) => {
                delivered.mark.map_or(Ok(()), |mark| self.on_deliver(event.process, mark))
            }
            _ => Ok(()),
        }
    }
}

impl OneView {
    fn on_deliver(&mut self, process: Process, mark: Mark) -> Verdict {
        let Some(stand) = self.stands.get(process) else { return Ok(()) };
        let Some(here) = stand.id() else { return Ok(()) };
        if let Some(view) = stand.regular.as_ref().filter(|view| !view.members.contains(&mark.origin.incarnation())) {
            return Err(format!("{mark} is delivered in view {}, of which its sender is no member", view.id));
        }
        match self.view_of.of(mark).replace(here) {
            Some(there) if there != here => Err(format!("{mark} is delivered in view {here}, elsewhere in {there}")),
            _ => Ok(()),
        }
    }
}
