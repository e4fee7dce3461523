//! A random model of nodes that read the rings of their clients' groups: clients join and leave, send to any ring, and nodes take
//! up rings and leave them meanwhile.
use super::log::{Entry, Item, State};
use super::schedule::shrink;
use crate::log::LogState;
use crate::merge::{Config, Merge};
use crate::slot::{RingId, Slot};
use crate::subscription::SubscriberId;
use consort_types::{Position, Rng};
use std::collections::{BTreeMap, VecDeque};

const GLOBAL: usize = 0;
const CLIENTS: usize = 2;

/// Rules that are broken on purpose.
#[derive(Clone, Copy, Debug, Default)]
struct Broken {
    /// A ring counts as read once it is merged.
    read_too_soon: bool,
    /// A client sends to another ring while something of it is under way.
    switches: bool,
    /// A ring is left while something of this node's is under way there.
    leaves: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Say {
        client: u8,
        ring: u8,
    },
    Join {
        client: u8,
        ring: u8,
    },
    Leave {
        client: u8,
        ring: u8,
    },
    /// What waits for its place in a ring, of one of the nodes, gets it.
    Decide {
        node: u8,
        ring: u8,
    },
    Skip {
        ring: u8,
        beyond: u8,
    },
    /// A node is to read a ring for another reason, or no more.
    Want {
        node: u8,
        ring: u8,
        wants: bool,
    },
    Learn {
        node: u8,
        ring: u8,
        entries: u8,
    },
    HandOut {
        node: u8,
        items: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Say,
    Join(usize),
    Leave(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Unread,
    Nearing(Slot),
    Read,
}

/// What stands under a name: the client, its number among the client's, and what it says.
type Said = (usize, u64, Content);
/// A ring, a node and a number.
type Name = (usize, usize, u64);

struct Node {
    merge: Merge<State>,
    /// What is known of each ring's log.
    known: Vec<State>,
    readings: Vec<Reading>,
    wants: Vec<bool>,
    handed_out: Vec<(Position, Name)>,
    /// Of each own client the groups that it is in or on its way into.
    members: Vec<Vec<usize>>,
    /// Those of them that it is about to leave.
    leaving: Vec<Vec<usize>>,
    /// Of each own client the ring where something of it is under way, and how much.
    under_way: Vec<(usize, u64)>,
    sent: Vec<u64>,
    /// What waits for its place in each ring.
    pending: Vec<VecDeque<u64>>,
}

struct World {
    broken: Broken,
    logs: Vec<Vec<Entry>>,
    ends: Vec<State>,
    nodes: Vec<Node>,
    said: BTreeMap<Name, Said>,
    spoken: Vec<u64>,
    places: BTreeMap<Position, Name>,
    joins: u64,
    moves: u64,
}

impl World {
    fn new(rings: usize, nodes: usize, broken: Broken) -> Self {
        let node = |at: usize| {
            let mut readings = vec![Reading::Unread; rings];
            readings[GLOBAL] = Reading::Read;
            let config = Config::new(SubscriberId(at as u64), 1 << 20);
            Node {
                merge: Merge::new(config, [(RingId(0), State::START)]),
                known: vec![State::START; rings],
                readings,
                wants: vec![false; rings],
                handed_out: Vec::new(),
                members: vec![Vec::new(); CLIENTS],
                leaving: vec![Vec::new(); CLIENTS],
                under_way: vec![(GLOBAL, 0); CLIENTS],
                sent: vec![0; rings],
                pending: vec![VecDeque::new(); rings],
            }
        };
        Self {
            broken,
            logs: vec![Vec::new(); rings],
            ends: vec![State::START; rings],
            nodes: (0..nodes).map(node).collect(),
            said: BTreeMap::new(),
            spoken: vec![0; nodes * CLIENTS],
            places: BTreeMap::new(),
            joins: 0,
            moves: 0,
        }
    }

    fn play(&mut self, step: Step) -> Result<(), String> {
        let (rings, nodes) = (self.logs.len(), self.nodes.len());
        let client = |client: u8| usize::from(client) % (nodes * CLIENTS);
        let ring = |ring: u8| usize::from(ring) % rings;
        match step {
            Step::Say { client: who, ring: at } => self.say(client(who), ring(at)),
            Step::Join { client: who, ring: at } => self.join(client(who), ring(at)),
            Step::Leave { client: who, ring: at } => self.leave(client(who), ring(at)),
            Step::Decide { node, ring: at } => self.decide(usize::from(node) % nodes, ring(at)),
            Step::Skip { ring: at, beyond } => {
                let furthest = self.ends.iter().map(LogState::slot).max().unwrap_or(Slot::FIRST);
                self.append(ring(at), Entry::Skip(furthest.plus(beyond.into())));
            }
            Step::Want { node, ring: at, wants } => self.nodes[usize::from(node) % nodes].wants[ring(at)] = wants,
            Step::Learn { node, ring: at, entries } => {
                self.learn(usize::from(node) % nodes, ring(at), entries.into());
            }
            Step::HandOut { node, items } => self.hand_out(usize::from(node) % nodes, items.into())?,
        }
        (0..nodes).for_each(|node| self.read_on(node));
        Ok(())
    }

    fn append(&mut self, ring: usize, entry: Entry) {
        self.ends[ring].pass(entry.clone());
        self.logs[ring].push(entry);
    }

    /// Whether a client may send there now; if not, it asks again later.
    fn may_send(&self, client: usize, to: usize) -> bool {
        //= MP76 test
        let node = &self.nodes[client / CLIENTS];
        let (ring, count) = node.under_way[client % CLIENTS];
        count == 0 || ring == to || self.broken.switches
    }

    fn submit(&mut self, client: usize, ring: usize, content: Content) {
        self.spoken[client] += 1;
        let at = client / CLIENTS;
        let node = &mut self.nodes[at];
        let (of, count) = node.under_way[client % CLIENTS];
        node.under_way[client % CLIENTS] = (ring, if of == ring { count } else { 0 } + 1);
        node.sent[ring] += 1;
        node.pending[ring].push_back(node.sent[ring]);
        self.said.insert((ring, at, node.sent[ring]), (client, self.spoken[client], content));
    }

    fn say(&mut self, client: usize, ring: usize) {
        let node = &mut self.nodes[client / CLIENTS];
        if node.readings[ring] != Reading::Read {
            node.wants[ring] = true;
        } else if self.may_send(client, ring) {
            self.submit(client, ring, Content::Say);
        }
    }

    fn join(&mut self, client: usize, ring: usize) {
        let node = &mut self.nodes[client / CLIENTS];
        if node.readings[ring] != Reading::Read {
            node.wants[ring] = true;
        } else if !node.members[client % CLIENTS].contains(&ring) && self.may_send(client, GLOBAL) {
            self.nodes[client / CLIENTS].members[client % CLIENTS].push(ring);
            self.joins += 1;
            self.submit(client, GLOBAL, Content::Join(ring));
        }
    }

    /// Its node reads the group until the leave has its place.
    fn leave(&mut self, client: usize, ring: usize) {
        let node = &self.nodes[client / CLIENTS];
        let own = client % CLIENTS;
        let stays = node.members[own].contains(&ring) && !node.leaving[own].contains(&ring);
        if stays && self.may_send(client, GLOBAL) {
            self.nodes[client / CLIENTS].leaving[own].push(ring);
            self.submit(client, GLOBAL, Content::Leave(ring));
        }
    }

    fn decide(&mut self, node: usize, ring: usize) {
        if let Some(number) = self.nodes[node].pending[ring].pop_front() {
            self.append(ring, Entry::Value { sender: node as u8, number, messages: 1 });
        }
    }

    fn learn(&mut self, node: usize, ring: usize, entries: usize) {
        let node = &mut self.nodes[node];
        for _ in 0..entries {
            let index = node.known[ring].index();
            let Some(entry) = self.logs[ring].get(index as usize) else { return };
            node.known[ring].pass(entry.clone());
            if node.readings[ring] != Reading::Unread {
                assert!(node.merge.push(RingId(ring as u8), index, entry.clone()).is_ok());
            }
        }
    }

    /// As the engine does.
    fn read_on(&mut self, at: usize) {
        let (broken, rings) = (self.broken, self.logs.len());
        let node = &mut self.nodes[at];
        for ring in 1..rings {
            let id = RingId(ring as u8);
            let used = node.members.iter().flatten().any(|member| *member == ring);
            let own = node.under_way.iter().any(|(of, count)| *of == ring && *count > 0);
            let wants = node.wants[ring] || used || own && !broken.leaves;
            match node.readings[ring] {
                Reading::Unread if wants => {
                    //= MP70 test
                    node.readings[ring] = Reading::Nearing(node.merge.begin(id, node.known[ring].clone()));
                    self.moves += 1;
                }
                //= MP71 test
                Reading::Nearing(from) if wants => {
                    let come = [RingId(0), id].iter().all(|ring| node.merge.has_come_to(*ring, from));
                    if come || broken.read_too_soon {
                        node.readings[ring] = Reading::Read;
                    }
                }
                Reading::Nearing(_) | Reading::Read if !wants => {
                    //= MP74 test
                    node.merge.end_reading(id);
                    node.readings[ring] = Reading::Unread;
                }
                _ => {}
            }
        }
    }

    fn hand_out(&mut self, at: usize, items: usize) -> Result<(), String> {
        for _ in 0..items {
            let node = &mut self.nodes[at];
            let Some(merged) = node.merge.hand_out() else { return Ok(()) };
            let ring = (merged.position.0 & 0xff) as usize;
            let Item::Message { sender, number, .. } = merged.item.0 else { continue };
            let name = (ring, usize::from(sender), number);
            if node.handed_out.last().is_some_and(|(last, _)| *last >= merged.position) {
                return Err(format!("order: node {at} hands out {name:?} at {:?} late", merged.position));
            }
            node.handed_out.push((merged.position, name));
            let known = self.places.entry(merged.position).or_insert(name);
            if *known != name {
                return Err(format!("agreement: node {at} hands out {name:?} where {known:?} stands"));
            }
            if name.1 == at {
                self.on_own(at, name);
            }
            self.read_on(at);
        }
        Ok(())
    }

    fn on_own(&mut self, at: usize, name: Name) {
        let (client, _, content) = self.said[&name];
        let node = &mut self.nodes[at];
        let own = client % CLIENTS;
        if node.under_way[own].0 == name.0 {
            node.under_way[own].1 = node.under_way[own].1.saturating_sub(1);
        }
        if let Content::Leave(ring) = content {
            node.members[own].retain(|member| *member != ring);
            node.leaving[own].retain(|left| *left != ring);
        }
    }

    /// All is decided, known and handed out.
    fn heal(&mut self) -> Result<(), String> {
        let (rings, nodes) = (self.logs.len(), self.nodes.len());
        for _ in 0..3 {
            for (node, ring) in (0..nodes).flat_map(|node| (0..rings).map(move |ring| (node, ring))) {
                while !self.nodes[node].pending[ring].is_empty() {
                    self.decide(node, ring);
                }
            }
            let furthest = self.ends.iter().map(LogState::slot).max().unwrap_or(Slot::FIRST).plus(10);
            (0..rings).for_each(|ring| self.append(ring, Entry::Skip(furthest)));
            for node in 0..nodes {
                (0..rings).for_each(|ring| self.learn(node, ring, usize::MAX));
                self.hand_out(node, usize::MAX)?;
                self.read_on(node);
            }
        }
        self.judge()
    }

    /// Every message by its place, whoever has seen it.
    fn reference(&self) -> BTreeMap<Position, Name> {
        let mut all = BTreeMap::new();
        for (ring, log) in self.logs.iter().enumerate() {
            let mut state = State::START;
            for entry in log {
                for (item, at) in state.items(entry).into_iter().zip(0..) {
                    if let Item::Message { sender, number, .. } = item.0 {
                        let place = state.slot().plus(at).position(RingId(ring as u8));
                        all.insert(place, (ring, usize::from(sender), number));
                    }
                }
                state.pass(entry.clone());
            }
        }
        all
    }

    fn judge(&self) -> Result<(), String> {
        let all = self.reference();
        let mut last = vec![0; self.spoken.len()];
        for name in all.values() {
            let (client, number, _) = self.said[name];
            if number != last[client] + 1 {
                return Err(format!("sender's order: client {client}: {number} stands behind {}", last[client]));
            }
            last[client] = number;
        }
        if let Some(client) = (0..last.len()).find(|client| last[*client] != self.spoken[*client]) {
            return Err(format!("liveness: client {client}: {} of {}", last[client], self.spoken[client]));
        }
        (0..self.nodes.len()).try_for_each(|node| self.judge_node(node, &all))
    }

    /// Each client was given all that stands between its join and its leave.
    fn judge_node(&self, at: usize, all: &BTreeMap<Position, Name>) -> Result<(), String> {
        let node = &self.nodes[at];
        let given: BTreeMap<_, _> = node.handed_out.iter().copied().collect();
        if let Some(stuck) = node.readings.iter().position(|reading| matches!(reading, Reading::Nearing(_))) {
            return Err(format!("liveness: node {at} does not come to read ring {stuck}"));
        }
        if let Some(own) = node.under_way.iter().position(|(_, count)| *count > 0) {
            return Err(format!("liveness: something of client {own} of node {at} is under way for ever"));
        }
        let mut members = vec![Vec::new(); CLIENTS];
        for (place, name) in all {
            let (client, _, content) = self.said[name];
            let own = (client / CLIENTS == at).then_some(client % CLIENTS);
            match (content, own) {
                (Content::Join(ring), Some(own)) => members[own].push(ring),
                (Content::Leave(ring), Some(own)) => members[own].retain(|member| *member != ring),
                (Content::Say, _) => {
                    let member = members.iter().any(|groups| groups.contains(&name.0));
                    if member && given.get(place) != Some(name) {
                        return Err(format!("groups: node {at} is not given {name:?} at {place:?}"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn draw(seed: u64) -> (usize, usize, Vec<Step>) {
    let mut rng = Rng::new(seed ^ 0x6709);
    let (rings, nodes) = (rng.between(2, 4) as usize, rng.between(2, 4) as usize);
    let steps = rng.between(30, 400);
    let step = |rng: &mut Rng| {
        let [node, ring, client] = [12, 12, 24].map(|n| rng.below(n) as u8);
        match rng.below(60) {
            0..9 => Step::Say { client, ring },
            9..13 => Step::Join { client, ring },
            13..15 => Step::Leave { client, ring },
            15..26 => Step::Decide { node, ring },
            26..32 => Step::Skip { ring, beyond: rng.below(4) as u8 },
            32..36 => Step::Want { node, ring, wants: rng.chance(0.3) },
            36..48 => Step::Learn { node, ring, entries: rng.between(1, 9) as u8 },
            _ => Step::HandOut { node, items: rng.between(1, 9) as u8 },
        }
    };
    (rings, nodes, (0..steps).map(|_| step(&mut rng)).collect())
}

fn play(rings: usize, nodes: usize, steps: &[Step], broken: Broken) -> Result<World, String> {
    let mut world = World::new(rings, nodes, broken);
    steps.iter().try_for_each(|step| world.play(*step))?;
    world.heal()?;
    Ok(world)
}

/// The first schedule that breaks a promise, shortened.
fn first_broken(seeds: u64, broken: Broken) -> Option<String> {
    (1..=seeds).find_map(|seed| {
        let (rings, nodes, steps) = draw(seed);
        let said = play(rings, nodes, &steps, broken).err()?;
        let name = super::promise(&said).to_owned();
        let fails = |steps: &[Step]| play(rings, nodes, steps, broken).is_err_and(|said| super::promise(&said) == name);
        let steps = shrink(steps, fails);
        let said = play(rings, nodes, &steps, broken).err().unwrap_or(said);
        Some(format!("{said}\nseed {seed}, {rings} rings, {nodes} nodes: {steps:?}"))
    })
}

#[test]
fn nodes_that_read_the_rings_of_their_clients_agree_and_miss_nothing() {
    let seeds = std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3_000);
    let said = first_broken(seeds, Broken::default());
    assert!(said.is_none(), "{}", said.unwrap_or_default());
    let tried = (1..=300).map(|seed| {
        let (rings, nodes, steps) = draw(seed);
        play(rings, nodes, &steps, Broken::default()).unwrap()
    });
    let (joins, moves) = tried.fold((0, 0), |sum, world| (sum.0 + world.joins, sum.1 + world.moves));
    assert!(joins > 600 && moves > 600, "the model tries what it is for: {joins} joins, {moves} rings taken up");
}

#[test]
fn each_rule_of_reading_by_groups_is_needed() {
    for (broken, promises) in [
        (Broken { read_too_soon: true, ..Broken::default() }, ["groups", "liveness"]),
        (Broken { switches: true, ..Broken::default() }, ["sender's order", "liveness"]),
        (Broken { leaves: true, ..Broken::default() }, ["liveness", "liveness"]),
    ] {
        let said = first_broken(2_000, broken).unwrap_or_else(|| panic!("{broken:?} is not noticed"));
        assert!(promises.contains(&super::promise(&said)), "{broken:?}: {said}");
    }
}
