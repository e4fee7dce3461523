//! W1: views alternate. A process's trace begins with the regular view of itself alone (or, if it comes late, with the one
//! its node is in); then comes exactly one transitional view between any two regular ones, and it closes the one before
//! it. No message comes before the first view, and nothing at all after a crash or good-bye.
use super::process_views::{Stands, names};
use super::{Checker, PromiseRule, Verdict};
use crate::message::Process;
use crate::trace::{InstallRecord, Occurrence, TraceEvent};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Alternate {
    stands: Stands,
}

impl Checker for Alternate {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "W1", name: "views alternate" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let over = self.stands.get(event.process).is_some_and(|stand| stand.over);
        let verdict = match &event.what {
            Occurrence::View(_) | Occurrence::Deliver(_) | Occurrence::Submit(_) | Occurrence::Primary(_) if over => {
                Err("something happens after the process's end".into())
            }
            Occurrence::View(view) => self.on_view(event.process, view),
            Occurrence::Deliver(_) if self.stands.id(event.process).is_none() => {
                Err("a message is delivered before any view".into())
            }
            _ => Ok(()),
        };
        self.stands.see(event);
        verdict
    }
}

impl Alternate {
    fn on_view(&self, process: Process, view: &InstallRecord) -> Verdict {
        let Some(stand) = self.stands.get(process) else { return Err("it never started".into()) };
        match (stand.id(), stand.closing.is_some()) {
            (None, _) if stand.late => Ok(()),
            (None, _) if !view.transitional && view.members == [process.incarnation()] => Ok(()),
            (None, _) => Err(format!("its first view is {} of {}, not of itself alone", view.id, names(&view.members))),
            (Some(last), false) if view.transitional && view.id == last => Ok(()),
            (Some(last), false) if view.transitional => {
                Err(format!("a transitional view closes {}, but it is in {last}", view.id))
            }
            (Some(last), false) => Err(format!("view {} replaces {last} without a transitional view", view.id)),
            (Some(_), true) if !view.transitional => Ok(()),
            (Some(last), true) => Err(format!("a second transitional view closes {last}")),
        }
    }
}
