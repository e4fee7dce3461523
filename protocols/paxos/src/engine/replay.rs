//! What is retained, read again by position.
use super::Paxos;
use crate::ballot::{Item, LogId};
use crate::learner::{Learner, Meaning};
use consort_order::{Delivery, Retained};
use consort_types::{MemberId, OrderStream, Position};
use consort_wire::pack::Body;
use std::collections::VecDeque;

/// At which instances the messages of the log stand: only values that count are here.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// The place of the first message of a value, and the value's instance. Both grow.
    starts: VecDeque<(u64, u64)>,
}

impl Places {
    /// Takes the next instance into account, and forgets those that the learner retains no more.
    pub fn note(&mut self, at: u64, meaning: &Meaning, learner: &Learner) {
        if let Meaning::Messages { place, .. } = meaning {
            self.starts.push_back((*place, at));
        }
        while self.starts.front().is_some_and(|(_, at)| learner.entry(*at).is_none()) {
            self.starts.pop_front();
        }
    }

    /// The values that are retained.
    fn retained<'a>(&'a self, learner: &'a Learner) -> impl DoubleEndedIterator<Item = (u64, u64)> + 'a {
        let from = self.starts.partition_point(|(_, at)| learner.entry(*at).is_none());
        self.starts.range(from..).copied()
    }

    /// In which instance the message at a place came, or the first that is retained.
    pub fn instance(&self, place: u64) -> Option<u64> {
        self.from(place).next().map(|(_, at)| at)
    }

    /// Where to begin for the message at a place: the value that it came in, and all behind.
    fn from(&self, place: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let behind = self.starts.partition_point(|(first, _)| *first <= place);
        self.starts.range(behind.saturating_sub(1)..).copied()
    }
}

impl Paxos {
    pub(super) fn retained_places(&self) -> Option<Retained> {
        //= X90
        if self.log == LogId::NONE {
            return None;
        }
        let last = self.learner.place();
        let first = self.places.retained(&self.learner).next().map_or(last + 1, |(place, _)| place);
        Some(Retained { order: self.log.0, first: Position(first), last: Position(last) })
    }

    /// Shows the messages from a place on.
    pub(super) fn show_from(&self, from: u64, see: &mut dyn FnMut(&Delivery) -> bool) {
        if !self.retained_places().is_some_and(|retained| retained.contains(Position(from))) {
            return;
        }
        for (place, at) in self.places.from(from) {
            let Some(entry) = self.learner.entry(at) else { return };
            let (Item::Value(id), Some(body)) = (&entry.item, &entry.body) else { return };
            if !each_from(id.sender, body, place, from, see) {
                return;
            }
        }
    }
}

/// Shows the messages of one value, the first of which has this place; false once no more are wanted.
fn each_from(sender: MemberId, body: &Body, place: u64, from: u64, see: &mut dyn FnMut(&Delivery) -> bool) -> bool {
    let placed = (place..).zip(body.chunks()).skip_while(|(place, _)| *place < from);
    for (place, chunk) in placed {
        let delivery = Delivery {
            stream: OrderStream(0),
            position: Position(place),
            sender,
            id: None,
            class: chunk.class,
            service: chunk.service,
            payload: chunk.bytes.into(),
        };
        if !see(&delivery) {
            return false;
        }
    }
    true
}
