//! UA: uniform agreement, where a majority keeps the order. What anybody was given, in whatever part of the network and
//! whatever became of it, stands at its place for all: a position names one message in every view and every
//! incarnation, nobody skips what another was given in that view, and whoever goes on from a view was given all that
//! anybody was given in it.
use super::process_views::{LeftBehind, Stands};
use super::{Checker, PromiseRule, Verdict};
use crate::message::{Mark, Process};
use crate::trace::{DeliveryRecord, Occurrence, PerMessage, PerProcess, TraceEvent};
use consort_types::{OrderStream, Position, ViewId};
use std::collections::BTreeMap;

/// How many messages a view has.
#[derive(Clone, Copy, Debug, Default)]
struct Length {
    /// So many were given to somebody.
    least: u64,
    /// So many were given to whoever has gone on from it.
    all: Option<u64>,
}

/// How far a process is in its view.
#[derive(Clone, Debug, Default)]
struct Progress {
    given: u64,
    last: BTreeMap<OrderStream, Position>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Uniform {
    stands: Stands,
    progress: PerProcess<Progress>,
    lengths: BTreeMap<ViewId, Length>,
    message_at: BTreeMap<(OrderStream, Position), Mark>,
    place_of: PerMessage<Option<(OrderStream, Position)>>,
    /// Where positions leave gaps: what follows each.
    follows: Option<BTreeMap<(ViewId, OrderStream, Position), Position>>,
}

impl Checker for Uniform {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "UA", name: "uniform agreement" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match (&event.what, self.stands.see(event)) {
            (Occurrence::View(_), Some(left)) => self.on_end(event.process, &left),
            (Occurrence::Start { .. }, _) => {
                *self.progress.of(event.process) = Progress::default();
                Ok(())
            }
            (Occurrence::Deliver(delivered), _) => self.on_deliver(event.process, delivered),
            _ => Ok(()),
        }
    }
}

impl Uniform {
    /// Positions are consecutive, or leave gaps.
    pub fn new(gaps: bool) -> Self {
        Self { follows: gaps.then(BTreeMap::new), ..Self::default() }
    }

    /// What must follow a position in a view, where this position does.
    fn next_of(&mut self, view: ViewId, stream: OrderStream, last: Position, position: Position) -> Position {
        match &mut self.follows {
            Some(follows) => *follows.entry((view, stream, last)).or_insert(position),
            None => Position(last.0 + 1),
        }
    }

    fn on_end(&mut self, process: Process, left: &LeftBehind) -> Verdict {
        let progress = std::mem::take(self.progress.of(process));
        let Some(view) = left.from.as_ref().filter(|_| !left.partial) else { return Ok(()) };
        let length = self.lengths.entry(view.id).or_default();
        let given = progress.given;
        let all = *length.all.get_or_insert(given);
        if given == all && given >= length.least {
            return Ok(());
        }
        Err(format!("{given} messages of view {} were given to it, {} to others", view.id, all.max(length.least)))
    }

    fn on_deliver(&mut self, process: Process, delivered: &DeliveryRecord) -> Verdict {
        let Some(view) = self.stands.id(process) else { return Ok(()) };
        let partial = self.stands.is_partial(process);
        let progress = self.progress.of(process);
        progress.given += 1;
        let given = progress.given;
        if let Some(position) = delivered.position {
            if let Some(last) = progress.last.insert(delivered.stream, position)
                && self.next_of(view, delivered.stream, last, position) != position
            {
                return Err(format!("position {position} after position {last} in view {view}"));
            }
            self.names_one((delivered.stream, position), delivered.mark)?;
        }
        if partial {
            return Ok(());
        }
        let length = self.lengths.entry(view).or_default();
        length.least = length.least.max(given);
        match length.all {
            Some(all) if given > all => {
                Err(format!("a {given}th message in view {view}; those that have gone on from it were given {all}"))
            }
            _ => Ok(()),
        }
    }

    fn names_one(&mut self, place: (OrderStream, Position), mark: Option<Mark>) -> Verdict {
        let Some(mark) = mark else { return Ok(()) };
        let known = *self.message_at.entry(place).or_insert(mark);
        if known != mark {
            return Err(format!("position {} is {mark} here, {known} elsewhere", place.1));
        }
        match *self.place_of.of(mark).get_or_insert(place) {
            known if known == place => Ok(()),
            known => Err(format!("{mark} stands at {} here, at {} elsewhere", place.1, known.1)),
        }
    }
}
