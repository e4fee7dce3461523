//! Daemons out of a file, three where nothing is said, which may be killed and started again.
#![allow(dead_code, reason = "each test file uses its part")]

use super::support::{Daemon, World, free_port};
use consort::{Address, Client, ConnectOptions, Event, Fate, GroupName, SessionEvent, SessionOptions};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub const PATIENCE: Duration = Duration::from_secs(55);

/// Daemons out of a file, each with a client address of its own.
pub struct Cluster {
    pub world: World,
    words: Vec<Vec<String>>,
    daemons: Vec<Option<Daemon>>,
}

impl Cluster {
    pub fn new(protocol: &str) -> Self {
        Self::with(protocol, "")
    }

    /// The same with more in the file, behind the nodes.
    pub fn with(protocol: &str, more: &str) -> Self {
        let world = World::new();
        let nodes = (1..=3).map(|id| format!("[[node]]\nid = {id}\naddress = \"127.0.0.1:{}\"\n", free_port()));
        let (nodes, multicast) = (nodes.collect::<String>(), free_port());
        let head = format!("cluster = \"{}\"\nprotocol = \"{protocol}\"", world.cluster);
        let text = format!("{head}\nmulticast = \"239.192.1.7:{multicast}\"\n{nodes}{more}");
        Self::out_of(world, &text, 3)
    }

    /// So many daemons out of this file.
    pub fn out_of(world: World, text: &str, nodes: usize) -> Self {
        let file = world.write("consort.toml", text);
        let words =
            (1..=nodes).map(|id| ["daemon", "--config", &file, "--node", &id.to_string()].map(str::to_owned).to_vec());
        let words: Vec<_> = words.collect();
        let daemons = (0..nodes).map(|_| None).collect();
        let mut cluster = Self { world, words, daemons };
        (0..nodes).for_each(|at| cluster.start(at));
        cluster
    }

    pub fn start(&mut self, at: usize) {
        let words: Vec<_> = self.words[at].iter().map(String::as_str).collect();
        self.daemons[at] = Some(self.world.daemon_as(&words));
    }

    pub fn kill(&mut self, at: usize) {
        if let Some(mut daemon) = self.daemons[at].take() {
            daemon.kill();
        }
    }

    /// Has a daemon leave, and waits until it has ended.
    pub fn end(&mut self, at: usize) {
        if let Some(mut daemon) = self.daemons[at].take() {
            daemon.signal(Signal::TERM);
            let (code, log) = daemon.wait();
            assert_eq!(code, 0, "{log}");
        }
    }

    /// Sends a signal to a daemon.
    pub fn signal(&self, at: usize, signal: Signal) {
        self.daemons[at].iter().for_each(|daemon| daemon.signal(signal));
    }

    /// Waits until a daemon has ended by itself; its exit code and its log.
    pub fn ended(&mut self, at: usize) -> (i32, String) {
        self.daemons[at].take().expect("it runs").wait()
    }

    /// Stops a daemon's process, or lets it go on.
    pub fn freeze(&self, at: usize, freezes: bool) {
        let signal = if freezes { Signal::STOP } else { Signal::CONT };
        self.daemons[at].iter().for_each(|daemon| daemon.signal(signal));
    }

    pub fn address(&self, at: usize) -> Address {
        Address::Unix(self.world.socket_path(at as u16 + 1))
    }

    /// All daemons, this one first.
    pub fn addresses(&self, first: usize) -> Vec<Address> {
        (first..first + 3).map(|at| self.address(at % 3)).collect()
    }

    pub fn counts(&self, at: usize) -> bool {
        self.status(at).contains("\"counts_for_producers\":1")
    }

    /// How many daemons the view of this one has.
    pub fn members(&self, at: usize) -> usize {
        let status = self.status(at);
        let members = status.split_once("\"members\":\"").and_then(|(_, rest)| rest.split_once('"'));
        members.map_or(0, |(members, _)| members.split_whitespace().count())
    }

    pub fn status(&self, at: usize) -> String {
        let node = (at + 1).to_string();
        self.world.run(&["status", "--cluster", &self.world.cluster, "--node", &node, "--json"]).out
    }
}

pub fn group() -> GroupName {
    GroupName::new("orders").unwrap()
}

pub fn options() -> SessionOptions {
    SessionOptions::default().reconnect_within(PATIENCE)
}

/// The payloads of a member of the group, up to the one that says the end.
pub fn collect(address: &Address) -> JoinHandle<Vec<String>> {
    let mut client = Client::connect(address, &ConnectOptions::default()).unwrap();
    client.join(&group()).unwrap();
    while !matches!(client.receive(PATIENCE).unwrap(), Some(Event::GroupView(_))) {}
    thread::spawn(move || {
        let mut all = Vec::new();
        loop {
            match client.receive(PATIENCE).unwrap() {
                Some(Event::Message(message)) if message.payload() == b"end" => return all,
                Some(Event::Message(message)) => all.push(String::from_utf8(message.payload().to_vec()).unwrap()),
                Some(_) => {}
                None => panic!("nothing more came behind {all:?}"),
            }
        }
    })
}

/// The fate of each send among these events.
pub fn fates(events: &[SessionEvent]) -> BTreeMap<u64, Fate> {
    let mut fates = BTreeMap::new();
    for event in events {
        if let SessionEvent::Sent { send, fate } = event {
            assert_eq!(fates.insert(*send, fate.clone()), None, "two fates of {send}");
        }
    }
    fates
}

/// Each speaker's messages, a name and a number, come in their order, so many of each.
pub fn in_order_of_senders(all: &[String], many: usize) {
    let mut last = BTreeMap::<&str, usize>::new();
    for text in all {
        let (who, number) = text.rsplit_once(' ').unwrap();
        let number: usize = number.parse().unwrap();
        assert_eq!(last.insert(who, number).unwrap_or(0) + 1, number, "{text}");
    }
    assert!(last.values().all(|number| *number == many), "{last:?}");
}
