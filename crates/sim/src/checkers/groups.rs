//! GV: views of a group are well formed. A process is a member of every group view it is told; their names increase at
//! each process; and a name stands for the same members everywhere.
use super::{Checker, Rule, Verdict};
use crate::message::Process;
use crate::trace::{Event, Grouped, PerProcess, What};
use consort_types::ViewId;
use std::collections::BTreeMap;

type Name = (ViewId, u64);

/// See the module. Nodes that merge do not exchange their groups yet: from the first merge of nodes that have any on,
/// nobody can say what a group's members are.
#[derive(Debug, Default)]
pub(super) struct GroupViews {
    last: PerProcess<Option<Name>>,
    members: BTreeMap<Name, Vec<Process>>,
    merged: bool,
}

impl Checker for GroupViews {
    fn rule(&self) -> Rule {
        Rule { id: "GV", name: "well-formed group views" }
    }

    fn see(&mut self, event: &Event) -> Verdict {
        match &event.what {
            What::View(view) => {
                let merges = !view.transitional && view.together != view.members;
                self.merged |= merges && !self.members.is_empty();
                Ok(())
            }
            What::Group(group) => self.on_group(event.process, group),
            _ => Ok(()),
        }
    }
}

impl GroupViews {
    fn on_group(&mut self, process: Process, group: &Grouped) -> Verdict {
        let Grouped { id, change, members } = group;
        if !members.contains(&process) {
            return Err(format!("group view {id}.{change} does not have it as a member"));
        }
        let name = (*id, *change);
        if let Some(last) = self.last.of(process).replace(name).filter(|last| *last >= name) {
            return Err(format!("group view {id}.{change} after {}.{}", last.0, last.1));
        }
        let known = self.members.entry(name).or_insert_with(|| members.clone());
        if self.merged || known == members {
            Ok(())
        } else {
            Err(format!("group view {id}.{change} has other members elsewhere"))
        }
    }
}
