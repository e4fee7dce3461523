//! Real daemons whose order a majority of acceptors keeps: one may go, and fewer than a majority order nothing.

use crate::support::{self, Daemon, Running, World, wait_until};
use rustix::process::Signal;

const PAXOS: [&str; 4] = ["--nodes", "3", "--protocol", "paxos"];

fn daemon(world: &World, node: &str) -> Daemon {
    world.daemon(&[&PAXOS[..], &["--node", node]].concat())
}

fn receive(world: &World, node: &str, until: &str) -> Running {
    world.start(&["receive", "--node", node, "--until", until, "--timeout", "55s"], None)
}

fn send(world: &World, node: &str, lines: &[&str]) {
    let ran = world.run(&[&["send", "--node", node, "--timeout", "50s"], lines].concat());
    assert_eq!(ran.code, 0, "{}", ran.errors);
}

/// Whether a node is in a view of the log, and says what its acceptors keep.
fn is_in_view(world: &World, node: &str, storage: &str) -> bool {
    let status = world.run(&["status", "--node", node, "--json"]).out;
    status.contains(&format!("storage {storage}")) && status.contains("in view")
}

#[test]
fn orders_go_on_without_one_of_three_acceptors_and_it_comes_back() {
    ["memory", "async", "sync"].into_iter().for_each(one_of_three_comes_back);
}

fn one_of_three_comes_back(storage: &str) {
    let world = World::new();
    let daemon =
        |world: &World, node: &str| world.daemon(&[&PAXOS[..], &["--storage", storage, "--node", node]].concat());
    let mut daemons: Vec<_> = ["1", "2", "3"].iter().map(|node| daemon(&world, node)).collect();
    let mut receivers = ["2", "3"].map(|node| receive(&world, node, "end"));
    receivers.iter_mut().for_each(|receiver| drop(receiver.says("2 members")));
    send(&world, "1", &["one", "two"]);
    daemons[0].kill();
    send(&world, "2", &["three"]);
    send(&world, "3", &["four"]);
    daemons[0] = daemon(&world, "1");
    wait_until("node 1 is back", || is_in_view(&world, "1", storage));
    daemons[1].signal(Signal::STOP);
    send(&world, "1", &["five"]);
    daemons[1].signal(Signal::CONT);
    send(&world, "3", &["end"]);
    let [two, three] = receivers.each_mut().map(Running::wait);
    assert_eq!((two.code, three.code), (0, 0), "{} {}", two.errors, three.errors);
    assert_eq!(two.out, "one\ntwo\nthree\nfour\nfive\nend\n");
    assert_eq!(two.out, three.out);
}

#[test]
fn a_minority_orders_nothing_until_it_is_one_no_more() {
    let world = World::new();
    let daemons: Vec<_> = ["1", "2", "3"].iter().map(|node| daemon(&world, node)).collect();
    let mut receiver = receive(&world, "1", "end");
    receiver.says("1 member");
    send(&world, "1", &["before"]);
    daemons[1..].iter().for_each(|daemon| daemon.signal(Signal::STOP));
    let alone = world.run(&["send", "--node", "1", "--timeout", "3s", "alone"]);
    assert_eq!(alone.code, 5, "{}", alone.errors);
    daemons[1..].iter().for_each(|daemon| daemon.signal(Signal::CONT));
    send(&world, "2", &["end"]);
    let out = receiver.wait().out;
    // What the lone node was given may be ordered once a majority is back, but never lost within the order or doubled.
    assert!(["before\nend\n", "before\nalone\nend\n"].contains(&out.as_str()), "{out}");
}

#[test]
fn one_of_three_that_starts_alone_orders_nothing() {
    let world = World::new();
    let _alone = daemon(&world, "1");
    let sent = world.run(&["send", "--timeout", "2s", "hello"]);
    assert_eq!(sent.code, 5, "{}", sent.errors);
    let _others = ["2", "3"].map(|node| daemon(&world, node));
    send(&world, "3", &["hello"]);
}

#[test]
fn who_missed_what_the_others_have_let_go_of_starts_anew_and_its_clients_are_told() {
    let world = World::new();
    let ports = [1, 2, 3, 4].map(|_| support::free_port());
    let node = |(id, port)| format!("\n[[node]]\nid = {id}\naddress = \"127.0.0.1:{port}\"\n");
    let nodes: String = (1..).zip(ports).map(node).collect();
    let paxos = "[paxos]\nacceptors = [1, 2, 3]\nstorage = \"memory\"\nretain = 1_048_576\n";
    let file =
        world.write("four.toml", &format!("cluster = \"{}\"\nprotocol = \"paxos\"\n\n{paxos}{nodes}", world.cluster));
    let daemon = |node| world.daemon_as(&["daemon", "--config", &file, "--node", node]);
    let daemons = ["1", "2", "3", "4"].map(daemon);
    let mut receiver = receive(&world, "4", "end");
    receiver.says("1 member");
    send(&world, "1", &["before"]);
    daemons[3].signal(Signal::STOP);
    let is_out = || {
        let said = world.run(&["status", "--node", "1", "--json"]).out;
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        said[0]["status"]["members"].as_str().unwrap().split_whitespace().count() == 3
    };
    wait_until("node 4 is out of the view", is_out);
    let long = "x".repeat(1_000);
    send(&world, "1", &["--count", "20000", "--quiet", &long]);
    daemons[3].signal(Signal::CONT);
    // Chaos reads this in the logs of its daemons.
    daemons[3].says(": starts anew cause=");
    let ran = receiver.wait();
    assert!(ran.code != 0 && ran.errors.contains("the daemon starts anew: the other nodes retain"), "{}", ran.errors);
    wait_until("node 4 is back", || is_in_view(&world, "4", "memory"));
    send(&world, "4", &["after"]);
}
