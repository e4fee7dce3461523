//! GM: messages to groups go to members, once to each, in one order. Judged by the group views that each process was told:
//! it is in one of the message's groups, or named itself; it was not given the message before; a closed group's message
//! comes from a member; a sender's messages stay in their order; no two processes see two messages the other way round; and
//! a message to a client by its name comes, where both stay.
//!
//! Where parts of a network that fell apart close a view each in an order of their own, what is given while it closes is
//! judged among those that move together. All else stands in the one order of its view, whoever gets it.
use super::private_messages::PrivateMessages;
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::machine::private;
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{Grouped, Occurrence, PerProcess, SaidMessage, TraceEvent};
use consort_types::ViewId;
use std::collections::BTreeMap;
use std::rc::Rc;

type GroupMessage = (Process, u64);

/// Those that close a view together; `None` is all of a view.
type ClosingPart = Option<Rc<(ViewId, Vec<ProcessIncarnation>)>>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct GroupMessages {
    last: BTreeMap<(Box<str>, Process), Grouped>,
    /// How many messages each process was given.
    count: PerProcess<u64>,
    /// Who was given each message, as which of its own.
    given: BTreeMap<GroupMessage, Vec<(Process, u64, ClosingPart)>>,
    /// How many of a sender's messages a process has seen.
    heard: BTreeMap<(Process, Process), u64>,
    /// The furthest place at the second process of what the first was given.
    furthest: PerProcess<PerProcess<u64>>,
    /// In whose order each process is given what it is given now.
    part: BTreeMap<Process, ClosingPart>,
    private: PrivateMessages,
    promised: PromisedOrder,
}

impl Checker for GroupMessages {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "GM", name: "messages to groups" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        self.private.see(event)?;
        match &event.what {
            Occurrence::View(view) | Occurrence::Network(view) => {
                let apart = self.promised.per_component && view.transitional;
                let part = apart.then(|| Rc::new((view.id, view.members.clone())));
                self.part.insert(event.process, part);
                Ok(())
            }
            Occurrence::Group(told) => {
                let place = (told.group.clone(), event.process);
                match told.members.contains(&event.process) {
                    true => drop(self.last.insert(place, (**told).clone())),
                    false => drop(self.last.remove(&place)),
                }
                Ok(())
            }
            Occurrence::Side(said) => self.on_side(event.process, said),
            _ => Ok(()),
        }
    }
}

impl GroupMessages {
    /// Judges what the engine promises to stand in one order.
    pub(super) fn new(promised: PromisedOrder) -> Self {
        Self { promised, ..Self::default() }
    }

    fn on_side(&mut self, process: Process, said: &SaidMessage) -> Verdict {
        self.addressed(process, said)?;
        let heard = self.heard.entry((process, said.from)).or_default();
        if said.count <= *heard {
            return Err(format!("is given {}'s {} after its {heard}", said.from, said.count));
        }
        *heard = said.count;
        self.in_order(process, (said.from, said.count))
    }

    fn addressed(&self, process: Process, said: &SaidMessage) -> Verdict {
        let mut mine = said.groups.iter().any(|group| **group == *private(process));
        for group in &said.groups {
            let Some(told) = self.last.get(&(group.clone(), process)) else { continue };
            mine = true;
            if told.closed && !told.members.contains(&said.from) {
                return Err(format!("is given a message of {}, which is not in the closed {group}", said.from));
            }
        }
        if mine { Ok(()) } else { Err(format!("is given a message to {}, where it is not", said.groups.join(" "))) }
    }

    fn in_order(&mut self, process: Process, message: GroupMessage) -> Verdict {
        let part = self.part.get(&process).cloned().flatten();
        let count = self.count.of(process);
        *count += 1;
        let given = self.given.entry(message).or_default();
        let furthest = self.furthest.of(process);
        for (other, place, _) in given.iter().filter(|(.., theirs)| *theirs == part) {
            let furthest = furthest.of(*other);
            if place < furthest {
                return Err(format!("is given {}'s {} after what {other} was given after it", message.0, message.1));
            }
            *furthest = *place;
        }
        given.push((process, *count, part));
        Ok(())
    }
}
