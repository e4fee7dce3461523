//! LV: liveness. Once faults have stopped and the run has come to rest, every accepted message was delivered, by all
//! members of the view in which it was delivered at all, and nobody waits for room. No message that the limits allow is
//! refused for good.
use super::{Checker, Rule, Verdict};
use crate::message::{Mark, Process};
use crate::trace::{Event, PerMessage, PerProcess, What};
use std::rc::Rc;

#[derive(Clone, Debug, Default)]
struct Fate {
    accepted: bool,
    delivered: usize,
    owed: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    members: PerProcess<Option<Rc<Vec<Process>>>>,
    started: PerProcess<bool>,
    waits: PerProcess<bool>,
    fates: PerMessage<Fate>,
}

impl Checker for Liveness {
    fn rule(&self) -> Rule {
        Rule { id: "LV", name: "liveness" }
    }

    fn see(&mut self, event: &Event) -> Verdict {
        match &event.what {
            What::Start => *self.started.of(event.process) = true,
            What::View(view) => *self.members.of(event.process) = Some(Rc::new(view.members.clone())),
            What::Submit(submitted) => {
                self.fates.of(Mark { origin: event.process, count: submitted.count }).accepted = true;
            }
            What::Wait => *self.waits.of(event.process) = true,
            What::Room => *self.waits.of(event.process) = false,
            What::Refused(why) => return Err(format!("a message that the limits allow was refused: {why}")),
            What::Spins => return Err("the process asks for wake-ups in the past, over and over".into()),
            What::Deliver(delivered) => {
                let Some(mark) = delivered.mark else { return Ok(()) };
                let members = self.members.of(event.process).as_ref().map_or(0, |members| members.len());
                let fate = self.fates.of(mark);
                fate.delivered += 1;
                fate.owed = fate.owed.max(members);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        if let Some((process, _)) = self.started.iter().find(|(process, started)| **started && !self.has_view(*process))
        {
            return Err(format!("{process} never installed a view"));
        }
        if let Some((process, _)) = self.waits.iter().find(|(_, waits)| **waits) {
            return Err(format!("{process} still waits for room"));
        }
        let late = self.fates.iter().find(|(_, fate)| fate.accepted && fate.delivered < fate.owed.max(1));
        late.map_or(Ok(()), |(mark, fate)| {
            Err(format!("{mark} was delivered by {} of {} processes", fate.delivered, fate.owed.max(1)))
        })
    }
}

impl Liveness {
    fn has_view(&self, process: Process) -> bool {
        self.members.get(process).is_some_and(Option::is_some)
    }
}
