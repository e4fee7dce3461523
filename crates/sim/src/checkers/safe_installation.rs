//! SF2: safe means installed. When a process delivers a safe message in a regular view, every member of the view has
//! installed it, or failed since.
use super::process_views::Stands;
use super::{Checker, PromiseRule, Verdict};
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{Occurrence, TraceEvent};
use consort_types::{Service, ViewId};
use std::collections::{BTreeMap, BTreeSet};

/// See the module. Clients of a node learn of views when the node tells them: for them it is judged at the end.
#[derive(Debug, Default)]
pub(super) struct SafeInstallation {
    stands: Stands,
    installed: BTreeMap<ViewId, BTreeSet<ProcessIncarnation>>,
    safe: BTreeSet<ViewId>,
    members: BTreeMap<ViewId, Vec<ProcessIncarnation>>,
}

impl Checker for SafeInstallation {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "SF2", name: "safe means installed by all" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match (&event.what, self.stands.see(event)) {
            (Occurrence::View(view), Some(_)) => {
                self.installed.entry(view.id).or_default().insert(event.process.incarnation());
                self.members.entry(view.id).or_insert_with(|| view.members.clone());
            }
            (Occurrence::Deliver(delivered), _) if delivered.service == Service::Safe => {
                return self.on_safe(event.process);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        for view in &self.safe {
            for member in self.missing(*view) {
                let was_there = |first: Option<ViewId>| first.is_some_and(|first| first.number < view.number);
                if self.stands.of_incarnation(member).any(|(_, stand)| stand.is_live() && was_there(stand.first)) {
                    return Err(format!("a safe message was delivered in {view}, which {member} never installed"));
                }
            }
        }
        Ok(())
    }
}

impl SafeInstallation {
    fn on_safe(&mut self, process: Process) -> Verdict {
        let Some(stand) = self.stands.get(process).filter(|stand| stand.closing.is_none()) else { return Ok(()) };
        let late = stand.late;
        let Some(view) = stand.id() else { return Ok(()) };
        if !self.safe.insert(view) || late {
            return Ok(());
        }
        match self.missing(view).first() {
            Some(member) => Err(format!("a safe message is delivered in {view}, which {member} has not installed")),
            None => Ok(()),
        }
    }

    fn missing(&self, view: ViewId) -> Vec<ProcessIncarnation> {
        let members = self.members.get(&view).into_iter().flatten();
        let failed = |member: &ProcessIncarnation| self.stands.of_incarnation(*member).any(|(_, stand)| stand.over);
        let has = |member: &ProcessIncarnation| {
            failed(member) || self.installed.get(&view).is_some_and(|installed| installed.contains(member))
        };
        members.filter(|member| !has(member)).copied().collect()
    }
}
