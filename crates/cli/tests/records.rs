//! Real daemons and the disks that keep their votes: full ones, and settings that would forget what they hold.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "tests")]

mod support;
use consort_testbed::SmallDisk;
use std::path::{Path, PathBuf};
use support::{Daemon, World, wait_until};

const PAXOS: [&str; 4] = ["--nodes", "3", "--protocol", "paxos"];

fn daemon(world: &World, node: &str, more: &[&str]) -> Daemon {
    world.daemon(&[&PAXOS[..], &["--node", node], more].concat())
}

fn send(world: &World, node: &str, options: &[&str]) {
    let ran = world.run(&[&["send", "--node", node, "--timeout", "50s"], options].concat());
    assert_eq!(ran.code, 0, "{}", ran.errors);
}

/// All lines of the order, as a node retains them.
fn read(world: &World, node: &str, until: &str) -> Vec<String> {
    let ran = world.run(&["receive", "--node", node, "--from", "0", "--until", until, "--timeout", "55s"]);
    assert_eq!(ran.code, 0, "{}", ran.errors);
    ran.out.lines().map(str::to_owned).collect()
}

fn is_in_view(world: &World, node: &str) -> bool {
    world.run(&["status", "--node", node, "--json"]).out.contains("in view")
}

/// The directory of a node's votes, somewhere below.
fn votes(below: &Path) -> Option<PathBuf> {
    let inside = std::fs::read_dir(below).ok()?.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    inside.into_iter().find_map(|path| {
        let is_it = path.file_name().unwrap().to_str().unwrap().ends_with(".votes");
        if is_it { Some(path) } else { votes(&path) }
    })
}

//= X04 test
#[test]
fn a_daemon_whose_disk_is_full_says_so_and_is_right_once_it_has_room() {
    for storage in ["sync", "async"] {
        let world = World::new();
        let home = world.path("small");
        let Some(disk) = SmallDisk::mount_for_test(&home, 2 << 20) else { return };
        let storage = ["--storage", storage];
        let small = [&storage[..], &["--state-dir", home.to_str().unwrap()]].concat();
        let mut daemons = [daemon(&world, "1", &storage), daemon(&world, "2", &storage), daemon(&world, "3", &small)];
        wait_until("node 3 is in a view", || is_in_view(&world, "3"));
        send(&world, "1", &["first"]);
        send(&world, "1", &["--count", "4000", "--quiet", &"x".repeat(1_000)]);
        let (code, log) = daemons[2].wait();
        let directory = votes(&home).unwrap();
        let said = format!("cannot write to the records in {}: ", directory.display());
        assert!(code == 1 && log.contains(&said), "{code}: {log}");
        assert!(log.contains("free some space and start again"), "{log}");
        // The other two go on, and it has no more room than before.
        send(&world, "2", &["second"]);
        let again =
            world.run(&[&["daemon", "--cluster", &world.cluster], &PAXOS[..], &["--node", "3"], &small].concat());
        assert!(again.code != 0 && again.errors.contains(home.to_str().unwrap()), "{}", again.errors);
        disk.resize(256 << 20).unwrap();
        daemons[2] = daemon(&world, "3", &small);
        wait_until("node 3 is back", || is_in_view(&world, "3"));
        // Its vote is needed now.
        daemons[0].kill();
        send(&world, "3", &["end"]);
        let (two, three) = (read(&world, "2", "end"), read(&world, "3", "end"));
        assert!(two == three && two.len() == 4_003, "{} and {} lines", two.len(), three.len());
        assert_eq!((&two[0][..], &two[4_001][..]), ("first", "second"));
        drop(daemons);
    }
}

#[test]
fn votes_that_stand_on_disk_are_not_passed_over_in_memory() {
    let world = World::new();
    let daemons = ["1", "2", "3"].map(|node| daemon(&world, node, &["--storage", "sync"]));
    send(&world, "1", &["one"]);
    drop(daemons);
    let start = |storage: &str| {
        let words = [&["daemon", "--cluster", &world.cluster], &PAXOS[..], &["--node", "1", "--storage", storage]];
        world.run(&words.concat())
    };
    let ran = start("memory");
    let directory = votes(&world.path("state")).unwrap();
    assert_eq!(ran.code, 2, "{}", ran.errors);
    assert!(ran.errors.contains("storage = \"memory\" would forget the votes in"), "{}", ran.errors);
    assert!(ran.errors.contains("set it to what they were kept with, or move the directory away"), "{}", ran.errors);
    assert!(ran.errors.contains("node-1.votes") && directory.exists(), "{}", ran.errors);
    let ran = start("async");
    assert!(ran.code != 0 && ran.errors.contains("were kept with storage = \"sync\""), "{}", ran.errors);
    // With the setting that they were kept with, nothing is forgotten.
    let _daemons = ["1", "2", "3"].map(|node| daemon(&world, node, &["--storage", "sync"]));
    send(&world, "2", &["two"]);
    assert_eq!(read(&world, "1", "two"), ["one", "two"]);
}
