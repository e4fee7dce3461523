//! How much a copy has of the log of a term.
use crate::durable::log::Item;
use std::collections::VecDeque;

/// Bytes of entries that come while others are awaited; beyond that they are asked for later.
const AHEAD_MAX: usize = if cfg!(test) { 64 } else { 16 << 20 };

/// How much of the term's log is here.
#[derive(Clone, Debug)]
pub(super) enum Taking {
    /// Its own hello is not among those of the meeting yet.
    Unheard,
    /// It lacks what is in checkpoints only.
    Lacks,
    Parts(Parts),
    /// All of it, up to the last entry.
    Whole,
}

/// Entries behind what it has in common with the log of the term.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// The index of the last entry that both have.
    pub common: u64,
    pub items: Vec<Item>,
    /// Those that came from the order meanwhile, up to the last.
    ahead: VecDeque<(u64, Item)>,
    ahead_bytes: usize,
}

impl Parts {
    pub const fn new(common: u64) -> Self {
        Self { common, items: Vec::new(), ahead: VecDeque::new(), ahead_bytes: 0 }
    }

    /// Whether the log is here up to this entry, or further: the state of another copy can be ahead of the order here.
    pub fn covers(&self, index: u64) -> bool {
        self.next() > index
    }

    pub fn next(&self) -> u64 {
        self.common + self.items.len() as u64 + 1
    }

    /// An entry of the order. If too many wait, they are asked for later.
    pub fn note(&mut self, index: u64, item: Item) {
        self.ahead_bytes += item.1.len();
        self.ahead.push_back((index, item));
        if self.ahead_bytes > AHEAD_MAX {
            (self.ahead_bytes, self.ahead) = (0, VecDeque::new());
        }
    }

    /// Adds those that follow each other without a gap.
    pub fn join(&mut self) {
        let mut next = self.next();
        while self.ahead.front().is_some_and(|(index, _)| *index <= next)
            && let Some((index, item)) = self.ahead.pop_front()
        {
            self.ahead_bytes -= item.1.len();
            if index == next {
                self.items.push(item);
                next += 1;
            }
        }
    }
}
