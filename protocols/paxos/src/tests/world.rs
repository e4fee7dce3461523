//! A small world: hosts that crash, disks that lose what was not synced, links that break and lose what was in flight.
use super::judge::Judge;
use crate::ballot::ValueId;
use crate::config::{Config, Storage};
use crate::engine::Paxos;
use crate::packet::{Content, Packet};
use crate::record::Record;
use bytes::Bytes;
use consort_order::{Arrival, Declaration, DeclareProgress, Destination, Engine, Lane, Link, Output, Submission};
use consort_types::{
    Class, Incarnation, Instant, MemberId, NodeId, OrderStream, Position, Rng, Service, Ticket, ViewKind,
};
use std::collections::{BTreeMap, BTreeSet};

pub const MS: u64 = 1_000_000;

/// How often a link that broke is dialled, in nanoseconds.
const REDIAL: u64 = 50_000_000;

/// What becomes of a disk in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    Kept,
    Lost,
    /// It is put back to what it was when it was saved, by copying files.
    PutBack,
    /// It is away, as a volume that is not mounted: an empty directory has its path. If it was away, it is back.
    Away,
}

pub struct Host {
    pub engine: Paxos,
    pub up: bool,
    pub incarnation: u64,
    /// What would outlast a crash.
    disk: Vec<(Ticket, Bytes)>,
    /// What is being written.
    pub writing: Vec<(Ticket, Bytes)>,
    disk_free: u64,
    /// Bytes of records that its disk ever took.
    pub written: usize,
    /// It has forgotten and has not recovered.
    pub forgot: bool,
    /// A copy of its disk.
    saved: Vec<(Ticket, Bytes)>,
    /// Its disk, while that is away.
    pub away: Option<Vec<(Ticket, Bytes)>>,
    /// The disk is a copy, which its engine is to notice at its start.
    pub copied: bool,
    /// The incarnation that noticed it last.
    copied_in: Incarnation,
    count: u64,
}

impl Host {
    /// What its disk holds.
    pub fn records(&self) -> Vec<Bytes> {
        self.disk.iter().map(|(_, record)| record.clone()).collect()
    }
}

enum Event {
    Arrive { from: MemberId, to: u16, epoch: Option<u64>, lane: Lane, packet: Packet },
    Timer { node: u16 },
    Written { node: u16, incarnation: u64, ticket: Ticket },
    Broken { node: u16, peer: u16 },
    Redial { a: u16, b: u16 },
    Start { node: u16 },
}

pub struct World {
    pub now: u64,
    pub rng: Rng,
    pub config: Config,
    pub hosts: Vec<Host>,
    heap: BTreeMap<(u64, u64), Event>,
    tie: u64,
    /// Of each link when its last packet arrives, and how often it broke.
    links: BTreeMap<(u16, u16), (u64, u64)>,
    pub cuts: BTreeSet<(u16, u16)>,
    /// Ways that let everything through but what needs a link.
    pub unlinked: BTreeSet<(u16, u16)>,
    dialled: BTreeSet<(u16, u16)>,
    pub loss: f64,
    /// How far nodes are from each other, in nanoseconds of a packet's way; those that are not named are near.
    distances: BTreeMap<(u16, u16), u64>,
    incarnations: u64,
    /// Nodes that retain more or less than the others.
    pub retains: BTreeMap<u16, usize>,
    pub judge: Judge,
    pub story: bool,
    /// Disks that take no more for now.
    stalled: BTreeSet<u16>,
    /// Whether clocks are set back among all else that goes wrong.
    pub clocks: bool,
    /// Whether disks stall among all else that goes wrong.
    pub stalls: bool,
    /// Whether copies of programs bind and declare among all else.
    pub copies: bool,
    /// Whether disks are put back among all else that goes wrong.
    pub puts_back: bool,
    /// Whether disks are away for a while among all else that goes wrong.
    pub unmounts: bool,
    /// How often an engine asked to be started anew.
    pub restarts: u64,
    /// How often a node left a log in which enough acceptors voted.
    pub left_alive: usize,
    /// Packets that do not pass.
    pub filter: Option<fn(NodeId, NodeId, &Packet) -> bool>,
    /// Payloads that were sent, by link.
    pub carried: Vec<(u16, u16, ValueId)>,
}

impl World {
    pub fn new(seed: u64, nodes: u16, acceptors: u16, storage: Storage) -> Self {
        let members: Vec<_> = (0..nodes).map(NodeId).collect();
        let mut config = Config::new(NodeId(0), members);
        config.acceptors.clear();
        config.acceptors.extend((0..acceptors).map(NodeId));
        config.storage = storage;
        Self::with(seed, config)
    }

    pub fn with(seed: u64, config: Config) -> Self {
        #[cfg(feature = "mutants")]
        let config = Config { mutant: super::mutants::broken(), ..config };
        let host = |node: &NodeId| Host {
            engine: engine(&config, *node, 1),
            up: false,
            incarnation: 1,
            disk: Vec::new(),
            writing: Vec::new(),
            disk_free: 0,
            written: 0,
            forgot: false,
            saved: Vec::new(),
            away: None,
            copied: false,
            copied_in: Incarnation(0),
            count: 0,
        };
        let mut world = Self {
            now: 0,
            rng: Rng::new(seed),
            hosts: config.members.iter().map(host).collect(),
            heap: BTreeMap::new(),
            tie: 0,
            links: BTreeMap::new(),
            cuts: BTreeSet::new(),
            unlinked: BTreeSet::new(),
            dialled: BTreeSet::new(),
            loss: 0.0,
            distances: BTreeMap::new(),
            incarnations: 1,
            clocks: false,
            retains: BTreeMap::new(),
            judge: Judge::new(&config),
            story: false,
            stalled: BTreeSet::new(),
            stalls: false,
            copies: false,
            puts_back: false,
            unmounts: false,
            restarts: 0,
            left_alive: 0,
            filter: None,
            carried: Vec::new(),
            config,
        };
        for node in 0..world.nodes() {
            world.schedule(0, Event::Start { node });
        }
        world
    }

    /// Sets each pair of nodes apart by a way that takes so many milliseconds at least, and at most.
    pub fn set_apart(&mut self, least: u64, most: u64) {
        for (a, b) in (0..self.nodes()).flat_map(|a| (0..a).map(move |b| (b, a))) {
            let distance = (least + self.rng.below(most + 1 - least)) * MS;
            self.distances.insert((a, b), distance);
        }
    }

    pub fn nodes(&self) -> u16 {
        self.hosts.len() as u16
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.tie += 1;
        self.heap.insert((at.max(self.now), self.tie), event);
    }

    pub fn tell(&self, what: impl FnOnce() -> String) {
        if self.story {
            println!("{:>9.3} {}", self.now as f64 / MS as f64, what());
        }
    }

    /// Runs for so many milliseconds.
    pub fn run(&mut self, ms: u64) {
        self.step(ms * MS);
    }

    /// Runs for so many nanoseconds.
    pub fn step(&mut self, nanos: u64) {
        let end = self.now + nanos;
        while let Some(entry) = self.heap.first_entry()
            && entry.key().0 <= end
        {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.happen(event);
        }
        self.now = end;
    }

    /// Runs until something holds, for so many milliseconds at most.
    pub fn run_until(&mut self, ms: u64, holds: impl Fn(&Self) -> bool) -> bool {
        (0..ms).any(|_| {
            let held = holds(self);
            if !held {
                self.run(1);
            }
            held
        }) || holds(self)
    }

    fn happen(&mut self, event: Event) {
        let now = Instant(self.now);
        match event {
            Event::Start { node } => self.start(node),
            Event::Arrive { from, to, epoch, lane, packet } => {
                let epoch_now = self.links.get(&(from.node.0, to)).map_or(0, |link| link.1);
                let stands = epoch.is_none_or(|epoch| epoch == epoch_now);
                let host = &mut self.hosts[usize::from(to)];
                if host.up && stands {
                    if epoch.is_some() {
                        host.engine.handle_link(now, from.node, Link::Up);
                    }
                    host.engine.handle_packet(now, Arrival { at: now, from, lane }, packet);
                    self.drain(to);
                }
            }
            Event::Timer { node } => {
                let host = &mut self.hosts[usize::from(node)];
                if host.up && host.engine.poll_timeout().is_some_and(|due| due <= now) {
                    host.engine.handle_timeout(now);
                    self.drain(node);
                }
            }
            Event::Written { node, incarnation, ticket } => self.written(node, incarnation, ticket),
            Event::Broken { node, peer } => self.tell_link(node, peer, Link::Down),
            Event::Redial { a, b } if self.connects(a, b) => {
                self.dialled.remove(&(a, b));
                self.tell_link(a, b, Link::Up);
                self.tell_link(b, a, Link::Up);
            }
            Event::Redial { a, b } => self.schedule(self.now + REDIAL, Event::Redial { a, b }),
        }
    }

    fn tell_link(&mut self, node: u16, peer: u16, link: Link) {
        let (now, host) = (Instant(self.now), &mut self.hosts[usize::from(node)]);
        if host.up {
            host.engine.handle_link(now, NodeId(peer), link);
            self.drain(node);
        }
    }

    fn connects(&self, a: u16, b: u16) -> bool {
        let passes = |way| !self.cuts.contains(&way) && !self.unlinked.contains(&way);
        self.hosts[usize::from(a)].up && self.hosts[usize::from(b)].up && passes((a, b)) && passes((b, a))
    }

    fn start(&mut self, node: u16) {
        if self.hosts[usize::from(node)].up {
            return;
        }
        let now = Instant(self.now);
        let retain = self.retains.get(&node).copied().unwrap_or(self.config.retain);
        let host = &mut self.hosts[usize::from(node)];
        if std::mem::take(&mut host.copied) {
            host.copied_in = Incarnation(host.incarnation);
        }
        let config = Config { retain, copied_in: host.copied_in, ..self.config.clone() };
        host.engine = engine(&config, NodeId(node), host.incarnation);
        host.up = true;
        host.disk_free = self.now;
        host.disk.iter_mut().zip(1..).for_each(|((number, _), ticket)| *number = Ticket(ticket));
        let records = host.records();
        host.engine.start(now, &records);
        let (incarnation, forgot) = (host.incarnation, host.forgot);
        self.judge.started(node, incarnation, forgot, &self.hosts[usize::from(node)].engine);
        self.tell(|| format!("n{node} starts as {incarnation} with {} records", records.len()));
        self.drain(node);
    }

    fn written(&mut self, node: u16, incarnation: u64, ticket: Ticket) {
        let host = &mut self.hosts[usize::from(node)];
        if !host.up || host.incarnation != incarnation {
            return;
        }
        let Some(at) = host.writing.iter().position(|(known, _)| *known == ticket) else { return };
        let (_, record) = host.writing.remove(at);
        self.judge.written(node, &Record::decode(&record).unwrap());
        host.written += record.len();
        host.disk.push((ticket, record));
        host.engine.handle_persisted(Instant(self.now), ticket);
        self.drain(node);
    }

    fn drain(&mut self, node: u16) {
        let at = usize::from(node);
        let mut resume = None;
        loop {
            let Some(output) = self.hosts[at].engine.poll_output() else {
                let Some(view) = resume.take() else { break };
                let now = Instant(self.now);
                self.hosts[at].engine.resume(now, view);
                continue;
            };
            match output {
                Output::Send { to, lane, packet } => self.transmit(node, to, lane, packet),
                Output::Persist { ticket, record, .. } => self.write(node, ticket, record),
                Output::Deliver(delivery) => {
                    let incarnation = self.hosts[at].incarnation;
                    self.judge.delivered(node, incarnation, &delivery);
                }
                Output::Install(view) => {
                    self.tell(|| format!("n{node} {:?} {} {:?}", view.kind, view.id, names(&view.members)));
                    if view.kind == ViewKind::Regular {
                        resume = Some(view.id);
                    }
                    let incarnation = self.hosts[at].incarnation;
                    self.judge.installed(node, incarnation, &view);
                }
                Output::Trim { up_to } => self.hosts[at].disk.retain(|(ticket, _)| *ticket > up_to),
                Output::Restart { cause, records, exceed } => {
                    assert!(exceed.is_none_or(|exceed| exceed.0 <= self.incarnations), "X09: {exceed:?} never was");
                    let log = self.hosts[at].engine.log();
                    let lives = super::lost_logs::voters(self, log) >= self.config.quorum();
                    self.left_alive += usize::from(lives && cause.contains("forgotten"));
                    self.tell(|| format!("n{node} is to restart: {cause}"));
                    return self.start_anew(node, records);
                }
                Output::Left => {
                    self.tell(|| format!("n{node} left"));
                    return self.stop(node, Disk::Kept);
                }
                _ => {}
            }
        }
        self.judge.look(node, &self.hosts[at].engine);
        if self.hosts[at].engine.acceptor().is_some_and(|acceptor| acceptor.votes()) {
            self.hosts[at].forgot = false;
        }
        if let Some(due) = self.hosts[at].engine.poll_timeout() {
            self.schedule(due.0, Event::Timer { node });
        }
    }

    fn write(&mut self, node: u16, ticket: Ticket, record: Bytes) {
        let takes = self.rng.below(MS) + 50_000;
        let host = &mut self.hosts[usize::from(node)];
        host.disk_free = host.disk_free.max(self.now) + takes / if self.rng.chance(0.9) { 10 } else { 1 };
        host.writing.push((ticket, record));
        let (done, incarnation) = (host.disk_free, host.incarnation);
        if !self.stalled.contains(&node) {
            self.schedule(done, Event::Written { node, incarnation, ticket });
        }
    }

    /// From here on a disk takes nothing more.
    pub fn stall(&mut self, node: u16) {
        self.stalled.insert(node);
    }

    /// A disk goes on with what waits for it.
    pub fn unstall(&mut self, node: u16) {
        if self.stalled.remove(&node) {
            let host = &self.hosts[usize::from(node)];
            let (incarnation, waiting) = (host.incarnation, host.writing.clone());
            for ((ticket, _), after) in waiting.into_iter().zip(1..) {
                self.schedule(self.now + after * 20_000, Event::Written { node, incarnation, ticket });
            }
        }
    }

    /// How many bytes of records wait for a disk.
    pub fn waiting(&self, node: u16) -> usize {
        self.hosts[usize::from(node)].writing.iter().map(|(_, record)| record.len()).sum()
    }

    fn transmit(&mut self, from: u16, to: Destination, lane: Lane, packet: Packet) {
        let member =
            MemberId { node: NodeId(from), incarnation: Incarnation(self.hosts[usize::from(from)].incarnation) };
        self.judge.sent(member, &packet);
        self.judge.depends(member, &packet);
        for node in (0..self.nodes()).filter(|node| *node != from) {
            let goes = to == Destination::All || to == Destination::One(NodeId(node));
            if !goes || self.filter.is_some_and(|passes| !passes(NodeId(from), NodeId(node), &packet)) {
                continue;
            }
            if let Content::Value(value) = &packet.content {
                self.carried.push((from, node, value.id));
            }
            let distance = self.distances.get(&(from.min(node), from.max(node))).copied().unwrap_or_default();
            let delay = distance + 50_000 + self.rng.below(150_000);
            let cut = self.cuts.contains(&(from, node));
            if lane != Lane::Reliable {
                if !(cut || self.rng.chance(self.loss)) {
                    let packet = packet.clone();
                    let arrive = Event::Arrive { from: member, to: node, epoch: None, lane, packet };
                    self.schedule(self.now + delay, arrive);
                }
            } else if !cut && !self.unlinked.contains(&(from, node)) && self.hosts[usize::from(node)].up {
                let link = self.links.entry((from, node)).or_default();
                link.0 = link.0.max(self.now + delay);
                let (at, epoch) = *link;
                let packet = packet.clone();
                self.schedule(at, Event::Arrive { from: member, to: node, epoch: Some(epoch), lane, packet });
            }
        }
    }

    /// A stream breaks: what is in flight is lost, both ends hear of it.
    pub fn break_link(&mut self, a: u16, b: u16) {
        for (from, to) in [(a, b), (b, a)] {
            self.links.entry((from, to)).or_default().1 += 1;
            self.schedule(self.now, Event::Broken { node: from, peer: to });
        }
        let ends = (a.min(b), a.max(b));
        if self.dialled.insert(ends) {
            self.schedule(self.now + REDIAL, Event::Redial { a: ends.0, b: ends.1 });
        }
    }

    pub fn cut(&mut self, a: u16, b: u16) {
        self.cuts.insert((a, b));
        self.break_link(a, b);
    }

    pub fn heal(&mut self) {
        self.cuts.clear();
        self.unlinked.clear();
        (0..self.nodes()).for_each(|node| self.unstall(node));
        self.loss = 0.0;
        self.filter = None;
    }

    pub fn stop(&mut self, node: u16, disk: Disk) {
        let host = &mut self.hosts[usize::from(node)];
        if !host.up {
            return;
        }
        host.up = false;
        let keeps = self.rng.below(host.writing.len() as u64 + 1) as usize;
        let writing = std::mem::take(&mut host.writing);
        for (ticket, record) in writing.into_iter().take(keeps) {
            self.judge.written(node, &Record::decode(&record).unwrap());
            host.disk.push((ticket, record));
        }
        let votes = self.config.acceptors.contains(&NodeId(node));
        if disk == Disk::Lost || self.config.storage == Storage::Memory {
            host.disk.clear();
            host.forgot = votes;
            self.judge.lost(node);
        } else if disk == Disk::PutBack {
            host.disk.clone_from(&host.saved);
            (host.copied, host.forgot) = (true, votes);
            self.judge.lost(node);
        } else if disk == Disk::Away {
            match host.away.take() {
                Some(disk) => host.disk = disk,
                None => host.away = Some(std::mem::take(&mut host.disk)),
            }
            host.forgot = votes;
            self.judge.lost(node);
        }
        for peer in (0..self.nodes()).filter(|peer| *peer != node) {
            self.break_link(node, peer);
        }
    }

    /// Copies what a disk holds, to be put back later.
    pub fn save(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        host.saved.clone_from(&host.disk);
    }

    /// What the disk of a host that is down holds goes to another, which takes its position.
    pub fn copy(&mut self, node: u16) {
        self.hosts[usize::from(node)].copied = true;
    }

    /// A restart that an engine asked for: what its disk does not hold is carried over.
    fn start_anew(&mut self, node: u16, records: Vec<Bytes>) {
        let (promised, forgot) = (self.judge.promised(node), self.hosts[usize::from(node)].forgot);
        self.stop(node, Disk::Kept);
        let host = &mut self.hosts[usize::from(node)];
        if self.config.storage == Storage::Memory {
            host.disk = (1..).map(Ticket).zip(records).collect();
            host.forgot = forgot || host.disk.is_empty();
            self.judge.promises(node, promised);
        }
        self.restarts += 1;
        self.restart(node);
    }

    pub fn restart(&mut self, node: u16) {
        if !self.hosts[usize::from(node)].up {
            let behind = self.clocks && self.hosts[usize::from(node)].disk.is_empty() && self.rng.chance(0.3);
            self.restart_as(node, behind);
        }
    }

    /// Starts it in a new incarnation, maybe as one whose clock was set back and whose file is lost: with a smaller number.
    pub fn restart_as(&mut self, node: u16, behind: bool) {
        self.incarnations += 2;
        let host = &mut self.hosts[usize::from(node)];
        // Even numbers are those that lie between: each is used once at most.
        let between = host.incarnation > 1 && host.incarnation % 2 == 1;
        let number = if behind && between { host.incarnation - 1 } else { self.incarnations };
        (host.incarnation, host.count) = (number, 0);
        self.start(node);
    }

    /// Whether an acceptor may forget: a majority of the others must stay that remembers.
    pub fn may_forget(&self, node: u16) -> bool {
        let acceptor = |other: &u16| self.config.acceptors.contains(&NodeId(*other));
        let others = (0..self.nodes()).filter(|other| *other != node && acceptor(other));
        let forgot = others.filter(|other| !self.remembers(*other)).count();
        !acceptor(&node) || forgot < (self.config.acceptors.len() - 1) / 2
    }

    /// Whether a node that ends with its disk forgets nothing: a disk that stalls may not even have the log's name yet.
    pub fn keeps(&self, node: u16) -> bool {
        self.config.storage != Storage::Memory && (!self.stalls || self.remembers(node))
    }

    pub fn remembers(&self, node: u16) -> bool {
        let known = self.hosts.iter().max_by_key(|host| host.engine.learner().next());
        let (log, host) = (known.map(|host| host.engine.log()), &self.hosts[usize::from(node)]);
        let (memory, there) = (self.config.storage == Storage::Memory, host.up && !self.judge.is_leaving(node));
        // Others tell it that it began this log.
        if memory && there && known.is_some_and(|known| known.engine.founders().contains(&host.engine.me())) {
            return true;
        }
        let stays = !memory || there;
        let kept = || host.disk.iter().filter_map(|(_, record)| Record::decode(record).ok());
        let log_of = |record| if let Record::Checkpoint(start) = record { Some(start.log) } else { None };
        let kept = || kept().filter_map(log_of).last();
        let votes = host.engine.acceptor().is_some_and(|acceptor| acceptor.votes());
        // One that took over what the others have counts as lost until it votes.
        if host.forgot && (self.puts_back || self.unmounts || !host.up) {
            return false;
        }
        // What a disk that stalls has not taken, a crash takes along.
        if self.stalls && log != kept() {
            return false;
        }
        stays && log == if host.up { votes.then_some(host.engine.log()) } else { kept() }
    }

    pub fn submit(&mut self, node: u16, len: usize) -> bool {
        let host = &mut self.hosts[usize::from(node)];
        if !host.up {
            return false;
        }
        let mut text = format!("{node} {} {} ", host.incarnation, host.count + 1).into_bytes();
        text.resize(text.len().max(len), b'.');
        let class = if self.rng.chance(0.1) { Class::Control } else { Class::Client };
        let class = if len > 100 { Class::Client } else { class };
        let payload = Bytes::from(text).into();
        let submission = Submission { class: Class::Client, service: Service::Agreed, stream: OrderStream(0), payload };
        let _ = class;
        let done = host.engine.submit(Instant(self.now), submission).is_ok();
        if done {
            host.count += 1;
            let (incarnation, count) = (host.incarnation, host.count);
            self.judge.submitted(node, incarnation, count);
        }
        self.drain(node);
        done
    }

    /// A plain holder at a node declares a checkpoint, once.
    pub fn declare(&mut self, node: u16, holder: &str, from: Option<u64>) -> DeclareProgress {
        let holder = holder.parse().expect("a holder");
        self.state(
            node,
            &match from {
                Some(from) => Declaration::Keep { holder, epoch: 0, from: Position(from) },
                None => Declaration::Withdraw(holder),
            },
        )
    }

    /// A program at a node says something of a copy, once.
    pub fn state(&mut self, node: u16, declaration: &Declaration) -> DeclareProgress {
        let now = Instant(self.now);
        let host = &mut self.hosts[usize::from(node)];
        if !host.up {
            return DeclareProgress::Pending;
        }
        let progress = host.engine.declare(now, declaration);
        self.drain(node);
        progress
    }

    pub fn leave(&mut self, node: u16) {
        if self.hosts[usize::from(node)].up {
            self.judge.leaves(node);
            self.hosts[usize::from(node)].engine.leave(Instant(self.now));
            self.drain(node);
        }
    }

    pub fn describe(&self) -> String {
        let tell = |(host, node): (&Host, u16)| {
            let state = if host.up { host.engine.describe(Instant(self.now)) } else { "down".into() };
            format!("n{node} ({}, log {}): {state}\n", host.incarnation, host.engine.log())
        };
        self.hosts.iter().zip(0..).map(tell).collect()
    }

    /// Whether every host that is up is in one view of just these hosts, and has delivered all it submitted.
    pub fn is_settled(&self) -> bool {
        let up: BTreeSet<_> = self.hosts.iter().filter(|host| host.up).map(|host| host.engine.me()).collect();
        let whole = |host: &Host| host.engine.members().is_some_and(|members| members.iter().eq(up.iter()));
        !up.is_empty() && self.hosts.iter().filter(|host| host.up).all(whole) && self.judge.owed(self).is_empty()
    }
}

fn engine(config: &Config, node: NodeId, incarnation: u64) -> Paxos {
    Paxos::new(Config { me: node, ..config.clone() }, Incarnation(incarnation)).unwrap()
}

pub fn names(members: &[MemberId]) -> Vec<String> {
    members.iter().map(MemberId::to_string).collect()
}
