//! Histories that were forced, or begun anew, and what becomes of replicas that have another one.
use super::scene::{Stage, command, engine, membership, peer, said, settings};
use crate::engine::{Engine, Settings};
use crate::frame::Frame;
use crate::line::{Digest, Line, Origin, Point, Seen};
use bytes::Bytes;

fn forced(settings: Settings) -> Settings {
    Settings { forces: true, ..settings }
}

/// Three that have a command; then 1 and 2 take another one, which 3 has not, are cut off, and live on. 3 is forced to go on
/// without them, in view 3, and takes two more.
fn forced_while_others_live() -> Stage {
    let mut stage = Stage::founded(3);
    stage.order.push_back(command(9, 1));
    stage.settle();
    stage.order.push_back(command(9, 2));
    stage.deliver_to(&[1, 2]);
    stage.cut_off((2, 0), &[1, 2]);
    // What they say is not ordered there, and what was begun before is sent again once it can be.
    stage.order.clear();
    stage.restart(3, forced);
    force(&mut stage);
    stage
}

/// 3 is elected alone in view 3, and takes two commands.
fn force(stage: &mut Stage) {
    stage.change((3, 0), &[3], &[&[3]]);
    stage.deliver_to(&[3]);
    assert!(stage.actor(3).engine.is_current(), "{}", stage.actor(3).engine.waits_for());
    stage.order.extend([command(9, 3), command(9, 4)]);
    stage.deliver_to(&[3]);
    stage.assert_one_state(&[3], &[(9, 1), (9, 3), (9, 4)]);
}

#[test]
fn who_waits_for_the_lost_goes_on_once_it_is_forced_and_not_before() {
    let mut stage = Stage::founded(3);
    stage.restart(3, |settings| settings);
    stage.change((3, 0), &[3], &[&[3]]);
    stage.deliver_to(&[3]);
    assert!(!stage.actor(3).engine.is_current());
    let waits = stage.actor(3).engine.waits_for();
    assert!(waits.starts_with("replicas that may know more are missing: "), "{waits}");
    stage.restart(3, forced);
    stage.change((4, 0), &[3], &[&[3]]);
    stage.deliver_to(&[3]);
    stage.assert_one_state(&[3], &[]);
}

#[test]
fn those_that_were_thought_lost_and_live_have_parted_from_the_forced_history_whoever_speaks_first() {
    for turn in 0..3 {
        let mut stage = forced_while_others_live();
        stage.change((5, 0), &[1, 2, 3], &[&[1, 2], &[3]]);
        // All three go on in this view, each side on its own line.
        stage.order.rotate_left(turn);
        stage.order.insert(1, command(9, 5));
        stage.settle();
        stage.order.push_back(command(9, 6));
        stage.settle();
        stage.assert_one_state(&[1, 2, 3], &[(9, 1), (9, 3), (9, 4), (9, 5), (9, 6)]);
        let parted = [1, 2, 3].map(|id| stage.actor(id).parted.clone());
        assert_eq!(parted, [vec![false], vec![false], vec![]], "{turn}: of the same history, and told once");
    }
}

#[test]
fn who_took_alone_what_was_said_in_a_view_that_the_others_went_through_is_no_other_line() {
    let mut stage = Stage::founded(3);
    stage.change((2, 0), &[1, 2, 3], &[&[1, 2, 3]]);
    let claim = stage.order.pop_front().expect("each claims the view");
    stage.order.clear();
    // 3 is cut off with it behind the signal; 1 and 2 take nothing in that view, nor in the next one.
    stage.actor(3).engine.on_signal();
    stage.actor(3).engine.on_frame(claim);
    stage.change((3, 0), &[3], &[&[3]]);
    stage.change((4, 0), &[1, 2], &[&[1, 2]]);
    stage.order.clear();
    stage.change((5, 0), &[1, 2, 3], &[&[1, 2], &[3]]);
    stage.order.push_front(command(9, 1));
    stage.settle();
    stage.assert_one_state(&[1, 2, 3], &[(9, 1)]);
    // It connects again, and says so once more.
    stage.order.push_back(command(9, 2));
    stage.restart(3, |settings| settings);
    stage.change((5, 3), &[1, 2, 3], &[&[1, 2, 3]]);
    stage.settle();
    stage.assert_one_state(&[1, 2, 3], &[(9, 1), (9, 2)]);
    assert!([1, 2, 3].iter().all(|id| stage.actor(*id).parted.is_empty()));
}

#[test]
fn a_history_begun_anew_counts_where_it_meets_the_one_before() {
    for turn in 0..2 {
        let mut stage = Stage::founded(1);
        stage.order.extend([command(9, 1), command(9, 2)]);
        stage.settle();
        stage.cut_off((2, 0), &[1]);
        stage.order.clear();
        stage.enter(engine(4, 1));
        stage.change((3, 0), &[4], &[&[4]]);
        stage.order.push_back(command(8, 1));
        stage.deliver_to(&[4]);
        stage.change((5, 0), &[1, 4], &[&[1], &[4]]);
        stage.order.rotate_left(turn);
        stage.settle();
        stage.order.push_back(command(8, 2));
        stage.settle();
        stage.assert_one_state(&[1, 4], &[(8, 1), (8, 2)]);
        let parted = [1, 4].map(|id| stage.actor(id).parted.clone());
        assert_eq!(parted, [vec![true], vec![]], "{turn}");
    }
}

#[test]
fn a_joiner_that_the_earlier_line_has_served_leaves_it_with_the_others() {
    let mut stage = forced_while_others_live();
    stage.enter(engine(7, 3));
    stage.change((5, 0), &[1, 2, 3, 7], &[&[1, 2], &[3], &[7]]);
    // The claim of 3 is ordered behind all that 1 and 2 do for the joiner.
    let late = stage.order.iter().position(|frame| matches!(frame, Frame::Claim(claim) if claim.epoch == 3)).unwrap();
    let late = stage.order.remove(late).unwrap();
    stage.settle();
    assert!(stage.actor(7).engine.is_current() && stage.actor(1).engine.is_current());
    stage.order.push_back(late);
    stage.settle();
    stage.order.push_back(command(9, 6));
    stage.settle();
    stage.assert_one_state(&[1, 2, 3, 7], &[(9, 1), (9, 3), (9, 4), (9, 6)]);
}

#[test]
fn one_of_the_forced_history_that_lags_is_heard_by_those_that_go_on_without_it() {
    let mut stage = forced_while_others_live();
    // It loses its connection, and is back when the network is whole.
    stage.actor(3).engine.on_lost();
    stage.actor(3).engine.on_connected(peer(3));
    stage.drain();
    stage.change((5, 0), &[1, 2, 3], &[&[1, 2], &[3]]);
    stage.settle();
    stage.assert_one_state(&[1, 2, 3], &[(9, 1), (9, 3), (9, 4)]);
    assert_eq!([1, 2].map(|id| stage.actor(id).parted.len()), [1, 1]);
}

#[test]
fn who_has_yielded_elects_nobody_while_those_of_the_forced_history_are_away() {
    let mut stage = forced_while_others_live();
    stage.change((5, 0), &[1, 2, 3], &[&[1, 2], &[3]]);
    stage.deliver_to(&[1, 2, 3]);
    assert!(!stage.actor(1).engine.is_current() && stage.gifts() > 0);
    // The donor and all of its history are lost before a gift has come.
    stage.lose_gifts();
    stage.actor(3).engine.on_lost();
    stage.change((6, 0), &[1, 2], &[&[1, 2]]);
    stage.settle_among(&[1, 2]);
    for id in [1, 2] {
        let engine = &stage.actor(id).engine;
        assert!(!engine.is_current());
        assert_eq!(engine.waits_for(), "replicas that went on without these are missing");
    }
    // They can be forced in turn: then it is 3 that has parted.
    stage.restart(1, forced);
    stage.change((7, 0), &[1, 2], &[&[1], &[2]]);
    stage.settle_among(&[1, 2]);
    stage.assert_one_state(&[1, 2], &[(9, 1), (9, 2)]);
    stage.actor(3).engine.on_connected(peer(3));
    stage.change((8, 0), &[1, 2, 3], &[&[1, 2], &[3]]);
    stage.settle();
    stage.assert_one_state(&[1, 2, 3], &[(9, 1), (9, 2)]);
    assert_eq!(stage.actor(3).parted, [false]);
}

#[test]
fn where_the_donor_is_lost_the_next_one_tells_the_parted_the_same() {
    let mut stage = forced_while_others_live();
    stage.enter(engine(4, 3));
    stage.change((3, 1), &[3, 4], &[&[3, 4]]);
    stage.settle_among(&[3, 4]);
    stage.assert_one_state(&[3, 4], &[(9, 1), (9, 3), (9, 4)]);
    stage.change((5, 0), &[1, 2, 3, 4], &[&[1, 2], &[3, 4]]);
    stage.deliver_to(&[1, 2, 3, 4]);
    assert!(stage.gifts() > 0);
    stage.lose_gifts();
    stage.actor(3).engine.on_lost();
    stage.change((5, 1), &[1, 2, 4], &[&[1, 2, 4]]);
    stage.settle_among(&[1, 2, 4]);
    stage.assert_one_state(&[1, 2, 4], &[(9, 1), (9, 3), (9, 4)]);
    assert_eq!([1, 2, 4].map(|id| stage.actor(id).parted.len()), [1, 1, 0]);
}

/// Of three calls of 1, the first was sent before it was cut off, and is ordered once it can be; the second is delivered
/// while its view closes; the third is begun while it is cut off. Then all come together, if 3 keeps so much in its log, and
/// if its claim comes first.
fn calls_under_way_at_a_parted(log_bytes: usize, first: bool) -> Stage {
    let mut stage = Stage::founded(3);
    let calls = ["first", "second"].map(|call| stage.actor(1).engine.call(Bytes::from_static(call.as_bytes())));
    stage.drain();
    let sent: Vec<_> = stage.order.drain(..).collect();
    for id in [1, 2] {
        stage.actor(id).engine.on_signal();
        stage.actor(id).engine.on_frame(sent[1].clone());
    }
    stage.cut_off((2, 0), &[1, 2]);
    let third = stage.actor(1).engine.call(Bytes::from_static(b"third"));
    stage.drain();
    stage.order.clear();
    stage.restart(3, |settings| Settings { log_bytes, ..forced(settings) });
    stage.change((3, 0), &[3], &[&[3]]);
    stage.deliver_to(&[3]);
    stage.order.extend([sent[0].clone(), command(9, 3)]);
    stage.deliver_to(&[3]);
    stage.change((5, 0), &[1, 2, 3], &[&[1, 2], &[3]]);
    stage.order.rotate_left(if first { 2 } else { 0 });
    stage.settle();
    assert_eq!((calls, third), ([1, 2], 3));
    stage
}

#[test]
fn a_call_under_way_at_a_parted_replica_is_answered_once_or_told_to_be_applied() {
    let mut stage = calls_under_way_at_a_parted(10_000, true);
    stage.assert_one_state(&[1, 2, 3], &[(1, 1), (9, 3), (1, 2), (1, 3)]);
    assert!(stage.actor(1).unseen.is_empty(), "each was applied before its eyes");
    let mut stage = calls_under_way_at_a_parted(1, true);
    stage.assert_one_state(&[1, 2, 3], &[(1, 1), (9, 3), (1, 2), (1, 3)]);
    assert_eq!(stage.actor(1).unseen, [1], "the first came with a snapshot, without its response");
    assert!(stage.actor(1).parted.is_empty(), "it had applied none of them");
}

#[test]
fn a_call_that_the_earlier_line_answers_before_it_yields_is_told_with_the_parting() {
    let mut stage = calls_under_way_at_a_parted(10_000, false);
    stage.assert_one_state(&[1, 2, 3], &[(1, 1), (9, 3), (1, 3)]);
    assert_eq!((stage.actor(1).parted.clone(), stage.actor(1).unseen.clone()), (vec![false], vec![1]));
}

#[test]
fn a_machine_that_parted_further_back_than_the_donor_remembers_is_told_so_all_the_same() {
    let mut stage = Stage::founded(3);
    stage.order.push_back(command(9, 1));
    stage.deliver_to(&[1, 2]);
    stage.cut_off((2, 0), &[1, 2]);
    stage.order.clear();
    stage.restart(3, |settings| Settings { log_bytes: 200, ..forced(settings) });
    stage.change((3, 0), &[3], &[&[3]]);
    stage.order.extend((2..20).map(|number| command(9, number)));
    stage.deliver_to(&[3]);
    stage.change((5, 0), &[1, 2, 3], &[&[1, 2], &[3]]);
    stage.settle();
    let all: Vec<_> = (2..20).map(|number| (9, number)).collect();
    stage.assert_one_state(&[1, 2, 3], &all);
    assert_eq!([1, 2].map(|id| stage.actor(id).parted.clone()), [vec![false], vec![false]]);
}

#[test]
fn a_checkpoint_of_a_history_that_does_not_count_has_parted() {
    let mut stage = Stage::founded(2);
    stage.order.push_back(command(9, 1));
    stage.settle();
    let mut seen = Seen::default();
    seen.insert(Origin(8), 1, 1);
    let end = Point { position: 1, digest: Digest::default().then(Origin(8), 1) };
    let line = Line { history: 77, epoch: 1, step: 9, end, ..Line::default() };
    let mut other = Engine::new(settings(5, 1), line, seen);
    other.on_connected(peer(5));
    stage.enter(other);
    stage.actor(5).machine = vec![(8, 1)];
    stage.change((1, 2), &[1, 2, 5], &[&[1, 2, 5]]);
    stage.settle();
    stage.assert_one_state(&[1, 2, 5], &[(9, 1)]);
    assert_eq!(stage.actor(5).parted, [true]);
}

#[test]
fn force_makes_up_for_the_missing_and_not_for_those_that_are_there_and_further() {
    // All are there: nothing is to be forced.
    let mut stage = Stage::founded(3);
    stage.order.push_back(command(9, 1));
    stage.deliver_to(&[1, 2]);
    (1..=2).for_each(|id| stage.restart(id, |settings| settings));
    stage.restart(3, forced);
    stage.change((4, 0), &[1, 2, 3], &[&[1], &[2], &[3]]);
    stage.settle();
    stage.assert_one_state(&[1, 2, 3], &[(9, 1)]);
    // One is missing, and one of those that are there has more than the forced one.
    let mut stage = Stage::founded(3);
    stage.order.push_back(command(9, 1));
    stage.deliver_to(&[2]);
    stage.restart(2, |settings| settings);
    stage.restart(3, forced);
    stage.change((4, 0), &[2, 3], &[&[2], &[3]]);
    stage.settle_among(&[2, 3]);
    stage.assert_one_state(&[2, 3], &[(9, 1)]);
    assert!(stage.actors.iter().all(|actor| actor.parted.is_empty()));
}

#[test]
fn one_that_has_nothing_and_is_forced_takes_what_another_has() {
    let mut stage = Stage::founded(3);
    stage.order.push_back(command(9, 1));
    stage.settle();
    stage.restart(1, |settings| settings);
    let mut empty = Engine::new(forced(settings(5, 3)), Line::default(), Seen::default());
    empty.on_connected(peer(5));
    stage.enter(empty);
    stage.change((4, 0), &[1, 5], &[&[1], &[5]]);
    stage.settle_among(&[1, 5]);
    stage.assert_one_state(&[1, 5], &[(9, 1)]);
}

#[test]
fn force_counts_once() {
    let mut stage = forced_while_others_live();
    let hello = |frames: Vec<Frame>| {
        frames.into_iter().find_map(|frame| if let Frame::Hello(hello) = frame { Some(hello) } else { None })
    };
    let engine = &mut stage.actor(3).engine;
    engine.on_lost();
    engine.on_connected(peer(3));
    engine.on_membership(membership((6, 0), &[1, 3], &[3]));
    let hello = hello(said(engine)).unwrap();
    assert!(!hello.forces, "it was up to date since: its operator knew nothing of what came after");
}

#[test]
fn two_that_are_forced_in_turn_are_one_history_again() {
    let mut stage = forced_while_others_live();
    // 3 is cut off in turn; 1 is forced where it is, from what it has, and goes on.
    stage.cut_off((4, 0), &[3]);
    stage.order.clear();
    stage.restart(1, forced);
    stage.actor(2).engine.on_lost();
    stage.change((6, 0), &[1], &[&[1]]);
    stage.order.push_back(command(7, 1));
    stage.deliver_to(&[1]);
    stage.assert_one_state(&[1], &[(9, 1), (9, 2), (7, 1)]);
    stage.change((8, 0), &[1, 3], &[&[1], &[3]]);
    stage.settle_among(&[1, 3]);
    stage.assert_one_state(&[1, 3], &[(9, 1), (9, 2), (7, 1)]);
    assert_eq!(stage.actor(3).parted, [false]);
}

#[test]
fn one_whose_only_donor_leaves_and_comes_back_says_hello_again() {
    let mut stage = Stage::founded(2);
    stage.cut_off((2, 0), &[2]);
    stage.change((3, 0), &[1], &[&[1]]);
    stage.order.push_back(command(7, 1));
    stage.deliver_to(&[1]);
    stage.actor(2).engine.on_lost();
    stage.actor(2).engine.on_connected(peer(2));
    stage.change((3, 1), &[1, 2], &[&[1, 2]]);
    stage.deliver_to(&[1, 2]);
    stage.begin_gifts(1);
    assert_eq!(stage.gifts(), 1);
    // Its connection is lost while it sends, and it comes back in the same view.
    stage.lose_gifts();
    stage.actor(1).engine.on_lost();
    stage.change((3, 2), &[2], &[&[2]]);
    stage.actor(1).engine.on_connected(peer(1));
    stage.change((3, 3), &[1, 2], &[&[1, 2]]);
    stage.settle();
    stage.assert_one_state(&[1, 2], &[(7, 1)]);
}

#[test]
fn one_that_is_sent_what_it_lacks_elects_nobody_where_another_joins() {
    let mut stage = Stage::founded(3);
    stage.cut_off((2, 0), &[3]);
    stage.change((3, 0), &[1, 2], &[&[1, 2]]);
    stage.order.push_back(command(9, 1));
    stage.deliver_to(&[1, 2]);
    // All come back with new connections, so they elect 1 and 2, and 1 sends 3 what it lacks.
    for id in 1..=3 {
        stage.actor(id).engine.on_lost();
        stage.actor(id).engine.on_connected(peer(id));
    }
    stage.change((4, 1), &[1, 2, 3], &[&[1, 2, 3]]);
    stage.deliver_to(&[1, 2, 3]);
    stage.begin_gifts(1);
    assert_eq!(stage.gifts(), 1);
    stage.order.push_back(command(9, 2));
    stage.deliver_to(&[1, 2, 3]);
    stage.enter(engine(4, 3));
    stage.change((4, 2), &[1, 2, 3, 4], &[&[1, 2, 3, 4]]);
    stage.settle();
    stage.assert_one_state(&[1, 2, 3, 4], &[(9, 1), (9, 2)]);
}

/// 1 and 2 are up to date, and 3 becomes so while both lose their connections: neither receives that.
#[test]
fn those_up_to_date_know_who_became_so_or_it_waits_for_them() {
    let mut stage = Stage::founded(2);
    stage.enter(engine(3, 2));
    stage.change((1, 2), &[1, 2, 3], &[&[1, 2, 3]]);
    stage.deliver_to(&[1, 2, 3]);
    stage.take_gift(3);
    for id in [1, 2] {
        stage.actor(id).engine.on_lost();
    }
    stage.deliver_to(&[3]);
    stage.change((1, 3), &[3], &[&[3]]);
    stage.deliver_to(&[3]);
    stage.order.push_back(command(9, 1));
    stage.deliver_to(&[3]);
    assert_eq!(stage.actor(3).machine, [], "no other knows that it is up to date");
    // It is cut off, and the two are back.
    stage.cut_off((2, 0), &[3]);
    stage.order.clear();
    for id in [1, 2] {
        stage.actor(id).engine.on_connected(peer(id));
    }
    stage.change((3, 0), &[1, 2], &[&[1], &[2]]);
    stage.order.push_back(command(8, 1));
    stage.settle_among(&[1, 2]);
    stage.change((4, 0), &[1, 2, 3], &[&[1, 2], &[3]]);
    stage.settle();
    stage.order.push_back(command(8, 2));
    stage.settle();
    stage.assert_one_state(&[1, 2, 3], &[(8, 1), (8, 2)]);
    assert!(stage.actor(3).parted.is_empty());
}

#[test]
fn a_branch_that_was_left_behind_does_not_count_where_it_is_longer_and_all_lag() {
    let mut stage = Stage::founded(3);
    stage.order.push_back(command(9, 1));
    stage.settle();
    stage.order.extend((2..10).map(|number| command(9, number)));
    stage.deliver_to(&[1, 2]);
    stage.cut_off((2, 0), &[1, 2]);
    stage.order.clear();
    stage.restart(3, forced);
    stage.change((3, 0), &[3], &[&[3]]);
    stage.deliver_to(&[3]);
    stage.order.push_back(command(8, 1));
    stage.deliver_to(&[3]);
    stage.assert_one_state(&[3], &[(9, 1), (8, 1)]);
    // 1 and 2 were killed, and 3 loses its connection when they are back.
    [1, 2].into_iter().for_each(|id| stage.restart(id, |settings| settings));
    stage.actor(3).engine.on_lost();
    stage.actor(3).engine.on_connected(peer(3));
    stage.drain();
    stage.change((5, 0), &[1, 2, 3], &[&[1], &[2], &[3]]);
    stage.settle();
    stage.assert_one_state(&[1, 2, 3], &[(9, 1), (8, 1)]);
    assert_eq!([1, 2, 3].map(|id| stage.actor(id).parted.clone()), [vec![false], vec![false], vec![]]);
}
