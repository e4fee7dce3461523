//! The log of a ring of Ring Paxos, as the merge reads it.
use crate::log::LogState;
use crate::slot::Slot;
use crate::subscription::Change;
use consort_paxos::ballot::Item;
use consort_paxos::learner::{Checkpoint, Entry};
use consort_types::MemberId;
use consort_wire::pack::Chunk;
use std::collections::VecDeque;

/// What an entry takes beside its payload, in bytes.
const ENTRY: usize = 128;

/// What fills one slot of a ring's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogItem {
    /// A message.
    Message {
        /// Who sent it.
        sender: MemberId,
        /// It, whole.
        chunk: Chunk,
    },
    /// A view of the ring, by its number.
    View(u64),
    /// The word that the view of this number is primary.
    Primary(u64),
}

impl LogState for Checkpoint {
    type Entry = Entry;
    type Item = LogItem;

    fn index(&self) -> u64 {
        self.at
    }

    fn slot(&self) -> Slot {
        Slot(self.slots + 1)
    }

    fn items(&self, entry: &Entry) -> VecDeque<LogItem> {
        if !self.counts(&entry.item) {
            return VecDeque::new();
        }
        match (&entry.item, &entry.body) {
            (Item::Value(id), Some(body)) => {
                let sender = id.sender;
                body.chunks().map(|chunk| LogItem::Message { sender, chunk }).collect()
            }
            (Item::View { number, .. }, _) => [LogItem::View(*number)].into(),
            (Item::Primary(number), _) => [LogItem::Primary(*number)].into(),
            _ => VecDeque::new(),
        }
    }

    fn pass(&mut self, entry: Entry) {
        let _ = self.apply(entry.item, entry.body);
    }

    /// A daemon reads all rings: nothing changes what it subscribes.
    fn change(_item: &LogItem) -> Option<Change> {
        None
    }

    fn bytes(entry: &Entry) -> usize {
        ENTRY + entry.body.as_ref().map_or(0, |body| body.as_bytes().len())
    }
}
