//! Real daemons and the directory of their files: one owner, one identity, and copies that do not pass for the newest.

use crate::support::{Daemon, World, wait_until};
use std::path::{Path, PathBuf};
use std::process::Command;

const PAXOS: [&str; 6] = ["--nodes", "3", "--protocol", "paxos", "--storage", "sync"];

fn daemon(world: &World, node: &str) -> Daemon {
    let home = home(world, node);
    world.daemon(&[&PAXOS[..], &["--node", node, "--state-dir", home.to_str().unwrap()]].concat())
}

fn home(world: &World, node: &str) -> PathBuf {
    world.path(&format!("home-{node}"))
}

fn votes(world: &World, node: &str) -> PathBuf {
    home(world, node).join(&world.cluster).join(format!("node-{node}.votes"))
}

/// Runs a daemon that is to be refused.
fn refused(world: &World, node: &str, home: &Path, runtime: Option<&str>) -> String {
    let words = ["daemon", "--cluster", &world.cluster, "--node", node, "--state-dir", home.to_str().unwrap()];
    let mut command = world.command(&[&words[..], &PAXOS].concat());
    if let Some(runtime) = runtime {
        command.env("CONSORT_RUNTIME_DIR", world.path(runtime));
    }
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(1), "{said}");
    said
}

fn send(world: &World, node: &str, text: &str) {
    let ran = world.run(&["send", "--node", node, "--timeout", "50s", text]);
    assert_eq!(ran.code, 0, "{}", ran.errors);
}

fn read(world: &World, node: &str, until: &str) -> Vec<String> {
    let ran = world.run(&["receive", "--node", node, "--from", "0", "--until", until, "--timeout", "55s"]);
    assert_eq!(ran.code, 0, "{}", ran.errors);
    ran.out.lines().map(str::to_owned).collect()
}

/// Whether a node is in a view of the log, and votes.
fn is_back(world: &World, node: &str) -> bool {
    let status = world.run(&["status", "--node", node, "--json"]).out;
    status.contains("in view") && status.contains("acceptor, ")
}

/// Copies a directory as an operator does.
fn copy(from: &Path, to: &Path) {
    let ran = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(ran.success());
}

/// Name, number, length and time of each file.
fn files(directory: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let of = |entry: std::fs::DirEntry| {
        let about = entry.metadata().unwrap();
        format!("{:?} {} {} {:?}", entry.file_name(), about.ino(), about.len(), about.modified().unwrap())
    };
    let mut all: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| of(entry.unwrap())).collect();
    all.sort();
    all
}

#[test]
fn a_second_daemon_on_one_directory_is_refused() {
    let world = World::new();
    let mut daemons = ["1", "2", "3"].map(|node| daemon(&world, node));
    send(&world, "1", "one");
    let (home, directory) = (home(&world, "1"), votes(&world, "1"));
    wait_until("the disk is idle", || {
        let before = files(&directory);
        std::thread::sleep(std::time::Duration::from_millis(300));
        before == files(&directory)
    });
    let before = files(&directory);
    let said = refused(&world, "1", &home, None);
    assert!(said.contains("runs on this machine already"), "the same runtime directory: {said}");
    let said = refused(&world, "1", &home, Some("elsewhere"));
    let owner = format!("are in use by process {} on host ", daemons[0].id());
    for part in ["the files of node 1 in", home.to_str().unwrap(), &owner, "end that daemon", "--state-dir"] {
        assert!(said.contains(part), "another runtime directory: {part}: {said}");
    }
    assert_eq!(files(&directory), before, "nothing is changed by the one refused");
    // The vote of the first one counts as before.
    daemons[2].kill();
    send(&world, "2", "two");
    daemons[0].kill();
    daemons[1].kill();
    daemons = ["1", "2", "3"].map(|node| daemon(&world, node));
    send(&world, "3", "three");
    assert_eq!(read(&world, "1", "three"), ["one", "two", "three"]);
    drop(daemons);
}

/// Runs a command in a separate network; what it says on standard error. None, with the reason printed, where this user may
/// not make one: that fails where `CONSORT_REQUIRE_NETNS` is 1.
fn run_in_another_network(command: &Command) -> Option<String> {
    let mut inside = Command::new("unshare");
    inside.args(["--net", "sh", "-c", "ip link set lo up && exec timeout 20 \"$0\" \"$@\""]);
    inside.arg(command.get_program()).args(command.get_args());
    inside.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let ran = inside.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    if said.starts_with("unshare:") {
        assert!(std::env::var_os("CONSORT_REQUIRE_NETNS").is_none_or(|wanted| wanted != "1"), "{said}");
        eprintln!("SKIPPED: no separate network: {said}");
        return None;
    }
    Some(said)
}

/// As in containers that share a volume: another network, in which all addresses are free.
#[test]
fn a_second_daemon_in_another_network_is_refused() {
    let world = World::new();
    let _daemons = ["1", "2", "3"].map(|node| daemon(&world, node));
    send(&world, "1", "one");
    let home = home(&world, "1");
    let words = ["daemon", "--cluster", &world.cluster, "--node", "1", "--state-dir", home.to_str().unwrap()];
    let mut inside = world.command(&[&words[..], &PAXOS].concat());
    inside.env("CONSORT_RUNTIME_DIR", world.path("elsewhere"));
    let Some(said) = run_in_another_network(&inside) else { return };
    assert!(said.contains("are in use by process"), "{said}");
    send(&world, "2", "two");
    assert_eq!(read(&world, "1", "two"), ["one", "two"]);
}

#[test]
fn votes_of_another_node_or_cluster_are_refused() {
    let world = World::new();
    let mut daemons = ["1", "2", "3"].map(|node| daemon(&world, node));
    send(&world, "1", "one");
    daemons[2].kill();
    std::fs::remove_dir_all(votes(&world, "3")).unwrap();
    copy(&votes(&world, "2"), &votes(&world, "3"));
    let said = refused(&world, "3", &home(&world, "3"), None);
    let cluster = &world.cluster;
    let both = format!("belong to node 2 of cluster `{cluster}`, and this daemon is node 3 of cluster `{cluster}`");
    assert!(said.contains(&both) && said.contains("--state-dir"), "{said}");
    // A directory that holds nothing of this node is one of a node that forgot.
    std::fs::remove_dir_all(home(&world, "3")).unwrap();
    copy(&home(&world, "2"), &home(&world, "3"));
    daemons[2] = daemon(&world, "3");
    wait_until("node 3 is back", || is_back(&world, "3"));
    daemons[0].kill();
    send(&world, "3", "two");
    assert_eq!(read(&world, "3", "two"), ["one", "two"]);

    let other = World::new();
    let home = home(&other, "1");
    let target = home.join(&other.cluster);
    std::fs::create_dir_all(&home).unwrap();
    copy(votes(&world, "1").parent().unwrap(), &target);
    let said = refused(&other, "1", &home, None);
    let both = format!("node 1 of cluster `{cluster}`, and this daemon is node 1 of cluster `{}`", other.cluster);
    assert!(said.contains(&both), "{said}");
}

#[test]
fn votes_put_back_from_a_backup_lose_nothing_acknowledged() {
    let world = World::new();
    let mut daemons = ["1", "2", "3"].map(|node| daemon(&world, node));
    send(&world, "2", "A");
    let (home, backup) = (home(&world, "1"), world.path("backup"));
    daemons[0].kill();
    copy(&home, &backup);
    // Nodes 1 and 2 acknowledge something that node 3 does not see.
    daemons[2].kill();
    daemons[0] = daemon(&world, "1");
    wait_until("node 1 is back", || is_back(&world, "1"));
    send(&world, "2", "B");
    daemons[0].kill();
    daemons[1].kill();
    std::fs::remove_dir_all(&home).unwrap();
    copy(&backup, &home);
    // Node 3 cannot know of it, so node 1 does not vote with it alone.
    (daemons[0], daemons[2]) = (daemon(&world, "1"), daemon(&world, "3"));
    let ran = world.run(&["send", "--node", "3", "--timeout", "4s", "C"]);
    assert_eq!(ran.code, 5, "only node 2 knows what it voted: {}", ran.errors);
    let said = daemons[0].says("the votes of this node are a copy");
    assert!(said.contains("start n2") && said.contains("consort adopt"), "{said}");
    for command in ["status", "explain"] {
        let ran = world.run(&[command, "--node", "1"]);
        assert!(ran.out.contains("the votes of this node are a copy"), "{command}: {}", ran.out);
    }
    daemons[1] = daemon(&world, "2");
    let said = daemons[0].says("starts anew");
    assert!(said.contains("put back from a copy") && said.contains("count as lost"), "{said}");
    wait_until("node 1 is back", || is_back(&world, "1"));
    send(&world, "1", "D");
    for node in ["1", "2", "3"] {
        let lines = read(&world, node, "D");
        assert!(lines.starts_with(&["A".into(), "B".into()]), "node {node}: {lines:?}");
    }
    drop(daemons);
}

#[test]
fn a_backup_put_back_under_writes_costs_nothing() {
    let world = World::new();
    let mut daemons = ["1", "2", "3"].map(|node| daemon(&world, node));
    send(&world, "2", "A");
    let (home, backup) = (home(&world, "1"), world.path("backup"));
    daemons[0].kill();
    copy(&home, &backup);
    daemons[0] = daemon(&world, "1");
    let mut writes = world.start(&["send", "--node", "2", "--count", "3000", "--quiet", "--timeout", "50s", "w"], None);
    wait_until("node 1 is back", || is_back(&world, "1"));
    daemons[0].kill();
    std::fs::remove_dir_all(&home).unwrap();
    copy(&backup, &home);
    daemons[0] = daemon(&world, "1");
    daemons[0].says("count as lost");
    let ran = writes.wait();
    assert_eq!(ran.code, 0, "{}", ran.errors);
    wait_until("node 1 is back", || is_back(&world, "1"));
    daemons[2].kill();
    send(&world, "1", "end");
    let (one, two) = (read(&world, "1", "end"), read(&world, "2", "end"));
    assert!(one == two && one.len() == 3_002, "{} and {} lines", one.len(), two.len());
}

#[test]
fn machines_replaced_one_and_all_go_on_and_an_operator_may_adopt() {
    let world = World::new();
    let nodes = ["1", "2", "3"];
    let daemons = nodes.map(|node| daemon(&world, node));
    send(&world, "2", "A");
    drop(daemons);
    for node in nodes {
        let (home, old) = (home(&world, node), world.path("old").join(node));
        std::fs::create_dir_all(world.path("old")).unwrap();
        std::fs::rename(&home, &old).unwrap();
        copy(&old, &home);
    }
    let mut daemons = nodes.map(|node| daemon(&world, node));
    send(&world, "2", "B");
    // One is gone for ever, and another one's disk is copied: only people know that the copy is the newest.
    daemons[0].kill();
    daemons[2].kill();
    let (home, old) = (home(&world, "1"), world.path("older"));
    std::fs::rename(&home, &old).unwrap();
    copy(&old, &home);
    let adopt = |more: &[&str]| {
        let words = ["adopt", "--cluster", &world.cluster, "--nodes", "3", "--node", "1", "--state-dir"];
        world.run(&[&words[..], &[home.to_str().unwrap()], more].concat())
    };
    let ran = adopt(&[]);
    assert!(ran.code == 0 && ran.out.contains("would adopt the votes of node 1"), "{} {}", ran.out, ran.errors);
    let ran = adopt(&["--yes"]);
    assert!(ran.code == 0 && ran.out.contains("from its next start on"), "{} {}", ran.out, ran.errors);
    daemons[0] = daemon(&world, "1");
    send(&world, "1", "C");
    assert_eq!(read(&world, "2", "C"), ["A", "B", "C"]);
    // What is no copy any more counts as it is.
    daemons[0].kill();
    for more in [&["--yes"][..], &[]] {
        let ran = adopt(more);
        assert!(ran.code == 1 && ran.errors.contains("there is nothing to adopt"), "{} {}", ran.out, ran.errors);
    }
}

/// A clock was an hour ahead when node 3 began, and is right now; the directory with its number is lost.
fn comes_back_with_a_smaller_number(options: &[&str]) {
    let world = World::new();
    let start = |node: &str| {
        let home = home(&world, node);
        world.daemon(&[&["--nodes", "3", "--node", node, "--state-dir", home.to_str().unwrap()], options].concat())
    };
    let ahead = std::time::UNIX_EPOCH.elapsed().unwrap() + std::time::Duration::from_secs(3_600);
    let place = home(&world, "3").join(&world.cluster);
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("node-3.incarnation"), ahead.as_micros().to_string()).unwrap();
    let mut daemons = ["1", "2", "3"].map(start);
    send(&world, "3", "before");
    daemons[2].kill();
    std::fs::remove_dir_all(home(&world, "3")).unwrap();
    daemons[2] = start("3");
    wait_until("all three are in one view", || {
        let answers: serde_json::Value =
            serde_json::from_str(&world.run(&["status", "--json"]).out).unwrap_or_default();
        let view = |node: usize| &answers[node]["status"]["view"];
        let members = answers[2]["status"]["members"].as_str().unwrap_or("").split_whitespace().count();
        members == 3 && view(0) == view(2) && view(1) == view(2)
    });
    send(&world, "3", "after");
    send(&world, "1", "and from another");
}

#[test]
fn a_node_that_comes_back_with_a_smaller_number_takes_part_with_votes_on_disk() {
    comes_back_with_a_smaller_number(&PAXOS[2..]);
}

#[test]
fn a_node_that_comes_back_with_a_smaller_number_takes_part_with_votes_in_memory() {
    comes_back_with_a_smaller_number(&["--protocol", "paxos", "--storage", "memory"]);
    comes_back_with_a_smaller_number(&["--protocol", "multiring-paxos"]);
}

#[test]
fn a_node_that_comes_back_with_a_smaller_number_takes_part_in_a_ring_and_in_trees() {
    for protocol in ["ring", "toto", "plato", "multiring"] {
        comes_back_with_a_smaller_number(&["--protocol", protocol]);
    }
}
