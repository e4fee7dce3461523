//! Clients against a daemon in a thread, over real sockets.
#[cfg(feature = "tokio")]
mod asynchronous;
mod daemon;
mod ends;
mod forked;
#[cfg(feature = "tokio")]
mod halves;
mod reading;
mod sending;
mod silence;
mod wait_causes;

use crate::{Address, Client, ClientName, ConnectOptions, Error, Event, GroupName, Service, Status, Undo, WaitCause};
use consort_node::Limits;
use daemon::Daemon;
use std::time::Duration;

/// Long enough for anything that is going to happen.
const LONG: Duration = Duration::from_secs(20);
/// Long enough to see that nothing happens.
const SHORT: Duration = Duration::from_millis(30);

fn group(name: &str) -> GroupName {
    GroupName::new(name).unwrap()
}

fn named(name: &str) -> ConnectOptions {
    ConnectOptions { name: ClientName::new(name.as_bytes()), ..ConnectOptions::default() }
}

fn connect(address: &Address, name: &str) -> Client {
    Client::connect(address, &named(name)).unwrap()
}

fn tight() -> Limits {
    Limits { credit: 1_000, message_max: 100_000, ..Limits::default() }
}

/// The payload of the next message; other events on the way are passed over.
fn next_payload(client: &mut Client) -> String {
    loop {
        if let Event::Message(message) = client.receive(LONG).unwrap().expect("a message in time") {
            return String::from_utf8(message.payload().to_vec()).unwrap();
        }
    }
}

#[test]
fn two_clients_talk_over_either_kind_of_socket() {
    let dir = tempfile::tempdir().unwrap();
    let daemons = [Daemon::on_tcp(Limits::default()), Daemon::on_unix(&dir.path().join("socket"), Limits::default())];
    for daemon in daemons {
        let (mut ann, mut bob) = (connect(&daemon.address, "ann"), connect(&daemon.address, "bob"));
        assert_eq!((ann.welcome().name.as_str(), ann.welcome().daemon_name.as_str()), ("ann", "n0"));
        assert_eq!(ann.join(&group("g")).unwrap(), 1);
        let Some(Event::GroupView(view)) = ann.receive(LONG).unwrap() else { panic!("no view") };
        assert_eq!((view.group.as_str(), view.members[0].name.as_str()), ("g", "ann"));
        assert_eq!(bob.multicast(Service::Safe, &[group("g"), group("h")], b"hello").unwrap(), 1);
        bob.flush().unwrap();
        let Some(Event::Message(message)) = ann.receive(LONG).unwrap() else { panic!("no message") };
        assert_eq!(message.sender(), (bob.welcome().daemon.node, bob.welcome().client));
        assert_eq!((message.service(), message.payload()), (Service::Safe, &b"hello"[..]));
        assert_eq!(message.groups().collect::<Vec<_>>(), ["g", "h"]);
        bob.wait_ordered(LONG).unwrap();
        assert_eq!(bob.progress().ordered, 1);
        ann.close(LONG).unwrap();
        bob.close(LONG).unwrap();
    }
}

#[test]
fn nothing_in_time_is_no_error() {
    let daemon = Daemon::on_tcp(Limits::default());
    let mut ann = connect(&daemon.address, "ann");
    assert_eq!(ann.receive(SHORT).unwrap(), None);
    assert_eq!(ann.receive(Duration::ZERO).unwrap(), None);
}

#[test]
fn try_receive_waits_for_nothing_and_misses_nothing() {
    let daemon = Daemon::on_tcp(Limits::default());
    let mut ann = connect(&daemon.address, "ann");
    assert_eq!(ann.try_receive().unwrap(), None);
    ann.join(&group("g")).unwrap();
    ann.multicast(Service::Agreed, &[group("g")], b"first").unwrap();
    ann.multicast(Service::Agreed, &[group("g")], b"second").unwrap();
    ann.wait_ordered(LONG).unwrap();
    let mut payloads = Vec::new();
    let late = std::time::Instant::now() + LONG;
    while payloads.len() < 2 && std::time::Instant::now() < late {
        if let Some(Event::Message(message)) = ann.try_receive().unwrap() {
            payloads.push(message.into_payload());
        }
    }
    assert_eq!(payloads, [&b"first"[..], b"second"]);
}

#[test]
fn the_descriptor_is_ready_once_something_came() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::on_unix(&dir.path().join("socket"), Limits::default());
    let mut ann = Client::connect(&daemon.address, &named("ann").without_shared_memory()).unwrap();
    let waits = |client: &Client, within: Duration| {
        let descriptor = client.descriptor().expect("a socket");
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&Timespec::try_from(within).unwrap())).unwrap()
    };
    while ann.try_receive().unwrap().is_some() {}
    assert_eq!(waits(&ann, SHORT), 0, "nothing came");
    ann.join(&group("g")).unwrap();
    assert_eq!(waits(&ann, LONG), 1);
    let late = std::time::Instant::now() + LONG;
    let joined = std::iter::repeat_with(|| ann.try_receive().unwrap()).take_while(|_| std::time::Instant::now() < late);
    assert!(matches!(joined.flatten().next(), Some(Event::GroupView(_))));
}

#[test]
fn status_is_answered_and_what_came_before_is_still_received() {
    let daemon = Daemon::on_tcp(Limits::default());
    let mut ann = connect(&daemon.address, "ann");
    ann.join(&group("g")).unwrap();
    ann.multicast(Service::Agreed, &[group("g")], b"kept").unwrap();
    ann.wait_ordered(LONG).unwrap();
    let status = ann.status(LONG).unwrap();
    assert_eq!(status.protocol(), Some("alone"), "{status:?}");
    assert_eq!(next_payload(&mut ann), "kept");
}

#[test]
fn a_status_is_the_answer_to_the_latest_question() {
    let daemon = Daemon::on_tcp(Limits::default());
    let mut ann = connect(&daemon.address, "ann");
    daemon.freeze(true);
    assert!(matches!(ann.status(SHORT), Err(Error::TimedOut { .. })));
    ann.join(&group("g")).unwrap();
    daemon.freeze(false);
    let groups = |status: &Status| status.counter("groups").unwrap();
    ann.wait_ordered(LONG).unwrap();
    assert_eq!(groups(&ann.status(LONG).unwrap()), 1);
    let Some(Event::Status(late)) = ann.receive(LONG).unwrap() else { panic!("no status") };
    assert_eq!(groups(&late), 0, "what was asked before is answered, too");
    assert!(matches!(ann.receive(LONG).unwrap(), Some(Event::GroupView(_))));
    assert_eq!(groups(&ann.status(LONG).unwrap()), 1);
}

#[test]
fn views_come_to_those_who_want_them() {
    let daemon = Daemon::on_tcp(Limits::default());
    let options = ConnectOptions { wants_views: true, ..ConnectOptions::default() };
    let mut ann = Client::connect(&daemon.address, &options).unwrap();
    assert!(ann.welcome().name.as_str().starts_with('c'), "the daemon found a name");
    assert!(matches!(ann.receive(LONG).unwrap(), Some(Event::View(view)) if view.cause == "started"));
}

#[test]
fn a_refusal_names_the_send() {
    let daemon = Daemon::on_tcp(Limits::default());
    let mut ann = connect(&daemon.address, "ann");
    ann.join(&group("g")).unwrap();
    assert_eq!(ann.leave(&group("other")).unwrap(), 2);
    assert!(matches!(ann.receive(LONG).unwrap(), Some(Event::GroupView(_))));
    let Some(Event::Refused { send: 2, refusal }) = ann.receive(LONG).unwrap() else { panic!("not refused") };
    assert_eq!(refusal.text, "not a member of other");
}

/// Offers and their ends as short texts.
fn told(event: &Event) -> Option<String> {
    match event {
        Event::Offer(offer) => {
            assert_eq!(offer.free, Duration::ZERO, "this daemon knows the place at once");
            Some(format!("+{} {}", offer.number, String::from_utf8_lossy(offer.message.payload())))
        }
        Event::Revoke { offer } => Some(format!("-{offer}")),
        Event::Confirm { offer } => Some(format!("={offer}")),
        Event::Message(message) => panic!("not offered: {message:?}"),
        _ => None,
    }
}

#[test]
fn an_optimistic_client_gets_offers_and_confirms_instead_of_messages() {
    let daemon = Daemon::on_tcp(Limits::default());
    for undo in [Undo::Any, Undo::Latest] {
        let mut ann = Client::connect(&daemon.address, &named("ann").optimistic(undo)).unwrap();
        ann.join(&group("g")).unwrap();
        ["one", "two"].iter().for_each(|text| {
            ann.multicast(Service::Agreed, &[group("g")], text.as_bytes()).unwrap();
        });
        let mut seen = Vec::new();
        while seen.len() < 4 {
            seen.extend(told(&ann.receive(LONG).unwrap().expect("an event in time")));
        }
        assert_eq!(seen, ["+1 one", "=1", "+2 two", "=2"]);
        ann.close(LONG).unwrap();
    }
}
