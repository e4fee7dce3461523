//! Messages of each daemon in the order in which it sent them, whichever rings they came by.
use consort_types::{Class, MemberId};
use std::collections::BTreeMap;

/// So many bytes of a line are held at most, of each daemon and class. Nobody has more under way, but for one message alone.
pub const HELD_MAX: usize = 16 << 20;

/// The messages of one class of one daemon.
pub type Line = (MemberId, Class);

/// What stands in the merged order before its turn, in the present view.
#[derive(Clone, Debug)]
pub struct Turns<M> {
    lines: BTreeMap<Line, Held<M>>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Held<M> {
    /// So many of it had their turn.
    done: u64,
    early: BTreeMap<u64, (usize, M)>,
    bytes: usize,
}

/// What becomes of a message where it stands in the merged order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is this one's, or comes later.
    Kept,
    /// It had its turn, or more than is kept of its line came before its turn.
    Void,
}

impl<M> Default for Turns<M> {
    fn default() -> Self {
        Self { lines: BTreeMap::new(), bytes: 0 }
    }
}

impl<M> Turns<M> {
    /// The `number`-th message of a line in this view, with so many bytes.
    pub fn take(&mut self, line: Line, number: u64, bytes: usize, message: M) -> Turn {
        //= MP51
        let held = self.lines.entry(line).or_insert_with(|| Held { done: 0, early: BTreeMap::new(), bytes: 0 });
        //= MP63
        let fits = number == held.done + 1 || held.bytes + bytes <= HELD_MAX;
        if number <= held.done || held.early.contains_key(&number) || !fits {
            return Turn::Void;
        }
        held.early.insert(number, (bytes, message));
        held.bytes += bytes;
        self.bytes += bytes;
        Turn::Kept
    }

    /// The next message of a line, if it is there.
    pub fn next(&mut self, line: Line) -> Option<M> {
        //= MP51
        let held = self.lines.get_mut(&line)?;
        let first = held.early.first_entry().filter(|first| *first.key() == held.done + 1)?;
        let (bytes, message) = first.remove();
        held.done += 1;
        held.bytes -= bytes;
        self.bytes -= bytes;
        Some(message)
    }

    /// Another view holds: what did not have its turn is void, and all lines begin anew. So many messages were held.
    pub fn begin(&mut self) -> u64 {
        //= MP52
        let held = self.lines.values().map(|held| held.early.len() as u64).sum();
        *self = Self::default();
        held
    }

    /// What is held, in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}
