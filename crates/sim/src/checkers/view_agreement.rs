//! CC: changes reach everybody. If a process installs a view, every other member of it installs it too, or fails, or goes
//! on to a later one; and when a member fails or goes on, nobody stays behind.
use super::process_views::Stands;
use super::{Checker, PromiseRule, Verdict};
use crate::message::ProcessIncarnation;
use crate::trace::{Occurrence, TraceEvent};
use consort_types::ViewId;
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Changes {
    stands: Stands,
    calm: bool,
    members: BTreeMap<ViewId, Vec<ProcessIncarnation>>,
    installed: BTreeSet<(ViewId, ProcessIncarnation)>,
}

impl Checker for Changes {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "CC", name: "changes reach everybody" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        self.calm |= event.what == Occurrence::Calm;
        if let (Occurrence::View(view), Some(_)) = (&event.what, self.stands.see(event)) {
            self.members.entry(view.id).or_insert_with(|| view.members.clone());
            self.installed.insert((view.id, event.process.incarnation()));
        }
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        if !self.calm {
            return Ok(());
        }
        self.everybody_came()?;
        self.nobody_stayed()
    }
}

impl Changes {
    fn everybody_came(&self) -> Verdict {
        for (view, members) in &self.members {
            for member in members.iter().filter(|member| !self.installed.contains(&(*view, **member))) {
                let behind = |last: Option<ViewId>| last.is_some_and(|last| last <= *view);
                let mut processes = self.stands.of_incarnation(*member);
                if let Some((process, _)) = processes.find(|(_, stand)| stand.is_live() && behind(stand.id())) {
                    return Err(format!("{process} neither installed {view} nor a later view"));
                }
            }
        }
        Ok(())
    }

    fn nobody_stayed(&self) -> Verdict {
        for (process, stand) in self.stands.live() {
            let Some(view) = &stand.regular else { continue };
            for member in &view.members {
                let gone = |(_, other): (_, &super::process_views::Stand)| {
                    other.over || other.id().is_some_and(|id| id != view.id)
                };
                if self.stands.of_incarnation(*member).any(gone) {
                    return Err(format!("{process} is still in view {}, which {member} is not any more", view.id));
                }
            }
        }
        Ok(())
    }
}
