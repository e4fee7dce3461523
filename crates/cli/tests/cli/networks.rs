//! Real daemons in two networks that one of them joins: one order over both, each side alone while the joining one is gone.

use crate::cluster::{Cluster, PATIENCE, collect, group, in_order_of_senders};
use crate::support::{World, free_port, wait_until};
use consort::{Address, Client, ConnectOptions, Service};
use std::thread;

/// How many messages each client sends in one go.
const SOME: usize = 60;
/// The place of the daemon that stands in both networks.
const GATEWAY: usize = 2;

/// Nodes 1 to 3 stand in network 1, nodes 3 to 5 in network 2.
fn file(cluster: &str, more: &str) -> String {
    let node = |(id, host): (u16, &str)| {
        let port = free_port();
        format!("[[network.node]]\nid = {id}\naddress = \"{host}:{port}\"\ninterface = \"127.0.0.1\"\n")
    };
    let network = |id: u16, host: &'static str| {
        let (first, group) = (2 * id - 1, free_port());
        let nodes: String = (first..first + 3).map(|id| node((id, host))).collect();
        format!("[[network]]\nid = {id}\nmulticast = \"239.192.1.{id}:{group}\"\n{nodes}")
    };
    let head = format!("cluster = \"{cluster}\"\nprotocol = \"multiring\"\n{more}");
    head + &network(1, "127.0.0.1") + &network(2, "127.0.0.2")
}

fn start(more: &str) -> Cluster {
    let world = World::new();
    let text = file(&world.cluster, more);
    let cluster = Cluster::out_of(world, &text, 5);
    wait_until("all are in one view", || (0..5).all(|at| cluster.members(at) == 5));
    cluster
}

/// Sends so many messages, every other one safe, and waits until all have their place.
fn say(address: &Address, who: &str, count: usize) {
    let mut client = Client::connect(address, &ConnectOptions::default()).unwrap();
    for number in 1..=count {
        let service = if number % 2 == 0 { Service::Safe } else { Service::Agreed };
        let text = format!("{who} {number}");
        client.multicast_within(service, &[group()], text.as_bytes(), PATIENCE).unwrap();
    }
    client.wait_ordered(PATIENCE).unwrap();
}

/// Clients at these daemons send at once.
fn all_speak(cluster: &Cluster, nodes: &[usize], round: &str) {
    let speak = |node: &usize| {
        let (address, who) = (cluster.address(*node), format!("{round} {node}"));
        thread::spawn(move || say(&address, &who, SOME))
    };
    let speakers: Vec<_> = nodes.iter().map(speak).collect();
    speakers.into_iter().for_each(|speaker| speaker.join().unwrap());
}

fn end(cluster: &Cluster) {
    let mut client = Client::connect(&cluster.address(0), &ConnectOptions::default()).unwrap();
    client.multicast_within(Service::Agreed, &[group()], b"end", PATIENCE).unwrap();
    client.wait_ordered(PATIENCE).unwrap();
}

/// What of a sequence was sent in these rounds.
fn of_rounds(all: &[String], rounds: &[&str]) -> Vec<String> {
    let is_of = |text: &&String| rounds.contains(&text.split_whitespace().next().unwrap());
    all.iter().filter(is_of).cloned().collect()
}

#[test]
fn two_rings_have_one_order_and_each_goes_on_alone_while_the_node_between_them_is_gone() {
    //= TM05 test
    //= TM12 test
    //= TM33 test
    let mut cluster = start("");
    let told = [0, 1, 3, 4].map(|at| collect(&cluster.address(at)));
    all_speak(&cluster, &[0, GATEWAY, 3, 4], "first");
    cluster.kill(GATEWAY);
    wait_until("each side is alone", || [0, 1, 3, 4].iter().all(|at| cluster.members(*at) == 2));
    all_speak(&cluster, &[0, 1], "near");
    all_speak(&cluster, &[3, 4], "far");
    cluster.start(GATEWAY);
    wait_until("all are in one view again", || (0..5).all(|at| cluster.members(at) == 5));
    all_speak(&cluster, &[1, GATEWAY, 4], "last");
    end(&cluster);

    let [one, two, four, five] = told.map(|told| told.join().unwrap());
    assert_eq!((&one, &four), (&two, &five), "both sides");
    assert_eq!(one.len(), (4 + 2 + 3) * SOME);
    let common = ["first", "last"];
    assert_eq!(of_rounds(&one, &common), of_rounds(&four, &common), "one order over both");
    assert_eq!((of_rounds(&one, &["far"]), of_rounds(&four, &["near"])), (vec![], vec![]));
    for told in [&one, &four] {
        in_order_of_senders(told, SOME);
    }
}

#[test]
fn each_daemon_tells_of_its_networks_and_of_the_rings_behind_others() {
    let cluster = start("[metrics]\nlisten = \"127.0.0.1:0\"\n");
    say(&cluster.address(0), "somebody", 3);
    let (world, name) = (&cluster.world, cluster.world.cluster.clone());
    let told = |command: &str, node: &str| world.run(&[command, "--cluster", &name, "--node", node]).out;
    let near = told("status", "1");
    assert!(near.contains(&format!("{name} node 1 ring 1: open, reached ")), "{near}");
    assert!(near.contains(&format!("{name} node 1 ring 2: behind n3, reached ")), "{near}");
    assert!(told("status", "3").contains(&format!("{name} node 3 ring 2: open, reached ")));
    assert!(told("explain", "5").contains("\nRing 1: behind n3, reached "));
    assert_eq!(told("status", "3").matches("; sends on into it everything\n").count(), 2, "daemons keep messages");
    assert!(!near.contains("sends on"), "{near}");
    let status: serde_json::Value = serde_json::from_str(&cluster.status(GATEWAY)).unwrap();
    let status = &status[0]["status"];
    assert_eq!((&status["protocol"], status["ring_horizon_2"].is_number()), (&"multiring".into(), true));
    for key in ["network_1", "network_2"] {
        let how = status[key].as_str().unwrap();
        assert!(how.starts_with("multicast 239.192.1.") || how.starts_with("unicast: "), "{how}");
    }
    let names = ["incarnation", "cluster", "configuration"];
    let unknown = status.as_object().unwrap().iter().find(|(key, told)| {
        !names.contains(&key.as_str()) && told.as_str().is_some_and(|told| told.parse::<u64>().is_ok())
    });
    assert_eq!(unknown, None, "every number is known to the metrics");
    assert!(status["forwarded"].as_u64() > Some(2), "{status}");
}

#[test]
fn daemons_that_keep_no_messages_are_sent_what_their_clients_read() {
    //= TM50 test
    //= TM54 test
    let cluster = start("[sessions]\nretain = 0\n");
    say(&cluster.address(0), "unread", SOME);
    let told = collect(&cluster.address(4));
    all_speak(&cluster, &[0, 3], "read");
    end(&cluster);
    let told = told.join().unwrap();
    assert_eq!((of_rounds(&told, &["read"]).len(), told.len()), (2 * SOME, 2 * SOME));
    in_order_of_senders(&told, SOME);
    let counted = |at: usize, name: &str| {
        let status: serde_json::Value = serde_json::from_str(&cluster.status(at)).unwrap();
        status[0]["status"][name].as_u64().unwrap()
    };
    assert!(counted(GATEWAY, "filtered") >= SOME as u64 && counted(4, "passed") >= SOME as u64);
    let mut reader = Client::connect(&cluster.address(4), &ConnectOptions::default()).unwrap();
    reader.join(&group()).unwrap();
    let (world, name) = (&cluster.world, cluster.world.cluster.clone());
    let sends_on = || world.run(&["status", "--cluster", &name, "--node", "3"]).out;
    let wanted = format!("; sends on into it what is for all, and groups {}\n", group());
    wait_until("the gateway tells what it sends on", || sends_on().contains(&wanted));
    assert!(sends_on().contains("; sends on into it only what is for all\n"), "nobody else reads: {}", sends_on());
}

#[test]
fn networks_are_sealed_as_one_is() {
    let world = World::new();
    let key = world.path("key").display().to_string();
    assert_eq!(world.run(&["keygen", &key]).code, 0);
    let text = file(&world.cluster, "") + &format!("[security]\nkey = \"{key}\"\n");
    let cluster = Cluster::out_of(world, &text, 5);
    wait_until("all are in one view", || (0..5).all(|at| cluster.members(at) == 5));
    let told = [0, 4].map(|at| collect(&cluster.address(at)));
    all_speak(&cluster, &[0, 4], "sealed");
    end(&cluster);
    let [near, far] = told.map(|told| told.join().unwrap());
    assert_eq!((&near, near.len()), (&far, 2 * SOME));
    assert!(cluster.status(GATEWAY).contains("4 of 4 other nodes have proven their key"));
    assert!(cluster.status(0).contains("2 of 2 other nodes have proven their key"));
}

#[test]
fn without_a_file_the_node_in_the_middle_of_three_joins_two_networks() {
    let world = World::new();
    let _daemons = world.daemons(3, &["--protocol", "multiring"]);
    let told = || world.run(&["status", "--cluster", &world.cluster]).out;
    wait_until("all are in one view", || told().matches(", reached ").count() == 6);
    assert!(told().contains("node 1 ring 2: behind n2"), "{}", told());
}

#[test]
fn a_gateway_that_is_killed_is_replaced_by_one_that_stands_by_and_nothing_is_lost() {
    //= TM33 test
    //= TM61 test
    let world = World::new();
    // Node 2 stands in both networks as node 3 does: it has the lower number, so node 3 stands by.
    let text = file(&world.cluster, "")
        + &format!("[[network.node]]\nid = 2\naddress = \"127.0.0.2:{}\"\ninterface = \"127.0.0.1\"\n", free_port());
    let mut cluster = Cluster::out_of(world, &text, 5);
    wait_until("all are in one view", || (0..5).all(|at| cluster.members(at) == 5));
    assert!(cluster.status(GATEWAY).contains("stands by"), "{}", cluster.status(GATEWAY));
    let told = [0, 2, 3, 4].map(|at| collect(&cluster.address(at)));
    let speakers: Vec<_> = [0, 2, 4].into_iter().map(|at| (at, cluster.address(at))).collect();
    let speakers: Vec<_> = speakers
        .into_iter()
        .map(|(at, address)| thread::spawn(move || say(&address, &format!("on {at}"), 20 * SOME)))
        .collect();
    thread::sleep(std::time::Duration::from_millis(50));
    cluster.kill(1);
    speakers.into_iter().for_each(|speaker| speaker.join().unwrap());
    wait_until("the others are in one view", || [0, 2, 3, 4].iter().all(|at| cluster.members(*at) == 4));
    end(&cluster);
    let told = told.map(|told| told.join().unwrap());
    assert!(told.iter().all(|other| *other == told[0]), "one sequence on both sides");
    assert_eq!(told[0].len(), 3 * 20 * SOME, "nothing is lost, and nothing comes twice");
    in_order_of_senders(&told[0], 20 * SOME);
    assert!(!cluster.status(GATEWAY).contains("stands by"), "{}", cluster.status(GATEWAY));
}
