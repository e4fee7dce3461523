//! How sessions end, and what is known then.
use super::*;
use crate::DisconnectReason;
use std::io::{Read, Write};

#[test]
fn when_the_daemon_dies_the_sends_that_were_not_ordered_are_named() {
    let mut daemon = Daemon::on_tcp(Limits::default());
    let mut ann = connect(&daemon.address, "ann");
    ann.join(&group("g")).unwrap();
    ann.multicast(Service::Agreed, &[group("g")], b"ordered").unwrap();
    ann.wait_ordered(LONG).unwrap();
    daemon.hold(true);
    (3..6).for_each(|n| assert_eq!(ann.multicast(Service::Agreed, &[group("g")], b"perhaps").unwrap(), n));
    ann.flush().unwrap();
    assert!(matches!(ann.wait_ordered(SHORT), Err(Error::TimedOut { .. })));
    daemon.die();
    assert_eq!(next_payload(&mut ann), "ordered", "what came before is received first");
    let lost = ann.receive(LONG).unwrap_err();
    assert_eq!(lost.unknown_fate(), Some(&(3..6)), "{lost}");
    assert!(matches!(lost, Error::ConnectionLost { .. }));
    let again = ann.multicast(Service::Agreed, &[group("g")], &[0; 600_000]).unwrap_err();
    assert!(matches!(again, Error::ConnectionLost { .. }), "{again}");
}

#[test]
fn both_halves_learn_of_the_death_and_a_sender_that_waits_wakes_up() {
    let mut daemon = Daemon::on_tcp(Limits { credit: 1_000, ..Limits::default() });
    daemon.hold(true);
    let (mut sender, mut receiver) = connect(&daemon.address, "ann").split();
    let thread = std::thread::spawn(move || {
        loop {
            if let Err(error) = sender.multicast(Service::Agreed, &[group("g")], &[0; 400]) {
                return (error, sender.sent());
            }
        }
    });
    assert_eq!(receiver.receive(SHORT).unwrap(), None);
    daemon.die();
    let seen = receiver.receive(LONG).unwrap_err();
    let (error, sent) = thread.join().unwrap();
    assert_eq!(sent, 2);
    assert_eq!((seen.unknown_fate(), error.unknown_fate()), (Some(&(1..3)), Some(&(1..3))));
}

#[test]
fn a_daemon_that_stops_says_so() {
    let daemon = Daemon::on_tcp(Limits::default());
    let mut ann = connect(&daemon.address, "ann");
    daemon.stop();
    let end = ann.receive(LONG).unwrap_err();
    let Error::Disconnected { farewell, unknown_fate } = end else { panic!("{end}") };
    assert_eq!((farewell.reason, unknown_fate.is_empty()), (DisconnectReason::Stopping, true));
    let again = ann.receive(LONG).unwrap_err();
    assert!(matches!(again, Error::Disconnected { .. }), "and says it again");
}

#[test]
fn a_slow_client_learns_why_it_was_sent_away() {
    let daemon = Daemon::on_tcp(Limits { output_max: 100_000, ..Limits::default() });
    let (mut slow, mut bob) = (connect(&daemon.address, "slow"), connect(&daemon.address, "bob"));
    slow.join(&group("g")).unwrap();
    slow.wait_ordered(LONG).unwrap();
    // More than the kernel takes for a client that does not read, and then the daemon's budget.
    for _ in 0..400 {
        bob.multicast(Service::Agreed, &[group("g")], &[7; 50_000]).unwrap();
    }
    bob.wait_ordered(LONG).unwrap();
    let end = loop {
        match slow.receive(LONG) {
            Ok(event) => assert!(event.is_some()),
            Err(end) => break end,
        }
    };
    assert!(matches!(&end, Error::Disconnected { farewell, .. } if farewell.reason == DisconnectReason::Slow), "{end}");
}

#[test]
fn where_no_daemon_is_the_error_says_what_was_found() {
    let nowhere = Client::connect(&"/nonexistent/socket".parse().unwrap(), &ConnectOptions::default()).unwrap_err();
    assert!(matches!(nowhere, Error::Connect { .. }));
    assert!(nowhere.to_string().starts_with("cannot connect to unix:/nonexistent/socket: "), "{nowhere}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let thread = std::thread::spawn(move || {
        for answer in [&b"HTTP/1.1 400 Bad Request\r\n"[..], b""] {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 100]);
            socket.write_all(answer).unwrap();
        }
        listener
    });
    let stranger = Client::connect(&address, &ConnectOptions::default()).unwrap_err();
    assert!(stranger.to_string().contains("the daemon sent a malformed frame length"), "{stranger}");
    let closed = Client::connect(&address, &ConnectOptions::default()).unwrap_err();
    assert!(matches!(closed, Error::NoDaemon { .. }), "{closed}");
    let listener = thread.join().unwrap();
    let impatient = ConnectOptions { connect_within: SHORT, ..ConnectOptions::default() };
    let silent = Client::connect(&address, &impatient).unwrap_err();
    assert!(matches!(silent, Error::TimedOut { cause: None }), "{silent}");
    drop(listener);
}

#[test]
fn a_daemon_that_lets_nobody_in_is_not_waited_for_any_longer_than_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _waits = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let impatient = ConnectOptions { connect_within: SHORT, ..ConnectOptions::default() };
    let address = Address::Unix(path);
    std::thread::spawn(move || tell.send(Client::connect(&address, &impatient).unwrap_err()));
    let error = told.recv_timeout(LONG).expect("it gives up in time");
    let Error::Connect { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind(), std::io::ErrorKind::TimedOut, "{error}");
}

#[test]
fn a_client_may_connect_for_as_long_as_it_takes() {
    let dir = tempfile::tempdir().unwrap();
    let daemons = [Daemon::on_tcp(Limits::default()), Daemon::on_unix(&dir.path().join("socket"), Limits::default())];
    for daemon in daemons {
        let patient = ConnectOptions::default().connect_within(Duration::MAX);
        Client::connect(&daemon.address, &patient).unwrap().close(LONG).unwrap();
    }
}
