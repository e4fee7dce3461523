//! SF1: safe means delivered. What one process delivers as safe in a regular view, every member of that view that goes on
//! from it delivers too, in it or while it closes it.
use super::process_views::Stands;
use super::safe::Promises;
use super::{Checker, PromiseRule, Verdict};
use crate::message::{Mark, Process, ProcessIncarnation};
use crate::trace::{Occurrence, PerProcess, TraceEvent};
use consort_types::Service;
use std::rc::Rc;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SafeDelivery {
    stands: Stands,
    members: PerProcess<Rc<Vec<ProcessIncarnation>>>,
    promises: Promises,
    calm: bool,
}

impl Checker for SafeDelivery {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "SF1", name: "safe is delivered by all" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let process = event.process;
        match (&event.what, self.stands.see(event)) {
            (Occurrence::Calm, _) => self.calm = true,
            (Occurrence::View(view), Some(change)) => {
                *self.members.of(process) = Rc::new(view.members.clone());
                if let Some(from) = change.from.filter(|_| !change.partial) {
                    return self.promises.goes_on(process, from.id);
                }
            }
            (Occurrence::Deliver(delivered), _) if delivered.service == Service::Safe => {
                return delivered.mark.map_or(Ok(()), |mark| self.on_safe(process, mark));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        let rest = self.stands.live().filter(|(_, stand)| self.calm && !stand.partial);
        let mut rest = rest.filter_map(|(process, stand)| Some((process, stand.regular.as_ref()?.id)));
        rest.try_for_each(|(process, view)| self.promises.rests(process, view))
    }
}

impl SafeDelivery {
    fn on_safe(&mut self, process: Process, mark: Mark) -> Verdict {
        self.promises.got(process, mark);
        match self.stands.id(process).filter(|_| !self.stands.is_closing(process)) {
            Some(view) => self.promises.promise(view, mark, process, self.members.of(process)),
            None => Ok(()),
        }
    }
}
