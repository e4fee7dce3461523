//! Nodes, their disks, what is under way between them, and what may happen next.
use crate::NODES;
use crate::judge::Judge;
use bytes::Bytes;
use consort_order::{Arrival, Destination, Engine, Lane, Output};
use consort_paxos::ballot::{Ballot, Began, Item, LogId};
use consort_paxos::learner::Checkpoint;
use consort_paxos::packet::{Acceptance, Beat, Content, Packet};
use consort_paxos::record::{LogStart, Record};
use consort_paxos::{Config, Paxos};
use consort_ring_model::digest::Digest;
use consort_types::{Incarnation, Instant, MemberId, NodeId, Ticket};
use std::fmt;
use std::rc::Rc;

/// When everything happens.
const NOW: Instant = Instant(1_000_000_000_000);

/// How much may happen on one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Ballots that are used.
    pub stands: u8,
    /// Instances that are filled.
    pub instances: u8,
    /// Packets lost.
    pub losses: u8,
    /// Packets that overtake the one before them on their way.
    pub overtakings: u8,
    /// Nodes that crash; what their disks had not written is lost.
    pub crashes: u8,
    /// Of those how many lose their disk, too; one at a time.
    pub forgets: u8,
    /// Times that a node asks again for what is unanswered.
    pub repeats: u8,
}

/// One thing that may happen next. Ways are pairs of nodes.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// The oldest packet of a way arrives.
    Deliver(usize, usize),
    /// The second one of a way arrives.
    Overtake(usize, usize),
    /// The oldest packet of a way is lost.
    Lose(usize, usize),
    /// A disk has written all it was given.
    Write(usize),
    /// A node stands.
    Stand(usize),
    /// A coordinator proposes something of its own.
    Propose(usize),
    /// A node asks again.
    Repeat(usize),
    /// A node is gone; its disk stays.
    Crash(usize),
    /// A node is gone with its disk.
    Forget(usize),
    /// A node that is gone starts anew.
    Restart(usize),
}

/// A packet under way.
#[derive(Debug)]
pub struct Flying {
    from: MemberId,
    packet: Packet,
    digest: u64,
}

impl fmt::Display for Flying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} from {}", self.packet.content, self.from)
    }
}

#[derive(Clone, Debug)]
struct Node {
    engine: Paxos,
    /// What its disk is writing.
    pending: Vec<(Ticket, Bytes)>,
    digest: u64,
}

/// One state of everything. Cheap to copy: what does not change is shared.
#[derive(Clone, Debug)]
pub struct World {
    nodes: [Option<Rc<Node>>; NODES],
    disks: [Rc<Vec<Bytes>>; NODES],
    /// Whether a node has lost its disk and does not vote again yet.
    forgot: [bool; NODES],
    incarnations: [u64; NODES],
    /// By sender and receiver, the oldest first.
    ways: [[Vec<Rc<Flying>>; NODES]; NODES],
    config: Rc<Config>,
    judge: Rc<Judge>,
    /// Sums of the disks, and of what the judge knows.
    sums: [u64; NODES + 1],
    /// What may still happen.
    pub budget: Budget,
}

impl World {
    /// Three acceptors that have begun a log and promised nothing.
    pub fn new(adjust: impl Fn(&mut Config)) -> Self {
        Self::told(NODES, adjust)
    }

    /// The same, but the last one was not told in time that the log had begun.
    pub fn one_without_log(adjust: impl Fn(&mut Config)) -> Self {
        Self::told(NODES - 1, adjust)
    }

    /// The first so many know the log; all have begun it.
    fn told(told: usize, adjust: impl Fn(&mut Config)) -> Self {
        let mut config = Config::new(NodeId(0), (0..NODES as u16).map(NodeId).collect());
        adjust(&mut config);
        let founders: Vec<_> = (0..NODES as u16).map(|node| MemberId::new(node, 1)).collect();
        let start = LogStart {
            log: LogId::of(&founders),
            founders,
            began: Began::default(),
            promised: Ballot::ZERO,
            from: Checkpoint::default(),
        };
        let disk = Rc::new(vec![Record::Checkpoint(Box::new(start)).encode()]);
        let mut world = Self {
            nodes: Default::default(),
            disks: std::array::from_fn(|i| if i < told { disk.clone() } else { Rc::default() }),
            forgot: [false; NODES],
            incarnations: [0; NODES],
            ways: Default::default(),
            config: Rc::new(config),
            judge: Rc::new(Judge::default()),
            sums: [0; NODES + 1],
            budget: Budget::default(),
        };
        (0..NODES).for_each(|i| world.start(i));
        world
    }

    /// A node's engine, if it runs.
    pub fn engine(&self, i: usize) -> Option<&Paxos> {
        self.nodes[i].as_ref().map(|node| &node.engine)
    }

    /// Whether two nodes have promised different ballots.
    pub fn has_two_ballots(&self) -> bool {
        let promised = |i| self.engine(i).and_then(Paxos::acceptor).map(|acceptor| acceptor.promised);
        let used: std::collections::BTreeSet<_> =
            (0..NODES).filter_map(promised).filter(|b| *b > Ballot::ZERO).collect();
        used.len() > 1
    }

    /// What has been judged so far.
    ///
    /// # Errors
    /// What is broken.
    pub fn verdict(&self) -> Result<(), String> {
        let failed = (0..NODES).filter_map(|i| self.engine(i)).find_map(Paxos::last_assertion);
        failed.map_or_else(|| self.judge.verdict(), |rule| Err(rule.into()))
    }

    /// What makes this world differ from others.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::default();
        for i in 0..NODES {
            digest.add(self.nodes[i].as_ref().map_or(0, |node| node.digest));
            digest.add(self.sums[i] ^ self.incarnations[i] << 1 ^ u64::from(self.forgot[i]));
            for way in &self.ways[i] {
                digest.add(way.len() as u64);
                way.iter().for_each(|flying| digest.add(flying.digest));
            }
        }
        digest.add(self.sums[NODES]);
        let Budget { stands, instances, losses, overtakings, crashes, forgets, repeats } = self.budget;
        digest.add(u64::from_le_bytes([stands, instances, losses, overtakings, crashes, forgets, repeats, 0]));
        digest.sum()
    }

    /// All that may happen next.
    pub fn actions(&self) -> Vec<Action> {
        let (mut actions, b) = (Vec::new(), &self.budget);
        for from in 0..NODES {
            for to in 0..NODES {
                let under_way = self.ways[from][to].len();
                if under_way > 0 {
                    actions.push(Action::Deliver(from, to));
                    actions.extend((b.losses > 0).then_some(Action::Lose(from, to)));
                }
                actions.extend((under_way > 1 && b.overtakings > 0).then_some(Action::Overtake(from, to)));
            }
        }
        for i in 0..NODES {
            let Some(node) = &self.nodes[i] else {
                actions.push(Action::Restart(i));
                continue;
            };
            actions.extend((!node.pending.is_empty()).then_some(Action::Write(i)));
            let votes = node.engine.acceptor().is_some_and(|acceptor| acceptor.votes());
            actions.extend((b.stands > 0 && votes).then_some(Action::Stand(i)));
            let next = node.engine.proposes_at();
            actions.extend(next.is_some_and(|at| at < u64::from(b.instances)).then_some(Action::Propose(i)));
            actions.extend((b.repeats > 0).then_some(Action::Repeat(i)));
            let others_remember = (0..NODES).all(|j| j == i || !self.forgot[j]);
            let crashes = b.crashes > 0 && (others_remember || !self.disks[i].is_empty());
            actions.extend(crashes.then_some(Action::Crash(i)));
            actions
                .extend((b.crashes > 0 && b.forgets > 0 && !self.forgot.contains(&true)).then_some(Action::Forget(i)));
        }
        actions
    }

    /// Does it.
    pub fn apply(&mut self, action: Action) {
        match action {
            Action::Deliver(from, to) => self.arrive(from, to, 0),
            Action::Overtake(from, to) => {
                self.budget.overtakings -= 1;
                self.arrive(from, to, 1);
            }
            Action::Lose(from, to) => {
                self.budget.losses -= 1;
                self.ways[from][to].remove(0);
            }
            Action::Write(i) => self.write(i),
            Action::Stand(i) => {
                self.budget.stands -= 1;
                self.input(i, |engine| engine.stand_now(NOW));
            }
            Action::Propose(i) => self.propose(i),
            Action::Repeat(i) => {
                self.budget.repeats -= 1;
                self.input(i, |engine| engine.repeat_now(NOW));
            }
            Action::Crash(i) => {
                self.budget.crashes -= 1;
                self.crash(i);
                // Whose disk holds nothing has forgotten, too.
                self.forgot[i] |= self.disks[i].is_empty();
            }
            Action::Forget(i) => {
                self.budget.crashes -= 1;
                self.budget.forgets -= 1;
                self.crash(i);
                self.disks[i] = Rc::default();
                self.sums[i] = 0;
                self.forgot[i] = true;
                Rc::make_mut(&mut self.judge).forgot(i);
            }
            Action::Restart(i) => self.start(i),
        }
    }

    /// Each ballot proposes something else, and asks for votes at once.
    pub(crate) fn propose(&mut self, i: usize) {
        let round = self.engine(i).and_then(Paxos::acceptor).map_or(0, |acceptor| acceptor.promised.round);
        self.input(i, |engine| {
            engine.propose_now(NOW, Item::Primary(1_000 + round * 10 + i as u64));
            engine.repeat_now(NOW);
        });
    }

    pub(crate) fn start(&mut self, i: usize) {
        if self.nodes[i].is_some() {
            return;
        }
        self.incarnations[i] += 1;
        let me = MemberId { node: NodeId(i as u16), incarnation: Incarnation(self.incarnations[i]) };
        let config = Config { me: me.node, ..(*self.config).clone() };
        let Ok(engine) = Paxos::new(config, me.incarnation) else { return };
        self.nodes[i] = Some(Rc::new(Node { engine, pending: Vec::new(), digest: 0 }));
        let disk = self.disks[i].clone();
        self.input(i, |engine| engine.start(NOW, &disk));
        if let Some(engine) = self.nodes[i].as_ref().map(|node| &node.engine) {
            Rc::make_mut(&mut self.judge).started(i, engine);
        }
        self.greet(i);
    }

    /// It hears of the others, and of their log.
    pub(crate) fn greet(&mut self, i: usize) {
        for j in (0..NODES).filter(|j| *j != i) {
            let Some(other) = self.engine(j) else { continue };
            let (from, log, next) = (other.me(), other.log(), other.learner().next());
            let beat = Beat { acceptor: Acceptance::Ready, next, ..Beat::default() };
            let packet = Packet { log, content: Content::Beat(Box::new(beat)) };
            let arrival = Arrival { at: NOW, from, lane: Lane::Control };
            self.input(i, |engine| engine.handle_packet(NOW, arrival, packet));
        }
    }

    pub(crate) fn repeat(&mut self, i: usize) {
        self.input(i, |engine| engine.repeat_now(NOW));
    }

    pub(crate) fn stand(&mut self, i: usize) {
        self.input(i, |engine| engine.stand_now(NOW));
    }

    fn crash(&mut self, i: usize) {
        self.nodes[i] = None;
        for j in 0..NODES {
            self.ways[j][i].clear();
            self.ways[i][j].clear();
        }
    }

    fn arrive(&mut self, from: usize, to: usize, at: usize) {
        let flying = self.ways[from][to].remove(at);
        let arrival = Arrival { at: NOW, from: flying.from, lane: Lane::Reliable };
        let packet = flying.packet.clone();
        self.input(to, |engine| engine.handle_packet(NOW, arrival, packet));
    }

    pub(crate) fn write(&mut self, i: usize) {
        let Some(node) = self.nodes[i].as_mut().map(Rc::make_mut) else { return };
        let pending = std::mem::take(&mut node.pending);
        let judge = Rc::make_mut(&mut self.judge);
        let disk = Rc::make_mut(&mut self.disks[i]);
        for (_, record) in &pending {
            judge.written(i, record);
            disk.push(record.clone());
        }
        self.sums[i] = Digest::of(disk);
        self.input(i, |engine| pending.iter().for_each(|(ticket, _)| engine.handle_persisted(NOW, *ticket)));
    }

    fn input(&mut self, i: usize, input: impl FnOnce(&mut Paxos)) {
        let Some(mut shared) = self.nodes[i].take() else { return };
        let node = Rc::make_mut(&mut shared);
        let led = node.engine.leads();
        input(&mut node.engine);
        // There is no ring: what it proposes again goes to each directly.
        if !led && node.engine.leads() {
            node.engine.repeat_now(NOW);
        }
        let me = node.engine.me();
        while let Some(output) = node.engine.poll_output() {
            match output {
                Output::Send { to: Destination::One(to), packet, .. } => self.send(me, to, packet),
                Output::Persist { ticket, record, .. } => node.pending.push((ticket, record)),
                _ => {}
            }
        }
        let judge = Rc::make_mut(&mut self.judge);
        judge.look(&node.engine);
        if judge.has_changed() {
            self.sums[NODES] = Digest::of(judge);
        }
        self.forgot[i] &= !node.engine.acceptor().is_some_and(|acceptor| acceptor.votes());
        let mut digest = Digest::default();
        // Writing to a sum cannot fail.
        let _ = node.engine.write_state(&mut digest);
        digest.add(node.pending.len() as u64);
        node.digest = digest.sum();
        self.nodes[i] = Some(shared);
    }

    fn send(&mut self, from: MemberId, to: NodeId, packet: Packet) {
        Rc::make_mut(&mut self.judge).sent(usize::from(from.node.0), &packet);
        if self.nodes.get(usize::from(to.0)).is_some_and(Option::is_some) {
            let digest = Digest::of(&(from, &packet));
            let way = &mut self.ways[usize::from(from.node.0)][usize::from(to.0)];
            // What was asked twice in a row is asked once.
            if way.last().is_none_or(|last| last.digest != digest) {
                way.push(Rc::new(Flying { from, packet, digest }));
            }
        }
    }

    /// The oldest packet of a way.
    pub fn first(&self, from: usize, to: usize) -> Option<&Flying> {
        self.ways[from][to].first().map(|flying| &**flying)
    }

    /// Whether nothing is under way, and nothing being written.
    pub fn is_quiet(&self) -> bool {
        self.ways.iter().flatten().all(Vec::is_empty) && self.nodes.iter().flatten().all(|node| node.pending.is_empty())
    }
}
