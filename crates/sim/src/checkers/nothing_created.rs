//! NC (part of D1): nothing created, nothing changed. Every delivered message was submitted before, once, by the process that the
//! delivery names as its sender, with the same bytes, class and service level.
use super::{Checker, PromiseRule, Verdict};
use crate::message::Mark;
use crate::trace::{DeliveryRecord, Occurrence, PerMessage, Submitted, TraceEvent};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Created {
    submitted: PerMessage<Option<Submitted>>,
}

impl Checker for Created {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "NC", name: "nothing created" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match &event.what {
            Occurrence::Submit(submitted) => {
                let mark = Mark { origin: event.process, count: submitted.count };
                *self.submitted.of(mark) = Some(*submitted);
                Ok(())
            }
            Occurrence::Deliver(delivered) => self.on_deliver(delivered),
            _ => Ok(()),
        }
    }
}

impl Created {
    fn on_deliver(&self, delivered: &DeliveryRecord) -> Verdict {
        if delivered.nameless {
            return Ok(());
        }
        let Some(mark) = delivered.mark else {
            let DeliveryRecord { len, sender, .. } = delivered;
            let sender = sender.map_or("somebody".into(), |sender| sender.node.to_string());
            return Err(format!("{len} bytes said to be sent by {sender} were never submitted"));
        };
        let Some(submitted) = self.submitted.get(mark).and_then(Option::as_ref) else {
            return Err(format!("{mark} was never submitted"));
        };
        let wrong = |what: &str| Err(format!("{mark} has another {what} than when it was submitted"));
        if delivered.sender.is_some_and(|sender| !sender.may_be(mark.origin)) {
            return wrong("sender");
        }
        if delivered.len != submitted.len {
            return wrong("length");
        }
        if !delivered.intact {
            return wrong("content");
        }
        if delivered.class.zip(submitted.class).is_some_and(|(got, sent)| got != sent) {
            return wrong("class");
        }
        if delivered.service != submitted.service { wrong("service level") } else { Ok(()) }
    }
}
