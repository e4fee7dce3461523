//! What is worth seeing by itself.
use super::log::{Entry, State};
use crate::log::LogState;
use crate::merge::{Config, Merge, NotTaken, Wait};
use crate::slot::{RingId, Slot};
use crate::subscription::{Change, SubscriberId, Wish};
use consort_types::Position;

const A: RingId = RingId(1);
const B: RingId = RingId(2);

fn merge(rings: &[RingId]) -> Merge<State> {
    Merge::new(Config::new(SubscriberId(1), 1_000), rings.iter().map(|ring| (*ring, State::START)))
}

/// Rings take entries in their order.
fn decide(merge: &mut Merge<State>, ring: RingId, entry: Entry) {
    let index = merge.end(ring).unwrap();
    assert_eq!(merge.push(ring, index, entry), Ok(()));
}

fn value(number: u64) -> Entry {
    Entry::Value { sender: 1, number, messages: 1 }
}

fn all(merge: &mut Merge<State>) -> Vec<(u64, u8)> {
    let place = |Position(position)| (position >> 8, position as u8);
    std::iter::from_fn(|| merge.hand_out()).map(|next| place(next.position)).collect()
}

#[test]
fn positions_grow_by_slot_then_by_ring_and_never_overflow() {
    //= MP01 test
    assert!(Slot(7).position(B) < Slot(8).position(A) && Slot(8).position(A) < Slot(8).position(B));
    assert_eq!(Slot::of(Slot(7).position(B)), Slot(7));
    let years = Slot::LAST.0 / Slot::PER_SECOND / (365 * 24 * 3_600);
    assert_eq!((years, Slot::LAST.plus(9), Slot(u64::MAX).position(B).0 as u8), (34, Slot::LAST, 2));
}

#[test]
fn what_waits_for_an_idle_ring_names_it_and_a_skip_lets_it_go_on() {
    //= MP02 test
    //= MP04 test
    let mut merge = merge(&[A, B]);
    decide(&mut merge, A, Entry::Skip(Slot(1_000_000_000)));
    assert_eq!((all(&mut merge), merge.waits(|_| Slot(0))), (vec![], vec![]), "nothing waits");
    decide(&mut merge, A, value(1));
    assert_eq!((all(&mut merge), merge.waits(|_| Slot(0))), (vec![], vec![Wait::Slot(B, Slot(1_000_000_001))]));
    decide(&mut merge, B, Entry::Skip(Slot(1_000_000_000)));
    assert_eq!(all(&mut merge), [(1_000_000_000, 1)], "of equal slots the lower ring goes first");
    decide(&mut merge, B, value(1));
    decide(&mut merge, A, Entry::Skip(Slot(5)));
    assert_eq!(all(&mut merge), [(1_000_000_000, 2)], "a late skip leads nowhere");
}

#[test]
fn who_waits_asks_once_for_all_that_is_decided() {
    //= MP04 test
    let c = RingId(3);
    let mut merge = merge(&[A, B, c]);
    decide(&mut merge, A, Entry::Skip(Slot(1_000)));
    (1..=3).for_each(|number| decide(&mut merge, A, value(number)));
    decide(&mut merge, c, Entry::Skip(Slot(1_001)));
    let filled = |ring| Slot(if ring == A { 1_002 } else { 7_000 });
    assert_eq!(all(&mut merge), []);
    let waits = [B, c].map(|ring| Wait::Slot(ring, Slot(1_003)));
    assert_eq!(merge.waits(filled), waits, "what nobody waits for, a skip, is asked of nobody");
    decide(&mut merge, B, Entry::Skip(Slot(1_003)));
    assert_eq!(all(&mut merge), [(1_000, 1), (1_001, 1)]);
    assert_eq!(merge.waits(filled), [Wait::Slot(c, Slot(1_003))]);
    decide(&mut merge, c, Entry::Skip(Slot(1_003)));
    assert_eq!((all(&mut merge), merge.waits(filled)), (vec![(1_002, 1)], vec![]));
}

#[test]
fn a_ring_that_is_joined_counts_behind_both_copies_and_one_that_is_left_up_to_both() {
    //= MP23 test
    //= MP24 test
    let change = |number, wish| {
        Entry::Change(Change { subscriber: SubscriberId(1), number, wish, ring: B, beside: A, since: 0 })
    };
    let mut merge = merge(&[A]);
    decide(&mut merge, A, value(1));
    decide(&mut merge, A, change(1, Wish::Join));
    decide(&mut merge, A, value(2));
    assert_eq!((all(&mut merge), merge.waits(|_| Slot(0))), (vec![(1, 1), (2, 1)], vec![Wait::Copy(B, 0)]));
    merge.attach(B, State::START);
    (1..=3).for_each(|number| decide(&mut merge, B, value(number)));
    decide(&mut merge, B, change(1, Wish::Join));
    decide(&mut merge, B, value(4));
    assert_eq!(all(&mut merge), [(3, 1)], "the copy in the ring stands in slot 4");
    decide(&mut merge, A, Entry::Skip(Slot(9)));
    assert_eq!(all(&mut merge), [(5, 2)]);
    decide(&mut merge, B, change(2, Wish::Leave));
    decide(&mut merge, B, value(5));
    decide(&mut merge, A, change(2, Wish::Leave));
    decide(&mut merge, B, Entry::Skip(Slot(12)));
    decide(&mut merge, A, value(3));
    assert_eq!(all(&mut merge), [(6, 2), (7, 2), (9, 1), (10, 1)]);
    assert_eq!((merge.rings().collect::<Vec<_>>(), merge.settled()), (vec![A], Some(2)));
}

#[test]
fn changes_of_others_and_such_that_make_no_sense_do_nothing() {
    //= MP21 test
    let mut merge = merge(&[A, B]);
    let change =
        Change { subscriber: SubscriberId(1), number: 1, wish: Wish::Leave, ring: A, beside: RingId(7), since: 0 };
    let others = Change { subscriber: SubscriberId(2), beside: B, ..change };
    let alone = Change { beside: A, ..change };
    let later = Change { number: 3, beside: B, ..change };
    for change in [change, others, alone, later] {
        decide(&mut merge, A, Entry::Change(change));
        decide(&mut merge, B, Entry::Change(change));
    }
    assert_eq!(all(&mut merge).len(), 8);
    assert_eq!((merge.settled(), merge.rings().count()), (Some(0), 2));
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    //= MP11 test
    //= MP12 test
    let mut merge = Merge::new(Config::new(SubscriberId(1), 50), [(A, State::START), (B, State::START)]);
    assert_eq!(merge.push(RingId(9), 0, value(1)), Err(NotTaken::NotRead));
    assert_eq!(merge.push(A, 1, value(1)), Err(NotTaken::Gap { expected: 0 }));
    assert_eq!(merge.push(A, 0, value(1)), Ok(()));
    assert_eq!(merge.push(A, 1, value(2)), Err(NotTaken::Full), "30 bytes each");
    assert_eq!((merge.push(A, 0, value(1)), merge.bytes(A), merge.end(A)), (Ok(()), 30, Some(1)));
}

#[test]
fn a_checkpoint_within_an_entry_goes_on_within_it() {
    //= MP30 test
    let mut one = merge(&[A]);
    let entry = Entry::Value { sender: 1, number: 1, messages: 3 };
    decide(&mut one, A, entry.clone());
    assert_eq!(one.hand_out().map(|next| next.position), Some(Slot(1).position(A)));
    let checkpoint = one.checkpoint();
    assert_eq!((checkpoint.rings[&A].0.index(), one.needs(A)), (0, Some(0)), "it is read again from its beginning");
    let mut other = Merge::restore(Config::new(SubscriberId(1), 1_000), checkpoint);
    decide(&mut other, A, entry);
    assert_eq!(all(&mut other), [(2, 1), (3, 1)]);
}
