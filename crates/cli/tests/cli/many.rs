//! As many groups and clients as a daemon must bear.

use crate::support::{self, Daemon, World};
use consort::{Address, Client, ConnectOptions, Event, GroupName, Service};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::time::{Duration, Instant};

const CLIENTS: usize = 1_000;
const EACH: usize = 100;
/// What a daemon takes at rest, and for each client.
const AT_REST: u64 = 48 << 20;
const PER_CLIENT: u64 = 32 << 10;
const PATIENCE: Duration = Duration::from_secs(60);

fn group(client: usize, number: usize) -> GroupName {
    GroupName::new(format!("client-{client}-group-{number}").as_bytes()).unwrap()
}

/// Joins a hundred groups of its own.
fn enter(world: &World, number: usize) -> Client {
    let mut client = Client::connect(&Address::Unix(world.socket_path(1)), &ConnectOptions::default()).unwrap();
    (0..EACH).for_each(|at| assert!(client.join(&group(number, at)).unwrap() > 0));
    client
}

/// How many groups a daemon knows, and what they take in bytes as it counts.
fn look(world: &World, node: u16) -> (u64, u64) {
    let mut client = Client::connect(&Address::Unix(world.socket_path(node)), &ConnectOptions::default()).unwrap();
    let status = client.status(PATIENCE).unwrap();
    (status.counter("groups").unwrap(), status.counter("group_bytes").unwrap())
}

fn resident(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn a_daemon_bears_a_hundred_thousand_groups_and_a_thousand_clients_and_tells_a_newcomer_of_all() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    if maximum.is_some_and(|files| files < 2 * CLIENTS as u64) {
        return eprintln!("left out: no process here may open 2,000 files");
    }
    let world = World::new();
    let mut daemons = world.daemons(2, &[]);
    let began = Instant::now();
    let mut clients: Vec<_> = (0..CLIENTS).map(|number| enter(&world, number)).collect();
    for client in &mut clients {
        let mut joined = 0;
        while joined < EACH {
            let event = client.receive(PATIENCE).unwrap().expect("a group view in time");
            joined += usize::from(matches!(event, Event::GroupView(_)));
        }
    }
    eprintln!("all joined after {:?}", began.elapsed());
    for (node, daemon) in (1..).zip(&daemons) {
        let ((groups, counted), resident) = (look(&world, node), resident(daemon));
        eprintln!("node {node}: {groups} groups, {counted} bytes counted, {resident} resident");
        assert_eq!(groups, (CLIENTS * EACH) as u64);
        let bound = AT_REST + counted + CLIENTS as u64 * PER_CLIENT;
        assert!(resident < bound, "node {node} takes {resident} bytes, where {bound} are promised");
    }
    daemons[1].kill();
    daemons[1] = world.daemon(&["--nodes", "2"]);
    let began = Instant::now();
    support::wait_until("the newcomer knows all groups", || look(&world, 2).0 == (CLIENTS * EACH) as u64);
    eprintln!("the newcomer knew all after {:?}", began.elapsed());
    // While a view changes, which starved daemons do, a daemon lists what moves with it alone.
    support::wait_until("both daemons list the same groups", || {
        let began = Instant::now();
        let [first, second] = ["1", "2"].map(|node| world.run(&["groups", "--node", node]).out);
        eprintln!("both lists took {:?}", began.elapsed());
        // A head, and a line for each group.
        first.lines().count() == 1 + CLIENTS * EACH && first == second
    });
    let listed: serde_json::Value =
        serde_json::from_str(&world.run(&["clients", "--node", "1", "--json"]).out).unwrap();
    assert_eq!(listed.as_array().unwrap().iter().filter(|client| client["groups"] == EACH).count(), CLIENTS);
    let began = Instant::now();
    clients[0].multicast(Service::Agreed, &[group(999, 99)], b"still here").unwrap();
    clients[0].flush().unwrap();
    let last = clients.last_mut().unwrap();
    loop {
        let event = last.receive(PATIENCE).unwrap().expect("the message in time");
        if let Event::Message(message) = event {
            eprintln!("a message took {:?}", began.elapsed());
            return assert_eq!(message.payload(), b"still here");
        }
    }
}
