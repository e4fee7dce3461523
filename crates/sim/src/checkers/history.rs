//! The views that count for producers, and who remembers them: by what nodes say of their tables, and by who was in which view.
use super::PromisedOrder;
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{NumberedRecord, NumberedStep, Occurrence, TraceEvent};
use consort_types::ViewId;
use std::collections::{BTreeMap, BTreeSet};

type Incarnations = Vec<ProcessIncarnation>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct History {
    /// How many nodes are configured.
    nodes: usize,
    /// All views are in one order. Then one is enough that was in the latest view that counts, and in all that are primary since.
    one_order: bool,
    /// Who that is.
    current: BTreeSet<ProcessIncarnation>,
    /// The members of each regular view, by its number and one that was told it.
    views: BTreeMap<(u64, ProcessIncarnation), Incarnations>,
    /// Who closed it together with that one.
    closed: BTreeMap<(u64, ProcessIncarnation), Incarnations>,
    /// The regular view that a process was told last.
    present: BTreeMap<Process, ViewId>,
    counted: BTreeMap<u64, Incarnations>,
    /// Of which views each incarnation has had the table.
    of: BTreeMap<ProcessIncarnation, BTreeSet<u64>>,
    live: BTreeSet<ProcessIncarnation>,
    primary: BTreeSet<ViewId>,
    /// How often memory ended and began: see `lapses`.
    lapses: u64,
    /// Too few remember: since a node went, or a view, and until one counts again.
    lapsed: bool,
}

impl History {
    pub fn new(nodes: u16, promised: PromisedOrder) -> Self {
        Self { nodes: usize::from(nodes), one_order: promised.quorum, ..Self::default() }
    }

    pub fn see(&mut self, event: &TraceEvent) {
        let (process, incarnation) = (event.process, event.process.incarnation());
        match &event.what {
            Occurrence::Start { .. } => drop(self.live.insert(incarnation)),
            Occurrence::Crash | Occurrence::Left if self.live.remove(&incarnation) => {
                self.lapse_where_too_few_remember();
            }
            Occurrence::View(view) | Occurrence::Network(view) => {
                let place = (view.id.number, incarnation);
                if view.transitional {
                    self.closed.insert(place, view.members.clone());
                } else {
                    self.present.insert(process, view.id);
                    self.views.entry(place).or_insert_with(|| view.members.clone());
                }
            }
            Occurrence::Primary(view) if self.primary.insert(*view) && self.one_order => {
                let members = self.views.get(&(view.number, incarnation));
                self.current.retain(|other| members.is_some_and(|members| members.contains(other)));
                self.lapse_where_too_few_remember();
            }
            Occurrence::Numbered(NumberedRecord { step: NumberedStep::Table, number, flag, view, .. })
                if *number > 0 =>
            {
                self.on_table(incarnation, *number, *flag, view == number);
            }
            _ => {}
        }
    }

    fn lapse_where_too_few_remember(&mut self) {
        if !self.counted.is_empty() && !self.enough_remember(self.live.iter()) {
            self.lapse(true);
        }
    }

    /// A node has the table of a view, which counts now, and in which it may stand. One that took the table of another may
    /// have been in another view of that number, by itself.
    fn on_table(&mut self, incarnation: ProcessIncarnation, of: u64, counts: bool, stands: bool) {
        self.of.entry(incarnation).or_default().insert(of);
        let is_known = self.counted.get(&of).is_some_and(|members| members.contains(&incarnation));
        if counts && !is_known {
            self.lapse(false);
        }
        if let Some(members) = self.views.get(&(of, incarnation)).filter(|_| stands && !is_known) {
            self.counted.insert(of, members.clone());
            self.current = members.iter().copied().collect();
        }
    }

    fn lapse(&mut self, lapsed: bool) {
        if self.lapsed != lapsed {
            (self.lapsed, self.lapses) = (lapsed, self.lapses + 1);
        }
    }

    /// How often it began or ended that too few remember. What was told before the last such turn may be forgotten: what
    /// members tell that go on as too few is forgotten where the next view counts.
    pub const fn lapses(&self) -> u64 {
        self.lapses
    }

    /// The number of the view that a process is in, or that is closing.
    pub fn view_of(&self, process: Process) -> u64 {
        self.present.get(&process).map_or(0, |view| view.number)
    }

    /// The last view that counted; 0 for none.
    pub fn latest(&self) -> u64 {
        self.counted.keys().next_back().copied().unwrap_or(0)
    }

    /// The members of a view as one of them was told it.
    pub fn members(&self, view: u64, incarnation: ProcessIncarnation) -> Option<&Incarnations> {
        self.views.get(&(view, incarnation))
    }

    /// Whether one of these must know what was the latest view that counted.
    fn enough_remember<'a>(&self, mut incarnations: impl Iterator<Item = &'a ProcessIncarnation>) -> bool {
        if self.one_order {
            return incarnations.any(|incarnation| self.current.contains(incarnation));
        }
        let counted = |incarnation: &&_| self.counted.values().any(|members| members.contains(incarnation));
        2 * incarnations.filter(counted).count() > self.nodes
    }

    /// Whose table was gone on with in the next view that counted after this one; `None` if there was none.
    pub fn heir(&self, view: u64) -> Option<ProcessIncarnation> {
        let (next, members) = self.counted.range(view + 1..).next()?;
        let last = |incarnation: &ProcessIncarnation| self.of.get(incarnation)?.range(..*next).next_back().copied();
        members.iter().filter(|incarnation| last(incarnation) == Some(view)).min().copied()
    }

    /// Whether two incarnations left a view together.
    pub fn went_together(&self, view: u64, one: ProcessIncarnation, other: ProcessIncarnation) -> bool {
        self.closed.get(&(view, one)).is_some_and(|along| along.contains(&other))
    }

    /// Whether the view that is on in the end counts, or must.
    pub fn counts_in_the_end(&self) -> bool {
        let there = self.present.iter().filter(|(process, _)| self.live.contains(&process.incarnation()));
        let Some((process, view)) = there.max_by_key(|(_, view)| view.number) else { return false };
        let Some(members) = self.members(view.number, process.incarnation()) else { return false };
        let is_primary =
            self.primary.contains(view) && members.iter().all(|incarnation| self.live.contains(incarnation));
        is_primary && (self.enough_remember(members.iter()) || members.len() == self.nodes)
    }
}
