//! Collecting, credit, and two threads.
use super::*;
use std::sync::{Arc, Mutex};

#[test]
fn sends_are_collected_until_they_are_flushed_unless_told_otherwise() {
    let daemon = Daemon::on_tcp(Limits::default());
    let (mut ann, bob) = (connect(&daemon.address, "ann"), connect(&daemon.address, "bob"));
    ann.join(&group("g")).unwrap();
    assert!(matches!(ann.receive(LONG).unwrap(), Some(Event::GroupView(_))));
    let (mut sender, _receiver) = bob.split();
    sender.multicast(Service::Agreed, &[group("g")], b"collected").unwrap();
    assert_eq!(ann.receive(SHORT).unwrap(), None);
    sender.flush().unwrap();
    assert_eq!(next_payload(&mut ann), "collected");
    let options = ConnectOptions { unbatched: true, ..named("eve") };
    let (mut eager, _receiver) = Client::connect(&daemon.address, &options).unwrap().split();
    eager.multicast(Service::Agreed, &[group("g")], b"at once").unwrap();
    assert_eq!(next_payload(&mut ann), "at once");
    sender.multicast(Service::Agreed, &[group("g")], b"at last").unwrap();
    drop(sender);
    assert_eq!(next_payload(&mut ann), "at last");
}

#[test]
fn one_thread_sends_far_more_than_its_credit_and_receives_all_of_it_in_order() {
    let daemon = Daemon::on_tcp(tight());
    let mut ann = connect(&daemon.address, "ann");
    ann.join(&group("g")).unwrap();
    for n in 0..5_000 {
        assert_eq!(ann.multicast(Service::Agreed, &[group("g")], n.to_string().as_bytes()).unwrap(), n + 2);
    }
    (0..5_000).for_each(|n| assert_eq!(next_payload(&mut ann), n.to_string()));
    assert_eq!(ann.receive(SHORT).unwrap(), None);
    ann.close(LONG).unwrap();
}

#[test]
fn two_threads_send_and_receive() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::on_unix(&dir.path().join("socket"), tight());
    let mut ann = connect(&daemon.address, "ann");
    ann.join(&group("g")).unwrap();
    let (mut sender, mut receiver) = ann.split();
    let thread = std::thread::spawn(move || {
        for n in 0..20_000 {
            sender.multicast(Service::Agreed, &[group("g")], format!("{n}").as_bytes()).unwrap();
        }
        sender.wait_ordered(LONG).unwrap();
        sender
    });
    let mut next = 0;
    while next < 20_000 {
        if let Event::Message(message) = receiver.receive(LONG).unwrap().expect("a message in time") {
            assert_eq!(message.payload(), format!("{next}").as_bytes());
            next += 1;
        }
    }
    while !thread.is_finished() {
        assert_eq!(receiver.receive(SHORT).unwrap(), None);
    }
    assert_eq!(thread.join().unwrap().sent(), 20_001);
    assert_eq!(receiver.progress().ordered, 20_001);
}

#[test]
fn threads_that_share_a_sender_by_a_mutex_keep_each_its_order() {
    let daemon = Daemon::on_tcp(tight());
    let (mut sender, mut receiver) = connect(&daemon.address, "ann").split();
    sender.join(&group("g")).unwrap();
    let sender = Arc::new(Mutex::new(sender));
    let threads = ["a", "b", "c"].map(|name| {
        let sender = Arc::clone(&sender);
        std::thread::spawn(move || {
            for n in 0..1_000 {
                let text = format!("{name}{n}");
                // Nobody waits for credit with the lock in its hands.
                while let Err(error) =
                    sender.lock().unwrap().try_multicast(Service::Agreed, &[group("g")], text.as_bytes())
                {
                    assert!(matches!(error, Error::WouldBlock { .. }), "{error}");
                    std::thread::yield_now();
                }
            }
            sender.lock().unwrap().flush().unwrap();
        })
    });
    let mut told = Vec::new();
    while told.len() < 3_000 {
        if let Event::Message(message) = receiver.receive(LONG).unwrap().expect("a message in time") {
            told.push(String::from_utf8(message.payload().to_vec()).unwrap());
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for name in ["a", "b", "c"] {
        let own: Vec<usize> = told.iter().filter_map(|text| text.strip_prefix(name)?.parse().ok()).collect();
        assert_eq!(own, (0..1_000).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn large_messages_pass_whole_also_beyond_all_credit() {
    let daemon = Daemon::on_tcp(tight());
    let mut ann = connect(&daemon.address, "ann");
    ann.join(&group("g")).unwrap();
    for len in [99_999, 1, 100_000, 0] {
        let payload: String = (0..len).map(|n| char::from(b'a' + (n % 26) as u8)).collect();
        ann.multicast(Service::Agreed, &[group("g")], payload.as_bytes()).unwrap();
        assert!(next_payload(&mut ann) == payload, "{len} bytes");
    }
}

#[test]
fn without_credit_a_send_says_so_or_waits_as_long_as_it_may() {
    let daemon = Daemon::on_tcp(tight());
    daemon.hold(true);
    let options = ConnectOptions { send_within: Some(SHORT), ..named("ann") };
    let mut ann = Client::connect(&daemon.address, &options).unwrap();
    ann.multicast(Service::Agreed, &[group("g")], &[0; 900]).unwrap();
    let would_block = ann.try_multicast(Service::Agreed, &[group("g")], &[0; 900]);
    assert!(
        matches!(would_block, Err(Error::WouldBlock { needs: 909, free: 91, cause: WaitCause::Budget })),
        "{would_block:?}"
    );
    let timed_out = ann.multicast(Service::Agreed, &[group("g")], &[0; 900]);
    assert!(matches!(timed_out, Err(Error::TimedOut { .. })), "{timed_out:?}");
    assert!(matches!(ann.wait_ordered(SHORT), Err(Error::TimedOut { .. })));
    assert_eq!(ann.sent(), 1);
    daemon.hold(false);
    ann.wait_ordered(LONG).unwrap();
    assert_eq!(ann.try_multicast(Service::Agreed, &[group("g")], &[0; 900]).unwrap(), 2);
}

#[test]
fn what_breaks_a_limit_is_refused_before_it_is_sent() {
    let daemon = Daemon::on_tcp(tight());
    let mut ann = connect(&daemon.address, "ann");
    let too_large = ann.multicast(Service::Agreed, &[group("g")], &[0; 100_001]);
    assert!(matches!(too_large, Err(Error::TooLarge { len: 100_001, max: 100_000 })));
    assert!(matches!(
        ann.multicast::<GroupName>(Service::Agreed, &[], b""),
        Err(Error::Targets { count: 0, max: 1_000 })
    ));
    assert_eq!(ann.multicast(Service::Agreed, &[group("g")], b"").unwrap(), 1);
}

#[test]
fn a_sender_whose_receiver_is_gone_does_not_wait_for_ever() {
    let daemon = Daemon::on_tcp(tight());
    daemon.hold(true);
    let (mut sender, receiver) = connect(&daemon.address, "ann").split();
    drop(receiver);
    sender.multicast(Service::Agreed, &[group("g")], &[0; 900]).unwrap();
    let stuck = sender.multicast(Service::Agreed, &[group("g")], &[0; 900]);
    assert!(matches!(stuck, Err(Error::NobodyReceives)), "{stuck:?}");
}

/// Room for messages that no socket's buffer holds.
fn roomy() -> Limits {
    let most = 16 << 20;
    Limits { credit: 8 * most, message_max: most, output_max: 16 * most, ..Limits::default() }
}

/// More than a socket's buffer holds.
const LARGE: usize = 8 << 20;

/// What `call` returns, and it returns soon.
fn soon<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(call()));
    told.recv_timeout(LONG).expect("it returns in time")
}

#[test]
fn a_send_that_a_daemon_does_not_read_takes_no_longer_than_it_may_and_is_sent() {
    let daemon = Daemon::on_tcp(roomy());
    let mut ann = connect(&daemon.address, "ann");
    daemon.freeze(true);
    let mut ann = soon(move || {
        assert_eq!(ann.multicast_within(Service::Agreed, &[group("g")], &vec![0; LARGE], SHORT).unwrap(), 1);
        assert!(matches!(ann.wait_ordered(SHORT), Err(Error::TimedOut { .. })));
        ann
    });
    daemon.freeze(false);
    ann.wait_ordered(LONG).unwrap();
    assert_eq!(ann.sent(), 1);
}

#[test]
fn one_thread_writes_to_a_socket_as_soon_as_it_takes_more() {
    let dir = tempfile::tempdir().unwrap();
    for daemon in [Daemon::on_tcp(roomy()), Daemon::on_unix(&dir.path().join("socket"), roomy())] {
        let mut ann = connect(&daemon.address, "ann");
        let before = crate::stream::vain::waits();
        ann.multicast(Service::Agreed, &[group("g")], &vec![0; LARGE]).unwrap();
        ann.wait_ordered(None).unwrap();
        assert_eq!(crate::stream::vain::waits(), before, "waits that only the clock has ended");
    }
}

#[test]
fn neither_does_that_of_a_thread_that_only_sends() {
    let daemon = Daemon::on_tcp(roomy());
    let (mut sender, mut receiver) = connect(&daemon.address, "ann").split();
    daemon.freeze(true);
    let mut sender = soon(move || {
        assert_eq!(sender.multicast_within(Service::Agreed, &[group("g")], &vec![0; LARGE], SHORT).unwrap(), 1);
        assert!(matches!(sender.wait_ordered(SHORT), Err(Error::TimedOut { .. })));
        sender
    });
    daemon.freeze(false);
    sender.flush().unwrap();
    while receiver.progress().ordered < 1 {
        receiver.receive(SHORT).unwrap();
    }
    sender.wait_ordered(LONG).unwrap();
}

/// A client of a daemon that reads and says nothing.
fn with_silent_daemon(path: &std::path::Path, options: &ConnectOptions) -> (Client, std::thread::JoinHandle<()>) {
    use std::io::{Read, Write};
    let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
    let thread = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut room = vec![0; 1 << 20];
        let _hello = socket.read(&mut room).unwrap();
        let mut session = consort_session::DaemonEnd::new(consort_types::ClientId(1));
        let (name, me) = (ClientName::new(b"ann").unwrap(), consort_types::MemberId::new(0, 7));
        session.welcome(name, me, "n0", &roomy());
        socket.write_all(session.output().front()).unwrap();
        while socket.read(&mut room).is_ok_and(|n| n > 0) {}
    });
    (Client::connect(&Address::Unix(path.into()), options).unwrap(), thread)
}

#[test]
fn receiving_takes_no_longer_than_it_may_though_writing_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let options = named("ann").without_shared_memory();
    let (mut ann, daemon) = with_silent_daemon(&dir.path().join("socket"), &options);
    let once: fn(&mut Client) = |ann| assert_eq!(ann.try_receive().unwrap(), None);
    let borrowed: fn(&mut Client) = |ann| assert_eq!(ann.receive_borrowed(Duration::ZERO, |_| {}).unwrap(), 0);
    for receive in [once, borrowed] {
        ann.try_multicast(Service::Agreed, &[group("g")], &vec![0; LARGE]).unwrap();
        let mut calls = 0;
        while ann.has_unwritten() {
            receive(&mut ann);
            calls += 1;
        }
        // A call writes a megabyte at most, and the send wrote one.
        assert!(calls >= (LARGE >> 20) - 1, "{calls} calls wrote it all");
    }
    drop(ann);
    daemon.join().unwrap();
}

/// A client that has more set aside than it may, and a daemon that does nothing.
fn with_much_unread(daemon: &Daemon) -> Client {
    let mut ann = connect(&daemon.address, "ann");
    ann.join(&group("g")).unwrap();
    loop {
        ann.multicast(Service::Agreed, &[group("g")], &vec![0; LARGE]).unwrap();
        match ann.wait_ordered(LONG) {
            Ok(()) => {}
            Err(Error::Unread { .. }) => break,
            Err(other) => panic!("{other}"),
        }
    }
    daemon.freeze(true);
    ann
}

#[test]
fn what_has_its_number_is_sent_however_much_waits_to_be_received() {
    let daemon = Daemon::on_tcp(roomy());
    let mut ann = with_much_unread(&daemon);
    let before = ann.sent();
    assert_eq!(ann.multicast(Service::Agreed, &[group("g")], &vec![0; LARGE]).unwrap(), before + 1);
    daemon.freeze(false);
    while ann.progress().ordered <= before {
        ann.receive(SHORT).unwrap();
    }
}

#[test]
fn a_client_with_much_unread_can_be_closed() {
    let daemon = Daemon::on_tcp(roomy());
    let mut ann = with_much_unread(&daemon);
    let _ = ann.multicast(Service::Agreed, &[group("g")], &vec![0; LARGE]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(SHORT);
            daemon.freeze(false);
        });
        ann.close(LONG).unwrap();
    });
}
