//! Clients of one machine in shared memory, against real daemons.

use crate::support::{self, Daemon, World};
use consort::{Address, Client, ConnectOptions, DisconnectReason, Error, Event, GroupName, Service, Shown};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// No event of these tests takes longer to come, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn group() -> GroupName {
    GroupName::new(b"g").unwrap()
}

fn connect(world: &World, node: u16, options: &ConnectOptions) -> Client {
    let mut client = Client::connect(&Address::Unix(world.socket_path(node)), options).unwrap();
    client.join(&group()).unwrap();
    client.wait_ordered(PATIENCE).unwrap();
    client
}

fn shared(world: &World, node: u16) -> Client {
    connect(world, node, &ConnectOptions::default())
}

fn at_its_socket(world: &World, node: u16) -> Client {
    connect(world, node, &ConnectOptions::default().without_shared_memory())
}

/// Ends a daemon that logs at level debug; returns how many clients shared memory with it, and how many were left out.
fn counted(daemon: &mut Daemon) -> (u64, u64) {
    daemon.signal(Signal::TERM);
    let (code, log) = daemon.wait();
    assert_eq!(code, 0, "{log}");
    let value = |name: &str| {
        let line = log.lines().find(|line| line.contains(name));
        line.and_then(|line| line.rsplit('"').nth(1)?.parse().ok()).unwrap_or_else(|| panic!("{name} in {log}"))
    };
    (value("\"net_clients_shared\""), value("\"net_clients_not_shared\""))
}

/// A payload that tells its number, of any length up to some fragments.
fn payload(number: usize) -> Vec<u8> {
    (0..number * number % 70_000 + 1).map(|at| (at * 7 + number) as u8).collect()
}

/// The numbers and bytes of the next messages.
fn messages(client: &mut Client, count: usize) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while messages.len() < count {
        if let Event::Message(message) = client.receive(PATIENCE).unwrap().expect("a message in time") {
            messages.push(message.payload().to_vec());
        }
    }
    messages
}

/// The same, shown where they lie if they can be.
fn shown(client: &mut Client, count: usize) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while messages.len() < count {
        let shown = client.receive_borrowed(PATIENCE, |shown| {
            if let Shown::Message(message) = shown {
                messages.push(message.payload().to_vec());
            }
        });
        assert!(shown.unwrap() > 0, "a message in time");
    }
    messages
}

#[test]
fn clients_in_memory_and_at_sockets_see_one_order_of_messages_of_every_size() {
    let world = World::new();
    let mut daemons = world.daemons(2, &["--log", "debug"]);
    support::wait_until("both are in one view", || {
        let ran = world.run(&["explain", "--json", "--node", "1"]);
        let story: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_default();
        story["members"].as_array().is_some_and(|members| members.len() == 2)
    });
    let mut clients = [shared(&world, 1), shared(&world, 2), at_its_socket(&world, 1)];
    let mut looking = [shared(&world, 1), at_its_socket(&world, 2)];
    let (mut sender, mut receiver) = shared(&world, 2).split();
    let sends = std::thread::spawn(move || {
        for number in 0..300 {
            sender.multicast(Service::Agreed, &[group()], &payload(number)).unwrap();
        }
        sender.flush().unwrap();
    });
    for _ in 0..300 {
        while !matches!(receiver.receive(PATIENCE).unwrap().expect("in time"), Event::Message(_)) {}
    }
    sends.join().unwrap();
    let expected: Vec<_> = (0..300).map(payload).collect();
    for client in &mut clients {
        assert!(messages(client, 300) == expected);
    }
    for client in &mut looking {
        assert!(shown(client, 300) == expected);
    }
    drop((clients, looking));
    assert_eq!(daemons.iter_mut().map(counted).collect::<Vec<_>>(), [(2, 0), (2, 0)]);
}

#[test]
fn a_daemon_that_shares_no_memory_serves_at_the_socket_whoever_offers_some() {
    let world = World::new();
    let [_, _, a, b] = std::process::id().to_be_bytes();
    let file = world.write(
        "consort.toml",
        &format!(
            "cluster = \"{}\"\nmulticast = \"off\"\n[[node]]\nid = 1\naddress = \"127.{}.{b}.78:4841\"\n[clients]\nshared_memory = 0\n",
            world.cluster,
            100 + a % 100
        ),
    );
    let mut daemon = world.daemon_as(&["daemon", "--config", &file, "--log", "debug"]);
    let mut ann = shared(&world, 1);
    ann.multicast(Service::Agreed, &[group()], b"hello").unwrap();
    assert_eq!(messages(&mut ann, 1), [b"hello"]);
    drop(ann);
    assert_eq!(counted(&mut daemon), (0, 1));
}

#[test]
fn when_the_daemon_is_killed_clients_in_memory_learn_it_at_once_whatever_they_do() {
    let world = World::new();
    let mut daemon = world.daemon(&[]);
    let mut waits = shared(&world, 1);
    let (mut sends, mut receives) = shared(&world, 1).split();
    let mut ann = shared(&world, 1);
    let waiting = std::thread::spawn(move || {
        loop {
            if let Err(error) = waits.receive(None) {
                return error;
            }
        }
    });
    let sending = std::thread::spawn(move || {
        loop {
            if let Err(error) = sends.multicast(Service::Agreed, &[group()], &[7; 5_000]) {
                return error;
            }
        }
    });
    let receiving = std::thread::spawn(move || {
        loop {
            if let Err(error) = receives.receive(None) {
                return error;
            }
        }
    });
    messages(&mut ann, 100);
    daemon.kill();
    for thread in [waiting, sending, receiving] {
        let error = thread.join().unwrap();
        assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
    }
    let lost = loop {
        if let Err(error) = ann.receive(PATIENCE) {
            break error;
        }
    };
    assert!(matches!(lost, Error::ConnectionLost { .. }), "{lost}");
}

#[test]
fn a_client_in_memory_that_never_reads_is_sent_away_and_one_that_dies_leaves_nothing() {
    let world = World::new();
    let [_, _, a, b] = std::process::id().to_be_bytes();
    let file = world.write(
        "consort.toml",
        &format!(
            "cluster = \"{}\"\nmulticast = \"off\"\n[[node]]\nid = 1\naddress = \"127.{}.{b}.79:4841\"\n[clients]\noutput = 1_000_000\n",
            world.cluster,
            100 + a % 100
        ),
    );
    let _daemon = world.daemon_as(&["daemon", "--config", &file]);
    let mut slow = shared(&world, 1);
    let mut ann = shared(&world, 1);
    drop(shared(&world, 1));
    for _ in 0..40 {
        ann.multicast(Service::Agreed, &[group()], &[7; 100_000]).unwrap();
        assert_eq!(messages(&mut ann, 1)[0].len(), 100_000);
    }
    let away = loop {
        if let Err(error) = slow.receive(PATIENCE) {
            break error;
        }
    };
    assert!(
        matches!(&away, Error::Disconnected { farewell, .. } if farewell.reason == DisconnectReason::Slow),
        "{away}"
    );
    ann.close(PATIENCE).unwrap();
}

/// The hello of a client without a name.
fn hello() -> Vec<u8> {
    [&[0, 0, 0, 25, 1, 0xc0, 0x4e, 0xc1, 0x1e, 0, 2][..], &[0; 18]].concat()
}

#[test]
fn a_client_that_knows_nothing_of_memory_is_served_and_what_else_one_attaches_does_no_harm() {
    let world = World::new();
    let mut daemon = world.daemon(&["--log", "debug"]);
    let mut answers = Vec::new();
    for attach in [false, true] {
        let mut stream = UnixStream::connect(world.socket_path(1)).unwrap();
        match attach {
            false => stream.write_all(&hello()).unwrap(),
            true => consort_shm::send(stream.as_fd(), &hello(), std::io::stdin().as_fd()).map(drop).unwrap(),
        }
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        answers.push(head[4]);
    }
    assert_eq!(answers, [0x81, 0x81], "both are welcome");
    assert!(daemon.incarnations());
    assert_eq!(counted(&mut daemon), (0, 1));
}
