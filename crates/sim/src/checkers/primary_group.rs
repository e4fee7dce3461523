//! PG: at no place of the order do two clients of group views without a common member both hold that their group is
//! primary. A group is called primary only in a regular view that may be primary (of two such views a later one knows that
//! the earlier one is over: PR), and is so no more when that view closes, before anything else is told; all memberships that
//! are called primary from the beginning of a view on are one and the same. In the end all that are in a primary view know.
use super::{Checker, Rule, Verdict};
use crate::message::Process;
use crate::trace::{Event, Grouped, Installed, What};
use consort_types::ViewId;
use std::collections::BTreeMap;

type Name = (ViewId, u64);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct PrimaryGroups {
    told: BTreeMap<Process, Told>,
    /// The memberships that were called primary before any change in that view, and to whom.
    first: BTreeMap<(Box<str>, ViewId), (Name, Process)>,
}

/// What a process was told last.
#[derive(Debug, Default)]
struct Told {
    /// The regular view, and whether it may become primary.
    view: Option<(ViewId, bool)>,
    closing: bool,
    /// The view is primary.
    primary: bool,
    /// Whether each of its groups is.
    groups: BTreeMap<Box<str>, bool>,
}

impl Checker for PrimaryGroups {
    fn rule(&self) -> Rule {
        Rule { id: "PG", name: "one primary membership" }
    }

    fn see(&mut self, event: &Event) -> Verdict {
        let process = event.process;
        match &event.what {
            What::View(view) | What::Network(view) => self.told.entry(process).or_default().on_view(view),
            What::Primary(_) => {
                self.told.entry(process).or_default().primary = true;
                Ok(())
            }
            What::Group(told) => self.on_group(process, told),
            What::Deliver(_) | What::Side(_) | What::Signal(_) => match self.told.get(&process) {
                Some(told) if told.closing => told.holds_none("while its view closes"),
                _ => Ok(()),
            },
            What::Start { .. } | What::Gone | What::Crash | What::Left => {
                self.told.remove(&process);
                Ok(())
            }
            What::Quiet => self.told.values().try_for_each(Told::knows),
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

impl Told {
    fn on_view(&mut self, view: &Installed) -> Verdict {
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
