//! Whole engines that read the rings they need, whatever goes wrong: who joins a group of a ring is given all of it from there on.
use super::cluster::{Cluster, config};
use super::seeds::{draw, trouble};
use crate::config::Reads;
use crate::slot::RingId;
use consort_order::{Engine, Topic};
use consort_types::{MemberId, Position, ViewId};
use std::collections::{BTreeMap, BTreeSet};

/// A cluster, and what its nodes need. Words of messages: `r2` is said in ring 2, `j2` joins a group there, `l2` leaves it.
pub struct Apart {
    pub cluster: Cluster,
    pub wanted: Vec<BTreeSet<u16>>,
    /// The groups that each node is in or on its way into, and in which incarnation.
    members: BTreeMap<(u16, u16), u64>,
    joins: u64,
    /// Whether some node read a ring that lacked a majority.
    pub dead_rings: u64,
}

impl Apart {
    pub fn over(cluster: Cluster) -> Self {
        let nodes = usize::from(cluster.nodes());
        Self { cluster, wanted: vec![BTreeSet::new(); nodes], members: BTreeMap::new(), joins: 0, dead_rings: 0 }
    }

    fn incarnation(&self, node: u16) -> u64 {
        self.cluster.hosts[usize::from(node)].incarnation
    }

    pub fn reads(&self, node: u16, ring: u16) -> bool {
        let host = &self.cluster.hosts[usize::from(node)];
        host.up && self.wanted[usize::from(node)].contains(&ring) && host.engine.reads(Topic(ring))
    }

    pub fn want(&mut self, node: u16, ring: u16, wants: bool) {
        let member = self.members.get(&(node, ring)) == Some(&self.incarnation(node));
        let wanted = &mut self.wanted[usize::from(node)];
        let changed = if wants { wanted.insert(ring) } else { !member && wanted.remove(&ring) };
        if changed {
            self.cluster.read(node, &self.wanted[usize::from(node)]);
        }
    }

    /// A node that began anew is told what it needs.
    pub fn remind(&mut self) {
        for node in 0..self.cluster.nodes() {
            self.cluster.read(node, &self.wanted[usize::from(node)]);
        }
    }

    pub fn join(&mut self, node: u16, ring: u16) {
        let incarnation = self.incarnation(node);
        let joined = self.members.get(&(node, ring)) == Some(&incarnation);
        if self.reads(node, ring) && !joined && self.cluster.submit_as(node, 0, &format!("j{ring}"), 0) {
            self.members.insert((node, ring), incarnation);
            self.joins += 1;
        }
    }

    /// The group is read until the leave has its place.
    fn leave(&mut self, node: u16, ring: u16) {
        assert!(self.cluster.submit_as(node, 0, &format!("l{ring}"), 0));
        assert!(self.cluster.run_until(2_000, Cluster::is_settled), "liveness: {}", self.cluster.describe());
        self.members.remove(&(node, ring));
    }

    pub fn say(&mut self, node: u16, ring: u16, len: usize) {
        if self.reads(node, ring) {
            self.cluster.submit_as(node, ring, &format!("r{ring}"), len);
        }
    }

    pub fn step(&mut self) {
        let (nodes, rings) = (u64::from(self.cluster.nodes()), self.cluster.config.rings.len() as u64);
        let rng = &mut self.cluster.rng;
        let (node, ring) = (rng.below(nodes) as u16, rng.between(1, rings) as u16);
        match rng.below(12) {
            0..3 => self.want(node, ring, true),
            3 => self.want(node, ring, false),
            4..6 => self.join(node, ring),
            _ => {
                let len = self.cluster.rng.below(2_000) as usize;
                self.say(node, ring, len);
            }
        }
    }

    /// Who is in a group is given all of its ring in the views that it is in, from its join to the last that it was given.
    pub fn judge(&self) {
        //= MP70 test
        //= MP71 test
        //= MP73 test
        let mut in_view = BTreeMap::<ViewId, BTreeMap<Position, &str>>::new();
        let mut given = BTreeMap::<MemberId, BTreeMap<Position, (ViewId, &str)>>::new();
        for (member, view, position, text) in &self.cluster.given_to {
            in_view.entry(*view).or_default().insert(*position, text);
            given.entry(*member).or_default().insert(*position, (*view, text));
        }
        for (member, given) in &given {
            let last =
                |view: &ViewId| given.iter().rev().find(|(_, (of, _))| of == view).map(|(position, _)| *position);
            let own = format!("n{}.{}j", member.node.0, member.incarnation.0);
            for (joined, (_, text)) in given.iter().filter(|(_, (_, text))| text.starts_with(&own)) {
                let ring = text[own.len()..].split('-').next().unwrap();
                let left =
                    |text: &str| text.starts_with(&format!("n{}.{}l{ring}-", member.node.0, member.incarnation.0));
                let left = given.range(*joined..).find(|(_, (_, text))| left(text)).map(|(position, _)| *position);
                for (view, messages) in &in_view {
                    let Some(last) = last(view).filter(|last| last > joined) else { continue };
                    let until = left.map_or(last, |left| left.min(last)).max(*joined);
                    let of_ring = messages.range(*joined..until).filter(|(_, text)| is_of(text, ring));
                    for (position, text) in of_ring {
                        assert!(given.contains_key(position), "groups: {member} is not given {text} at {position:?}");
                    }
                }
            }
        }
    }
}

fn is_of(text: &str, ring: &str) -> bool {
    text.split_once('r').is_some_and(|(_, rest)| rest.split('-').next() == Some(ring))
}

/// Goes wrong for a while, then is left in peace.
fn run(seed: u64) -> Apart {
    let mut cluster = draw(seed);
    let mut config = cluster.config.clone();
    config.reads = Reads::Groups;
    let loss = cluster.loss;
    cluster = Cluster::new(seed, config);
    cluster.loss = loss;
    let mut apart = Apart::over(cluster);
    let (steps, calm) = (60 + apart.cluster.rng.below(80), apart.cluster.rng.chance(0.3));
    for _ in 0..steps {
        if !calm {
            trouble(&mut apart.cluster);
        }
        apart.remind();
        for _ in 0..apart.cluster.rng.below(8) {
            apart.step();
        }
        let ms = [1, 5, 40, 300][apart.cluster.rng.below(4) as usize];
        let ms = apart.cluster.rng.below(ms) + 1;
        apart.cluster.run(ms);
    }
    apart.cluster.cuts.clear();
    apart.cluster.loss = 0.0;
    if apart.cluster.rng.chance(0.5) {
        super::dead_rings::lack_a_majority_for_a_while(&mut apart);
    }
    (0..apart.cluster.nodes()).for_each(|node| apart.cluster.restart(node));
    apart.cluster.run(50);
    apart.remind();
    let settled = apart.cluster.run_until(8_000, Cluster::is_settled);
    assert!(settled, "liveness: {}", apart.cluster.describe());
    for node in 0..apart.cluster.nodes() {
        for ring in apart.wanted[usize::from(node)].clone() {
            let reads =
                apart.cluster.run_until(3_000, |cluster| cluster.hosts[usize::from(node)].engine.reads(Topic(ring)));
            assert!(reads, "liveness: n{node} does not come to read ring {ring}\n{}", apart.cluster.describe());
        }
    }
    apart.judge();
    let retains = apart.cluster.config.paxos.retain > 1 << 20;
    assert!(!(calm && retains) || apart.cluster.restarts == 0, "undisturbed: a node started anew");
    apart
}

#[test]
fn who_joins_a_group_of_a_ring_is_given_all_of_it_whatever_goes_wrong() {
    let read = |name: &str, other| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let first: u64 = read("FIRST_SEED", 1);
    let (mut deliveries, mut joins, mut dead, seeds) = (0, 0, 0, read("CLUSTERS", 80));
    for seed in first..first + seeds {
        match std::panic::catch_unwind(|| run(seed)) {
            Ok(apart) => {
                deliveries += apart.cluster.deliveries;
                joins += apart.joins;
                dead += apart.dead_rings;
            }
            Err(_) => panic!("seed {seed}"),
        }
    }
    println!("{seeds} clusters, {deliveries} deliveries, {joins} joins, {dead} with readers of dead rings");
    assert!(joins > seeds && dead > seeds / 20 && deliveries > 20 * seeds, "it tries what it is for");
}

/// Four nodes of which three vote in both rings; the first of them is global.
fn four(seed: u64) -> Apart {
    let mut config = config(4, &[(1, &[0, 1, 2]), (2, &[0, 1, 2])]);
    config.reads = Reads::Groups;
    let mut apart = Apart::over(Cluster::new(seed, config));
    apart.cluster.run(1);
    apart.remind();
    let settled = apart.cluster.run_until(3_000, Cluster::is_settled);
    assert!(settled, "liveness: {}", apart.cluster.describe());
    apart
}

fn come_to_read(apart: &mut Apart, node: u16) {
    apart.want(node, 2, true);
    let reads = |cluster: &Cluster| cluster.hosts[usize::from(node)].engine.reads(Topic(2));
    assert!(apart.cluster.run_until(1_000, reads), "liveness: {}", apart.cluster.describe());
}

#[test]
fn who_does_not_read_a_ring_takes_no_part_in_it_and_comes_and_goes_as_it_likes() {
    //= MP74 test
    //= MP75 test
    //= X98 test
    let mut apart = four(1);
    assert!(apart.cluster.hosts[3].engine.ring(RingId(2)).is_none());
    let votes =
        |node: usize| apart.cluster.hosts[node].engine.ring(RingId(2)).is_some_and(|ring| ring.acceptor().is_some());
    assert!((0..3).all(votes), "who votes takes part");
    for round in 0..3 {
        come_to_read(&mut apart, 0);
        (0..50).for_each(|_| apart.say(0, 2, 500));
        assert!(apart.cluster.run_until(2_000, Cluster::is_settled), "liveness: {}", apart.cluster.describe());
        come_to_read(&mut apart, 3);
        apart.join(3, 2);
        (0..20).for_each(|_| apart.say(3, 2, 100));
        let settled = apart.cluster.run_until(2_000, Cluster::is_settled);
        assert!(settled, "liveness: {}", apart.cluster.describe());
        apart.leave(3, 2);
        apart.want(3, 2, false);
        let out = |cluster: &Cluster| cluster.hosts[3].engine.ring(RingId(2)).is_none();
        assert!(apart.cluster.run_until(2_000, out), "round {round}: {}", apart.cluster.describe());
    }
    let of_ring = |node: u16| {
        apart.cluster.given_to.iter().filter(|(member, _, _, text)| member.node.0 == node && is_of(text, "2")).count()
    };
    assert_eq!((of_ring(0), of_ring(1), of_ring(3)), (210, 0, 60));
    assert_eq!(apart.cluster.restarts, 0);
    apart.judge();
}

#[test]
fn a_ring_that_ran_ahead_is_read_once_the_global_one_has_come_as_far() {
    //= MP71 test
    (1..=10).for_each(ahead);
}

/// One node joins and leaves while another sends to both rings, of which now one and now the other has come further.
pub fn ahead(seed: u64) {
    let mut apart = four(seed);
    come_to_read(&mut apart, 0);
    for _ in 0..30 {
        apart.want(3, 2, true);
        let joins = apart.joins;
        for _ in 0..2_000 {
            // Whichever ring others wait for skips, and is ahead then.
            match apart.cluster.rng.below(8) {
                0 => drop(apart.cluster.submit_as(0, 0, "g", 50)),
                1..3 => {}
                _ => apart.say(0, 2, 100),
            }
            apart.join(3, 2);
            let ms = apart.cluster.rng.below(2);
            apart.cluster.run(ms);
            if apart.joins > joins && apart.cluster.rng.chance(0.1) {
                break;
            }
        }
        assert!(apart.joins > joins, "liveness: {}", apart.cluster.describe());
        apart.leave(3, 2);
        apart.want(3, 2, false);
    }
    apart.judge();
}

#[test]
fn who_takes_a_ring_up_again_and_again_under_load_disturbs_nobody() {
    //= X98 test
    for seed in 1..=5 {
        let mut apart = four(seed);
        come_to_read(&mut apart, 0);
        for round in 0..30 {
            apart.want(3, 2, true);
            let mut waited = 0;
            while !apart.reads(3, 2) {
                apart.say(0, 2, 300);
                apart.cluster.run(1);
                waited += 1;
                assert!(waited < 1_000, "liveness: round {round}\n{}", apart.cluster.describe());
            }
            apart.say(3, 2, 100);
            apart.want(3, 2, false);
            for _ in 0..apart.cluster.rng.below(100) {
                apart.say(0, 2, 300);
                apart.cluster.run(1);
            }
        }
        let settled = apart.cluster.run_until(2_000, Cluster::is_settled);
        assert!(settled, "liveness: {}", apart.cluster.describe());
        assert_eq!(apart.cluster.restarts, 0, "undisturbed: a node started anew");
        apart.judge();
    }
}

#[test]
fn who_waits_to_read_a_ring_without_a_majority_holds_up_nobody() {
    //= MP70 test
    let mut config = config(5, &[(1, &[0, 1, 2]), (2, &[2, 3, 4])]);
    config.reads = Reads::Groups;
    let mut apart = Apart::over(Cluster::new(3, config));
    apart.cluster.run(1);
    apart.remind();
    assert!(apart.cluster.run_until(3_000, Cluster::is_settled), "liveness: {}", apart.cluster.describe());
    apart.cluster.run(500);
    let far = [3, 4].into_iter().flat_map(|node| (0..5).map(move |other| (node, other)));
    far.filter(|(node, other)| node != other).for_each(|(node, other)| apart.cluster.cut(node, other));
    apart.cluster.run(2_000);
    apart.want(0, 2, true);
    for _ in 0..50 {
        assert!(apart.cluster.submit_as(0, 0, "g", 50) && apart.cluster.submit_as(1, 0, "g", 50));
        let given = apart.cluster.run_until(100, |cluster| cluster.hosts[..3].iter().all(|host| host.owed.is_empty()));
        assert!(given, "liveness: {}", apart.cluster.describe());
    }
    assert!(!apart.reads(0, 2));
    apart.cluster.cuts.clear();
    let reads = apart.cluster.run_until(8_000, |cluster| cluster.hosts[0].engine.reads(Topic(2)));
    assert!(reads, "liveness: {}", apart.cluster.describe());
}

#[test]
fn who_was_told_nothing_is_let_in_once_it_reads_all() {
    //= MP78 test
    let mut config = config(4, &[(1, &[0, 1, 2]), (2, &[0, 1, 2])]);
    config.reads = Reads::Groups;
    let mut apart = Apart::over(Cluster::new(4, config));
    let read = |cluster: &Cluster| cluster.hosts.iter().map(|host| host.engine.reads(Topic(2))).collect::<Vec<_>>();
    let settled = apart.cluster.run_until(3_000, |cluster| {
        let inside =
            |node: usize| cluster.hosts[node].engine.ring(RingId(1)).is_some_and(|ring| ring.members().is_some());
        (0..4).for_each(|node| assert!(!inside(node) || read(cluster)[node], "reading: n{node} is in before it reads"));
        cluster.is_settled()
    });
    assert!(settled, "liveness: {}", apart.cluster.describe());
    apart.judge();
}
