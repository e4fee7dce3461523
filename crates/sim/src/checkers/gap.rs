//! TO2: no gap. All members of a view deliver the same messages in it, one for one: nobody leaves out what another
//! delivered in between.
use super::{Checker, Rule, Verdict};
use crate::message::{Mark, Process};
use crate::trace::{Event, PerProcess, What};
use consort_types::{Stream, ViewId};
use std::collections::BTreeMap;

type Key = (ViewId, u64, bool);

/// Whoever comes first in a view says what comes next in it.
#[derive(Debug, Default)]
pub(super) struct Gap {
    view_of: PerProcess<Option<usize>>,
    next: PerProcess<BTreeMap<Stream, usize>>,
    views: BTreeMap<Key, usize>,
    orders: Vec<BTreeMap<Stream, Vec<Mark>>>,
}

impl Checker for Gap {
    fn rule(&self) -> Rule {
        Rule { id: "TO2", name: "no gap" }
    }

    fn see(&mut self, event: &Event) -> Verdict {
        match &event.what {
            What::View(view) => self.on_view(event.process, (view.id, view.step, view.transitional)),
            What::Deliver(delivered) => {
                let Some(mark) = delivered.mark else { return Ok(()) };
                return self.on_deliver(event.process, delivered.stream, mark);
            }
            _ => {}
        }
        Ok(())
    }
}

impl Gap {
    fn on_view(&mut self, process: Process, key: Key) {
        let fresh = self.orders.len();
        let view = *self.views.entry(key).or_insert(fresh);
        if view == fresh {
            self.orders.push(BTreeMap::new());
        }
        *self.view_of.of(process) = Some(view);
        self.next.of(process).clear();
    }

    fn on_deliver(&mut self, process: Process, stream: Stream, mark: Mark) -> Verdict {
        let Some(view) = *self.view_of.of(process) else {
            return Err(format!("{mark} is delivered before any view"));
        };
        let order = self.orders[view].entry(stream).or_default();
        let next = self.next.of(process).entry(stream).or_default();
        match order.get(*next) {
            None => order.push(mark),
            Some(expected) if *expected == mark => {}
            Some(_) if order[..*next].contains(&mark) => return Ok(()), // disorder or a duplicate: not ours
            Some(expected) => {
                let left_out = *expected;
                *next += order[*next..].iter().position(|other| *other == mark).map_or(0, |skipped| skipped + 1);
                return Err(format!("{mark} follows, but others delivered {left_out} before it"));
            }
        }
        *next += 1;
        Ok(())
    }
}
