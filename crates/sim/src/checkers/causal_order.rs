//! CA: causal order. What a process had delivered in a view before it submitted a message comes before that message at
//! every process that delivers it in that view. (What it had *sent* before is the matter of FIFO.)
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::message::{Mark, Process};
use crate::trace::{Occurrence, PerMessage, PerProcess, TraceEvent};
use consort_types::ViewId;
use std::rc::Rc;

/// Which message of each origin a process delivered last in its present view. Shared by all messages submitted between
/// two deliveries.
#[derive(Clone, Debug, Default)]
struct Past {
    view: Option<ViewId>,
    /// It missed the beginning of the view, or was given a message in it that nobody can name.
    partial: bool,
    latest: Rc<PerProcess<u64>>,
    /// The same of messages that are delivered before the one order.
    early: Rc<PerProcess<u64>>,
}

/// Because the order of each sender holds, one number per origin says all of what was delivered from it.
#[derive(Debug, Default)]
pub(super) struct Causal {
    pasts: PerProcess<Past>,
    known_by: PerMessage<Past>,
    promised: PromisedOrder,
}

impl Checker for Causal {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "CA", name: "causal order" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match &event.what {
            Occurrence::View(view) => {
                let view = Some(view.id);
                let past = self.pasts.of(event.process);
                if past.view != view {
                    let partial = past.view.is_none() && past.partial;
                    *past = Past { view, partial, latest: Rc::default(), early: Rc::default() };
                }
            }
            Occurrence::Start { late } => self.pasts.of(event.process).partial = *late,
            Occurrence::Submit(submitted) => self.on_submit(Mark { origin: event.process, count: submitted.count }),
            Occurrence::Deliver(delivered) => {
                self.pasts.of(event.process).partial |= delivered.nameless;
                let ordered = self.promised.is_ordered(delivered);
                return delivered.mark.map_or(Ok(()), |mark| self.on_deliver(event.process, mark, ordered));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Causal {
    /// Judges messages of the one order by all that came before them, those delivered before it by their like.
    pub(super) fn new(promised: PromisedOrder) -> Self {
        Self { promised, ..Self::default() }
    }

    fn on_submit(&mut self, mark: Mark) {
        let knows = self.pasts.of(mark.origin).clone();
        *self.known_by.of(mark) = knows;
    }

    fn on_deliver(&mut self, process: Process, mark: Mark, ordered: bool) -> Verdict {
        let here = self.pasts.of(process);
        let known = self.known_by.of(mark);
        let is_bound = known.view.is_some() && known.view == here.view && !here.partial;
        if is_bound {
            let lacking = |known: &Rc<PerProcess<u64>>, here: &Rc<PerProcess<u64>>| {
                let got = |origin| here.get(origin).copied().unwrap_or(0);
                let mut known = (!Rc::ptr_eq(known, here)).then(|| known.iter()).into_iter().flatten();
                known
                    .find(|(origin, count)| got(*origin) < **count)
                    .map(|(origin, count)| Mark { origin, count: *count })
            };
            let of_order = if ordered { lacking(&known.latest, &here.latest) } else { None };
            if let Some(earlier) = of_order.or_else(|| lacking(&known.early, &here.early)) {
                return Err(format!("{mark} although its sender had delivered {earlier} before it"));
            }
        }
        let track = if ordered { &mut here.latest } else { &mut here.early };
        let latest = Rc::make_mut(track).of(mark.origin);
        *latest = mark.count.max(*latest);
        Ok(())
    }
}
