//! SD: self-delivery. Every message that was accepted is delivered at its own sender, with the id that it was given;
//! nobody else sees an id.
use super::{Checker, Rule, Verdict};
use crate::message::Mark;
use crate::trace::{Event, PerMessage, PerProcess, What};
use consort_types::MessageId;

#[derive(Clone, Debug, Default)]
struct Own {
    accepted: bool,
    id: Option<MessageId>,
    delivered: bool,
}

/// See the module. A sender that takes no deliveries itself is served by the others on its node.
#[derive(Debug, Default)]
pub(super) struct SelfDelivery {
    takes_part: PerProcess<bool>,
    own: PerMessage<Own>,
}

impl Checker for SelfDelivery {
    fn rule(&self) -> Rule {
        Rule { id: "SD", name: "self-delivery" }
    }

    fn see(&mut self, event: &Event) -> Verdict {
        match &event.what {
            What::Start => *self.takes_part.of(event.process) = true,
            What::Submit(submitted) => {
                let mark = Mark { origin: event.process, count: submitted.count };
                *self.own.of(mark) = Own { accepted: true, id: submitted.id, delivered: false };
            }
            What::Deliver(delivered) => {
                let Some(mark) = delivered.mark else { return Ok(()) };
                return self.on_deliver(event, mark, delivered.own);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        match self.own.iter().find(|(_, own)| own.accepted && !own.delivered) {
            Some((mark, _)) => Err(format!("{mark} was accepted but never delivered at its sender")),
            None => Ok(()),
        }
    }
}

impl SelfDelivery {
    fn on_deliver(&mut self, event: &Event, mark: Mark, id: Option<MessageId>) -> Verdict {
        if event.process.node != mark.origin.node {
            return id.map_or(Ok(()), |id| Err(format!("{mark} carries the id {id}, but was not sent here")));
        }
        let sender_takes_part = *self.takes_part.of(mark.origin);
        let own = self.own.of(mark);
        if event.process == mark.origin || !sender_takes_part {
            own.delivered = true;
            if own.id != id {
                let name = |id: Option<MessageId>| id.map_or("none".into(), |id| id.to_string());
                return Err(format!("{mark} was accepted with id {}, delivered with {}", name(own.id), name(id)));
            }
        }
        Ok(())
    }
}
