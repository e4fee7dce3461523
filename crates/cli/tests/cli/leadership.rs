//! Real daemons and candidates that are killed and stopped: never two lead at a time, and fences rise.

#[allow(dead_code, reason = "its `main`")]
#[path = "../../../leader/examples/jobs.rs"]
mod jobs;
#[allow(dead_code, reason = "its `main`")]
#[path = "../../../leader/examples/leader.rs"]
mod leader;
#[allow(dead_code, reason = "its `main`")]
#[path = "../../../leader/examples/lock.rs"]
mod lock;
#[allow(dead_code, reason = "its `main`")]
#[path = "../../../leader/examples/steps.rs"]
mod steps;

use crate::cluster::{Cluster, PATIENCE};
use crate::support::{World, wait_until};
use consort::{Address, GroupName, OpenRefusalCause};
use consort_leader::{
    Barrier, Error, Fence, Leadership, LeadershipEvent, LeadershipOptions, Lock, LostCause, Timing, WorkQueue,
};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const LEASE: Duration = Duration::from_millis(1_000);
/// Where a candidate that is a process of its own finds its daemons.
const DAEMONS: &str = "CONSORT_TEST_CANDIDATE";

fn group() -> GroupName {
    GroupName::new("lead").unwrap()
}

fn options() -> LeadershipOptions {
    LeadershipOptions::default().timing(Timing::new(LEASE, 1_000).unwrap())
}

/// A candidate that asks this daemon first.
fn join(cluster: &Cluster, first: usize) -> Leadership {
    Leadership::join(&cluster.addresses(first), &group(), options()).unwrap()
}

/// A lease as a candidate saw it: under which fence, when it was looked at, when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    read: u64,
    fence: Fence,
    until: u64,
    candidate: usize,
}

/// A candidate that is a process of its own.
struct Candidate {
    child: Child,
    lines: Receiver<String>,
    at: usize,
}

impl Candidate {
    fn start(cluster: &Cluster, at: usize) -> Self {
        let paths = cluster.addresses(at).iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "leadership::a_candidate_of_its_own", "--ignored", "--nocapture"]).env(DAEMONS, paths);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { child, lines, at }
    }

    fn seen(&self) -> Vec<Seen> {
        let read = |line: String| {
            let mut words = line.strip_prefix("lease ")?.split(' ').map(str::to_owned);
            let fence = words.next()?.parse().ok()?;
            let (read, until) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(Seen { read, fence, until, candidate: self.at })
        };
        self.lines.try_iter().filter_map(read).collect()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test: what the process of a candidate does.
#[test]
#[ignore = "other tests start it as a process"]
fn a_candidate_of_its_own() {
    let Ok(daemons) = std::env::var(DAEMONS) else { return };
    let addresses: Vec<Address> = daemons.split(',').map(|text| text.parse().unwrap()).collect();
    let leadership = Leadership::join(&addresses, &group(), options()).unwrap();
    loop {
        if let Some(lease) = leadership.lease() {
            println!("\nlease {} {} {}", lease.fence, lease.read.0, lease.until.0);
        }
        if let Some(LeadershipEvent::Ended(error)) = leadership.receive(Duration::from_millis(2)).unwrap() {
            panic!("{error}");
        }
    }
}

/// The candidates that look whether they lead.
struct Watch {
    candidates: Vec<Candidate>,
    seen: Vec<Seen>,
}

impl Watch {
    fn poll(&mut self) {
        self.candidates.iter().for_each(|candidate| self.seen.extend(candidate.seen()));
        self.seen.sort_unstable();
    }

    /// Who leads with a greater fence than this, once somebody does.
    fn leader_behind(&mut self, fence: Option<Fence>) -> Seen {
        let mut found = None;
        wait_until("another leads", || {
            self.poll();
            found = self.seen.iter().rev().find(|seen| Some(seen.fence) > fence).copied();
            found.is_some()
        });
        found.unwrap()
    }

    /// One leader at a time: each lease had ended by the time that the next leader's was looked at.
    fn judge(&mut self, changes: usize) {
        self.poll();
        let mut fences: Vec<Fence> = Vec::new();
        let mut ends = 0;
        for pair in self.seen.windows(2) {
            ends = ends.max(pair[0].until);
            if pair[0].fence == pair[1].fence {
                assert_eq!(pair[0].candidate, pair[1].candidate, "two lead under one fence: {pair:?}");
                continue;
            }
            assert!(pair[0].fence < pair[1].fence, "fences fall: {pair:?}");
            assert!(ends <= pair[1].read, "two lead: a lease until {ends}, and {pair:?}");
            fences.push(pair[1].fence);
        }
        assert!(fences.len() >= changes, "{} changes in {} looks", fences.len(), self.seen.len());
    }
}

fn one_leads_though_all_else_fails(protocol: &str) {
    //= L12 test
    let mut cluster = Cluster::new(protocol);
    let candidates = (0..3).map(|at| Candidate::start(&cluster, at)).collect();
    let mut watch = Watch { candidates, seen: Vec::new() };
    let first = watch.leader_behind(None);
    // Its daemon is killed: it goes on at another one in time, or another candidate leads.
    cluster.kill(first.candidate);
    std::thread::sleep(LEASE * 3);
    cluster.start(first.candidate);
    watch.poll();
    let second = *watch.seen.last().unwrap();
    // It is stopped for longer than its lease.
    watch.candidates[second.candidate].signal(Signal::STOP);
    let third = watch.leader_behind(Some(second.fence));
    assert_ne!(third.candidate, second.candidate);
    watch.candidates[second.candidate].signal(Signal::CONT);
    std::thread::sleep(LEASE / 2);
    // It is killed, and its daemon with it.
    watch.poll();
    watch.candidates[third.candidate].signal(Signal::KILL);
    cluster.kill(third.candidate);
    let fourth = watch.leader_behind(Some(third.fence));
    assert_ne!(fourth.candidate, third.candidate);
    watch.judge(2);
}

#[test]
fn one_leads_though_daemons_of_the_ring_and_leaders_are_killed_and_stopped() {
    one_leads_though_all_else_fails("ring");
}

#[test]
fn one_leads_though_daemons_of_ring_paxos_and_leaders_are_killed_and_stopped() {
    one_leads_though_all_else_fails("paxos");
}

#[test]
fn one_leads_though_daemons_of_toto_and_plato_and_leaders_are_killed_and_stopped() {
    one_leads_though_all_else_fails("toto");
    one_leads_though_all_else_fails("plato");
}

/// The next event that somebody waits for.
fn wait_for<T>(leadership: &Leadership, mut find: impl FnMut(LeadershipEvent) -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    while let Some(event) = leadership.receive(deadline.saturating_duration_since(Instant::now())).unwrap() {
        if let Some(found) = find(event) {
            return found;
        }
    }
    panic!("it did not come in {PATIENCE:?}");
}

fn elected(leadership: &Leadership) -> Fence {
    wait_for(leadership, |event| match event {
        LeadershipEvent::Elected { fence, .. } => Some(fence),
        _ => None,
    })
}

#[test]
fn who_resigns_is_followed_at_once_and_a_minority_has_no_leader() {
    let mut cluster = Cluster::new("ring");
    let ann = join(&cluster, 0);
    let first = elected(&ann);
    let bob = join(&cluster, 1);
    wait_for(&bob, |event| matches!(event, LeadershipEvent::Leader { fence, .. } if fence == first).then_some(()));
    assert!(ann.is_leader_now() && !bob.is_leader_now() && bob.leader() == Some((ann.candidate(), first)));
    let resigned = Instant::now();
    ann.resign().unwrap();
    assert!(!ann.is_leader_now());
    let second = elected(&bob);
    assert!(resigned.elapsed() < LEASE && second > first, "{:?}", resigned.elapsed());
    let error = ann.decide(first, b"late").unwrap_err();
    assert!(matches!(error, Error::NotLeader { .. }), "{error}");
    cluster.kill(0);
    cluster.kill(2);
    let cause = wait_for(&bob, |event| match event {
        LeadershipEvent::Lost { cause, .. } => Some(cause),
        _ => None,
    });
    assert_eq!(cause, LostCause::Expired);
    assert!(!bob.is_leader_now());
}

#[test]
fn where_no_policy_says_who_goes_on_nobody_leads_and_the_remedy_is_told() {
    let world = World::new();
    let _daemon = world.daemon(&["--node", "1"]);
    let error = Leadership::join(&[Address::Unix(world.socket_path(1))], &group(), options()).unwrap_err();
    let Error::Session(inner) = &error else { panic!("{error}") };
    let consort::Error::NotOpened(refusal) = &**inner else { panic!("{error}") };
    assert_eq!(refusal.cause, OpenRefusalCause::NoPolicy);
    assert!(error.to_string().contains("primary = \"majority\""), "{error}");
    assert!(matches!(Leadership::join(&[], &group(), options()), Err(Error::NoAddresses)));
}

/// What an example is told: all daemons, and a group.
fn words(cluster: &Cluster, first: usize, group: &str) -> Vec<String> {
    let daemons = cluster.addresses(first);
    daemons.iter().map(ToString::to_string).chain([group.to_owned()]).collect()
}

#[test]
fn a_lock_is_held_by_one_and_passed_on() {
    let mut cluster = Cluster::new("ring");
    let name = GroupName::new("ledger").unwrap();
    let mut ann = Lock::open(&cluster.addresses(0), &name, options()).unwrap();
    let mut bob = Lock::open(&cluster.addresses(1), &name, options()).unwrap();
    let held = ann.acquire(PATIENCE).unwrap();
    let (first, refused) = (held.fence(), bob.acquire(LEASE * 2).map(drop).unwrap_err());
    assert!(matches!(refused, Error::TimedOut { .. }) && held.is_held(), "{refused}");
    held.release();
    let second = bob.acquire(PATIENCE).unwrap();
    assert!(second.fence() > first, "{}", second.fence());
    // The daemons of both others are gone: no lock is held for longer than its lease.
    (1..3).for_each(|at| cluster.kill(at));
    wait_until("the lock is lost", || !second.is_held());
}

#[test]
fn a_command_runs_under_a_lock() {
    let cluster = Cluster::new("ring");
    let file = cluster.world.path("fence");
    let mut all = words(&cluster, 0, "deploy");
    all.extend(["--", "sh", "-c", &format!("echo $FENCE > {}", file.display())].map(str::to_owned));
    assert!(lock::run(&all).unwrap());
    let fence: Fence = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    assert!(u128::from(fence) > 0);
    let usage = lock::run(&["only".to_owned()]).unwrap_err();
    assert!(usage.to_string().contains("a group, --, and a command"), "{usage}");
}

#[test]
fn steps_are_gone_through_together() {
    let cluster = Cluster::new("ring");
    let go = |at| {
        let mut all = words(&cluster, at, "steps");
        all.push("3".to_owned());
        std::thread::spawn(move || {
            let mut out = Vec::new();
            steps::run(&all, &b"one\ntwo\n"[..], &mut out).map_err(|error| error.to_string()).unwrap();
            String::from_utf8(out).unwrap()
        })
    };
    let parties: Vec<_> = (0..3).map(go).collect();
    for party in parties {
        assert_eq!(party.join().unwrap(), "1: one\n2: two\n");
    }
    let problem = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        steps::run(&words, &b""[..], Vec::new()).unwrap_err().to_string()
    };
    assert!(problem(&["only"]).contains("the number of parties"));
    let few = problem(&[&cluster.addresses(0)[0].to_string(), "steps", "0"]);
    assert!(few.contains("1 to 4096"), "{few}");
}

#[test]
fn all_parties_pass_a_barrier_together_though_a_daemon_is_killed() {
    let mut cluster = Cluster::new("ring");
    let name = GroupName::new("steps").unwrap();
    let (tell, told) = channel();
    let parties = (0..3).map(|at| {
        let (addresses, name, tell) = (cluster.addresses(at), name.clone(), tell.clone());
        std::thread::spawn(move || {
            let mut barrier = Barrier::join(&addresses, &name, 3, options()).unwrap();
            for _ in 0..20 {
                let round = barrier.wait(PATIENCE).unwrap();
                tell.send((at, round.number, round.fence)).unwrap();
                if round.number >= 20 {
                    break;
                }
            }
        })
    });
    let parties: Vec<_> = parties.collect();
    let mut seen: Vec<_> = (0..12).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
    cluster.kill(0);
    std::thread::sleep(LEASE);
    cluster.start(0);
    drop(tell);
    while let Ok(passed) = told.recv_timeout(PATIENCE) {
        seen.push(passed);
    }
    for at in 0..3 {
        let rounds: Vec<_> = seen.iter().filter(|(party, ..)| *party == at).collect();
        assert!(rounds.is_sorted_by(|a, b| a.1 < b.1 && a.2 < b.2) && rounds.len() >= 10, "{at}: {rounds:?}");
    }
    let rounds: BTreeSet<_> = seen.iter().map(|(_, number, fence)| (*number, *fence)).collect();
    let numbers: BTreeSet<_> = seen.iter().map(|(_, number, _)| *number).collect();
    assert_eq!(rounds.len(), numbers.len(), "each round opened at one place: {rounds:?}");
    // A party that was cut off may have missed a round; then nobody waits for it at the end.
    drop(parties);
    let none = Barrier::join(&cluster.addresses(0), &name, 0, options()).unwrap_err();
    assert!(none.to_string().contains("1 to 4096"), "{none}");
}

#[test]
fn jobs_are_done_once_though_a_worker_is_gone_and_a_daemon_is_killed() {
    let mut cluster = Cluster::new("ring");
    let name = GroupName::new("jobs").unwrap();
    let mut boss = WorkQueue::join(&cluster.addresses(0), &name, options()).unwrap();
    let mut lazy = WorkQueue::join(&cluster.addresses(1), &name, options()).unwrap();
    let mut busy = WorkQueue::join(&cluster.addresses(2), &name, options()).unwrap();
    let first = boss.submit(b"job 0").unwrap();
    let taken = lazy.next_job(PATIENCE).unwrap().unwrap();
    assert!(taken.id == first && lazy.has(&taken));
    drop(lazy);
    let again = busy.next_job(PATIENCE).unwrap().unwrap();
    assert!(again.id == first && again.fence > taken.fence, "{again:?} behind {taken:?}");
    let mut open: BTreeSet<_> = (1..30).map(|n| boss.submit(format!("job {n}").as_bytes()).unwrap()).collect();
    open.insert(first);
    assert!(busy.done(&again, &again.payload).unwrap() && open.len() == 30);
    let deadline = Instant::now() + PATIENCE;
    let mut fences = BTreeSet::from([taken.fence, again.fence]);
    while !open.is_empty() {
        assert!(Instant::now() < deadline, "{} jobs are open", open.len());
        if let Some(job) = busy.next_job(Duration::from_millis(50)).unwrap() {
            fences.insert(job.fence);
            busy.done(&job, &job.payload).unwrap();
            if job.payload == b"job 10" {
                cluster.kill(2);
            }
        }
        while let Some((id, result)) = boss.finished(Duration::ZERO).unwrap() {
            assert!(open.remove(&id), "{id} was finished twice");
            assert_eq!(result, format!("job {}", id.number - 1).as_bytes());
        }
    }
    assert!(fences.len() > 30, "{}", fences.len());
    let large = boss.submit(&vec![0; (64 << 10) + 1]).unwrap_err();
    assert!(large.to_string().contains("0 to 65536"), "{large}");
}

#[test]
fn the_examples_do_what_they_say() {
    let cluster = Cluster::new("ring");
    let mut out = Vec::new();
    leader::lead(&words(&cluster, 0, "one"), &mut out, 3).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("act under ")).count(), 3, "{text}");
    let mut out = Vec::new();
    let lines = ["a cup", "of tea"].map(str::to_owned).into_iter();
    jobs::work(&words(&cluster, 0, "two"), lines, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.lines().count() == 2 && text.contains("-1: A CUP") && text.contains("-2: OF TEA"), "{text}");
}
