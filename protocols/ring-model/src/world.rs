//! Nodes, what is under way between them, and what may happen next.
use crate::digest::Digest;
use bytes::Bytes;
use consort_order::{Arrival, Delivery, Destination, Engine, Lane, Output, Submission, state_of};
use consort_ring::evs::{self, EvsEvent, EvsMessage, EvsTrace};
use consort_ring::model::Armed;
use consort_ring::packet::{Beacon, DataContent, Proposal, RingPacket};
use consort_ring::{Ring, RingConfig};
use consort_types::{Class, Incarnation, Instant, MemberId, NodeId, OrderStream, Service, View};
use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::rc::Rc;

/// How much may go wrong on one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Packets lost.
    pub losses: u8,
    /// Packets that arrive twice.
    pub doubles: u8,
    /// Packets that overtake those sent before them: on the same way, or on others.
    pub overtakings: u8,
    /// Nodes that crash.
    pub crashes: u8,
    /// Nodes that come back.
    pub restarts: u8,
    /// Times that a token, a peer or a recovery is missed, once nothing is under way.
    pub expiries: u8,
    /// Timers that come due although packets are under way.
    pub hurries: u8,
    /// Times that a token which rests goes round although nobody asked for it, once nothing is under way.
    pub holds: u8,
}

/// One thing that may happen next. Packets are named by their place among those under way, the oldest first.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// A packet arrives.
    Deliver(usize),
    /// A packet arrives, and will once more.
    Double(usize),
    /// A packet is lost.
    Lose(usize),
    /// A node's timer comes due.
    Fire(usize, Armed),
    /// A node is gone.
    Crash(usize),
    /// A node that is gone starts anew.
    Restart(usize),
}

/// A packet under way.
#[derive(Debug)]
pub struct Flying {
    from: MemberId,
    to: NodeId,
    lane: Lane,
    packet: Rc<(RingPacket, u64)>,
}

impl Flying {
    /// Whether it goes the same way as another: from the same node to the same node, and it is read in its turn.
    fn follows(&self, other: &Self) -> bool {
        (self.from, self.to, self.lane) == (other.from, other.to, other.lane)
    }
}

impl fmt::Display for Flying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, packet, .. } = self;
        match &packet.0 {
            RingPacket::Data(data) => write!(f, "data {} of {} from {from} to {to}", data.seq, data.ring),
            RingPacket::Token(token) => write!(f, "token {} of {} from {from} to {to}", token.token_seq, token.ring),
            RingPacket::Ack(ack) => write!(f, "ack {} of {} from {from} to {to}", ack.aru, ack.ring),
            RingPacket::TokenRequest(_) => write!(f, "token request from {from} to {to}"),
            RingPacket::Join(join) => {
                let Proposal { proc, fail, .. } = &join.proposal;
                write!(f, "join {proc:?} without {fail:?} from {from} to {to}")
            }
            RingPacket::Commit(commit) => {
                write!(f, "commit {} rotation {} from {from} to {to}", commit.ring, commit.rotation)
            }
            RingPacket::Beacon(beacon) => write!(f, "beacon of {} from {from} to {to}", beacon.view),
            RingPacket::Reach(reach) => write!(f, "reach (asks: {}) from {from} to {to}", reach.asks),
            RingPacket::Late(late) => write!(f, "late in {} from {from} to {to}", late.ring),
        }
    }
}

/// A node and what it was told.
#[derive(Clone, Debug)]
struct Node {
    ring: Ring,
    trace: EvsTrace,
    told: Digest,
    digest: u64,
}

/// One state of everything. Cheap to copy: what does not change is shared.
#[derive(Clone, Debug)]
pub struct World {
    nodes: Vec<Option<Rc<Node>>>,
    /// Traces of incarnations that are over.
    past: Vec<Rc<EvsTrace>>,
    /// The oldest first.
    flying: VecDeque<Rc<Flying>>,
    config: Rc<RingConfig>,
    /// When everything happens; only [`crate::fair`] lets time pass.
    pub now: Instant,
    /// Ways that are cut, as pairs of nodes.
    cuts: Vec<(NodeId, NodeId)>,
    /// Whether nodes tell where they are.
    pub beacons: bool,
    /// What may still go wrong.
    pub budget: Budget,
}

impl World {
    /// Nodes 1 to `n`, none started.
    pub fn new(n: u16, config: RingConfig) -> Self {
        Self {
            nodes: (0..n).map(|_| None).collect(),
            past: Vec::new(),
            flying: VecDeque::new(),
            config: Rc::new(config),
            now: Instant(1_000_000_000_000),
            cuts: Vec::new(),
            beacons: true,
            budget: Budget::default(),
        }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Starts a node, in an incarnation of its own.
    pub fn start(&mut self, i: usize) {
        let incarnations = self.past.iter().filter(|trace| usize::from(trace.me.node.0) == i + 1).count() as u64;
        let me = MemberId { node: NodeId(i as u16 + 1), incarnation: Incarnation(1 + incarnations) };
        let config = RingConfig { me: me.node, ..(*self.config).clone() };
        let Ok(ring) = Ring::new(config, me.incarnation) else { return };
        let trace = EvsTrace { me, over: false, events: Vec::new() };
        self.nodes[i] = Some(Rc::new(Node { ring, trace, told: Digest::default(), digest: 0 }));
        // A restarted node begins above all numbers of its earlier incarnations.
        let record = Bytes::copy_from_slice(&(incarnations * 1_000).to_be_bytes());
        self.input(i, |ring, now| ring.start(now, &[record]));
    }

    /// Cuts the ways between nodes, both ways.
    pub fn cut(&mut self, a: &[u16], b: &[u16]) {
        let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (NodeId(*a), NodeId(*b))));
        self.cuts.extend(pairs.flat_map(|(a, b)| [(a, b), (b, a)]));
    }

    /// Mends all ways.
    pub fn heal(&mut self) {
        self.cuts.clear();
    }

    /// A node's client asks for a message to be sent.
    pub fn submit(&mut self, i: usize, service: Service, text: &str) {
        let payload = Bytes::copy_from_slice(text.as_bytes()).into();
        let submission = Submission { class: Class::Client, service, stream: OrderStream(0), payload };
        if let Some(node) = self.nodes[i].as_mut().map(Rc::make_mut) {
            node.tell(EvsEvent::Accepted(text.into()));
        }
        self.input(i, |ring, now| {
            let _ = ring.submit(now, submission);
        });
    }

    /// A node's ring, if it runs.
    pub fn ring(&self, i: usize) -> Option<&Ring> {
        self.nodes[i].as_ref().map(|node| &node.ring)
    }

    /// The view a node is in, if it runs.
    pub fn view(&self, i: usize) -> Option<&View> {
        let events = &self.nodes[i].as_ref()?.trace.events;
        events.iter().rev().find_map(|event| if let EvsEvent::Installed(view) = event { Some(view) } else { None })
    }

    /// Whether packets are under way.
    pub fn is_quiet(&self) -> bool {
        self.flying.is_empty()
    }

    /// Whether all that run are in one working ring of exactly them.
    pub fn is_whole(&self) -> bool {
        let living: Vec<_> = self.nodes.iter().flatten().map(|node| node.trace.me).collect();
        let first = (0..self.len()).find_map(|i| self.view(i));
        let whole = |i: usize| {
            let view = self.view(i);
            self.ring(i).is_none_or(|ring| ring.state() == "operational")
                && view.is_none_or(|view| view.members == living && Some(view.id) == first.map(|view| view.id))
        };
        (0..self.len()).all(whole)
    }

    /// Checks all promises, and that no assertion has failed.
    ///
    /// # Errors
    /// What is broken.
    pub fn check(&self) -> Result<(), String> {
        for node in self.nodes.iter().flatten() {
            if let Some(rule) = node.ring.last_assertion() {
                return Err(format!("{}: {rule}", node.trace.me));
            }
        }
        evs::check(self.traces())
    }

    /// What every incarnation was told.
    pub fn traces(&self) -> impl Iterator<Item = &EvsTrace> {
        self.past.iter().map(|trace| &**trace).chain(self.nodes.iter().flatten().map(|node| &node.trace))
    }

    /// What makes this world differ from others.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::default();
        for node in &self.nodes {
            digest.add(node.as_ref().map_or(0, |node| node.digest));
        }
        for trace in &self.past {
            digest.add(Digest::of(&trace.me));
            digest.add(trace.events.len() as u64);
        }
        for flying in &self.flying {
            let way = u64::from(flying.from.node.0) << 32 ^ u64::from(flying.to.0) << 8 ^ flying.lane as u64;
            digest.add(way ^ flying.from.incarnation.0 << 48);
            digest.add(flying.packet.1);
        }
        let b = &self.budget;
        let left = [b.losses, b.doubles, b.overtakings, b.crashes, b.restarts, b.expiries, b.hurries, b.holds];
        digest.add(u64::from_le_bytes(left));
        digest.sum()
    }

    /// All that may happen next.
    pub fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        let b = &self.budget;
        if !self.is_quiet() {
            actions.push(Action::Deliver(0));
            actions.extend((b.losses > 0).then_some(Action::Lose(0)));
            actions.extend((b.doubles > 0).then_some(Action::Double(0)));
            if b.overtakings > 0 {
                actions.extend(self.overtaking().map(Action::Deliver));
            }
        }
        for (i, node) in self.nodes.iter().enumerate() {
            match node {
                Some(node) => {
                    let armed = node.ring.armed(self.now).filter(|armed| self.may_fire(*armed));
                    actions.extend(armed.map(|armed| Action::Fire(i, armed)));
                    actions.extend((b.crashes > 0).then_some(Action::Crash(i)));
                }
                None => actions.extend((b.restarts > 0).then_some(Action::Restart(i))),
            }
        }
        actions
    }

    /// The packets that may arrive before the oldest: the next one of its way, and the first of every other.
    fn overtaking(&self) -> impl Iterator<Item = usize> {
        let earlier = |at: usize| self.flying.iter().take(at).skip(1);
        (1..self.flying.len()).filter(move |at| !earlier(*at).any(|earlier| self.flying[*at].follows(earlier)))
    }

    fn may_fire(&self, armed: Armed) -> bool {
        let allowed = !armed.is_repetition() && (self.beacons || !armed.is_beacon());
        let missed = !armed.is_expiry() || self.budget.expiries > 0;
        let allowed = allowed && (!armed.is_hold() || self.budget.holds > 0);
        (armed.prompt || allowed && missed) && (self.is_quiet() || self.budget.hurries > 0)
    }

    /// Does it.
    pub fn apply(&mut self, action: Action) {
        match action {
            Action::Deliver(at) => {
                self.budget.overtakings = self.budget.overtakings.saturating_sub(u8::from(at > 0));
                if let Some(flying) = self.flying.remove(at) {
                    self.arrive(&flying);
                }
            }
            Action::Double(at) => {
                self.budget.doubles -= 1;
                let flying = self.flying[at].clone();
                self.arrive(&flying);
            }
            Action::Lose(at) => {
                self.budget.losses -= 1;
                self.flying.remove(at);
            }
            Action::Fire(i, armed) => self.fire(i, armed),
            Action::Crash(i) => {
                self.budget.crashes -= 1;
                self.crash(i);
            }
            Action::Restart(i) => {
                self.budget.restarts -= 1;
                self.start(i);
            }
        }
    }

    fn fire(&mut self, i: usize, armed: Armed) {
        self.budget.hurries -= u8::from(!self.is_quiet());
        if !armed.prompt {
            self.budget.expiries -= u8::from(armed.is_expiry());
            self.budget.holds -= u8::from(armed.is_hold());
        }
        if armed.is_consensus() {
            let dead: Vec<_> = (0..self.len()).filter(|j| self.nodes[*j].is_none()).collect();
            for j in dead {
                self.input(i, |ring, now| ring.forget(NodeId(j as u16 + 1), now));
            }
        }
        let living: Vec<_> =
            self.nodes.iter().flatten().map(|node| node.trace.me.node).chain([NodeId(i as u16 + 1)]).collect();
        self.input(i, |ring, now| ring.fire(now, armed, &living));
    }

    /// A node is gone; what it sent may still arrive.
    pub fn crash(&mut self, i: usize) {
        let Some(node) = self.nodes[i].take() else { return };
        let mut trace = node.trace.clone();
        trace.over = true;
        self.past.push(Rc::new(trace));
        self.flying.retain(|flying| usize::from(flying.to.0) != i + 1);
    }

    /// Lets the timers of a node come due whose time has come.
    pub fn wake(&mut self, i: usize) {
        if self.ring(i).and_then(Engine::poll_timeout).is_some_and(|at| at <= self.now) {
            self.input(i, |ring, now| ring.handle_timeout(now));
        }
    }

    /// When the next timer comes due.
    pub fn next_timer(&self) -> Option<Instant> {
        self.nodes.iter().flatten().filter_map(|node| node.ring.poll_timeout()).min()
    }

    /// What is under way, the oldest first.
    pub fn flying(&self) -> impl Iterator<Item = &Flying> {
        self.flying.iter().map(|flying| &**flying)
    }

    /// Loses some of what is under way.
    pub fn lose(&mut self, lost: impl Fn(NodeId, Lane) -> bool) {
        self.flying.retain(|flying| !lost(flying.to, flying.lane));
    }

    /// What the nodes are doing.
    pub fn describe(&self) -> String {
        let line = |node: &Rc<Node>| format!("\n  {} {}", node.trace.me, state_of(&node.ring, self.now));
        self.nodes.iter().flatten().map(line).collect()
    }

    fn arrive(&mut self, flying: &Flying) {
        let arrival = Arrival { at: self.now, from: flying.from, lane: flying.lane };
        let packet = flying.packet.0.clone();
        self.input(usize::from(flying.to.0) - 1, |ring, now| ring.handle_packet(now, arrival, packet));
    }

    fn input(&mut self, i: usize, input: impl FnOnce(&mut Ring, Instant)) {
        let Some(mut shared) = self.nodes[i].take() else { return };
        let node = Rc::make_mut(&mut shared);
        input(&mut node.ring, self.now);
        while let Some(output) = node.ring.poll_output() {
            self.put_out(node, output);
        }
        node.sum_up(self.now);
        self.nodes[i] = Some(shared);
    }

    fn put_out(&mut self, node: &mut Node, output: Output<RingPacket>) {
        match output {
            Output::Send { to, lane, packet } => self.send(node, to, lane, packet),
            Output::Deliver(delivery) => node.tell(EvsEvent::Delivered(message(&delivery))),
            Output::Install(view) => {
                let id = view.id;
                node.tell(EvsEvent::Installed(view));
                node.ring.resume(self.now, id);
            }
            Output::Primary(view) => node.tell(EvsEvent::Primary(view)),
            Output::Persist { ticket, .. } => node.ring.handle_persisted(self.now, ticket),
            _ => {}
        }
    }

    fn send(&mut self, node: &mut Node, to: Destination, lane: Lane, packet: RingPacket) {
        let me = node.trace.me;
        if let RingPacket::Data(data) = &packet
            && matches!(data.content, DataContent::Messages(_))
            && data.originator == me.node
            && !data.retransmission
        {
            node.tell(EvsEvent::Numbered(data.ring, data.seq));
        }
        let packet = match packet {
            // Every tenth beacon is longer; here that makes no difference. Time stands still, so clocks say nothing.
            RingPacket::Beacon(beacon) => RingPacket::Beacon(Beacon { padding: 0, clocks: Box::default(), ..beacon }),
            RingPacket::Join(mut join) => {
                join.proposal.clocks = Box::default();
                RingPacket::Join(join)
            }
            other => other,
        };
        let digest = Digest::of(&packet);
        let packet = Rc::new((packet, digest));
        for j in (0..self.nodes.len()).filter(|j| j + 1 != usize::from(me.node.0)) {
            let receiver = NodeId(j as u16 + 1);
            let meant = to == Destination::All || to == Destination::One(receiver);
            if meant && self.nodes[j].is_some() && !self.cuts.contains(&(me.node, receiver)) {
                let packet = packet.clone();
                self.flying.push_back(Rc::new(Flying { from: me, to: receiver, lane, packet }));
            }
        }
    }
}

impl Node {
    fn tell(&mut self, event: EvsEvent) {
        let _ = match &event {
            // Why a view came to be is no promise.
            EvsEvent::Installed(view) => {
                write!(self.told, "{:?}", (view.id, view.kind, &view.members, &view.moved_together))
            }
            other => write!(self.told, "{other:?}"),
        };
        self.trace.events.push(event);
    }

    fn sum_up(&mut self, now: Instant) {
        let mut digest = self.told;
        let _ = self.ring.write_state(now, &mut digest);
        self.digest = digest.sum();
    }
}

fn message(delivery: &Delivery) -> EvsMessage {
    EvsMessage {
        position: delivery.position,
        sender: delivery.sender,
        safe: delivery.service == Service::Safe,
        text: String::from_utf8_lossy(&delivery.payload.to_bytes()).into_owned(),
    }
}
