//! Positions, and reading by them.
use super::*;
use crate::inbox::EventReader;
use crate::shared::SessionState;
use crate::{Bookmark, MemberId, Place, ReadFrom, ReadingEndCause, ReadingStatus, Shown};
use bytes::BytesMut;
use std::sync::Arc;

/// What a reader is told, as short texts.
fn line(event: &Event) -> String {
    match event {
        Event::Read(message) => {
            let place = message.placement().unwrap().place;
            format!("{place} {}", String::from_utf8_lossy(message.payload()))
        }
        Event::Reading(ReadingStatus::Began { from, .. }) => format!("from {from}"),
        Event::Reading(ReadingStatus::CaughtUp { position }) => format!("caught up at {position}"),
        Event::Reading(ReadingStatus::Ended(end)) => format!("{}: {end}", end.cause),
        other => panic!("{other:?}"),
    }
}

fn lines(client: &mut Client, count: usize) -> Vec<String> {
    (0..count).map(|_| line(&client.receive(LONG).unwrap().expect("an event in time"))).collect()
}

fn say(client: &mut Client, texts: &[&str]) {
    for text in texts {
        client.multicast(Service::Agreed, &[group("g")], text.as_bytes()).unwrap();
    }
    client.wait_ordered(LONG).unwrap();
}

#[test]
fn messages_tell_their_position_and_their_sender_with_its_incarnation() {
    let dir = tempfile::tempdir().unwrap();
    for daemon in [Daemon::on_tcp(Limits::default()), Daemon::on_unix(&dir.path().join("socket"), Limits::default())] {
        let mut ann = Client::connect(&daemon.address, &named("ann").with_positions()).unwrap();
        let mut bob = connect(&daemon.address, "bob");
        ann.join(&group("g")).unwrap();
        bob.join(&group("g")).unwrap();
        ann.wait_ordered(LONG).unwrap();
        bob.wait_ordered(LONG).unwrap();
        say(&mut ann, &["one", "two"]);
        let large = vec![7; 9_000];
        ann.multicast(Service::Agreed, &[group("g")], &large).unwrap();
        let mut found = Vec::new();
        while found.len() < 3 {
            ann.receive_borrowed(LONG, |shown| {
                if let Shown::Message(message) = shown {
                    let MemberId { node, incarnation } = message.sender_daemon().unwrap();
                    found.push((message.placement().unwrap().place, node.0, incarnation, message.payload().len()));
                }
            })
            .unwrap();
        }
        let incarnation = ann.welcome().daemon.incarnation;
        let place = |position, index| Place { position, index };
        // The two small ones were read together, or not.
        assert_eq!(found[0], (place(3, 0), 0, incarnation, 3));
        assert!([place(3, 1), place(4, 0)].contains(&found[1].0), "{found:?}");
        assert_eq!(found[2], (place(found[1].0.position + 1, 0), 0, incarnation, 9_000));
        while !matches!(bob.receive(LONG).unwrap(), Some(Event::Message(message)) if message.position().is_none()) {}
    }
}

#[test]
fn a_client_reads_from_the_start_and_on_from_its_bookmark() {
    let daemon = Daemon::on_tcp(Limits::default());
    let mut ann = connect(&daemon.address, "ann");
    ann.join(&group("other")).unwrap();
    ann.wait_ordered(LONG).unwrap();
    for text in ["one", "two", "three"] {
        say(&mut ann, &[text]);
    }
    let mut reader = connect(&daemon.address, "reader");
    assert_eq!(reader.bookmark(), None);
    reader.read(&[group("g")], ReadFrom::Start).unwrap();
    assert_eq!(lines(&mut reader, 3), ["from 1", "2 one", "3 two"]);
    let bookmark = reader.bookmark().unwrap();
    assert_eq!(bookmark, Bookmark::new(9, Place::at(4)));
    assert_eq!(lines(&mut reader, 2), ["4 three", "caught up at 4"]);
    say(&mut ann, &["four"]);
    assert_eq!(lines(&mut reader, 1), ["5 four"]);
    reader.close(LONG).unwrap();
    let mut again = connect(&daemon.address, "reader");
    again.read(&[group("g")], bookmark).unwrap();
    assert_eq!(lines(&mut again, 4), ["from 4", "4 three", "5 four", "caught up at 5"]);
    again.stop_reading().unwrap();
    say(&mut ann, &["five"]);
    assert_eq!(lines(&mut again, 1), ["ended: the client reads no more, or something else"]);
    assert_eq!(again.receive(SHORT).unwrap(), None);
    let (mut sender, mut receiver) = again.split();
    sender.read(&[group("g")], 6).unwrap();
    assert_eq!(line(&receiver.receive(LONG).unwrap().unwrap()), "from 6");
    assert_eq!(line(&receiver.receive(LONG).unwrap().unwrap()), "6 five");
    assert_eq!(receiver.bookmark().unwrap().next, Place::at(7));
}

#[test]
fn a_bookmark_within_a_batch_goes_on_behind_the_last_message_that_was_received() {
    let daemon = Daemon::on_tcp(Limits::default());
    let mut ann = connect(&daemon.address, "ann");
    say(&mut ann, &["one", "two", "three", "four"]);
    let mut told = Vec::new();
    let mut from = ReadFrom::Start;
    while told.len() < 4 {
        let mut reader = connect(&daemon.address, "reader");
        reader.read(&[group("g")], from).unwrap();
        assert!(matches!(reader.receive(LONG).unwrap(), Some(Event::Reading(ReadingStatus::Began { .. }))));
        let Some(Event::Read(message)) = reader.receive(LONG).unwrap() else { panic!("no message") };
        told.push(String::from_utf8(message.payload().to_vec()).unwrap());
        from = reader.bookmark().unwrap().into();
        reader.close(LONG).unwrap();
    }
    assert_eq!(told, ["one", "two", "three", "four"]);
}

#[test]
fn what_cannot_be_read_is_refused_here_or_by_the_daemon() {
    let daemon = Daemon::on_tcp(Limits::default());
    let mut ann = connect(&daemon.address, "ann");
    let none = ann.read(&[], ReadFrom::Start).unwrap_err();
    assert_eq!(none.to_string(), "a reading of 0 groups; name 1 to 100");
    assert!(matches!(ann.read(&vec![group("g"); 101], 1), Err(Error::Groups { count: 101, max: 100 })));
    say(&mut ann, &["one"]);
    let old = Bookmark::new(8, Place::at(1));
    ann.read(&[group("g")], old).unwrap();
    let Some(Event::Reading(ReadingStatus::Ended(end))) = ann.receive(LONG).unwrap() else { panic!("it reads") };
    assert_eq!((end.cause, end.oldest, end.newest), (ReadingEndCause::OtherOrder, 1, 1));
    assert!(end.to_string().ends_with("it was begun anew, with other messages; read from the start"), "{end}");
}

#[cfg(feature = "tokio")]
#[test]
fn a_task_reads_as_a_thread_does() {
    let daemon = Daemon::on_tcp(Limits::default());
    let mut ann = connect(&daemon.address, "ann");
    say(&mut ann, &["one"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut reader = crate::AsyncClient::connect(&daemon.address, &named("reader")).await.unwrap();
        reader.read(&[group("g")], 0).await.unwrap();
        let mut told = Vec::new();
        for _ in 0..3 {
            told.push(line(&tokio::time::timeout(LONG, reader.receive()).await.unwrap().unwrap()));
        }
        assert_eq!(told, ["from 1", "1 one", "caught up at 1"]);
        assert_eq!(reader.bookmark().unwrap().next, Place::at(2));
        reader.stop_reading().await.unwrap();
        assert!(line(&reader.receive().await.unwrap()).starts_with("ended"));
    });
}

#[test]
fn a_reading_remembers_the_views_before_its_bookmark_whichever_half_asked_for_it() {
    let text = "0000000000000000:12@6/3/17+4/3/17/7+5/3/17/0";
    let shared = Arc::new(SessionState::default());
    let mut inbox = EventReader::new(Arc::clone(&shared));
    shared.asked_to_read(&ReadFrom::After(text.parse().unwrap()));
    let mut frame = BytesMut::new();
    ReadingStatus::Began { order: 0, from: Place::at(12), oldest: 1, newest: 20 }.put(&mut frame);
    let told = inbox.read(|buffer| {
        buffer[..frame.len()].copy_from_slice(&frame);
        Ok(Some(frame.len()))
    });
    assert!(told.unwrap());
    assert!(matches!(inbox.next().unwrap(), Some(Event::Reading(ReadingStatus::Began { .. }))));
    assert_eq!(inbox.bookmark().unwrap().to_string(), text);
}
