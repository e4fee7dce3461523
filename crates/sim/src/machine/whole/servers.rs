//! Servers with a replicated state, and those that call them. They outlive the nodes that they are connected to; what ends
//! them are faults of their own, and crashes of the machines that they are on.
//!
//! They are on an order that lasts, or are durable copies, which keep their log themselves, or have their history in memory.
mod commands;
mod directory;
mod faults;
mod flaw;
mod forgetting;
mod lasting;
mod links;
mod process;

pub use flaw::ServerFlaw;

use super::roaming_sessions::{HomeTurn, RoamingHome};
use crate::plan::RunPlan;
use crate::trace::{REGISTERS, RegisterCommand, RegisterDeed, ReplicaRecord, ReplicaStep};
use consort_replica::simulated::durable;
use consort_replica::simulated::lasting::Engine;
use consort_types::{Duration, GroupName, Instant, MemberId, NodeId, Rng};
use directory::Directory;
use lasting::{Beginning, Here, Kind, Settings};
use process::Process;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

pub(super) use links::ServerLinks;

/// In this share of the runs there are servers.
const SHARE: f64 = 0.3;
/// No more calls and reads of a server are under way.
const UNDER_WAY: usize = 8;
/// How many turns are between two backups of the directories.
const BACKUP: u64 = 150;

/// Does something to what servers are made of, before they start: for breaking it on purpose.
#[derive(Clone, Default)]
pub struct ServerTouch {
    /// To each engine.
    pub engine: Option<Rc<dyn Fn(Engine) -> Engine>>,
    /// To that of each log that a durable copy keeps.
    pub durable: Option<Rc<dyn Fn(durable::Engine) -> durable::Engine>>,
    /// To their driver.
    pub flaw: Option<ServerFlaw>,
}

impl fmt::Debug for ServerTouch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTouch").field("flaw", &self.flaw).finish_non_exhaustive()
    }
}

/// What the order is like that servers rest on.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderBelow {
    /// The daemons keep their log.
    pub lasts: bool,
    /// Each part of a network may deliver the rest of a common view in an order of its part. A server in memory that took a
    /// command before the view closed then differs from those that took it in another part.
    pub closes_apart: bool,
}

/// The servers of a run, shared by all nodes.
#[derive(Clone, Debug)]
pub struct Servers {
    shared: Rc<RefCell<Fleet>>,
    /// When all nodes crash at once, if they do.
    blackout: Option<Instant>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Fleet {
    rng: Rng,
    nodes: u16,
    calm: Instant,
    /// The true time.
    pub time: Instant,
    servers: Vec<Server>,
    touch: ServerTouch,
    settings: Settings,
    /// Why servers ended that should not have.
    pub wrong: Vec<String>,
    /// How many starts, calls, directories and tokens there were.
    made: u64,
    turns: u64,
    /// The share of crashes of nodes that are crashes of their machines.
    machines: f64,
    /// How long commands are, at most.
    long: u64,
}

/// One of them.
#[derive(Debug)]
struct Server {
    /// On which node's machine it is.
    machine: NodeId,
    /// It may lose its directory: it is one of a minority.
    forgetful: bool,
    directory: Directory,
    backup: Directory,
    process: Option<Process>,
    home: RoamingHome,
    /// When it starts again.
    down_until: Instant,
    /// What an operator says at its next start.
    takes: Option<u16>,
    /// It reads nothing until then.
    stalled: Option<Instant>,
}

/// What a node does for a server at its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerDeed {
    Nothing,
    Connect,
    /// Its connection may have something to do.
    Go,
}

impl Servers {
    /// Those of a run, if it has any.
    pub fn draw(plan: &RunPlan, order: OrderBelow) -> Option<Self> {
        Rng::new(plan.seed).fork(0x5e71).chance(SHARE).then(|| Self::new(plan, order, ServerTouch::default()))
    }

    /// Those of a run that has some.
    pub fn new(plan: &RunPlan, order: OrderBelow, touch: ServerTouch) -> Self {
        let mut rng = Rng::new(plan.seed).fork(0x5e72);
        let count = [1, 2, 3, 3, 3, 4, 5][rng.below(7) as usize] as u16;
        let may_be = touch.durable.is_none() && !order.closes_apart;
        let in_memory = may_be && Rng::new(plan.seed).fork(0x5e74).chance(0.4);
        let kind = match order.lasts {
            true => Kind::Lasting,
            false if in_memory => Kind::Forgetting,
            false => Kind::Durable,
        };
        let group = GroupName::new(b"registers").unwrap_or_else(|error| unreachable!("{error}"));
        let settings = Settings {
            server: 0,
            group,
            copies: count,
            checkpoint_every: [10_000, 5, 20, 60][rng.below(4) as usize],
            origins: [4_096, 2 * usize::from(count) + 1][rng.below(2) as usize],
            flaw: touch.flaw,
            kind,
        };
        let forgetful = rng.below(u64::from(count));
        let minority = u64::from(count).div_ceil(2) - 1;
        let server = |at: u16| {
            let machine = NodeId(at % plan.nodes);
            let is_forgetful = kind != Kind::Forgetting && (u64::from(at) + forgetful) % u64::from(count) < minority;
            Server::new(machine, is_forgetful, u128::from(at) + 1)
        };
        let servers = (0..count).map(server).collect();
        let (machines, long) = ([0.0, 0.3, 1.0][rng.below(3) as usize], [1, 100, 4_000][rng.below(3) as usize]);
        let blackout = (!plan.faults.is_empty() && rng.chance(0.4)).then(|| {
            let last = plan.calm.0 - 1_200_000_000;
            Instant(rng.between(2_100_000_000, last))
        });
        let (made, turns) = (u64::from(count), 0);
        let (nodes, calm, time) = (plan.nodes, plan.calm, Instant::ZERO);
        let fleet =
            Fleet { rng, nodes, calm, time, servers, touch, settings, wrong: Vec::new(), made, turns, machines, long };
        Self { shared: Rc::new(RefCell::new(fleet)), blackout }
    }

    /// The same where everything never crashes at once.
    #[must_use]
    pub fn without_blackout(self) -> Self {
        Self { blackout: None, ..self }
    }

    /// When everything is to crash at once, if it is, and for how long.
    pub fn blackout(&self) -> Option<(Instant, Duration)> {
        let at = self.blackout?;
        Some((at, Duration::from_millis(50 + at.0 % 700)))
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Fleet) -> T) -> T {
        act(&mut self.shared.borrow_mut())
    }
}

impl Server {
    fn new(machine: NodeId, forgetful: bool, mark: u128) -> Self {
        Self {
            machine,
            forgetful,
            directory: Directory { mark, ..Directory::default() },
            backup: Directory::default(),
            process: None,
            home: RoamingHome::new(machine),
            down_until: Instant::ZERO,
            takes: None,
            stalled: None,
        }
    }
}

impl Fleet {
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether the daemons keep the log.
    pub fn lasts(&self) -> bool {
        self.settings.kind == Kind::Lasting
    }

    const fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// Which server a client of this incarnation is, if it still is one.
    pub fn at_link(&self, me: MemberId, seat: usize) -> Option<usize> {
        self.servers.iter().position(|server| server.home.link == Some((me, seat)))
    }

    pub fn set_link(&mut self, at: usize, me: MemberId, seat: usize) {
        self.servers[at].home.link = Some((me, seat));
    }

    pub fn link(&self, at: usize) -> Option<(MemberId, usize)> {
        self.servers[at].home.link
    }

    pub fn is_stalled(&self, at: usize) -> bool {
        self.servers[at].stalled.is_some()
    }

    /// What it says of itself since it was asked last.
    pub fn told(&mut self, at: usize) -> Vec<ReplicaRecord> {
        let server = &mut self.servers[at];
        let told = server.process.as_mut().map_or_else(Vec::new, Process::told);
        if told.iter().any(|step| step.step == ReplicaStep::Serves) {
            server.takes = None;
        }
        told
    }

    /// Does something with the process of a server, where it acts.
    fn process<T>(&mut self, at: usize, node: u16, act: impl FnOnce(&mut Process, &mut Here<'_>) -> T) -> Option<T> {
        let token = u128::from(self.number()) << 32 | 1;
        let now = self.time;
        let server = &mut self.servers[at];
        let mut here = Here { now, node, directory: &mut server.directory, token };
        server.process.as_mut().map(|process| act(process, &mut here))
    }

    /// A node looks after a server. What the server has to report comes with it.
    pub fn turn(&mut self, at: usize, me: MemberId, told: &mut Vec<ReplicaRecord>) -> ServerDeed {
        let calm = self.time >= self.calm;
        if self.servers[at].process.is_none() {
            if self.time >= self.servers[at].down_until || calm {
                self.start(at, told);
            }
            return ServerDeed::Nothing;
        }
        let server = &mut self.servers[at];
        match server.home.turn(me, self.nodes) {
            HomeTurn::Elsewhere => return ServerDeed::Nothing,
            HomeTurn::New => {
                server.lose();
                return ServerDeed::Connect;
            }
            HomeTurn::Here => {}
        }
        if server.stalled.is_some_and(|until| calm || self.time >= until) {
            server.stalled = None;
        }
        if !calm {
            self.disturb(at, told);
        }
        if self.servers[at].process.is_some() {
            self.work(at, me, calm, told);
        }
        ServerDeed::Go
    }

    /// A server starts with what its directory has.
    fn start(&mut self, at: usize, told: &mut Vec<ReplicaRecord>) {
        let start = self.number();
        let settings = Settings { server: at as u16, ..self.settings.clone() };
        let server = &mut self.servers[at];
        let beginning = Beginning { now: self.time, start, takes: server.takes };
        let process = Process::start(settings, &mut server.directory, &beginning, &self.touch);
        server.process = Some(process);
        server.home.leave(server.machine);
        told.extend(self.told(at));
    }

    /// Callers call, time passes, and checkpoints are fetched.
    fn work(&mut self, at: usize, me: MemberId, calm: bool, told: &mut Vec<ReplicaRecord>) {
        let node = me.node.0;
        if !calm && self.rng.chance(0.2) {
            let calls = self.rng.below(4);
            (0..calls).for_each(|_| self.call(at));
        }
        if self.process(at, node, Process::pass).is_none() {
            return;
        }
        let (time, server) = (self.time, &mut self.servers[at]);
        let begun = server.process.as_mut().map_or(Ok(()), |process| process.begin_fetch(time, &mut self.rng));
        if let Err(end) = begun {
            return self.end(at, &end, told);
        }
        while let Some(donor) = self.servers[at].process.as_mut().and_then(|process| process.fetched_from(time)) {
            let donor = self.servers.get(usize::from(donor)).filter(|donor| donor.process.is_some());
            let breaks_off = self.rng.chance(0.2);
            let newest = donor.and_then(|donor| donor.directory.whole().next_back().cloned()).filter(|_| !breaks_off);
            self.process(at, node, |process, here| process.restore(newest, here));
        }
    }

    fn call(&mut self, at: usize) {
        let call = self.number();
        let (key, deed) = (self.rng.below(REGISTERS as u64) as u8, self.rng.below(4));
        let (expected, len) = (self.rng.below(call), self.rng.below(self.long) as usize);
        let Some(process) = self.servers[at].process.as_mut().filter(|process| process.waiting() < UNDER_WAY) else {
            return;
        };
        let deed = match deed {
            0 => return process.read(call, key),
            1 => RegisterDeed::Get,
            2 => RegisterDeed::Set,
            _ => RegisterDeed::Swap,
        };
        process.call(call, RegisterCommand { deed, key, value: call, expected }, len);
    }
}

impl Server {
    /// It has no connection any more.
    fn lose(&mut self) {
        self.home.link = None;
        self.stalled = None;
        self.process.iter_mut().for_each(Process::on_lost);
    }
}
