//! PR: there is one primary view at a time. A view becomes primary only if it was pending, only in the view itself, and
//! only after all its members have installed it, or failed; and of any two views that became primary anywhere, a member of the later
//! one was a member of the earlier, so that it knows that the earlier one is over.
use super::process_views::Stands;
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{Occurrence, TraceEvent};
use consort_types::{NodeId, ViewId};
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Primaries {
    stands: Stands,
    installed: BTreeMap<ViewId, BTreeSet<ProcessIncarnation>>,
    primary: BTreeMap<ViewId, Vec<NodeId>>,
    promised: PromisedOrder,
}

impl Checker for Primaries {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "PR", name: "one primary view" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match (&event.what, self.stands.see(event)) {
            (Occurrence::View(view), Some(_)) => {
                self.installed.entry(view.id).or_default().insert(event.process.life());
                Ok(())
            }
            (Occurrence::Primary(view), _) => self.on_primary(event.process, *view),
            _ => Ok(()),
        }
    }
}

impl Primaries {
    /// Judges whether views have members in common where no order tells which is later.
    pub(super) fn new(promised: PromisedOrder) -> Self {
        Self { promised, ..Self::default() }
    }

    fn on_primary(&mut self, process: Process, id: ViewId) -> Verdict {
        let stand = self.stands.get(process);
        let Some(view) = stand.and_then(|stand| stand.regular.clone()).filter(|view| view.id == id) else {
            return Err(format!("view {id} is called primary, but it is not in it"));
        };
        if stand.is_some_and(|stand| stand.closing.is_some()) {
            return Err(format!("view {id} is called primary while it is closed"));
        }
        if !view.pending {
            return Err(format!("view {id} is called primary, but was never pending"));
        }
        if let Some(member) = view.members.iter().find(|member| !self.has_installed(id, **member)) {
            return Err(format!("view {id} is called primary, but {member} has not installed it"));
        }
        let nodes: Vec<_> = view.members.iter().map(|member| member.node).collect();
        let apart = |other: &[NodeId]| !self.promised.quorum && !other.iter().any(|node| nodes.contains(node));
        if let Some((other, _)) = self.primary.iter().find(|(other, there)| **other != id && apart(there)) {
            return Err(format!("views {other} and {id} were both primary and have no member in common"));
        }
        self.primary.insert(id, nodes);
        Ok(())
    }

    /// Clients of a node learn of views late: of those nothing can be said.
    fn has_installed(&self, id: ViewId, member: ProcessIncarnation) -> bool {
        let excused = self.stands.of_life(member).next().is_none_or(|(_, stand)| stand.late || stand.over);
        excused || self.installed.get(&id).is_some_and(|installed| installed.contains(&member))
    }
}
