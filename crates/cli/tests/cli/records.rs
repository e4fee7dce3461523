//! Real daemons and the disks that keep their votes: full ones, and settings that would forget what they hold.

use crate::support::{self, Daemon, World, wait_until};
use consort_testbed::SmallDisk;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

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
fn a_full_disk_is_named_and_the_daemon_goes_on_once_it_has_room() {
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
        // It says so, goes on as one that reads, and the other two order without its votes.
        let said = daemons[2].says("takes nothing for");
        let directory = votes(&home).unwrap();
        assert!(said.contains(directory.to_str().unwrap()) && said.contains("No space left on device"), "{said}");
        assert!(said.contains("votes for nothing meanwhile; free some space, and it goes on"), "{said}");
        wait_until("status says it", || world.run(&["status", "--node", "3"]).out.contains("takes nothing for"));
        let ran = world.run(&["explain", "--node", "3"]);
        assert!(ran.out.contains("Disk: ") && ran.out.contains("free some space"), "{}", ran.out);
        assert!(world.run(&["status", "--node", "3", "--json"]).out.contains("\"disk_refuses\":1"));
        send(&world, "3", &["second"]);
        disk.resize(256 << 20).unwrap();
        daemons[2].says("the disk takes records again");
        // Its vote is needed now.
        daemons[0].kill();
        send(&world, "3", &["end"]);
        let (two, three) = (read(&world, "2", "end"), read(&world, "3", "end"));
        assert!(two == three && two.len() == 4_003, "{} and {} lines", two.len(), three.len());
        assert_eq!((&two[0][..], &two[4_001][..]), ("first", "second"));
        drop(daemons);
    }
}

/// Changes how many files a daemon may open, or how long they may grow, as `prlimit` does.
fn limit(daemon: &Daemon, resource: Resource, most: Option<u64>) {
    let pid = Pid::from_raw(daemon.id() as i32);
    // The daemon has the hard limit of this process.
    let Rlimit { maximum, .. } = getrlimit(resource);
    prlimit(pid, resource, Rlimit { current: most, maximum }).unwrap();
}

//= X08 test
#[test]
fn no_daemon_ends_for_want_of_descriptors() {
    let world = World::new();
    let sync = ["--storage", "sync"];
    let daemons = ["1", "2", "3"].map(|node| daemon(&world, node, &sync));
    send(&world, "1", &["one"]);
    let mut sender = world.start(&["send", "--node", "2", "--quiet"], None);
    sender.tell("two\n");
    assert_eq!(read(&world, "2", "two"), ["one", "two"]);
    let mut idle = Vec::new();
    for (daemon, node) in daemons.iter().zip(1..) {
        let open = std::fs::read_dir(format!("/proc/{}/fd", daemon.id())).unwrap().count() as u64;
        limit(daemon, Resource::Nofile, Some(open + 4));
        idle.extend((0..40).map_while(|_| UnixStream::connect(world.socket_path(node)).ok()));
    }
    // More than two segments.
    let line = format!("{}\n", "x".repeat(60_000));
    (0..320).for_each(|_| sender.tell(&line));
    sender.tell("end\n");
    sender.close_input();
    assert_eq!(sender.wait().code, 0);
    drop(idle);
    for daemon in &daemons {
        limit(daemon, Resource::Nofile, Some(1_024));
    }
    send(&world, "3", &["after"]);
    let [one, two] = ["1", "2"].map(|node| read(&world, node, "after"));
    assert!(one == two && one.len() == 324, "{} and {} lines", one.len(), two.len());
}

//= X08 test
#[test]
fn no_daemon_ends_where_its_files_may_not_grow() {
    let world = World::new();
    let sync = ["--storage", "sync"];
    let mut daemons = ["1", "2", "3"].map(|node| daemon(&world, node, &sync));
    send(&world, "1", &["one"]);
    // Shorter segments do as well.
    limit(&daemons[2], Resource::Fsize, Some(1 << 20));
    send(&world, "1", &["--count", "3000", "--quiet", &"x".repeat(1_000)]);
    // Now not even a record fits.
    limit(&daemons[2], Resource::Fsize, Some(40));
    send(&world, "1", &["--count", "100", "--quiet", &"y".repeat(1_000)]);
    let said = daemons[2].says("takes nothing for");
    assert!(said.contains("File too large") && said.contains("LimitFSIZE"), "{said}");
    limit(&daemons[2], Resource::Fsize, None);
    daemons[2].says("the disk takes records again");
    daemons[0].kill();
    send(&world, "3", &["end"]);
    let (two, three) = (read(&world, "2", "end"), read(&world, "3", "end"));
    assert!(two == three && two.len() == 3_102, "{} and {} lines", two.len(), three.len());
    daemons[2].kill();
    daemons[2] = daemon(&world, "3", &sync);
    wait_until("node 3 is back", || is_in_view(&world, "3"));
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
    assert!(ran.errors.contains("set it to what they were kept with, or give them up"), "{}", ran.errors);
    assert!(ran.errors.contains("node-1.votes") && directory.exists(), "{}", ran.errors);
    let ran = start("async");
    assert!(ran.code != 0 && ran.errors.contains("were kept with storage = \"sync\""), "{}", ran.errors);
    // With the setting that they were kept with, nothing is forgotten.
    let _daemons = ["1", "2", "3"].map(|node| daemon(&world, node, &["--storage", "sync"]));
    send(&world, "2", &["two"]);
    assert_eq!(read(&world, "1", "two"), ["one", "two"]);
}

fn abandon(world: &World, node: &str, more: &[&str]) -> support::Ran {
    world.run(&[&["abandon", "--cluster", &world.cluster, "--nodes", "3", "--node", node], more].concat())
}

//= X59 test
#[test]
fn acceptors_that_lost_their_majority_begin_another_order_when_told_to() {
    let world = World::new();
    let nodes = ["1", "2", "3"];
    let start = || nodes.map(|node| daemon(&world, node, &["--storage", "sync"]));
    let daemons = start();
    send(&world, "1", &["lost"]);
    let ran = abandon(&world, "3", &["--yes"]);
    assert!(ran.code == 1 && ran.errors.contains("node 3 of cluster"), "its daemon runs: {}", ran.errors);
    let elsewhere = world.path("elsewhere");
    let words = ["abandon", "--cluster", &world.cluster, "--node", "3", "--yes"];
    let ran = world.command(&words).env("CONSORT_RUNTIME_DIR", elsewhere).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("are in use by process") && said.contains("end that daemon"), "another lock: {said}");
    drop(daemons);
    let state = world.path("state");
    for node in ["1", "2"] {
        std::fs::remove_dir_all(votes(&state).unwrap().with_file_name(format!("node-{node}.votes"))).unwrap();
    }
    let daemons = start();
    let ran = world.run(&["send", "--node", "3", "--timeout", "3s", "nobody orders this"]);
    assert_eq!(ran.code, 5, "two of three acceptors forgot: {}", ran.errors);
    drop(daemons);
    let ran = abandon(&world, "3", &[]);
    assert!(ran.code == 0 && ran.out.contains("would move the votes of node 3 from"), "{} {}", ran.out, ran.errors);
    for node in nodes {
        let ran = abandon(&world, node, &["--yes"]);
        assert!(ran.code == 0 && ran.out.contains("begins without its votes"), "{} {}", ran.out, ran.errors);
        assert!(ran.out.contains(&format!("node-{node}.votes.abandoned-1")), "{}", ran.out);
    }
    let ran = abandon(&world, "1", &["--yes"]);
    assert!(ran.code == 1 && ran.errors.contains("has no votes in"), "{}", ran.errors);
    let _daemons = start();
    send(&world, "2", &["found"]);
    assert_eq!(read(&world, "1", "found"), ["found"], "another order has begun");
}

#[test]
fn one_acceptor_without_its_votes_is_told_by_the_others() {
    let world = World::new();
    let mut daemons = ["1", "2", "3"].map(|node| daemon(&world, node, &["--storage", "sync"]));
    send(&world, "1", &["one"]);
    daemons[2].kill();
    let ran = abandon(&world, "3", &["--yes"]);
    assert_eq!(ran.code, 0, "{}", ran.errors);
    daemons[2] = daemon(&world, "3", &["--storage", "sync"]);
    wait_until("node 3 is back", || is_in_view(&world, "3"));
    daemons[0].kill();
    send(&world, "3", &["two"]);
    assert_eq!(read(&world, "3", "two"), ["one", "two"]);
}

#[test]
fn nothing_is_given_up_where_there_are_no_votes() {
    let world = World::new();
    let problem = |words: &[&str]| {
        let ran = world.run(&[&["abandon", "--cluster", &world.cluster], words].concat());
        (ran.code, ran.errors)
    };
    let (code, said) = problem(&["--yes"]);
    assert!(code == 2 && said.contains("are at home here; name one with --node"), "{said}");
    let (code, said) = problem(&["--storage", "sync"]);
    assert!(code == 2 && said.contains("no such option"), "{said}");
    let (code, said) = problem(&["--node", "1", "--yes"]);
    assert!(code == 1 && said.contains("node 1 of cluster") && said.contains("is --state-dir right?"), "{said}");
}
