//! The parts by themselves: acceptor, coordinator, learner, proposer, settings.
use super::body;
use crate::acceptor::{Acceptor, Answer, Standing, latest};
use crate::ballot::{Ballot, Incarnations, Item, ValueId};
use crate::config::Config;
use crate::coordinator::Leading;
use crate::learner::{Learner, Meaning};
use crate::packet::Told;
use crate::proposer::Proposer;
use bytes::Bytes;
use consort_order::Submission;
use consort_types::{Class, Duration, Instant, MemberId, NodeId, OrderStream, Service, ViewId};

const A: MemberId = MemberId::new(0, 1);
const B: MemberId = MemberId::new(1, 1);

fn ballot(round: u64, owner: MemberId) -> Ballot {
    Ballot { generation: 0, round, owner }
}

fn value(sender: MemberId, view: u64, number: u64) -> Item {
    Item::Value(ValueId { sender, view, number })
}

fn voting() -> Acceptor {
    Acceptor { standing: Standing::Voting, ..Acceptor::default() }
}

#[test]
fn a_promise_never_falls_and_the_same_may_be_asked_again() {
    //= X10 test
    let mut acceptor = voting();
    let asked = [(3, B), (3, B), (2, B), (3, A), (4, A)].map(|(round, owner)| acceptor.prepare(ballot(round, owner)));
    use Answer::{Granted, Refused};
    assert_eq!(asked, [Granted, Granted, Refused, Refused, Granted]);
    assert_eq!(acceptor.promised, ballot(4, A));
}

#[test]
fn an_accept_promises_too_and_an_earlier_ballot_is_refused_after_it() {
    //= X20 test
    //= X26 test
    let mut acceptor = voting();
    let item = value(A, 1, 1);
    assert_eq!(acceptor.accept(ballot(5, A), 9, &item, Some(body(&["x"]))), Answer::Granted);
    assert_eq!(acceptor.promised, ballot(5, A), "without a phase 1 of its own");
    assert_eq!(acceptor.accept(ballot(4, B), 9, &Item::Nothing, None), Answer::Refused);
    assert_eq!(acceptor.accept(ballot(5, A), 9, &item, None), Answer::Waits, "being kept");
    acceptor.keep(ballot(5, A), 9);
    assert_eq!(acceptor.accept(ballot(5, A), 9, &item, None), Answer::Again);
    assert_eq!(acceptor.accept(ballot(5, A), 9, &Item::Nothing, None), Answer::Refused, "one item for a ballot");
    assert_eq!(acceptor.accept(ballot(6, B), 9, &Item::Nothing, None), Answer::Granted);
    assert_eq!(acceptor.accepted[&9].item, Item::Nothing);
}

#[test]
fn an_acceptor_tells_what_it_accepted_above_what_both_know() {
    //= X12 test
    let mut acceptor = voting();
    for at in 3..8 {
        acceptor.accept(ballot(1, A), at, &Item::Nothing, None);
    }
    let told = |next, from| {
        acceptor.tell(Incarnations::default(), next, from).accepted.iter().map(|e| e.0).collect::<Vec<_>>()
    };
    assert_eq!((told(5, 0), told(4, 7)), (vec![5, 6, 7], vec![7]));
}

#[test]
fn of_what_was_accepted_the_latest_ballot_counts_and_nothing_below_what_any_knows_to_be_decided() {
    //= X13 test
    let entry = |at, round, number| (at, ballot(round, A), value(A, 1, number));
    let one = Told { next: 3, accepted: vec![entry(3, 2, 30), entry(4, 5, 41), entry(6, 1, 60)], ..Told::default() };
    let other = Told { next: 4, accepted: vec![entry(4, 4, 40)], ..Told::default() };
    let (from, best) = latest([&one, &other].into_iter(), 1);
    let best: Vec<_> = best.into_iter().map(|(at, (_, item))| (at, item)).collect();
    assert_eq!((from, best), (4, vec![(4, value(A, 1, 41)), (6, value(A, 1, 60))]));
    assert_eq!(latest([&one].into_iter(), 9).0, 9, "what the coordinator knows itself");
}

#[test]
fn an_acceptor_that_heard_the_coordinator_heeds_nobody_else_for_a_while() {
    //= X70 test
    let acceptor = Acceptor { lease: Some((A, Instant(100))), ..voting() };
    assert!(acceptor.is_free_for(A, Instant(50)) && !acceptor.is_free_for(B, Instant(99)));
    assert!(acceptor.is_free_for(B, Instant(100)) && voting().is_free_for(B, Instant(0)));
}

#[test]
fn a_lease_counts_from_when_the_beat_was_sent_that_a_majority_answered() {
    //= X71 test
    let mut leading = Leading::new(ballot(1, A), 0);
    leading.beats.extend([(1, Instant(1_000)), (2, Instant(2_000)), (3, Instant(3_000))]);
    for (node, number) in [(0, 3), (1, 1), (2, 2), (1, 9)] {
        leading.on_echo(NodeId(node), number);
    }
    assert_eq!(leading.lease_until(2, Duration::from_nanos(100)), Instant(2_090));
    assert_eq!(leading.lease_until(4, Duration::from_nanos(100)), Instant::ZERO, "four never answered");
}

/// What a learner makes of these, in their order; payloads hold one message each.
fn read(items: Vec<Item>) -> (Vec<&'static str>, Learner) {
    let mut learner = Learner::default();
    let mut told = Vec::new();
    for (at, item) in (0..).zip(items) {
        assert!(learner.decide(at, item));
        let (_, meaning) = learner.take(|_| Some(body(&["x"]))).unwrap();
        told.push(match meaning {
            Meaning::Messages { .. } => "counts",
            Meaning::Void(_) => "void",
            Meaning::View { .. } => "view",
            Meaning::Primary => "primary",
            Meaning::Nothing => "nothing",
        });
    }
    (told, learner)
}

fn view(number: u64, after: u64, members: &[MemberId]) -> Item {
    Item::View { number, after, members: members.to_vec() }
}

#[test]
fn a_value_counts_in_its_view_and_in_its_turn_and_nowhere_else() {
    //= X42 test
    //= X46 test
    let items = vec![
        value(A, 5, 1), // before any view
        view(5, 0, &[A, B]),
        value(A, 5, 2), // the first is missing
        value(A, 5, 1),
        value(A, 5, 1), // a second time
        value(A, 5, 2),
        value(MemberId::new(7, 1), 5, 1), // no member
        view(6, 5, &[A]),
        value(A, 5, 3), // of the view before
        value(B, 6, 1), // not let in
        value(A, 6, 1),
    ];
    let (told, learner) = read(items);
    let expected = ["void", "view", "void", "counts", "void", "counts", "void", "view", "void", "void", "counts"];
    assert_eq!(told, expected);
    assert_eq!((learner.place(), learner.voided), (3, 6), "only what counts has a place");
}

#[test]
fn a_view_takes_effect_only_after_the_one_it_names_and_is_primary_once() {
    //= X43 test
    //= X47 test
    let items = vec![
        view(5, 0, &[A, B]),
        Item::Primary(4),
        Item::Primary(5),
        Item::Primary(5),
        view(6, 0, &[A]),
        view(7, 6, &[A]),
        view(6, 5, &[B]),
        Item::Nothing,
    ];
    let expected = ["view", "nothing", "primary", "nothing", "nothing", "nothing", "view", "nothing"];
    let (told, learner) = read(items);
    assert_eq!(told, expected);
    assert_eq!((learner.present().number, learner.present().primary), (6, false));
}

#[test]
fn what_is_decided_is_taken_without_a_gap_and_with_its_payload() {
    //= X40 test
    let mut learner = Learner::default();
    assert!(learner.decide(1, Item::Nothing) && learner.take(|_| None).is_none());
    assert!(learner.decide(0, value(A, 1, 1)) && learner.take(|_| None).is_none(), "no payload yet");
    assert!(!learner.decide(0, Item::Nothing), "something else is decided there");
    assert_eq!(learner.take(|_| Some(body(&["x"]))).map(|(at, _)| at), Some(0));
    assert_eq!(learner.take(|_| None).map(|(at, _)| at), Some(1));
    assert!(!learner.decide(0, Item::Nothing) && learner.decide(0, value(A, 1, 1)));
}

fn proposer(config: &Config) -> Proposer {
    let mut proposer = Proposer::new(config, A);
    proposer.enter(Some(ViewId { number: 3, representative: A }));
    proposer.queue.open_gate(ViewId { number: 3, representative: A });
    proposer
}

fn submit(proposer: &mut Proposer, len: usize) {
    let payload = Bytes::from(vec![7; len]).into();
    let submission = Submission { class: Class::Client, service: Service::Agreed, stream: OrderStream(0), payload };
    proposer.queue.push(submission).unwrap();
}

fn next(proposer: &mut Proposer, config: &Config) -> Option<(u64, usize)> {
    let sent = proposer.next(config, Instant::ZERO)?;
    Some((sent.id.number, sent.body.chunks().count()))
}

#[test]
fn a_lone_message_leaves_at_once_and_those_that_wait_for_credit_share_a_value() {
    //= X48 test
    //= X49 test
    let mut config = Config::new(NodeId(0), vec![NodeId(0), NodeId(1)]);
    (config.values, config.credit, config.value) = (2, 5_000, 1_024);
    let mut proposer = proposer(&config);
    for expected in [Some((1, 1)), Some((2, 1)), None, None] {
        submit(&mut proposer, 100);
        assert_eq!(next(&mut proposer, &config), expected);
    }
    assert!(!proposer.placed(ValueId { sender: A, view: 3, number: 2 }), "not in its turn");
    assert!(proposer.placed(ValueId { sender: A, view: 3, number: 1 }));
    assert_eq!(next(&mut proposer, &config), Some((3, 2)), "two waited");
    config.values = 100;
    for _ in 0..10 {
        submit(&mut proposer, 1_000);
    }
    while next(&mut proposer, &config).is_some() {}
    assert!(proposer.bytes() <= config.credit && proposer.bytes() > config.credit - 2 * config.value);
}

#[test]
fn a_message_larger_than_all_credit_goes_alone() {
    //= X49 test
    let mut config = Config::new(NodeId(0), vec![NodeId(0)]);
    (config.credit, config.value) = (4_000, 1_024);
    let mut proposer = proposer(&config);
    [9_000, 9_000, 10].into_iter().for_each(|len| submit(&mut proposer, len));
    assert_eq!([next(&mut proposer, &config), next(&mut proposer, &config)], [Some((1, 1)), None]);
    assert!(proposer.placed(ValueId { sender: A, view: 3, number: 1 }));
    assert_eq!(next(&mut proposer, &config), Some((2, 1)));
}

#[test]
fn what_has_no_place_in_its_view_is_handed_in_again_in_the_next() {
    //= X54 test
    let config = Config::new(NodeId(0), vec![NodeId(0)]);
    let mut proposer = proposer(&config);
    for _ in 0..3 {
        submit(&mut proposer, 10);
        assert!(next(&mut proposer, &config).is_some());
    }
    assert!(proposer.placed(ValueId { sender: A, view: 3, number: 1 }));
    proposer.queue.delivered(Class::Client, Service::Agreed);
    let view = ViewId { number: 4, representative: A };
    proposer.enter(Some(view));
    assert_eq!(next(&mut proposer, &config), None, "not before the layer above has settled");
    proposer.queue.open_gate(view);
    let sent = proposer.next(&config, Instant::ZERO).unwrap();
    assert_eq!((sent.id.view, sent.id.number, sent.body.chunks().count()), (4, 1, 2));
}

#[test]
fn settings_that_cannot_work_are_named() {
    //= X01 test
    let good = Config::new(NodeId(0), (0..5).map(NodeId).collect());
    assert_eq!((good.validate(), good.quorum()), (Ok(()), 3));
    let quorum = |n: u16| Config::new(NodeId(0), (0..n).map(NodeId).collect()).quorum();
    assert_eq!([1, 2, 3, 4, 6, 7, 20].map(quorum), [1, 1, 2, 2, 3, 4, 4]);
    let wrong = |change: fn(&mut Config)| {
        let mut config = good.clone();
        change(&mut config);
        config.validate().unwrap_err().to_string()
    };
    for (told, change) in [
        ("nodes: n9 is not among them", (|c| c.me = NodeId(9)) as fn(&mut Config)),
        ("nodes: one is named twice", |c| c.members.push(NodeId(1))),
        ("paxos.acceptors: 2 of them", |c| c.acceptors.truncate(2)),
        ("paxos.acceptors: one is named twice", |c| c.acceptors = vec![NodeId(1), NodeId(1), NodeId(2)]),
        ("paxos.acceptors: n8 is no node", |c| c.acceptors = vec![NodeId(8)]),
        ("paxos.window: 0", |c| c.window = 0),
        ("paxos.values: 0", |c| c.values = 0),
        ("paxos.value: 9 bytes", |c| c.value = 9),
        ("paxos.beat: 0", |c| c.beat = Duration::ZERO),
        ("paxos.lease", |c| c.lease = c.beat),
        ("paxos.silence", |c| c.silence = c.beat),
        ("limits.queue", |c| c.queue_bytes = 1),
    ] {
        assert!(wrong(change).starts_with(told), "{} is not about {told}", wrong(change));
    }
}

#[test]
fn what_has_an_effect_fills_slots_and_a_skip_frees_those_before_it() {
    //= X91 test
    let mut learner = Learner::default();
    let mut slots = Vec::new();
    let items = [
        value(A, 5, 1), // before any view
        view(5, 0, &[A, B]),
        value(A, 5, 1),
        Item::Nothing,
        Item::Skip(100),
        value(A, 5, 1), // a second time
        value(A, 5, 2),
        Item::Skip(50), // too late
        Item::Primary(5),
        Item::Primary(5),
        Item::Skip(104), // the next one
    ];
    for (at, item) in (0..).zip(items) {
        assert!(learner.decide(at, item));
        learner.take(|_| Some(body(&["x", "y"])));
        slots.push((learner.head().slots, learner.filled()));
    }
    let (heads, filled): (Vec<_>, Vec<_>) = slots.into_iter().unzip();
    assert_eq!(heads, [0, 1, 3, 3, 99, 99, 101, 101, 102, 102, 103]);
    assert_eq!(filled, [0, 1, 3, 3, 3, 3, 101, 101, 102, 102, 102]);
    learner.trim(6);
    assert_eq!((learner.first().slots, learner.first().place), (99, 2));
}
