//! Daemons that say nothing though their connections stand.
use super::*;
use consort_session::{Ask, DaemonEnd, DisconnectReason};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// The shortest silence that may be asked for.
const BOUND: Duration = Duration::from_secs(1);

fn impatient(name: &str) -> ConnectOptions {
    named(name).host_timeout(BOUND).daemon_timeout(BOUND)
}

/// The end that silence brings, with what is known of the sends.
fn assert_silent(end: &Error) {
    assert!(matches!(end, Error::ConnectionLost { .. }), "{end}");
    assert!(end.to_string().contains("timed out: nothing was heard of the daemon or its machine for 1s"), "{end}");
}

/// Connects and sees that the daemon tells heartbeats.
fn heard(address: &Address, options: &ConnectOptions) -> Client {
    let mut client = Client::connect(address, options).unwrap();
    assert_eq!(client.receive(SHORT).unwrap(), None);
    client
}

#[test]
fn whoever_waits_for_a_frozen_daemon_is_told_whatever_it_waits_for() {
    let dir = tempfile::tempdir().unwrap();
    let daemons = [Daemon::on_tcp(tight()), Daemon::on_unix(&dir.path().join("socket"), tight())];
    for daemon in daemons {
        let [mut idle, mut asks, mut shows] = ["a", "b", "c"].map(|name| heard(&daemon.address, &impatient(name)));
        let mut sends = heard(&daemon.address, &impatient("d"));
        let (sender, mut receiver) = heard(&daemon.address, &impatient("e")).split();
        daemon.freeze(true);
        std::thread::scope(|threads| {
            threads.spawn(|| assert_silent(&idle.receive(None).unwrap_err()));
            threads.spawn(|| assert_silent(&asks.status(None).unwrap_err()));
            threads.spawn(|| assert_silent(&shows.receive_borrowed(None, |_| {}).unwrap_err()));
            threads.spawn(|| {
                let end = loop {
                    if let Err(end) = sends.multicast(Service::Agreed, &[group("g")], &[0; 400]) {
                        break end;
                    }
                };
                assert_silent(&end);
                assert_eq!(end.unknown_fate(), Some(&(1..3)), "as many as its credit allowed");
            });
            threads.spawn(|| assert_silent(&receiver.receive(None).unwrap_err()));
            // Its other half sees it.
            threads.spawn(|| {
                let mut sender = sender;
                while sender.multicast(Service::Agreed, &[group("g")], &[0; 400]).is_ok() {}
                assert_silent(&sender.flush().and_then(|()| sender.wait_ordered(LONG)).unwrap_err());
            });
        });
    }
}

#[test]
fn a_sender_whose_socket_is_full_is_told_by_the_half_that_receives() {
    let daemon = Daemon::on_tcp(Limits::default());
    let (mut sender, mut receiver) = heard(&daemon.address, &impatient("ann")).split();
    daemon.freeze(true);
    let sends = std::thread::spawn(move || {
        // More than all sockets on the way take.
        let sent = sender.multicast(Service::Agreed, &[group("g")], &vec![0; 15 << 20]);
        sent.and_then(|_| sender.flush()).unwrap_err()
    });
    assert_silent(&receiver.receive(None).unwrap_err());
    assert_silent(&sends.join().unwrap());
}

#[test]
fn a_daemon_that_is_frozen_for_half_of_the_bound_is_waited_for() {
    let daemon = Daemon::on_tcp(Limits::default());
    let mut ann = heard(&daemon.address, &named("ann"));
    ann.join(&group("g")).unwrap();
    ann.wait_ordered(LONG).unwrap();
    daemon.freeze(true);
    ann.multicast(Service::Agreed, &[group("g")], b"meanwhile").unwrap();
    assert!(matches!(ann.receive(SHORT).unwrap(), Some(Event::GroupView(_))));
    assert_eq!(ann.receive(Duration::from_secs(1)).unwrap(), None);
    daemon.freeze(false);
    assert_eq!(next_payload(&mut ann), "meanwhile");
}

#[test]
fn a_program_that_was_away_for_longer_than_the_bound_finds_its_session() {
    let daemon = Daemon::on_tcp(Limits::default());
    let mut ann = heard(&daemon.address, &impatient("ann"));
    ann.join(&group("g")).unwrap();
    ann.wait_ordered(LONG).unwrap();
    std::thread::sleep(BOUND * 2);
    ann.multicast(Service::Agreed, &[group("g")], b"back").unwrap();
    assert_eq!(next_payload(&mut ann), "back");
}

#[test]
fn where_no_silence_is_too_long_nobody_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::on_unix(&dir.path().join("socket"), Limits::default());
    let mut ann = heard(&daemon.address, &named("ann").daemon_timeout(None));
    daemon.freeze(true);
    assert_eq!(ann.receive(BOUND * 2).unwrap(), None);
    daemon.freeze(false);
    ann.status(LONG).unwrap();
}

#[test]
fn options_out_of_range_are_refused_before_anybody_is_asked() {
    let nowhere: Address = "/nonexistent/socket".parse().unwrap();
    for bad in [named("ann").host_timeout(Duration::ZERO), named("ann").daemon_timeout(Duration::MAX)] {
        let refused = Client::connect(&nowhere, &bad).unwrap_err();
        assert!(matches!(refused, Error::Option(_)), "{refused}");
    }
}

/// A daemon that tells no heartbeats; one of an earlier release refuses a hello that asks for them.
fn without_heartbeats(refuses: bool) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream, refuses));
        }
    });
    address
}

fn serve(mut stream: TcpStream, refuses: bool) {
    let (mut session, mut buffer) = (DaemonEnd::new(consort_types::ClientId(1)), vec![0; 4_096]);
    let (me, name) = (consort_types::MemberId::new(1, 1), ClientName::new(b"ann").unwrap());
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        session.feed(buffer[..read].to_vec().into());
        while let Ok(Some(ask)) = session.next(&Limits::default()) {
            let Ask::Hello(_) = ask else { continue };
            if refuses && session.heartbeats().is_some() {
                session.close(&consort_session::Disconnect::new(DisconnectReason::Malformed, "malformed flags"));
            } else {
                session.welcome(name.clone(), me, "n1", &Limits::default());
            }
        }
        let mut out = session.output().front().to_vec();
        if !refuses {
            // The heartbeat behind the welcome.
            out.truncate(out.len() - 5);
        }
        session.written(session.output().len());
        stream.write_all(&out).unwrap();
        if session.is_closed() {
            return;
        }
    }
}

#[test]
fn a_daemon_that_promised_nothing_may_be_silent() {
    for refuses in [false, true] {
        let mut ann = Client::connect(&without_heartbeats(refuses), &impatient("ann")).unwrap();
        assert_eq!(ann.receive(BOUND * 2).unwrap(), None, "earlier release: {refuses}");
    }
}

#[cfg(feature = "tokio")]
#[test]
fn on_tokio_it_is_the_same() {
    use crate::AsyncClient;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let within = |future| async { tokio::time::timeout(LONG, future).await.expect("an end in time") };
    let daemon = Daemon::on_tcp(tight());
    runtime.block_on(within(Box::pin(async {
        let bad = named("ann").host_timeout(Duration::ZERO);
        assert!(matches!(AsyncClient::connect(&daemon.address, &bad).await, Err(Error::Option(_))));
        let mut old = AsyncClient::connect(&without_heartbeats(true), &impatient("ann")).await.unwrap();
        assert!(tokio::time::timeout(BOUND * 2, old.receive()).await.is_err(), "it waits on");
        let mut idle = AsyncClient::connect(&daemon.address, &impatient("idle")).await.unwrap();
        let mut sends = AsyncClient::connect(&daemon.address, &impatient("sends")).await.unwrap();
        for client in [&mut idle, &mut sends] {
            client.status().await.unwrap();
        }
        daemon.freeze(true);
        assert_silent(&idle.receive().await.unwrap_err());
        let end = loop {
            if let Err(end) = sends.multicast(Service::Agreed, &[group("g")], &[0; 400]).await {
                break end;
            }
        };
        assert_silent(&end);
    }) as std::pin::Pin<Box<dyn Future<Output = ()>>>));
}
