//! Rings that are joined in several ways, step by step.
use super::cluster::{Cluster, MS, at_rest, config, formed, sound};
use crate::key::RingNumber;
use consort_types::{Duration, Rng, Service};

/// Two rings with two nodes in both: the lower one carries.
const TWICE: &[&[u16]] = &[&[1, 2, 3, 4], &[3, 4, 5, 6]];
/// Three rings in a loop, with a second gateway between the first two.
const LOOP: &[&[u16]] = &[&[1, 2, 3, 4], &[3, 4, 5, 6], &[6, 7, 1]];
/// Three rings in a loop: nobody else stands in both rings of a gateway.
const TRIANGLE: &[&[u16]] = &[&[1, 2, 3], &[3, 4, 5], &[5, 6, 1]];

/// How long it takes until all nodes that are up are in one view of these, and nodes hear from each other in it.
fn until_together(cluster: &mut Cluster, nodes: &[u16]) -> u64 {
    let (begun, first) = (cluster.now, nodes[0]);
    let know = cluster.texts(first).len();
    cluster.submit(nodes[nodes.len() - 1], Service::Agreed, 10);
    while cluster.together() != [nodes.to_vec()].into() || cluster.texts(first).len() == know {
        cluster.run(1);
        assert!(cluster.now - begun < 10_000 * MS, "{}", cluster.states());
    }
    (cluster.now - begun) / MS
}

#[test]
fn each_message_comes_once_where_two_gateways_join_the_same_rings() {
    //= TM61 test
    //= TM62 test
    let mut cluster = formed(TWICE);
    for round in 0..60 {
        for node in cluster.nodes() {
            let service = if round % 3 == 0 { Service::Safe } else { Service::Agreed };
            cluster.submit(node, service, 20 + 100 * (round % 4));
        }
        cluster.run(1);
    }
    at_rest(&mut cluster);
    let order = cluster.texts(1);
    assert_eq!(order.len(), 6 * 60);
    assert!(cluster.nodes().into_iter().all(|node| cluster.texts(node) == order));
    assert!(cluster.counter(3, "forwarded") > 0);
    assert_eq!(cluster.counter(4, "forwarded"), 0, "it stands by");
    assert!(cluster.states().contains("ring 2: stands by"), "{}", cluster.states());
    assert!(cluster.total("repeated_packets") > 0, "what nodes say for others comes by both");
}

#[test]
fn a_gateway_that_is_killed_is_replaced_within_a_second_and_no_message_is_lost() {
    //= TM33 test
    //= TM43 test
    //= TM61 test
    for (seed, layout) in [TWICE, LOOP, TRIANGLE].into_iter().cycle().take(12).enumerate() {
        let mut cluster = formed(layout);
        cluster.rng = Rng::new(seed as u64);
        let nodes = cluster.nodes();
        for round in 0..200 {
            for node in &nodes {
                cluster.submit(*node, [Service::Safe, Service::Agreed][round % 2], 200);
            }
            cluster.run(1);
            if round == 100 + seed {
                cluster.crash(3);
            }
        }
        let rest: Vec<_> = nodes.iter().copied().filter(|node| *node != 3).collect();
        let took = until_together(&mut cluster, &rest);
        assert!(took < 800, "{took} ms\n{}", cluster.states());
        at_rest(&mut cluster);
        let order = cluster.texts(1);
        assert!(rest.iter().all(|node| cluster.texts(*node) == order), "all were given the same");
        let of = |node: &u16| order.iter().filter(|text| text.starts_with(&format!("{node}."))).count();
        let sent = |node: &u16| 200 + usize::from(*node == rest[rest.len() - 1]);
        assert!(rest.iter().all(|node| of(node) == sent(node)), "nothing is lost and nothing comes twice");
        // It comes back, and the rings are as before.
        cluster.restart(3);
        until_together(&mut cluster, &nodes);
        at_rest(&mut cluster);
    }
}

/// The views of a node since all were together, when the lower gateway of two is lost with messages under way that nobody reads.
fn views_after_a_loss(node: u16, choosy: &[u16]) -> Vec<Vec<u16>> {
    let mut settings = config(TWICE);
    settings.tell = Duration::from_secs(5); // so nobody lets go of anything
    let mut cluster = Cluster::new(1, settings);
    cluster.choosy = choosy.iter().copied().collect();
    cluster.run(4_000);
    let before = cluster.hosts[&node].views.len();
    (0..50).for_each(|_| cluster.submit_to(1, &[1], Service::Agreed, 10));
    cluster.run(20);
    cluster.crash(3);
    cluster.run(3_000);
    sound(cluster.check());
    assert_eq!(cluster.together(), [vec![1, 2, 4, 5, 6]].into());
    cluster.hosts[&node].views[before..].to_vec()
}

#[test]
fn those_who_had_a_gateway_between_them_go_on_apart_where_one_side_holds_places_alone() {
    //= TM43 test
    let all = vec![1, 2, 4, 5, 6];
    let choosy = [1, 2, 3, 4, 5, 6];
    assert_eq!(views_after_a_loss(1, &choosy), [vec![1, 2, 4], all.clone()]);
    assert_eq!(views_after_a_loss(6, &choosy), [vec![5, 6], all.clone()]);
    assert_eq!(views_after_a_loss(6, &[]), [all], "all that is held is held whole");
}

#[test]
fn a_ring_that_splits_is_two_rings_of_a_view_where_another_way_joins_its_parts() {
    //= TM60 test
    //= TM63 test
    let mut cluster = formed(TWICE);
    cluster.cut(1, &[1, 3]);
    let nodes = cluster.nodes();
    let took = until_together(&mut cluster, &nodes);
    assert!(took < 3_000, "{took} ms");
    for node in &nodes {
        (0..20).for_each(|_| cluster.submit(*node, Service::Safe, 10));
    }
    at_rest(&mut cluster);
    assert_eq!(cluster.together(), [nodes.clone()].into());
    let order = cluster.texts(1);
    assert!(
        order.len() > 20 * 6 && nodes.iter().all(|node| cluster.texts(*node).ends_with(&order[order.len() - 120..]))
    );
    let split = cluster.states();
    assert!(split.contains("ring 255: behind n4"), "{split}");
    cluster.heal();
    until_together(&mut cluster, &nodes);
    cluster.run(3_000);
    assert!(!cluster.states().contains("ring 255"), "{}", cluster.states());
    at_rest(&mut cluster);
}

#[test]
fn a_node_that_is_cut_off_in_one_ring_is_reached_by_the_other() {
    //= TM33 test
    //= TM60 test
    let mut cluster = formed(TWICE);
    cluster.cut(1, &[3]);
    let nodes = cluster.nodes();
    let took = until_together(&mut cluster, &nodes);
    assert!(took < 3_000, "{took} ms");
    at_rest(&mut cluster);
    cluster.heal();
    at_rest(&mut cluster);
    assert_eq!(cluster.together(), [nodes].into());
}

#[test]
fn views_begin_though_a_ring_has_changed_since_its_members_told_how_it_stands() {
    //= TM63 test
    // Who comes back at once is in the rings' configurations at different times.
    for wait in 0..30 {
        let mut cluster = formed([TRIANGLE, LOOP][wait % 2]);
        cluster.rng = Rng::new(wait as u64);
        let nodes = cluster.nodes();
        cluster.crash(1);
        cluster.run(wait as u64 / 2);
        cluster.restart(1);
        let took = until_together(&mut cluster, &nodes);
        assert!(took < 3_000, "{took} ms\n{}", cluster.states());
        at_rest(&mut cluster);
    }
}

/// On the first ring what these two send does not reach each other.
fn block(cluster: &mut Cluster, a: u16, b: u16) {
    cluster.blocked.extend([(RingNumber(1), a, b), (RingNumber(1), b, a)]);
}

#[test]
fn views_go_on_where_two_nodes_of_a_ring_that_holds_do_not_hear_each_other() {
    //= TM30 test
    //= TM63 test
    // The token goes round by others: the ring stays whole, and the network's membership parts.
    let alone: &[&[u16]] = &[&[1, 2, 3, 4]];
    let two: &[&[u16]] = &[&[1, 4, 5, 6], &[1, 2, 3]];
    for (layout, a, b) in [(alone, 1, 3), (two, 4, 6)] {
        let mut cluster = formed(layout);
        block(&mut cluster, a, b);
        cluster.run(6_000);
        let know: Vec<_> = cluster.nodes().into_iter().map(|node| (node, cluster.texts(node).len())).collect();
        cluster.nodes().into_iter().for_each(|node| cluster.submit(node, Service::Safe, 10));
        cluster.run(3_000);
        for (node, know) in know {
            let view = cluster.together().into_iter().find(|view| view.contains(&node)).unwrap();
            let given = cluster.texts(node).len() - know;
            assert_eq!(given, view.len(), "n{node} of {view:?}\n{}", cluster.states());
        }
        sound(cluster.check());
    }
}

#[test]
fn a_node_that_is_heard_by_the_long_way_alone_does_not_have_views_formed_for_ever() {
    //= TM05 test
    let mut cluster = formed(&[&[1, 4, 5, 6], &[1, 2, 3], &[3, 7, 4]]);
    block(&mut cluster, 4, 6);
    cluster.run(20_000);
    let before = cluster.hosts[&1].views.len();
    cluster.run(30_000);
    let more = cluster.hosts[&1].views[before..].to_vec();
    assert!(more.len() <= 2, "{} views in 30 s: {more:?}", more.len());
    sound(cluster.check());
}

#[test]
fn nodes_of_a_slow_ring_hear_each_other_though_others_bring_everything_sooner() {
    //= TM05 test
    //= TM62 test
    let mut cluster = Cluster::new(1, config(&[&[1, 2], &[1, 3], &[3, 2]]));
    cluster.slow.insert(RingNumber(1), 5 * MS);
    cluster.run(6_000);
    let nodes = cluster.nodes();
    assert_eq!(cluster.together(), [nodes.clone()].into(), "{}", cluster.states());
    let before = cluster.hosts[&2].views.len();
    (0..20).for_each(|_| nodes.iter().for_each(|node| cluster.submit(*node, Service::Safe, 10)));
    at_rest(&mut cluster);
    assert_eq!((cluster.texts(2).len(), cluster.hosts[&2].views.len()), (60, before));
}
