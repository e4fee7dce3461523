//! A part of GM: a message to a client by its name comes, where both stay. Owed is what was sent in a view that the client
//! it is for was in, for as long as the sender is told of no view without that client's node.
use super::Verdict;
use crate::machine::private;
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{Occurrence, SaidMessage, TraceEvent};
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct PrivateMessages {
    /// The incarnations in the view that each process was told last.
    views: BTreeMap<Process, Vec<ProcessIncarnation>>,
    /// To whom, from whom, and the how manieth of the sender's it is.
    owed: BTreeSet<(Process, Process, u64)>,
}

impl PrivateMessages {
    pub fn see(&mut self, event: &TraceEvent) -> Verdict {
        let process = event.process;
        match &event.what {
            Occurrence::View(view) | Occurrence::Network(view) => {
                self.owed.retain(|(to, from, _)| *from != process || view.members.contains(&to.incarnation()));
                self.views.insert(process, view.members.clone());
            }
            Occurrence::Spoke(said) => self.on_spoke(process, said),
            Occurrence::Side(said) => drop(self.owed.remove(&(process, said.from, said.count))),
            Occurrence::Gone => self.forget(|other| other == process),
            Occurrence::Crash | Occurrence::Left => self.forget(|other| other.incarnation() == process.incarnation()),
            Occurrence::Quiet => return self.nothing_is_owed(),
            _ => {}
        }
        Ok(())
    }

    fn on_spoke(&mut self, from: Process, said: &SaidMessage) {
        let Some(members) = self.views.get(&from) else { return };
        let named = |to: &&Process| {
            members.contains(&to.incarnation()) && said.groups.iter().any(|name| **name == *private(**to))
        };
        self.owed.extend(self.views.keys().filter(named).map(|to| (*to, from, said.count)));
    }

    fn forget(&mut self, is_over: impl Fn(Process) -> bool) {
        self.views.retain(|process, _| !is_over(*process));
        self.owed.retain(|(to, from, _)| !is_over(*to) && !is_over(*from));
    }

    fn nothing_is_owed(&self) -> Verdict {
        match self.owed.first() {
            None => Ok(()),
            Some((to, from, count)) => {
                Err(format!("{to} was never given {from}'s {count}, which was sent to it by name"))
            }
        }
    }
}
