//! What belongs to a view that ends.
use super::{Cluster, MembershipPacket, Message};
use consort_types::NodeId;

#[test]
fn what_one_survivor_holds_all_fetch_before_any_installs() {
    //= V01 test
    //= V11 test
    //= V12 test
    //= V13 test
    //= V17 test
    let mut cluster = Cluster::new(3, 1);
    cluster.run(1_500);
    let old = cluster.toy(1).view();
    // Node 3 says five things that node 1 alone hears, and dies.
    cluster.cuts.insert((NodeId(3), NodeId(2)));
    for _ in 0..5 {
        let now = cluster.now;
        cluster.toys.get_mut(&NodeId(3)).unwrap().speak(now, true);
        cluster.flush();
        cluster.run(2);
    }
    cluster.crash(3);
    assert_eq!((cluster.toy(1).held.clone(), cluster.toy(2).held.clone()), (vec![0, 0, 5], vec![0, 0, 0]));
    cluster.run(400);
    cluster.assert_together(&[1, 2]);
    for node in [1, 2] {
        let toy = cluster.toy(node);
        assert_eq!(toy.closed[&old], [0, 0, 5], "n{node}");
        let change = toy.changes.last().unwrap();
        assert_eq!(change.closing.as_ref().unwrap().members, change.cut.together);
        assert_eq!(change.cut.holders[2], cluster.toy(1).vs.me());
        assert_eq!(change.view.moved_together, change.cut.together);
    }
    cluster.assert_sound();
}

#[test]
fn those_go_on_apart_who_had_another_between_them_that_does_not_go_on_with_them() {
    //= V12 test
    let mut cluster = Cluster::linked(5, 6, &[&[1, 2, 3], &[3, 4, 5]]);
    cluster.run(1_500);
    // Node 4 says something that nobody hears but node 5; then node 3 comes back as another.
    let (now, old) = (cluster.now, cluster.toy(4).view());
    cluster.cuts.extend([1, 2, 3].map(|node| (NodeId(4), NodeId(node))));
    cluster.toys.get_mut(&NodeId(4)).unwrap().speak(now, true);
    cluster.flush();
    cluster.run(2);
    cluster.crash(3);
    cluster.restart(3);
    cluster.cuts.clear();
    cluster.run(1_500);
    cluster.assert_together(&[1, 2, 3, 4, 5]);
    for (node, together, held) in [(1, [1, 2], 0), (2, [1, 2], 0), (4, [4, 5], 1), (5, [4, 5], 1)] {
        let toy = cluster.toy(node);
        let change = toy.changes.iter().find(|change| change.closing.as_ref().is_some_and(|view| view.id == old));
        let cut = &change.unwrap().cut;
        let names: Vec<_> = cut.together.iter().map(|member| member.node.0).collect();
        assert_eq!((names, cut.apart, toy.closed[&old][3]), (together.to_vec(), true, held), "views: n{node}");
    }
}

#[test]
fn what_nobody_holds_without_a_gap_is_not_in_the_set() {
    let mut cluster = Cluster::new(3, 2);
    cluster.run(1_500);
    let (now, old) = (cluster.now, cluster.toy(1).view());
    cluster.toys.get_mut(&NodeId(3)).unwrap().speak(now, true);
    cluster.toys.get_mut(&NodeId(3)).unwrap().out.clear(); // the first is lost
    cluster.toys.get_mut(&NodeId(3)).unwrap().speak(now, true);
    cluster.flush();
    cluster.crash(3);
    cluster.run(500);
    cluster.assert_together(&[1, 2]);
    assert_eq!(cluster.toy(1).closed[&old], [0, 0, 0]);
}

#[test]
fn who_misses_the_install_learns_of_it_from_a_packet_of_the_new_view() {
    //= V14 test
    let mut cluster = Cluster::new(3, 3);
    cluster.run(1_500);
    let old = cluster.toy(1).view();
    cluster.with(1, |vs, now| vs.renew(now));
    while cluster.toy(1).view() == old {
        cluster.run(1);
    }
    // All install packets to node 3 are lost, and its representative dies.
    cluster.flight.retain(|_, (_, to, _)| *to != NodeId(3));
    cluster.crash(1);
    cluster.run(60);
    assert_eq!(cluster.toy(3).changes.last().unwrap().view.members.len(), 3);
    cluster.run(700);
    cluster.assert_together(&[2, 3]);
    cluster.assert_sound();
}

#[test]
fn who_misses_the_install_and_hears_no_packet_of_the_new_view_is_told_again() {
    //= V14 test
    let mut cluster = Cluster::new(3, 4);
    cluster.run(1_500);
    let old = cluster.toy(1).view();
    cluster.with(1, |vs, now| vs.renew(now));
    while cluster.toy(1).view() == old {
        cluster.run(1);
    }
    // Nothing passes to node 3 but the answer: not what others say in the view, either.
    cluster.flight.retain(|_, (_, to, _)| *to != NodeId(3));
    cluster.passes = |to, message| {
        to != NodeId(3)
            || matches!(message, Message::Member(MembershipPacket::Install { .. } | MembershipPacket::Plan(_)))
    };
    let stands = cluster.toy(1).view();
    cluster.run(60);
    assert_eq!(cluster.toy(3).view(), stands, "{}", cluster.toy(3).vs.describe(cluster.now));
}
