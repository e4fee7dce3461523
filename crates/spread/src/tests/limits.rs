//! Levels, lists of names, sizes, and what is rejected.
use super::client::{Client, Seen};
use super::*;
use crate::{MulticastNote, kind};
use consort_types::Service;

fn pair() -> (SpreadSession, Client) {
    (open("alice"), Client::new("#alice#d1"))
}

fn ask(session: &mut SpreadSession, frame: Vec<u8>) -> Option<SpreadRequest> {
    session.feed(frame.into());
    session.ask().unwrap().filter(|ask| *ask != SpreadRequest::GivenBack)
}

/// What the client reads of its own message.
fn round(session: &mut SpreadSession, client: &Client, frame: Vec<u8>) -> Vec<Seen> {
    let ask = ask(session, frame).unwrap();
    session.accept();
    session.order(false);
    echo(session, "#alice#d1", &ask, true);
    client.read(&read(session))
}

#[test]
fn every_level_is_ordered_and_seen_as_it_was_asked_for() {
    //= S22 test
    let (mut session, client) = pair();
    for (bit, service) in [1, 2, 4, 8, 16].map(|bit| (bit, Service::Agreed)).into_iter().chain([(32, Service::Safe)]) {
        let frame = client.frame(bit, &["room", "#bob#n2"], -2, b"x");
        let Some(SpreadRequest::Multicast { service: asked, .. }) = ask(&mut session, frame.clone()) else { panic!() };
        session.refuse();
        read(&mut session);
        assert_eq!(asked, service);
        let seen = round(&mut session, &client, frame);
        let groups = vec!["room".into(), "#bob#n2".into()];
        let sender = "#alice#d1".into();
        assert_eq!(seen, [Seen { service: bit, sender, groups, mess_type: -2, data: b"x".into() }]);
    }
}

#[test]
fn bits_that_a_client_may_not_set_do_not_travel() {
    //= S13 test
    let (mut session, client) = pair();
    for forged in [0x1000, 0x2000, 0x100, 0x4000, 0x8000, 0x8_0000, 0x40_0000, 0x100_0000, 0x7ef8_ff00 & !0x7_0000] {
        let seen = round(&mut session, &client, client.frame(0x10 | forged, &["room"], 1, b"x"));
        assert_eq!(seen[0].service, 0x10, "{forged:x}");
    }
}

#[test]
fn a_frame_asks_for_exactly_one_thing() {
    for kind in [0, 0x40, 0x11, 0x30, 0x1_0010, 0x3_0000, 0x7_0000, 0x1000] {
        let (mut session, client) = pair();
        session.feed(client.frame(kind, &["room"], 1, b"x").into());
        let farewell = session.ask().unwrap_err();
        assert_eq!(farewell.text, "malformed type at byte 0 of message 1", "{kind:x}");
    }
}

#[test]
fn a_sender_that_wants_no_copy_gets_none_and_others_see_that_it_did() {
    //= S23 test
    let (mut alice, client) = pair();
    let mut bob = open("bob");
    let ask = ask(&mut alice, client.frame(0x50, &["room"], 1, b"x")).unwrap();
    alice.accept();
    echo(&mut alice, "#alice#d1", &ask, true);
    echo(&mut bob, "#alice#d1", &ask, false);
    assert!(alice.output().is_empty());
    assert_eq!(client.read(&read(&mut bob))[0].service, 0x50);
}

#[test]
fn who_ends_may_read_what_waited_and_who_is_too_slow_for_it_may_not() {
    //= S40 test
    for (slow, left) in [(false, 2), (true, 0)] {
        let (mut session, client) = pair();
        for _ in 0..2 {
            let ask = ask(&mut session, client.frame(0x10, &["room"], 1, b"x")).unwrap();
            session.accept();
            echo(&mut session, "#alice#d1", &ask, true);
        }
        session.close(slow);
        assert_eq!((session.messages_waiting(), client.read(&read(&mut session)).len()), (left, left));
        session.written(1);
        assert!(session.is_closed() && !session.wakes());
    }
}

#[test]
fn a_hundred_groups_pass_and_one_more_ends_the_session() {
    //= S14 test
    let (mut session, client) = pair();
    let names: Vec<_> = (0..100).map(|i| format!("group-{i}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let seen = round(&mut session, &client, client.frame(0x10, &names, 1, b"x"));
    assert_eq!(seen[0].groups, names);
    session.feed(client.frame(0x10, &[&names[..], &["more"]].concat(), 1, b"").into());
    assert_eq!(session.ask().unwrap_err().text, "malformed number of groups at byte 36 of message 2");
}

#[test]
fn messages_to_nobody_are_swallowed() {
    //= S15 test
    let (mut session, client) = pair();
    assert_eq!(ask(&mut session, client.frame(0x10, &[], 1, b"x")), None);
    assert_eq!(ask(&mut session, client.frame(0x10, &["", ""], 1, b"x")), None);
    assert_eq!(ask(&mut session, client.frame(0x2_0000, &["a b"], 0, b"")), None);
    assert!(session.output().is_empty());
    assert_eq!(round(&mut session, &client, client.frame(0x10, &["", "room"], 1, b"x"))[0].groups, ["room"]);
}

#[test]
fn what_spread_itself_dies_of_is_given_back() {
    //= S14 test
    //= S24 test
    let (mut session, client) = pair();
    for (len, passes) in [(143_120, true), (143_121, false), (143_920, false)] {
        let frame = client.frame(0x50, &["room"], 0x1234, &vec![7; len]);
        if passes {
            assert_eq!(
                round(&mut session, &client, client.frame(0x10, &["room"], 1, &vec![7; len]))[0].data.len(),
                len
            );
            continue;
        }
        assert_eq!(ask(&mut session, frame), None);
        let seen = client.read(&read(&mut session));
        let [back] = &seen[..] else { panic!("{}", seen.len()) };
        assert_eq!((back.service, back.mess_type, back.data.len()), (0x40_0050, 0x1234, len));
        assert_eq!(back.groups, ["room", "#alice#d1"]);
    }
    session.feed(client.frame(0x10, &["room"], 1, &vec![7; 143_921]).into());
    assert_eq!(session.ask().unwrap_err().text, "malformed data length at byte 44 of message 4");
}

#[test]
fn a_join_that_cannot_be_comes_back_as_one() {
    let (mut session, client) = pair();
    for bad in ["sp ace", "#alice#d1"] {
        assert_eq!(ask(&mut session, client.frame(0x1_0000, &[bad], 0, b"")), None);
        let seen = client.read(&read(&mut session));
        assert_eq!((seen[0].service, &seen[0].groups[..]), (0x40_0100, &[bad.to_owned(), "#alice#d1".into()][..]));
    }
    // A join that was refused only where it stood in the order comes back there.
    assert!(ask(&mut session, client.frame(0x1_0000, &["room"], 0, b"")).is_some());
    session.accept();
    assert!(session.output().is_empty());
    session.order(true);
    assert_eq!(client.read(&read(&mut session))[0].service, 0x40_0100);
    assert_eq!(session.refused(), 3);
}

#[test]
fn with_a_hundred_names_the_last_makes_room_for_the_senders() {
    let (mut session, client) = pair();
    let names = vec!["g"; 100];
    assert!(ask(&mut session, client.frame(0x10, &names, 1, b"data")).is_some());
    session.refuse();
    let seen = client.read(&read(&mut session));
    assert_eq!((seen[0].groups.len(), seen[0].groups[99].as_str()), (100, "#alice#d1"));
    assert_eq!(seen[0].data, b"data");
}

#[test]
fn names_without_an_end_and_foreign_senders_end_the_session() {
    //= S12 test
    let (mut session, client) = pair();
    let mut frame = client.frame(0x1_0000, &["room"], 0, b"");
    frame[48..].fill(b'x');
    session.feed(frame.into());
    assert_eq!(session.ask().unwrap_err().text, "malformed name at byte 48 of message 1");
    let (mut session, _) = pair();
    session.feed(Client::new("#bob#d1").frame(0x10, &["room"], 0, b"").into());
    assert_eq!(session.ask().unwrap_err().text, "malformed private name at byte 4 of message 1");
}

#[test]
fn a_client_with_much_under_way_is_held_back_until_it_is_ordered() {
    //= S20 test
    let (mut session, client) = pair();
    let frame = client.frame(0x10, &["room"], 1, &[7; 1_000]);
    assert!(ask(&mut session, frame.clone()).is_some());
    session.accept();
    assert_eq!(session.outstanding(), frame.len());
    assert!(session.is_held_back(1_000) && !session.is_held_back(2_000));
    session.order(false);
    assert!(!session.is_held_back(1_000));
}

#[test]
fn waiting_messages_are_counted_until_they_are_written() {
    let (mut session, client) = pair();
    let ask = ask(&mut session, client.frame(0x10, &["room"], 1, b"x")).unwrap();
    (0..5).for_each(|_| echo(&mut session, "#alice#d1", &ask, true));
    assert_eq!(session.messages_waiting(), 5);
    session.written(81 + 80);
    assert_eq!(session.messages_waiting(), 4);
    session.written(1);
    assert_eq!(session.messages_waiting(), 3);
    session.written(3 * 81);
    assert_eq!(session.messages_waiting(), 0);
}

#[test]
fn what_rides_along_comes_back_whatever_stands_in_it() {
    for kind in 0..=255 {
        let note = MulticastNote::decode([kind, 1, 2, 3, 4]);
        assert_eq!(MulticastNote::decode(note.encode()), note);
        assert!((note.kind() & kind::REGULAR).is_power_of_two());
    }
    for service in Service::ALL {
        assert_eq!(MulticastNote::decode(MulticastNote::of(service).encode()), MulticastNote::of(service));
    }
}
