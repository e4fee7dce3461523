//! Clients over TCP and their daemon, between whose machines the network goes away.
use std::io::{Read, Write};
use std::net::TcpStream;

use consort::{Address, AsyncClient, ChangeCause, Client, ConnectOptions, Error, Event, GroupName, Service};
use consort_session::{ClientEnd, ClientName, DaemonEvent, Hello};
use consort_sim::link::LinkModel;

use super::*;
use crate::network::directory;
use crate::network::process::Process;
use crate::network::program::{Program, Settings, program_for_tests};

/// Where the daemon serves clients over TCP, in its own namespace.
const CLIENTS: u16 = 4_840;
/// For what takes two seconds on an idle machine.
const LONG: Duration = Duration::from_secs(60);

/// A daemon at one machine, and another machine for clients.
struct Pair {
    program: Program,
    network: Network,
    _daemon: Process,
    _place: tempfile::TempDir,
}

impl Pair {
    fn start() -> Option<Self> {
        let network = network(2)?;
        let place = directory("consort-vanished-").unwrap();
        let sections = format!("\n[clients]\nlisten = [\"0.0.0.0:{CLIENTS}\"]\nhost_timeout = \"2s\"\n");
        let settings = Settings { nodes: 1, head: String::new(), sections };
        let program = Program::new(program_for_tests().unwrap(), place.path(), &settings).unwrap();
        let daemon = program.daemon(&network, 0).unwrap();
        let deadline = Instant::now() + LONG;
        while !program.serves(0) {
            assert!(Instant::now() < deadline, "the daemon does not serve");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Self { program, network, _daemon: daemon, _place: place })
    }

    fn far(&self, name: &str) -> Client {
        let open = || Client::connect(&far(), &options(name));
        let mut client = self.network.namespace(1).enter(open).unwrap().unwrap();
        client.join(&group_name()).unwrap();
        client.wait_ordered(LONG).unwrap();
        client
    }

    /// A client beside the daemon, in the same group.
    fn near(&self) -> Client {
        let mut client = Client::connect(&Address::Unix(self.program.socket_path(0)), &options("near")).unwrap();
        client.join(&group_name()).unwrap();
        client.wait_ordered(LONG).unwrap();
        client
    }

    /// The cable is pulled.
    fn part(&self) {
        self.network.set_all(&LinkModel { cut: true, ..LinkModel::default() }).unwrap();
    }
}

fn far() -> Address {
    Address::Tcp { host: Network::address(0).to_string(), port: CLIENTS }
}

fn options(name: &str) -> ConnectOptions {
    ConnectOptions::default().called(name).unwrap()
}

fn group_name() -> GroupName {
    GroupName::new("g").unwrap()
}

/// Receives until the end.
fn end(client: &mut Client) -> Error {
    loop {
        match client.receive(LONG) {
            Ok(event) => assert!(event.is_some(), "nobody was told"),
            Err(end) => return end,
        }
    }
}

fn assert_told(what: &str, end: &Error) {
    assert!(matches!(end, Error::ConnectionLost { .. }) && end.to_string().contains("timed out"), "{what}: {end}");
}

/// Waits until these have left the group because their connections ended; whatever else comes is passed over.
fn await_gone(near: &mut Client, mut names: Vec<&str>) {
    while !names.is_empty() {
        let event = near.receive(LONG).unwrap();
        let event = event.unwrap_or_else(|| panic!("{names:?} are there still"));
        if let Event::GroupView(view) = event
            && view.cause == ChangeCause::Disconnect
        {
            names.retain(|name| view.who.iter().all(|member| member.name.as_str() != *name));
        }
    }
}

#[test]
fn clients_and_daemon_let_go_of_each_other_at_rest_and_in_the_middle_of_sending() {
    let Some(pair) = Pair::start() else { return };
    let mut near = pair.near();
    let (mut idle, mut one, mut many) = (pair.far("idle"), pair.far("one"), pair.far("many"));
    let open = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(AsyncClient::connect(&far(), &options("tokio"))).unwrap();
        (runtime, client)
    };
    let (runtime, mut asynchronous) = pair.network.namespace(1).enter(open).unwrap();
    pair.part();
    std::thread::scope(|threads| {
        threads.spawn(|| assert_told("at rest", &end(&mut idle)));
        threads.spawn(|| {
            one.multicast(Service::Agreed, &[group_name()], b"into the void").unwrap();
            assert_told("with a few bytes under way", &end(&mut one));
        });
        threads.spawn(|| {
            let lost = loop {
                if let Err(lost) = many.multicast(Service::Agreed, &[group_name()], &[7; 60_000]) {
                    break lost;
                }
            };
            assert_told("with more under way than sockets take", &lost);
        });
        threads.spawn(move || {
            runtime.block_on(async {
                let receive = tokio::time::timeout(LONG, asynchronous.receive());
                assert_told("on tokio", &receive.await.unwrap().unwrap_err());
            });
        });
        await_gone(&mut near, vec!["idle", "one", "many"]);
    });
}

/// A client of an earlier release: it asks for no heartbeats.
fn old(pair: &Pair) -> TcpStream {
    let dial = || far().dial(LONG).unwrap();
    let mut stream = TcpStream::from(pair.network.namespace(1).enter(dial).unwrap());
    let mut client = ClientEnd::new(&Hello { name: ClientName::new(b"old"), ..Hello::default() });
    let mut buffer = vec![0; 4_096];
    stream.write_all(&client.take_output()).unwrap();
    while !matches!(client.next_event().unwrap(), Some(DaemonEvent::Welcome(_))) {
        let read = stream.read(&mut buffer).unwrap();
        client.feed(buffer[..read].to_vec().into());
    }
    client.join(&group_name()).unwrap();
    stream.write_all(&client.take_output()).unwrap();
    stream
}

#[test]
fn a_daemon_lets_go_of_clients_that_are_told_nothing_and_of_those_that_are_told_much() {
    let Some(pair) = Pair::start() else { return };
    let mut near = pair.near();
    let (_old, _told) = (old(&pair), pair.far("told"));
    pair.part();
    await_gone(&mut near, vec!["old", "told"]);
    let Some(pair) = Pair::start() else { return };
    let mut near = pair.near();
    let (_old, _told) = (old(&pair), pair.far("told"));
    pair.part();
    for _ in 0..50 {
        near.multicast(Service::Agreed, &[group_name()], &[7; 10_000]).unwrap();
    }
    await_gone(&mut near, vec!["old", "told"]);
    assert_eq!(near.status(LONG).unwrap().counter("clients"), Some(1));
}

#[test]
fn a_client_that_reads_nothing_for_long_is_no_vanished_one() {
    let Some(pair) = Pair::start() else { return };
    let mut near = pair.near();
    let mut slow = pair.far("slow");
    // More than the sockets between them take.
    let sent = 1_500;
    for _ in 0..sent {
        near.multicast(Service::Agreed, &[group_name()], &[7; 10_000]).unwrap();
        while near.try_receive().unwrap().is_some() {}
    }
    // Four times as long as a machine may be silent.
    std::thread::sleep(Duration::from_secs(8));
    let mut messages = 0;
    while messages < sent {
        let event = slow.receive(LONG).unwrap().expect("all that was sent");
        messages += usize::from(matches!(event, Event::Message(_)));
    }
    assert_eq!(near.status(LONG).unwrap().counter("clients"), Some(2));
}
