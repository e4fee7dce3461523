//! What the merge must know of a ring's log.
use crate::slot::Slot;
use crate::subscription::Change;
use std::collections::VecDeque;
use std::fmt::Debug;

//= MP10
/// What follows from a ring's log below an index: slots are counted from there on. The same at every reader. All that it holds
/// goes into checkpoints, so it also holds what decides whether an entry counts.
pub trait LogState: Clone + Debug {
    /// What is decided at one index.
    type Entry: Clone + Debug;
    /// What fills one slot.
    type Item: Clone + Debug;

    /// The index of the next entry.
    fn index(&self) -> u64;

    /// The slot of the next item. Nothing that comes stands below.
    fn slot(&self) -> Slot;

    /// What the next entry brings: one item for each slot from [`LogState::slot`] on. An entry that does not count brings
    /// nothing, and so does a skip.
    fn items(&self, entry: &Self::Entry) -> VecDeque<Self::Item>;

    /// Passes the next entry: the index grows by one, the slot by what the entry brought, or to where a skip leads.
    fn pass(&mut self, entry: Self::Entry);

    /// The change of subscriptions that an item is, if it is one.
    fn change(item: &Self::Item) -> Option<Change>;

    /// What an entry takes in memory, in bytes.
    fn bytes(entry: &Self::Entry) -> usize;
}
