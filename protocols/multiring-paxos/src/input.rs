//! One ring at a reader: entries that wait, and how far they are handed out.
use crate::log::LogState;
use crate::slot::Slot;
use crate::subscription::{Change, Part, SubscriberId, Wish};
use std::collections::VecDeque;

/// See the module.
#[derive(Clone, Debug)]
pub struct Input<S: LogState> {
    /// What follows from all that was passed: the first entry that waits comes next.
    pub state: S,
    /// What this ring means for the merge.
    pub part: Part,
    entries: VecDeque<S::Entry>,
    bytes: usize,
    /// What the first entry has yet to bring, and how much of it was taken.
    open: VecDeque<S::Item>,
    taken: u64,
}

impl<S: LogState> Input<S> {
    /// Reads from here on.
    pub const fn new(state: S, part: Part) -> Self {
        Self { state, part, entries: VecDeque::new(), bytes: 0, open: VecDeque::new(), taken: 0 }
    }

    /// The index that is to come next.
    pub fn end(&self) -> u64 {
        self.state.index() + self.entries.len() as u64
    }

    /// What waits, in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there is room for another entry of so many bytes; for one there always is.
    pub fn has_room(&self, bytes: usize, budget: usize) -> bool {
        //= MP12
        self.entries.is_empty() || self.bytes + bytes <= budget
    }

    /// Takes the entry that follows.
    pub fn push(&mut self, entry: S::Entry) {
        self.bytes += S::bytes(&entry);
        self.entries.push_back(entry);
        self.settle();
    }

    /// The slot of the item that is next, or below which nothing comes.
    pub fn reached(&self) -> Slot {
        self.state.slot().plus(self.taken)
    }

    /// The same, but for what does not count.
    pub fn slot(&self) -> Slot {
        match self.part {
            Part::Merged { from, .. } => self.reached().max(from),
            Part::Cached { .. } => self.reached(),
        }
    }

    /// Whether an item is there to be taken.
    pub fn has_item(&self) -> bool {
        !self.open.is_empty()
    }

    /// How many entries wait.
    pub fn waiting(&self) -> usize {
        self.entries.len()
    }

    /// Whether it was left and has brought all that counts.
    pub fn is_over(&self) -> bool {
        matches!(self.part, Part::Merged { until: Some(until), .. } if self.slot() > until)
    }

    /// Takes the next item.
    pub fn take(&mut self) -> Option<S::Item> {
        let item = self.open.pop_front()?;
        self.taken += 1;
        self.settle();
        Some(item)
    }

    /// From here on it is merged from this slot on.
    pub fn merge_from(&mut self, from: Slot) {
        self.part = Part::Merged { from, until: None };
        self.settle();
    }

    /// Opens the first entry that brings something, and drops what does not count. Skips and void entries are passed: one
    /// step each, however far they lead.
    fn settle(&mut self) {
        //= MP03
        loop {
            if let Part::Merged { from, .. } = self.part {
                while !self.open.is_empty() && self.reached() < from {
                    self.open.pop_front();
                    self.taken += 1;
                }
            }
            if !self.open.is_empty() {
                return;
            }
            if self.taken > 0 {
                self.pass_first();
            }
            let Some(first) = self.entries.front() else { return };
            self.open = self.state.items(first);
            if self.open.is_empty() {
                self.pass_first();
            }
        }
    }

    fn pass_first(&mut self) {
        self.taken = 0;
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= S::bytes(&entry);
            self.state.pass(entry);
        }
    }

    /// Passes what is cached up to the copy of a change later than `done` that joins this ring. What follows it is kept.
    pub fn seek(&mut self, subscriber: SubscriberId, done: u64) {
        //= MP22
        while self.part == (Part::Cached { copy: None }) && !self.open.is_empty() {
            let joins =
                |change: &Change| change.subscriber == subscriber && change.number > done && change.wish == Wish::Join;
            let changes = self.open.iter().map(|item| S::change(item).filter(joins));
            let found = changes.zip(0..).find_map(|(change, at)| Some((change?.number, self.state.slot().plus(at))));
            match found {
                Some(copy) => self.part = Part::Cached { copy: Some(copy) },
                None => {
                    self.open.clear();
                    self.pass_first();
                    self.settle();
                }
            }
        }
    }
}
