//! The shortest schedules in which an earlier engine went wrong, as the model found them.
use super::scene::{Stage, command, effects, engine, membership, peer, said, settings};
use crate::engine::{Base, Effect, Engine, Gift, Membership, Settings};
use crate::frame::{Frame, Hello};
use crate::line::{Line, Origin, Seen};
use std::collections::BTreeSet;

/// So many replicas that found a history in view 1.
fn founded(count: u16) -> Vec<Engine> {
    let ids: Vec<_> = (1..=count).collect();
    let mut engines: Vec<_> = ids.iter().map(|id| engine(*id, ids.len())).collect();
    join(&mut engines, &membership((1, 1), &ids, &ids));
    assert!(engines.iter().all(Engine::is_current));
    engines
}

/// All get this membership, and what they then say.
fn join(engines: &mut [Engine], change: &Membership) {
    engines.iter_mut().for_each(|engine| engine.on_membership(change.clone()));
    let hellos: Vec<_> = engines.iter_mut().flat_map(said).collect();
    hellos.iter().for_each(|hello| engines.iter_mut().for_each(|engine| engine.on_frame(hello.clone())));
}

fn part(engine: &mut Engine, at: (u64, u64), id: u16) {
    engine.on_signal();
    engine.on_membership(membership(at, &[id], &[id]));
}

#[test]
fn a_hello_of_an_earlier_membership_counts_no_more() {
    let mut engines = [engine(1, 2), engine(2, 2)];
    engines.iter_mut().for_each(|engine| engine.on_membership(membership((1, 1), &[1, 2], &[1, 2])));
    let [first, second] = &mut engines;
    let (of_first, of_second) = (said(first), said(second));
    first.on_membership(membership((2, 0), &[1, 2], &[1, 2]));
    second.on_membership(membership((2, 0), &[1, 2], &[1, 2]));
    of_first.iter().chain(&of_second).for_each(|hello| first.on_frame(hello.clone()));
    assert!(!first.is_current(), "it would elect again once the hellos of view 2 come");
    let now = [said(first), said(second)].concat();
    now.iter().for_each(|hello| first.on_frame(hello.clone()));
    assert!(first.is_current());
}

#[test]
fn what_came_before_an_election_is_not_taken_by_those_who_lost_it() {
    let mut all = founded(3);
    // The first delivers one more in the view's closing: its line is longer.
    all[0].on_signal();
    all[0].on_frame(command(9, 1));
    for (index, engine) in all.iter_mut().enumerate() {
        let id = index as u16 + 1;
        part(engine, (1 + u64::from(id), 0), id);
        said(engine);
        engine.on_membership(membership((5, 0), &[1, 2, 3], &[id]));
    }
    let [mut first, mut second, mut third] = <[Engine; 3]>::try_from(all).unwrap();
    let hellos = [said(&mut second), vec![command(9, 2)], said(&mut third), said(&mut first)];
    for frame in [hellos.concat(), vec![command(9, 3)]].concat() {
        first.on_frame(frame.clone());
        second.on_frame(frame);
    }
    let donated = effects(&mut first).into_iter().find_map(|effect| match effect {
        Effect::Donate { gift, .. } => Some(*gift),
        _ => None,
    });
    let gift: Gift = donated.unwrap();
    assert!(matches!(&gift.base, Base::Line(entries) if entries.len() == 1), "{gift:?}");
    second.on_gift(gift);
    assert_eq!(second.applied().position, 1, "no other knows yet that it is up to date");
    let ready = said(&mut second);
    ready.iter().for_each(|frame| first.on_frame(frame.clone()));
    for frame in [ready, said(&mut first)].concat() {
        second.on_frame(frame);
    }
    assert_eq!(first.applied().position, 2, "(9, 1) and (9, 3); (9, 2) came while nobody followed");
    assert_eq!(second.applied(), first.applied());
}

#[test]
fn who_saw_others_go_on_elects_nobody_without_them() {
    let [mut first, mut second, mut third] = <[Engine; 3]>::try_from(founded(3)).unwrap();
    first.on_frame(command(9, 1));
    // All part; the first has a command that the others have not.
    part(&mut first, (2, 0), 1);
    part(&mut second, (3, 0), 2);
    part(&mut third, (4, 0), 3);
    let mut all = [first, second, third];
    all.iter_mut().for_each(|engine| drop(said(engine)));
    for (index, engine) in all.iter_mut().enumerate() {
        engine.on_membership(membership((5, 0), &[1, 2, 3], &[index as u16 + 1]));
    }
    let hellos: Vec<_> = all.iter_mut().flat_map(said).collect();
    hellos.iter().for_each(|hello| all.iter_mut().for_each(|engine| engine.on_frame(hello.clone())));
    assert_eq!([0, 1, 2].map(|index| all[index].is_current()), [true, false, false]);
    let [_, second, third] = &mut all;
    second.on_membership(membership((6, 0), &[2, 3], &[2, 3]));
    third.on_membership(membership((6, 0), &[2, 3], &[2, 3]));
    let hellos = [said(second), said(third)].concat();
    for hello in hellos {
        second.on_frame(hello.clone());
        third.on_frame(hello);
    }
    assert!(!second.is_current() && !third.is_current());
    assert_eq!(second.waits_for(), "replicas that may know more are missing: 00000000000000000000000000000001");
}

#[test]
fn who_lost_its_connection_does_not_show_that_nobody_went_on() {
    let mut engines = founded(3);
    let mut third = engines.pop().unwrap();
    let mut second = engines.pop().unwrap();
    // The third is left out; the second goes on with the first, and loses its connection before it hears of it.
    part(&mut third, (3, 0), 3);
    second.on_membership(membership((2, 0), &[1, 2], &[1, 2]));
    second.on_lost();
    second.on_connected(peer(2));
    said(&mut second);
    said(&mut third);
    let mut both = [second, third];
    both.iter_mut().for_each(|engine| engine.on_membership(membership((4, 0), &[2, 3], &[2])));
    let hellos: Vec<_> = both.iter_mut().flat_map(said).collect();
    let clean: BTreeSet<_> =
        hellos.iter().map(|frame| matches!(frame, Frame::Hello(hello) if is_clean(hello))).collect();
    assert_eq!(clean, [false, true].into());
    hellos.iter().for_each(|hello| both.iter_mut().for_each(|engine| engine.on_frame(hello.clone())));
    assert!(both.iter().all(|engine| !engine.is_current()), "the first may have answered more");
}

fn is_clean(hello: &Hello) -> bool {
    hello.clean
}

#[test]
fn what_is_held_back_is_applied_once_a_message_of_the_next_view_shows_that_it_counts() {
    let mut engines = founded(2);
    let engine = &mut engines[0];
    effects(engine);
    engine.on_signal();
    engine.on_frame(command(9, 1));
    assert!(effects(engine).is_empty(), "it may not be of the history that counts");
    engine.on_membership(membership((2, 0), &[1], &[1]));
    let claim = said(engine);
    assert!(matches!(claim[..], [Frame::Claim(_)]), "the half with the lowest goes on: {claim:?}");
    engine.on_frame(claim[0].clone());
    assert_eq!(engine.applied().position, 1);
    engine.on_frame(command(9, 1));
    assert_eq!(engine.applied().position, 1, "the same once more");
}

#[test]
fn a_cut_is_passed_where_it_stands_behind_what_is_held_back() {
    let mut engines = founded(2);
    let engine = &mut engines[0];
    effects(engine);
    let cut = Frame::Cut { origin: Origin(9), number: 7 };
    let passed = Effect::Cut { origin: Origin(9), number: 7 };
    engine.on_frame(cut.clone());
    assert_eq!(effects(engine), std::slice::from_ref(&passed));
    engine.on_signal();
    engine.on_frame(command(9, 1));
    engine.on_frame(cut);
    assert!(effects(engine).is_empty(), "neither may count");
    engine.on_membership(membership((2, 0), &[1], &[1]));
    let claim = said(engine);
    engine.on_frame(claim[0].clone());
    let all = effects(engine);
    assert!(matches!(&all[..], [Effect::Remember(_), Effect::Apply { .. }, last] if *last == passed), "{all:?}");
}

#[test]
fn a_checkpoint_of_a_closing_view_is_what_the_machine_has() {
    let mut stage = Stage::founded(3);
    stage.order.push_back(command(9, 1));
    stage.settle();
    let (before, _) = stage.actor(1).engine.line_of_machine();
    [1, 2, 3].into_iter().for_each(|id| stage.actor(id).engine.on_signal());
    stage.order.extend([command(8, 1), command(9, 2)]);
    stage.settle();
    let (line, seen) = stage.actor(1).engine.line_of_machine();
    assert_eq!(line, before, "both are held back, because they may not count");
    assert!(seen.contains(Origin(9), 1) && !seen.contains(Origin(9), 2) && !seen.contains(Origin(8), 1));
    // All end there. Those that come back go on with the one command, and take the others when they come again.
    [1, 2, 3].into_iter().for_each(|id| stage.restart(id, |settings| settings));
    stage.change((5, 0), &[1, 2, 3], &[&[1], &[2], &[3]]);
    stage.settle();
    stage.order.extend([command(9, 2), command(8, 1)]);
    stage.settle();
    stage.assert_one_state(&[1, 2, 3], &[(9, 1), (9, 2), (8, 1)]);
}

#[test]
fn who_moves_to_a_part_that_counts_its_views_lower_is_no_earlier_for_it() {
    let [mut first, mut second] = <[Engine; 2]>::try_from(founded(2)).unwrap();
    let both = membership((21, 0), &[1, 2], &[1, 2]);
    for engine in [&mut first, &mut second] {
        engine.on_membership(both.clone());
        said(engine);
        engine.on_frame(command(9, 1));
    }
    part(&mut second, (23, 0), 2);
    part(&mut first, (22, 0), 1);
    first.on_frame(command(9, 2));
    // Alone it goes on. It moves to a daemon of another part, whose views have lower numbers, and goes on there.
    first.on_lost();
    first.on_connected(peer(1));
    first.on_membership(membership((17, 0), &[1], &[1]));
    said(&mut first).into_iter().for_each(|frame| first.on_frame(frame));
    first.on_frame(command(9, 3));
    assert!(first.is_current() && first.applied().position == 3);
    // The other one was away all the time.
    effects(&mut second);
    let again = membership((30, 0), &[1, 2], &[1]);
    first.on_membership(again);
    second.on_membership(membership((30, 0), &[1, 2], &[2]));
    let frames = [said(&mut second), said(&mut first)].concat();
    frames.into_iter().for_each(|frame| first.on_frame(frame));
    assert!(first.is_current(), "it has what was answered since, and the other one has not");
}

/// What its machine was given.
fn applied(engine: &mut Engine) -> Vec<(u128, u64)> {
    let given =
        |effect| if let Effect::Apply { entry, .. } = effect { Some((entry.origin.0, entry.number)) } else { None };
    effects(engine).into_iter().filter_map(given).collect()
}

/// One that lags, in a group of three, and the hellos of all three there.
fn lagging() -> (Engine, [Frame; 3]) {
    let mut all = [1, 2, 3].map(|id| engine(id, 3));
    let change = membership((1, 1), &[1, 2, 3], &[1, 2, 3]);
    let hellos = all.each_mut().map(|engine| {
        engine.on_membership(change.clone());
        said(engine).pop().unwrap()
    });
    let [_, _, third] = all;
    (third, hellos)
}

#[test]
fn the_hello_of_one_that_is_up_to_date_elects_nothing() {
    let (mut third, [first, second, own]) = lagging();
    third.on_frame(own);
    let Frame::Hello(hello) = &first else { panic!("it lags") };
    let (id, peer, ask) = (hello.id, hello.peer, hello.ask);
    third.on_frame(first);
    third.on_frame(Frame::Ready { id, peer, ask });
    third.on_frame(second.clone());
    assert!(!third.is_current(), "the first one is up to date");
    assert_eq!(third.waits_for(), "1 members of the group have yet to speak");

    let (mut third, hellos) = lagging();
    hellos.into_iter().for_each(|hello| third.on_frame(hello));
    assert!(third.is_current(), "all of them lag");
}

#[test]
fn one_that_is_sent_what_it_lacks_asks_again_if_all_others_lag() {
    let (mut third, [_, _, own]) = lagging();
    let Frame::Hello(hello) = &own else { panic!("it lags") };
    let ask = hello.ask;
    third.on_frame(own);
    third.on_served(ask, peer(1));
    let change = membership((1, 2), &[1, 2, 3], &[1, 2, 3]);
    third.on_membership(change.clone());
    assert!(said(&mut third).is_empty(), "it is sent what it lacks");
    for id in [1, 2] {
        let mut other = engine(id, 3);
        other.on_membership(change.clone());
        said(&mut other).into_iter().for_each(|hello| third.on_frame(hello));
    }
    let asked = said(&mut third);
    assert!(matches!(&asked[..], [Frame::Hello(hello)] if hello.at == (1, 2) && hello.ask > ask), "{asked:?}");
    third.on_frame(asked.into_iter().next().unwrap());
    assert!(third.is_current(), "all of them lag, and it has the hellos of all");
}

#[test]
fn what_is_held_back_counts_in_a_view_in_which_the_group_is_the_same() {
    let mut engines = founded(3);
    let mut third = engines.pop().unwrap();
    let [first, second] = &mut engines[..] else { panic!("two are left") };
    let _it_ended = said(&mut third);
    for engine in [&mut *first, &mut *second] {
        engine.on_signal();
        engine.on_frame(command(9, 1));
        // The third one leaves while the view is closing, so that no membership comes in the next one.
        engine.on_membership(membership((1, 2), &[1, 2], &[1, 2]));
        assert!(applied(engine).is_empty(), "it may not be known to others");
        engine.on_same_group();
        assert_eq!(applied(engine), [(9, 1)]);
    }
    second.on_signal();
    second.on_membership(membership((1, 3), &[2], &[2]));
    second.on_same_group();
    assert!(!second.is_current(), "of three that were up to date one is left");
}

#[test]
fn what_comes_with_a_state_is_judged_by_the_membership_in_which_it_came() {
    let mut stage = Stage::default();
    stage.enter(engine(2, 1));
    stage.change((1, 1), &[2], &[&[2]]);
    stage.settle();
    // 1 and 3 ask one after the other, and 4 joins while they are sent what they lack.
    stage.enter(engine(1, 1));
    stage.enter(engine(3, 1));
    stage.change((1, 2), &[1, 2, 3], &[&[1, 2, 3]]);
    stage.deliver_to(&[1, 2, 3]);
    stage.begin_gifts(2);
    stage.enter(engine(4, 1));
    stage.change((1, 3), &[1, 2, 3, 4], &[&[1, 2, 3, 4]]);
    stage.deliver_to(&[1, 2, 3, 4]);
    // 1 has its state first, and is the lowest from then on.
    stage.give_to(1);
    stage.settle();
    stage.assert_one_state(&[1, 2, 3, 4], &[]);
}

#[test]
fn another_start_of_a_replica_asks_by_other_numbers() {
    let asked = |start: u128| {
        let settings = Settings { origin: Origin(start << 64 | 7), ..settings(1, 3) };
        let mut engine = Engine::new(settings, Line::default(), Seen::default());
        engine.on_connected(peer(1));
        engine.on_membership(membership((1, 1), &[1, 2], &[1, 2]));
        match said(&mut engine).pop() {
            Some(Frame::Hello(hello)) => hello.ask,
            other => panic!("it lags, and says {other:?}"),
        }
    };
    assert_ne!(asked(1 << 20), asked(1 << 21));
}

#[test]
fn two_that_are_confirmed_while_the_view_closes_make_no_second_majority() {
    let (mut stage, all) = (three_and_two_that_are_ready(), [1, 2, 3, 4, 5]);
    // Behind the signal 1, 4 and 5 deliver that 4 and 5 count: three of five. 2 and 3 know only of three that count.
    all.iter().for_each(|id| stage.actor(*id).engine.on_signal());
    stage.deliver_to(&[1, 4, 5]);
    stage.change((2, 0), &[1, 4, 5], &[&[1, 4, 5]]);
    stage.settle_among(&[1, 4, 5]);
    assert!([1, 4, 5].iter().all(|id| !stage.actor(*id).engine.is_current()), "2 and 3 may go on");
    stage.change((3, 0), &[2, 3], &[&[2, 3]]);
    stage.order.push_back(command(9, 1));
    stage.settle_among(&[2, 3]);
    stage.assert_one_state(&[2, 3], &[(9, 1)]);
    stage.change((5, 0), &all, &[&[2, 3], &[1], &[4], &[5]]);
    stage.settle();
    stage.assert_one_state(&all, &[(9, 1)]);
}

#[test]
fn one_that_counts_and_asks_stays_until_another_that_counts_has_received_that() {
    let mut stage = Stage::founded(2);
    stage.enter(engine(3, 2));
    stage.change((1, 2), &[1, 2, 3], &[&[1, 2, 3]]);
    stage.deliver_to(&[1, 2, 3]);
    stage.take_gift(3);
    let ready: Vec<_> = stage.order.drain(..).collect();
    ready.into_iter().for_each(|frame| stage.actor(3).engine.on_frame(frame));
    // 2 has lost its connection before it receives the command that 1 answers, and 1 loses its own then.
    stage.actor(2).engine.on_lost();
    stage.order.push_back(command(9, 1));
    stage.deliver_to(&[1, 3]);
    assert_eq!(stage.actor(1).machine, [(9, 1)]);
    stage.actor(1).engine.on_lost();
    stage.drain();
    let lines = [1, 3].map(|id| stage.actor(id).engine.line_of_machine().0);
    stage.restart(1, |settings| settings);
    stage.change((1, 3), &[1, 2, 3], &[&[1], &[3]]);
    stage.deliver_to(&[3]);
    assert_eq!(stage.actor(3).engine.line_of_machine().0.counts(), lines[0].counts(), "{:?}", lines[1]);
    // 1 is gone again before the others come together.
    stage.change((1, 4), &[3], &[&[3]]);
    stage.actor(2).engine.on_connected(peer(2));
    stage.change((1, 5), &[2, 3], &[&[2], &[3]]);
    stage.settle_among(&[2, 3]);
    assert!([2, 3].iter().all(|id| !stage.actor(*id).engine.is_current()), "1 has answered more than 2 knows");
    assert!(stage.actor(2).engine.waits_for().ends_with("00001"), "{}", stage.actor(2).engine.waits_for());
}

#[test]
fn one_that_steps_down_within_a_membership_has_the_questions_of_the_others() {
    let [mut first, ..] = <[Engine; 3]>::try_from(founded(3)).unwrap();
    let mut fourth = engine(4, 3);
    // The others leave, and the fourth one asks, before the view closes; then the group is the same.
    let change = membership((1, 2), &[1, 4], &[1, 4]);
    for engine in [&mut first, &mut fourth] {
        engine.on_membership(change.clone());
    }
    said(&mut fourth).into_iter().for_each(|hello| first.on_frame(hello));
    first.on_signal();
    let _gone = said(&mut first);
    first.on_same_group();
    assert!(!first.is_current(), "of three that count one is left");
    said(&mut first).into_iter().for_each(|hello| first.on_frame(hello));
    let waits = first.waits_for();
    assert!(waits.starts_with("replicas that may know more are missing: "), "{waits}");
}

#[test]
fn one_that_came_with_others_that_may_go_on_is_no_witness_that_none_did() {
    let (mut stage, all) = (three_and_two_that_are_ready(), [1, 2, 3, 4, 5]);
    // 4 and 5 deliver that they count before the view closes, and the others behind their signals.
    (1..=3).for_each(|id| stage.actor(id).engine.on_signal());
    stage.deliver_to(&all);
    (4..=5).for_each(|id| stage.actor(id).engine.on_signal());
    stage.change((2, 0), &[1, 4, 5], &[&[1, 4, 5]]);
    stage.order.push_back(command(9, 1));
    stage.settle_among(&[4, 5]);
    stage.assert_one_state(&[4, 5], &[(9, 1)]);
    // 1 knows of a set that has no majority there, and does not go on. It meets 2 and 3: all of that set.
    stage.lose_gifts();
    (2..=3).for_each(|id| stage.actor(id).engine.on_membership(membership((3, 0), &[2, 3], &[2, 3])));
    stage.drain();
    stage.order.clear();
    stage.change((6, 0), &[1, 2, 3], &[&[1], &[2, 3]]);
    stage.settle_among(&[1, 2, 3]);
    assert!((1..=3).all(|id| !stage.actor(id).engine.is_current()));
}

/// 1, 2 and 3 count; 4 and 5 have their state, and all have received that. Who confirms it is in the order.
fn three_and_two_that_are_ready() -> Stage {
    let (mut stage, all) = (Stage::founded(3), [1, 2, 3, 4, 5]);
    [4, 5].into_iter().for_each(|id| stage.enter(engine(id, 3)));
    stage.change((1, 2), &all, &[&all]);
    stage.deliver_to(&all);
    [4, 5].into_iter().for_each(|id| stage.take_gift(id));
    let ready: Vec<_> = stage.order.drain(..).collect();
    for frame in ready {
        all.iter().for_each(|id| stage.actor(*id).engine.on_frame(frame.clone()));
    }
    stage.drain();
    stage
}

#[test]
fn a_confirmation_of_an_earlier_question_confirms_nothing() {
    let mut stage = Stage::founded(1);
    stage.enter(engine(2, 1));
    stage.change((1, 2), &[1, 2], &[&[1, 2]]);
    stage.deliver_to(&[1, 2]);
    stage.take_gift(2);
    let ready = stage.order.pop_front().unwrap();
    [1, 2].iter().for_each(|id| stage.actor(*id).engine.on_frame(ready.clone()));
    stage.drain();
    let late = stage.order.pop_front().unwrap();
    assert!(matches!(late, Frame::Admit { .. }), "{late:?}");
    // 2 loses its connection and asks again; 1 loses its own before it receives that 2 is up to date once more.
    stage.actor(2).engine.on_lost();
    stage.actor(2).engine.on_connected(peer(2));
    stage.drain();
    stage.change((1, 4), &[1, 2], &[&[1, 2]]);
    stage.deliver_to(&[1, 2]);
    stage.take_gift(2);
    stage.actor(1).engine.on_lost();
    stage.drain();
    stage.deliver_to(&[2]);
    stage.order.push_back(late);
    stage.deliver_to(&[2]);
    assert!(!stage.actor(2).engine.is_current(), "1 does not know of it");
}

#[test]
fn one_that_asks_is_sent_nothing_before_it_is_taken_off_and_that_answers_its_last_question() {
    let mut stage = Stage::founded(2);
    stage.actor(2).engine.step_down(false);
    let asked = said(&mut stage.actor(2).engine).pop().unwrap();
    let Frame::Hello(hello) = &asked else { panic!("{asked:?}") };
    let gone = |ask| Frame::Gone { id: hello.id, peer: peer(2), ask };
    let first = &mut stage.actor(1).engine;
    first.on_frame(asked.clone());
    assert_eq!(effects(first), [Effect::Send(gone(hello.ask))]);
    first.on_frame(gone(hello.ask - 1));
    assert!(first.line_of_machine().0.counts().contains(&hello.id), "that was said of an earlier question");
    first.on_frame(gone(hello.ask));
    assert!(!first.line_of_machine().0.counts().contains(&hello.id));
    let done = effects(first);
    assert!(matches!(done[..], [Effect::Remember(_), Effect::Donate { .. }]), "{done:?}");
}

#[test]
fn one_that_has_left_is_confirmed_no_more() {
    let mut stage = Stage::default();
    stage.enter(engine(2, 1));
    stage.change((1, 1), &[2], &[&[2]]);
    stage.settle();
    stage.enter(engine(1, 1));
    stage.change((1, 2), &[1, 2], &[&[1, 2]]);
    stage.deliver_to(&[1, 2]);
    stage.take_gift(1);
    let ready = stage.order.pop_front().unwrap();
    stage.actor(2).engine.on_frame(ready);
    stage.drain();
    stage.actor(1).engine.on_lost();
    stage.drain();
    // 2 is the higher one of two: if both counted, it would wait for one that is gone.
    stage.change((1, 3), &[2], &[&[2]]);
    let admit = stage.order.pop_front().unwrap();
    assert!(matches!(admit, Frame::Admit { .. }), "{admit:?}");
    stage.actor(2).engine.on_frame(admit);
    stage.actor(2).engine.on_signal();
    stage.drain();
    stage.order.clear();
    stage.change((2, 0), &[2], &[&[2]]);
    stage.deliver_to(&[2]);
    stage.assert_one_state(&[2], &[]);
}

#[test]
fn parts_that_know_of_more_that_count_elect_none_together_if_those_before_may_go_on() {
    let (mut stage, all) = (three_and_two_that_are_ready(), [1, 2, 3, 4, 5]);
    all.iter().for_each(|id| stage.actor(*id).engine.on_signal());
    stage.deliver_to(&[1, 4, 5]);
    // No part has a majority of five, and together these have one; but 2 and 3 know of three that count.
    for (view, part) in [(2, &[1, 4][..]), (3, &[5])] {
        stage.change((view, 0), part, &[part]);
    }
    stage.order.clear();
    stage.change((4, 0), &[1, 4, 5], &[&[1, 4], &[5]]);
    stage.settle_among(&[1, 4, 5]);
    assert!([1, 4, 5].iter().all(|id| !stage.actor(*id).engine.is_current()));
}
