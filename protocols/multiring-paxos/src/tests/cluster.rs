//! Whole engines over links that break and lose what was in flight, and hosts that crash and forget.
use crate::config::{Config, Reads, Ring};
use crate::engine::MultiRingPaxos;
use crate::pace::Wanted;
use crate::packet::{Content, Packet};
use crate::slot::{RingId, Slot};
use bytes::Bytes;
use consort_order::{Arrival, Delivery, Destination, Engine, Lane, Link, Output, Refused, Submission, Topic};
use consort_types::{
    Class, Incarnation, Instant, MemberId, NodeId, OrderStream, Position, Rng, Service, View, ViewId, ViewKind,
};
use std::collections::{BTreeMap, BTreeSet};

pub const MS: u64 = 1_000_000;

enum Event {
    Arrive { from: MemberId, to: u16, epoch: u64, lane: Lane, packet: Packet },
    Timer { node: u16, incarnation: u64 },
    Start { node: u16 },
}

pub struct Host {
    pub engine: MultiRingPaxos,
    pub incarnation: u64,
    pub up: bool,
    /// The view that it is in, and what it was given in it.
    pub view: Option<ViewId>,
    last: Position,
    /// What it has submitted in this incarnation and not been given.
    pub owed: BTreeSet<String>,
    sent: u64,
    woken: Option<Instant>,
    /// What it takes along into its next incarnation.
    records: Vec<Bytes>,
    /// The members of its view, whether that is primary, and how many views it was in.
    pub members: Vec<u16>,
    pub is_primary: bool,
    pub views: u64,
}

pub struct Cluster {
    pub now: u64,
    pub rng: Rng,
    pub config: Config,
    pub hosts: Vec<Host>,
    heap: BTreeMap<(u64, u64), Event>,
    tie: u64,
    links: BTreeMap<(u16, u16), (u64, u64)>,
    pub cuts: BTreeSet<(u16, u16)>,
    pub loss: f64,
    /// Packets to a node that are lost, whatever carries them.
    pub filter: Option<fn(u16, &Packet) -> bool>,
    incarnations: u64,
    /// What stands at each position.
    order: BTreeMap<Position, String>,
    /// What was given in each view, by the first to be given it; and how far each incarnation has come in it.
    in_view: BTreeMap<ViewId, Vec<(Position, String)>>,
    given: BTreeMap<(u16, u64, ViewId), usize>,
    fifo: BTreeMap<(u16, u64, String), u64>,
    /// All that was given, to whom, in which view and where.
    pub given_to: Vec<(MemberId, ViewId, Position, String)>,
    pub deliveries: u64,
    pub restarts: u64,
    /// How long each message took to its sender, in nanoseconds.
    pub took: Vec<u64>,
    submitted: BTreeMap<String, u64>,
}

pub fn config(nodes: u16, rings: &[(u8, &[u16])]) -> Config {
    let members = (0..nodes).map(NodeId).collect();
    let ring = |(id, acceptors): &(u8, &[u16])| Ring {
        id: RingId(*id),
        acceptors: acceptors.iter().copied().map(NodeId).collect(),
    };
    Config::new(NodeId(0), members, rings.iter().map(ring).collect())
}

fn engine(config: &Config, node: u16, incarnation: u64) -> MultiRingPaxos {
    let mut config = config.clone();
    config.paxos.me = NodeId(node);
    MultiRingPaxos::new(config, Incarnation(incarnation)).unwrap()
}

impl Cluster {
    pub fn new(seed: u64, config: Config) -> Self {
        #[cfg(feature = "mutants")]
        let config = Config { mutant: super::mutants::broken(), ..config };
        let host = |node: &NodeId| Host {
            engine: engine(&config, node.0, 1),
            incarnation: 1,
            up: false,
            view: None,
            last: Position(0),
            owed: BTreeSet::new(),
            sent: 0,
            woken: None,
            records: Vec::new(),
            members: Vec::new(),
            is_primary: false,
            views: 0,
        };
        let mut cluster = Self {
            now: 0,
            rng: Rng::new(seed),
            hosts: config.paxos.members.iter().map(host).collect(),
            heap: BTreeMap::new(),
            tie: 0,
            links: BTreeMap::new(),
            cuts: BTreeSet::new(),
            loss: 0.0,
            filter: None,
            incarnations: 1,
            order: BTreeMap::new(),
            in_view: BTreeMap::new(),
            given: BTreeMap::new(),
            fifo: BTreeMap::new(),
            given_to: Vec::new(),
            deliveries: 0,
            restarts: 0,
            took: Vec::new(),
            submitted: BTreeMap::new(),
            config,
        };
        (0..cluster.nodes()).for_each(|node| cluster.schedule(0, Event::Start { node }));
        cluster
    }

    pub fn nodes(&self) -> u16 {
        self.hosts.len() as u16
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.tie += 1;
        self.heap.insert((at.max(self.now), self.tie), event);
    }

    pub fn run(&mut self, ms: u64) {
        let until = self.now + ms * MS;
        while let Some((&(at, tie), _)) = self.heap.first_key_value()
            && at <= until
        {
            self.now = at;
            if let Some(event) = self.heap.remove(&(at, tie)) {
                self.on_event(event);
            }
        }
        self.now = until;
    }

    pub fn run_until(&mut self, ms: u64, done: impl Fn(&Self) -> bool) -> bool {
        (0..ms).any(|_| {
            self.run(1);
            done(self)
        })
    }

    /// Everybody is up and in one view, and nobody waits for anything.
    pub fn is_settled(&self) -> bool {
        let view = self.hosts[0].view;
        view.is_some_and(|view| view.number > 0)
            && self.hosts.iter().all(|host| host.up && host.view == view && host.owed.is_empty())
    }

    fn on_event(&mut self, event: Event) {
        let now = Instant(self.now);
        match event {
            Event::Start { node } => self.start(node),
            Event::Timer { node, incarnation } => {
                let host = &mut self.hosts[usize::from(node)];
                if host.up && host.incarnation == incarnation {
                    host.woken = None;
                    host.engine.handle_timeout(now);
                    self.drain(node);
                }
            }
            Event::Arrive { from, to, epoch, lane, packet } => {
                let stands = self.links.get(&(from.node.0, to)).is_none_or(|(_, known)| *known == epoch);
                let passes = lane != Lane::Reliable || stands;
                if self.hosts[usize::from(to)].up && passes && !self.cuts.contains(&(from.node.0, to)) {
                    let arrival = Arrival { at: now, from, lane };
                    self.hosts[usize::from(to)].engine.handle_packet(now, arrival, packet);
                    self.drain(to);
                }
            }
        }
    }

    fn start(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        host.up = true;
        let records = std::mem::take(&mut host.records);
        host.engine.start(Instant(self.now), &records);
        self.drain(node);
    }

    /// A packet on its way: by links in order and surely, unless the link breaks; others perhaps.
    fn carry(&mut self, from: MemberId, to: u16, lane: Lane, packet: Packet) {
        let (a, delay) = (from.node.0, 50_000 + self.rng.below(200_000));
        let lost = lane != Lane::Reliable && self.rng.chance(self.loss);
        let lost = lost || self.filter.is_some_and(|drops| drops(to, &packet));
        if lost || self.cuts.contains(&(a, to)) || a == to {
            return;
        }
        let (free, epoch) = self.links.entry((a, to)).or_default();
        let at = if lane == Lane::Reliable { (*free).max(self.now + delay) } else { self.now + delay };
        *free = (*free).max(at);
        let epoch = *epoch;
        self.schedule(at, Event::Arrive { from, to, epoch, lane, packet });
    }

    fn drain(&mut self, node: u16) {
        let at = usize::from(node);
        while let Some(output) = self.hosts[at].engine.poll_output() {
            let me = MemberId::new(node, self.hosts[at].incarnation);
            match output {
                Output::Send { to: Destination::All, lane, packet } => {
                    (0..self.nodes()).for_each(|to| self.carry(me, to, lane, packet.clone()));
                }
                Output::Send { to: Destination::One(to), lane, packet } => self.carry(me, to.0, lane, packet),
                Output::Deliver(delivery) => self.on_delivery(node, &delivery),
                Output::Install(view) => self.on_view(node, &view),
                Output::Primary(view) => {
                    let host = &mut self.hosts[at];
                    host.is_primary = host.view == Some(view);
                }
                Output::Restart { records, .. } => {
                    self.restarts += 1;
                    // It is not leaving, and its clients are not told so.
                    let (class, service) = (Class::Client, Service::Agreed);
                    let late = Submission { class, service, stream: OrderStream(0), payload: Bytes::new().into() };
                    let refused = self.hosts[at].engine.submit(Instant(self.now), late);
                    assert!(matches!(refused, Err(Refused::Full { .. })), "liveness: n{node}: {refused:?}");
                    self.stop(node);
                    self.hosts[at].records = records;
                    self.restart(node);
                    return;
                }
                Output::Persist { .. } => panic!("memory: n{node} writes"),
                _ => {}
            }
        }
        self.wake(node);
    }

    fn wake(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        let (next, incarnation) = (host.engine.poll_timeout(), host.incarnation);
        if let Some(next) = next.filter(|next| host.woken.is_none_or(|woken| *next < woken)) {
            host.woken = Some(next);
            self.schedule(next.0, Event::Timer { node, incarnation });
        }
    }

    fn on_view(&mut self, node: u16, view: &View) {
        if view.kind == ViewKind::Regular {
            let host = &mut self.hosts[usize::from(node)];
            let before = host.view.map_or(0, |view| view.number);
            assert!(view.id.number >= before, "views: n{node} goes from {before} to {}", view.id.number);
            host.view = Some(view.id);
            host.members = view.members.iter().map(|member| member.node.0).collect();
            (host.is_primary, host.views) = (false, host.views + 1);
            self.given.insert((node, host.incarnation, view.id), 0);
            host.engine.resume(Instant(self.now), view.id);
        }
    }

    fn on_delivery(&mut self, node: u16, delivery: &Delivery) {
        let host = &mut self.hosts[usize::from(node)];
        let text = String::from_utf8(delivery.payload.to_bytes().to_vec()).unwrap();
        let view = host.view.unwrap_or_default();
        assert!(delivery.position > host.last, "order: n{node} is given {text} at {:?}", delivery.position);
        host.last = delivery.position;
        let known = self.order.entry(delivery.position).or_insert_with(|| text.clone());
        assert_eq!(*known, text, "agreement: n{node} at {:?}", delivery.position);
        self.given_to.push((MemberId::new(node, host.incarnation), view, delivery.position, text.clone()));
        if self.config.reads == Reads::All {
            let at = self.given.entry((node, host.incarnation, view)).or_default();
            let in_view = self.in_view.entry(view).or_default();
            match in_view.get(*at) {
                Some(known) => assert_eq!(known.1, text, "agreement: n{node} in {view}, message {at}"),
                None => in_view.push((delivery.position, text.clone())),
            }
            *at += 1;
        }
        let (sender, number) = text.trim_end_matches('.').rsplit_once('-').unwrap();
        let number = number.parse().unwrap();
        let last = self.fifo.insert((node, host.incarnation, sender.to_owned()), number).unwrap_or(0);
        assert!(number > last, "sender's order: n{node} is given {text} after {last}");
        if host.owed.remove(&text) {
            assert!(delivery.id.is_some(), "names: {text} has none");
            self.took.extend(self.submitted.get(&text).map(|at| self.now - at));
        }
        self.deliveries += 1;
    }

    /// A client message for a ring; false where there is no room.
    pub fn submit(&mut self, node: u16, ring: u16, len: usize) -> bool {
        self.submit_as(node, ring, "", len)
    }

    /// The same with a word behind the sender's name: the order of a name's messages is kept.
    pub fn submit_as(&mut self, node: u16, ring: u16, word: &str, len: usize) -> bool {
        let host = &mut self.hosts[usize::from(node)];
        if !host.up {
            return false;
        }
        let mut text = format!("n{node}.{}{word}-{}", host.incarnation, host.sent + 1);
        text.extend(std::iter::repeat_n('.', len.saturating_sub(text.len())));
        let payload = Bytes::from(text.clone()).into();
        let (class, service) = (Class::Client, Service::Agreed);
        host.owed.insert(text.clone());
        self.submitted.insert(text.clone(), self.now);
        let submission = Submission { class, service, stream: OrderStream(ring), payload };
        let taken = host.engine.submit(Instant(self.now), submission).is_ok();
        if taken {
            host.sent += 1;
        } else {
            host.owed.remove(&text);
        }
        self.drain(node);
        taken
    }

    /// A node is to read these rings.
    pub fn read(&mut self, node: u16, rings: &BTreeSet<u16>) {
        let host = &mut self.hosts[usize::from(node)];
        if host.up {
            let topics: Vec<_> = rings.iter().map(|ring| Topic(*ring)).collect();
            host.engine.read(Instant(self.now), &topics);
            self.drain(node);
        }
    }

    /// Another node waits until a ring that this one leads has come further by this number of slots.
    pub fn run_ahead(&mut self, node: u16, ring: RingId, slots: u64) {
        let host = &mut self.hosts[usize::from(node)];
        let reached = Slot(host.engine.ring(ring).unwrap().learner().head().slots);
        let wanted = Wanted { slot: reached.plus(slots), reached, clock: reached };
        let arrival = Arrival { at: Instant(self.now), from: MemberId::new((node + 1) % 5, 1), lane: Lane::Reliable };
        host.engine.handle_packet(Instant(self.now), arrival, Packet { ring, content: Content::Wanted(wanted) });
        self.drain(node);
    }

    pub fn stop(&mut self, node: u16) {
        let host = &mut self.hosts[usize::from(node)];
        host.up = false;
        host.owed.clear();
        for other in 0..self.nodes() {
            self.break_link(node, other);
        }
    }

    pub fn restart(&mut self, node: u16) {
        if self.hosts[usize::from(node)].up {
            return;
        }
        self.incarnations += 1;
        let records = std::mem::take(&mut self.hosts[usize::from(node)].records);
        let (engine, incarnation) = (engine(&self.config, node, self.incarnations), self.incarnations);
        let (view, last) = (None, Position(0));
        let (owed, woken) = (BTreeSet::new(), None);
        self.hosts[usize::from(node)] = Host {
            engine,
            incarnation,
            up: false,
            view,
            last,
            owed,
            sent: 0,
            woken,
            records,
            members: Vec::new(),
            is_primary: false,
            views: 0,
        };
        self.schedule(self.now + MS, Event::Start { node });
    }

    /// Whether a node may stop, though it forgets: in each ring a quorum of the others votes.
    pub fn may_forget(&self, node: u16) -> bool {
        let votes = |other: &NodeId, ring: RingId| {
            let host = &self.hosts[usize::from(other.0)];
            let acceptor = host.engine.ring(ring).and_then(|engine| engine.acceptor());
            host.up && acceptor.is_some_and(|acceptor| acceptor.votes())
        };
        self.config.rings.iter().all(|ring| {
            let others = ring.acceptors.iter().filter(|other| other.0 != node);
            let all = others.clone().all(|other| votes(other, ring.id));
            !ring.acceptors.contains(&NodeId(node)) || all && others.count() > ring.acceptors.len() / 2
        })
    }

    /// What is in flight between two is lost, and both are told.
    pub fn break_link(&mut self, a: u16, b: u16) {
        for (from, to) in [(a, b), (b, a)] {
            self.links.entry((from, to)).or_default().1 += 1;
            for link in [Link::Down, Link::Up] {
                if self.hosts[usize::from(to)].up && from != to {
                    self.hosts[usize::from(to)].engine.handle_link(Instant(self.now), NodeId(from), link);
                    self.drain(to);
                }
            }
        }
    }

    /// Nothing passes between two, either way.
    pub fn cut(&mut self, a: u16, b: u16) {
        self.break_link(a, b);
        self.cuts.extend([(a, b), (b, a)]);
    }

    pub fn describe(&self) -> String {
        let line = |(node, host): (usize, &Host)| {
            let state = consort_order::state_of(&host.engine, Instant(self.now));
            let mut rows = String::new();
            host.engine.observe(Instant(self.now), &mut |fact| {
                if let consort_order::Fact::Part { what: "ring", part, value } = fact {
                    rows.push_str(&format!("\n  ring {part}: {value}"));
                }
            });
            let owed: Option<String> = host.owed.iter().next().map(|text| text.chars().take(12).collect());
            format!("n{node} up {} view {:?} owes {owed:?}: {state}{rows}", host.up, host.view)
        };
        self.hosts.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }

    pub fn counter(&self, node: usize, wanted: &str) -> u64 {
        let mut found = 0;
        consort_order::each_counter(&self.hosts[node].engine, Instant(self.now), &mut |name, value| {
            found = if name == wanted { value } else { found };
        });
        found
    }
}
