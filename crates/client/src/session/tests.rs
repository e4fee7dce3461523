//! Sessions against a daemon that says what the test wants, without a socket or a clock.
mod readings;

use super::connection::{Broken, Connection};
use super::event_queue::EventQueue;
use super::machine::SessionMachine;
use super::{Fate, SessionEvent, SessionOptions};
use crate::{
    Address, Bookmark, Bytes, Error, Event, GroupName, Place, Position, ReadFrom, ReadingEnd, ReadingEndCause,
    ReadingStatus, Service, Target, ViewId, ViewPlace, ViewTrail,
};
use consort_session::{
    HistoryPlace, OpenRefusal, OpenRefusalCause, OpenRequest, OpeningWait, ProducerStatus, Refusal, RefusalCause,
};
use consort_types::MemberId;
use std::time::{Duration, Instant};

/// A daemon that is asked, and has credit for so much more.
#[derive(Debug, Default)]
struct Asked {
    words: Vec<String>,
    credit: usize,
    requests: u64,
}

impl Asked {
    fn number(&mut self, word: String) -> Result<u64, Error> {
        if self.credit == 0 {
            return Err(Error::TimedOut { cause: None });
        }
        self.credit -= 1;
        self.words.push(word);
        self.requests += 1;
        Ok(self.requests)
    }
}

impl Connection for Asked {
    fn open_producer(&mut self, open: &OpenRequest) -> Result<(), Error> {
        self.words.push(format!("open {}", open.attempt));
        Ok(())
    }

    fn try_join(&mut self, group: &GroupName, _closed: bool) -> Result<u64, Error> {
        self.number(format!("join {}", group.as_str()))
    }

    fn try_leave(&mut self, group: &GroupName) -> Result<u64, Error> {
        self.number(format!("leave {}", group.as_str()))
    }

    fn try_multicast(&mut self, _service: Service, _to: &[Target], payload: &[u8]) -> Result<u64, Error> {
        self.number(String::from_utf8_lossy(payload).into_owned())
    }

    fn begin_reading(&mut self, _groups: &[GroupName], from: &ReadFrom) -> Result<(), Error> {
        self.words.push(match from {
            ReadFrom::After(bookmark) => format!("read {}", bookmark.next),
            other => format!("read {other:?}"),
        });
        Ok(())
    }

    fn next_read(&mut self) -> Result<Option<Event>, Error> {
        Ok(None)
    }
}

struct World {
    machine: SessionMachine,
    now: Instant,
}

impl World {
    fn of(daemons: u16) -> Self {
        let addresses: Vec<_> = (1..=daemons).map(|port| Address::Tcp { host: "h".into(), port }).collect();
        let now = Instant::now();
        Self { machine: SessionMachine::new(&addresses, SessionOptions::default(), now), now }
    }

    /// Where it connects next.
    fn next(&mut self) -> u16 {
        let (at, address) = self.machine.next_attempt().unwrap().expect("it is not connected");
        let Address::Tcp { port, .. } = address else { panic!("{address}") };
        let port = *port;
        self.now = self.now.max(at);
        port
    }

    /// Connects to what is next, and lets the daemon be asked.
    fn connect(&mut self) -> (u16, Vec<String>) {
        let port = self.next();
        self.machine.connected();
        (port, self.work(100))
    }

    fn work(&mut self, credit: usize) -> Vec<String> {
        let mut asked = Asked { credit, ..Asked::default() };
        self.machine.work(&mut asked).unwrap();
        asked.words
    }

    fn fail(&mut self) {
        self.next();
        self.machine.failed(Error::NobodyReceives, self.now).unwrap();
    }

    fn lose(&mut self) {
        self.machine.lost(Error::NobodyReceives, self.now).unwrap();
    }

    /// The daemon says that its history is another. True if the session leaves it.
    fn is_other(&mut self, common: Option<ViewPlace>) -> bool {
        let (cause, text) = (ReadingEndCause::Parted, String::new());
        let end = ReadingEnd { cause, oldest: 0, newest: 0, text, common };
        match self.machine.take(Event::Reading(ReadingStatus::Ended(end))) {
            Ok(()) => false,
            Err(Broken::Connection(why)) => {
                assert!(matches!(why, Error::OtherHistory), "{why}");
                self.machine.lost(why, self.now).unwrap();
                true
            }
            Err(Broken::Session(error)) => panic!("{error}"),
        }
    }

    fn events(&mut self) -> Vec<SessionEvent> {
        std::iter::from_fn(|| self.machine.next_event()).collect()
    }

    fn parted(&mut self) -> Vec<Option<ViewPlace>> {
        let parted = |event| if let SessionEvent::Parted { common } = event { Some(common) } else { None };
        self.events().into_iter().filter_map(parted).collect()
    }

    /// Reads on in view 7, after view 6.
    fn read_on(&mut self) {
        let before = vec![(view(6), Position(60))];
        let trail = Some(Box::new(ViewTrail { view: view(7), closing: None, before }));
        let bookmark = Bookmark { order: 0, next: Place::at(3), trail };
        self.machine.read(&[group("g")], bookmark.into()).unwrap();
    }
}

fn view(number: u64) -> ViewId {
    ViewId { number, representative: MemberId::new(1, 1) }
}

fn place(number: u64, at: u64) -> ViewPlace {
    ViewPlace { view: view(number), at: Position(at), index: 0 }
}

fn group(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

fn opened(last: u64) -> Event {
    let at = HistoryPlace { view: 1, at: Position(1) };
    Event::Producer(ProducerStatus::Opened { last, at, forgotten: false })
}

#[test]
fn addresses_take_turns_and_a_round_without_success_makes_it_wait() {
    let mut world = World::of(3);
    let begun = world.now;
    for port in [1, 2, 3] {
        assert_eq!((world.next(), world.now), (port, begun));
        world.fail();
    }
    assert_eq!(world.next(), 1);
    assert!(world.now > begun, "it waits after a round");
    assert_eq!(world.connect().0, 1);
    world.machine.take(opened(0)).unwrap();
    let lost = world.now;
    world.lose();
    assert_eq!((world.next(), world.now), (2, lost), "at once where the last one was of use");
}

#[test]
fn it_gives_up_after_the_time_that_is_allowed() {
    let mut world = World::of(2);
    world.fail();
    world.now += SessionOptions::default().reconnect_within + Duration::from_millis(1);
    let error = world.machine.failed(Error::NobodyReceives, world.now).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

#[test]
fn an_option_that_is_out_of_range_is_told_at_once() {
    let mut world = World::of(2);
    world.next();
    let bad = crate::ConnectOptions::default().host_timeout(Duration::ZERO).check().unwrap_err();
    let error = world.machine.failed(Error::Option(bad), world.now).unwrap_err();
    assert!(matches!(error, Error::Option(_)), "{error}");
}

#[test]
fn each_daemon_is_asked_for_all_and_sends_wait_until_the_producer_is_open() {
    let mut world = World::of(2);
    world.machine.join(&group("a"), false);
    world.machine.join(&group("b"), true);
    world.machine.leave(&group("a"));
    world.machine.read(&[group("g")], ReadFrom::Start).unwrap();
    let to = || super::machine::targets(&[group("g")]).unwrap();
    world.machine.send(Service::Agreed, to(), Bytes::from_static(b"one")).unwrap();
    assert_eq!(world.connect().1, ["open 1", "join b", "read Start"]);
    assert_eq!(world.work(9), [""; 0]);
    world.machine.take(opened(0)).unwrap();
    assert_eq!(world.work(9), ["one"]);
    world.lose();
    world.machine.send(Service::Agreed, to(), Bytes::from_static(b"two")).unwrap();
    assert_eq!(world.connect(), (2, vec!["open 2".into(), "join b".into(), "read Start".into()]));
    world.machine.take(opened(1)).unwrap();
    assert_eq!(world.work(9), ["two"], "the first is known to be ordered");
    let told = |event: &SessionEvent| matches!(event, SessionEvent::Sent { send: 1, fate: Fate::Ordered { .. } });
    assert!(world.events().iter().any(told));
}

#[test]
fn a_bookmark_is_of_what_the_program_was_told() {
    let mut world = World::of(1);
    world.machine.read(&[group("g")], ReadFrom::Start).unwrap();
    world.connect();
    let began = |order, at| ReadingStatus::Began { order, from: Place::at(at), oldest: 1, newest: 9 };
    let caught_up = ReadingStatus::CaughtUp { position: 4 };
    for status in [began(7, 1), caught_up, ReadingStatus::Lost { from: 5, to: 6 }] {
        world.machine.take(Event::Reading(status)).unwrap();
    }
    let next = |world: &World| world.machine.bookmark().map(|bookmark| (bookmark.order, bookmark.next.position));
    let mut told = Vec::new();
    while world.machine.next_event().is_some() {
        told.push(next(&world));
    }
    assert_eq!(told, [None, Some((7, 1)), Some((7, 5)), Some((7, 7))]);
    world.machine.take(Event::Reading(ReadingStatus::CaughtUp { position: 8 })).unwrap();
    world.lose();
    world.connect();
    assert_eq!(next(&world), Some((7, 7)), "what came before the loss is not told yet");
    world.machine.next_event();
    assert_eq!(next(&world), Some((7, 9)));
    world.machine.read(&[group("g")], ReadFrom::New).unwrap();
    while world.machine.next_event().is_some() {}
    assert_eq!(next(&world), None, "another reading has begun");
}

#[test]
fn a_reading_that_was_not_asked_for_yet_begins_where_it_was_to_begin() {
    let mut world = World::of(1);
    world.machine.read(&[group("g")], ReadFrom::Start).unwrap();
    world.connect();
    world.machine.join(&group("a"), false);
    world.machine.read(&[group("h")], ReadFrom::Place(Place::at(2))).unwrap();
    assert_eq!(world.work(0), [""; 0], "there is no credit for the join before it");
    let began = ReadingStatus::Began { order: 7, from: Place::at(9), oldest: 1, newest: 9 };
    world.machine.take(Event::Reading(began)).unwrap();
    world.lose();
    assert_eq!(world.connect().1, ["open 2", "join a", "read Place(Place { position: 2, index: 0 })"]);
}

#[test]
fn a_fate_that_is_asked_for_is_told_once() {
    let mut world = World::of(1);
    let to = || super::machine::targets(&[group("g")]).unwrap();
    for _ in 0..2 {
        world.machine.send(Service::Agreed, to(), Bytes::from_static(b"x")).unwrap();
    }
    world.connect();
    world.machine.take(opened(0)).unwrap();
    world.work(9);
    assert_eq!(world.machine.take_fate(1), None, "it has none yet");
    let at = HistoryPlace { view: 1, at: Position(5) };
    world.machine.take(Event::Producer(ProducerStatus::Settled { number: 2, at })).unwrap();
    assert_eq!(world.machine.take_fate(2), Some(Fate::Ordered { at: Some(at) }));
    assert_eq!(world.machine.take_fate(2), None);
    let left = world.events();
    assert!(
        left.iter().all(|event| !matches!(event, SessionEvent::Sent { send: 2, .. })) && left.len() == 2,
        "{left:?}"
    );
}

#[test]
fn a_program_is_told_that_it_was_made_to_leave_a_group() {
    let mut world = World::of(1);
    world.machine.join(&group("a"), false);
    world.connect();
    world.machine.take(opened(0)).unwrap();
    let refused = |send, cause| Event::Refused { send, refusal: Refusal::new(cause, "it is no member of a any more") };
    for cause in [RefusalCause::Demoted, RefusalCause::Denied] {
        world.machine.take(refused(0, cause)).unwrap();
        let told = |event: &SessionEvent| matches!(event, SessionEvent::Event(Event::Refused { send: 0, refusal }) if refusal.cause == cause);
        assert!(world.events().iter().any(told), "{cause:?}");
    }
    world.machine.take(refused(77, RefusalCause::Denied)).unwrap();
    assert!(world.events().is_empty(), "a request that it does not know is its own affair");
}

/// The daemon refuses a request because it is leaving, and the session leaves it.
fn is_left(world: &mut World, request: u64) {
    let refusal = Refusal::new(RefusalCause::Leaving, "this node is leaving");
    let why = match world.machine.take(Event::Refused { send: request, refusal }) {
        Err(Broken::Connection(why)) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why.to_string(), "the daemon is leaving and takes no more: this node is leaving");
    world.machine.lost(why, world.now).unwrap();
    let events = world.events();
    assert!(matches!(&events[..], [.., SessionEvent::Lost { .. }]), "{events:?}");
    assert!(!events.iter().any(|event| matches!(event, SessionEvent::JoinRefused { .. })), "{events:?}");
}

#[test]
fn a_daemon_that_leaves_refuses_a_join_and_the_next_is_asked() {
    //= E13 test
    let mut world = World::of(2);
    world.machine.join(&group("a"), false);
    assert_eq!(world.connect(), (1, vec!["open 1".into(), "join a".into()]));
    is_left(&mut world, 1);
    assert_eq!(world.connect(), (2, vec!["open 2".into(), "join a".into()]));
    // Any other cause is the program's affair.
    let refusal = Refusal::new(RefusalCause::Denied, "no rule");
    world.machine.take(Event::Refused { send: 1, refusal }).unwrap();
    assert!(matches!(&world.events()[..], [.., SessionEvent::JoinRefused { .. }]));
}

#[test]
fn what_a_daemon_that_leaves_refuses_is_sent_to_the_next() {
    //= E13 test
    let mut world = World::of(2);
    world.connect();
    world.machine.take(opened(0)).unwrap();
    for text in ["one", "two"] {
        world.machine.send(Service::Agreed, Vec::new(), Bytes::from(text)).unwrap();
    }
    assert_eq!(world.work(100), ["one", "two"]);
    is_left(&mut world, 2);
    assert_eq!(world.connect(), (2, vec!["open 2".into()]));
    world.machine.take(opened(1)).unwrap();
    assert_eq!(world.work(100), ["two"]);
    let fates = world.events().into_iter().filter_map(|event| match event {
        SessionEvent::Sent { send, fate } => Some((send, matches!(fate, Fate::Ordered { .. }))),
        _ => None,
    });
    assert_eq!(fates.collect::<Vec<_>>(), [(1, true)]);
}

#[test]
fn one_daemon_alone_is_waited_for_until_it_is_back() {
    //= E13 test
    let mut world = World::of(1);
    world.machine.join(&group("a"), false);
    for _ in 0..3 {
        world.connect();
        world.machine.take(Event::Producer(ProducerStatus::Waits(OpeningWait::Membership))).unwrap();
        let before = world.now;
        is_left(&mut world, 1);
        assert_eq!(world.next(), 1);
        assert!(world.now > before, "it does not try again and again at once");
    }
    assert_eq!(world.connect(), (1, vec!["open 4".into(), "join a".into()]));
}

#[test]
fn one_that_no_daemon_opens_is_over_for_all_calls() {
    let mut world = World::of(2);
    world.machine.send(Service::Agreed, Vec::new(), Bytes::from("one")).unwrap();
    world.connect();
    let refusal = OpenRefusal { cause: OpenRefusalCause::NoPolicy, text: "no policy".into() };
    let end = world.machine.take(Event::Producer(ProducerStatus::Refused(refusal)));
    assert!(matches!(end, Err(Broken::Session(Error::NotOpened(_)))), "{end:?}");
    assert!(!world.machine.is_up());
    assert!(matches!(world.machine.next_attempt(), Err(Error::NotOpened(_))));
    let send = world.machine.send(Service::Agreed, Vec::new(), Bytes::from("two"));
    assert!(matches!(send, Err(Error::NotOpened(_))), "{send:?}");
}

#[test]
fn what_there_is_no_credit_for_is_asked_later() {
    let mut world = World::of(1);
    world.machine.join(&group("a"), false);
    world.next();
    world.machine.connected();
    assert_eq!(world.work(0), ["open 1"]);
    assert_eq!(world.work(0), [""; 0]);
    assert_eq!(world.work(1), ["join a"]);
}

#[test]
fn one_that_just_started_is_left_for_one_that_knows() {
    //= E28 test
    let mut world = World::of(3);
    world.connect();
    world.read_on();
    world.lose();
    assert_eq!(world.connect(), (2, vec!["open 2".into(), "read 3".into()]));
    assert!(world.is_other(None), "others are left to ask");
    assert_eq!(world.connect(), (3, vec!["open 3".into(), "read 3".into()]));
    assert_eq!(world.parted(), []);
    let began = ReadingStatus::Began { order: 0, from: Place::at(3), oldest: 1, newest: 9 };
    world.machine.take(Event::Reading(began)).unwrap();
    world.lose();
    assert_eq!(world.next(), 1, "the turn is as before");
}

#[test]
fn where_none_knows_they_have_parted_and_it_goes_on_where_most_is_in_common() {
    //= E28 test
    let mut world = World::of(3);
    world.connect();
    world.read_on();
    world.lose();
    assert_eq!(world.connect().0, 2);
    assert!(world.is_other(Some(place(6, 8))));
    assert_eq!(world.next(), 3);
    world.fail();
    assert_eq!(world.parted(), []);
    assert_eq!(world.connect().0, 1);
    assert!(world.is_other(None), "it goes back to the one that has a view in common");
    assert_eq!(world.parted(), [Some(place(6, 8))]);
    assert_eq!(world.connect(), (2, vec!["open 4".into(), "read 8".into()]));
}

#[test]
fn where_the_last_one_cannot_be_reached_it_is_told_all_the_same() {
    //= E28 test
    let mut world = World::of(2);
    world.connect();
    world.read_on();
    world.lose();
    assert_eq!(world.connect().0, 2);
    assert!(world.is_other(None));
    assert_eq!(world.next(), 1);
    world.fail();
    assert_eq!(world.parted(), [None]);
    assert_eq!(world.connect(), (2, vec!["open 3".into(), "read Start".into()]));
}

#[test]
fn one_that_was_there_is_believed_at_once() {
    //= E28 test
    let mut world = World::of(3);
    world.connect();
    world.read_on();
    world.lose();
    world.connect();
    assert!(!world.is_other(Some(place(7, 2))));
    assert_eq!(world.parted(), [Some(place(7, 2))]);
    assert_eq!(world.work(9), ["read 2"]);
}

#[test]
fn whatever_waits_to_be_received_is_counted_until_it_is_taken() {
    let fate = |send| SessionEvent::Sent { send, fate: Fate::Ordered { at: None } };
    let mut waiting = EventQueue::default();
    for event in [fate(1), SessionEvent::Lost { why: "why".into() }, fate(2)] {
        let before = waiting.bytes();
        waiting.push(event);
        assert!(waiting.bytes() >= before + size_of::<SessionEvent>());
    }
    assert!(waiting.take_fate(1).is_some() && waiting.pop().is_some() && waiting.take_fate(2).is_some());
    assert_eq!(waiting.bytes(), 0);
}

#[test]
fn a_program_that_sends_and_never_receives_is_told_so_before_its_memory_is_full() {
    let mut world = World::of(1);
    world.connect();
    world.machine.take(opened(0)).unwrap();
    let mut settled = 0;
    while world.machine.may_keep().is_ok() {
        assert!(settled < 1 << 20, "fates wait without a bound");
        for _ in 0..1000 {
            world.machine.send(Service::Agreed, vec![Target::Group(group("g"))], Bytes::new()).unwrap();
        }
        world.work(1000);
        settled += 1000;
        let at = HistoryPlace { view: 1, at: Position(settled) };
        world.machine.take(Event::Producer(ProducerStatus::Settled { number: settled, at })).unwrap();
    }
    assert!(world.events().len() >= 1000);
    world.machine.may_keep().unwrap();
}
