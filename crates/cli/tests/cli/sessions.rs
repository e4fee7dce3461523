//! Real daemons that are killed under sessions: each send is ordered once, and each session knows it.

#[allow(dead_code, reason = "its `main`")]
#[path = "../../../client/examples/feed.rs"]
mod feed;

use crate::cluster::{Cluster, PATIENCE, collect, fates, group, options};
use crate::support::{World, wait_until};
use consort::{
    Address, Client, ConnectOptions, Error, Event, Fate, GroupName, OpenRefusalCause, ReadFrom, ReadingStatus,
    RefusalCause, Service, Session, SessionEvent,
};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Sends until it is told to stop, wherever it is connected; returns all fates.
fn produce(
    addresses: Vec<Address>,
    name: &'static str,
    stop: Arc<AtomicBool>,
) -> JoinHandle<(u64, BTreeMap<u64, Fate>)> {
    thread::spawn(move || {
        let mut session = Session::connect(&addresses, options()).unwrap();
        let (mut sent, mut events) = (0, Vec::new());
        while !stop.load(Ordering::Relaxed) {
            let payload = format!("{name} {}", sent + 1);
            sent = session.send(Service::Agreed, &[group()], payload.as_bytes()).unwrap();
            while let Some(event) = session.receive(Duration::from_millis(1)).unwrap() {
                events.push(event);
            }
        }
        events.extend(session.finish(PATIENCE).unwrap());
        (sent, fates(&events))
    })
}

fn kills_lose_and_double_nothing(protocol: &str) {
    let mut cluster = Cluster::new(protocol);
    wait_until("the view counts", || cluster.counts(2));
    let member = collect(&cluster.address(2));
    let stop = Arc::new(AtomicBool::new(false));
    let producers = [("ann", 0), ("bob", 1), ("eve", 0)]
        .map(|(name, first)| produce(cluster.addresses(first), name, Arc::clone(&stop)));
    for at in [0, 1, 0, 1] {
        thread::sleep(Duration::from_millis(300));
        cluster.kill(at);
        thread::sleep(Duration::from_millis(300));
        cluster.start(at);
        wait_until("the view counts again", || cluster.counts(at));
    }
    stop.store(true, Ordering::Relaxed);
    let results = producers.map(|producer| producer.join().unwrap());
    let mut last = Session::connect(&cluster.addresses(2), options()).unwrap();
    last.send(Service::Agreed, &[group()], b"end").unwrap();
    last.finish(PATIENCE).unwrap();
    let all = member.join().unwrap();
    for ((sent, fates), name) in results.iter().zip(["ann", "bob", "eve"]) {
        assert!(*sent > 20, "{name} has sent {sent}");
        assert!(fates.values().all(|fate| matches!(fate, Fate::Ordered { .. })), "{name}: {fates:?}");
        assert_eq!(fates.len() as u64, *sent, "{name}: each has a fate");
        let own: Vec<_> = all.iter().filter(|payload| payload.starts_with(name)).cloned().collect();
        let wanted: Vec<_> = (1..=*sent).map(|n| format!("{name} {n}")).collect();
        assert_eq!(own, wanted, "{protocol}: each once, in its order");
    }
}

#[test]
fn sends_are_ordered_once_though_daemons_of_the_ring_are_killed() {
    kills_lose_and_double_nothing("ring");
}

#[test]
fn sends_are_ordered_once_though_daemons_of_ring_paxos_are_killed() {
    kills_lose_and_double_nothing("paxos");
}

#[test]
fn sends_are_ordered_once_though_daemons_of_toto_and_plato_are_killed() {
    kills_lose_and_double_nothing("toto");
    kills_lose_and_double_nothing("plato");
}

#[test]
fn a_session_that_takes_over_goes_on_and_the_other_is_stopped() {
    let cluster = Cluster::new("ring");
    let mut first = Session::connect(&cluster.addresses(0), options()).unwrap();
    first.send(Service::Agreed, &[group()], b"one").unwrap();
    first.settle(PATIENCE).unwrap();
    let mut second = Session::connect(&cluster.addresses(1), options().producer(first.producer())).unwrap();
    second.send(Service::Safe, &[group()], b"two").unwrap();
    second.settle(PATIENCE).unwrap();
    let events: Vec<_> = std::iter::from_fn(|| second.receive(Duration::ZERO).unwrap()).collect();
    assert!(events.contains(&SessionEvent::Resumed { ordered: Some(1) }), "{events:?}");
    first.send(Service::Agreed, &[group()], b"late").unwrap();
    let error = first.settle(PATIENCE).unwrap_err();
    assert!(matches!(error, Error::TakenOver), "{error}");
    let again = [first.send(Service::Agreed, &[group()], b"x").err(), first.settle(PATIENCE).err()];
    assert!(again.iter().all(|error| matches!(error, Some(Error::TakenOver))), "it takes over in turn: {again:?}");
    second.finish(PATIENCE).unwrap();
}

#[test]
fn a_session_that_was_taken_over_has_nothing_forgotten_when_it_is_done() {
    //= E10 test
    let cluster = Cluster::new("ring");
    let mut first = Session::connect(&cluster.addresses(0), options()).unwrap();
    first.send(Service::Agreed, &[group()], b"one").unwrap();
    first.settle(PATIENCE).unwrap();
    let producer = first.producer();
    let mut second = Session::connect(&cluster.addresses(0), options().producer(producer)).unwrap();
    second.send(Service::Agreed, &[group()], b"two").unwrap();
    second.settle(PATIENCE).unwrap();
    first.finish(PATIENCE).unwrap();
    let mut third = Session::connect(&cluster.addresses(0), options().producer(producer)).unwrap();
    third.send(Service::Agreed, &[group()], b"three").unwrap();
    third.settle(PATIENCE).unwrap();
    let events = third.finish(PATIENCE).unwrap();
    assert!(events.contains(&SessionEvent::Resumed { ordered: Some(2) }), "{events:?}");
    drop(second);
}

#[test]
fn what_a_closed_group_refuses_is_told_and_the_rest_goes_on() {
    let cluster = Cluster::new("ring");
    let mut owner = Client::connect(&cluster.address(0), &ConnectOptions::default()).unwrap();
    let closed = GroupName::new("closed").unwrap();
    owner.join_closed(&closed).unwrap();
    while !matches!(owner.receive(PATIENCE).unwrap(), Some(Event::GroupView(_))) {}
    let mut session = Session::connect(&cluster.addresses(1), options()).unwrap();
    for to in [&group(), &closed, &group(), &group()] {
        session.send(Service::Agreed, std::slice::from_ref(to), b"x").unwrap();
    }
    let events = session.finish(PATIENCE).unwrap();
    let told = fates(&events);
    let refused = told.iter().filter_map(|(send, fate)| match fate {
        Fate::Refused(refusal) => Some((*send, refusal.cause)),
        _ => None,
    });
    assert_eq!(refused.collect::<Vec<_>>(), [(2, RefusalCause::Closed)]);
    assert_eq!(told.len(), 4, "{told:?}");
}

#[test]
fn a_minority_orders_nothing_of_a_session_until_it_is_one_no_more() {
    let mut cluster = Cluster::new("ring");
    let mut session = Session::connect(&[cluster.address(0)], options()).unwrap();
    session.send(Service::Agreed, &[group()], b"before").unwrap();
    session.settle(PATIENCE).unwrap();
    (1..3).for_each(|at| cluster.kill(at));
    wait_until("the daemon is alone", || !cluster.counts(0));
    session.send(Service::Agreed, &[group()], b"alone").unwrap();
    let waited = session.settle(Duration::from_secs(2)).unwrap_err();
    assert!(matches!(waited, Error::TimedOut { .. }), "{waited}");
    // Two of three have started anew: no majority remembers, but all are there.
    (1..3).for_each(|at| cluster.start(at));
    session.settle(PATIENCE).unwrap();
    let told = fates(&session.finish(PATIENCE).unwrap());
    assert!(told.values().all(|fate| matches!(fate, Fate::Ordered { .. })) && told.len() == 2, "{told:?}");
}

#[test]
fn a_reading_goes_on_at_the_next_daemon_without_a_gap_or_a_repetition() {
    let mut cluster = Cluster::new("paxos");
    let mut sender = Session::connect(&cluster.addresses(2), options()).unwrap();
    let mut reader = Session::connect(&cluster.addresses(0), options()).unwrap();
    reader.read(&[group()], ReadFrom::Start).unwrap();
    let mut read = Vec::new();
    for n in 1..=300_u32 {
        sender.send(Service::Agreed, &[group()], &n.to_be_bytes()).unwrap();
        match n {
            100 => cluster.kill(0),
            200 => cluster.start(0),
            250 => {
                // Not before the first remembers: of it and the third alone no majority would.
                let mut back = Session::connect(&[cluster.address(0)], options()).unwrap();
                back.send(Service::Agreed, &[GroupName::new("back").unwrap()], b"again").unwrap();
                back.finish(PATIENCE).unwrap();
                cluster.kill(1);
            }
            _ => {}
        }
        while let Some(event) = reader.receive(Duration::from_millis(2)).unwrap() {
            if let SessionEvent::Event(Event::Read(message)) = event {
                read.push(u32::from_be_bytes(message.payload().try_into().unwrap()));
            }
        }
    }
    sender.finish(PATIENCE).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while read.len() < 300 && Instant::now() < deadline {
        if let Some(SessionEvent::Event(Event::Read(message))) = reader.receive(Duration::from_millis(100)).unwrap() {
            read.push(u32::from_be_bytes(message.payload().try_into().unwrap()));
        }
    }
    assert_eq!(read, (1..=300).collect::<Vec<_>>());
}

#[test]
fn the_lines_of_a_feed_are_ordered_once_though_its_daemon_is_killed() {
    let mut cluster = Cluster::new("ring");
    let member = collect(&cluster.address(2));
    let session = Session::connect(&cluster.addresses(0), options()).unwrap();
    let lines: Vec<_> = (1..=500).map(|n| format!("line {n}")).collect();
    let all = lines.clone();
    let mut sent = 0;
    let fed = all.into_iter().inspect(|_| {
        sent += 1;
        if sent == 200 {
            cluster.kill(0);
        }
    });
    let problems = feed::feed(session, &group(), fed.chain(["end".to_owned()])).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(member.join().unwrap(), lines);
}

#[test]
fn where_no_policy_says_who_goes_on_a_session_is_refused_with_the_remedy() {
    let world = World::new();
    let _daemon = world.daemon(&["--node", "1"]);
    let mut session = Session::connect(&[Address::Unix(world.socket_path(1))], options()).unwrap();
    let error = session.settle_or_error();
    let Error::NotOpened(refusal) = &error else { panic!("{error}") };
    assert_eq!(refusal.cause, OpenRefusalCause::NoPolicy);
    assert!(error.to_string().contains("primary = \"majority\""), "{error}");
    // Its sends never get a fate: it does not wait for them.
    for error in [session.settle(None).unwrap_err(), session.finish(None).unwrap_err()] {
        assert!(matches!(error, Error::NotOpened(_)), "{error}");
    }
}

#[test]
fn who_finds_no_daemon_is_told_so_in_time() {
    let address: Address = "127.0.0.1:9".parse().unwrap();
    let error = Session::connect(&[address], options().reconnect_within(Duration::from_millis(300))).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("no daemon could be reached within 300ms: cannot connect to 127.0.0.1:9"), "{text}");
}

#[test]
fn daemons_that_let_it_in_and_send_it_away_are_not_asked_without_a_pause_or_for_ever() {
    let world = World::new();
    let outer_path = world.path("outer.sock");
    let listener = std::os::unix::net::UnixListener::bind(&outer_path).unwrap();
    let daemon = world.daemon(&["--node", "1"]);
    let (inner, asked) = (world.socket_path(1), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&asked);
    thread::spawn(move || {
        for outer in listener.incoming() {
            count.fetch_add(1, Ordering::Relaxed);
            let _ = let_in_and_cut(outer.unwrap(), &inner);
        }
    });
    let within = Duration::from_secs(2);
    let session = Session::connect(&[Address::Unix(outer_path)], options().reconnect_within(within));
    let error = session.map_or_else(|error| error, |mut session| session.settle_or_error());
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let asked = asked.load(Ordering::Relaxed);
    assert!((2..=40).contains(&asked), "asked {asked} times");
    drop(daemon);
}

/// Carries a hello and its welcome, and ends the connection.
fn let_in_and_cut(mut outer: UnixStream, daemon: &std::path::Path) -> std::io::Result<()> {
    let mut inner = UnixStream::connect(daemon)?;
    let mut bytes = [0; 4096];
    let read = outer.read(&mut bytes)?;
    inner.write_all(&bytes[..read])?;
    let read = inner.read(&mut bytes)?;
    outer.write_all(&bytes[..read])
}

trait SettleOrError {
    fn settle_or_error(&mut self) -> Error;
}

impl SettleOrError for Session {
    /// Sends, and waits for what goes wrong.
    fn settle_or_error(&mut self) -> Error {
        let sent = self.send(Service::Agreed, &[group()], b"x").map(drop);
        sent.and_then(|()| self.settle(PATIENCE)).unwrap_err()
    }
}

/// Reads until the end. What was read behind a place where histories part is taken back: a daemon may deliver a message
/// and be killed, and no other ever does.
fn read_all(addresses: Vec<Address>) -> JoinHandle<Vec<String>> {
    let mut session = Session::connect(&addresses, options()).unwrap();
    session.read(&[group()], ReadFrom::New).unwrap();
    let begun = |event: &SessionEvent| matches!(event, SessionEvent::Event(Event::Reading(_)));
    while !session.receive(PATIENCE).unwrap().is_some_and(|event| begun(&event)) {}
    thread::spawn(move || {
        let (mut all, mut views) = (Vec::new(), Vec::new());
        loop {
            match session.receive(PATIENCE).unwrap() {
                Some(SessionEvent::Event(Event::Read(message))) if message.payload() == b"end" => {
                    return all.into_iter().map(|(_, _, text)| text).collect();
                }
                Some(SessionEvent::Event(Event::Read(message))) => {
                    let text = String::from_utf8(message.payload().to_vec()).unwrap();
                    all.push((views.len(), message.position().unwrap(), text));
                }
                Some(SessionEvent::Event(Event::Reading(ReadingStatus::InView { view, .. }))) => {
                    // Where it goes back to an earlier view, nothing was read since.
                    let known = views.iter().position(|read| *read == view);
                    views.truncate(known.unwrap_or(views.len()));
                    views.push(view);
                }
                Some(SessionEvent::Parted { common }) => {
                    let common = common.expect("a view in common");
                    let view = 1 + views.iter().rposition(|view| *view == common.view).expect("a view that was read");
                    all.retain(|(number, at, _)| (*number, *at) < (view, common.at.0));
                    views.truncate(view);
                }
                Some(SessionEvent::Gap { from, to }) => panic!("nothing is to be missing: {from} to {to}"),
                Some(_) => {}
                None => panic!("nothing more came behind {} messages", all.len()),
            }
        }
    })
}

/// Daemons are killed one after the other under readers and a producer: whoever reads goes on elsewhere, and has each
/// message once, in the order.
fn readers_go_on(protocol: &str, rounds: usize) {
    let mut cluster = Cluster::new(protocol);
    wait_until("a view counts", || cluster.counts(0));
    let readers: Vec<_> = (0..3).map(|at| read_all(cluster.addresses(at))).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let producer = produce(cluster.addresses(1), "p", Arc::clone(&stop));
    for round in 0..rounds {
        thread::sleep(Duration::from_millis(700));
        let at = round % 3;
        cluster.kill(at);
        thread::sleep(Duration::from_millis(700));
        cluster.start(at);
        wait_until("a view counts", || cluster.counts((at + 1) % 3));
    }
    stop.store(true, Ordering::Relaxed);
    let (sent, fates) = producer.join().unwrap();
    assert!(fates.values().all(|fate| matches!(fate, Fate::Ordered { .. })), "{fates:?}");
    let mut last = Session::connect(&cluster.addresses(2), options()).unwrap();
    last.send(Service::Agreed, &[group()], b"end").unwrap();
    last.finish(PATIENCE).unwrap();
    let expected: Vec<_> = (1..=sent).map(|n| format!("p {n}")).collect();
    for reader in readers {
        let told = reader.join().unwrap();
        let wrong = told.iter().zip(&expected).position(|(a, b)| a != b).unwrap_or(told.len().min(expected.len()));
        let some = |all: &[String]| all[wrong.min(all.len())..].iter().take(5).cloned().collect::<Vec<_>>();
        assert!(told == expected, "{protocol}: {:?} instead of {:?}", some(&told), some(&expected));
    }
}

#[test]
fn readers_go_on_at_other_daemons_of_a_ring() {
    readers_go_on("ring", 4);
}

#[test]
fn readers_go_on_at_other_daemons_that_vote() {
    readers_go_on("toto", 4);
}

#[test]
fn readers_go_on_at_other_daemons_with_a_sequencer() {
    readers_go_on("plato", 4);
}
