//! Whole clusters of memberships over a network that a seed makes bad, each with the smallest engine there can be: it
//! numbers its packets, keeps all it gets, and fetches what it lacks.
mod agreed_set;
mod forming;
mod packets;

use super::{
    AgreedSet, Holdings, Link, Membership, MembershipAction, MembershipPacket, MembershipSettings, ViewChange,
};
use bytes::Bytes;
use consort_order::{Arrival, Destination, Lane};
use consort_types::{Incarnation, Instant, MemberId, NodeId, Rng, ViewId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const MS: u64 = 1_000_000;

/// Nodes that have no other between them.
type Links = Vec<Vec<NodeId>>;

#[derive(Clone, Debug)]
enum Message {
    Member(MembershipPacket),
    /// The k-th packet of a member in a view; 0 only says that the sender lives and how many it has sent.
    Data(ViewId, MemberId, u64),
    /// Send me this member's packets from here to there.
    Ask(ViewId, MemberId, u64, u64),
}

#[derive(Debug)]
struct Toy {
    vs: Membership,
    links: Vec<Link>,
    held: Vec<u64>,
    /// What came too soon.
    parked: BTreeSet<(usize, u64)>,
    fetching: Option<AgreedSet>,
    frozen: bool,
    up: bool,
    left: bool,
    out: VecDeque<(Destination, Message)>,
    changes: Vec<ViewChange>,
    /// What it held of each view when it went on from it.
    closed: BTreeMap<ViewId, Vec<u64>>,
    settled: Vec<ViewId>,
    renounced: Vec<ViewId>,
    persisted: Vec<Bytes>,
}

/// `cargo xtask mutants` asks which scenario notices a broken rule.
fn break_a_rule(settings: MembershipSettings) -> MembershipSettings {
    #[cfg(feature = "mutants")]
    if let Ok(name) = std::env::var("CONSORT_VS_MUTANT") {
        let mutant = super::Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name);
        return MembershipSettings { mutant, ..settings };
    }
    settings
}

impl Toy {
    fn new(me: NodeId, nodes: (Vec<NodeId>, Links), incarnation: u64, records: &[Bytes], now: Instant) -> Self {
        let (nodes, links) = nodes;
        let primary = crate::Policy::Majority;
        let settings = MembershipSettings { primary, ..MembershipSettings::new(me, nodes) };
        let stands = |(number, link): (u8, &Vec<NodeId>)| {
            link.contains(&me).then_some(Link { network: number, configuration: ViewId::default(), before: number })
        };
        let links = (1..).zip(&links).filter_map(stands).collect();
        let vs = Membership::new(break_a_rule(settings), Incarnation(incarnation)).unwrap();
        let mut toy = Self {
            vs,
            links,
            held: Vec::new(),
            parked: BTreeSet::new(),
            fetching: None,
            frozen: false,
            up: true,
            left: false,
            out: VecDeque::new(),
            changes: Vec::new(),
            closed: BTreeMap::new(),
            settled: Vec::new(),
            renounced: Vec::new(),
            persisted: records.to_vec(),
        };
        toy.vs.start(now, records);
        toy.drain(now);
        toy
    }

    fn view(&self) -> ViewId {
        self.vs.view().id
    }

    fn mine(&self) -> usize {
        self.vs.index(self.vs.me()).unwrap()
    }

    fn speak(&mut self, now: Instant, new: bool) {
        let mine = self.mine();
        self.held[mine] += u64::from(new);
        let k = if new { self.held[mine] } else { 0 };
        self.out.push_back((Destination::All, Message::Data(self.view(), self.vs.me(), k)));
        self.vs.spoke(now);
    }

    fn drain(&mut self, now: Instant) {
        while let Some(act) = self.vs.poll() {
            match act {
                MembershipAction::Send { to, packet } => self.out.push_back((to, Message::Member(packet))),
                MembershipAction::Persist { record, .. } => {
                    self.persisted.push(record);
                    self.vs.handle_persisted(now);
                }
                MembershipAction::Speak => self.speak(now, false),
                MembershipAction::Halt => self.frozen = false,
                MembershipAction::Tell => {
                    (self.frozen, self.fetching) = (true, None);
                    self.vs.tell(
                        now,
                        Holdings {
                            held: self.held.clone(),
                            hollow: !self.links.is_empty(),
                            links: self.links.clone(),
                            ..Holdings::default()
                        },
                    );
                }
                MembershipAction::Fetch(cut) => {
                    self.fetching = Some(*cut);
                    self.fetch(now);
                }
                MembershipAction::Install(change) => {
                    if let Some(closing) = &change.closing {
                        self.closed.insert(closing.id, self.held.clone());
                    }
                    self.held = vec![0; change.view.members.len()];
                    self.parked.clear();
                    (self.frozen, self.fetching) = (false, None);
                    self.changes.push(*change);
                }
                MembershipAction::Settled => self.settled.push(self.view()),
                MembershipAction::Left => self.left = true,
                MembershipAction::Renounce => self.renounced.extend(self.changes.last().map(|change| change.view.id)),
                MembershipAction::Trim { .. } | MembershipAction::Beacon { .. } => {}
            }
        }
    }

    /// Asks for what is lacking, or says that nothing is.
    fn fetch(&mut self, now: Instant) {
        let Some(cut) = &self.fetching else { return };
        let lacking = (0..cut.held.len()).filter(|i| self.held[*i] < cut.held[*i]);
        let asks: Vec<_> = lacking.map(|i| (i, cut.holders[i], cut.held[i])).collect();
        if asks.is_empty() {
            self.fetching = None;
            self.vs.complete(now);
            return;
        }
        for (i, holder, up_to) in asks {
            let member = self.vs.view().members[i];
            let ask = Message::Ask(self.view(), member, self.held[i] + 1, up_to);
            self.out.push_back((Destination::One(holder.node), ask));
        }
    }

    fn take(&mut self, now: Instant, from: MemberId, message: Message) {
        let arrival = Arrival { at: now, from, lane: Lane::Control };
        match message {
            Message::Member(packet) => self.vs.handle(now, &arrival, packet),
            Message::Data(view, member, k) => {
                self.vs.hear(now, &arrival, view);
                self.drain(now);
                if view == self.view() {
                    self.on_data(now, member, k);
                }
            }
            Message::Ask(view, member, first, last) => {
                self.vs.hear(now, &arrival, view);
                self.drain(now);
                let held = self.vs.index(member).map_or(0, |i| self.held[i]);
                if view == self.view() {
                    let answers = (first..=last.min(held)).map(|k| Message::Data(view, member, k));
                    self.out.extend(answers.map(|answer| (Destination::One(from.node), answer)));
                }
            }
        }
        self.drain(now);
    }

    fn on_data(&mut self, now: Instant, member: MemberId, k: u64) {
        let Some(i) = self.vs.index(member) else { return };
        let wanted = self.fetching.as_ref().map(|cut| cut.held[i]);
        if self.frozen {
            let agreed = self.fetching.as_ref().map(|cut| &cut.held);
            self.parked.retain(|(i, k)| agreed.is_some_and(|held| *k <= held[*i]));
        }
        let closed = self.frozen && wanted.is_none_or(|up_to| k > up_to);
        if k > 0 && !closed {
            self.parked.insert((i, k));
        }
        while self.parked.remove(&(i, self.held[i] + 1)) {
            self.held[i] += 1;
        }
        let Some(cut) = &self.fetching else { return };
        if self.held.iter().zip(&cut.held).all(|(held, wanted)| held >= wanted) {
            self.fetch(now);
        }
    }
}

struct Cluster {
    now: Instant,
    nodes: Vec<NodeId>,
    links: Links,
    toys: BTreeMap<NodeId, Toy>,
    flight: BTreeMap<(Instant, u64), (MemberId, NodeId, Message)>,
    sent: u64,
    rng: Rng,
    loss: f64,
    cuts: BTreeSet<(NodeId, NodeId)>,
    /// What this one sends to another alone is lost.
    shouts: Option<NodeId>,
    talk: bool,
    /// What gets through to a node.
    passes: fn(NodeId, &Message) -> bool,
}

impl Cluster {
    fn new(n: u16, seed: u64) -> Self {
        Self::linked(n, seed, &[])
    }

    fn linked(n: u16, seed: u64, links: &[&[u16]]) -> Self {
        let nodes: Vec<_> = (1..=n).map(NodeId).collect();
        let links: Links = links.iter().map(|link| link.iter().copied().map(NodeId).collect()).collect();
        let make = |node: &NodeId| (*node, Toy::new(*node, (nodes.clone(), links.clone()), 1, &[], Instant::ZERO));
        let toys = nodes.iter().map(make).collect();
        let (rng, cuts) = (Rng::new(seed), BTreeSet::new());
        let flight = BTreeMap::new();
        let mut cluster = Self {
            now: Instant::ZERO,
            nodes,
            links,
            toys,
            flight,
            sent: 0,
            rng,
            loss: 0.0,
            cuts,
            shouts: None,
            talk: false,
            passes: |_, _| true,
        };
        cluster.flush();
        cluster
    }

    fn toy(&self, node: u16) -> &Toy {
        &self.toys[&NodeId(node)]
    }

    fn with(&mut self, node: u16, act: impl FnOnce(&mut Membership, Instant)) {
        let (now, toy) = (self.now, self.toys.get_mut(&NodeId(node)).unwrap());
        act(&mut toy.vs, now);
        toy.drain(now);
        self.flush();
    }

    fn crash(&mut self, node: u16) {
        self.toys.get_mut(&NodeId(node)).unwrap().up = false;
    }

    fn restart(&mut self, node: u16) {
        self.restart_as(node, self.toy(node).vs.me().incarnation.0 + 1);
    }

    /// The node starts again under that number, be it larger than the last one's or not.
    fn restart_as(&mut self, node: u16, incarnation: u64) {
        let old = self.toys.remove(&NodeId(node)).unwrap();
        let toy =
            Toy::new(NodeId(node), (self.nodes.clone(), self.links.clone()), incarnation, &old.persisted, self.now);
        self.toys.insert(NodeId(node), toy);
        self.flush();
    }

    /// Nodes of different parts do not hear each other.
    fn part(&mut self, parts: &[&[u16]]) {
        self.cuts.clear();
        let part_of = |node: NodeId| parts.iter().position(|part| part.contains(&node.0));
        for a in &self.nodes {
            let others = self.nodes.iter().filter(|b| part_of(*a) != part_of(**b));
            self.cuts.extend(others.map(|b| (*a, *b)));
        }
    }

    fn flush(&mut self) {
        let nodes = self.nodes.clone();
        for node in &nodes {
            let toy = self.toys.get_mut(node).unwrap();
            let (from, up, out) = (toy.vs.me(), toy.up, std::mem::take(&mut toy.out));
            for (to, message) in out.into_iter().filter(|_| up) {
                for receiver in nodes.iter().filter(|other| *other != node) {
                    let reaches = to == Destination::All || to == Destination::One(*receiver);
                    let cut = self.cuts.contains(&(*node, *receiver)) || !(self.passes)(*receiver, &message);
                    let unheard = to != Destination::All && self.shouts == Some(*node);
                    if !reaches || cut || unheard || self.rng.chance(self.loss) {
                        continue;
                    }
                    self.sent += 1;
                    let at = Instant(self.now.0 + self.rng.between(MS / 10, MS));
                    self.flight.insert((at, self.sent), (from, *receiver, message.clone()));
                }
            }
        }
    }

    /// Runs for so many milliseconds.
    fn run(&mut self, ms: u64) {
        let end = Instant(self.now.0 + ms * MS);
        while self.now < end {
            self.now = Instant(self.now.0 + MS / 4);
            while let Some(entry) = self.flight.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (from, to, message) = entry.remove();
                let toy = self.toys.get_mut(&to).unwrap();
                if toy.up && !toy.left {
                    toy.take(self.now, from, message);
                }
            }
            self.tick();
            self.flush();
        }
    }

    fn tick(&mut self) {
        let now = self.now;
        for toy in self.toys.values_mut().filter(|toy| toy.up && !toy.left) {
            if toy.vs.poll_timeout().is_some_and(|at| at <= now) {
                toy.vs.handle_timeout(now);
                toy.drain(now);
            }
            if now.0.is_multiple_of(5 * MS) {
                toy.fetch(now);
                toy.drain(now);
            }
            if self.talk && toy.vs.is_working() && self.rng.chance(0.05) {
                toy.speak(now, true);
            }
        }
    }

    /// Demands that these nodes, and nobody else, are together.
    fn assert_together(&self, nodes: &[u16]) {
        let members: Vec<_> = nodes.iter().map(|node| self.toy(*node).vs.me()).collect();
        for node in nodes {
            let toy = self.toy(*node);
            assert!(toy.vs.is_working(), "n{node}: {}", toy.vs.describe(self.now));
            assert_eq!(toy.vs.view().members, members, "n{node}");
            assert_eq!(toy.view(), self.toy(nodes[0]).view());
        }
    }

    /// Demands what every run must keep: views rise, names mean one thing, who moves together closed with the same.
    fn assert_sound(&self) {
        type Closed<'a> = (Vec<MemberId>, &'a Vec<u64>);
        let mut steps: BTreeMap<(ViewId, ViewId), Closed<'_>> = BTreeMap::new();
        for toy in self.toys.values() {
            assert!(toy.changes.is_sorted_by(|a, b| a.view.id.number < b.view.id.number));
            for change in toy.changes.iter().filter(|change| change.closing.is_some()) {
                let closing = change.closing.as_ref().unwrap();
                let held = &toy.closed[&closing.id];
                assert_eq!(*held, change.cut.held, "{} closed {} with the cut", toy.vs.me(), closing.id);
                let known = steps.entry((closing.id, change.view.id)).or_insert((closing.members.clone(), held));
                assert_eq!(*known, (closing.members.clone(), held), "{} to {}", closing.id, change.view.id);
            }
        }
    }
}
