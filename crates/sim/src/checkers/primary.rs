//! PR: there is one primary view at a time. A view becomes primary only if it was pending, only in the view itself, and
//! only after all its members have installed it, or failed. Of any two views that became primary anywhere, a member of
//! the later one was a member of the earlier, in the same incarnation or in one that is over, so that it knows that the
//! earlier one is over: that one does not become primary any more.
use super::process_views::Stands;
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{Occurrence, TraceEvent};
use consort_types::ViewId;
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Primaries {
    stands: Stands,
    installed: BTreeMap<ViewId, BTreeSet<ProcessIncarnation>>,
    primary: BTreeMap<ViewId, Vec<ProcessIncarnation>>,
    promised: PromisedOrder,
}

impl Checker for Primaries {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "PR", name: "one primary view" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match (&event.what, self.stands.see(event)) {
            (Occurrence::View(view), Some(_)) => {
                self.installed.entry(view.id).or_default().insert(event.process.incarnation());
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
        let members = view.members.clone();
        if !self.promised.quorum {
            self.compare(id, &members)?;
        }
        self.primary.insert(id, members);
        Ok(())
    }

    /// Of two primary views some member must know which is over: the one that it was in in an earlier incarnation, or
    /// under a smaller number in the same.
    fn compare(&self, id: ViewId, members: &[ProcessIncarnation]) -> Verdict {
        for (other, there) in self.primary.iter().filter(|(other, _)| **other != id) {
            let order = |incarnation: &ProcessIncarnation| {
                let same = there.iter().find(|known| known.node == incarnation.node)?;
                Some((same.count, other.number).cmp(&(incarnation.count, id.number)))
            };
            let mut orders = members.iter().filter_map(order);
            let Some(first) = orders.next() else {
                return Err(format!("views {other} and {id} were both primary and have no member in common"));
            };
            if orders.any(|order| order != first) {
                return Err(format!(
                    "views {other} and {id} were both primary, and members disagree on which came later"
                ));
            }
            if first.is_gt() && !self.primary.contains_key(&id) {
                return Err(format!("view {id} becomes primary after {other} was, which a member came to later"));
            }
        }
        Ok(())
    }

    /// Clients of a node learn of views late: of those nothing can be said.
    fn has_installed(&self, id: ViewId, member: ProcessIncarnation) -> bool {
        let excused = self.stands.of_incarnation(member).next().is_none_or(|(_, stand)| stand.late || stand.over);
        excused || self.installed.get(&id).is_some_and(|installed| installed.contains(&member))
    }
}
