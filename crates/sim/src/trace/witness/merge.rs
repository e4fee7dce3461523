//! The events of many witnesses as one trace.
use crate::message::{Mark, Process};
use crate::trace::{Occurrence, PerMessage, PerProcess, TraceEvent};

/// Puts the events of all witnesses for one set of groups in the order of their times. A witness's own events keep their
/// order where times are equal.
///
/// A client numbers all its messages; in the trace only those to these groups have numbers, without gaps, as the checkers
/// want it.
#[derive(Debug, Default)]
pub struct Merge {
    /// By the sender's number, the trace's.
    numbers: PerMessage<u64>,
    last: PerProcess<u64>,
}

impl Merge {
    /// The next part of the trace. Whatever is handed in must have happened after all that was handed in before.
    pub fn next(&mut self, mut events: Vec<TraceEvent>) -> Vec<TraceEvent> {
        events.sort_by_key(|event| event.at);
        events.iter_mut().for_each(|event| self.number(event.process, &mut event.what));
        events
    }

    fn number(&mut self, process: Process, what: &mut Occurrence) {
        match what {
            Occurrence::Submit(submitted) => {
                let last = self.last.of(process);
                *last += 1;
                *self.numbers.of(Mark { origin: process, count: submitted.count }) = *last;
                submitted.count = *last;
            }
            Occurrence::Deliver(delivered) => delivered.mark = delivered.mark.and_then(|mark| self.known(mark)),
            Occurrence::Ordered(count) => {
                *count = self.known(Mark { origin: process, count: *count }).map_or(0, |m| m.count)
            }
            _ => {}
        }
    }

    /// The mark in the trace; none where nobody sent such a message to these groups.
    fn known(&self, mark: Mark) -> Option<Mark> {
        let count = self.numbers.get(mark).copied().filter(|count| *count > 0)?;
        Some(Mark { count, ..mark })
    }
}
