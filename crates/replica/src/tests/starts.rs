//! Replicas that start again from checkpoints that may be old, and what their directories know of others.
use super::scene::{Stage, command, effects, engine, membership, peer, said, settings};
use crate::engine::{Effect, Engine};
use crate::frame::Frame;
use crate::line::{Line, Seen};

/// What a checkpoint has: the line, what was seen, and the machine.
type Checkpoint = (Line, Seen, Vec<(u128, u64)>);

/// 1 alone; then 2 has joined, and has its state, but has said nothing yet. With a checkpoint of 1 from before that.
fn joined() -> (Stage, Checkpoint) {
    let mut stage = Stage::founded(1);
    let (line, seen) = stage.actor(1).engine.line_of_machine();
    let checkpoint = (line, seen, stage.actor(1).machine.clone());
    stage.order.push_back(command(9, 1));
    stage.settle();
    stage.enter(engine(2, 1));
    stage.change((1, 2), &[1, 2], &[&[1, 2]]);
    stage.deliver_to(&[1, 2]);
    stage.take_gift(2);
    (stage, checkpoint)
}

/// 1 is killed, and starts from this checkpoint and from what its directory knows of others.
fn start_from(stage: &mut Stage, (line, seen, machine): Checkpoint) {
    let actor = stage.actor(1);
    actor.engine = Engine::new(settings(1, 1), line, seen);
    actor.others.iter().for_each(|others| actor.engine.recall(others.clone()));
    actor.engine.on_connected(peer(1));
    actor.machine = machine;
}

#[test]
fn one_that_starts_from_an_old_checkpoint_waits_for_another_that_became_up_to_date_since() {
    let (mut stage, checkpoint) = joined();
    stage.deliver_to(&[1, 2]);
    stage.order.push_back(command(9, 2));
    stage.deliver_to(&[1, 2]);
    stage.assert_one_state(&[1, 2], &[(9, 1), (9, 2)]);
    // 2 is cut off, and 1 is killed.
    start_from(&mut stage, checkpoint);
    stage.change((2, 0), &[1], &[&[1]]);
    stage.deliver_to(&[1]);
    assert!(!stage.actor(1).engine.is_current(), "2 has answered more");
    let waits = stage.actor(1).engine.waits_for();
    assert!(waits.starts_with("replicas that may know more are missing: ") && waits.ends_with("02"), "{waits}");
    stage.change((3, 0), &[1, 2], &[&[1], &[2]]);
    stage.settle();
    stage.assert_one_state(&[1, 2], &[(9, 1), (9, 2)]);
}

#[test]
fn one_that_does_not_count_is_elected_where_it_alone_has_what_was_answered() {
    let (mut stage, checkpoint) = joined();
    let ready: Vec<_> = stage.order.drain(..).collect();
    assert!(matches!(ready[..], [Frame::Ready { .. }]), "{ready:?}");
    for id in [1, 2] {
        ready.iter().for_each(|frame| stage.actor(id).engine.on_frame(frame.clone()));
    }
    stage.drain();
    start_from(&mut stage, checkpoint);
    stage.order.clear();
    stage.change((2, 0), &[1, 2], &[&[1], &[2]]);
    stage.settle();
    stage.assert_one_state(&[1, 2], &[(9, 1)]);
    assert!(stage.actor(2).parted.is_empty());
}

#[test]
fn a_mark_that_a_closing_view_told_passes_no_more_once_its_replica_lags() {
    let (mut stage, _) = joined();
    stage.deliver_to(&[1, 2]);
    let second = &mut stage.actor(2).engine;
    let number = second.send_mark();
    second.on_signal();
    let mark = said(second).pop().unwrap();
    second.on_frame(mark);
    // It is cut off, and 1 goes on without it.
    stage.change((2, 0), &[2], &[&[2]]);
    stage.order.clear();
    stage.change((3, 0), &[1], &[&[1]]);
    stage.order.push_back(command(9, 2));
    stage.deliver_to(&[1]);
    stage.change((4, 0), &[1, 2], &[&[1], &[2]]);
    stage.deliver_to(&[1, 2]);
    stage.take_gift_into(2, |effects| {
        let passed = effects.iter().any(|effect| *effect == Effect::Passed { number });
        assert!(!passed, "what was answered since comes behind it: {effects:?}");
    });
}

#[test]
fn one_that_asks_where_it_is_the_lowest_is_taken_off_and_served_by_the_next() {
    let (mut stage, _) = joined();
    stage.deliver_to(&[1, 2]);
    stage.assert_one_state(&[1, 2], &[(9, 1)]);
    stage.actor(1).engine.step_down(false);
    stage.drain();
    assert!(!stage.actor(1).engine.is_current());
    stage.settle();
    stage.assert_one_state(&[1, 2], &[(9, 1)]);
}

#[test]
fn a_question_that_the_daemons_have_forgotten_is_asked_by_another_number_if_it_is_the_last() {
    let mut alone = engine(3, 3);
    alone.on_membership(membership((1, 1), &[3], &[3]));
    let asked = |frames: Vec<Frame>| match &frames[..] {
        [Frame::Hello(hello)] => hello.ask,
        other => panic!("{other:?}"),
    };
    let first = asked(said(&mut alone));
    alone.on_forgotten(first - 1);
    assert!(said(&mut alone).is_empty(), "that is an earlier one");
    alone.on_forgotten(first);
    let second = asked(said(&mut alone));
    assert_ne!(first, second);
    alone.on_lost();
    alone.on_forgotten(second);
    assert!(said(&mut alone).is_empty(), "it has no connection");
}

/// What is remembered among these.
fn remembered(effects: &[Effect]) -> Option<Vec<u128>> {
    effects.iter().rev().find_map(|effect| match effect {
        Effect::Remember(others) => Some(others.ids.iter().map(|id| id.0).collect()),
        _ => None,
    })
}

#[test]
fn what_a_start_from_an_old_checkpoint_knows_counts_before_the_furthest_of_others() {
    let (mut stage, checkpoint) = joined();
    // 2 has its state, and is cut off before any other receives that. 3 becomes up to date, and answers.
    stage.order.clear();
    stage.enter(engine(3, 1));
    stage.change((1, 3), &[1, 2, 3], &[&[1, 2, 3]]);
    stage.actor(2).engine.on_lost();
    stage.settle_among(&[1, 3]);
    stage.order.push_back(command(9, 2));
    stage.settle_among(&[1, 3]);
    stage.assert_one_state(&[1, 3], &[(9, 1), (9, 2)]);
    // 1 is killed, and starts where 2 is: 2 is further, but does not know of 3.
    start_from(&mut stage, checkpoint);
    stage.actor(2).engine.on_connected(peer(2));
    stage.order.clear();
    stage.change((2, 0), &[1, 2], &[&[1], &[2]]);
    stage.settle_among(&[1, 2]);
    for id in [1, 2] {
        let engine = &stage.actor(id).engine;
        assert!(!engine.is_current() && engine.waits_for().ends_with("03"), "{id}: {}", engine.waits_for());
    }
}

#[test]
fn those_that_are_gone_are_not_remembered() {
    let mut stage = Stage::founded(3);
    stage.actor(3).engine.on_lost();
    stage.drain();
    let first = &mut stage.actor(1).engine;
    first.on_membership(membership((1, 2), &[1, 2], &[1, 2]));
    said(first).into_iter().for_each(|gone| first.on_frame(gone));
    assert_eq!(remembered(&effects(first)), Some(vec![1, 2]), "1 and 2 may go on without it");
    first.on_signal();
    first.on_membership(membership((2, 0), &[1], &[1]));
    said(first).into_iter().for_each(|claim| first.on_frame(claim));
    assert_eq!(remembered(&effects(first)), Some(vec![1]));
}

#[test]
fn another_is_remembered_before_it_is_confirmed() {
    let mut stage = Stage::founded(1);
    [2, 3].into_iter().for_each(|id| stage.enter(engine(id, 1)));
    stage.change((1, 2), &[1, 2, 3], &[&[1, 2, 3]]);
    stage.deliver_to(&[1, 2, 3]);
    [2, 3].into_iter().for_each(|id| stage.take_gift(id));
    let ready: Vec<_> = stage.order.drain(..).collect();
    let confirm = |effects: &[Effect]| {
        let is_admit = |effect: &Effect| matches!(effect, Effect::Send(Frame::Admit { .. }));
        let at = effects.iter().position(is_admit).expect("it confirms another");
        remembered(&effects[..at])
    };
    let first = &mut stage.actor(1).engine;
    first.on_frame(ready[0].clone());
    let done = effects(first);
    assert_eq!(confirm(&done), Some(vec![1, 2]), "{done:?}");
    let second = &mut stage.actor(2).engine;
    ready.into_iter().for_each(|frame| second.on_frame(frame));
    said(second);
    let admit = done.into_iter().find_map(|effect| if let Effect::Send(frame) = effect { Some(frame) } else { None });
    second.on_frame(admit.unwrap());
    let done = effects(second);
    assert_eq!(confirm(&done), Some(vec![1, 2, 3]), "{done:?}");
}

#[test]
fn a_question_of_unknown_fate_that_elects_and_comes_again_leaves_none_that_is_not_served() {
    let mut stage = Stage::default();
    stage.enter(engine(1, 1));
    stage.change((1, 1), &[1], &[&[1]]);
    let first = stage.order.pop_front().unwrap();
    let Frame::Hello(hello) = &first else { panic!("{first:?}") };
    let ask = hello.ask;
    stage.actor(1).engine.on_forgotten(ask);
    stage.drain();
    stage.order.push_front(first);
    stage.settle();
    stage.assert_one_state(&[1], &[]);
    stage.enter(engine(2, 1));
    stage.change((1, 2), &[1, 2], &[&[1, 2]]);
    stage.settle();
    stage.assert_one_state(&[1, 2], &[]);
}

#[test]
fn one_whose_donor_asks_before_its_own_ready_is_ordered_elects_as_those_do_that_lag() {
    let (mut stage, _) = joined();
    stage.enter(engine(3, 1));
    let ready = stage.order.pop_front().unwrap();
    stage.actor(1).engine.step_down(false);
    stage.drain();
    stage.order.extend([ready, command(9, 2)]);
    stage.settle_among(&[1, 2]);
    stage.change((1, 3), &[1, 2, 3], &[&[1, 2, 3]]);
    stage.settle();
    stage.order.push_back(command(9, 3));
    stage.settle();
    stage.assert_one_state(&[1, 2, 3], &[(9, 1), (9, 2), (9, 3)]);
}
