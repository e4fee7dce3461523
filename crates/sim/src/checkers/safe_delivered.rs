//! SF1: safe means delivered. What one process delivers as safe in a regular view, every member of that view that stays
//! delivers too.
use super::{Checker, Rule, Verdict};
use crate::message::Process;
use crate::trace::{Event, PerMessage, PerProcess, What};
use consort_types::Service;
use std::rc::Rc;

#[derive(Clone, Debug, Default)]
struct Safe {
    owed_by: Option<Rc<Vec<Process>>>,
    delivered_by: Vec<Process>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SafeDelivered {
    members: PerProcess<Option<Rc<Vec<Process>>>>,
    safe: PerMessage<Safe>,
}

impl Checker for SafeDelivered {
    fn rule(&self) -> Rule {
        Rule { id: "SF1", name: "safe is delivered by all" }
    }

    fn see(&mut self, event: &Event) -> Verdict {
        match &event.what {
            What::View(view) => {
                *self.members.of(event.process) = (!view.transitional).then(|| Rc::new(view.members.clone()));
            }
            What::Deliver(delivered) if delivered.service == Service::Safe => {
                let Some(mark) = delivered.mark else { return Ok(()) };
                let safe = self.safe.of(mark);
                if safe.owed_by.is_none() {
                    safe.owed_by = self.members.of(event.process).clone();
                }
                safe.delivered_by.push(event.process);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        for (mark, safe) in self.safe.iter() {
            let owed = safe.owed_by.iter().flat_map(|members| members.iter());
            if let Some(missing) = owed.into_iter().find(|member| !safe.delivered_by.contains(member)) {
                let by = safe.delivered_by[0];
                return Err(format!("{mark} was delivered as safe by {by}, but never by {missing}"));
            }
        }
        Ok(())
    }
}
