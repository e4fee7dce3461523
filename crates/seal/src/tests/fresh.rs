//! What was recorded opens nothing: not again, not after a restart of either end, not whatever the clock says.
use super::*;

#[test]
fn a_datagram_is_taken_once_in_whatever_order_they_come() {
    let (mut one, mut two) = pair();
    let sealed: Vec<_> = (0..200_u8).map(|n| one.seal(1, &[n])).collect();
    for n in (0..200).rev() {
        assert_eq!(two.packet(&sealed[n]), Ok(vec![n as u8]));
        assert_eq!(two.open(&sealed[n]), Err(Unopened::Replayed));
    }
    let early = one.seal(1, b"early");
    (0..crate::window::WIDTH).for_each(|_| drop(one.seal(1, b"")));
    let late = one.seal(1, b"late");
    assert_eq!(two.packet(&late), Ok(b"late".to_vec()));
    assert_eq!(two.open(&early), Err(Unopened::Replayed), "it is older than what may still be under way");
}

#[test]
fn lanes_do_not_push_each_other_out_of_the_window() {
    let (mut one, mut two) = pair();
    let token = one.seal(0, b"token");
    for _ in 0..=crate::window::WIDTH {
        let data = one.seal(1, b"data");
        assert!(two.open(&data).is_ok());
    }
    assert_eq!(two.packet(&token), Ok(b"token".to_vec()));
}

#[test]
fn what_is_sent_again_is_sealed_anew_and_taken() {
    let (mut one, mut two) = pair();
    let (first, again) = (one.seal(1, b"message"), one.seal(1, b"message"));
    assert_ne!(first, again);
    assert!(two.open(&first).is_ok() && two.open(&again).is_ok());
}

#[test]
fn an_earlier_start_is_not_heard_any_more_and_its_greetings_bring_it_not_back() {
    let (mut now, mut recorded) = (Instant::ZERO, Vec::new());
    let (mut old, mut two) = (End::start(1, 77, 11), End::start(2, 77, 22));
    meet(&mut now, &mut [&mut old, &mut two], |greeting| recorded.push(greeting.clone()));
    let unseen: Vec<_> = (0..8).map(|kind| old.seal([0, 1, 2, 3, 16, 17, 18, 0][kind], b"old")).collect();
    // Its state was lost and its clock set back: it lives again, with an earlier number.
    let mut new = End::start(1, 5, 12);
    meet(&mut now, &mut [&mut new, &mut two], |_| {});
    assert!(two.hears(&new) && new.hears(&two) && !two.hears(&old));
    for sealed in recorded.iter().chain(&unseen).chain(&recorded) {
        let before = two.open(sealed);
        assert!(!matches!(before, Ok(Opened::Datagram { .. } | Opened::Greeting { proven: true, .. })), "{before:?}");
    }
    assert!(two.hears(&new) && !two.hears(&old));
    let live = new.seal(1, b"live");
    assert_eq!(two.packet(&live), Ok(b"live".to_vec()));
}

#[test]
fn a_start_with_the_same_number_is_another_start() {
    let (mut now, mut recorded) = (Instant::ZERO, Vec::new());
    let (mut old, mut two) = (End::start(1, 77, 11), End::start(2, 77, 22));
    meet(&mut now, &mut [&mut old, &mut two], |greeting| recorded.push(greeting.clone()));
    let mut new = End::start(1, 77, 12);
    meet(&mut now, &mut [&mut new, &mut two], |_| {});
    let sealed = new.seal(1, b"new");
    assert_eq!(two.packet(&sealed), Ok(b"new".to_vec()));
    let sealed = old.seal(1, b"old");
    assert_eq!(two.open(&sealed), Err(Unopened::Unproven(NodeId(1))));
}

#[test]
fn a_receiver_that_starts_anew_takes_nothing_that_was_recorded_before() {
    let (mut now, mut recorded) = (Instant::ZERO, Vec::new());
    let (mut one, mut before) = (End::start(1, 77, 11), End::start(2, 77, 22));
    meet(&mut now, &mut [&mut one, &mut before], |greeting| recorded.push(greeting.clone()));
    recorded.extend((0..100).map(|n| one.seal(1, &[n])));
    let mut after = End::start(2, 78, 23);
    let opens = |end: &mut End, sealed: &BytesMut| matches!(end.open(sealed), Ok(Opened::Datagram { .. }));
    assert!(recorded.iter().all(|sealed| !opens(&mut after, sealed)));
    meet(&mut now, &mut [&mut one, &mut after], |_| {});
    assert!(after.hears(&one) && one.hears(&after));
    assert!(recorded.iter().all(|sealed| !opens(&mut after, sealed)), "though the same start is heard now");
    let live = one.seal(1, b"live");
    assert!(opens(&mut after, &live));
}

#[test]
fn greetings_that_are_lost_are_said_again_until_all_hear_each_other() {
    let mut rng = consort_types::Rng::new(52);
    for _ in 0..50 {
        let mut ends = [End::start(1, 7, 1), End::start(2, 7, 2), End::start(3, 7, 3)];
        let mut now = Instant::ZERO;
        for _ in 0..4_000 {
            now += Duration::from_millis(5);
            for at in 0..3 {
                let Some(greeting) = ends[at].greet(now) else { continue };
                for other in (0..3).filter(|other| *other != at) {
                    if rng.chance(0.5) {
                        let _ = ends[other].open(&greeting);
                    }
                }
            }
        }
        assert!(ends.iter().all(|end| end.opener.proven().count() == 2));
        assert!(ends.iter().all(|end| end.opener.poll_timeout().is_none()), "and then nobody greets any more");
    }
}

#[test]
fn recorded_greetings_are_answered_at_a_bounded_rate() {
    let (mut now, mut recorded) = (Instant::ZERO, Vec::new());
    let (mut old, mut two) = (End::start(1, 77, 11), End::start(2, 77, 22));
    meet(&mut now, &mut [&mut old, &mut two], |greeting| recorded.push(greeting.clone()));
    let mut new = End::start(1, 78, 12);
    meet(&mut now, &mut [&mut new, &mut two], |_| {});
    let mut answers = 0;
    for at in 0..100_000 {
        now += Duration::from_micros(10);
        let _ = two.open(&recorded[at % recorded.len()]);
        answers += usize::from(two.greet(now).is_some());
    }
    assert!(answers <= 101, "{answers} in a second");
    assert!(two.hears(&new));
}

#[test]
fn of_two_processes_with_one_number_the_later_is_heard_and_the_earlier_is_told_of_it() {
    let (mut now, mut two) = (Instant::ZERO, End::start(2, 77, 22));
    let (mut first, mut second) = (End::start(1, 77, 11), End::start(1, 78, 12));
    meet(&mut now, &mut [&mut first, &mut two], |_| {});
    meet(&mut now, &mut [&mut second, &mut two, &mut first], |_| {});
    assert!(two.hears(&second));
    let sealed = second.seal(1, b"me");
    assert_eq!(first.packet(&sealed), Ok(b"me".to_vec()));
    // The second has gone; the first finds out that it is not heard, and is heard again.
    let unheard = first.seal(1, b"deaf");
    assert_eq!(two.open(&unheard), Err(Unopened::Unproven(NodeId(1))));
    meet(&mut now, &mut [&mut first, &mut two], |_| {});
    let heard = first.seal(1, b"heard");
    assert_eq!(two.packet(&heard), Ok(b"heard".to_vec()));
}

#[test]
fn many_nodes_find_each_other_though_a_greeting_has_no_room_for_all() {
    let nodes = 40_u16;
    let mut ends: Vec<_> = (1..=nodes)
        .map(|node| {
            let (identity, salt) = (identity(node), salt(Cipher::preferred(), node as u8));
            let sealer = Sealer::new(&ring(1), &identity, salt).unwrap();
            let opener = Opener::new(ring(1), identity, salt, (1..=nodes).map(NodeId));
            End { identity, sealer, opener }
        })
        .collect();
    let mut all: Vec<_> = ends.iter_mut().collect();
    meet(&mut { Instant::ZERO }, &mut all, |_| {});
    assert!(ends.iter().all(|end| end.opener.proven().count() == usize::from(nodes) - 1));
}
