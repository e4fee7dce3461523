//! What a node reads from its disk.
use crate::ballot::{Ballot, Began, Item, LogId, ValueId};
use crate::learner::Checkpoint;
use crate::record::{LogStart, Record};
use crate::{Config, Paxos};
use consort_order::Engine;
use consort_types::{Incarnation, Instant, MemberId, NodeId};

const A: MemberId = MemberId::new(0, 1);
const B: MemberId = MemberId::new(1, 1);

fn learnt(at: u64, item: Item) -> Record {
    let body = matches!(item, Item::Value(_)).then(|| super::body(&["tea"]));
    Record::Learnt { at, item, body }
}

/// A node that finds these on its disk, and behind them that they are all.
fn started(records: Vec<Record>) -> Paxos {
    let config = Config::new(NodeId(0), (0..3).map(NodeId).collect());
    let mut engine = Paxos::new(config, Incarnation(9)).unwrap();
    let from = Checkpoint::default();
    let start = LogStart { log: LogId(5), founders: Vec::new(), began: Began::default(), promised: Ballot::ZERO, from };
    let records = records.into_iter().chain([Record::Checkpoint(Box::new(start))]).map(|record| record.encode());
    engine.start(Instant::ZERO, &records.collect::<Vec<_>>());
    engine
}

#[test]
fn everything_that_the_disk_knows_to_be_decided_is_read_whether_it_counts_or_not() {
    //= X34 test
    //= X40 test
    let view = |number, after| Item::View { number, after, members: vec![A, B] };
    let value = |view, number| Item::Value(ValueId { sender: B, view, number });
    let items = [view(1, 0), value(1, 1), view(2, 1), value(1, 2), value(2, 1), Item::Nothing];
    let mut records: Vec<_> = (0..).zip(items.clone()).map(|(at, item)| learnt(at, item)).collect();
    records.push(Record::Decided(items.len() as u64));
    let engine = started(records);
    assert_eq!(engine.learner().next(), items.len() as u64, "a value of the view before is void, and no gap");
    assert_eq!((engine.learner().place(), engine.learner().voided), (2, 1));
    assert!(engine.acceptor().unwrap().votes());
}

#[test]
fn what_was_accepted_where_something_else_is_decided_is_not_taken_for_it() {
    //= X34 test
    let ballot = Ballot { generation: 0, round: 3, owner: B };
    let accepted = Record::Accepted { ballot, at: 0, item: Item::Nothing, body: None };
    let view = Item::View { number: 1, after: 0, members: vec![A, B] };
    let engine = started(vec![accepted, learnt(0, view.clone()), Record::Decided(1)]);
    assert_eq!(engine.learner().decided(0), Some(&view));
    assert_eq!(engine.acceptor().unwrap().promised, ballot);
}

#[test]
fn half_of_what_is_adopted_of_another_log_is_not_taken_for_the_first_one() {
    //= X34 test
    //= X53 test
    use super::solo::{Solo, beat, other, recovered};
    use crate::packet::{Content, Told};
    let start = LogStart {
        log: LogId(4),
        founders: Vec::new(),
        began: Began::default(),
        promised: Ballot::ZERO,
        from: Checkpoint::default(),
    };
    let first = Record::Checkpoint(Box::new(start));
    let mut solo = Solo::with(3, std::slice::from_ref(&first));
    // It has promised nothing in its log, and the others have gone on in another.
    solo.hand(other(1), Content::Beat(Box::new(beat(Ballot::ZERO))));
    let ballot = Ballot { generation: 0, round: 3, owner: other(1) };
    let told = Told { accepted: vec![(0, ballot, Item::Nothing)], ..Told::default() };
    (1..3).for_each(|node| drop(solo.hand(other(node), recovered(told.clone(), ballot))));
    assert!(solo.announces() && solo.engine.log() == super::solo::LOG);
    for n in 1..=solo.records.len() {
        let disk: Vec<_> = std::iter::once(first.clone()).chain(solo.records[..n].iter().cloned()).collect();
        let again = Solo::with(3, &disk);
        let whole = n == solo.records.len();
        assert_eq!(!again.engine.acceptor().unwrap().is_blank(), whole, "with {n} of {} records", solo.records.len());
    }
}

#[test]
fn a_value_that_was_decided_twice_is_read_back_at_both_instances() {
    //= X34 test
    //= X40 test
    let members = vec![super::solo::ME, super::solo::other(1)];
    let view = Item::View { number: 1, after: 0, members };
    let id = ValueId { sender: super::solo::other(1), view: 1, number: 1 };
    let value = |at| Record::Learnt { at, item: Item::Value(id), body: Some(super::body(&["tea"])) };
    let records =
        [super::solo::log_start(), learnt(0, view), value(1), value(2), learnt(3, Item::Nothing), Record::Decided(4)];
    let solo = super::solo::Solo::with(3, &records);
    let learner = solo.engine.learner();
    assert_eq!((learner.next(), learner.place(), learner.voided), (4, 1, 1));
}
