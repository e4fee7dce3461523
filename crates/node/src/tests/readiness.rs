//! Whether a node is ready, and everything that says so.
use super::*;
use crate::Notice;
use consort_order::{LackingQuorum, Obstacle, Overfull, PeerReach};
use consort_types::{Duration, OrderWait, Primary, ViewCause};

fn says(world: &World, key: &str) -> String {
    world.nodes[0].status().into_iter().find(|(known, _)| known == key).map(|(_, value)| value).unwrap_or_default()
}

/// One node in a view that begins so.
fn in_view(primary: Primary) -> World {
    let mut world = World::new(1, Limits::default());
    world.nodes[0].engine.primary = primary;
    world.nodes[0].engine.install(vec![member(0)], ViewCause::Started);
    world.drain(0);
    world.settle();
    world
}

fn quorum() -> Obstacle {
    let silent = vec![NodeId(2), NodeId(3)];
    Obstacle::Quorum(Box::new(LackingQuorum { needed: 2, acceptors: 3, voting: 1, silent, ..Default::default() }))
}

#[test]
fn the_reason_of_the_engine_is_the_reason_of_the_node_and_what_its_clients_wait_for() {
    //= G73 test
    let mut world = in_view(Primary::Yes);
    assert_eq!(says(&world, "ready"), "yes");
    (world.nodes[0].engine.obstacle, world.nodes[0].engine.stuck) = (Some(quorum()), true);
    // The engine would name a cause that is no help.
    world.nodes[0].engine.wait_cause = Some(OrderWait::Window);
    let ann = world.connect(0, "ann");
    world.multicast(ann, &["g"], "waits");
    (0..200).for_each(|_| world.settle());
    assert_eq!(says(&world, "ready"), "2 of 3 acceptors must run and vote, and 1 does: n2 n3 do not answer");
    assert_eq!(says(&world, "requests_wait_for"), "quorum");
    world.nodes[0].engine.obstacle = Some(Obstacle::Leaving);
    assert_eq!(says(&world, "ready"), "this daemon is leaving");
}

#[test]
fn a_part_that_may_not_act_for_the_whole_is_not_ready() {
    //= G73 test
    for (primary, said) in [
        (Primary::No, "the view is not primary: another part of the cluster may act for the whole"),
        (Primary::Pending, "the view is not primary yet: not all its members have installed it"),
        (Primary::Yes, "yes"),
        (Primary::NoPolicy, "yes"),
    ] {
        assert_eq!(says(&in_view(primary), "ready"), said);
    }
    let mut world = in_view(Primary::Yes);
    world.nodes[0].engine.overfull = Some(Overfull { programs: vec!["shop".into()], all: false });
    assert_eq!(says(&world, "ready"), "yes", "messages of other groups go on");
    world.nodes[0].engine.overfull = Some(Overfull { programs: vec!["shop".into()], all: true });
    assert!(says(&world, "ready").starts_with("the log is full up to its budget: messages of all clients wait"));
}

#[test]
fn without_a_policy_only_a_node_that_met_nobody_is_not_ready() {
    //= G74 test
    let reach =
        |node, heard| PeerReach { node: NodeId(node), heard, hears_us: false, quarantined: false, outdated: None };
    let mut world = in_view(Primary::NoPolicy);
    world.nodes[0].engine.peers = vec![reach(2, None), reach(3, None)];
    assert_eq!(says(&world, "ready"), "yes", "how many daemons of one machine will run is not known");
    world.nodes = world.nodes.drain(..).map(Node::expecting_others).collect();
    assert_eq!(says(&world, "ready"), "none of the 2 other nodes has answered since this node began");
    world.nodes[0].engine.peers[1] = reach(3, Some(Duration::from_secs(3_600)));
    assert_eq!(says(&world, "ready"), "yes", "it was cut off later, and goes on by itself");
    world.nodes[0].engine.peers.clear();
    assert_eq!(says(&world, "ready"), "yes", "a cluster of one node");
}

#[test]
fn a_view_that_was_made_primary_is_not_where_too_few_vote() {
    //= G75 test
    let mut world = in_view(Primary::Yes);
    assert_eq!(says(&world, "primary"), "yes");
    world.nodes[0].engine.obstacle = Some(quorum());
    assert_eq!(says(&world, "primary"), "no");
    world.nodes[0].engine.obstacle = Some(Obstacle::Leaderless(None));
    assert_eq!(says(&world, "primary"), "yes", "it passes in a moment");
}

#[test]
fn what_lasts_is_logged_once_and_a_start_or_a_change_is_not() {
    let mut world = in_view(Primary::Yes);
    let told = |world: &mut World, ms: u64| {
        world.nodes[0].look_at_peers(Instant::ZERO + Duration::from_millis(100_000 + ms));
        let notices = std::iter::from_fn(|| world.nodes[0].poll_notice()).map(|(notice, _)| notice);
        let of_readiness = |notice: &Notice| matches!(notice, Notice::Ready | Notice::Unready { .. });
        notices.filter(of_readiness).map(|notice| format!("{notice:?}")).collect::<Vec<_>>()
    };
    world.nodes[0].engine.obstacle = Some(Obstacle::Membership);
    assert_eq!([0, 250, 2_750].map(|ms| told(&mut world, ms).len()), [0, 0, 0], "a start");
    world.nodes[0].engine.obstacle = None;
    assert_eq!(told(&mut world, 2_900), ["Ready"]);
    world.nodes[0].engine.obstacle = Some(Obstacle::Membership);
    assert_eq!([3_000, 5_750].map(|ms| told(&mut world, ms).len()), [0, 0], "a change of the view");
    world.nodes[0].engine.obstacle = None;
    assert_eq!(told(&mut world, 5_900).len(), 0);
    world.nodes[0].engine.obstacle = Some(Obstacle::Outside);
    assert_eq!([6_000, 8_750].map(|ms| told(&mut world, ms).len()), [0, 0]);
    assert_eq!(told(&mut world, 9_000), ["Unready { reason: Obstacle(Outside) }"]);
    assert_eq!([9_250, 60_000].map(|ms| told(&mut world, ms).len()), [0, 0], "once");
    world.nodes[0].engine.obstacle = Some(quorum());
    assert_eq!(told(&mut world, 60_250).len(), 1, "another reason");
    world.nodes[0].engine.obstacle = None;
    assert_eq!(told(&mut world, 60_500), ["Ready"]);
}
