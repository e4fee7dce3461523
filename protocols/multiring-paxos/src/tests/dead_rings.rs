//! Rings that lack a majority of their acceptors: they hold up their readers alone.
use super::apart::Apart;
use super::cluster::{Cluster, config};
use crate::config::Reads;
use crate::slot::{RingId, Slot};
use consort_order::{Engine, Fact, Topic};
use consort_types::{Instant, NodeId, OrderWait};
use std::collections::BTreeSet;

fn acceptors(cluster: &Cluster, ring: RingId) -> Vec<u16> {
    let of_ring = cluster.config.rings.iter().filter(|other| other.id == ring);
    of_ring.flat_map(|other| &other.acceptors).map(|node| node.0).collect()
}

/// A ring whose acceptors are cut off in part, so that it lacks a majority and the global ring does not.
struct Loss {
    cut: BTreeSet<u16>,
    /// The rings that lack a majority.
    dead: Vec<RingId>,
}

impl Loss {
    fn of(cluster: &Cluster, ring: RingId) -> Option<Self> {
        let of_ring: BTreeSet<_> = acceptors(cluster, ring).into_iter().collect();
        let cut: BTreeSet<_> = of_ring.iter().rev().take(of_ring.len().div_ceil(2)).copied().collect();
        let lacks = |ring: &RingId| {
            let all = acceptors(cluster, *ring);
            all.iter().filter(|node| !cut.contains(node)).count() <= all.len() / 2
        };
        let dead: Vec<_> = cluster.config.rings.iter().map(|ring| ring.id).filter(lacks).collect();
        (!dead.contains(&cluster.config.global)).then_some(Self { cut, dead })
    }

    fn begin(&self, cluster: &mut Cluster) {
        for (node, other) in self.cut.iter().flat_map(|node| (0..5).map(move |other| (*node, other))) {
            if node != other && other < cluster.nodes() {
                cluster.cut(node, other);
            }
        }
    }

    /// A node that may crash and forget now: in each ring where it votes a majority of the others is left.
    fn may_crash(&self, cluster: &Cluster) -> Option<u16> {
        let spared = |node: u16, ring: &crate::Ring| {
            let left = ring.acceptors.iter().filter(|other| other.0 != node && !self.cut.contains(&other.0)).count();
            !ring.acceptors.contains(&NodeId(node)) || left > ring.acceptors.len() / 2
        };
        self.left(cluster).find(|node| cluster.config.rings.iter().all(|ring| spared(*node, ring)))
    }

    fn left(&self, cluster: &Cluster) -> impl Iterator<Item = u16> {
        (0..cluster.nodes()).filter(|node| !self.cut.contains(node))
    }

    fn is_reader(&self, cluster: &Cluster, node: u16) -> bool {
        let engine = &cluster.hosts[usize::from(node)].engine;
        self.dead.iter().any(|ring| engine.reads(Topic(ring.0.into())))
    }

    fn readers(&self, cluster: &Cluster) -> u64 {
        self.left(cluster).filter(|node| self.is_reader(cluster, *node)).count() as u64
    }

    /// Whether all that are left and do not read such a ring are in one primary view, and have all that they sent.
    fn others_go_on(&self, cluster: &Cluster) -> bool {
        let others: Vec<_> = self.left(cluster).filter(|node| !self.is_reader(cluster, *node)).collect();
        others.iter().all(|node| {
            let host = &cluster.hosts[usize::from(*node)];
            let has_all = others.iter().all(|other| host.members.contains(other));
            host.up && host.is_primary && host.owed.is_empty() && has_all
        })
    }
}

/// Whether the others go on within eight seconds. After the end of its incarnation a node is asked again to read what its clients
/// need.
fn go_on(apart: &mut Apart, loss: &Loss) -> bool {
    (0..80).any(|_| {
        apart.remind();
        apart.cluster.run_until(100, |cluster| loss.others_go_on(cluster))
    })
}

/// Cuts some acceptors of a ring off for a while. The others go on, but for those that read it; one of them may crash meanwhile.
pub fn lack_a_majority_for_a_while(apart: &mut Apart) {
    (0..apart.cluster.nodes()).for_each(|node| apart.cluster.restart(node));
    apart.cluster.run(50);
    apart.remind();
    settle(apart);
    let (global, rings) = (apart.cluster.config.global, apart.cluster.config.rings.clone());
    let ring = rings[apart.cluster.rng.below(rings.len() as u64) as usize].id;
    if ring != global && apart.cluster.rng.chance(0.7) {
        let node = apart.cluster.rng.below(apart.cluster.nodes().into()) as u16;
        read(apart, node, ring.0.into());
        apart.join(node, ring.0.into());
    }
    let Some(loss) = Loss::of(&apart.cluster, ring) else { return };
    loss.begin(&mut apart.cluster);
    for _ in 0..apart.cluster.rng.between(3, 12) {
        for _ in 0..apart.cluster.rng.below(6) {
            apart.step();
        }
        apart.cluster.run(10);
    }
    if let Some(node) = loss.may_crash(&apart.cluster) {
        restart(apart, node);
    }
    let readers = loss.readers(&apart.cluster);
    apart.dead_rings = u64::from(readers > 0);
    assert!(go_on(apart, &loss), "liveness of others: {}", apart.cluster.describe());
    let views: Vec<_> = apart.cluster.hosts.iter().map(|host| host.views).collect();
    let restarts = apart.cluster.restarts;
    for _ in 0..80 {
        apart.remind();
        apart.cluster.run(100);
    }
    // Those that are cut off go, then each reader, once: none comes back while its ring is dead. One that missed what is not
    // retained ends its incarnation, though.
    let most = apart.cluster.hosts.iter().zip(views).map(|(host, before)| host.views.saturating_sub(before)).max();
    let steady = most <= Some(readers + 1) || apart.cluster.restarts > restarts;
    assert!(steady, "steady: {most:?} views more\n{}", apart.cluster.describe());
    assert!(go_on(apart, &loss), "liveness of others: {}", apart.cluster.describe());
    apart.cluster.cuts.clear();
}

/// Five nodes. Those from 0 to 2 keep the global ring and ring 2, those from 2 to 4 ring 3, which node 2 reads.
fn five(seed: u64) -> Apart {
    begin(seed, &[(1, &[0, 1, 2]), (2, &[0, 1, 2]), (3, &[2, 3, 4])])
}

fn begin(seed: u64, rings: &[(u8, &[u16])]) -> Apart {
    let mut config = config(5, rings);
    config.reads = Reads::Groups;
    let mut apart = Apart::over(Cluster::new(seed, config));
    apart.cluster.run(1);
    apart.remind();
    settle(&mut apart);
    for (node, ring) in rings[1..].iter().map(|(ring, acceptors)| (acceptors[0], u16::from(*ring))) {
        read(&mut apart, node, ring);
        apart.join(node, ring);
        apart.say(node, ring, 100);
    }
    settle(&mut apart);
    apart
}

fn settle(apart: &mut Apart) {
    assert!(apart.cluster.run_until(8_000, Cluster::is_settled), "liveness: {}", apart.cluster.describe());
}

fn read(apart: &mut Apart, node: u16, ring: u16) {
    apart.want(node, ring, true);
    let reads = |cluster: &Cluster| cluster.hosts[usize::from(node)].engine.reads(Topic(ring));
    assert!(apart.cluster.run_until(8_000, reads), "liveness: {}", apart.cluster.describe());
}

/// Nodes 3 and 4 are cut off, and node 1 comes back in a new incarnation.
fn lose(apart: &mut Apart) {
    for (node, other) in [3, 4].into_iter().flat_map(|node| (0..5).map(move |other| (node, other))) {
        if node != other {
            apart.cluster.cut(node, other);
        }
    }
}

fn restart(apart: &mut Apart, node: u16) {
    apart.cluster.stop(node);
    apart.cluster.run(500);
    apart.cluster.restart(node);
    apart.cluster.run(2);
    apart.remind();
}

fn are_in(cluster: &Cluster, nodes: &[u16]) -> bool {
    nodes.iter().all(|node| {
        let host = &cluster.hosts[usize::from(*node)];
        host.is_primary && host.members == nodes && host.owed.is_empty()
    })
}

#[test]
fn a_ring_without_a_majority_holds_up_only_its_readers() {
    //= MP79 test
    (1..=5).for_each(holds_up);
}

/// Node 2 waits for ring 3; the others go on without it, and it comes back once, when the ring does.
pub fn holds_up(seed: u64) {
    let mut apart = five(seed);
    lose(&mut apart);
    apart.cluster.run(20);
    apart.say(2, 3, 10);
    restart(&mut apart, 1);
    apart.say(0, 2, 100);
    let without = apart.cluster.run_until(6_000, |cluster| are_in(cluster, &[0, 1]));
    assert!(without, "liveness: {}", apart.cluster.describe());
    assert!(apart.cluster.hosts[2].engine.is_apart() && !apart.cluster.hosts[0].engine.is_apart());
    let views = apart.cluster.hosts[0].views;
    for _ in 0..50 {
        apart.say(0, 2, 100);
        apart.cluster.submit_as(1, 0, "g", 50);
        apart.cluster.run(100);
    }
    assert!(are_in(&apart.cluster, &[0, 1]), "liveness: {}", apart.cluster.describe());
    assert_eq!(apart.cluster.hosts[0].views, views, "views: it comes and goes");
    apart.cluster.cuts.clear();
    settle(&mut apart);
    assert_eq!(apart.cluster.restarts, 0, "undisturbed: a node began again");
    assert!(!apart.cluster.hosts[2].engine.is_apart());
    apart.say(2, 3, 100);
    settle(&mut apart);
    apart.judge();
}

#[test]
fn who_reads_a_ring_whose_acceptors_are_gone_is_left_out_with_them() {
    //= MP79 test
    let mut apart = five(2);
    [3, 4].into_iter().for_each(|node| apart.cluster.stop(node));
    let without = apart.cluster.run_until(1_500, |cluster| are_in(cluster, &[0, 1]));
    assert!(without, "liveness: {}", apart.cluster.describe());
}

#[test]
fn who_reads_two_rings_without_a_majority_comes_back_once_both_have_one() {
    //= MP79 test
    (1..=5).for_each(holds_up_twice);
}

/// Node 2 reads rings 3 and 4. Both lose their majorities, and ring 3 has its own again before ring 4 has.
pub fn holds_up_twice(seed: u64) {
    let mut apart = begin(seed, &[(1, &[0, 1, 2]), (2, &[0, 1, 2]), (3, &[2, 3, 4]), (4, &[2, 3, 4])]);
    apart.cluster.filter = Some(|to, packet| packet.ring.0 >= 3 && to >= 2);
    for _ in 0..25 {
        apart.cluster.submit_as(0, 0, "g", 10);
        apart.cluster.run(200);
    }
    assert!(are_in(&apart.cluster, &[0, 1, 3, 4]), "liveness: {}", apart.cluster.describe());
    apart.cluster.filter = Some(|to, packet| packet.ring.0 == 4 && to >= 2);
    let views = apart.cluster.hosts[0].views;
    for _ in 0..25 {
        apart.cluster.submit_as(0, 0, "g", 10);
        apart.cluster.run(200);
        assert_eq!(apart.cluster.hosts[0].views, views, "views: it comes back too soon");
    }
    apart.cluster.filter = None;
    settle(&mut apart);
    assert_eq!((apart.cluster.hosts[0].views, apart.cluster.restarts), (views + 1, 0));
    apart.judge();
}

#[test]
fn a_ring_that_lacks_its_majority_for_two_seconds_changes_no_view() {
    //= MP79 test
    let mut apart = five(3);
    let lease = apart.cluster.config.paxos.lease;
    let views = |apart: &Apart| apart.cluster.hosts[..3].iter().map(|host| host.views).collect::<Vec<_>>();
    // The links of the ring alone are cut: all nodes are reached.
    apart.cluster.filter = Some(|to, packet| packet.ring == RingId(3) && to >= 2);
    let before = views(&apart);
    apart.cluster.run(600);
    apart.cluster.submit_as(2, 0, "g", 10);
    apart.cluster.run(2_000);
    assert!(!apart.cluster.hosts[2].owed.is_empty(), "its ring holds it up");
    apart.cluster.filter = None;
    settle(&mut apart);
    apart.cluster.run(u64::try_from(lease.as_millis()).unwrap());
    assert_eq!(views(&apart), before);
    // For longer it does, and all are back once it is over.
    apart.cluster.filter = Some(|to, packet| packet.ring == RingId(3) && to >= 2);
    apart.cluster.run(600);
    apart.cluster.submit_as(2, 0, "g", 10);
    apart.cluster.run(5_000);
    assert_eq!(apart.cluster.hosts[0].members, [0, 1, 3, 4], "{}", apart.cluster.describe());
    apart.cluster.filter = None;
    settle(&mut apart);
    apart.judge();
}

#[test]
fn who_has_read_nothing_of_a_ring_goes_on_though_its_log_is_lost() {
    //= MP81 test
    (1..=5).for_each(loses_the_log);
}

/// All acceptors of ring 3 but node 2 forget, while node 0 waits to read it.
pub fn loses_the_log(seed: u64) {
    let mut apart = five(seed);
    [3, 4].into_iter().for_each(|node| apart.cluster.stop(node));
    apart.cluster.run(1_000);
    apart.want(0, 3, true);
    apart.cluster.run(1_000);
    assert!(!apart.reads(0, 3));
    [3, 4].into_iter().for_each(|node| apart.cluster.restart(node));
    apart.cluster.run(2);
    apart.remind();
    settle(&mut apart);
    read(&mut apart, 0, 3);
    let incarnations: Vec<_> = apart.cluster.hosts.iter().map(|host| host.incarnation).collect();
    assert_eq!(incarnations[..2], [1, 1], "undisturbed: a node began again");
    assert!(incarnations[2] > 1, "who votes in the log that is lost does begin again");
    apart.join(0, 3);
    apart.say(0, 3, 100);
    settle(&mut apart);
    apart.judge();
}

#[test]
fn a_ring_without_a_majority_is_not_begun_though_it_ran_ahead() {
    //= MP80 test
    (1..=5).for_each(is_not_begun);
}

/// Ring 3 has come further than anything was handed out when node 0 is to read it.
pub fn is_not_begun(seed: u64) {
    let mut apart = five(seed);
    apart.cluster.run_ahead(2, RingId(3), 10 * Slot::PER_SECOND);
    apart.cluster.run(10);
    lose(&mut apart);
    apart.cluster.run(1_000);
    apart.want(0, 3, true);
    apart.cluster.run(500);
    for _ in 0..20 {
        apart.cluster.submit_as(0, 0, "g", 10);
        let given = apart.cluster.run_until(300, |cluster| cluster.hosts[0].owed.is_empty());
        assert!(given, "liveness: {}", apart.cluster.describe());
    }
    assert!(!apart.reads(0, 3));
    apart.cluster.cuts.clear();
    read(&mut apart, 0, 3);
    settle(&mut apart);
    apart.judge();
}

fn row(cluster: &Cluster, node: usize, ring: u16) -> String {
    let mut row = String::new();
    cluster.hosts[node].engine.observe(Instant(cluster.now), &mut |fact| {
        if let Fact::Part { what: "ring", part, value } = fact
            && part == ring
        {
            row = value;
        }
    });
    row
}

#[test]
fn what_a_ring_lacks_is_named_to_operators_and_to_clients_that_wait() {
    //= MP82 test
    let mut apart = five(9);
    let trouble = |apart: &Apart, node: usize| {
        consort_order::trouble_of(&apart.cluster.hosts[node].engine, Instant(apart.cluster.now))
    };
    assert_eq!(trouble(&apart, 2), None);
    [3, 4].into_iter().for_each(|node| apart.cluster.stop(node));
    apart.cluster.submit_as(2, 0, "g", 10);
    apart.want(0, 3, true);
    apart.cluster.run(2_000);
    let lacks = "ring 3: 2 of 3 acceptors must run and vote, and 1 does: n3 n4 do not answer";
    assert_eq!(trouble(&apart, 0).unwrap_or_default(), lacks);
    let apart_from = "until ring 3 goes on this node hands out nothing, and is not in the view of the others";
    assert_eq!(trouble(&apart, 2), Some(format!("{lacks}; {apart_from}")));
    assert_eq!(trouble(&apart, 1), None, "it has nothing to do with it");
    assert!(row(&apart.cluster, 2, 3).contains("2 of 3 acceptors must run and vote, and 1 does: n3 n4 do not answer"));
    let engine = |apart: &Apart, node: usize| apart.cluster.hosts[node].engine.clone();
    assert_eq!(engine(&apart, 2).wait_cause(), Some(OrderWait::Ring(3)));
    assert_eq!(engine(&apart, 0).wait_cause(), None);
    assert_eq!(engine(&apart, 0).stalled(Topic(3)), Some(OrderWait::Ring(3)));
    assert_eq!(engine(&apart, 0).stalled(Topic(2)), None);
    apart.cluster.restart(3);
    apart.cluster.run(500);
    let now = trouble(&apart, 0).unwrap();
    assert!(now.ends_with("n4 does not answer; n3 has lost its votes"), "{now}");
}
