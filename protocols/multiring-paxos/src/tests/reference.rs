//! What a subscriber must hand out, read from whole logs without any of the merge's ways.
use super::log::{Entry, Item, State};
use crate::log::LogState;
use crate::slot::{RingId, Slot};
use crate::subscription::{Change, SubscriberId, Wish};
use consort_types::Position;
use std::collections::{BTreeMap, BTreeSet};

/// What was handed out, in order.
pub type Sequence = Vec<(Position, Item)>;

/// Everything that stands in a log, by slot.
fn stands(log: &[Entry]) -> Vec<(Slot, Item, Option<Change>)> {
    let (mut state, mut all) = (State::START, Vec::new());
    for entry in log {
        let slots = (0..).map(|at| state.slot().plus(at));
        all.extend(slots.zip(state.items(entry)).map(|(slot, (item, change))| (slot, item, change)));
        state.pass(entry.clone());
    }
    all
}

/// From which slot on up to which a ring counts.
type Spans = BTreeMap<RingId, Vec<(Slot, Slot)>>;

/// The first copies of each change take effect behind the later of the two.
fn spans(rings: &[Vec<(Slot, Item, Option<Change>)>], who: SubscriberId, initial: &BTreeSet<RingId>) -> Spans {
    let mut spans: Spans = initial.iter().map(|ring| (*ring, vec![(Slot::FIRST, Slot::LAST)])).collect();
    for number in 1.. {
        let copy = |ring: usize| {
            let mut changes = rings[ring].iter().filter_map(|(slot, _, change)| Some((*slot, (*change)?)));
            changes.find(|(_, change)| change.subscriber == who && change.number == number)
        };
        let Some((_, change)) = (0..rings.len()).find_map(copy) else { break };
        let copies = (copy(change.ring.0.into()), copy(change.beside.0.into()));
        let (Some((own, _)), Some((beside, _))) = copies else { break };
        let behind = own.max(beside);
        let of_ring = spans.entry(change.ring).or_default();
        match (change.wish, of_ring.last_mut()) {
            (Wish::Join, _) => of_ring.push((behind.plus(1), Slot::LAST)),
            (Wish::Leave, Some((_, until))) => *until = behind,
            (Wish::Leave, None) => {}
        }
    }
    spans
}

/// The whole sequence.
pub fn sequence(logs: &[Vec<Entry>], who: SubscriberId, initial: &BTreeSet<RingId>) -> Sequence {
    let rings: Vec<_> = logs.iter().map(|log| stands(log)).collect();
    let mut all = Sequence::new();
    for (ring, spans) in spans(&rings, who, initial) {
        let counts = |slot: Slot| spans.iter().any(|(from, until)| (*from..=*until).contains(&slot));
        let counting = rings[usize::from(ring.0)].iter().filter(|(slot, ..)| counts(*slot));
        all.extend(counting.map(|(slot, item, _)| (slot.position(ring), item.clone())));
    }
    all.sort();
    all
}
