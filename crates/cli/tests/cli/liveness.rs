//! Daemons that are stopped for a while, and their clients.

use crate::support::{Daemon, World, free_port};
use consort::{Address, Client, ConnectOptions, Error, Event, GroupName, Service};
use rustix::process::Signal;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn group() -> GroupName {
    GroupName::new("g").unwrap()
}

fn connect(address: &Address, options: &ConnectOptions) -> Client {
    let mut client = Client::connect(address, options).unwrap();
    client.join(&group()).unwrap();
    client.wait_ordered(PATIENCE).unwrap();
    client
}

/// Passes over what came, and waits for so long for nothing.
fn nothing_for(client: &mut Client, time: Duration) {
    while client.receive(Duration::ZERO).unwrap().is_some() {}
    assert_eq!(client.receive(time).unwrap(), None);
}

fn await_message(client: &mut Client, payload: &[u8]) {
    loop {
        let event = client.receive(PATIENCE).unwrap().expect("an event in time");
        if matches!(event, Event::Message(message) if message.payload() == payload) {
            return;
        }
    }
}

fn one_daemon() -> (World, Daemon, Address) {
    let world = World::new();
    let port = free_port();
    let daemon = world.daemon(&["--listen", &format!("127.0.0.1:{port}")]);
    (world, daemon, Address::Tcp { host: "127.0.0.1".into(), port })
}

#[test]
fn a_daemon_that_is_stopped_for_a_second_keeps_its_clients_with_a_bound_of_two() {
    let (world, daemon, tcp) = one_daemon();
    let bound = Duration::from_secs(2);
    let options = ConnectOptions::default().host_timeout(bound).daemon_timeout(bound);
    let near = Address::Unix(world.socket_path(1));
    let mut clients = vec![
        connect(&tcp, &options),
        connect(&near, &options),
        connect(&near, &options.clone().without_shared_memory()),
    ];
    std::thread::sleep(Duration::from_millis(100));
    daemon.signal(Signal::STOP);
    std::thread::scope(|threads| {
        for client in &mut clients {
            threads.spawn(|| nothing_for(client, Duration::from_secs(1)));
        }
    });
    daemon.signal(Signal::CONT);
    clients[0].multicast(Service::Agreed, &[group()], b"all are here").unwrap();
    clients[0].flush().unwrap();
    clients.iter_mut().for_each(|client| await_message(client, b"all are here"));
}

#[test]
fn a_daemon_that_stays_stopped_is_given_up_and_serves_again_when_it_goes_on() {
    let (world, daemon, tcp) = one_daemon();
    let options = ConnectOptions::default().daemon_timeout(Duration::from_secs(1));
    let near = Address::Unix(world.socket_path(1));
    let mut clients =
        [connect(&tcp, &options), connect(&near, &options), connect(&near, &options.clone().without_shared_memory())];
    daemon.signal(Signal::STOP);
    std::thread::scope(|threads| {
        for client in &mut clients {
            threads.spawn(|| {
                let end = loop {
                    match client.receive(PATIENCE) {
                        Ok(event) => assert!(event.is_some(), "nobody was told"),
                        Err(end) => break end,
                    }
                };
                assert!(matches!(&end, Error::ConnectionLost { .. }) && end.to_string().contains("timed out"), "{end}");
            });
        }
    });
    daemon.signal(Signal::CONT);
    let mut again = connect(&near, &options);
    again.multicast(Service::Agreed, &[group()], b"back").unwrap();
    await_message(&mut again, b"back");
}

#[test]
fn a_daemons_bound_out_of_range_is_refused_with_line_and_range() {
    let world = World::new();
    let text = "cluster = \"c\"\n[[node]]\nid = 1\naddress = \"127.0.0.1\"\n[clients]\nhost_timeout = \"1s\"\n";
    let file = world.write("bad.toml", text);
    let ran = world.run(&["daemon", "--config", &file]);
    assert_eq!(ran.code, 2, "{}", ran.errors);
    assert!(ran.errors.contains("bad.toml:6: clients.host_timeout: 1s is out of range; give a time from"), "{ran:?}");
}
