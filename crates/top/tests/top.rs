//! `consort-top` with real daemons.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "tests run real daemons")]

use consort::{Address, Client, ConnectOptions, GroupName, Service};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// For what takes seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);
static CLUSTERS: AtomicU32 = AtomicU32::new(0);

/// A runtime directory and a cluster of one test's own.
struct World {
    directory: TempDir,
    cluster: String,
}

/// A daemon that runs; killed when dropped.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl World {
    fn new() -> Self {
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let directory = tempfile::Builder::new().prefix("consort-top-").tempdir().unwrap();
        Self { directory, cluster: format!("top-{}-{number}", std::process::id()) }
    }

    fn command(&self, program: PathBuf, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        let path = |name: &str| self.directory.path().join(name);
        command.args(words).env("CONSORT_RUNTIME_DIR", path("run")).env("XDG_STATE_HOME", path("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn daemon(&self, words: &[&str]) -> Daemon {
        let all = [&["daemon", "--cluster", &self.cluster][..], words].concat();
        let program = consort_testbed::program_for_tests().unwrap();
        let mut child = self.command(program, &all).stderr(Stdio::null()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("ready: "), "{ready}");
        Daemon(child)
    }

    fn client(&self, node: u16, name: &str) -> Client {
        let socket = self.directory.path().join("run").join(&self.cluster).join(format!("node-{node}.sock"));
        let mut client =
            Client::connect(&Address::Unix(socket), &ConnectOptions::default().called(name).unwrap()).unwrap();
        client.join(&GroupName::new("orders").unwrap()).unwrap();
        client.wait_ordered(PATIENCE).unwrap();
        client
    }

    fn top(&self, words: &[&str]) -> Output {
        self.command(PathBuf::from(env!("CARGO_BIN_EXE_consort-top")), words).output().unwrap()
    }

    fn json(&self) -> Value {
        let ran = self.top(&["--once", "--json", "--every", "200ms"]);
        assert!(ran.status.success(), "{}", errors(&ran));
        serde_json::from_slice(&ran.stdout).unwrap()
    }
}

fn errors(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

/// Says that it is done, also where a test fails.
struct Finally<'a>(&'a AtomicBool);

impl Drop for Finally<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks until something is so.
fn json_when(world: &World, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let seen = world.json();
        if is_so(&seen) {
            return seen;
        }
        assert!(Instant::now() < deadline, "{what} is never so: {seen}");
    }
}

#[test]
fn a_snapshot_has_daemons_groups_clients_and_rates() {
    let world = World::new();
    let _daemons = [world.daemon(&["--nodes", "2"]), world.daemon(&["--nodes", "2"])];
    let (_ann, mut bob, done) = (world.client(1, "ann"), world.client(2, "bob"), AtomicBool::new(false));
    let seen = std::thread::scope(|threads| {
        threads.spawn(|| {
            let group = GroupName::new("orders").unwrap();
            while !done.load(Ordering::Relaxed) {
                bob.multicast(Service::Agreed, std::slice::from_ref(&group), b"tea").unwrap();
                while bob.receive(Duration::from_millis(1)).unwrap().is_some() {}
            }
        });
        let _done = Finally(&done);
        json_when(&world, "two members and messages", |seen| {
            let moves = seen["daemons"][0]["rates"]["ordered_messages_per_s"].as_f64().is_some_and(|rate| rate > 0.0);
            moves && seen["daemons"][0]["members"].as_array().is_some_and(|members| members.len() == 2)
        })
    });
    assert_eq!((&seen["version"], &seen["cluster"]), (&1.into(), &world.cluster.clone().into()));
    assert!(seen["interval_ms"].as_u64().unwrap() >= 200);
    let daemons = seen["daemons"].as_array().unwrap();
    assert_eq!((&daemons[0]["node"], &daemons[1]["node"], daemons.len()), (&1.into(), &2.into(), 2));
    assert_eq!((&daemons[0]["problem"], &daemons[0]["protocol"]), (&Value::Null, &"ring".into()));
    assert_eq!(seen["others"], Value::Array(Vec::new()));
    assert_eq!((&seen["groups"][0]["group"], &seen["groups"][0]["members"]), (&"orders".into(), &2.into()));
    let names: Vec<_> =
        seen["clients"].as_array().unwrap().iter().map(|client| client["name"].as_str().unwrap()).collect();
    assert_eq!((names, &seen["clients_total"]), (vec!["ann", "bob"], &Value::from(2)));
    let changes = seen["changes"].as_array().unwrap();
    assert!(
        changes.iter().any(|change| change["why"].as_str().is_some_and(|why| why.contains("started"))),
        "{changes:?}"
    );
}

#[test]
fn a_daemon_that_is_gone_is_named_and_comes_back() {
    let world = World::new();
    let first = world.daemon(&["--nodes", "2"]);
    let second = world.daemon(&["--nodes", "2"]);
    json_when(&world, "both are there", |seen| {
        seen["daemons"][0]["members"].as_array().is_some_and(|all| all.len() == 2)
    });
    drop(second);
    let seen = json_when(&world, "n2 is gone", |seen| {
        seen["daemons"][0]["members"].as_array().is_some_and(|all| all.len() == 1)
    });
    assert_eq!(seen["daemons"].as_array().unwrap().len(), 1, "its place on this machine is free");
    let last = seen["changes"].as_array().unwrap().iter().rev().find(|change| change["what"] == "view").unwrap();
    assert_eq!(last["gone"], serde_json::json!([2]));
    // One that is stopped holds its place, and answers nothing.
    let _again = world.daemon(&["--nodes", "2"]);
    kill_process(Pid::from_child(&first.0), Signal::STOP).unwrap();
    let seen = world.json();
    kill_process(Pid::from_child(&first.0), Signal::CONT).unwrap();
    assert!(seen["daemons"][0]["problem"].as_str().is_some_and(|why| why.contains("no answer within")), "{seen}");
    assert_eq!((&seen["held_back_by"][0]["kind"], &seen["held_back_by"][0]["who"]), (&"daemon".into(), &"n1".into()));
    json_when(&world, "n1 answers again", |seen| seen["daemons"][0]["problem"].is_null());
}

#[test]
fn text_is_for_people() {
    let world = World::new();
    let _daemon = world.daemon(&[]);
    let _ann = world.client(1, "ann");
    let ran = world.top(&["--once", "--every", "100ms"]);
    let text = String::from_utf8(ran.stdout.clone()).unwrap();
    assert!(
        ran.status.success() && text.starts_with(&format!("consort top  {}  ring, view ", world.cluster)),
        "{text}"
    );
    for part in ["Daemons (", "Groups (1)", "orders", "Clients (1)", "ann", "Changes (", ": started"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn what_cannot_be_is_told_with_the_remedy() {
    let world = World::new();
    let ran = world.top(&["--once"]);
    assert_eq!(ran.status.code(), Some(3));
    assert!(errors(&ran).contains("no daemon runs on this machine"), "{}", errors(&ran));
    let nowhere = world.top(&["--once", "--daemon", "/nonexistent/node-1.sock"]);
    assert_eq!(nowhere.status.code(), Some(3));
    assert!(errors(&nowhere).contains("cannot connect to unix:/nonexistent/node-1.sock"), "{}", errors(&nowhere));
    let _daemon = world.daemon(&[]);
    let ran = world.top(&[]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(errors(&ran).contains("no terminal"), "{}", errors(&ran));
    for (words, told) in [(&["--jsn"][..], "did you mean --json?"), (&["--json"], "--json goes with --once")] {
        let ran = world.top(words);
        assert_eq!(ran.status.code(), Some(2));
        assert!(errors(&ran).contains(told), "{}", errors(&ran));
    }
    let other = World { directory: world.directory, cluster: format!("{}-b", world.cluster) };
    let _second = other.daemon(&[]);
    let ran = other.top(&["--once"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(errors(&ran).contains("choose one with --cluster NAME"), "{}", errors(&ran));
}
