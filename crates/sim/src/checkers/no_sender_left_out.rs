//! TO3: what is left out has no sender here. If a process, while it closes a view, delivers a message and has not
//! delivered one that stands before it in that view, the sender of that one did not move along.
use super::process_views::{LeftBehind, Stands};
use super::{Checker, PromiseRule, Verdict};
use crate::message::{Mark, Process, ProcessIncarnation};
use crate::trace::{DeliveryRecord, Occurrence, PerProcess, TraceEvent};
use consort_types::{OrderStream, Position, ViewId};
use std::collections::BTreeMap;

/// What a process delivered of a view: up to `regular` all there is, then these.
#[derive(Clone, Debug, Default)]
struct ClosedSegment {
    regular: Option<Position>,
    closing: Vec<Position>,
}

#[derive(Debug)]
struct Closed {
    process: Process,
    view: ViewId,
    together: Vec<ProcessIncarnation>,
    segment: ClosedSegment,
}

/// See the module. Needs positions, and looks at the first stream only; what nobody delivered does not exist.
#[derive(Debug, Default)]
pub(super) struct Holes {
    stands: Stands,
    segments: PerProcess<ClosedSegment>,
    closed: Vec<Closed>,
    known: BTreeMap<ViewId, BTreeMap<Position, Mark>>,
}

impl Checker for Holes {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "TO3", name: "holes have no sender here" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match (&event.what, self.stands.see(event)) {
            (Occurrence::Deliver(delivered), _) => self.on_deliver(event.process, delivered),
            (Occurrence::View(_), Some(change)) => self.on_change(event.process, &change),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        self.closed.iter().try_for_each(|closed| self.judge(closed))
    }
}

impl Holes {
    fn on_deliver(&mut self, process: Process, delivered: &DeliveryRecord) {
        let (Some(position), Some(view)) = (delivered.position, self.stands.id(process)) else { return };
        if delivered.stream != OrderStream(0) {
            return;
        }
        let segment = self.segments.of(process);
        if self.stands.is_closing(process) {
            segment.closing.push(position);
        } else {
            segment.regular = Some(position);
        }
        if let Some(mark) = delivered.mark {
            self.known.entry(view).or_default().insert(position, mark);
        }
    }

    fn on_change(&mut self, process: Process, change: &LeftBehind) {
        let segment = std::mem::take(self.segments.of(process));
        if let LeftBehind { from: Some(from), together: Some(together), .. } = change
            && !segment.closing.is_empty()
        {
            let together = together.members.clone();
            self.closed.push(Closed { process, view: from.id, together, segment });
        }
    }

    fn judge(&self, closed: &Closed) -> Verdict {
        let Closed { process, view, together, segment } = closed;
        let Some(last) = segment.closing.last() else { return Ok(()) };
        let first = segment.regular.map_or(Position(0), |position| Position(position.0 + 1));
        let known = self.known.get(view).into_iter().flat_map(|known| known.range(first..*last));
        let mut left_out = known.filter(|(position, _)| segment.closing.binary_search(position).is_err());
        match left_out.find(|(_, mark)| together.contains(&mark.origin.incarnation())) {
            Some((position, mark)) => Err(format!(
                "{process} closed {view} with the sender of {mark} at {position}, and left it out before {last}"
            )),
            None => Ok(()),
        }
    }
}
