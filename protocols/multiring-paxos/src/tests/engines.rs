//! Whole engines together.
use super::cluster::{Cluster, MS, config};
use crate::pace::Wanted;
use crate::packet::{Content, Packet};
use crate::slot::{RingId, Slot};
use consort_order::{Advice, Arrival, Engine, Lane};
use consort_types::{Incarnation, Instant, MemberId, NodeId, OrderStream};

/// Three nodes, all of which vote in two rings.
fn three(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(seed, config(3, &[(1, &[0, 1, 2]), (2, &[0, 1, 2])]));
    assert!(cluster.run_until(3_000, Cluster::is_settled), "liveness: {}", cluster.describe());
    cluster
}

#[test]
fn messages_of_two_rings_are_given_to_all_in_one_order() {
    //= MP50 test
    //= MP53 test
    //= MP57 test
    let mut cluster = three(1);
    for at in 0..60_u16 {
        assert!(cluster.submit(at % 3, at / 3 % 3, 40));
        cluster.run(u64::from(at % 2));
    }
    assert!(cluster.run_until(500, Cluster::is_settled), "liveness: {}", cluster.describe());
    assert_eq!(cluster.deliveries, 180);
    assert!(!cluster.submit(0, 9, 40), "there is no such ring");
}

#[test]
fn an_idle_ring_holds_messages_up_for_little_and_rests_when_nobody_waits() {
    //= MP40 test
    //= MP41 test
    //= MP42 test
    let mut cluster = three(2);
    for _ in 0..500 {
        assert!(cluster.submit(0, 2, 40));
        cluster.run(1);
    }
    let mut took = std::mem::take(&mut cluster.took);
    took.sort_unstable();
    let (half, most) = (took[took.len() / 2], took[took.len() - 1]);
    assert!(half < 5 * MS && most < 20 * MS, "half within {half} ns, all within {most}");
    cluster.run(2_000);
    let skips = |cluster: &Cluster| (0..3).map(|node| cluster.counter(node, "skips_due")).sum::<u64>();
    let before = skips(&cluster);
    cluster.run(2_000);
    assert_eq!(skips(&cluster), before, "nobody waits");
    assert!(cluster.submit(1, 1, 40) && cluster.run_until(20, Cluster::is_settled), "liveness: {}", cluster.describe());
}

#[test]
fn a_ring_that_runs_ahead_waits_for_the_others_no_longer_than_one_skip_takes() {
    //= MP04 test
    let mut cluster = three(9);
    assert!(cluster.submit(0, 1, 40) && cluster.run_until(500, Cluster::is_settled));
    let ring = cluster.hosts[0].engine.ring(RingId(1)).unwrap();
    let slot = Slot(ring.learner().head().slots).plus(Slot::PER_SECOND * 2 / 5);
    let wanted = Wanted { slot, reached: Slot::FIRST, clock: Slot::FIRST };
    let packet = Packet { ring: RingId(1), content: Content::Wanted(wanted) };
    let leader = ring.leader().unwrap();
    let from = MemberId { node: leader, incarnation: Incarnation(1) };
    let arrival = Arrival { from, lane: Lane::Reliable, at: Instant(cluster.now) };
    cluster.hosts[usize::from(leader.0)].engine.handle_packet(Instant(cluster.now), arrival, packet);
    cluster.run(10);
    cluster.took.clear();
    for _ in 0..300 {
        assert!(cluster.submit(0, 1, 2_000));
        cluster.run(1);
    }
    let mut took = std::mem::take(&mut cluster.took);
    took.sort_unstable();
    let (half, most) = (took[took.len() / 2], took[took.len() - 1]);
    assert!(half < 10 * MS && most < 30 * MS, "half within {half} ns, all within {most}");
}

#[test]
fn each_ring_is_led_by_the_one_advised_for_it() {
    //= MP90 test
    let mut cluster = three(7);
    let leaders = |cluster: &Cluster| [1, 2].map(|ring| cluster.hosts[0].engine.ring(RingId(ring)).unwrap().leader());
    assert_eq!(leaders(&cluster), [Some(NodeId(0)); 2]);
    for (stream, node) in [(1, 2), (2, 1), (9, 0), (300, 0)] {
        for host in &mut cluster.hosts {
            let advice = Advice::Leader { stream: OrderStream(stream), node: Some(NodeId(node)) };
            host.engine.advise(Instant(cluster.now), advice);
        }
    }
    for at in 0..3_000 {
        assert!(cluster.submit(at % 3, 1 + at % 2, 40));
        cluster.run(2);
    }
    assert_eq!(leaders(&cluster), [Some(NodeId(2)), Some(NodeId(1))]);
    assert!(cluster.run_until(500, Cluster::is_settled), "liveness: {}", cluster.describe());
}

#[test]
fn rings_skip_unasked_where_they_are_told_to() {
    //= MP41 test
    let mut told = config(3, &[(1, &[0, 1, 2]), (2, &[0, 1, 2])]);
    told.skips_unasked = true;
    let mut cluster = Cluster::new(2, told);
    assert!(cluster.run_until(3_000, Cluster::is_settled), "liveness: {}", cluster.describe());
    let skips = |cluster: &Cluster| (0..3).map(|node| cluster.counter(node, "skips_due")).sum::<u64>();
    cluster.run(2_000);
    let before = skips(&cluster);
    cluster.run(2_000);
    assert_eq!(skips(&cluster) - before, 2 * 1_000, "two rings, each once in 2 ms");
}

#[test]
fn messages_of_one_node_keep_their_order_across_rings() {
    //= MP51 test
    let mut cluster = three(3);
    (0..200).for_each(|at| assert!(cluster.submit(at % 3, 1 + at / 3 % 2, 100)));
    assert!(cluster.run_until(3_000, Cluster::is_settled), "liveness: {}", cluster.describe());
}

#[test]
fn what_a_view_makes_void_is_sent_again() {
    //= MP52 test
    let mut cluster = three(4);
    for at in 0..40_u16 {
        assert!(cluster.submit(at % 2, 1 + at % 2, 3_000));
    }
    cluster.stop(2);
    let others = |cluster: &Cluster| cluster.hosts[..2].iter().all(|host| host.owed.is_empty());
    assert!(cluster.run_until(3_000, others), "liveness: {}", cluster.describe());
    cluster.restart(2);
    assert!(cluster.run_until(3_000, Cluster::is_settled), "liveness: {}", cluster.describe());
}

#[test]
fn a_ring_without_a_majority_holds_up_all_and_says_so() {
    let mut cluster = Cluster::new(5, config(4, &[(1, &[0, 1, 2]), (2, &[3])]));
    assert!(cluster.run_until(3_000, Cluster::is_settled), "liveness: {}", cluster.describe());
    let obstacle = |cluster: &Cluster| cluster.hosts[0].engine.obstacle(Instant(cluster.now));
    assert_eq!(obstacle(&cluster), None);
    cluster.stop(3);
    cluster.run(2_000);
    //= MP95 test
    let lacking = obstacle(&cluster).map(|obstacle| obstacle.to_string());
    assert_eq!(lacking.as_deref(), Some("ring 2: 1 of 1 acceptors must run and vote, and 0 do: n3 does not answer"));
    assert!(cluster.submit(0, 1, 40));
    cluster.run(500);
    let state = cluster.describe();
    assert!(!cluster.hosts[0].owed.is_empty() && state.contains("waits for ring 2"), "{state}");
}

#[test]
fn a_node_that_comes_late_begins_where_the_logs_do() {
    //= MP54 test
    //= MP55 test
    let mut config = config(4, &[(1, &[0, 1, 2]), (2, &[0, 1, 2])]);
    config.paxos.value = 1_024;
    config.paxos.retain = 8_192;
    let mut cluster = Cluster::new(6, config);
    cluster.run(1);
    cluster.stop(3);
    for at in 0..300 {
        cluster.run(2);
        cluster.submit(at % 3, 1 + at % 2, 500);
    }
    cluster.restart(3);
    assert!(cluster.run_until(6_000, Cluster::is_settled), "liveness: {}", cluster.describe());
    let first = |ring| cluster.hosts[3].engine.ring(RingId(ring)).unwrap().learner().first().at;
    assert!(first(1) > 0 && first(2) > 0, "it has not read all");
    let given = cluster.deliveries;
    assert!(cluster.submit(3, 2, 40) && cluster.run_until(500, Cluster::is_settled));
    assert_eq!(cluster.deliveries, given + 4);
    //= MP43 test
    let ring = |ring| cluster.hosts[0].engine.ring(RingId(ring)).unwrap().learner().head().slots;
    let ahead = [1, 2].map(|of| (ring(of) * 1_000 / Slot::PER_SECOND).saturating_sub(cluster.now / MS));
    assert!(ahead.iter().all(|ms| *ms < 30), "rings run {ahead:?} ms ahead, as one came late");
}

#[test]
fn a_node_that_was_left_out_is_let_in_once_it_has_read_all_rings() {
    //= MP55 test
    let mut cluster = Cluster::new(8, config(4, &[(1, &[0, 1, 2]), (2, &[0, 1, 2])]));
    assert!(cluster.run_until(3_000, Cluster::is_settled), "liveness: {}", cluster.describe());
    (0..3).for_each(|other| cluster.cut(3, other));
    for at in 0..1_500 {
        cluster.submit(at % 3, 1 + at / 3 % 2, 40);
        cluster.run(1);
    }
    cluster.cuts.clear();
    // It learns what the ring of the views has decided, and nothing of the other one.
    cluster.filter = Some(|to, packet| {
        to == 3 && packet.ring == RingId(2) && matches!(packet.content, Content::Ring(ref packet) if is_told(packet))
    });
    let ring = |cluster: &Cluster, node: usize, ring| cluster.hosts[node].engine.ring(RingId(ring)).unwrap().clone();
    let lacks = |cluster: &Cluster, of| ring(cluster, 0, of).learner().next() - ring(cluster, 3, of).learner().next();
    assert!(cluster.run_until(4_000, |cluster| lacks(cluster, 1) < 10), "liveness: {}", cluster.describe());
    cluster.run(1_000);
    let present = ring(&cluster, 0, 1).learner().present().clone();
    assert!(present.primary && present.last.len() == 3, "it lacks {}: {present:?}", lacks(&cluster, 2));
    cluster.filter = None;
    assert!(cluster.run_until(6_000, Cluster::is_settled), "liveness: {}", cluster.describe());
}

fn is_told(packet: &consort_paxos::packet::Packet) -> bool {
    matches!(packet.content, consort_paxos::packet::Content::Learnt { .. })
}

#[test]
fn a_node_that_missed_more_than_is_retained_starts_anew() {
    //= MP55 test
    //= MP56 test
    let mut config = config(4, &[(1, &[0, 1, 2]), (2, &[1, 2, 3])]);
    config.paxos.value = 1_024;
    config.paxos.retain = 4_096;
    let mut cluster = Cluster::new(7, config);
    assert!(cluster.run_until(3_000, Cluster::is_settled), "liveness: {}", cluster.describe());
    (0..3).for_each(|other| cluster.cut(3, other));
    cluster.run(1_500);
    for at in 0..200 {
        cluster.submit(at % 3, 1 + at % 2, 500);
        cluster.run(3);
    }
    cluster.cuts.clear();
    assert!(cluster.run_until(8_000, |cluster| cluster.is_settled()), "liveness: {}", cluster.describe());
    assert!(cluster.restarts > 0 && cluster.hosts[3].incarnation > 1, "it starts anew");
}
