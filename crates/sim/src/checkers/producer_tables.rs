//! PT: at one place of a view that counts all members have the same table of producers, and in the end, too.
use super::history::History;
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::message::ProcessIncarnation;
use crate::trace::{NumberedRecord, NumberedStep, Occurrence, TraceEvent};
use std::collections::BTreeMap;

/// A place: the view, its lowest member, and the position.
type TablePlace = (u64, ProcessIncarnation, u64);

/// A table as a node had it: whether the view counts, of which one it is, and what it says.
type SeenTable = (bool, u64, u64);

/// See the module.
#[derive(Debug)]
pub(super) struct ProducerTables {
    history: History,
    known: BTreeMap<TablePlace, (SeenTable, ProcessIncarnation)>,
    /// Each live node's last, with the view it was seen in: a node's programs may be told of that view later.
    last: BTreeMap<ProcessIncarnation, (u64, SeenTable)>,
}

impl Checker for ProducerTables {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "PT", name: "the same producers everywhere" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        self.history.see(event);
        match &event.what {
            Occurrence::Numbered(step) if step.step == NumberedStep::Table => self.on_table(event, step),
            Occurrence::Crash | Occurrence::Left => {
                self.last.remove(&event.process.incarnation());
                Ok(())
            }
            Occurrence::Quiet => self.in_the_end(),
            _ => Ok(()),
        }
    }
}

impl ProducerTables {
    pub(super) fn new(nodes: u16, promised: PromisedOrder) -> Self {
        Self { history: History::new(nodes, promised), known: BTreeMap::new(), last: BTreeMap::new() }
    }

    fn on_table(&mut self, event: &TraceEvent, step: &NumberedRecord) -> Verdict {
        let NumberedRecord { view, at, flag: counts, number: of, sum, .. } = *step;
        let incarnation = event.process.incarnation();
        let table = (counts, of, sum);
        self.last.insert(incarnation, (view, table));
        let Some(lowest) = self.lowest(view, incarnation) else { return Ok(()) };
        let place = (view, lowest, at);
        let (other, of) = *self.known.entry(place).or_insert((table, incarnation));
        if counts != other.0 || counts && table != other {
            return Err(format!(
                "has another table of producers at {at} of view {view} than {of}: {table:?}, {other:?}"
            ));
        }
        Ok(())
    }

    fn in_the_end(&self) -> Verdict {
        let counts = self.last.iter().filter(|(_, (_, (counts, ..)))| *counts);
        let mut tables = counts.filter_map(|(incarnation, (view, table))| {
            let lowest = self.lowest(*view, *incarnation)?;
            Some((*incarnation, (*view, lowest), *table))
        });
        let Some((first, view, table)) = tables.next() else { return Ok(()) };
        match tables.find(|(_, other, at)| *other == view && *at != table) {
            Some((incarnation, ..)) => Err(format!("{first} and {incarnation} have different tables of producers")),
            None => Ok(()),
        }
    }

    /// The lowest member of a view of that number, as one of them was told it.
    fn lowest(&self, view: u64, incarnation: ProcessIncarnation) -> Option<ProcessIncarnation> {
        self.history.members(view, incarnation)?.first().copied()
    }
}
