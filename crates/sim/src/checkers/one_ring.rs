//! W5: once the network is whole and quiet, all that live are in one regular view of exactly those that live.
use super::process_views::{Stands, names};
use super::{Checker, PromiseRule, Verdict};
use crate::message::ProcessIncarnation;
use crate::trace::{Occurrence, TraceEvent};

/// See the module. How long that may take is decided by whoever runs the run.
#[derive(Debug, Default)]
pub(super) struct OneRing {
    stands: Stands,
    calm: bool,
}

impl Checker for OneRing {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "W5", name: "one ring of all that live" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        self.calm |= event.what == Occurrence::Calm;
        self.stands.see(event);
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        if !self.calm {
            return Ok(());
        }
        let mut incarnations: Vec<ProcessIncarnation> =
            self.stands.live().map(|(process, _)| process.incarnation()).collect();
        incarnations.dedup();
        let first = self.stands.live().find_map(|(_, stand)| stand.regular.clone());
        for (process, stand) in self.stands.live() {
            let Some(view) = stand.regular.as_ref().filter(|_| stand.closing.is_none()) else {
                return Err(format!("{process} is between views"));
            };
            if view.members != incarnations {
                return Err(format!(
                    "{process} is in a view of {}, but {} live",
                    names(&view.members),
                    names(&incarnations)
                ));
            }
            if let Some(first) = first.as_ref().filter(|first| first.id != view.id) {
                return Err(format!("{process} is in view {}, others in {}", view.id, first.id));
            }
        }
        Ok(())
    }
}
