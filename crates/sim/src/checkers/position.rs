//! TO1p: positions mean what they say. In a view and its closing they increase from delivery to delivery at each process;
//! view and position name one message, the same at every process, and a message has one of each. (While a view is closed by
//! parts in an order of their own, positions only increase.)
use super::process_views::Stands;
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::message::{Mark, Process};
use crate::trace::{Occurrence, PerMessage, PerProcess, TraceEvent};
use consort_types::{OrderStream, Position, ViewId};
use std::collections::BTreeMap;

type OrderPlace = (ViewId, OrderStream, Position);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Positions {
    stands: Stands,
    last: PerProcess<BTreeMap<OrderStream, (ViewId, Position)>>,
    message_at: BTreeMap<OrderPlace, Mark>,
    place_of: PerMessage<Option<OrderPlace>>,
    promised: PromisedOrder,
}

impl Checker for Positions {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "TO1p", name: "positions" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        self.stands.see(event);
        let Occurrence::Deliver(delivered) = &event.what else { return Ok(()) };
        let Some(position) = delivered.position else { return Ok(()) };
        let view = self.stands.id(event.process).unwrap_or_default();
        let place = (view, delivered.stream, position);
        self.increases(event.process, place)?;
        if self.promised.per_component && self.stands.is_closing(event.process) {
            return Ok(());
        }
        delivered.mark.map_or(Ok(()), |mark| self.names_one(place, mark))
    }
}

impl Positions {
    /// Judges the positions that the engine promises to be the same everywhere.
    pub(super) fn new(promised: PromisedOrder) -> Self {
        Self { promised, ..Self::default() }
    }

    fn increases(&mut self, process: Process, (view, stream, position): OrderPlace) -> Verdict {
        match self.last.of(process).insert(stream, (view, position)) {
            Some((same, last)) if same == view && last >= position => {
                Err(format!("position {position} of {stream} after position {last}"))
            }
            _ => Ok(()),
        }
    }

    fn names_one(&mut self, place: OrderPlace, mark: Mark) -> Verdict {
        let name = |(view, _, position): OrderPlace| format!("{position} of {view}");
        let known = self.place_of.of(mark);
        match *known {
            Some(known) if known == place => return Ok(()),
            Some(known) => return Err(format!("{mark} stands at {} here, at {} elsewhere", name(place), name(known))),
            None => *known = Some(place),
        }
        match self.message_at.insert(place, mark) {
            Some(other) => Err(format!("position {} is {mark} here, {other} elsewhere", name(place))),
            None => Ok(()),
        }
    }
}
