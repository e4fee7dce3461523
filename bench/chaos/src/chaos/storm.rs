//! What a seed draws: storm by storm, what goes wrong, when, and for how long.
use std::fmt;
use std::time::Duration;

use consort_daemon::config::{Protocol, Storage};
use consort_sim::fault::{Disk, Fault, FaultScope, Lanes, NodeSet};
use consort_types::{NodeId, Rng};

use super::networks::{gateways, networks};
use super::trouble::Trouble;

/// How long a storm lasts, in milliseconds.
const LENGTH_MS: (u64, u64) = (6_000, 14_000);
/// How far apart faults begin, in the mean.
const MEAN: f64 = 0.35;

/// One fault of a storm. Times count from the storm's beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// When it begins.
    pub from: Duration,
    /// When it is over: the link is whole, the daemon is started again or goes on.
    pub until: Duration,
    /// What it is.
    pub what: Trouble,
    /// In which network, counted from 0, where it is about the links of one of several.
    pub network: Option<usize>,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.network {
            Some(network) => write!(f, "{} in network {}", self.what, network + 1),
            None => self.what.fmt(f),
        }
    }
}

/// Some seconds in which things go wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Storm {
    /// How long it lasts.
    pub length: Duration,
    /// In the order in which they begin.
    pub faults: Vec<Planned>,
}

/// The acceptor whose state is on a disk that can be filled.
pub const SMALL: NodeId = NodeId(3);

/// The node whose daemon is never killed in a run and never asked to leave, though everything else befalls it: what its
/// memory does over the whole run is seen there.
pub fn elder(nodes: u16, seed: u64) -> NodeId {
    NodeId(Rng::new(seed).fork(1 << 32).between(1, nodes.into()) as u16)
}

/// Such a node where networks are joined, whose gateways are ended in turn: one that stands in one network only.
fn elder_apart(networks: &[Vec<usize>], nodes: u16, seed: u64) -> NodeId {
    let elder = elder(nodes, seed);
    let is_gateway = gateways(networks).contains(&(usize::from(elder.0) - 1));
    if is_gateway { NodeId(1) } else { elder }
}

/// What a run spares.
#[derive(Clone, Debug, PartialEq)]
pub struct Spared {
    /// Who is never ended alone.
    pub daemons: Vec<NodeId>,
    /// Whose state directories are never lost.
    pub disks: Vec<NodeId>,
    /// All daemons may be killed at once.
    pub outlasts: bool,
    /// Whose disk may be full.
    pub fills: Option<NodeId>,
}

/// Acceptors that keep their votes in memory forget all when a majority of them restarts at once: of three only the last
/// may be ended. Where they keep votes on disk, all may be killed at once, and of three disks only the last may be lost.
pub fn spared(protocol: Protocol, storage: Storage, nodes: u16, seed: u64) -> Spared {
    let (majority, elder) = (vec![NodeId(1), NodeId(2)], elder(nodes, seed));
    match (protocol, storage) {
        (Protocol::Paxos, Storage::Memory) | (Protocol::MultiRingPaxos, _) => {
            Spared { daemons: [majority, vec![elder]].concat(), disks: Vec::new(), outlasts: false, fills: None }
        }
        (Protocol::Paxos, _) => {
            let fills = Some(SMALL).filter(|node| nodes >= node.0 && *node != elder);
            Spared { daemons: vec![elder], disks: majority, outlasts: true, fills }
        }
        (Protocol::MultiRing, _) => {
            let elder = elder_apart(&networks(protocol, nodes), nodes, seed);
            Spared { daemons: vec![elder], disks: Vec::new(), outlasts: false, fills: None }
        }
        _ => Spared { daemons: vec![elder], disks: Vec::new(), outlasts: false, fills: None },
    }
}

/// The storm of this number, from 0, of a run with so many nodes in these networks that spares these; of at most this length.
pub fn draw((nodes, networks): (u16, &[Vec<usize>]), spared: &Spared, seed: u64, number: u64, most: Duration) -> Storm {
    let mut rng = Rng::new(seed).fork(number);
    let length = Duration::from_millis(rng.between(LENGTH_MS.0, LENGTH_MS.1)).min(most);
    let busy = vec![Duration::ZERO; usize::from(nodes) + 1];
    let turn = number as usize;
    let mut draw = Draw { nodes, networks, gateways: gateways(networks), turn, spared, length, busy, rng };
    let mut faults = draw.lasting();
    let mut at = draw.gap();
    while at < length {
        faults.extend(draw.passing(at));
        at += draw.gap();
    }
    Storm { length, faults }
}

/// The number of situations to draw from.
const SITUATIONS: u64 = 12;

/// What is wrong in the situation behind the storm of this number: nothing, or one thing, or all but one are stopped.
/// Half of the cuts leave one direction whole.
pub fn situation(nodes: u16, spared: &Spared, seed: u64, number: u64) -> Vec<Trouble> {
    let mut rng = Rng::new(seed).fork((1 << 36) + number);
    let chosen = rng.below(SITUATIONS);
    let (networks, all) = ([], (0..usize::from(nodes)).collect::<Vec<_>>());
    let busy = vec![Duration::ZERO; all.len() + 1];
    let (length, turn) = (Duration::ZERO, 0);
    let mut draw = Draw { nodes, networks: &networks, gateways: Vec::new(), turn, spared, length, busy, rng };
    let (one, (a, b)) = (draw.node(), draw.pair(&all));
    let cut = |scope| vec![Trouble::Link(Fault::Cut { scope, lanes: Lanes::Both })];
    let ended = |what: fn(NodeId) -> Trouble| {
        let may = |node: &NodeId| !spared.daemons.contains(node);
        (0..nodes).map(|step| NodeId((one.0 + step) % nodes + 1)).find(may).map(what).into_iter().collect()
    };
    match chosen {
        0 => Vec::new(),
        1 => vec![Trouble::Link(Fault::Partition { part: NodeSet(1 << one.0) })],
        2 => vec![Trouble::Link(Fault::Partition { part: draw.part(&all) })],
        3 => vec![Trouble::Link(Fault::Apart { a, b })],
        4 => cut(FaultScope::From(one)),
        5 => cut(FaultScope::To(one)),
        6 => cut(FaultScope::Between(a, b)),
        7 => vec![Trouble::Pause { node: one }],
        8 => (1..=nodes).map(NodeId).filter(|node| *node != one).map(|node| Trouble::Pause { node }).collect(),
        9 => ended(|node| Trouble::Kill { node, disk: Disk::Kept }),
        10 => ended(|node| Trouble::Leave { node }),
        _ => vec![Trouble::Loss { scope: FaultScope::All, p: 0.1 }],
    }
}

struct Draw<'a> {
    nodes: u16,
    networks: &'a [Vec<usize>],
    gateways: Vec<usize>,
    /// Whose turn it is among the gateways.
    turn: usize,
    spared: &'a Spared,
    length: Duration,
    /// Until when each node's daemon is down or stopped.
    busy: Vec<Duration>,
    rng: Rng,
}

impl Draw<'_> {
    /// Now and then the next fault comes while the one before is still being made up for.
    fn gap(&mut self) -> Duration {
        if self.rng.chance(0.3) {
            return Duration::from_micros(self.rng.between(100, 60_000));
        }
        Duration::from_secs_f64(self.rng.exponential(MEAN / 0.7).min(2.0))
    }

    /// What is wrong all the time.
    fn lasting(&mut self) -> Vec<Planned> {
        let (scope, until) = (FaultScope::All, self.length);
        let micros = Duration::from_micros(self.rng.between(50, 2_000));
        let p = self.rng.unit() * 0.03;
        let candidates = [
            Trouble::Loss { scope, p },
            Trouble::Link(Fault::Delay { scope, delay: micros / 2, jitter: micros }),
            Trouble::Link(Fault::Reorder { scope, p }),
            Trouble::Link(Fault::Duplicate { scope, p }),
            Trouble::Rate { scope, bits: self.rng.between(20_000_000, 200_000_000) },
        ];
        let chosen = candidates.into_iter().filter(|_| self.rng.chance(0.3));
        chosen.map(|what| Planned { from: Duration::ZERO, until, what, network: None }).collect()
    }

    fn passing(&mut self, from: Duration) -> Option<Planned> {
        let what = match self.rng.below(20) {
            0..4 => self.kill(from),
            4..6 => self.leave(from),
            6..9 => self.pause(from),
            9 => self.all_up(from).then_some(Trouble::PauseAll),
            10 if self.spared.outlasts => self.all_up(from).then_some(Trouble::KillAll),
            11 if self.spared.outlasts => self.full(from),
            _ => None,
        };
        let (network, what) = match what {
            Some(what) => (None, what),
            None => self.link()?,
        };
        let until = self.until(from, &what);
        match what {
            Trouble::Kill { node, .. } | Trouble::Leave { node } | Trouble::Pause { node } | Trouble::Full { node } => {
                self.busy[usize::from(node.0)] = until;
            }
            Trouble::PauseAll | Trouble::KillAll => self.busy.fill(until),
            _ => {}
        }
        Some(Planned { from, until, what, network })
    }

    fn until(&mut self, from: Duration, what: &Trouble) -> Duration {
        let most = match what {
            Trouble::Pause { .. } if self.rng.chance(0.3) => 110,
            Trouble::Pause { .. } | Trouble::PauseAll => return (from + self.stall()).min(self.length),
            Trouble::Link(Fault::Partition { .. } | Fault::Cut { .. } | Fault::Apart { .. }) => 3_000,
            _ => 2_000,
        };
        (from + Duration::from_millis(self.rng.between(20, most))).min(self.length)
    }

    /// How long a busy host keeps a process from its cores: from 0.1 to 2 s, short ones more often than long ones.
    fn stall(&mut self) -> Duration {
        Duration::from_secs_f64(0.1 * 20_f64.powf(self.rng.unit()))
    }

    /// A node whose daemon is up and not stopped.
    fn free(&mut self, at: Duration) -> Option<NodeId> {
        let node = self.node();
        (self.busy[usize::from(node.0)] <= at).then_some(node)
    }

    /// Every second time it is the next gateway's turn, where there are any.
    fn kill(&mut self, at: Duration) -> Option<Trouble> {
        let gateway = !self.gateways.is_empty() && self.rng.chance(0.5);
        let node = if gateway { self.next_gateway(at) } else { self.free(at) };
        let node = node.filter(|node| !self.spared.daemons.contains(node))?;
        let lost = self.rng.chance(0.25) && !self.spared.disks.contains(&node);
        let disk = if lost { Disk::Lost } else { Disk::Kept };
        Some(Trouble::Kill { node, disk })
    }

    fn next_gateway(&mut self, at: Duration) -> Option<NodeId> {
        let gateway = self.gateways[self.turn % self.gateways.len()];
        let is_free = self.busy[gateway + 1] <= at;
        self.turn += usize::from(is_free);
        is_free.then_some(NodeId(gateway as u16 + 1))
    }

    fn leave(&mut self, at: Duration) -> Option<Trouble> {
        let node = self.free(at).filter(|node| !self.spared.daemons.contains(node))?;
        Some(Trouble::Leave { node })
    }

    fn pause(&mut self, at: Duration) -> Option<Trouble> {
        Some(Trouble::Pause { node: self.free(at)? })
    }

    fn full(&mut self, at: Duration) -> Option<Trouble> {
        let node = self.spared.fills.filter(|node| self.busy[usize::from(node.0)] <= at)?;
        Some(Trouble::Full { node })
    }

    /// Whether all daemons are up and none is stopped.
    fn all_up(&self, at: Duration) -> bool {
        self.busy.iter().all(|until| *until <= at)
    }

    /// Something about links: of one network, where there are several.
    fn link(&mut self) -> Option<(Option<usize>, Trouble)> {
        let several = self.networks.len() as u64;
        let network = (several > 1).then(|| self.rng.below(several) as usize);
        let among = self.networks.get(network.unwrap_or_default())?;
        Some((network, self.trouble(among)))
    }

    fn trouble(&mut self, among: &[usize]) -> Trouble {
        let scope = self.scope(among);
        let p = self.rng.unit() * 0.3;
        match self.rng.below(12) {
            0 => Trouble::Loss { scope, p },
            1 => Trouble::Rate { scope, bits: self.rng.between(500_000, 20_000_000) },
            2 => Trouble::Link(Fault::Duplicate { scope, p }),
            3 => Trouble::Link(Fault::Echo { scope, p: p / 3.0 }),
            4 => Trouble::Link(Fault::Reorder { scope, p }),
            5 => Trouble::Link(Fault::Corrupt { scope, p: p / 6.0 }),
            6 => Trouble::Link(Fault::Delay { scope, delay: self.delay(), jitter: self.delay() }),
            7 | 8 => Trouble::Link(Fault::Partition { part: self.part(among) }),
            9 | 10 => {
                let scope = if scope == FaultScope::All { FaultScope::To(self.pair(among).0) } else { scope };
                Trouble::Link(Fault::Cut { scope, lanes: Lanes::Both })
            }
            _ => {
                let (a, b) = self.pair(among);
                Trouble::Link(Fault::Apart { a, b })
            }
        }
    }

    fn delay(&mut self) -> Duration {
        let most = [500, 5_000, 30_000][self.rng.below(3) as usize];
        Duration::from_micros(self.rng.below(most))
    }

    fn scope(&mut self, among: &[usize]) -> FaultScope {
        let (a, b) = self.pair(among);
        match self.rng.below(4) {
            0 => FaultScope::All,
            1 => FaultScope::From(a),
            2 => FaultScope::To(a),
            _ => FaultScope::Between(a, b),
        }
    }

    /// Some of these nodes, but neither none nor all.
    fn part(&mut self, among: &[usize]) -> NodeSet {
        let all = (1 << among.len()) - 1;
        let some = self.rng.between(1, all - 1);
        let chosen = among.iter().enumerate().filter(|(at, _)| some >> at & 1 == 1);
        NodeSet(chosen.fold(0, |part, (_, node)| part | 1 << (node + 1)))
    }

    fn node(&mut self) -> NodeId {
        NodeId(self.rng.between(1, self.nodes.into()) as u16)
    }

    /// Two of these nodes.
    fn pair(&mut self, among: &[usize]) -> (NodeId, NodeId) {
        let many = among.len() as u64;
        let a = self.rng.below(many);
        let b = (a + self.rng.between(1, many - 1)) % many;
        let named = |at: u64| NodeId(among[at as usize] as u16 + 1);
        (named(a), named(b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    const LONG: Duration = Duration::from_secs(3_600);

    fn drawn(nodes: u16, seed: u64, number: u64) -> Storm {
        drawn_of(Protocol::Ring, Storage::Sync, nodes, (seed, number))
    }

    fn drawn_of(protocol: Protocol, storage: Storage, nodes: u16, (seed, number): (u64, u64)) -> Storm {
        let networks = networks(protocol, nodes);
        draw((nodes, &networks), &spared(protocol, storage, nodes, seed), seed, number, LONG)
    }

    fn storms(nodes: u16) -> impl Iterator<Item = Storm> {
        (0..50).flat_map(move |seed| (0..4).map(move |number| drawn(nodes, seed, number)))
    }

    #[test]
    fn a_seed_draws_the_same_storms_and_another_others() {
        assert_eq!(drawn(5, 7, 2), drawn(5, 7, 2));
        assert_ne!(drawn(5, 7, 2), drawn(5, 7, 3));
        assert_ne!(drawn(5, 7, 2), drawn(5, 8, 2));
    }

    #[test]
    fn faults_begin_in_order_within_the_storm_and_more_than_one_a_second() {
        for nodes in [2, 3, 5, 32] {
            let (mut faults, mut seconds) = (0, 0.0);
            for storm in storms(nodes) {
                assert!(storm.faults.windows(2).all(|pair| pair[0].from <= pair[1].from));
                assert!(storm.faults.iter().all(|fault| fault.from < fault.until || fault.until == storm.length));
                faults += storm.faults.len();
                seconds += storm.length.as_secs_f64();
            }
            assert!(faults as f64 > 2.0 * seconds, "{faults} in {seconds} s: room for calms of the same length");
        }
    }

    #[test]
    fn every_kind_comes_and_the_shortest_pauses_are_below_the_longest_above_the_loss_of_the_token() {
        let faults: Vec<_> = storms(5).flat_map(|storm| storm.faults).collect();
        let kinds: BTreeSet<_> = faults.iter().map(|fault| fault.what.kind()).collect();
        let expected = [
            "corruption",
            "delay",
            "duplication",
            "echo",
            "kill -9",
            "kill -9, state lost",
            "leave",
            "loss",
            "non-transitive cut",
            "one-way cut",
            "partition",
            "pause",
            "pause of all",
            "rate",
            "reordering",
        ];
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), expected);
        let pauses = faults.iter().filter(|fault| fault.what.kind() == "pause").map(|fault| fault.until - fault.from);
        let pauses: Vec<_> = pauses.collect();
        assert!(
            pauses.iter().any(|pause| pause.as_millis() < 100) && pauses.iter().any(|pause| pause.as_millis() > 400)
        );
        assert!(pauses.iter().all(|pause| pause.as_millis() <= 2_000));
    }

    #[test]
    fn a_daemon_that_is_down_or_stopped_is_left_alone_and_the_elder_is_never_ended() {
        for seed in 0..50 {
            let elder = elder(3, seed);
            let mut busy = BTreeMap::new();
            for fault in drawn(3, seed, 0).faults {
                let (node, ends) = match fault.what {
                    Trouble::Kill { node, .. } | Trouble::Leave { node } => (node, true),
                    Trouble::Pause { node } => (node, false),
                    Trouble::PauseAll | Trouble::KillAll => {
                        assert!(busy.values().all(|until| *until <= fault.from), "seed {seed}");
                        continue;
                    }
                    _ => continue,
                };
                assert!(!(ends && node == elder));
                let before = busy.insert(node, fault.until);
                assert!(before.is_none_or(|until| until <= fault.from), "seed {seed}, {node}");
            }
        }
    }

    #[test]
    fn a_partition_has_two_sides_and_a_pair_two_ends() {
        for storm in storms(2).chain(storms(3)) {
            for fault in storm.faults {
                match fault.what {
                    Trouble::Link(Fault::Partition { part }) => {
                        let inside = (1..=3).filter(|node| part.contains(NodeId(*node))).count();
                        assert!(inside > 0 && !part.contains(NodeId(0)));
                    }
                    Trouble::Link(Fault::Apart { a, b }) => assert_ne!(a, b),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn of_three_acceptors_that_keep_votes_in_memory_at_most_one_is_ended() {
        let ended: BTreeSet<_> = paxos(Storage::Memory)
            .filter_map(|fault| match fault.what {
                Trouble::Kill { node, .. } | Trouble::Leave { node } => Some(node.0),
                _ => None,
            })
            .collect();
        assert_eq!(ended, [3, 4, 5].into());
    }

    fn paxos(storage: Storage) -> impl Iterator<Item = Planned> {
        (0..50).flat_map(move |seed| drawn_of(Protocol::Paxos, storage, 5, (seed, 0)).faults)
    }

    #[test]
    fn acceptors_that_keep_votes_on_disk_may_all_be_killed_at_once_and_two_of_three_keep_their_disks() {
        let lost: BTreeSet<_> = paxos(Storage::Sync)
            .filter_map(|fault| match fault.what {
                Trouble::Kill { node, disk: Disk::Lost } => Some(node.0),
                _ => None,
            })
            .collect();
        assert_eq!(lost, [3, 4, 5].into());
        assert!(paxos(Storage::Sync).any(|fault| fault.what == Trouble::KillAll));
        assert!(paxos(Storage::Async).any(|fault| fault.what == Trouble::Full { node: SMALL }));
        assert!(paxos(Storage::Memory).all(|fault| !matches!(fault.what, Trouble::Full { .. })));
        assert!((0..50).all(|seed| {
            let spared = spared(Protocol::Paxos, Storage::Sync, 5, seed);
            spared.fills.is_some() == (elder(5, seed) != SMALL)
        }));
        assert!(paxos(Storage::Memory).all(|fault| fault.what != Trouble::KillAll));
    }

    #[test]
    fn each_situation_comes_half_of_the_cuts_have_one_direction_and_those_that_are_spared_are_not_ended() {
        let (mut kinds, mut stopped) = (BTreeMap::<&str, u32>::new(), BTreeSet::new());
        for seed in 0..100 {
            let spared = spared(Protocol::Paxos, Storage::Memory, 5, seed);
            for number in 0..4 {
                let troubles = situation(5, &spared, seed, number);
                assert_eq!(troubles, situation(5, &spared, seed, number), "a seed draws the same");
                stopped.insert(troubles.iter().filter(|what| what.kind() == "pause").count());
                *kinds.entry(troubles.first().map_or("none", Trouble::kind)).or_default() += 1;
                for what in troubles {
                    if let Trouble::Kill { node, .. } | Trouble::Leave { node } = what {
                        assert!(!spared.daemons.contains(&node), "seed {seed}");
                    }
                }
            }
        }
        let names: Vec<_> = kinds.keys().copied().collect();
        let expected = ["kill -9", "leave", "loss", "non-transitive cut", "none", "one-way cut", "partition", "pause"];
        assert_eq!((names, stopped), (expected.to_vec(), [0, 1, 4].into()));
        let one_way = kinds["one-way cut"];
        assert!(2 * one_way >= kinds["partition"] + kinds["non-transitive cut"], "{kinds:?}");
    }

    #[test]
    fn each_network_has_troubles_of_its_own_and_gateways_are_killed_in_turn() {
        let all = networks(Protocol::MultiRing, 7);
        let (mut troubled, mut killed) = (BTreeSet::new(), BTreeMap::<u16, u32>::new());
        for seed in 0..50 {
            for fault in drawn_of(Protocol::MultiRing, Storage::Sync, 7, (seed, 0)).faults {
                let stands = |node: NodeId| fault.network.is_none_or(|at| all[at].contains(&(usize::from(node.0) - 1)));
                match fault.what {
                    Trouble::Kill { node, .. } => *killed.entry(node.0).or_default() += 1,
                    Trouble::Link(Fault::Apart { a, b }) => assert!(stands(a) && stands(b), "{fault}"),
                    Trouble::Link(Fault::Partition { part }) => {
                        let inside = (1..=7).map(NodeId).filter(|node| part.contains(*node));
                        let (inside, network) = (inside.collect::<Vec<_>>(), &all[fault.network.unwrap()]);
                        assert!(inside.iter().all(|node| stands(*node)) && inside.len() < network.len(), "{fault}");
                    }
                    _ => {}
                }
                troubled.extend(fault.network);
                assert_eq!(fault.to_string().contains(" in network "), fault.network.is_some());
            }
        }
        assert_eq!(troubled, [0, 1, 2].into());
        let [gateways, others] = [&[2, 3, 5, 7][..], &[1, 4, 6]]
            .map(|nodes| nodes.iter().map(|node| killed.get(node).copied().unwrap_or(0)));
        let (gateways, others) = (gateways.min().unwrap(), others.max().unwrap());
        assert!(gateways > others, "{killed:?}");
    }
}
