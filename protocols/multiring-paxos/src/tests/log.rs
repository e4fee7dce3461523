//! Logs of abstract rings: values that may come twice, too early or too late, skips, and changes of subscriptions.
use crate::log::LogState;
use crate::slot::{RingId, Slot};
use crate::subscription::Change;
use std::collections::{BTreeMap, VecDeque};

/// Rules of counting slots, broken on purpose.
#[cfg_attr(not(feature = "mutants"), allow(dead_code, reason = "nothing breaks them"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// A late skip leads back.
    LateSkipLeadsBack,
    /// Values count though they come twice.
    RepeatsCount,
    /// A checkpoint does not hold how far each sender's values count.
    FilterForgotten,
    /// A checkpoint holds what was handed out, and not how far the slots had come.
    CreditForgotten,
}

/// What is decided at an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The `number`-th value of a sender, with so many messages.
    Value { sender: u8, number: u64, messages: u8 },
    /// The slots below are nobody's.
    Skip(Slot),
    /// A command.
    Change(Change),
}

/// What fills a slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    Message { sender: u8, number: u64, part: u8 },
    Change { subscriber: u64, number: u64, ring: RingId, index: u64 },
}

/// What was handed out beside its name: the change, where it is one.
pub type Known = (Item, Option<Change>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    index: u64,
    slot: Slot,
    last: BTreeMap<u8, u64>,
    broken: Option<Fold>,
}

impl State {
    pub const START: Self = Self { index: 0, slot: Slot::FIRST, last: BTreeMap::new(), broken: None };

    /// It counts by a broken rule from here on.
    pub fn breaking(self, broken: Option<Fold>) -> Self {
        Self { broken, ..self }
    }

    /// What is left of it in a checkpoint that forgets something.
    pub fn forget(mut self, handed_out: Slot) -> Self {
        match self.broken {
            Some(Fold::FilterForgotten) => self.last.clear(),
            Some(Fold::CreditForgotten) => self.slot = self.slot.min(handed_out.plus(1)),
            _ => {}
        }
        self
    }

    fn counts(&self, sender: u8, number: u64) -> bool {
        let last = self.last.get(&sender).copied().unwrap_or(0);
        number == last + 1 || number <= last && self.broken == Some(Fold::RepeatsCount)
    }
}

impl LogState for State {
    type Entry = Entry;
    type Item = Known;

    fn index(&self) -> u64 {
        self.index
    }

    fn slot(&self) -> Slot {
        self.slot
    }

    fn items(&self, entry: &Entry) -> VecDeque<Known> {
        match entry {
            Entry::Value { sender, number, messages } if self.counts(*sender, *number) => {
                let message = |part| (Item::Message { sender: *sender, number: *number, part }, None);
                (0..*messages).map(message).collect()
            }
            Entry::Change(change) => {
                let Change { subscriber, number, ring, .. } = *change;
                let item = Item::Change { subscriber: subscriber.0, number, ring, index: self.index };
                [(item, Some(*change))].into()
            }
            Entry::Value { .. } | Entry::Skip(_) => VecDeque::new(),
        }
    }

    fn pass(&mut self, entry: Entry) {
        //= MP10 test
        let filled = self.items(&entry).len() as u64;
        self.slot = self.slot.plus(filled);
        match entry {
            Entry::Value { sender, number, .. } if filled > 0 => {
                let last = self.last.entry(sender).or_default();
                *last = number.max(*last);
            }
            Entry::Skip(to) if self.broken == Some(Fold::LateSkipLeadsBack) => self.slot = to,
            Entry::Skip(to) => self.slot = self.slot.max(to),
            Entry::Value { .. } | Entry::Change(_) => {}
        }
        self.index += 1;
    }

    fn change(item: &Known) -> Option<Change> {
        item.1
    }

    fn bytes(entry: &Entry) -> usize {
        match entry {
            Entry::Value { messages, .. } => 20 + usize::from(*messages) * 10,
            Entry::Skip(_) | Entry::Change(_) => 20,
        }
    }
}
