//! TO1p: positions mean what they say. At each process they increase from delivery to delivery; a position names one
//! message, the same at every process, and a message has one position.
use super::{Checker, Rule, Verdict};
use crate::message::{Mark, Process};
use crate::trace::{Event, PerMessage, PerProcess, What};
use consort_types::{Position, Stream};
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Positions {
    last: PerProcess<BTreeMap<Stream, Position>>,
    message_at: BTreeMap<(Stream, Position), Mark>,
    position_of: PerMessage<Option<Position>>,
}

impl Checker for Positions {
    fn rule(&self) -> Rule {
        Rule { id: "TO1p", name: "positions" }
    }

    fn see(&mut self, event: &Event) -> Verdict {
        let What::Deliver(delivered) = &event.what else { return Ok(()) };
        let Some(position) = delivered.position else { return Ok(()) };
        self.increases(event.process, delivered.stream, position)?;
        delivered.mark.map_or(Ok(()), |mark| self.names_one(delivered.stream, position, mark))
    }
}

impl Positions {
    fn increases(&mut self, process: Process, stream: Stream, position: Position) -> Verdict {
        let last = self.last.of(process).insert(stream, position);
        match last {
            Some(last) if last >= position => Err(format!("position {position} of {stream} after position {last}")),
            _ => Ok(()),
        }
    }

    fn names_one(&mut self, stream: Stream, position: Position, mark: Mark) -> Verdict {
        let known = self.position_of.of(mark);
        match *known {
            Some(known) if known == position => return Ok(()),
            Some(known) => return Err(format!("{mark} stands at {position} here, at {known} elsewhere")),
            None => *known = Some(position),
        }
        match self.message_at.insert((stream, position), mark) {
            Some(other) => Err(format!("position {position} of {stream} is {mark} here, {other} elsewhere")),
            None => Ok(()),
        }
    }
}
