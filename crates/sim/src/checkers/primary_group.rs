//! PG: at no place of the order do two clients of group views without a common member both hold that their group is
//! primary. A group is called primary only in a regular view that may be primary (of two such views a later one knows that
//! the earlier one is over: PR), and is so no more when that view closes, before anything else is told; all memberships that
//! are called primary from the beginning of a view on are one and the same. In the end all that are in a primary view know.
use super::{Checker, PromiseRule, Verdict};
use crate::message::Process;
use crate::trace::{Grouped, InstallRecord, Occurrence, TraceEvent};
use consort_types::ViewId;
use std::collections::BTreeMap;

type PrimaryViewName = (ViewId, u64);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct PrimaryGroups {
    told: BTreeMap<Process, PrimaryNotice>,
    /// The memberships that were called primary before any change in that view, and to whom.
    first: BTreeMap<(Box<str>, ViewId), (PrimaryViewName, Process)>,
}

/// What a process was told last.
#[derive(Debug, Default)]
struct PrimaryNotice {
    /// The regular view, and whether it may become primary.
    view: Option<(ViewId, bool)>,
    closing: bool,
    /// The view is primary.
    primary: bool,
    /// Whether each of its groups is.
    groups: BTreeMap<Box<str>, bool>,
}

impl Checker for PrimaryGroups {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "PG", name: "one primary membership" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let process = event.process;
        match &event.what {
            Occurrence::View(view) | Occurrence::Network(view) => self.told.entry(process).or_default().on_view(view),
            Occurrence::Primary(_) => {
                self.told.entry(process).or_default().primary = true;
                Ok(())
            }
            Occurrence::Group(told) => self.on_group(process, told),
            Occurrence::Deliver(_) | Occurrence::Side(_) | Occurrence::Signal(_) => match self.told.get(&process) {
                Some(told) if told.closing => told.holds_none("while its view closes"),
                _ => Ok(()),
            },
            Occurrence::Start { .. } | Occurrence::Gone | Occurrence::Crash | Occurrence::Left => {
                self.told.remove(&process);
                Ok(())
            }
            Occurrence::Quiet => self.told.values().try_for_each(PrimaryNotice::knows),
            _ => Ok(()),
        }
    }
}

impl PrimaryGroups {
    fn on_group(&mut self, process: Process, group: &Grouped) -> Verdict {
        let told = self.told.entry(process).or_default();
        if !group.members.contains(&process) {
            told.groups.remove(&group.group);
            return Ok(());
        }
        told.groups.insert(group.group.clone(), group.primary);
        let Some((view, may_be)) = told.view.filter(|_| group.primary) else { return Ok(()) };
        let Grouped { group: name, id, change, .. } = group;
        if told.closing || !may_be {
            let why = if told.closing { "is closing" } else { "was never pending" };
            return Err(format!("{name} {id}.{change} is called primary, but view {view} {why}"));
        }
        if *id == view && *change > 0 {
            return Ok(()); // a join or leave behind the beginning; GV judges names
        }
        let (known, other) = *self.first.entry((name.clone(), view)).or_insert((group.name(), process));
        if known != group.name() {
            let (their, number) = known;
            return Err(format!(
                "{name} is primary in view {view} as {id}.{change}, and to {other} as {their}.{number}"
            ));
        }
        Ok(())
    }
}

impl PrimaryNotice {
    fn on_view(&mut self, view: &InstallRecord) -> Verdict {
        if view.transitional {
            self.closing = true;
            return Ok(());
        }
        // Who joins is shown the view that it is in.
        if self.view.is_some_and(|(id, _)| id == view.id) && !self.closing {
            return Ok(());
        }
        (self.view, self.closing, self.primary) = (Some((view.id, view.pending)), false, false);
        self.holds_none("in the next view")
    }

    fn holds_none(&self, when: &str) -> Verdict {
        match self.groups.iter().find(|(_, primary)| **primary) {
            Some((group, _)) => Err(format!("{group} is still called primary {when}")),
            None => Ok(()),
        }
    }

    fn knows(&self) -> Verdict {
        match self.groups.iter().find(|(_, primary)| self.primary && !self.closing && !**primary) {
            Some((group, _)) => Err(format!("its view is primary, and it was never told so of {group}")),
            None => Ok(()),
        }
    }
}
