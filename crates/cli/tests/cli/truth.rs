//! Whether a daemon says the truth about itself: what `/ready`, `/live`, `consort_primary` and the cause of a wait say in
//! each situation, beside whether a write in fact goes through. `/ready` and the write must agree, because a load balancer
//! sends writes to a daemon whose `/ready` says yes.
//!
//! Each protocol has three daemons, each in a network namespace, and goes through all situations in one journey. The journeys
//! of the six protocols run side by side. With `CONSORT_LONG=1` all of them also see the others leave and come back.

mod ground;

use ground::{Ground, Seen, is_long};
use std::fmt::Write;
use std::fs;
use std::process::Command;
use std::thread;

/// What is right in a situation.
#[derive(Clone, Copy, Debug)]
enum Right {
    /// Writes go through, and `/ready` says yes.
    Serves,
    /// Writes do not go through: what `/ready` says, and the cause of the wait.
    Waits(&'static str, &'static str),
    /// Writes go through, but only in a part of the cluster that is not primary, or may be one of several: what `/ready` says.
    Apart(&'static str),
}

use Right::{Apart, Serves, Waits};

const NOT_PRIMARY: Right = Apart("the view is not primary");

/// What daemons of a protocol say where something else holds for a quorum of acceptors than for a view.
struct Expected {
    alone: Right,
    two: Right,
    isolated: Right,
}

/// The parts that are not primary go on in views.
const VIEWS: Expected = Expected { alone: NOT_PRIMARY, two: Serves, isolated: NOT_PRIMARY };
/// Without a quorum nothing goes on.
const QUORUM: Expected = lacking("quorum");
/// The same of several rings: the first one that lacks votes is named.
const RING: Expected = lacking("ring:1");

const fn lacking(cause: &'static str) -> Expected {
    Expected {
        alone: Waits("one begins once all 3 acceptors run, and 1 does", cause),
        two: Waits("one begins once all 3 acceptors run, and 2 do", cause),
        isolated: Waits("2 of 3 acceptors must run and vote, and 1 does", cause),
    }
}

/// Marks a row that is not right.
const WRONG: &str = "   <- WRONG";

/// One row of the table for each look at a daemon.
#[derive(Default)]
struct Table(String);

impl Table {
    /// Looks at a daemon until it says what is right, and judges whether a write agrees.
    fn look(&mut self, ground: &Ground, situation: &str, node: usize, right: Right) {
        let seen = ground.look_until(node, |seen| is_right(seen, right, ground.has_policy));
        let verdict = if seen.lied || !is_right(&seen, right, ground.has_policy) { WRONG } else { "" };
        let Seen { live, ready, primary, goes, cause, .. } = &seen;
        let (protocol, node) = (ground.name, node + 1);
        let row = format!(
            "{protocol:15} {situation:28} n{node}  live {live}  primary {primary:?}  write {goes}  cause {cause:?}  {ready}"
        );
        writeln!(self.0, "{row}{verdict}").unwrap();
    }
}

fn is_right(seen: &Seen, right: Right, has_policy: bool) -> bool {
    let primary = |wanted: &str| !has_policy || seen.primary.as_deref() == Some(wanted);
    let says = |text: &str| seen.ready.starts_with("503") && seen.ready.contains(text);
    seen.live.starts_with("200")
        && match right {
            Serves => seen.ready.starts_with("200") && seen.goes && primary("1"),
            Waits(text, cause) => says(text) && !seen.goes && primary("0") && seen.cause == cause,
            Apart(text) => says(text) && seen.goes && primary("0"),
        }
}

/// The situations that every protocol goes through.
fn journey(ground: &mut Ground, expected: &Expected) -> String {
    let mut table = Table::default();
    let all = [0, 1, 2];
    ground.start(0);
    table.look(ground, "alone of three at the start", 0, expected.alone);
    ground.start(1);
    table.look(ground, "two of three at the start", 1, expected.two);
    ground.start(2);
    all.iter().for_each(|node| table.look(ground, "all", *node, Serves));
    // The others were written to while nothing could be ordered.
    warns_of_nothing(ground, 2);
    ground.split(&[0]);
    table.look(ground, "isolated", 0, expected.isolated);
    table.look(ground, "the others are the majority", 1, Serves);
    ground.split(&[]);
    table.look(ground, "in touch again", 0, Serves);
    ground.stop(&[1, 2]);
    table.look(ground, "the others are stopped", 0, expected.isolated);
    assert!(!ground.is_live(1), "a stopped process does not answer");
    ground.go_on(&[1, 2]);
    all.iter().for_each(|node| table.look(ground, "the others go on", *node, Serves));
    ground.kill(2);
    table.look(ground, "one was killed", 0, Serves);
    ground.start(2);
    table.look(ground, "it is back", 2, Serves);
    ground.leave(2);
    table.look(ground, "one has left", 0, Serves);
    if is_long() || ground.name == "ring" {
        ground.leave(1);
        table.look(ground, "both others have left", 0, expected.isolated);
        [1, 2].iter().for_each(|node| ground.start(*node));
        all.iter().for_each(|node| table.look(ground, "both are back", *node, Serves));
    }
    table.0
}

/// Each protocol, with what its file says of it.
fn of_protocol(protocol: &'static str) -> (String, Option<String>) {
    let (more, expected) = match protocol {
        "paxos" => ("[paxos]\nstorage = \"memory\"\n", &QUORUM),
        "multiring-paxos" => ("[[ring]]\nid = 1\nglobal = true\n[[ring]]\nid = 2\ngroups = [\"a*\"]\n", &RING),
        _ => ("", &VIEWS),
    };
    let ground = Ground::new(protocol, protocol, more);
    (protocol.into(), ground.map(|mut ground| journey(&mut ground, expected)))
}

/// Without a policy each part goes on by itself, and serves: but not one that never met any other node.
fn without_policy() -> (String, Option<String>) {
    let ground = Ground::new("ring-none", "ring", "primary = \"none\"\n");
    let go = |mut ground: Ground| {
        let mut table = Table::default();
        ground.start(0);
        table.look(&ground, "alone of three at the start", 0, Apart("none of the 2 other nodes has answered"));
        ground.start(1);
        table.look(&ground, "two of three at the start", 0, Serves);
        ground.start(2);
        ground.split(&[0]);
        table.look(&ground, "isolated", 0, Serves);
        table.look(&ground, "the others", 1, Serves);
        table.0
    };
    ("ring-none".into(), ground.map(go))
}

/// Waits in each sync of a file below a directory that `HUNG` names, as long as a file is there that is called as that and
/// `.hung`.
const HANGS: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>
static void wait_while_hung(int f) {
    char link[64], path[4096], *at;
    snprintf(link, sizeof link, "/proc/self/fd/%d", f);
    ssize_t n = readlink(link, path, sizeof path - 7);
    path[n < 0 ? 0 : n] = 0;
    if (!(at = strstr(path, "/state-"))) return;
    strcpy(at + 8, ".hung");
    while (access(path, F_OK) == 0) usleep(10000);
}
int fdatasync(int f) { wait_while_hung(f); return syscall(SYS_fdatasync, f); }
int fsync(int f) { wait_while_hung(f); return syscall(SYS_fsync, f); }
"#;

/// Acceptors whose disks hang, and acceptors whose disks were lost.
fn with_disks() -> (String, Option<String>) {
    let name = "paxos-sync";
    let Some(mut ground) = Ground::new(name, "paxos", "[paxos]\nstorage = \"sync\"\n") else {
        return (name.into(), None);
    };
    let (source, library) = (ground.path("hangs.c"), ground.path("hangs.so"));
    fs::write(&source, HANGS).unwrap();
    let mut compiler = Command::new("cc");
    let built = compiler.args(["-shared", "-fPIC", "-fno-builtin", "-o"]).arg(&library).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: {name} is not looked at: no C compiler");
        return (name.into(), None);
    }
    ground.run_by(&["env", &format!("LD_PRELOAD={}", library.display())]);
    (0..3).for_each(|node| ground.start(node));
    (name.into(), Some(disks(&mut ground)))
}

/// A start at which nothing is wrong warns of nothing but what the file says: that datagrams are not sealed.
fn warns_of_nothing(ground: &Ground, node: usize) {
    let log = ground.log(node);
    let is_due = |line: &&str| line.contains("travel plain") || line.contains("not ready: ");
    let warnings: Vec<&str> =
        log.lines().filter(|line| [" WARN", " ERROR"].iter().any(|level| line.contains(level))).collect();
    assert_eq!(warnings.iter().filter(|line| !is_due(line)).collect::<Vec<_>>(), [&""; 0], "of n{}", node + 1);
}

fn disks(ground: &mut Ground) -> String {
    let mut table = Table::default();
    let hung = |ground: &Ground, node: usize| ground.path(&format!("state-{}.hung", node + 1));
    let all = [0, 1, 2];
    all.iter().for_each(|node| table.look(ground, "all", *node, Serves));
    all.iter().for_each(|node| warns_of_nothing(ground, *node));
    fs::write(hung(ground, 2), "").unwrap();
    table.look(ground, "one disk hangs", 0, Serves);
    table.look(ground, "its own disk hangs", 2, Serves);
    fs::write(hung(ground, 1), "").unwrap();
    // A disk that is not written to cannot be seen to hang.
    ground.write_in_vain(0);
    let lacking = Waits("2 of 3 acceptors must run and vote, and 1 does: n2 n3 run, but their disks hang", "quorum");
    all.iter().for_each(|node| table.look(ground, "two disks hang", *node, lacking));
    all[1..].iter().for_each(|node| fs::remove_file(hung(ground, *node)).unwrap());
    all.iter().for_each(|node| table.look(ground, "they go on", *node, Serves));
    for node in [1, 2] {
        ground.kill(node);
        fs::remove_dir_all(ground.state(node)).unwrap();
    }
    [1, 2].iter().for_each(|node| ground.start(*node));
    let forgot = Waits("2 of 3 acceptors must run and vote, and 1 does: n2 n3 have lost their votes", "quorum");
    all.iter().for_each(|node| table.look(ground, "two have lost their disks", *node, forgot));
    table.0
}

#[test]
fn a_daemon_that_says_it_is_ready_orders_a_write_soon_and_another_says_why_not() {
    let protocols = ["ring", "toto", "plato", "paxos", "multiring-paxos", "multiring"];
    let mut journeys: Vec<_> =
        protocols.into_iter().map(|protocol| thread::spawn(move || of_protocol(protocol))).collect();
    journeys.push(thread::spawn(without_policy));
    journeys.push(thread::spawn(with_disks));
    let tables: Vec<_> = journeys.into_iter().map(thread::JoinHandle::join).collect();
    let mut failed = false;
    for table in tables {
        let Ok((_, Some(table))) = table else {
            failed |= table.is_err();
            continue;
        };
        println!("{table}");
        failed |= table.contains(WRONG);
    }
    assert!(!failed, "see the rows above");
}
