//! Replicas that start again from checkpoints that may be old, and what their directories know of others.
use super::scene::{Stage, command, engine, membership, peer, said, settings};
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
fn start_from(stage: &mut Stage, (mut line, seen, machine): Checkpoint) {
    let actor = stage.actor(1);
    line.remember(&actor.others);
    actor.engine = Engine::new(settings(1, 1), line, seen);
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
fn one_whose_words_the_daemons_have_forgotten_asks() {
    let (mut stage, _) = joined();
    stage.deliver_to(&[1, 2]);
    stage.assert_one_state(&[1, 2], &[(9, 1)]);
    // It is the lowest, which would send the other what it lacks, and would have it taken off.
    let first = &mut stage.actor(1).engine;
    first.on_forgotten();
    assert!(!first.is_current());
    let asked = said(first);
    assert!(matches!(&asked[..], [Frame::Hello(hello)] if hello.at == (1, 2)), "{asked:?}");
    first.on_forgotten();
    stage.order.extend(asked);
    stage.drain();
    stage.settle();
    stage.assert_one_state(&[1, 2], &[(9, 1)]);
    let mut alone = engine(3, 3);
    alone.on_membership(membership((1, 1), &[3], &[3]));
    said(&mut alone);
    alone.on_lost();
    alone.on_forgotten();
    assert!(said(&mut alone).is_empty(), "it has no connection");
}
