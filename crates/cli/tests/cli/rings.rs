//! Real daemons whose groups live on many rings: one merged order, whichever ring carries what.

use crate::cluster::{Cluster, PATIENCE, in_order_of_senders};
use crate::kv::{Server, call};
use crate::support::{World, free_port, wait_until};
use consort::{Address, Client, ConnectOptions, Event, GroupName, Service};
use consort_kv::Reply;
use std::thread::{self, JoinHandle};

/// Those with `a` live on ring 2, those with `b` on ring 3, and all others on ring 1, with what is for several rings.
const RINGS: &str =
    "[[ring]]\nid = 1\nglobal = true\n[[ring]]\nid = 2\ngroups = [\"a*\"]\n[[ring]]\nid = 3\ngroups = [\"b*\"]\n";
/// The same without a global ring.
const APART: &str = "[[ring]]\nid = 2\ngroups = [\"a*\"]\n[[ring]]\nid = 3\n";

/// How many messages each of six clients sends in one go.
const SOME: usize = 60;

fn groups(names: &[&str]) -> Vec<GroupName> {
    names.iter().map(|name| GroupName::new(name.as_bytes()).unwrap()).collect()
}

fn connect(address: &Address) -> Client {
    Client::connect(address, &ConnectOptions::default()).unwrap()
}

/// The messages that a client in these groups is told, up to the word `end`, or until its daemon is killed.
fn collect(address: &Address, names: &[&str]) -> JoinHandle<Vec<String>> {
    let mut client = connect(address);
    let me = client.welcome().name.to_string();
    let names: Vec<_> = groups(names);
    for name in &names {
        client.join(name).unwrap();
    }
    let mut views = 0;
    while views < names.len() {
        views += usize::from(matches!(client.receive(PATIENCE).unwrap(), Some(Event::GroupView(_))));
    }
    thread::spawn(move || {
        let mut all = Vec::new();
        loop {
            match client.receive(PATIENCE) {
                Ok(Some(Event::Message(message))) => {
                    let text = String::from_utf8(message.payload().to_vec()).unwrap();
                    if text == "end" {
                        return all;
                    }
                    all.push(text);
                }
                Ok(Some(_)) => {}
                Ok(None) => panic!("{me} is told nothing more behind {:?}", all.last()),
                Err(_) => return all,
            }
        }
    })
}

/// Sends so many messages as this client, to these groups, and waits until all have their place.
fn say(address: &Address, who: &str, names: &[&str], count: usize) {
    let (mut client, groups) = (connect(address), groups(names));
    for number in 1..=count {
        let text = format!("{who} {number}");
        client.multicast_within(Service::Agreed, &groups, text.as_bytes(), PATIENCE).unwrap();
    }
    client.wait_ordered(PATIENCE).unwrap();
}

/// At each of these daemons two clients send at once, one to each ring, and one to both.
fn all_speak(cluster: &Cluster, nodes: &[usize], round: &str) {
    let speak = |(node, names): (usize, &'static [&'static str])| {
        let (address, who) = (cluster.address(node), format!("{round} {}@{node}", names.join("+")));
        thread::spawn(move || say(&address, &who, names, SOME))
    };
    let kinds: [&[&str]; 3] = [&["a1"], &["b1"], &["a1", "b1"]];
    let all = nodes.iter().flat_map(|node| kinds.map(|names| (*node, names)));
    let speakers: Vec<_> = all.map(speak).collect();
    speakers.into_iter().for_each(|speaker| speaker.join().unwrap());
}

/// What of a sequence was sent to a group: speakers say in their names to which.
fn sent_to(all: &[String], group: &str) -> Vec<String> {
    all.iter().filter(|text| text.split_whitespace().nth(1).unwrap().contains(group)).cloned().collect()
}

#[test]
fn clients_of_two_rings_are_told_one_order_though_daemons_are_killed_and_come_back() {
    //= MP51 test
    //= MP59 test
    //= MP60 test
    let mut cluster = Cluster::with("multiring-paxos", RINGS);
    wait_until("all are in one view", || (0..3).all(|at| cluster.members(at) == 3));
    let [early, whole] = [0, 1].map(|at| collect(&cluster.address(at), &["a1", "b1"]));
    let single = ["a1", "b1"].map(|name| (name, collect(&cluster.address(1), &[name])));
    all_speak(&cluster, &[0, 1, 2], "first");
    cluster.kill(2);
    all_speak(&cluster, &[0, 1], "second");
    cluster.start(2);
    wait_until("node 3 is back", || (0..3).all(|at| cluster.members(at) == 3));
    let late = collect(&cluster.address(2), &["a1", "b1"]);
    all_speak(&cluster, &[0, 1, 2], "third");
    // The one that came back votes again: without it there is no majority now.
    cluster.kill(0);
    all_speak(&cluster, &[1, 2], "fourth");
    cluster.start(0);
    wait_until("node 1 is back", || (0..3).all(|at| cluster.members(at) == 3));
    let mut client = connect(&cluster.address(0));
    client.multicast_within(Service::Agreed, &groups(&["a1", "b1"]), b"end", PATIENCE).unwrap();
    client.wait_ordered(PATIENCE).unwrap();

    let [early, whole, late] = [early, whole, late].map(|told| told.join().unwrap());
    in_order_of_senders(&whole, SOME);
    assert_eq!(whole.len(), (3 + 2 + 3 + 2) * 3 * SOME);
    assert_eq!(early[..], whole[..early.len()], "whose daemon is killed was told the beginning");
    assert_eq!(late[..], whole[whole.len() - late.len()..], "who comes late is told the end");
    assert!(early.len() >= 8 * 3 * SOME - 3 * SOME && late.len() >= 5 * 3 * SOME);
    for (name, told) in single {
        assert_eq!(told.join().unwrap(), sent_to(&whole, name), "a member of {name} alone");
    }
}

#[test]
fn a_message_across_rings_is_refused_with_both_where_none_is_global() {
    //= MP60 test
    let cluster = Cluster::with("multiring-paxos", APART);
    let mut client = connect(&cluster.address(0));
    let [orders, a1] = [&groups(&["orders"])[0], &groups(&["a1"])[0]].map(Clone::clone);
    client.join(&a1).unwrap();
    let both = [a1.clone(), orders];
    let refused = client.multicast_within(Service::Agreed, &both, b"lost", PATIENCE).unwrap();
    client.multicast_within(Service::Agreed, &both[..1], b"kept", PATIENCE).unwrap();
    let mut told = Vec::new();
    while told.len() < 2 {
        match client.receive(PATIENCE).unwrap().expect("both are answered") {
            Event::Refused { send, refusal } => told.push(format!("{}: {refusal}", send == refused)),
            Event::Message(message) => told.push(String::from_utf8_lossy(message.payload()).into_owned()),
            _ => {}
        }
    }
    let text = "a1 is on ring 2 and orders on ring 3, and none is global: send to each by itself";
    assert!(told[0].starts_with("true: ") && told[0].contains(text) && told[1] == "kept", "{told:?}");
}

#[test]
fn each_ring_has_its_row_in_status_story_and_metrics() {
    let cluster = Cluster::with("multiring-paxos", &format!("{RINGS}[metrics]\nlisten = \"127.0.0.1:0\"\n"));
    wait_until("all are in one view", || (0..3).all(|at| cluster.members(at) == 3));
    say(&cluster.address(1), "somebody", &["b1"], 3);
    let (world, name) = (&cluster.world, cluster.world.cluster.clone());
    let told = world.run(&["status", "--cluster", &name, "--node", "2"]).out;
    let rows: Vec<_> = (1..=3).map(|ring| format!("{name} node 2 ring {ring}: ")).collect();
    assert!(rows.iter().all(|row| told.contains(row)), "{told}");
    assert!(told.contains("ring 1: views, merged ") && told.contains("storage memory"), "{told}");
    let story = world.run(&["explain", "--cluster", &name, "--node", "2"]).out;
    assert!(story.contains("\nRing 3: merged ") && story.contains("\nRing 1: views, merged "), "{story}");
    let status: serde_json::Value = serde_json::from_str(&cluster.status(1)).unwrap();
    let status = &status[0]["status"];
    assert_eq!((&status["protocol"], status["ring_open_instances_3"].is_number()), (&"multiring-paxos".into(), true));
    assert!(status["ring_instances_3"].as_u64() > Some(1) && status["merged_items"].as_u64() > Some(3), "{status}");
    let names = ["incarnation", "cluster", "configuration"];
    let unknown = status.as_object().unwrap().iter().find(|(key, told)| {
        !names.contains(&key.as_str()) && told.as_str().is_some_and(|told| told.parse::<u64>().is_ok())
    });
    assert_eq!(unknown, None, "every number is known to the metrics");
}

#[test]
fn a_ring_without_a_majority_holds_up_all_and_is_named() {
    let rings = "[[ring]]\nid = 1\nglobal = true\n[[ring]]\nid = 2\nacceptors = [3]\ngroups = [\"a*\"]\n";
    let mut cluster = Cluster::with("multiring-paxos", rings);
    wait_until("all are in one view", || (0..3).all(|at| cluster.members(at) == 3));
    say(&cluster.address(0), "before", &["a1"], 3);
    cluster.kill(2);
    let world = &cluster.world;
    let sent = world.run(&["send", "--cluster", &world.cluster, "--node", "1", "--group", "b", "--timeout", "2s", "x"]);
    assert_eq!(sent.code, 5, "{}", sent.errors);
    let told = world.run(&["status", "--cluster", &world.cluster, "--node", "1"]).out;
    assert!(told.contains("ring 2: 1 of 1 acceptors must run and vote, and 0 do: n3 does not answer"), "{told}");
    assert!(told.contains("ring 2: merged "), "{told}");
    assert!(told.contains(", others wait for it since "), "{told}");
}

/// Five daemons that read by groups. Nodes 1 to 3 keep the ring of the views and that of `eu.*`, nodes 3 to 5 that of `us.*`.
fn five_that_read_by_groups() -> Cluster {
    let world = World::new();
    let nodes = (1..=5).map(|id| format!("[[node]]\nid = {id}\naddress = \"127.0.0.1:{}\"\n", free_port()));
    let (nodes, head) = (nodes.collect::<String>(), format!("cluster = \"{}\"", world.cluster));
    let ring = |id: u16, acceptors: &str, more: &str| format!("[[ring]]\nid = {id}\nacceptors = {acceptors}\n{more}\n");
    let rings = [
        ring(1, "[1, 2, 3]", "global = true"),
        ring(2, "[1, 2, 3]", "groups = [\"eu.*\"]"),
        ring(3, "[3, 4, 5]", "groups = [\"us.*\"]"),
    ];
    let text = format!(
        "{head}\nprotocol = \"multiring-paxos\"\nmulticast = \"239.192.1.7:{}\"\n[sessions]\nretain = 0\n\
         [paxos]\nreads = \"groups\"\n{nodes}{}",
        free_port(),
        rings.concat()
    );
    let cluster = Cluster::out_of(world, &text, 5);
    wait_until("all are in one view", || (0..5).all(|at| cluster.members(at) == 5));
    cluster
}

/// Receives messages until this one.
fn receives(client: &mut Client, wanted: &str) {
    loop {
        match client.receive(PATIENCE).unwrap_or_else(|error| panic!("{wanted}: {error}")) {
            Some(Event::Message(message)) if message.payload() == wanted.as_bytes() => return,
            Some(_) => {}
            None => panic!("{wanted} does not come"),
        }
    }
}

fn member_of(address: &Address, group: &str) -> Client {
    let mut client = connect(address);
    client.join(&groups(&[group])[0]).unwrap();
    while !matches!(client.receive(PATIENCE).unwrap(), Some(Event::GroupView(_))) {}
    client
}

#[test]
fn a_ring_without_a_majority_holds_up_only_its_readers() {
    //= MP79 test
    //= MP80 test
    let mut cluster = five_that_read_by_groups();
    let mut eu = member_of(&cluster.address(0), "eu.a");
    let mut us = member_of(&cluster.address(2), "us.a");
    say(&cluster.address(1), "before", &["eu.a"], 1);
    say(&cluster.address(4), "before", &["us.a"], 1);
    // So node 1 reads that ring for a while, too.
    say(&cluster.address(0), "here", &["us.a"], 1);
    receives(&mut eu, "before 1");
    receives(&mut us, "before 1");
    // A store whose groups are on the ring of all goes on, too.
    let server = Server::start(&cluster, 0, &["--founders", "1"]).ready();
    let mut store = server.connect();
    // While the daemons agree on who is there, nothing is done, and a client tries again.
    let mut set = |value: &str| {
        wait_until("the store takes a value", || call(&mut store, &format!("SET tea {value}")) == Reply::Simple("OK"));
    };
    set("before");
    [3, 4].into_iter().for_each(|at| cluster.kill(at));
    set("unnoticed");
    cluster.end(1);
    cluster.start(1);
    let name = cluster.world.cluster.clone();
    let send = |cluster: &Cluster, words: &[&str]| {
        let words: Vec<_> = ["send", "--cluster", &name].into_iter().chain(words.iter().copied()).collect();
        cluster.world.run(&words)
    };
    for node in ["1", "2"] {
        let sent = send(&cluster, &["--node", node, "--group", "eu.a", "--timeout", "8s", &format!("without {node}")]);
        assert_eq!(sent.code, 0, "{}", sent.errors);
        receives(&mut eu, &format!("without {node}"));
    }
    set("meanwhile");
    let others = cluster.world.run(&["explain", "--cluster", &name, "--node", "1"]).out;
    assert!(others.contains("n3 waited for a ring that decides nothing"), "{others}");
    // Who reads the ring says what it lacks, and so does one that is to read it.
    let told = |cluster: &Cluster, command: &str, node: &str| {
        cluster.world.run(&[command, "--cluster", &name, "--node", node]).out
    };
    let lacks = "ring 3: 2 of 3 acceptors must run and vote, and 1 does: n4 n5 do not answer";
    let explained = told(&cluster, "explain", "3");
    assert!(explained.contains(lacks) && explained.contains("not in the view of the others"), "{explained}");
    assert!(told(&cluster, "status", "3").contains(lacks), "{}", told(&cluster, "status", "3"));
    let sent = send(&cluster, &["--node", "1", "--group", "us.b", "--timeout", "2s", "lost"]);
    assert_eq!(sent.code, 5, "{}", sent.errors);
    assert!(sent.errors.contains("ring 3 has no majority"), "{}", sent.errors);
    cluster.start(3);
    let needed = "n5 does not answer; n4 has lost its votes";
    wait_until("what is needed still is said", || told(&cluster, "explain", "3").contains(needed));
    cluster.start(4);
    wait_until("all are in one view", || (0..5).all(|at| cluster.members(at) == 5));
    say(&cluster.address(0), "after", &["us.a"], 1);
    // Node 1 has handed out nothing of the ring that is lost: its clients are where they were.
    say(&cluster.address(4), "after", &["eu.a"], 1);
    receives(&mut eu, "after 1");
    set("after");
}
