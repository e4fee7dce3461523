//! Readings that were replaced, and what only some daemons have.
use super::*;
use crate::inbox::EventReader;
use crate::shared::SessionState;
use std::sync::Arc;

/// A message to "g" at a position, as a reader gets it.
fn read(position: u64) -> Event {
    let mut inbox = EventReader::new(Arc::new(SessionState::default()));
    let incarnation = [&[0, 0, 0, 11, 0xfc, 0, 1][..], &101_u64.to_be_bytes()].concat();
    let body = [&position.to_be_bytes()[..], &[0, 1, 0, 0, 0, 2], b"\x03bob\0\x01\x01ghi"].concat();
    let frames = [&incarnation, &[0, 0, 0, 1 + body.len() as u8, 0xe4][..], &body].concat();
    let taken = inbox.read(|buffer| {
        buffer[..frames.len()].copy_from_slice(&frames);
        Ok(Some(frames.len()))
    });
    assert!(taken.unwrap());
    let event = inbox.next().unwrap().expect("a message");
    assert!(matches!(event, Event::Read(_)), "{event:?}");
    event
}

fn began(order: u64, at: u64) -> Event {
    Event::Reading(ReadingStatus::Began { order, from: Place::at(at), oldest: 1, newest: 9 })
}

fn in_view(number: u64, line: u64) -> Event {
    Event::Reading(ReadingStatus::InView { view: view(number), line: Position(line), closing: None })
}

fn gap(from: ViewPlace, to: ViewPlace) -> Event {
    Event::Reading(ReadingStatus::Gap { from, to, closing: None })
}

fn caught_up(position: u64) -> Event {
    Event::Reading(ReadingStatus::CaughtUp { position })
}

fn ended(cause: ReadingEndCause) -> Event {
    Event::Reading(ReadingStatus::Ended(ReadingEnd { cause, oldest: 0, newest: 0, text: String::new(), common: None }))
}

impl World {
    /// The daemon says this. True if the session leaves it.
    fn says(&mut self, event: Event) -> bool {
        match self.machine.take(event) {
            Ok(()) => false,
            Err(Broken::Connection(why)) => {
                assert!(matches!(why, Error::Lacking), "{why}");
                self.machine.lost(why, self.now).unwrap();
                true
            }
            Err(Broken::Session(error)) => panic!("{error}"),
        }
    }

    /// Connects, and the daemon goes on with the reading where it is asked for, in view 7.
    fn goes_on(&mut self) -> (u16, u64) {
        self.goes_on_in(7)
    }

    fn goes_on_in(&mut self, view: u64) -> (u16, u64) {
        let (port, words) = self.connect();
        self.machine.take(opened(0)).unwrap();
        let at = words.last().unwrap().strip_prefix("read ").unwrap().parse().unwrap();
        assert!(!self.says(began(0, at)) && !self.says(in_view(view, 60)));
        (port, at)
    }

    fn gaps(&mut self) -> Vec<(ViewPlace, ViewPlace)> {
        let events = self.events();
        assert!(!events.iter().any(|event| matches!(event, SessionEvent::Parted { .. })), "{events:?}");
        let gap = |event| if let SessionEvent::Gap { from, to } = event { Some((from, to)) } else { None };
        events.into_iter().filter_map(gap).collect()
    }

    fn bookmark(&mut self) -> Option<String> {
        self.events();
        self.machine.bookmark().map(|bookmark| bookmark.to_string())
    }

    /// Another one is to be read instead, from a place of an order that lasts.
    fn replace(&mut self, at: u64) {
        self.machine.read(&[group("h")], ReadFrom::Place(Place::at(at))).unwrap();
    }
}

#[test]
fn that_a_replaced_reading_has_parted_is_no_affair_of_the_next() {
    let mut world = World::of(2);
    world.read_on();
    world.connect();
    world.machine.join(&group("a"), false);
    world.replace(4);
    assert_eq!(world.work(0), [""; 0]);
    assert!(!world.is_other(Some(place(7, 2))));
    assert_eq!(world.parted(), []);
    assert_eq!(world.work(9), ["join a", "read Place(Place { position: 4, index: 0 })"]);
    world.says(began(5, 4));
    assert_eq!(world.bookmark().unwrap(), "0000000000000005:4");
}

#[test]
fn what_is_told_of_a_replaced_reading_is_no_progress_of_the_next() {
    let mut world = World::of(2);
    world.machine.read(&[group("g")], ReadFrom::Start).unwrap();
    world.connect();
    world.replace(9);
    assert_eq!(world.work(9), ["read Place(Place { position: 9, index: 0 })"]);
    for event in [began(7, 1), read(2), caught_up(4)] {
        world.says(event);
        assert_eq!(world.bookmark(), None, "it has not begun");
    }
    world.lose();
    assert_eq!(world.connect().1, ["open 2", "read Place(Place { position: 9, index: 0 })"], "where it was to begin");
    world.says(began(7, 9));
    world.says(read(9));
    assert_eq!(world.bookmark().unwrap(), "0000000000000007:10");
}

#[test]
fn a_gap_of_a_replaced_reading_is_told_and_moves_nothing() {
    let mut world = World::of(2);
    world.read_on();
    world.goes_on();
    world.replace(9);
    world.work(9);
    assert!(!world.says(gap(place(7, 3), place(8, 0))), "no other daemon is asked");
    assert_eq!(world.gaps(), [(place(7, 3), place(8, 0))]);
    assert_eq!(world.bookmark(), None);
    world.says(ended(ReadingEndCause::Ended));
    world.says(began(7, 9));
    assert_eq!(world.bookmark().unwrap(), "0000000000000007:9");
    assert!(!world.says(ended(ReadingEndCause::Closed)));
    world.replace(12);
    assert_eq!(world.work(9), ["read Place(Place { position: 12, index: 0 })"]);
    world.says(began(7, 12));
    assert_eq!(world.bookmark().unwrap(), "0000000000000007:12", "what was over is not waited for");
}

#[test]
fn of_two_readings_that_wait_for_credit_only_the_last_is_asked_for() {
    let mut world = World::of(1);
    world.connect();
    world.machine.join(&group("a"), false);
    [4, 9].into_iter().for_each(|at| world.replace(at));
    assert_eq!(world.work(9), ["join a", "read Place(Place { position: 9, index: 0 })"]);
    world.says(began(7, 9));
    assert_eq!(world.bookmark().unwrap(), "0000000000000007:9");
}

#[test]
fn what_one_daemon_lacks_is_read_at_another() {
    //= E30 test
    let mut world = World::of(3);
    world.read_on();
    assert_eq!(world.goes_on(), (1, 3));
    world.says(read(4));
    assert!(world.says(gap(place(7, 5), place(8, 0))));
    assert_eq!(world.goes_on(), (2, 5));
    world.says(read(6));
    assert_eq!(world.gaps(), []);
    assert!(world.says(gap(place(7, 7), place(9, 0))), "that is another gap: each is asked anew");
    assert_eq!(world.goes_on(), (3, 7));
    world.lose();
    assert_eq!(world.goes_on(), (1, 7));
    world.says(in_view(9, 7));
    assert!(!world.says(caught_up(9)));
    assert_eq!(world.gaps(), []);
}

#[test]
fn what_all_lack_is_told_where_least_is_lacking() {
    //= E30 test
    let mut world = World::of(3);
    world.read_on();
    world.goes_on();
    assert!(world.says(gap(place(7, 3), place(8, 4))));
    assert_eq!(world.goes_on().0, 2);
    assert!(world.says(gap(place(7, 3), place(8, 0))));
    assert_eq!(world.next(), 3);
    world.fail();
    assert_eq!(world.goes_on(), (2, 3));
    assert_eq!(world.gaps(), []);
    assert!(!world.says(gap(place(7, 3), place(8, 6))), "it lacks more now, and is asked no third time");
    assert_eq!(world.gaps(), [(place(7, 3), place(8, 6))]);
    assert!(world.bookmark().unwrap().starts_with("0000000000000000:6@8/1/1+"));
}

#[test]
fn the_last_one_that_is_asked_tells_at_once_if_it_lacks_no_more_than_others() {
    //= E30 test
    let mut world = World::of(2);
    world.read_on();
    world.goes_on();
    assert!(world.says(gap(place(7, 3), place(9, 0))));
    assert_eq!(world.goes_on().0, 2);
    assert!(!world.says(gap(place(7, 3), place(8, 0))));
    assert_eq!(world.gaps(), [(place(7, 3), place(8, 0))]);
    let mut alone = World::of(1);
    alone.read_on();
    alone.goes_on();
    assert!(!alone.says(gap(place(7, 3), place(9, 0))));
    assert_eq!(alone.gaps(), [(place(7, 3), place(9, 0))]);
}

#[test]
fn daemons_that_lack_ever_more_are_asked_once_and_the_program_is_told() {
    //= E30 test
    let mut world = World::of(5);
    world.read_on();
    let mut met = Vec::new();
    for to in 10.. {
        met.push(world.goes_on().0);
        if !world.says(gap(place(7, 3), place(7, to))) {
            break;
        }
    }
    assert_eq!(met, [1, 2, 3, 4, 5, 1], "the first lacked least");
    assert_eq!(world.gaps(), [(place(7, 3), place(7, 15))]);
    assert!(!world.says(gap(place(7, 20), place(7, 40))), "the program is too slow for them all");
    assert_eq!(world.gaps(), [(place(7, 20), place(7, 40))]);
    assert!(world.says(gap(place(7, 40), place(8, 0))), "that is not for the program's slowness");
}

#[test]
fn who_read_nothing_in_a_view_of_its_own_goes_on_from_the_view_before() {
    //= E31 test
    let mut world = World::of(2);
    world.read_on();
    world.goes_on();
    world.says(read(4));
    for event in [in_view(8, 5), caught_up(2), in_view(9, 3)] {
        world.says(event);
    }
    assert!(world.says(gap(place(9, 0), place(10, 0))));
    assert_eq!(world.connect(), (2, vec!["open 2".into(), "read 0".into()]));
    assert!(!world.is_other(Some(place(7, 5))), "nothing was read behind that");
    assert_eq!(world.work(9), ["read 5"]);
    for event in [began(0, 5), in_view(7, 60), read(5)] {
        world.says(event);
    }
    assert_eq!(world.gaps(), []);
    assert_eq!(world.bookmark().unwrap(), "0000000000000000:6@7/1/1+6/1/1/60");
}

#[test]
fn who_read_something_in_a_view_of_its_own_is_told_the_gap() {
    //= E30 test
    //= E31 test
    let mut world = World::of(2);
    world.read_on();
    world.goes_on();
    for event in [in_view(8, 5), read(1)] {
        world.says(event);
    }
    assert!(world.says(gap(place(8, 2), place(9, 0))));
    assert_eq!(world.connect(), (2, vec!["open 2".into(), "read 2".into()]));
    assert!(world.is_other(Some(place(7, 5))));
    assert_eq!(world.connect(), (1, vec!["open 3".into(), "read 2".into()]));
    for event in [began(0, 2), in_view(8, 5)] {
        assert!(!world.says(event));
    }
    assert!(!world.says(gap(place(8, 2), place(9, 0))));
    assert_eq!(world.gaps(), [(place(8, 2), place(9, 0))]);
}

#[test]
fn who_read_more_than_is_in_common_is_told_the_gap_though_it_read_nothing_in_its_own_view() {
    //= E31 test
    let mut world = World::of(2);
    world.read_on();
    world.goes_on();
    for event in [read(4), in_view(8, 5)] {
        world.says(event);
    }
    assert!(world.says(gap(place(8, 0), place(9, 0))));
    world.connect();
    assert!(world.is_other(Some(place(7, 4))));
    assert_eq!(world.goes_on_in(8), (1, 0));
    assert!(!world.says(gap(place(8, 0), place(9, 0))));
    assert_eq!(world.gaps(), [(place(8, 0), place(9, 0))]);
}

#[test]
fn one_that_closed_the_view_otherwise_is_no_reason_to_part_while_another_one_goes_on() {
    //= E30 test
    let mut world = World::of(2);
    world.read_on();
    world.goes_on();
    world.says(read(4));
    assert!(world.says(gap(place(7, 5), place(8, 0))));
    world.connect();
    assert!(world.is_other(Some(place(7, 4))));
    assert_eq!(world.goes_on(), (1, 5));
    assert!(!world.says(gap(place(7, 5), place(8, 0))));
    assert_eq!(world.gaps(), [(place(7, 5), place(8, 0))]);
}

#[test]
fn one_that_does_not_let_it_read_does_not_end_what_another_one_goes_on_with() {
    //= E30 test
    let mut world = World::of(2);
    world.read_on();
    world.goes_on();
    assert!(world.says(gap(place(7, 3), place(8, 0))));
    world.connect();
    assert!(world.says(ended(ReadingEndCause::Unsupported)));
    assert_eq!(world.goes_on(), (1, 3));
    assert!(!world.says(gap(place(7, 3), place(8, 0))));
    let told = world.events();
    assert!(told.iter().any(|event| matches!(event, SessionEvent::Gap { .. })), "{told:?}");
    let ends = |event: &SessionEvent| matches!(event, SessionEvent::Event(Event::Reading(ReadingStatus::Ended(_))));
    assert!(!told.iter().any(ends), "{told:?}");
    assert!(!world.says(ended(ReadingEndCause::Closed)));
    assert!(world.events().iter().any(ends), "there it is over");
}

#[test]
fn where_none_answers_any_more_nothing_is_told_and_all_are_tried_again() {
    //= E30 test
    let mut world = World::of(2);
    world.read_on();
    world.goes_on();
    assert!(world.says(gap(place(7, 3), place(8, 0))));
    for port in [2, 1, 2] {
        assert_eq!(world.next(), port);
        world.fail();
    }
    assert_eq!(world.gaps(), []);
    assert_eq!(world.goes_on(), (1, 3));
    assert!(world.says(gap(place(7, 3), place(8, 0))), "the other one may be back");
    assert_eq!(world.goes_on().0, 2);
    world.says(in_view(8, 3));
    assert!(!world.says(caught_up(3)));
    assert_eq!(world.gaps(), []);
}

#[test]
fn one_that_is_cut_off_itself_is_left_for_one_that_has_come_further() {
    //= E30 test
    let mut world = World::of(3);
    world.read_on();
    world.goes_on();
    assert!(world.says(gap(place(7, 3), place(9, 0))));
    assert_eq!(world.goes_on().0, 2);
    for event in [read(4), in_view(8, 5)] {
        world.says(event);
    }
    assert!(world.says(caught_up(2)), "it has not come to view 9");
    assert_eq!(world.goes_on_in(8), (3, 0));
    assert!(world.says(gap(place(8, 0), place(9, 0))));
    assert_eq!(world.goes_on_in(8), (1, 0));
    assert!(world.says(gap(place(8, 0), place(10, 0))));
    assert_eq!(world.goes_on_in(8), (3, 0));
    assert!(!world.says(gap(place(8, 0), place(9, 0))));
    assert_eq!(world.gaps(), [(place(8, 0), place(9, 0))]);
    assert!(!world.says(caught_up(1)));
}

#[test]
fn one_that_is_cut_off_is_stayed_with_while_nobody_else_answers() {
    //= E30 test
    let mut world = World::of(2);
    world.read_on();
    world.goes_on();
    assert!(world.says(gap(place(7, 3), place(9, 0))));
    assert_eq!(world.goes_on().0, 2);
    assert!(world.says(caught_up(2)));
    assert_eq!(world.next(), 1);
    world.fail();
    assert_eq!(world.goes_on(), (2, 3));
    assert!(!world.says(caught_up(2)));
    assert_eq!(world.gaps(), []);
}
