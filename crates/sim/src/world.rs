//! The world: virtual time, one heap of what will happen, hosts and the network between them.
use crate::checkers::{Bounds, Violation};
use crate::clocks::Clocks;
use crate::digest::TraceDigest;
use crate::fault::{Activation, Disk, Fault};
use crate::host::SimHost;
use crate::incarnations::Incarnations;
use crate::machine::{Machine, SubmitAnswer};
use crate::message::{Mark, Process, ProcessIncarnation};
use crate::network::{Network, SimSocket};
use crate::plan::RunPlan;
use crate::recorder::Recorder;
use crate::story::RunStory;
use crate::trace::{InstallRecord, Occurrence, PerProcess, Trace};
use crate::workload::WorkloadSender;
use bytes::Bytes;
use consort_order::Link;
use consort_types::{Class, Duration, Instant, MemberId, NodeId, Rng, Service, Ticket};
use consort_wire::Lane;
use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};

mod end;
mod faults;
mod hosts;
mod streams;
mod wire;

pub use crate::recorder::Totals;

/// How often gauges are looked at.
const SAMPLE: Duration = Duration::from_millis(20);
/// How long a run goes on after everything was delivered, so that memory can be given back.
const REST: Duration = Duration::from_secs(1);
/// How long nothing may be delivered, after faults have stopped and with something owed, before the run is given up. So
/// long all that live may take to find each other again: longer than the longest quarantine of a run.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is kept of a run besides its verdict.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// What gauges may show.
    pub bounds: Bounds,
    /// Tell the story.
    pub story: bool,
    /// Keep the trace.
    pub trace: bool,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// Promises that were broken; the run stops at the first event that breaks any.
    pub violations: Vec<Violation>,
    /// A hash of everything that was sent, delivered, installed and submitted, with its time.
    pub digest: TraceDigest,
    /// How long it lasted.
    pub simulated: Duration,
    /// How long after the faults had stopped the last view was installed.
    pub healed: Duration,
    /// How much it did.
    pub totals: Totals,
    /// Datagrams that links lost, doubled, delayed or changed, and those dropped at full sockets.
    pub mishaps: u64,
    /// Its story, if that was asked for.
    pub story: Option<RunStory>,
    /// Its trace, if that was asked for.
    pub trace: Option<Trace>,
}

/// A datagram on its way, as a filter sees it.
#[derive(Clone, Copy, Debug)]
pub struct DatagramView<'a> {
    /// When it was sent.
    pub at: Instant,
    /// By whom.
    pub from: NodeId,
    /// To whom. A multicast is seen once for each receiver.
    pub to: NodeId,
    /// On which lane.
    pub lane: Lane,
    /// All of it.
    pub bytes: &'a Bytes,
}

/// Says of each datagram how much later than usual it arrives, or with `None` that it is lost. For tests that break one
/// packet on purpose.
pub type Fate = Box<dyn FnMut(DatagramView<'_>) -> Option<Duration>>;

/// Makes what runs on a host that starts again, under a new name; none, and the host stays down.
pub type Maker<'a, M> = Box<dyn Fn(MemberId) -> Option<M> + 'a>;

/// See the module.
pub struct SimWorld<'a, M> {
    machines: Vec<M>,
    maker: Option<Maker<'a, M>>,
    hosts: Vec<SimHost>,
    incarnations: Incarnations,
    /// The view that each host is in.
    views: Vec<Option<InstallRecord>>,
    network: Network,
    streams: streams::Streams,
    /// Hosts whose connection broke and has not come up again.
    dialled: BTreeSet<(u16, u16)>,
    heap: BinaryHeap<Scheduled>,
    tie: u64,
    senders: Vec<WorkloadSender>,
    /// How many messages tests submitted.
    by_hand: PerProcess<u64>,
    plan: RunPlan,
    active: Vec<Fault>,
    /// Those of them that look at what a datagram is, not only at its way.
    sieves: Vec<Fault>,
    /// How many datagrams they took.
    sifted: u64,
    chance: Rng,
    /// How much of what is being written a crash leaves.
    tears: Rng,
    /// A fault waits for somebody to be granted the token.
    lies_in_wait: bool,
    /// Whom faults have struck that chose when they began.
    victims: Vec<(u32, u16)>,
    clocks: Clocks,
    fate: Option<Fate>,
    recorder: Recorder,
    settled: bool,
}

#[derive(Debug)]
enum WorldEvent {
    Arrive { host: u16, socket: SimSocket, bytes: Bytes },
    Taken { host: u16, socket: SimSocket, bytes: Bytes },
    Wake { host: u16 },
    Start { host: u16 },
    Again { host: u16 },
    Tick { sender: u16 },
    Begin { fault: u32 },
    End { fault: u32 },
    Leave { host: u16, back: Option<Instant> },
    Persisted { incarnation: ProcessIncarnation, ticket: Ticket, sync: bool },
    Streamed { from: u16, to: u16, breaks: u32, bytes: Bytes },
    Resend { from: u16, to: u16, breaks: u32 },
    Link { host: u16, peer: u16, link: Link },
    Redial { a: u16, b: u16 },
    Trimmed { incarnation: ProcessIncarnation, up_to: Ticket },
    Sample,
    Calm,
}

#[derive(Debug)]
struct Scheduled {
    at: Instant,
    tie: u64,
    happens: WorldEvent,
}

impl Ord for Scheduled {
    /// The heap gives its greatest first: that is the earliest, and of equal ones the one that was scheduled first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.tie).cmp(&(self.at, self.tie))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

impl<'a, M: Machine> SimWorld<'a, M> {
    /// A world before its first event, with one machine for each node of the plan, in their order. Every host starts at
    /// once, except where a fault makes it late.
    pub fn new(plan: RunPlan, options: RunOptions, machines: Vec<M>) -> Self {
        let mut rng = Rng::new(plan.seed ^ 0x0057_05ee_d0d0);
        let nodes = machines.len().min(usize::from(plan.nodes));
        let sender = |sender| WorkloadSender::new(sender, plan.datagram, rng.fork(7));
        let senders: Vec<_> = plan.senders.iter().cloned().map(sender).collect();
        let story = options.story.then(|| RunStory::new(plan.nodes));
        let mut world = Self {
            machines,
            maker: None,
            hosts: (0..nodes).map(|_| SimHost::new(plan.host.clone())).collect(),
            incarnations: Incarnations::new(&plan.members()[..nodes]),
            views: vec![None; nodes],
            network: Network::new(plan.network.clone(), nodes, &mut rng),
            streams: streams::Streams::new(),
            dialled: BTreeSet::new(),
            heap: BinaryHeap::new(),
            tie: 0,
            by_hand: PerProcess::default(),
            senders,
            active: Vec::new(),
            sieves: Vec::new(),
            sifted: 0,
            chance: Rng::new(plan.seed ^ 0x0005_1e7e),
            tears: Rng::new(plan.seed ^ 0x7ea5),
            lies_in_wait: false,
            victims: Vec::new(),
            clocks: Clocks::new(plan.drift.clone()),
            fate: None,
            recorder: Recorder::new(options.bounds, story, options.trace.then(Trace::default)),
            settled: false,
            plan,
        };
        let summary = || world.plan.summary();
        world.recorder.tell(None, ' ', summary);
        world.schedule_plan();
        world
    }

    /// From now on hosts that crashed or were left start again as their faults say. Without this they never do.
    pub fn restart_with(mut self, maker: impl Fn(MemberId) -> Option<M> + 'a) -> Self {
        self.maker = Some(Box::new(maker));
        self
    }

    /// Runs to the end, or to the first broken promise.
    pub fn run(mut self) -> RunOutcome {
        while self.recorder.violations.is_empty() && !self.is_over() {
            self.step();
        }
        self.finish()
    }

    /// Runs until a time, or to the first broken promise.
    pub fn run_until(&mut self, end: Instant) {
        while self.recorder.violations.is_empty() && self.heap.peek().is_some_and(|next| next.at <= end) {
            self.step();
        }
        self.recorder.now = self.recorder.now.max(end);
    }

    /// Demands what is owed at the end, and returns what came of it all.
    pub fn finish(mut self) -> RunOutcome {
        if self.recorder.violations.is_empty() {
            self.recorder.record(Process::WORLD, Occurrence::Quiet);
            self.recorder.end();
            self.sample();
        }
        if !self.recorder.violations.is_empty() {
            self.tell_states();
        }
        let overflowed: u64 = self.hosts.iter().map(|host| host.overflowed).sum();
        let healed = self.recorder.changed.since(self.plan.calm);
        RunOutcome {
            healed,
            violations: self.recorder.violations,
            digest: self.recorder.digest,
            simulated: self.recorder.now.since(Instant::ZERO),
            totals: self.recorder.totals,
            mishaps: self.network.counts().faults() + overflowed + self.sifted,
            story: self.recorder.story,
            trace: self.recorder.trace,
        }
    }

    /// Ends the story of a red run with what every node did last.
    fn tell_states(&mut self) {
        let now = self.recorder.now;
        for (machine, node) in self.machines.iter().zip(0..) {
            let mut gauges = String::new();
            machine.observe(&mut |name, value| {
                if value > 0 {
                    gauges += &format!(", {name} {value}");
                }
            });
            let local = self.clocks.read(node, now);
            self.recorder.tell(Some(NodeId(node)), '=', || format!("{}{gauges}", machine.describe(local)));
        }
    }

    /// The present.
    pub const fn now(&self) -> Instant {
        self.recorder.now
    }

    /// What runs on a node.
    pub fn machine(&self, node: NodeId) -> &M {
        &self.machines[usize::from(node.0)]
    }

    /// How much was done so far.
    pub const fn totals(&self) -> Totals {
        self.recorder.totals
    }

    /// A gauge of a node; 0 where there is none of that name.
    pub fn gauge(&self, node: NodeId, name: &str) -> u64 {
        let mut found = 0;
        self.machine(node).observe(&mut |known, value| {
            if known == name {
                found = value;
            }
        });
        found
    }

    /// Decides from now on which datagrams pass.
    pub fn filter(&mut self, mut passes: impl FnMut(DatagramView<'_>) -> bool + 'static) {
        self.fate(move |frame| passes(frame).then_some(Duration::ZERO));
    }

    /// Decides from now on which datagrams pass, and how much later than usual.
    pub fn fate(&mut self, fate: impl FnMut(DatagramView<'_>) -> Option<Duration> + 'static) {
        self.fate = Some(Box::new(fate));
    }

    /// A host crashes now, and stays down.
    pub fn kill(&mut self, node: NodeId) {
        self.on_crash(node.0, Disk::Kept, 0);
    }

    /// Submits one message now, as a process that is no sender of the plan.
    ///
    /// # Errors
    /// The machine's answer, where it did not accept the message.
    pub fn submit(
        &mut self,
        process: Process,
        class: Class,
        service: Service,
        len: usize,
    ) -> Result<Mark, SubmitAnswer> {
        let mark = Mark { origin: process, count: *self.by_hand.of(process) + 1 };
        let answer = self.hand_over(mark, class, service, len);
        self.drain(process.node.0);
        self.schedule_wake(process.node.0);
        let SubmitAnswer::Accepted(_) = answer else { return Err(answer) };
        *self.by_hand.of(process) = mark.count;
        Ok(mark)
    }

    fn schedule_plan(&mut self) {
        for host in 0..self.hosts.len() as u16 {
            let late = |activation: &&Activation| activation.fault == Fault::Late { node: NodeId(host) };
            let at = self.plan.faults.iter().find(late).map_or(Instant::ZERO, |activation| activation.until);
            self.schedule(at, WorldEvent::Start { host });
        }
        for sender in 0..self.senders.len() {
            let at = self.senders[sender].next(Instant::ZERO);
            self.schedule(at, WorldEvent::Tick { sender: sender as u16 });
        }
        for fault in 0..self.plan.faults.len() {
            let at = self.plan.faults[fault].from;
            self.schedule(at, WorldEvent::Begin { fault: fault as u32 });
        }
        self.schedule(Instant::ZERO + SAMPLE, WorldEvent::Sample);
        self.schedule(self.plan.calm, WorldEvent::Calm);
    }

    fn schedule(&mut self, at: Instant, happens: WorldEvent) {
        self.tie += 1;
        self.heap.push(Scheduled { at, tie: self.tie, happens });
    }

    fn is_over(&self) -> bool {
        let now = self.recorder.now;
        if now < self.plan.end || now < self.plan.calm {
            return false;
        }
        let latest = self.recorder.latest.max(self.plan.calm);
        if self.settled { now.since(latest.max(self.recorder.changed)) >= REST } else { now.since(latest) >= PATIENCE }
    }

    fn step(&mut self) {
        let Some(Scheduled { at, happens, .. }) = self.heap.pop() else { return };
        self.recorder.now = at;
        self.recorder.totals.events += 1;
        match happens {
            WorldEvent::Arrive { host, socket, bytes } => self.on_arrive(host, socket, bytes),
            WorldEvent::Taken { host, socket, bytes } => self.on_taken(host, socket, bytes),
            WorldEvent::Wake { host } => self.on_wake(host),
            WorldEvent::Start { host } => self.on_start(host),
            WorldEvent::Again { host } => self.on_down_end(host, false),
            WorldEvent::Tick { sender } => self.on_tick(sender),
            WorldEvent::Begin { fault } => self.on_begin(fault),
            WorldEvent::End { fault } => self.on_end(fault),
            WorldEvent::Leave { host, back } => self.on_leave(host, back),
            WorldEvent::Persisted { incarnation, ticket, sync } => self.on_persisted(incarnation, ticket, sync),
            WorldEvent::Streamed { from, to, breaks, bytes } => self.on_streamed(from, to, breaks, bytes),
            WorldEvent::Resend { from, to, breaks } => self.on_resend(from, to, breaks),
            WorldEvent::Link { host, peer, link } => self.on_link(host, peer, link),
            WorldEvent::Redial { a, b } => self.on_redial(a, b),
            WorldEvent::Trimmed { incarnation, up_to } => self.on_trimmed(incarnation, up_to),
            WorldEvent::Sample => self.on_sample(),
            WorldEvent::Calm => self.on_calm(),
        }
    }
}
