//! Replicas at real daemons: daemons and replicas that are killed, and one that joins a large state.

#[allow(dead_code, reason = "its `main`")]
#[path = "../../../replica/examples/store.rs"]
mod store;

use crate::cluster::{Cluster, PATIENCE};
use crate::support::{World, wait_until};
use consort::{Address, GroupName, SessionOptions};
use consort_replica::{Error, Options, Outside, Replica};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use store::Store;

fn options(cluster: &Cluster, first: usize) -> Options {
    Options::at(&cluster.addresses(first)).session(SessionOptions::default().reconnect_within(PATIENCE))
}

fn replica(cluster: &Cluster, first: usize, adjust: impl FnOnce(Options) -> Options) -> Replica<Store> {
    Replica::start(Store::default(), &group(), adjust(options(cluster, first))).unwrap()
}

/// The same with a directory, which each replica has where the order lasts.
fn kept_replica(cluster: &Cluster, first: usize, adjust: impl FnOnce(Options) -> Options) -> Replica<Store> {
    let directory = cluster.world.path(&format!("replica-{first}"));
    replica(cluster, first, |options| adjust(options).checkpoints(directory))
}

fn group() -> GroupName {
    GroupName::new("store").unwrap()
}

/// One addition of one to a counter: when it was asked for, when it was answered, and with what.
#[derive(Clone, Copy, Debug)]
struct Addition {
    from: Instant,
    until: Instant,
    value: u64,
}

/// A counter's answers are linearizable if each is there once, and what was answered before another began is less.
fn assert_linearizable(additions: &[Addition]) {
    let mut by_end = additions.to_vec();
    by_end.sort_by_key(|addition| addition.until);
    let mut values: Vec<_> = additions.iter().map(|addition| addition.value).collect();
    values.sort_unstable();
    let all = values.len();
    values.dedup();
    assert_eq!(values.len(), all, "an answer was given twice");
    for addition in additions {
        let before = by_end.iter().take_while(|other| other.until < addition.from).map(|other| other.value).max();
        assert!(before < Some(addition.value), "{addition:?} does not count what was answered before, {before:?}");
    }
}

/// Adds until it is told to stop.
fn add(replica: Replica<Store>, stop: &Arc<AtomicBool>, all: &Arc<Mutex<Vec<Addition>>>) -> thread::JoinHandle<u64> {
    let (stop, all) = (Arc::clone(stop), Arc::clone(all));
    thread::spawn(move || {
        let mut unseen = 0;
        while !stop.load(Ordering::Relaxed) {
            let from = Instant::now();
            match replica.call("add total 1") {
                Ok(response) => {
                    let value = String::from_utf8(response.bytes).unwrap().parse().unwrap();
                    all.lock().unwrap().push(Addition { from, until: Instant::now(), value });
                }
                Err(Error::Unseen) => unseen += 1,
                Err(error) => panic!("{error}"),
            }
        }
        unseen
    })
}

fn total(replica: &Replica<Store>) -> u64 {
    replica.read_latest(|store| store.0["total"].parse().unwrap()).unwrap()
}

/// A replica in a process of its own, which adds and says each answer.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(cluster: &Cluster, first: usize) -> Self {
        let daemons: Vec<_> = cluster.addresses(first).iter().map(ToString::to_string).collect();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "replica::a_replica_as_a_process", "--ignored", "--nocapture"]);
        command.env("STORE_DAEMONS", daemons.join(" ")).env("STORE_STATE", cluster.world.path("checkpoints"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { child, lines }
    }

    /// Its next line that says this.
    fn says(&self, what: &str) -> u64 {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if let Some(number) = line.strip_prefix(what) {
                return number.trim().parse().unwrap();
            }
        }
        panic!("it never said `{what}`");
    }

    /// Kills it; returns its last answer.
    fn kill(mut self) -> u64 {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.iter().filter_map(|line| line.strip_prefix("own ")?.trim().parse().ok()).last().unwrap_or(0)
    }
}

#[test]
#[ignore = "run by another test, which kills it"]
fn a_replica_as_a_process() {
    let Ok(daemons) = std::env::var("STORE_DAEMONS") else { return };
    let daemons: Vec<Address> = daemons.split(' ').map(|daemon| daemon.parse().unwrap()).collect();
    let state = std::env::var("STORE_STATE").unwrap();
    let options = Options::at(&daemons).founders(3).checkpoints(state).checkpoint_every(20);
    let replica = Replica::start(Store::default(), &group(), options).unwrap();
    println!("\nbegins {}", replica.position().0);
    loop {
        let response = replica.call("add own 1").unwrap();
        println!("own {}", String::from_utf8(response.bytes).unwrap());
    }
}

fn kills_lose_and_double_nothing(protocol: &str) {
    let mut cluster = Cluster::new(protocol);
    let replicas = [0, 1].map(|first| kept_replica(&cluster, first, |options| options.founders(3)));
    let process = Process::start(&cluster, 2);
    assert_eq!(process.says("begins "), 0);
    let (stop, all) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let threads: Vec<_> =
        replicas.iter().flat_map(|replica| [0, 1].map(|_| add(replica.clone(), &stop, &all))).collect();
    let mut answered = 0;
    while answered < 50 {
        answered = process.says("own ");
    }
    wait_until("it has a checkpoint", || {
        let files = std::fs::read_dir(cluster.world.path("checkpoints")).unwrap();
        files.flatten().any(|file| file.file_name().to_string_lossy().starts_with("checkpoint-"))
    });
    let answered = process.kill().max(answered);
    cluster.kill(0);
    thread::sleep(Duration::from_millis(500));
    cluster.start(0);
    let process = Process::start(&cluster, 1);
    assert!(process.says("begins ") > 0, "it begins at its checkpoint");
    let own = process.says("own ");
    assert!((answered + 1..=answered + 2).contains(&own), "{own} behind {answered}: at most one was under way");
    cluster.kill(1);
    thread::sleep(Duration::from_millis(500));
    cluster.start(1);
    let before = all.lock().unwrap().len();
    wait_until("they go on", || all.lock().unwrap().len() > before + 20);
    stop.store(true, Ordering::Relaxed);
    let unseen: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    process.kill();
    let all = all.lock().unwrap();
    assert_linearizable(&all);
    assert_eq!(total(&replicas[0]), all.len() as u64 + unseen, "additions are lost or doubled");
    assert_eq!(total(&replicas[1]), total(&replicas[0]));
    println!("{} additions, {unseen} with answers unseen", all.len());
}

#[test]
fn kills_of_daemons_and_replicas_lose_and_double_nothing_of_a_store() {
    kills_lose_and_double_nothing("ring");
}

#[test]
fn kills_of_daemons_and_replicas_lose_and_double_nothing_where_a_majority_decides() {
    kills_lose_and_double_nothing("paxos");
}

#[test]
fn one_that_joins_a_large_state_has_all_of_it_while_the_others_go_on() {
    joins_a_state_of(1024);
}

#[test]
#[ignore = "takes minutes and 6 GiB; prints what the others keep"]
fn one_that_joins_a_gibibyte_has_all_of_it_while_the_others_go_on() {
    joins_a_state_of(16 * 1024);
}

/// So many values of 64 KiB.
fn joins_a_state_of(values: usize) {
    let cluster = Cluster::new("ring");
    let replicas = [0, 1].map(|first| replica(&cluster, first, |options| options.log_bytes(1 << 20)));
    let value = "x".repeat(64 << 10);
    let loaded: Vec<_> = (0..values).map(|n| replicas[0].begin(format!("set key-{n} {value}"))).collect();
    loaded.into_iter().for_each(|pending| drop(pending.wait().unwrap()));
    let (stop, all) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let threads = [0, 1].map(|at| add(replicas[at].clone(), &stop, &all));
    let begun = Instant::now();
    thread::sleep(Duration::from_secs(2));
    let (alone, since) = (all.lock().unwrap().len(), begun.elapsed());
    let begun = Instant::now();
    let joiner = replica(&cluster, 2, |options| options);
    joiner.catch_up().wait().unwrap();
    let (joining, took) = (all.lock().unwrap().len() - alone, begun.elapsed());
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), 0));
    assert_linearizable(&all.lock().unwrap());
    let states = [&joiner, &replicas[0], &replicas[1]].map(|replica| replica.read_latest(Store::clone).unwrap());
    assert!(states[0] == states[1] && states[1] == states[2] && states[0].0.len() == values + 1);
    assert!(joining > 0, "the others stood still for {took:?}");
    let rate = |count: usize, time: Duration| count as f64 / time.as_secs_f64();
    println!(
        "{} MiB in {took:?}; {:.0}/s before, {:.0}/s meanwhile",
        values / 16,
        rate(alone, since),
        rate(joining, took)
    );
}

#[test]
fn in_a_minority_commands_wait_or_are_refused_with_the_cause_and_go_on_behind_it() {
    let mut cluster = Cluster::new("ring");
    let at_first = |mut options: Options| {
        options.daemons.truncate(1);
        options
    };
    let waits = replica(&cluster, 0, at_first);
    let refuses = replica(&cluster, 0, |options| at_first(options).outside(Outside::Refused));
    waits.call("set a 1").unwrap();
    refuses.catch_up().wait().or_else(|_| waits.call("set a 1").map(drop)).unwrap();
    wait_until("both are up to date", || refuses.waits_for().is_none() && waits.waits_for().is_none());
    (1..3).for_each(|at| cluster.kill(at));
    // What is sent while the view is closing may still be ordered in it, and all replicas are together here.
    wait_until("the cause is told", || waits.waits_for().is_some() && refuses.waits_for().is_some());
    let pending = waits.begin("set a 2");
    let error = refuses.call("set a 3").unwrap_err();
    assert!(matches!(error, Error::Outside(_)), "{error}");
    assert_eq!(waits.read(|store| store.0["a"].to_string()), "1", "reads of what is here go on");
    (1..3).for_each(|at| cluster.start(at));
    pending.wait().unwrap();
    assert_eq!(waits.read_latest(|store| store.0["a"].to_string()).unwrap(), "2");
    wait_until("the other one refuses no more", || refuses.call("set a 3").is_ok());
    wait_until("both say that nothing waits", || refuses.waits_for().is_none() && waits.waits_for().is_none());
}

#[test]
fn without_a_quorum_commands_wait_or_are_refused_and_go_on() {
    let mut cluster = Cluster::new("paxos");
    let only = cluster.addresses(0).swap_remove(0);
    let at_first = |mut options: Options| {
        options.daemons = vec![only.clone()];
        options
    };
    let waits = kept_replica(&cluster, 0, at_first);
    let refuses = kept_replica(&cluster, 1, |options| at_first(options).outside(Outside::Refused));
    waits.call("set a 1").unwrap();
    wait_until("both are up to date", || refuses.catch_up().wait().is_ok());
    (1..3).for_each(|at| cluster.kill(at));
    let under_way = [waits.begin("set a 2"), refuses.begin("set b 2")];
    wait_until("both say what commands wait for", || waits.waits_for().is_some() && refuses.waits_for().is_some());
    let error = refuses.call("set a 3").unwrap_err();
    assert!(matches!(error, Error::Outside(_)), "{error}");
    assert_eq!(waits.read(|store| store.0["a"].to_string()), "1", "reads of what is here go on");
    (1..3).for_each(|at| cluster.start(at));
    under_way.into_iter().for_each(|pending| drop(pending.wait().unwrap()));
    assert_eq!(waits.read_latest(|store| store.0["a"].to_string()).unwrap(), "2");
    wait_until("the other one refuses no more", || refuses.call("set a 3").is_ok());
    wait_until("both say that nothing waits", || refuses.waits_for().is_none() && waits.waits_for().is_none());
}

#[test]
fn on_an_order_that_lasts_a_replica_without_a_directory_is_refused() {
    //= RS03 test
    let cluster = Cluster::new("paxos");
    let refused = Replica::start(Store::default(), &group(), options(&cluster, 0)).unwrap_err();
    assert!(matches!(refused, Error::NoDirectory), "{refused}");
}

#[test]
fn where_no_policy_says_who_goes_on_a_replica_ends_with_the_remedy() {
    let world = World::new();
    let _daemon = world.daemon(&["--node", "1"]);
    let replica =
        Replica::start(Store::default(), &group(), Options::at(&[Address::Unix(world.socket_path(1))])).unwrap();
    let error = replica.call("set a 1").unwrap_err();
    assert!(matches!(&error, Error::Session(why) if why.contains("primary = \"majority\"")), "{error}");
}
