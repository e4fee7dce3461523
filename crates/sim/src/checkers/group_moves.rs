//! GS: virtual synchrony of groups. Who is said to have moved together was given the same messages of the group since the
//! group view before, which was the same, and so was in the end who is in one group view; a change that somebody did not
//! move along with was signalled, and a signal means that; and the network tells nothing where nothing changed.
use super::{Checker, PromiseRule, Verdict};
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{Grouped, Occurrence, SaidMessage, TraceEvent};
use consort_types::ViewId;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

type ViewName = (ViewId, u64);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct GroupMoves {
    stays: BTreeMap<(Box<str>, Process), GroupStay>,
    /// Who came into a group view, and how.
    moves: BTreeMap<(Box<str>, ViewName), BTreeMap<Process, Rc<GroupMove>>>,
    /// Who moves along where a view is closing, for each process that was told views. Clients of one daemon are told each
    /// in its own time.
    closing: BTreeMap<Process, Option<Vec<ProcessIncarnation>>>,
    /// Incarnations that ended. What their clients were told last may be seen behind that, where each client tells for
    /// itself.
    over: BTreeSet<ProcessIncarnation>,
}

/// A process in a group view.
#[derive(Debug)]
struct GroupStay {
    view: Grouped,
    given: Vec<(Process, u64)>,
    signalled: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct GroupMove {
    from: ViewName,
    network: bool,
    together: Vec<Process>,
    given: Vec<(Process, u64)>,
}

impl Checker for GroupMoves {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "GS", name: "who moved together" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let process = event.process;
        match &event.what {
            Occurrence::View(view) | Occurrence::Network(view) => {
                drop(self.closing.insert(process, view.transitional.then(|| view.members.clone())));
            }
            Occurrence::Group(told) if told.again => {}
            Occurrence::Group(told) => return self.on_group(process, told),
            Occurrence::Signal(group) => return self.on_signal(process, group),
            Occurrence::Side(said) => self.on_side(process, said),
            Occurrence::Gone => self.stays.retain(|(_, other), _| *other != process),
            Occurrence::Crash | Occurrence::Left => drop(self.over.insert(process.incarnation())),
            Occurrence::Quiet => return self.all_are_even(),
            _ => {}
        }
        Ok(())
    }
}

/// Who moves along, as the process was told itself; one that is told no views is judged by those of its node.
fn along(
    closing: &BTreeMap<Process, Option<Vec<ProcessIncarnation>>>,
    process: Process,
) -> Option<&[ProcessIncarnation]> {
    let incarnation = process.incarnation();
    let mut beside = closing.range(Process::of(incarnation, 0)..=Process::of(incarnation, u16::MAX));
    closing.get(&process).or_else(|| beside.next().map(|(_, along)| along))?.as_deref()
}

impl GroupMoves {
    fn on_side(&mut self, process: Process, said: &SaidMessage) {
        for group in &said.groups {
            if let Some(stay) = self.stays.get_mut(&(group.clone(), process))
                && stay.given.last() != Some(&(said.from, said.count))
            {
                stay.given.push((said.from, said.count));
            }
        }
    }

    /// Nothing more comes: who is in the same group view was given the same in it.
    fn all_are_even(&self) -> Verdict {
        let mut first: BTreeMap<(&str, ViewName), (Process, &GroupStay)> = BTreeMap::new();
        for ((group, process), stay) in
            self.stays.iter().filter(|((_, process), _)| !self.over.contains(&process.incarnation()))
        {
            let (other, known) = *first.entry((group, stay.view.name())).or_insert((*process, stay));
            if known.given != stay.given {
                return Err(format!(
                    "{group}: in the end {process} was given {:?}, {other} {:?}",
                    stay.given, known.given
                ));
            }
        }
        Ok(())
    }

    fn on_signal(&mut self, process: Process, group: &str) -> Verdict {
        let Some(stay) = self.stays.get_mut(&(group.into(), process)) else {
            return Err(format!("is told that {group} closes, and is not in it"));
        };
        stay.signalled = true;
        let Some(along) = along(&self.closing, process) else { return Ok(()) };
        if stay.view.members.iter().all(|member| along.contains(&member.incarnation())) {
            return Err(format!("is told that {group} closes, but all its members move along"));
        }
        Ok(())
    }

    fn on_group(&mut self, process: Process, told: &Grouped) -> Verdict {
        let place = (told.group.clone(), process);
        let before = self.stays.remove(&place);
        if told.members.contains(&process) {
            // Joins and leaves while the view is closing do not undo the signal.
            let signalled = !told.network && before.as_ref().is_some_and(|before| before.signalled);
            self.stays.insert(place, GroupStay { view: told.clone(), given: Vec::new(), signalled });
            if !told.together.contains(&process) {
                return Err(format!("{} moved without itself", told.group));
            }
        }
        match before {
            Some(before) => self.on_move(process, before, told),
            None if told.members.contains(&process) && told.together != [process] => {
                Err(format!("{} says that others moved together with a newcomer", told.group))
            }
            None => Ok(()),
        }
    }

    fn on_move(&mut self, process: Process, before: GroupStay, told: &Grouped) -> Verdict {
        let GroupStay { view, given, signalled } = before;
        let Grouped { group, members, together, network, .. } = told;
        if let Some(stranger) = together.iter().find(|other| !view.members.contains(other)) {
            return Err(format!("{group} says that {stranger} moved together with it, but it was not there before"));
        }
        let lost = view.members.iter().any(|member| !together.contains(member));
        if *network && lost && !signalled {
            return Err(format!("{group} lost members, and nobody said that it was closing"));
        }
        if *network && *members == view.members && *together == *members {
            return Err(format!("{group} is told anew, and nothing changed"));
        }
        if !network
            && members.contains(&process)
            && together.iter().ne(members.iter().filter(|m| view.members.contains(m)))
        {
            return Err(format!("{group} changed by itself, and not all that stay moved together"));
        }
        let mine = Rc::new(GroupMove { from: view.name(), network: *network, together: together.clone(), given });
        let moves = self.moves.entry((group.clone(), told.name())).or_default();
        for (other, theirs) in &*moves {
            agree(group, (process, &mine), (*other, theirs))?;
        }
        moves.insert(process, mine);
        Ok(())
    }
}

/// Two processes that came into the same group view.
fn agree(group: &str, (p, mine): (Process, &GroupMove), (q, theirs): (Process, &GroupMove)) -> Verdict {
    let along = mine.together.contains(&q) || theirs.together.contains(&p);
    if mine.network && along && (mine.from != theirs.from || mine.together != theirs.together) {
        return Err(format!("{group}: {p} and {q} moved together, but do not agree on how"));
    }
    let same = if mine.network { along } else { mine.from == theirs.from };
    if same && mine.given != theirs.given {
        return Err(format!(
            "{group}: {p} and {q} moved together, but {p} was given {:?}, {q} {:?}",
            mine.given, theirs.given
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Trace;

    /// What the checker says of the last line.
    fn last(lines: &str) -> Verdict {
        let mut checker = GroupMoves::default();
        lines.parse::<Trace>().unwrap().events.iter().map(|event| checker.see(event)).last().unwrap()
    }

    #[test]
    fn a_signal_is_judged_by_the_views_that_the_client_itself_was_told() {
        let view = |client: &str, number: u64, transitional: bool, members: &str| {
            format!(
                "1 {client} view id={number}@n1.9 transitional={transitional} members={members} together={members} \
                 pending=false\n"
            )
        };
        let group = "1 n1c1 group of=beta id=5@n1.9 change=0 network=true again=false closed=false primary=false \
                     members=n1c0,n1c1,n2c0 together=n1c0,n1c1,n2c0\n";
        let signal = "1 n1c1 signal of=beta\n";
        let behind =
            [view("n1c1", 5, true, "n1"), view("n1c0", 5, true, "n1"), view("n1c0", 9, false, "n1,n2")].concat();
        let ahead = view("n1c0", 9, true, "n1,n2");
        assert_eq!(last(&format!("{group}{behind}{ahead}{signal}")), Ok(()), "another client was told more already");
        let needless = [view("n1c1", 5, true, "n1,n2"), view("n1c0", 5, true, "n1")].concat();
        assert!(last(&format!("{group}{needless}{signal}")).is_err(), "as it was told itself, all move along");
        assert!(last(&format!("{group}{ahead}{signal}")).is_err(), "told no views, by those of its node");
    }
}
