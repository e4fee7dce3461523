//! Real daemons that keep one order: what was said is read again by position, whoever was killed meanwhile.

#[allow(dead_code, reason = "its `main`")]
#[path = "../../../client/examples/replay.rs"]
mod replay;

use crate::support::{self, Daemon, Ran, World, wait_until};
use consort::{Address, Client, ConnectOptions, GroupName, ReadFrom};
use replay::Stock;
use std::time::Duration;

const PAXOS: [&str; 4] = ["--nodes", "3", "--protocol", "paxos"];

fn daemon(world: &World, node: &str) -> Daemon {
    world.daemon(&[&PAXOS[..], &["--node", node]].concat())
}

fn send(world: &World, node: &str, lines: impl Iterator<Item = u32>) {
    let lines: String = lines.map(|n| format!("{n}\n")).collect();
    let ran = world.run_with(&["send", "--node", node, "--timeout", "50s"], lines.as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.errors);
}

fn read(world: &World, node: &str, options: &[&str]) -> Ran {
    world.run(&[&["receive", "--node", node, "--timeout", "55s"], options].concat())
}

fn numbers(ran: &Ran) -> Vec<u32> {
    assert_eq!(ran.code, 0, "{}", ran.errors);
    ran.out.lines().map(|line| line.parse().unwrap()).collect()
}

fn is_in_view(world: &World, node: &str) -> bool {
    world.run(&["status", "--node", node, "--json"]).out.contains("in view")
}

#[test]
fn one_who_was_away_reads_every_line_once_and_then_those_that_come() {
    let world = World::new();
    let mut daemons: Vec<_> = ["1", "2", "3"].iter().map(|node| daemon(&world, node)).collect();
    send(&world, "1", 1..=400);
    daemons[0].kill();
    send(&world, "2", 401..=700);
    daemons[0] = daemon(&world, "1");
    wait_until("node 1 is back", || is_in_view(&world, "1"));
    daemons[2].kill();
    send(&world, "1", 701..=1_000);
    daemons[2] = daemon(&world, "3");
    wait_until("node 3 is back", || is_in_view(&world, "3"));
    let all: Vec<_> = (1..=1_000).collect();
    for (node, from) in [("1", "0"), ("2", "start"), ("3", "0")] {
        assert_eq!(numbers(&read(&world, node, &["--from", from, "--count", "1000"])), all, "at node {node}");
    }
    let live = world.start(&["receive", "--node", "3", "--from", "0", "--until", "1100", "--timeout", "55s"], None);
    let mut live = live;
    live.says("what follows is new");
    daemons[1].kill();
    send(&world, "3", 1_001..=1_100);
    assert_eq!(numbers(&live.wait()), (1..=1_100).collect::<Vec<_>>());
    let placed = read(&world, "1", &["--from", "0", "--count", "1100", "--positions"]);
    let place = |line: &str| line.split(' ').next().unwrap().to_owned();
    let places: Vec<_> = placed.out.lines().map(place).collect();
    assert_eq!(placed.out.lines().filter(|line| line.ends_with(": 900")).count(), 1, "{}", placed.errors);
    // Any place that was printed is one to read from, at another daemon.
    for at in [0, 399, 555, 1_099] {
        let count = (1_100 - at).to_string();
        let rest = read(&world, "3", &["--from", &places[at], "--count", &count]);
        assert_eq!(numbers(&rest), (at as u32 + 1..=1_100).collect::<Vec<_>>(), "from {}", places[at]);
    }
}

#[test]
fn a_checkpoint_goes_on_where_it_stood_at_another_daemon() {
    let world = World::new();
    let mut daemons: Vec<_> = ["1", "2", "3"].iter().map(|node| daemon(&world, node)).collect();
    send(&world, "1", 1..=50);
    let path = world.path("place");
    let path = path.to_str().unwrap();
    let first = read(&world, "1", &["--checkpoint", path, "--count", "20"]);
    assert_eq!(numbers(&first), (1..=20).collect::<Vec<_>>());
    daemons[0].kill();
    send(&world, "2", 51..=60);
    let rest = read(&world, "2", &["--checkpoint", path, "--until", "60"]);
    assert_eq!(numbers(&rest), (21..=60).collect::<Vec<_>>());
    // The order outlasts all daemons where disks keep it.
    drop(daemons);
    let _daemons: Vec<_> = ["1", "2", "3"].iter().map(|node| daemon(&world, node)).collect();
    send(&world, "1", 61..=63);
    let last = read(&world, "3", &["--checkpoint", path, "--count", "3"]);
    assert_eq!(numbers(&last), (61..=63).collect::<Vec<_>>());
}

#[test]
fn a_checkpoint_of_an_order_that_nobody_keeps_any_more_is_refused() {
    let world = World::new();
    let daemon = |node: &&str| world.daemon(&[&PAXOS[..], &["--storage", "memory", "--node", node]].concat());
    let daemons: Vec<_> = ["1", "2", "3"].iter().map(daemon).collect();
    send(&world, "1", 1..=50);
    let path = world.path("place");
    let path = path.to_str().unwrap();
    assert_eq!(numbers(&read(&world, "1", &["--checkpoint", path, "--until", "50"])).len(), 50);
    drop(daemons);
    let _daemons: Vec<_> = ["1", "2", "3"].iter().map(daemon).collect();
    send(&world, "1", 1..=60);
    let other = read(&world, "1", &["--checkpoint", path, "--count", "1"]);
    assert_eq!(other.code, 1);
    assert!(other.errors.contains("it was begun anew, with other messages; read from the start"), "{}", other.errors);
}

#[test]
fn what_cannot_be_read_is_refused_in_words() {
    let world = World::new();
    let _daemons: Vec<_> = ["1", "2", "3"].iter().map(|node| daemon(&world, node)).collect();
    send(&world, "1", 1..=3);
    let beyond = read(&world, "2", &["--from", "99999", "--count", "1"]);
    assert_eq!(beyond.code, 1);
    let text = "consort: cannot read: position 99999 is beyond the end: the newest message of this order is at ";
    assert!(beyond.errors.contains(text), "{}", beyond.errors);
    let ring = World::new();
    let _one = ring.daemon(&["--nodes", "1", "--node", "1"]);
    let elsewhere = read(&ring, "1", &["--from", "7"]);
    assert_eq!(elsewhere.code, 1);
    let text = "position 7 means nothing without its view: go on with a bookmark, or from the start";
    assert!(elsewhere.errors.contains(text), "{}", elsewhere.errors);
    let wrong = ring.run(&["receive", "--from", "yesterday"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.errors.contains("--from: `yesterday` does not fit; give start, or a position such as 1234"));
}

#[test]
fn events_as_objects_tell_position_and_incarnation() {
    let world = World::new();
    let _daemons: Vec<_> = ["1", "2", "3"].iter().map(|node| daemon(&world, node)).collect();
    let mut member = world.start(&["receive", "--node", "2", "--count", "1", "--json", "--timeout", "55s"], None);
    member.prints("group_view");
    send(&world, "1", 7..=7);
    let told = member.wait();
    let read = read(&world, "3", &["--from", "0", "--count", "1", "--json"]);
    let line = |ran: &Ran, event: &str| {
        let wanted = |line: &&str| line.contains(&format!("\"event\":\"{event}\""));
        serde_json::from_str::<serde_json::Value>(ran.out.lines().find(wanted).unwrap()).unwrap()
    };
    let (mut one, mut two) = (line(&told, "message"), line(&read, "read"));
    assert!(one["position"].as_u64().unwrap() > 0 && one["incarnation"].as_u64().unwrap() > 0, "{one}");
    (one["event"], two["event"]) = (0.into(), 0.into());
    assert_eq!(one, two, "a member and a reader are told the same");
    assert_eq!(line(&read, "reading")["oldest"], 1);
}

#[test]
fn the_replay_example_builds_its_list_from_what_was_said_before() {
    let world = World::new();
    let _daemons: Vec<_> = ["1", "2", "3"].iter().map(|node| daemon(&world, node)).collect();
    let ran = world.run(&["send", "--node", "1", "--group", "stock", "tea 5", "milk 2", "tea -1"]);
    assert_eq!(ran.code, 0, "{}", ran.errors);
    let client = Client::connect(&Address::Unix(world.socket_path(2)), &ConnectOptions::default()).unwrap();
    let mut stock = Stock::read(client, &GroupName::new("stock").unwrap(), ReadFrom::Start).unwrap();
    while !stock.is_current() {
        assert!(stock.step(Duration::from_secs(60)).unwrap());
    }
    let articles: Vec<_> = stock.articles().iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(articles, [("milk", 2), ("tea", 4)]);
    assert!(stock.bookmark().is_some());
}

#[test]
fn what_a_holder_lacks_is_retained_for_it_while_it_is_away_and_after_all_daemons_were_killed() {
    let world = World::new();
    let ports = [1, 2, 3].map(|_| support::free_port());
    let node = |(id, port)| format!("\n[[node]]\nid = {id}\naddress = \"127.0.0.1:{port}\"\n");
    let nodes: String = (1..).zip(ports).map(node).collect();
    let head = format!("cluster = \"{}\"\nprotocol = \"paxos\"\n\n[paxos]\nretain_for = \"1s\"\n", world.cluster);
    let file = world.write("three.toml", &(head + &nodes));
    let start = |node: &&str| world.daemon_as(&["daemon", "--config", &file, "--node", node]);
    let daemons: Vec<_> = ["1", "2", "3"].iter().map(start).collect();
    send(&world, "1", 1..=10);
    let path = world.path("place");
    let path = path.to_str().unwrap();
    let holder = ["--checkpoint", path, "--holder", "billing/1"];
    assert_eq!(numbers(&read(&world, "2", &[&holder[..], &["--count", "10"]].concat())), (1..=10).collect::<Vec<_>>());
    let holds = |node: &str| world.run(&["status", "--node", node, "--json"]).out.contains("billing/1 from ");
    ["1", "2", "3"].iter().for_each(|node| wait_until("it is declared", || holds(node)));
    send(&world, "3", 11..=20);
    drop(daemons);
    let _daemons: Vec<_> = ["1", "2", "3"].iter().map(start).collect();
    wait_until("node 3 is in a view", || is_in_view(&world, "3"));
    assert!(holds("3"), "a restart forgets nothing");
    // Longer than anything is retained for others.
    std::thread::sleep(Duration::from_secs(3));
    send(&world, "1", 21..=21);
    let rest = read(&world, "3", &[&holder[..], &["--until", "21"]].concat());
    assert_eq!(numbers(&rest), (11..=21).collect::<Vec<_>>());
    let withdrawn = world.run(&["withdraw", "billing/1", "--node", "1"]);
    assert_eq!((withdrawn.code, withdrawn.errors.as_str()), (0, ""));
    wait_until("nothing is held", || !holds("2"));
}

#[test]
fn a_holder_that_cannot_be_is_refused_in_words() {
    let world = World::new();
    let _daemon = world.daemon(&["--nodes", "1", "--node", "1"]);
    let path = world.path("place");
    let path = path.to_str().unwrap();
    let lonely = read(&world, "1", &["--holder", "billing"]);
    assert!(lonely.code == 2 && lonely.errors.contains("add --checkpoint FILE"), "{}", lonely.errors);
    let wrong = read(&world, "1", &["--checkpoint", path, "--holder", "a b"]);
    assert!(wrong.code == 2 && wrong.errors.contains("such as ledger or ledger/2"), "{}", wrong.errors);
    let refused = world.run(&["withdraw", "billing", "--node", "1"]);
    assert!(refused.code == 1 && refused.errors.contains("retains nothing for holders"), "{}", refused.errors);
}
