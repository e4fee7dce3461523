//! The shortest ways to two values, to an order that differs or to standstill, each one rule away: what Paxos read literally
//! allows once acceptors restart, forget and are trimmed. Broken on purpose (`mutant.rs`), each rule fails its scene.
use super::body;
use super::solo::{LOG, ME, Solo, ballot, beat, lead, log_start, named, other, recovered, says};
use crate::ballot::{Ballot, Incarnations, Item};
use crate::coordinator::Role;
use crate::packet::{Beat, Content, Sample, Told, Value};
use crate::record::{LogStart, Record};
use consort_order::{Engine as _, Fact};
use consort_types::{Incarnation, Instant, MemberId};

fn view(number: u64, members: &[MemberId]) -> Item {
    Item::View { number, after: number - 1, members: members.to_vec() }
}

fn value(sender: MemberId, view: u64, number: u64, text: &'static str) -> Content {
    Content::Value(Value { id: named(sender, view, number), hops: 0, body: body(&[text]) })
}

fn accept(ballot: Ballot, at: u64, item: Item) -> Content {
    Content::Accept { ballot, at, item, hops: 0 }
}

/// Later incarnations of these nodes are known.
fn incarnations(later: &[MemberId]) -> Incarnations {
    later.iter().copied().collect()
}

#[test]
pub fn an_older_ballot_does_not_overwrite_what_a_later_one_had_accepted() {
    //= X20 test
    let mut solo = Solo::voting(3);
    let (old, new) = (ballot(4, other(1)), ballot(5, other(2)));
    assert!(says(&solo.hand(other(2), accept(new, 0, Item::Nothing)), |c| matches!(c, Content::Vote { .. })));
    let said = solo.hand(other(1), accept(old, 0, view(1, &[other(1)])));
    assert!(!says(&said, |c| matches!(c, Content::Vote { .. })), "promises: it votes below its promise: {said:?}");
    assert!(says(&said, |c| matches!(c, Content::Nack { promised, .. } if *promised == new)));
}

#[test]
pub fn a_ballot_below_the_promise_is_refused() {
    //= X10 test
    let mut solo = Solo::voting(3);
    let (old, new) = (ballot(4, other(1)), ballot(5, other(2)));
    assert!(says(&solo.hand(other(2), Content::Prepare { ballot: new, from: 0 }), promises));
    let said = solo.hand(other(1), Content::Prepare { ballot: old, from: 0 });
    assert!(!says(&said, promises), "promises: it promises {old} after {new}");
}

const fn promises(content: &Content) -> bool {
    matches!(content, Content::Promise { .. })
}

#[test]
pub fn a_request_that_comes_again_is_promised_again() {
    //= X10 test
    let mut solo = Solo::voting(3);
    let prepare = Content::Prepare { ballot: ballot(4, other(1)), from: 0 };
    for time in 1..=2 {
        let said = solo.hand(other(1), prepare.clone());
        assert!(says(&said, promises), "liveness: its answer to the {time}. request is {said:?}");
    }
}

#[test]
pub fn two_lives_of_one_node_never_share_a_ballot() {
    //= X02 test
    let (_, ballot) = Solo::standing(3);
    assert!(ballot.owner == ME, "ballots: {ballot} names no incarnation of {ME}");
}

#[test]
pub fn votes_of_an_incarnation_that_has_a_later_one_do_not_count() {
    //= X31 test
    let (mut solo, ballot) = Solo::leading(5);
    solo.rounds(5, 0);
    let vote = |incarnations| Content::Vote { ballot, at: 0, incarnations };
    // The first is forgotten by the time of the second: with this node's own there are two of five.
    solo.hand(other(1), vote(Incarnations::default()));
    solo.hand(other(4), vote(incarnations(&[MemberId::new(1, 2)])));
    assert!(solo.engine.learner().next() == 0, "quorum: it decides by a vote that is forgotten");
    solo.hand(other(3), vote(Incarnations::default()));
    assert_eq!(solo.engine.learner().next(), 1, "three of five");
}

#[test]
pub fn promises_of_an_incarnation_that_has_a_later_one_do_not_count() {
    //= X31 test
    let (mut solo, ballot) = Solo::standing(5);
    let promise = |incarnations| Content::Promise { ballot, told: Told { incarnations, ..Told::default() } };
    solo.hand(other(1), promise(Incarnations::default()));
    solo.hand(other(4), promise(incarnations(&[MemberId::new(1, 2)])));
    assert!(!solo.leads(), "quorum: it leads by a promise that is forgotten");
    solo.hand(MemberId::new(1, 2), promise(incarnations(&[MemberId::new(1, 2)])));
    assert!(solo.leads(), "the later incarnation promises anew");
}

#[test]
pub fn a_coordinator_learns_what_is_decided_and_fills_no_holes_below() {
    //= X13 test
    let (mut solo, ballot) = Solo::standing(3);
    // It heard of more than this node knows: what is decided there was accepted by nobody any more.
    let told = Told { next: 2, accepted: vec![(3, Ballot::ZERO, Item::Nothing)], ..Told::default() };
    let said = solo.hand(other(1), Content::Promise { ballot, told });
    assert!(!says(&said, is_accept) && !solo.leads(), "one value: it proposes where values are decided: {said:?}");
    let entries = vec![(view(1, &[ME, other(1)]), None), (Item::Nothing, None)];
    let said = solo.hand(other(1), Content::Learnt { from: 0, entries });
    assert!(says(&said, is_accept) && solo.leads());
    assert!(!says(&said, |c| matches!(c, Content::Accept { at: ..2, .. })));
}

const fn is_accept(content: &Content) -> bool {
    matches!(content, Content::Accept { .. })
}

#[test]
pub fn what_others_accepted_is_proposed_again_once_its_payload_is_held() {
    //= X15 test
    let (mut solo, ballot) = Solo::standing(3);
    let id = named(other(2), 1, 1);
    let told = Told { accepted: vec![(0, ballot, Item::Value(id))], ..Told::default() };
    let said = solo.hand(other(1), Content::Promise { ballot, told });
    assert!(!says(&said, is_accept) && !solo.leads(), "payloads: it proposes what it cannot hand on: {said:?}");
    assert!(says(&said, |c| *c == Content::Fetch(vec![id])));
    let said = solo.hand(other(1), value(other(2), 1, 1, "tea"));
    assert!(says(&said, |c| matches!(c, Content::Accept { at: 0, item: Item::Value(known), .. } if *known == id)));
}

#[test]
pub fn a_payload_outlives_the_item_that_alone_held_it() {
    //= X15 test
    let (tea, ale) = (named(other(2), 1, 1), named(other(1), 1, 1));
    let Content::Value(Value { body, .. }) = value(other(2), 1, 1, "tea") else { unreachable!() };
    let accepted = Record::Accepted { ballot: ballot(1, other(1)), at: 0, item: Item::Value(tea), body: Some(body) };
    let mut solo = Solo::with(3, &[log_start(), accepted]);
    let own = loop {
        (1..3).for_each(|node| drop(solo.hand(other(node), Content::Beat(Box::new(beat(Ballot::ZERO))))));
        solo.tick();
        if let Role::Preparing { ballot, .. } = solo.engine.role() {
            break *ballot;
        }
    };
    // A later ballot put another value there, and this one behind it.
    let later = ballot(2, other(1));
    let told = Told { accepted: vec![(0, later, Item::Value(ale)), (1, later, Item::Value(tea))], ..Told::default() };
    solo.hand(other(1), Content::Promise { ballot: own, told });
    solo.hand(other(1), value(other(1), 1, 1, "ale"));
    assert!(solo.leads());
    let accepted = &solo.engine.acceptor().unwrap().accepted;
    let held = accepted.get(&1).is_some_and(|accepted| accepted.body.is_some());
    assert!(held, "liveness: nobody can accept what its coordinator does not hold: {accepted:?}");
}

/// It leads in a view of all three.
fn in_view() -> (Solo, Ballot) {
    let (mut solo, ballot) = Solo::leading(3);
    solo.rounds(3, 0);
    solo.hand(other(1), Content::Vote { ballot, at: 0, incarnations: Incarnations::default() });
    assert_eq!(solo.engine.learner().present().last.len(), 3);
    (solo, ballot)
}

#[test]
pub fn a_value_is_proposed_once_its_payload_is_held() {
    //= X16 test
    let (mut solo, _) = in_view();
    let number = solo.engine.learner().present().number;
    let proposes = |c: &Content| matches!(c, Content::Accept { item: Item::Value(_), .. });
    assert!(!says(&solo.rounds(3, 1), proposes), "payloads: it proposes what nobody has sent");
    assert!(says(&solo.hand(other(1), value(other(1), number, 1, "tea")), proposes));
}

#[test]
pub fn an_acceptor_that_forgot_neither_promises_nor_votes() {
    //= X32 test
    let mut solo = Solo::blank(3);
    let ballot = ballot(4, other(1));
    let mut said = solo.hand(other(1), Content::Prepare { ballot, from: 0 });
    said.extend(solo.hand(other(1), accept(ballot, 0, Item::Nothing)));
    let speaks = says(&said, |c| matches!(c, Content::Promise { .. } | Content::Vote { .. }));
    assert!(!speaks && !solo.votes(), "quorum: it may have promised otherwise: {said:?}");
    assert!(says(&solo.tick(), |c| *c == Content::Recover));
}

#[test]
pub fn it_votes_when_a_majority_of_the_others_has_told_it_what_it_may_have_promised() {
    //= X32 test
    //= X109 test
    let mut solo = Solo::blank(3);
    let answer = |round| recovered(Told::default(), ballot(round, other(1)));
    solo.hand(other(1), answer(3));
    assert!(!solo.announces(), "quorum: one of two others has answered");
    solo.hand(other(2), answer(4));
    solo.note_at(1);
    assert!(solo.announces(), "put back: the one that knows of it may be away when its earlier records come back");
    solo.note_at(2);
    assert!(solo.votes());
    assert_eq!(solo.engine.acceptor().unwrap().promised.round, 4);
}

#[test]
pub fn one_that_promised_nothing_binds_itself_to_no_log_that_others_may_leave() {
    //= X57 test
    let cases = [([ME, other(1), other(2)], true), ([ME, other(1), MemberId::new(2, 0)], false)];
    for (founders, stands) in cases.into_iter().chain([([MemberId::new(0, 8), other(1), other(2)], false)]) {
        let (began, from) = Default::default();
        let start = LogStart { log: LOG, founders: founders.into(), began, promised: Ballot::ZERO, from };
        let mut solo = Solo::with(3, &[Record::Checkpoint(Box::new(start))]);
        (1..3).for_each(|node| drop(solo.hand(other(node), Content::Beat(Box::new(beat(Ballot::ZERO))))));
        let said = solo.tick();
        let asks = says(&said, |c| matches!(c, Content::Prepare { .. }));
        assert!(asks == stands, "one log: it stands in the log that {founders:?} began: {said:?}");
    }
}

#[test]
pub fn it_votes_once_it_has_learnt_what_any_of_them_knows_to_be_decided() {
    //= X33 test
    let mut solo = Solo::blank(3);
    let answer = |next| recovered(Told { next, ..Told::default() }, ballot(3, other(1)));
    solo.hand(other(1), answer(0));
    solo.hand(other(2), answer(1));
    assert!(!solo.announces(), "one value: its promises would tell of a hole where a value is decided");
    solo.hand(other(2), Content::Learnt { from: 0, entries: vec![(Item::Nothing, None)] });
    assert!(solo.announces());
}

#[test]
pub fn half_of_what_it_adopted_counts_as_nothing() {
    //= X34 test
    let mut solo = Solo::blank(3);
    let told = Told { accepted: vec![(0, ballot(2, other(1)), Item::Nothing)], ..Told::default() };
    (1..3).for_each(|node| drop(solo.hand(other(node), recovered(told.clone(), ballot(3, other(1))))));
    assert!(solo.announces() && matches!(solo.records.last(), Some(Record::Checkpoint(_))));
    for n in 0..solo.records.len() {
        let again = Solo::with(3, &solo.records[..n]);
        assert!(
            again.engine.acceptor().unwrap().is_blank(),
            "promises: with {n} of {} records it believes to know all",
            solo.records.len()
        );
    }
    assert!(!Solo::with(3, &solo.records).engine.acceptor().unwrap().is_blank());
}

#[test]
pub fn nobody_tells_of_what_it_does_not_know() {
    //= X41 test
    let mut solo = Solo::voting(3);
    solo.decide(0, view(1, &[ME, other(1)]));
    assert!(says(&solo.hand(other(2), Content::Learn(0)), |c| matches!(c, Content::Learnt { .. })));
    let said = solo.hand(other(2), Content::Learn(1));
    assert!(said.is_empty(), "one value: it knows nothing there, and says {said:?}");
}

#[test]
pub fn values_count_in_their_view_in_their_turn_and_once() {
    //= X42 test
    let mut solo = Solo::voting(3);
    solo.decide(0, view(1, &[ME, other(1), other(2)]));
    for (at, (turn, text)) in (1..).zip([(1, "one"), (3, "three"), (1, "one"), (2, "two")]) {
        solo.decide(at, Item::Value(named(other(1), 1, turn)));
        solo.hand(other(1), value(other(1), 1, turn, text));
    }
    // It was sent in the first view, and stands behind the second.
    solo.hand(other(2), value(other(2), 1, 1, "late"));
    solo.decide(6, Item::Value(named(other(2), 1, 1)));
    solo.decide(5, view(2, &[ME, other(1), other(2)]));
    assert_eq!(solo.engine.learner().next(), 7);
    assert!(solo.delivered == ["one", "two"], "sender's order: {:?} were delivered", solo.delivered);
}

#[test]
pub fn no_two_values_have_one_name() {
    //= X54 test
    let mut solo = Solo::voting(3);
    solo.hand(other(1), lead(ballot(1, other(1)), &[1, 0, 2]));
    solo.decide(0, view(1, &[ME, other(1)]));
    let mut names = Vec::new();
    for (at, text) in (1..).zip(["one", "two"]) {
        for (_, content) in solo.submit(text) {
            if let Content::Value(value) = content {
                names.push(value.id);
                solo.decide(at, Item::Value(value.id));
            }
        }
    }
    assert!(names.len() == 2 && names[0] != names[1], "names: two values are called {:?}", names[0]);
}

#[test]
pub fn a_value_that_is_sent_again_goes_all_the_way_round() {
    //= X61 test
    let mut solo = Solo::voting(3);
    solo.hand(other(1), lead(ballot(1, other(1)), &[1, 0, 2]));
    let round = Content::Value(Value { id: named(other(1), 1, 1), hops: 1, body: body(&["tea"]) });
    for time in 1..=2 {
        let said = solo.hand(other(1), round.clone());
        let passes = says(&said, |c| matches!(c, Content::Value(value) if value.hops == 0));
        assert!(passes, "liveness: what comes for the {time}. time stays here");
    }
}

#[test]
pub fn payloads_of_values_that_cannot_count_any_more_are_dropped() {
    //= X42 test
    let mut solo = Solo::voting(3);
    solo.decide(0, view(1, &[ME, other(1)]));
    solo.hand(other(1), value(other(1), 1, 1, "tea"));
    assert_eq!(solo.gauge("pool_values"), 1);
    solo.decide(1, view(2, &[ME, other(1)]));
    assert!(solo.gauge("pool_values") == 0, "memory: the value of the view before is kept for ever");
}

#[test]
pub fn a_silent_node_is_left_out_of_the_ring() {
    //= X60 test
    let (mut solo, ballot) = in_view();
    let (silent, mut said) = (other(2), solo.tick());
    for _ in 0..12 {
        let number = said.iter().find_map(|(_, c)| if let Content::Beat(beat) = c { Some(beat.number) } else { None });
        let echo = number.map(|number| (ballot, number));
        solo.hand(other(1), Content::Beat(Box::new(Beat { echo, ..beat(Ballot::ZERO) })));
        said = solo.tick();
    }
    let Role::Leading(leading) = solo.engine.role() else { panic!("it leads no more") };
    let ring = &leading.ring;
    assert!(!ring.contains(&silent.node), "ring: {silent} is silent, and everything passes it: {ring:?}");
}

#[test]
pub fn nothing_new_overtakes_what_others_accepted() {
    //= X16 test
    let (mut solo, ballot) = Solo::standing(3);
    let told = Told { accepted: vec![(1, ballot, Item::Nothing)], ..Told::default() };
    solo.decide(0, view(1, &[ME, other(1), other(2)]));
    solo.hand(other(1), value(other(1), 1, 1, "tea"));
    let mut said = solo.hand(other(1), Content::Promise { ballot, told });
    let new = |c: &Content| matches!(c, Content::Accept { at: 2, .. });
    said.extend(solo.rounds(3, 1));
    assert!(solo.leads() && !says(&said, new), "sender's order: it opens new instances before inherited ones close");
    assert!(says(&solo.hand(other(1), Content::Vote { ballot, at: 1, incarnations: Incarnations::default() }), new));
}

#[test]
pub fn a_view_is_called_primary_once_all_have_installed_it() {
    //= X47 test
    let (mut solo, _) = in_view();
    let number = solo.engine.learner().present().number;
    let primary = |c: &Content| matches!(c, Content::Accept { item: Item::Primary(_), .. });
    // They are in the view before.
    assert!(!says(&solo.rounds(3, 1), primary), "primary: some have not installed the view");
    let installed = Beat { next: 1, view: number, ..beat(Ballot::ZERO) };
    (1..3).for_each(|node| drop(solo.hand(other(node), Content::Beat(Box::new(installed.clone())))));
    assert!(says(&solo.tick(), primary));
}

#[test]
pub fn no_more_is_under_way_than_the_credit_allows() {
    //= X49 test
    let mut solo = Solo::voting(3);
    solo.hand(other(1), lead(ballot(1, other(1)), &[1, 0, 2]));
    solo.decide(0, view(1, &[ME, other(1)]));
    let sends = |solo: &mut Solo| says(&solo.submit("tea"), |c| matches!(c, Content::Value(_)));
    let sent = (0..100).filter(|_| sends(&mut solo)).count();
    let most = solo.engine.config().values;
    assert!(sent == most, "credit: {sent} values are under way, {most} may be");
}

#[test]
pub fn no_value_is_proposed_a_window_beyond_what_is_not_decided() {
    //= X27 test
    let (mut solo, ballot) = in_view();
    let (view, window) = (solo.engine.learner().present().number, solo.engine.config().window as u64);
    let first = solo.engine.learner().next();
    let mut last = first;
    for number in 1..=window * 2 {
        let mut said = solo.hand(other(1), value(other(1), view, number, "tea"));
        while let Some((_, content)) = said.pop() {
            let Content::Accept { at, item: Item::Value(_), .. } = content else { continue };
            last = last.max(at);
            if at > first {
                said.extend(solo.hand(other(1), Content::Vote { ballot, at, incarnations: Incarnations::default() }));
            }
        }
    }
    assert!(last > first, "all but the first are decided");
    assert!(last - first < window, "window: {last} is proposed, {first} is not decided");
}

#[test]
pub fn one_that_leads_leaves_once_the_others_have_the_view_without_it() {
    //= X75 test
    let (mut solo, ballot) = in_view();
    solo.leave();
    let said = solo.rounds(3, 1);
    let is_view = |content: &Content| match content {
        Content::Accept { at, item: Item::View { .. }, .. } => Some(*at),
        _ => None,
    };
    let at = said.iter().find_map(|(_, content)| is_view(content)).unwrap();
    solo.hand(other(1), Content::Vote { ballot, at, incarnations: Incarnations::default() });
    let present = solo.engine.learner().present();
    let (number, members) = (present.number, present.last.len());
    assert_eq!(members, 2, "it is out");
    solo.tick();
    assert!(!solo.left, "leaving: it goes though it alone knows of view {number}");
    for node in 1..3 {
        let beat = Beat { next: at + 1, view: number, ..beat(ballot) };
        solo.hand(other(node), Content::Beat(Box::new(beat)));
    }
    solo.tick();
    assert!(solo.left);
}

#[test]
pub fn one_that_leaves_with_messages_of_its_own_not_ordered_says_so_at_last() {
    //= X75 test
    let mut solo = Solo::voting(3);
    solo.hand(other(1), lead(ballot(1, other(1)), &[1, 0, 2]));
    solo.decide(0, view(1, &[ME, other(1)]));
    solo.submit("tea");
    solo.leave();
    let mut told = Vec::new();
    for _ in 0..30 {
        if !solo.left {
            let said = solo.tick();
            let leaving = |(_, content): &(_, Content)| match content {
                Content::Beat(beat) => Some(beat.leaving),
                _ => None,
            };
            told.extend(said.iter().filter_map(leaving));
        }
    }
    assert!(solo.left && !told[0], "it waits for its message");
    assert!(told.ends_with(&[true, true]), "leaving: it goes without a word: {told:?}");
}

#[test]
pub fn what_is_voted_for_is_what_is_kept() {
    //= X20 test
    let mut solo = Solo::voting(3);
    let (old, new) = (ballot(4, other(1)), ballot(5, other(2)));
    solo.hand(other(1), accept(old, 0, view(1, &[other(1)])));
    assert!(says(&solo.hand(other(2), accept(new, 0, Item::Nothing)), |c| matches!(c, Content::Vote { .. })));
    let Some(Record::Accepted { ballot, item, .. }) = solo.records.last() else { panic!("{:?}", solo.records) };
    assert!(
        *ballot == new && *item == Item::Nothing,
        "one value for a ballot: {ballot} proposed nothing, kept is {item:?}"
    );
}

#[test]
pub fn a_vote_that_comes_twice_counts_once() {
    //= X14 test
    let (mut solo, ballot) = Solo::leading(5);
    solo.rounds(5, 0);
    let vote = Content::Vote { ballot, at: 0, incarnations: Incarnations::default() };
    (0..3).for_each(|_| drop(solo.hand(other(1), vote.clone())));
    assert!(solo.engine.learner().next() == 0, "quorum: it decides by one vote of another that came three times");
    solo.hand(other(2), vote);
    assert_eq!(solo.engine.learner().next(), 1);
}

#[test]
pub fn logs_that_contradict_each_other_are_named() {
    //= X108 test
    let trouble = |solo: &Solo| {
        let mut found = None;
        solo.engine.observe(Instant::ZERO, &mut |fact| {
            if let Fact::Trouble(text) = fact {
                found = Some(text);
            }
        });
        found
    };
    let log = |last: Item| {
        let mut solo = Solo::voting(3);
        solo.decide(0, view(1, &[ME, other(1)]));
        solo.decide(1, Item::Nothing);
        solo.decide(2, last);
        solo
    };
    let sample = |solo: &mut Solo| {
        let said = solo.tick();
        let of = |(_, content): &(_, Content)| if let Content::Beat(beat) = content { Some(beat.sample) } else { None };
        said.iter().filter_map(of).find(|sample| sample.to == 3).unwrap()
    };
    let (mut solo, mut same, mut different) = (log(Item::Nothing), log(Item::Nothing), log(Item::Skip(9)));
    let beat_of = |sample| Content::Beat(Box::new(Beat { next: 3, sample, ..beat(Ballot::ZERO) }));
    solo.hand(other(1), beat_of(sample(&mut same)));
    assert_eq!(trouble(&solo), None);
    let wrong = sample(&mut different);
    solo.hand(other(2), beat_of(Sample { to: 4, ..wrong }));
    assert_eq!(trouble(&solo), None, "it does not know so much itself");
    solo.hand(other(2), beat_of(wrong));
    let text = trouble(&solo).unwrap();
    assert!(
        text.contains("entries 0 and 3") && text.contains("that of n2") && text.contains("move its state"),
        "{text}"
    );
    let next = MemberId { incarnation: Incarnation(2), ..other(2) };
    solo.hand(next, beat_of(Sample::default()));
    assert_eq!(trouble(&solo), None, "it has begun again");
}
