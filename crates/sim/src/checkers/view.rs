//! W: views are well formed. A process is a member of every view it installs; views of one name have the same members
//! everywhere; at one process their names increase; messages come only after a view.
use super::{Checker, Rule, Verdict};
use crate::message::Process;
use crate::trace::{Event, Installed, PerProcess, What};
use consort_types::ViewId;
use std::collections::BTreeMap;

type Name = (ViewId, u64, bool);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Views {
    installed: PerProcess<Option<Name>>,
    members: BTreeMap<Name, Vec<Process>>,
}

impl Checker for Views {
    fn rule(&self) -> Rule {
        Rule { id: "W", name: "well-formed views" }
    }

    fn see(&mut self, event: &Event) -> Verdict {
        match &event.what {
            What::View(view) => self.on_view(event.process, view),
            What::Deliver(_) if self.installed.of(event.process).is_none() => {
                Err("a message is delivered before any view".into())
            }
            _ => Ok(()),
        }
    }
}

impl Views {
    fn on_view(&mut self, process: Process, view: &Installed) -> Verdict {
        let name = (view.id, view.step, view.transitional);
        if !view.members.contains(&process) {
            return Err(format!("view {} does not have {process} as a member", view.id));
        }
        if let Some(last) = self.installed.of(process).replace(name)
            && last >= name
        {
            return Err(format!("view {} step {} after view {} step {}", view.id, view.step, last.0, last.1));
        }
        let members = self.members.entry(name).or_insert_with(|| view.members.clone());
        if *members != view.members {
            return Err(format!("view {} step {} has other members elsewhere", view.id, view.step));
        }
        Ok(())
    }
}
