//! GV: views of groups are well formed and true. A process is a member of every group view it is told, but for the one that
//! it leaves with; their names increase at each process; a name stands for the same members everywhere; and in the end all
//! members of a group are told the same, and nobody is listed who is not there.
use super::process_views::Stands;
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{Grouped, Occurrence, TraceEvent};
use consort_types::ViewId;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

type GroupViewName = (ViewId, u64);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct GroupViews {
    /// What each process was told last, by group.
    last: BTreeMap<(Box<str>, Process), Rc<Grouped>>,
    known: BTreeMap<(Box<str>, GroupViewName), Rc<Grouped>>,
    /// Who is not there any more.
    over: BTreeSet<ProcessIncarnation>,
    gone: BTreeSet<Process>,
    /// Whose own views are in the trace: others may be members and not be seen here.
    met: BTreeSet<Process>,
    stands: Stands,
    promised: PromisedOrder,
}

impl Checker for GroupViews {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "GV", name: "group views" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let process = event.process;
        self.stands.see(event);
        if matches!(event.what, Occurrence::Start { .. } | Occurrence::Network(_) | Occurrence::Group(_)) {
            self.met.insert(process);
        }
        match &event.what {
            Occurrence::Group(group) if group.again => return self.on_again(process, group),
            Occurrence::Group(group) => return self.on_group(process, group),
            Occurrence::Gone => {
                self.gone.insert(process);
                self.last.retain(|(_, other), _| *other != process);
            }
            // Clients of a daemon that ends are told the last of it each in its own time.
            Occurrence::Crash | Occurrence::Left => {
                self.over.insert(process.incarnation());
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        let is_there = |process: &Process| !self.over.contains(&process.incarnation());
        for ((group, process), told) in self.last.iter().filter(|((_, process), _)| is_there(process)) {
            let told_last = |member: &Process| self.last.get(&(group.clone(), *member)).map(|other| other.name());
            let is_in = |member: &&Process| told_last(member).filter(|_| is_there(member));
            for member in &told.members {
                match is_in(&member) {
                    None if self.over.contains(&member.incarnation()) || self.gone.contains(member) => {
                        return Err(format!("{process} counts {member} in {group}, which is not there"));
                    }
                    None if self.met.contains(member) => {
                        return Err(format!("{process} counts {member} in {group}, which was not told so"));
                    }
                    None => {}
                    Some(name) if name != told.name() => {
                        let (id, change) = name;
                        let (own, number) = told.name();
                        return Err(format!("{process} is in {group} {own}.{number}, {member} in {id}.{change}"));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }
}

impl GroupViews {
    /// Judges names across parts where the engine promises one order for all of them.
    pub(super) fn new(promised: PromisedOrder) -> Self {
        Self { promised, ..Self::default() }
    }

    /// The membership that holds is told once more.
    fn on_again(&self, process: Process, told: &Grouped) -> Verdict {
        let last = self.last.get(&(told.group.clone(), process));
        if last.is_some_and(|last| (last.name(), &last.members) == (told.name(), &told.members)) {
            return Ok(());
        }
        Err(format!("{} {}.{} is told once more, but was not told last", told.group, told.id, told.change))
    }

    fn on_group(&mut self, process: Process, told: &Grouped) -> Verdict {
        let Grouped { group, id, change, members, .. } = told;
        let told = Rc::new(told.clone());
        let place = (group.clone(), process);
        let last = self.last.get(&place).map(|last| last.name());
        if !members.contains(&process) {
            if told.network || last.is_none() {
                return Err(format!("{group} {id}.{change} does not have it as a member"));
            }
            self.last.remove(&place);
        } else {
            self.last.insert(place, Rc::clone(&told));
        }
        if let Some((id, change)) = last.filter(|last| *last >= told.name()) {
            return Err(format!("{group} {}.{} after {id}.{change}", told.id, told.change));
        }
        if self.promised.per_component && self.stands.is_closing(process) {
            return Ok(()); // a part names what it changes while it closes a view by itself
        }
        let known = self.known.entry((group.clone(), told.name())).or_insert_with(|| Rc::clone(&told));
        if known.members == told.members && (known.network, known.closed) == (told.network, told.closed) {
            Ok(())
        } else {
            Err(format!("{group} {id}.{change} is different elsewhere: {:?}", known.members))
        }
    }
}
