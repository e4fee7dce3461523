//! SD: self-delivery. Whoever goes on from a view has delivered every message of its own that anybody delivers in that
//! view; every message that was accepted is delivered at its own sender if that stays up; it comes with the id that it
//! was given, and nobody else sees an id.
use super::process_views::Stands;
use super::{Checker, PromiseRule, Verdict};
use crate::message::{Mark, Process};
use crate::trace::{Occurrence, PerMessage, PerProcess, TraceEvent};
use consort_types::{MessageId, ViewId};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
struct Own {
    accepted: bool,
    id: Option<MessageId>,
    delivered: bool,
}

/// See the module. A sender that takes no deliveries itself is served by the others on its node.
#[derive(Debug, Default)]
pub(super) struct SelfDelivery {
    stands: Stands,
    own: PerMessage<Own>,
    /// Messages that others delivered before their senders, with the view.
    ahead: PerProcess<BTreeMap<u64, ViewId>>,
    calm: bool,
}

impl Checker for SelfDelivery {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "SD", name: "self-delivery" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match (&event.what, self.stands.see(event)) {
            (Occurrence::Calm, _) => self.calm = true,
            (Occurrence::Submit(submitted), _) => {
                let mark = Mark { origin: event.process, count: submitted.count };
                *self.own.of(mark) = Own { accepted: true, id: submitted.id, delivered: false };
            }
            (Occurrence::View(_), Some(change)) => {
                return change.from.map_or(Ok(()), |from| self.goes_on(event.process, from.id));
            }
            (Occurrence::Deliver(delivered), _) => {
                let Some(mark) = delivered.mark else { return Ok(()) };
                return self.on_deliver(event.process, mark, delivered.own);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        let owed =
            self.own.iter().find(|(mark, own)| self.calm && own.accepted && !own.delivered && self.stays(mark.origin));
        match owed {
            Some((mark, _)) => Err(format!("{mark} was accepted but never delivered at its sender")),
            None => Ok(()),
        }
    }
}

impl SelfDelivery {
    /// Whether the sender's node is up.
    fn stays(&self, origin: Process) -> bool {
        let mut processes = self.stands.of_incarnation(origin.incarnation());
        processes.any(|(_, stand)| stand.is_live())
    }

    /// Whether a process is the one to which a sender's messages come back.
    fn serves(&self, process: Process, origin: Process) -> bool {
        let takes_part = self.stands.get(origin).is_some_and(|stand| stand.started);
        process == origin || process.incarnation() == origin.incarnation() && !takes_part
    }

    fn on_deliver(&mut self, process: Process, mark: Mark, id: Option<MessageId>) -> Verdict {
        if !self.serves(process, mark.origin) {
            self.on_foreign(process, mark)?;
            let foreign = id.filter(|_| process.incarnation() != mark.origin.incarnation());
            return foreign.map_or(Ok(()), |id| Err(format!("{mark} carries the id {id}, but was not sent here")));
        }
        self.ahead.of(mark.origin).remove(&mark.count);
        let own = self.own.of(mark);
        own.delivered = true;
        if own.id == id {
            return Ok(());
        }
        let name = |id: Option<MessageId>| id.map_or("none".into(), |id| id.to_string());
        Err(format!("{mark} was accepted with id {}, delivered with {}", name(own.id), name(id)))
    }

    /// Another delivers a message: its sender has delivered it, or is still in that view and will.
    fn on_foreign(&mut self, process: Process, mark: Mark) -> Verdict {
        let Some(view) = self.stands.id(process) else { return Ok(()) };
        if self.own.of(mark).delivered {
            return Ok(());
        }
        let gone = |stand: &super::process_views::Stand| {
            stand.is_live() && stand.id().is_some_and(|id| id.number > view.number)
        };
        if self
            .stands
            .of_incarnation(mark.origin.incarnation())
            .any(|(p, stand)| self.serves(p, mark.origin) && gone(stand))
        {
            return Err(format!("{mark} is delivered in {view}, which its sender left without delivering it"));
        }
        self.ahead.of(mark.origin).insert(mark.count, view);
        Ok(())
    }

    fn goes_on(&mut self, process: Process, from: ViewId) -> Verdict {
        let ahead =
            self.ahead.of_incarnation(process.incarnation()).filter(|(origin, _)| self.serves(process, *origin));
        let mut owed = ahead.flat_map(|(origin, ahead)| ahead.iter().map(move |(count, view)| (origin, *count, *view)));
        match owed.find(|(.., view)| *view == from) {
            Some((origin, count, _)) => {
                let mark = Mark { origin, count };
                Err(format!("it went on from {from} without its own {mark}, which others delivered there"))
            }
            None => Ok(()),
        }
    }
}
