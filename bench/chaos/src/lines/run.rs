//! One run: daemons, senders and receivers at all nodes of a network, and the verdict.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use consort_sim::link::LinkModel;

use super::content::{Checker, Follower, Lines, share};
use super::options::{Cut, Options};
use consort_daemon::usage::resident;
use consort_testbed::network::memory::{Course, Growing, mib};
use consort_testbed::network::namespace::NetworkError;
use consort_testbed::network::process::{Failed, Process};
use consort_testbed::network::program::Program;
use consort_testbed::network::switch::{Ended, Report};
use consort_testbed::network::{Network, Plan};

/// How often the run is looked after.
const STEP: Duration = Duration::from_millis(50);
/// How often memory is sampled, and how often progress is printed.
const SAMPLE: Duration = Duration::from_millis(100);
const PROGRESS: Duration = Duration::from_secs(2);
/// How long daemons may need to serve clients, and receivers to join.
const START: Duration = Duration::from_secs(20);
/// How long nothing at all may arrive before the run is given up.
const STALL: Duration = Duration::from_secs(30);
/// How long a daemon may need to end when told to.
const END: Duration = Duration::from_secs(10);

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no network, or it refused something.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The switch is gone.
    #[error(transparent)]
    Switch(#[from] Ended),
    /// A process ended badly.
    #[error(transparent)]
    Process(#[from] Failed),
    /// A node received what it should not have.
    #[error("node {node} received wrongly: {reason}")]
    Received {
        /// Counted from 1.
        node: usize,
        /// What.
        reason: std::io::Error,
    },
    /// The nodes did not receive the same.
    #[error("the nodes received different sequences: {0}")]
    Differ(String),
    /// A daemon's memory did not stay flat.
    #[error("daemon {node}: {growing}")]
    Memory {
        /// Counted from 1.
        node: usize,
        /// How.
        growing: Growing,
    },
    /// Something did not happen in time.
    #[error("{0}")]
    TooLate(String),
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,
}

/// What a node did.
#[derive(Debug)]
pub struct NodeResult {
    /// The SHA-256 of all it received.
    pub digest: String,
    /// How many lines.
    pub received: u64,
    /// What its daemon held.
    pub memory: Course,
    /// Frames its kernel dropped before the switch could read them.
    pub dropped_before: u64,
}

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// From the senders' start to the last line at the slowest node.
    pub took: Duration,
    /// Each node's.
    pub nodes: Vec<NodeResult>,
    /// The switch's.
    pub report: Report,
}

/// All that runs at one node. Fields are dropped, and so processes end, from clients to daemon.
struct Node {
    sender: Option<Process>,
    receiver: Process,
    follower: Follower,
    daemon: Process,
    memory: Course,
}

/// A run under way.
pub struct Run<'a> {
    options: &'a Options,
    network: &'a Network,
    program: &'a Program,
    stop: Arc<AtomicBool>,
    nodes: Vec<Node>,
}

/// The plan of the network that a run needs.
pub fn plan(options: &Options, seed: u64) -> Plan {
    Plan { nodes: options.nodes, mtu: options.mtu, seed, ethernet: None }
}

impl<'a> Run<'a> {
    /// Starts daemons and receivers, over links that are still perfect.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn start(
        options: &'a Options,
        seed: u64,
        network: &'a Network,
        program: &'a Program,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, RunError> {
        let mut daemons =
            (0..options.nodes).map(|node| program.daemon(network, node)).collect::<Result<Vec<_>, _>>()?;
        await_all("its daemon serves clients", &stop, &mut daemons, |node, daemon| {
            daemon.runs()?;
            Ok(program.serves(node))
        })?;
        let nodes = daemons.into_iter().enumerate().map(|(node, daemon)| {
            let (receiver, output) = program.receiver(network, node, options.lines)?;
            let senders = (0..options.nodes).map(|sender| lines(options, seed, sender)).collect();
            let follower = Follower::new(output, Checker::new(senders));
            Ok::<_, NetworkError>(Node { sender: None, receiver, follower, daemon, memory: Course::default() })
        });
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let mut run = Self { options, network, program, stop, nodes };
        run.await_joined()?;
        Ok(run)
    }

    /// Makes the network bad, sends everything, and waits until all have received it.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn send(&mut self) -> Result<Duration, RunError> {
        self.network.set_all(&self.options.model)?;
        for node in 0..self.nodes.len() {
            self.nodes[node].sender = Some(self.program.sender(self.network, node)?);
        }
        self.sample();
        let mut watch = Watch::start(&self.options.cuts);
        while !self.step()? {
            watch.keep(self)?;
            std::thread::sleep(STEP);
        }
        self.sample();
        Ok(watch.start.elapsed())
    }

    /// The verdict, and the daemons' orderly end.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn finish(self, took: Duration) -> Result<Outcome, RunError> {
        let report = self.network.report()?;
        self.network.set_all(&LinkModel::default())?;
        let mut nodes = Vec::new();
        for (number, node) in self.nodes.into_iter().enumerate() {
            node.daemon.end(END)?;
            node.memory.is_flat().map_err(|growing| RunError::Memory { node: number + 1, growing })?;
            let checker = node.follower.checker();
            let dropped_before = self.network.dropped_before(number)?;
            let (digest, received) = (checker.digest(), checker.received());
            nodes.push(NodeResult { digest, received, memory: node.memory, dropped_before });
        }
        agree(&nodes)?;
        Ok(Outcome { took, nodes, report })
    }

    /// Waits until every receiver has said that all of them are in the group.
    fn await_joined(&mut self) -> Result<(), RunError> {
        let all_joined = format!("; {} member", self.nodes.len());
        await_all("it sees all receivers in the group", &self.stop, &mut self.nodes, |_, node| {
            node.daemon.runs()?;
            node.receiver.runs()?;
            Ok(node.receiver.has_said(&all_joined))
        })
    }

    /// Looks after every process, and reads what was received. True when all is received.
    fn step(&mut self) -> Result<bool, RunError> {
        interrupted(&self.stop)?;
        let mut done = true;
        for (number, node) in self.nodes.iter_mut().enumerate() {
            node.daemon.runs()?;
            let ended = node.receiver.has_succeeded()?;
            node.follower.follow().map_err(|reason| RunError::Received { node: number + 1, reason })?;
            let sent = node.sender.as_mut().map_or(Ok(false), Process::has_succeeded)?;
            done &= ended && sent;
        }
        Ok(done)
    }

    /// Lines received at the slowest node.
    fn slowest(&self) -> u64 {
        self.nodes.iter().map(|node| node.follower.checker().received()).min().unwrap_or(0)
    }

    /// Samples the daemons' memory.
    fn sample(&mut self) {
        for node in &mut self.nodes {
            resident(node.daemon.id()).into_iter().for_each(|bytes| node.memory.push(bytes));
        }
    }

    fn progress(&self, since: Duration) {
        let most = self.nodes.iter().filter_map(|node| node.memory.summary()).map(|(_, last, _)| last).max();
        let (slowest, total, mib) = (self.slowest(), self.options.lines, mib(most.unwrap_or(0)));
        println!(
            "{:7.1} s  {slowest:>9} of {total} lines at the slowest node, largest daemon {mib} MiB",
            since.as_secs_f64()
        );
    }
}

/// The lines that a node sends in a run.
pub fn lines(options: &Options, seed: u64, node: usize) -> Lines {
    Lines::new(node, share(options.lines, options.nodes, node), seed)
}

/// The same sequence everywhere, and all of it.
fn agree(nodes: &[NodeResult]) -> Result<(), RunError> {
    let Some(first) = nodes.first() else { return Ok(()) };
    if nodes.iter().all(|node| (&node.digest, node.received) == (&first.digest, first.received)) {
        return Ok(());
    }
    let each: Vec<_> = nodes.iter().map(|node| format!("{} lines {}", node.received, node.digest)).collect();
    Err(RunError::Differ(each.join("; ")))
}

fn interrupted(stop: &AtomicBool) -> Result<(), RunError> {
    if stop.load(Ordering::Relaxed) { Err(RunError::Interrupted) } else { Ok(()) }
}

/// Waits until something is true of all.
fn await_all<T>(
    what: &str,
    stop: &AtomicBool,
    all: &mut [T],
    mut is_true: impl FnMut(usize, &mut T) -> Result<bool, RunError>,
) -> Result<(), RunError> {
    let deadline = Instant::now() + START;
    for (node, one) in all.iter_mut().enumerate() {
        while !is_true(node, one)? {
            interrupted(stop)?;
            if Instant::now() > deadline {
                return Err(RunError::TooLate(format!(
                    "node {} was waited for in vain: {what} (not within {START:?})",
                    node + 1
                )));
            }
            std::thread::sleep(STEP);
        }
    }
    Ok(())
}

/// What happens by the clock while lines flow.
struct Watch {
    start: Instant,
    sampled: Instant,
    printed: Instant,
    grown: Instant,
    lines: u64,
    /// Cuts to come (not yet begun) and those that hold.
    to_come: Vec<Cut>,
    holding: Vec<Cut>,
}

impl Watch {
    fn start(cuts: &[Cut]) -> Self {
        let now = Instant::now();
        Self {
            start: now,
            sampled: now,
            printed: now,
            grown: now,
            lines: 0,
            to_come: cuts.to_vec(),
            holding: Vec::new(),
        }
    }

    fn keep(&mut self, run: &mut Run<'_>) -> Result<(), RunError> {
        let now = Instant::now();
        if now - self.sampled >= SAMPLE {
            self.sampled = now;
            run.sample();
        }
        if now - self.printed >= PROGRESS {
            self.printed = now;
            run.progress(now - self.start);
        }
        self.cut(run)?;
        self.in_time(now, run)
    }

    /// Begins and heals cuts.
    fn cut(&mut self, run: &Run<'_>) -> Result<(), RunError> {
        let since = self.start.elapsed();
        for cut in self.to_come.extract_if(.., |cut| cut.start <= since) {
            run.network.set(cut.from, cut.to, &LinkModel { cut: true, ..run.options.model.clone() })?;
            self.holding.push(cut);
        }
        let healed: Vec<_> = self.holding.extract_if(.., |cut| cut.start + cut.length <= since).collect();
        for Cut { from, to, .. } in healed {
            let cut = self.holding.iter().any(|other| (other.from, other.to) == (from, to));
            run.network.set(from, to, &LinkModel { cut, ..run.options.model.clone() })?;
        }
        Ok(())
    }

    /// Gives up where nothing comes any more, or not enough.
    fn in_time(&mut self, now: Instant, run: &Run<'_>) -> Result<(), RunError> {
        let lines = run.slowest();
        if lines > self.lines {
            (self.lines, self.grown) = (lines, now);
        }
        let missing = format!("{lines} of {} lines at the slowest node", run.options.lines);
        if now - self.grown > STALL {
            return Err(RunError::TooLate(format!("nothing arrived for {STALL:?}: {missing}")));
        }
        if now - self.start > run.options.deadline {
            return Err(RunError::TooLate(format!("not done within {:?}: {missing}", run.options.deadline)));
        }
        Ok(())
    }
}
