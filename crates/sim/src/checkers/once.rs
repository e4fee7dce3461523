//! PD: a producer's send is delivered once, in order, or not at all. Within a view a client is given its messages without a
//! gap. It is given no send twice; where no majority keeps the order, one that left a view apart from those whose table was
//! gone on with may be, if those had not been given it. What was refused is given to nobody, nor what a connection sent
//! after another one was opened.
use super::history::History;
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{NumberedRecord, NumberedStep, Occurrence, TraceEvent};
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Debug)]
pub(super) struct Once {
    history: History,
    promised: PromisedOrder,
    /// Attempts that nobody may be given from this view on, and why.
    void: BTreeMap<(u16, u64), (u64, &'static str)>,
    given: BTreeSet<(u16, u64)>,
    /// Which connection of each producer was told last that it is open, and the view that counted then.
    open: BTreeMap<u16, (Process, u64)>,
    /// Who was given a send, in which views.
    receivers: BTreeMap<(u16, u64), Vec<(Process, u64)>>,
    /// The view of the last message of a producer that a client was given, and its number.
    last: BTreeMap<(Process, u16), (u64, u64)>,
}

impl Checker for Once {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "PD", name: "sends are delivered once" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        self.history.see(event);
        let Occurrence::Numbered(step) = &event.what else { return Ok(()) };
        let attempt = (step.producer, step.attempt);
        match step.step {
            NumberedStep::Opened => {
                let view = self.history.latest();
                self.open.insert(step.producer, (event.process, view));
            }
            NumberedStep::Sent => {
                let taken_over = self.open.get(&step.producer).filter(|(open, _)| *open != event.process);
                if let Some((_, view)) = taken_over {
                    self.void.insert(attempt, (*view, "was sent after another connection was opened"));
                }
            }
            NumberedStep::Refused => {
                self.void.insert(attempt, (0, "was refused"));
                if self.given.contains(&attempt) {
                    return Err(format!("is refused send {}, which was given to somebody", step.send));
                }
            }
            NumberedStep::Given => return self.on_given(event.process, step),
            _ => {}
        }
        Ok(())
    }
}

impl Once {
    pub(super) fn new(nodes: u16, promised: PromisedOrder) -> Self {
        Self {
            history: History::new(nodes, promised),
            promised,
            void: BTreeMap::new(),
            given: BTreeSet::new(),
            open: BTreeMap::new(),
            receivers: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    fn on_given(&mut self, process: Process, step: &NumberedRecord) -> Verdict {
        let NumberedRecord { producer, send, attempt, number, .. } = *step;
        let view = self.history.view_of(process);
        // Who is in a view that the others have left delivers there what is its own.
        if let Some((_, why)) = self.void.get(&(producer, attempt)).filter(|(from, _)| view >= *from) {
            return Err(format!("is given send {send} of producer {producer} under {number}, which {why}"));
        }
        self.given.insert((producer, attempt));
        let before = self.last.insert((process, producer), (view, number));
        // Only the first client of a node is in the group that gets all of them.
        let behind = |last: u64| if process.client == 0 { number == last + 1 } else { number > last };
        if let Some((_, last)) = before.filter(|(of, last)| *of == view && !behind(*last)) {
            return Err(format!("is given number {number} of producer {producer} behind {last}"));
        }
        let receivers = self.receivers.entry((producer, send)).or_default();
        let first = receivers.iter().find(|(other, _)| *other == process).map(|(_, view)| *view);
        receivers.push((process, view));
        match first {
            Some(first) if !self.is_excused((producer, send), process.incarnation(), (first, view)) => {
                Err(format!("is given send {send} of producer {producer} again, in view {view} after {first}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the first view was left by those whose table was gone on with, without the one that is given a send again, and
    /// without the send.
    fn is_excused(&self, send: (u16, u64), incarnation: ProcessIncarnation, (first, again): (u64, u64)) -> bool {
        if self.promised.quorum || first == again {
            return false;
        }
        let Some(heir) = self.history.heir(first) else { return true };
        let receivers = self.receivers.get(&send).into_iter().flatten();
        let has_it = receivers.into_iter().any(|(process, view)| process.incarnation() == heir && *view == first);
        !has_it && !self.history.went_together(first, incarnation, heir)
    }
}
