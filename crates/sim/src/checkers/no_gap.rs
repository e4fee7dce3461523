//! TO2: no gap. All members of a view deliver the same messages in it, one for one: nobody leaves out what another
//! delivered in between. (While a view is closed, messages may be left out: that is the matter of TO3 and VS.)
use super::process_views::Stands;
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::message::{Mark, Process};
use crate::trace::{DeliveryRecord, Occurrence, PerProcess, TraceEvent};
use consort_types::{OrderStream, ViewId};
use std::collections::BTreeMap;

/// A message in the order of a view; none where it was too short for its name.
type Slot = Option<Mark>;

/// How far a process is in its view's order; none where it came late and has not found its place yet.
type OrderProgress = BTreeMap<OrderStream, Option<usize>>;

/// Whoever comes first in a view says what comes next in it.
#[derive(Debug, Default)]
pub(super) struct Gap {
    stands: Stands,
    next: PerProcess<OrderProgress>,
    orders: BTreeMap<ViewId, BTreeMap<OrderStream, Vec<Slot>>>,
    promised: PromisedOrder,
}

impl Checker for Gap {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "TO2", name: "no gap" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match (&event.what, self.stands.see(event)) {
            (Occurrence::View(_), Some(_)) => self.next.of(event.process).clear(),
            (Occurrence::Deliver(delivered), _) => return self.on_deliver(event.process, delivered),
            _ => {}
        }
        Ok(())
    }
}

impl Gap {
    /// Judges what the engine promises to stand in one order.
    pub(super) fn new(promised: PromisedOrder) -> Self {
        Self { promised, ..Self::default() }
    }

    fn on_deliver(&mut self, process: Process, delivered: &DeliveryRecord) -> Verdict {
        let Some(view) = self.stands.id(process).filter(|_| !self.stands.is_closing(process)) else { return Ok(()) };
        if delivered.mark.is_none() && !delivered.nameless || !self.promised.is_ordered(delivered) {
            return Ok(()); // nobody sent it: another checker's; or it stands nowhere
        }
        let partial = self.stands.is_partial(process);
        let order = self.orders.entry(view).or_default().entry(delivered.stream).or_default();
        let next = self.next.of(process).entry(delivered.stream).or_insert(if partial { None } else { Some(0) });
        match next {
            Some(at) => follow(order, at, delivered.mark),
            None => {
                let found = delivered.mark.and_then(|mark| order.iter().position(|slot| *slot == Some(mark)));
                *next = found.map(|at| at + 1);
                Ok(())
            }
        }
    }
}

fn follow(order: &mut Vec<Slot>, next: &mut usize, mark: Slot) -> Verdict {
    match (order.get(*next).copied(), mark) {
        (None, mark) => order.push(mark),
        (Some(None), Some(mark)) => order[*next] = Some(mark),
        (Some(_), None) => {}
        (Some(slot), mark) if slot == mark => {}
        _ if order[..*next].contains(&mark) => return Ok(()), // disorder or a duplicate: not ours
        (Some(slot), Some(mark)) => {
            let left_out = slot.map_or("a message".into(), |left_out| left_out.to_string());
            *next += order[*next..].iter().position(|other| *other == Some(mark)).map_or(0, |skipped| skipped + 1);
            return Err(format!("{mark} follows, but others delivered {left_out} before it"));
        }
    }
    *next += 1;
    Ok(())
}
