//! GM: messages to groups go to members, once to each, in one order. Judged by the group views that each process was told:
//! it is in one of the message's groups, or named itself; it was not given the message before; a closed group's message
//! comes from a member; a sender's messages stay in their order; and no two processes see two messages the other way round.
use super::stand::Stands;
use super::{Checker, Promised, Rule, Verdict};
use crate::machine::private;
use crate::message::Process;
use crate::trace::{Event, Grouped, Said, What};
use std::collections::BTreeMap;

type Message = (Process, u64);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct GroupMessages {
    last: BTreeMap<(Box<str>, Process), Grouped>,
    /// What each process was given, with its place among that.
    given: BTreeMap<Process, BTreeMap<Message, u64>>,
    /// How many of a sender's messages a process has seen.
    heard: BTreeMap<(Process, Process), u64>,
    /// The furthest place at the second process of what the first was given.
    furthest: BTreeMap<(Process, Process), u64>,
    stands: Stands,
    promised: Promised,
}

impl Checker for GroupMessages {
    fn rule(&self) -> Rule {
        Rule { id: "GM", name: "messages to groups" }
    }

    fn see(&mut self, event: &Event) -> Verdict {
        self.stands.see(event);
        match &event.what {
            What::Group(told) => {
                let place = (told.group.clone(), event.process);
                match told.members.contains(&event.process) {
                    true => drop(self.last.insert(place, (**told).clone())),
                    false => drop(self.last.remove(&place)),
                }
                Ok(())
            }
            What::Side(said) => self.on_side(event.process, said),
            _ => Ok(()),
        }
    }
}

impl GroupMessages {
    /// Judges what the engine promises to stand in one order.
    pub(super) fn new(promised: Promised) -> Self {
        Self { promised, ..Self::default() }
    }

    fn on_side(&mut self, process: Process, said: &Said) -> Verdict {
        self.addressed(process, said)?;
        let heard = self.heard.entry((process, said.from)).or_default();
        if said.count <= *heard {
            return Err(format!("is given {}'s {} after its {heard}", said.from, said.count));
        }
        *heard = said.count;
        if self.promised.per_component && self.stands.is_closing(process) {
            return Ok(()); // in an order of those that move together: GS
        }
        self.in_order(process, (said.from, said.count))
    }

    fn addressed(&self, process: Process, said: &Said) -> Verdict {
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

    fn in_order(&mut self, process: Process, message: Message) -> Verdict {
        let mine = self.given.entry(process).or_default();
        let place = mine.len() as u64 + 1;
        mine.insert(message, place);
        for (other, theirs) in &self.given {
            let Some(place) = theirs.get(&message).filter(|_| *other != process) else { continue };
            let furthest = self.furthest.entry((process, *other)).or_default();
            if place < furthest {
                return Err(format!("is given {}'s {} after what {other} was given after it", message.0, message.1));
            }
            *furthest = *place;
        }
        Ok(())
    }
}
