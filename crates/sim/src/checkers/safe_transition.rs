//! SF3: while a view is closed, safe means delivered by those that move along. What one process delivers as safe in a
//! transitional view, every member of that view that goes on from the regular one delivers too.
use super::process_views::Stands;
use super::safe::Promises;
use super::{Checker, PromiseRule, Verdict};
use crate::message::{Mark, Process, ProcessIncarnation};
use crate::trace::{Occurrence, PerProcess, TraceEvent};
use consort_types::Service;
use std::rc::Rc;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SafeTransition {
    stands: Stands,
    together: PerProcess<Rc<Vec<ProcessIncarnation>>>,
    promises: Promises,
}

impl Checker for SafeTransition {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "SF3", name: "safe in transition is delivered by all that move along" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let process = event.process;
        match (&event.what, self.stands.see(event)) {
            (Occurrence::View(_), Some(change)) => match change.from {
                Some(from) if !change.partial => self.promises.goes_on(process, from.id),
                _ => Ok(()),
            },
            (Occurrence::View(view), None) => {
                *self.together.of(process) = Rc::new(view.members.clone());
                Ok(())
            }
            (Occurrence::Deliver(delivered), _) if delivered.service == Service::Safe => {
                delivered.mark.map_or(Ok(()), |mark| self.on_safe(process, mark))
            }
            _ => Ok(()),
        }
    }
}

impl SafeTransition {
    fn on_safe(&mut self, process: Process, mark: Mark) -> Verdict {
        self.promises.got(process, mark);
        match self.stands.id(process).filter(|_| self.stands.is_closing(process)) {
            Some(view) => self.promises.promise(view, mark, process, self.together.of(process)),
            None => Ok(()),
        }
    }
}
