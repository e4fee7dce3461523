//! Real daemons and real clients, each a process, set up for a demonstration or a measurement and gone when it is over; or
//! nodes in one process with their clients. Clients of other systems speak through [`System`].
#![allow(clippy::disallowed_methods, reason = "processes are where clocks, threads and waiting live")]
#![allow(missing_docs, reason = "the parts of programs, not a library for others")]

mod audience;
mod client;
pub mod clocks;
mod coordinator;
mod ends;
mod floods;
pub mod helper;
mod host;
mod hosted;
pub mod job;
pub mod judge;
mod message;
mod native;
#[cfg(feature = "network")]
pub mod network;
mod observer;
mod process;
mod receiver;
mod rotations;
mod round;
mod schedule;
mod scratch;
mod sender;
mod sequence;
mod signals;
mod small_disk;
pub mod spread;
mod stalls;
mod system;
mod times;
pub mod units;
mod usage;
mod watch;

pub use audience::Audience;
pub use consort_cargo::{cargo, library_for_tests, program, program_for_tests};
pub use floods::FloodPlan;
pub use hosted::Hosted;
pub use job::ClientAddress;
pub use judge::promised;
pub use message::{HEADER, Kind, Stamp};
pub use observer::{Heard, Task, Told, Visitor};
pub use process::{Line, Process, installed};
pub use receiver::Seen;
pub use rotations::Rotations;
pub use round::{Result as RoundResult, Round};
pub use schedule::Schedule;
pub use scratch::Scratch;
pub use signals::{seed_from_clock, stop_on_signals};
pub use small_disk::SmallDisk;
pub use stalls::Stalls;
pub use system::{Listener, Speaker, System, Take};
pub use times::{Quantiles, Times};

use consort_daemon::clock;
use consort_daemon::failure::{Code, Failure, Outcome, Trying};
use consort_daemon::local::LocalCluster;
use consort_daemon::runtime_dir::{Card, RuntimeDir};
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A receiver that gets no CPU time for a while on a crowded machine is slow, not wrong.
const CLIENT_OUTPUT: &str = "512MiB";

/// How long a daemon may take to serve its clients.
const START: u64 = 30_000_000_000;

/// Daemons on this machine, in a directory and a cluster of their own.
pub struct Testbed {
    // Dropped in this order: processes before the directory they live in.
    /// Those that are to run: one that ended by itself is a failure, one that was taken away is not here any more.
    daemons: BTreeMap<u16, Process>,
    /// Those that were asked to leave, until they have.
    leaving: Vec<Process>,
    lines: Receiver<Line>,
    tell: Sender<Line>,
    interrupted: Arc<AtomicBool>,
    cluster: String,
    nodes: u16,
    options: Vec<String>,
    /// Whether each of them is a process with a node that its clients will be threads of.
    embedded: bool,
    /// Where somebody else's daemons are, and their processes; none where they are ours.
    hosted: Option<hosted::Running>,
    directory: Scratch,
    /// How many processes were started so far; each is known by its number.
    started: usize,
}

impl Testbed {
    /// Starts `nodes` daemons with further options, and waits until each serves clients.
    pub fn start(nodes: u16, options: &[String]) -> Outcome<Self> {
        Self::start_all(nodes, options, false)
    }

    fn start_all(nodes: u16, options: &[String], embedded: bool) -> Outcome<Self> {
        let mut testbed = Self::new(nodes, options)?;
        testbed.embedded = embedded;
        for node in 1..=nodes {
            testbed.start_daemon(node)?;
        }
        testbed.await_ready(0..nodes.into())?;
        Ok(testbed)
    }

    fn new(nodes: u16, options: &[String]) -> Outcome<Self> {
        let (tell, lines) = channel();
        Ok(Self {
            daemons: BTreeMap::new(),
            leaving: Vec::new(),
            lines,
            tell,
            interrupted: watch_for_interrupt()?,
            cluster: unused_cluster(nodes),
            nodes,
            options: options.to_vec(),
            embedded: false,
            hosted: None,
            directory: Scratch::new()?,
            started: 0,
        })
    }

    /// What a node is to be, as options of a daemon.
    fn node_words(&self, node: u16) -> Vec<String> {
        let state = self.directory.path().join("state").display().to_string();
        let numbers = [node, self.nodes].map(|number| number.to_string());
        let fixed = ["--log", "warn", "--client-output", CLIENT_OUTPUT];
        let mut words = fixed.map(String::from).to_vec();
        let own =
            [("--cluster", &self.cluster), ("--state-dir", &state), ("--node", &numbers[0]), ("--nodes", &numbers[1])];
        words.extend(own.into_iter().flat_map(|(option, value)| [option.to_owned(), value.clone()]));
        words.extend_from_slice(&self.options);
        words
    }

    /// Starts a node's daemon; returns when.
    fn start_daemon(&mut self, node: u16) -> Outcome<u64> {
        let own = self.node_words(node);
        let program = if self.embedded { process::this_program()? } else { process::daemon_program()? };
        let (name, words) = match self.embedded {
            true => (format!("node-{node}"), helper::Task::Embed(own).words()?),
            false => (format!("daemon-{node}"), [vec!["daemon".into(), "--while-stdin-open".into()], own].concat()),
        };
        let began = clock::now_ns();
        let process = Process::start_program(self.started, &name, &program, &words, self.directory.path(), &self.tell)?;
        self.daemons.insert(node, process);
        self.started += 1;
        Ok(began)
    }

    /// Waits until the processes with these numbers serve clients. Those that end instead are noticed as failed.
    fn await_ready(&mut self, started: Range<usize>) -> Outcome {
        let deadline = clock::now_ns() + START;
        let mut waiting: BTreeSet<usize> = started.collect();
        while !waiting.is_empty() {
            let line = self.line(deadline, "the daemons to start")?;
            if line.text.is_some_and(|text| text.starts_with("ready")) {
                waiting.remove(&line.from);
            }
        }
        Ok(())
    }

    /// Ends a node's daemon as a crash does; returns when.
    pub fn kill(&mut self, node: u16) -> Outcome<u64> {
        let process = self.take(node)?;
        let at = clock::now_ns();
        drop(process);
        Ok(at)
    }

    /// Asks a node's daemon to leave in good order; returns when.
    pub fn dismiss(&mut self, node: u16) -> Outcome<u64> {
        let process = self.take(node)?;
        let at = clock::now_ns();
        process.signal(Signal::TERM)?;
        self.leaving.push(process);
        Ok(at)
    }

    /// Waits until those that were asked to leave have ended, and ended well.
    pub fn see_off(&mut self) -> Outcome {
        self.leaving.drain(..).try_for_each(Process::see_off)
    }

    /// Starts a node's daemon again and waits until it serves clients; returns when it was started. Not during a round,
    /// whose clients' lines it would miss.
    pub fn revive(&mut self, node: u16) -> Outcome<u64> {
        let began = self.start_daemon(node)?;
        self.await_ready(self.started - 1..self.started)?;
        Ok(began)
    }

    /// Stops a node's daemon where it stands, for a while; returns for how long it was in truth: who stops others may
    /// himself be late.
    pub fn pause(&mut self, node: u16, span: Duration) -> Outcome<Duration> {
        let process = self.daemons.get(&node).ok_or_else(|| absent(node))?;
        let from = clock::now_ns();
        process.signal(Signal::STOP)?;
        std::thread::sleep(span);
        process.signal(Signal::CONT)?;
        Ok(Duration::from_nanos(clock::now_ns() - from))
    }

    fn take(&mut self, node: u16) -> Outcome<Process> {
        self.daemons.remove(&node).ok_or_else(|| absent(node))
    }

    /// The process numbers of the daemons that are to run.
    pub fn daemon_ids(&self) -> Vec<u32> {
        match &self.hosted {
            Some(hosted) => hosted.ids.clone(),
            None => self.daemons.values().map(Process::id).collect(),
        }
    }

    /// The directory that goes away with the testbed.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Asks the first daemon from now on how long the token takes to go round.
    pub fn watch_rotations(&self) -> Outcome<Rotations> {
        if self.hosted.is_some() { Ok(Rotations::unheard()) } else { Rotations::watch(self.socket_path(1)) }
    }

    /// The node of which the client in a role with this number is one.
    const fn home(&self, index: u16) -> u16 {
        index % self.nodes + 1
    }

    /// Where the clients of a node connect.
    fn client_address(&self, node: u16) -> ClientAddress {
        let hosted = self.hosted.as_ref().and_then(|hosted| hosted.addresses.get(usize::from(node) - 1).cloned());
        hosted.unwrap_or_else(|| ClientAddress::Native(self.socket_path(node)))
    }

    /// Whether only members of a group may send to it: there, one process of a node both sends and receives.
    fn is_for_members(&self) -> bool {
        self.hosted.as_ref().is_some_and(|hosted| hosted.members_only)
    }

    /// The socket of a node's daemon.
    pub fn socket_path(&self, node: u16) -> PathBuf {
        self.runtime_dir().socket_file(node)
    }

    /// The daemons' cards.
    pub fn cards(&self) -> Vec<Card> {
        self.runtime_dir().running()
    }

    fn runtime_dir(&self) -> RuntimeDir {
        RuntimeDir::of(&self.directory.path().join("run"), &self.cluster)
    }

    /// The next line of any process; an error on Ctrl-C, when time is up, or when a daemon is gone.
    fn line(&mut self, deadline: u64, waiting_for: &str) -> Outcome<Line> {
        loop {
            self.check()?;
            match self.lines.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) if clock::now_ns() < deadline => {}
                Err(_) => return Err(Failure::new(format!("waited too long for {waiting_for}")).with(Code::Timeout)),
            }
        }
    }

    /// Sleeps until a time of the shared clock, unless something goes wrong before.
    pub fn sleep_until(&mut self, at: u64) -> Outcome {
        while let Some(left) = at.checked_sub(clock::now_ns()).filter(|left| *left > 0) {
            self.check()?;
            std::thread::sleep(Duration::from_nanos(left.min(50_000_000)));
        }
        Ok(())
    }

    /// An error on Ctrl-C, or when a daemon that is to run does not.
    pub fn check(&mut self) -> Outcome {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Failure::new("interrupted; all processes were ended").with(Code::Interrupted));
        }
        match self.daemons.values_mut().find_map(|daemon| daemon.has_ended().then(|| daemon.ended())) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Ends the daemons in good order.
    pub fn stop(mut self) {
        std::mem::take(&mut self.daemons).into_values().for_each(Process::stop);
    }
}

fn absent(node: u16) -> Failure {
    Failure::new(format!("the daemon of node {node} does not run"))
}

/// The lines of a text, without the ends; a last one without an end counts too.
pub fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let count = if text.is_empty() { 0 } else { usize::MAX };
    text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n').take(count)
}

/// Ctrl-C, SIGTERM and the end of the terminal set a flag, so that everything is put away on the way out. All testbeds of this
/// program share it: what comes between two of them is heard by the next.
fn watch_for_interrupt() -> Outcome<Arc<AtomicBool>> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(flag) = FLAG.get() {
        return Ok(Arc::clone(flag));
    }
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).trying(|| "cannot watch for Ctrl-C".into())?;
    }
    Ok(Arc::clone(FLAG.get_or_init(|| flag)))
}

/// A cluster name of our own, whose ports nobody uses.
fn unused_cluster(nodes: u16) -> String {
    let name = |attempt: u32| format!("testbed-{}-{attempt}", std::process::id());
    let free = |name: &String| {
        let addresses = LocalCluster::new(name, nodes);
        (1..=nodes)
            .flat_map(|node| [addresses.token(node), addresses.data(node)])
            .all(|address| UdpSocket::bind(address).is_ok())
    };
    (0..100).map(name).find(free).unwrap_or_else(|| name(0))
}
