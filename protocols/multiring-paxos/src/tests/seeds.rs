//! Many seeds: whatever goes wrong, the promises of whole engines hold; and once nothing does, all goes on.
use super::cluster::Cluster;
use crate::config::{Config, Ring};
use crate::slot::RingId;
use consort_types::{NodeId, Rng};

pub fn draw(seed: u64) -> Cluster {
    let mut rng = Rng::new(seed ^ 0xb1d);
    let nodes = rng.between(3, 5) as u16;
    let ring = |id| {
        let (first, acceptors) = (rng.below(nodes.into()) as u16, [3, 3, 3, 1][rng.below(4) as usize]);
        Ring { id: RingId(id), acceptors: (0..acceptors).map(|at| NodeId((first + at) % nodes)).collect() }
    };
    let rings = (1..=3).map(ring).collect::<Vec<_>>();
    let mut config = Config::new(NodeId(0), (0..nodes).map(NodeId).collect(), rings);
    config.rings.truncate(rng.between(1, 3) as usize);
    config.paxos.value = [64 << 10, 1_024][rng.below(2) as usize];
    config.paxos.window = [256, 4][rng.below(2) as usize];
    config.paxos.retain = [64 << 20, 16 << 10][rng.below(2) as usize].max(config.paxos.value);
    config.merge_bytes = [4 << 20, 2_000][rng.below(2) as usize];
    let mut cluster = Cluster::new(seed, config);
    cluster.loss = [0.0, 0.05, 0.3][rng.below(3) as usize];
    cluster
}

/// Goes wrong for a while, then is left in peace.
pub fn run(mut cluster: Cluster) -> Cluster {
    let steps = 30 + cluster.rng.below(60);
    for _ in 0..steps {
        trouble(&mut cluster);
        for _ in 0..cluster.rng.below(8) {
            let node = cluster.rng.below(cluster.nodes().into()) as u16;
            let (ring, len) = (cluster.rng.below(4) as u16, cluster.rng.below(3_000) as usize);
            cluster.submit(node, ring, len);
        }
        let ms = [1, 5, 40, 300][cluster.rng.below(4) as usize];
        let ms = cluster.rng.below(ms) + 1;
        cluster.run(ms);
    }
    cluster.cuts.clear();
    cluster.loss = 0.0;
    (0..cluster.nodes()).for_each(|node| cluster.restart(node));
    assert!(cluster.run_until(8_000, Cluster::is_settled), "liveness: {}", cluster.describe());
    let node = cluster.rng.below(cluster.nodes().into()) as u16;
    assert!(cluster.submit(node, 0, 50), "liveness: a message finds no room");
    assert!(cluster.run_until(1_000, Cluster::is_settled), "liveness: {}", cluster.describe());
    cluster
}

pub fn trouble(cluster: &mut Cluster) {
    let n = u64::from(cluster.nodes());
    let (a, b) = (cluster.rng.below(n) as u16, cluster.rng.below(n) as u16);
    match cluster.rng.below(18) {
        0 | 1 if cluster.may_forget(a) => cluster.stop(a),
        2..5 => cluster.restart(a),
        5 if a != b => cluster.break_link(a, b),
        6 | 7 if a != b => cluster.cut(a, b),
        8 => (0..cluster.nodes()).filter(|other| *other != a).for_each(|other| cluster.cut(a, other)),
        9..12 => cluster.cuts.clear(),
        _ => {}
    }
}

#[test]
fn promises_hold_whatever_goes_wrong_and_all_goes_on_afterwards() {
    //= MP50 test
    //= MP52 test
    //= MP53 test
    //= MP54 test
    //= MP55 test
    let read = |name: &str, other| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let first: u64 = read("FIRST_SEED", 1);
    let (mut deliveries, mut restarts, seeds) = (0, 0, read("CLUSTERS", 60));
    for seed in first..first + seeds {
        let cluster = draw(seed);
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(cluster))) {
            Ok(cluster) => {
                deliveries += cluster.deliveries;
                restarts += cluster.restarts;
            }
            Err(_) => panic!("seed {seed}"),
        }
    }
    println!("{seeds} clusters, {deliveries} deliveries, {restarts} restarts");
}
