//! Who comes together, who is left out, and how soon.
use super::{Cluster, Toy};
use crate::Beacon;
use crate::vs::Membership;
use crate::vs::packet::MembershipPacket;
use bytes::Bytes;
use consort_order::{Arrival, Lane, Obstacle};
use consort_types::{Incarnation, MemberId, NodeId, Primary, ViewCause};

#[test]
fn nodes_that_start_together_find_each_other_and_make_one_view_primary() {
    //= V10 test
    //= V18 test
    let mut cluster = Cluster::new(5, 1);
    cluster.run(1_500);
    cluster.assert_together(&[1, 2, 3, 4, 5]);
    let view = cluster.toy(1).vs.view().clone();
    assert_eq!(view.primary, Primary::Pending);
    assert_eq!(cluster.toy(1).settled, [view.id], "told once, at the representative alone");
    assert!((2..=5).all(|node| cluster.toy(node).settled.is_empty()));
    cluster.assert_sound();
}

#[test]
fn a_node_that_hears_nobody_installs_a_view_of_itself() {
    let mut cluster = Cluster::new(3, 2);
    cluster.part(&[&[1], &[2, 3]]);
    cluster.run(1_500);
    cluster.assert_together(&[1]);
    cluster.assert_together(&[2, 3]);
}

#[test]
fn nothing_is_ordered_soon_while_no_view_goes_on_or_once_the_node_leaves() {
    //= V21 test
    let mut cluster = Cluster::new(2, 2);
    assert_eq!(cluster.toy(1).vs.obstacle(), Some(Obstacle::Membership));
    cluster.run(1_500);
    cluster.assert_together(&[1, 2]);
    assert_eq!(cluster.toy(1).vs.obstacle(), None);
    cluster.with(2, Membership::leave);
    assert_eq!((cluster.toy(1).vs.obstacle(), cluster.toy(2).vs.obstacle()), (None, Some(Obstacle::Leaving)));
}

#[test]
fn a_crash_is_noticed_by_silence_and_a_heartbeat_is_no_silence() {
    //= V02 test
    //= V03 test
    let mut cluster = Cluster::new(3, 3);
    cluster.run(1_500);
    let views = cluster.toy(1).changes.len();
    cluster.run(3_000);
    assert_eq!(cluster.toy(1).changes.len(), views, "nobody says anything but heartbeats");
    cluster.crash(3);
    cluster.run(300);
    cluster.assert_together(&[1, 2]);
    let view = cluster.toy(1).vs.view();
    assert!(matches!(&view.cause, ViewCause::Silent { nodes, .. } if *nodes == [NodeId(3)]), "{:?}", view.cause);
    cluster.assert_sound();
}

#[test]
fn who_sleeps_while_a_view_is_pending_goes_on_alone_and_never_calls_it_primary() {
    //= V19 test
    for (told, stays) in [(false, false), (true, true)] {
        let mut cluster = Cluster::new(3, 3);
        cluster.run(1_500);
        let view = cluster.toy(3).view();
        let silence = cluster.toy(3).vs.io.settings.timers.silence;
        cluster.with(3, |vs, now| {
            if told {
                vs.became_primary();
            }
            vs.wake(now + silence / 4 * 3);
            assert!(vs.is_working(), "the others still wait for it");
            vs.wake(now + silence);
            assert_eq!(vs.is_working(), stays);
        });
        assert_eq!(cluster.toy(3).renounced.contains(&view), !stays);
        cluster.run(50);
        if !stays {
            cluster.assert_together(&[1, 2]);
        }
        cluster.run(4_000);
        cluster.assert_together(&[1, 2, 3]);
        assert_eq!(cluster.toy(1).view() == view, stays);
        cluster.assert_sound();
    }
}

#[test]
fn who_closes_a_view_alone_never_calls_it_primary() {
    //= V19 test
    let mut cluster = Cluster::new(3, 3);
    cluster.run(1_500);
    let view = cluster.toy(3).view();
    cluster.part(&[&[1, 2], &[3]]);
    cluster.run(1_000);
    cluster.assert_together(&[3]);
    assert_eq!(cluster.toy(3).renounced.last(), Some(&view));
    assert!(!cluster.toy(1).renounced.contains(&view), "who moves along does as the others do");
}

#[test]
fn a_host_whose_unicast_is_lost_takes_part() {
    //= V14 test
    let mut cluster = Cluster::new(3, 3);
    cluster.shouts = Some(NodeId(3));
    cluster.run(1_500);
    cluster.assert_together(&[1, 2, 3]);
    let views = cluster.toy(1).changes.len();
    cluster.run(3_000);
    assert_eq!(cluster.toy(1).changes.len(), views);
    cluster.assert_sound();
}

#[test]
fn parts_go_on_and_come_together_again() {
    let mut cluster = Cluster::new(5, 4);
    cluster.talk = true;
    cluster.run(1_500);
    cluster.part(&[&[1, 4], &[2, 3, 5]]);
    cluster.run(1_000);
    cluster.assert_together(&[1, 4]);
    cluster.assert_together(&[2, 3, 5]);
    cluster.cuts.clear();
    cluster.run(2_500);
    cluster.assert_together(&[1, 2, 3, 4, 5]);
    cluster.assert_sound();
}

#[test]
fn a_later_incarnation_takes_the_place_of_the_earlier_one_at_once() {
    let mut cluster = Cluster::new(3, 5);
    cluster.run(1_500);
    cluster.restart(2);
    cluster.run(150);
    let gone = cluster.toy(1).changes.iter().find(|change| matches!(change.view.cause, ViewCause::Restarted { .. }));
    assert!(gone.is_some(), "without waiting for silence");
    cluster.run(2_000);
    cluster.assert_together(&[1, 2, 3]);
    cluster.assert_sound();
}

#[test]
fn a_later_incarnation_that_spoke_once_shuts_nobody_out() {
    //= M07 test
    for later in [9_000, Incarnation::LAST.0, Incarnation::LAST.0 + 1, u64::MAX] {
        let mut cluster = Cluster::new(3, 5);
        cluster.talk = true;
        cluster.run(1_500);
        let (view, arrival) =
            (cluster.toy(1).view(), |now| Arrival { at: now, from: MemberId::new(3, later), lane: Lane::Control });
        let beacon = Beacon {
            view,
            members: cluster.toy(1).vs.view().members.clone(),
            heard: (1..=3).map(NodeId).collect(),
            wants: None,
            settled: true,
            clocks: Box::default(),
            annotation: Bytes::new(),
            padding: 0,
        };
        for node in 1..=3 {
            let packet = MembershipPacket::Beacon(beacon.clone());
            cluster.with(node, |vs, now| vs.handle(now, &arrival(now), packet));
        }
        assert_eq!(cluster.toy(3).vs.describe(cluster.now).contains("another process"), later <= Incarnation::LAST.0);
        cluster.run(200);
        assert_eq!(cluster.toy(1).view(), view, "its members hear each other as before");
        cluster.part(&[&[1, 2], &[3]]);
        cluster.run(400);
        cluster.cuts.clear();
        cluster.run(2_500);
        cluster.assert_together(&[1, 2, 3]);
        assert!(!cluster.toy(3).vs.describe(cluster.now).contains("another process"));
        cluster.assert_sound();
    }
}

#[test]
fn a_node_whose_clock_was_ahead_once_comes_back_though_its_disk_is_new() {
    //= M07 test
    let mut cluster = Cluster::new(3, 5);
    cluster.run(1_500);
    cluster.restart_as(2, 5_000);
    cluster.run(2_000);
    cluster.restart_as(2, 100);
    cluster.run(600);
    cluster.assert_together(&[1, 3]);
    let evidence = &cluster.toy(1).vs.view().evidence;
    let outdated = ViewCause::Outdated { incarnations: vec![(MemberId::new(2, 100), Incarnation(5_000))] };
    assert!(evidence.contains(&outdated), "{evidence:?}");
    cluster.run(2_500);
    cluster.assert_together(&[1, 2, 3]);
    cluster.assert_sound();
}

#[test]
fn a_good_bye_is_heard_at_once() {
    let mut cluster = Cluster::new(3, 6);
    cluster.run(1_500);
    cluster.with(2, |vs, now| {
        vs.leave(now);
        vs.depart(now);
    });
    assert!(cluster.toy(2).left);
    cluster.run(50);
    cluster.assert_together(&[1, 3]);
    assert_eq!(cluster.toy(1).vs.view().cause, ViewCause::Left { nodes: vec![NodeId(2)] });
}

#[test]
fn who_lists_another_as_failed_is_left_to_itself_by_that_one() {
    //= V04 test
    let mut cluster = Cluster::new(2, 7);
    cluster.run(1_500);
    cluster.cuts.insert((NodeId(1), NodeId(2)));
    cluster.run(600);
    cluster.assert_together(&[1]);
    cluster.assert_together(&[2]);
}

#[test]
fn two_that_do_not_hear_each_other_are_never_in_one_view_and_the_rest_stays_calm() {
    let mut cluster = Cluster::new(3, 8);
    cluster.cuts.extend([(NodeId(1), NodeId(3)), (NodeId(3), NodeId(1))]);
    cluster.run(4_000);
    let before: Vec<_> = (1..=3).map(|node| cluster.toy(node).changes.len()).collect();
    cluster.run(4_000);
    let after: Vec<_> = (1..=3).map(|node| cluster.toy(node).changes.len()).collect();
    assert_eq!(before, after, "no view changes any more");
    let both = |toy: &Toy| toy.vs.view().members.iter().filter(|member| member.node != NodeId(2)).count() == 2;
    assert!(!cluster.toys.values().any(both));
}

#[test]
fn a_deaf_member_is_left_out_and_kept_out_for_a_while() {
    let mut cluster = Cluster::new(3, 9);
    cluster.run(1_500);
    let deaf = cluster.toy(3).vs.me();
    cluster.with(1, |vs, now| vs.exclude(now, deaf));
    cluster.run(400);
    cluster.assert_together(&[1, 2]);
    let evidence = &cluster.toy(1).vs.view().evidence;
    assert!(evidence.contains(&ViewCause::Deaf { nodes: vec![NodeId(3)] }), "{evidence:?}");
    cluster.run(3_000);
    cluster.assert_together(&[1, 2, 3]);
}

#[test]
fn who_is_known_to_be_gone_is_left_out_at_once_and_let_in_when_heard_again() {
    //= V20 test
    let mut cluster = Cluster::new(3, 9);
    cluster.run(1_500);
    let gone = cluster.toy(3).vs.me();
    cluster.part(&[&[1, 2], &[3]]);
    cluster.with(1, |vs, now| vs.part(now, &[gone]));
    cluster.run(60);
    cluster.assert_together(&[1, 2]);
    cluster.part(&[&[1, 2, 3]]);
    cluster.run(2_000);
    cluster.assert_together(&[1, 2, 3]);
    let before = cluster.toy(1).vs.view().id;
    cluster.with(1, |vs, now| vs.part(now, &[]));
    cluster.run(300);
    cluster.assert_together(&[1, 2, 3]);
    assert_ne!(cluster.toy(1).vs.view().id, before, "the same members, but a new view");
}

#[test]
fn a_member_that_does_not_answer_a_proposal_is_failed() {
    //= V15 test
    let mut cluster = Cluster::new(3, 10);
    cluster.run(1_500);
    cluster.with(1, |vs, now| vs.renew(now));
    while cluster.toy(1).vs.io.counters.attempts == cluster.toy(2).vs.io.counters.attempts {
        cluster.run(1);
    }
    cluster.crash(3);
    cluster.run(700);
    cluster.assert_together(&[1, 2]);
    cluster.assert_sound();
    assert_eq!(cluster.toy(1).vs.io.counters.twins, 0);
}

#[test]
fn through_loss_crashes_and_parts_every_seed_ends_in_one_view() {
    //= V14 test
    //= V16 test
    for seed in 0..40 {
        let mut cluster = Cluster::new(4, seed);
        (cluster.talk, cluster.loss) = (true, 0.1);
        cluster.run(1_000);
        for _ in 0..4 {
            match cluster.rng.below(4) {
                0 => cluster.part(&[&[1, 2], &[3, 4]]),
                1 => cluster.part(&[&[1], &[2, 3, 4]]),
                2 => {
                    let node = cluster.rng.between(1, 4) as u16;
                    cluster.crash(node);
                    let span = cluster.rng.below(400);
                    cluster.run(span);
                    cluster.restart(node);
                }
                _ => cluster.cuts.clear(),
            }
            let span = cluster.rng.below(900);
            cluster.run(span);
        }
        (cluster.talk, cluster.loss) = (false, 0.0);
        cluster.cuts.clear();
        cluster.run(15_000);
        cluster.assert_together(&[1, 2, 3, 4]);
        cluster.assert_sound();
    }
}

#[test]
fn settings_that_cannot_work_are_refused_and_say_why() {
    use super::{Membership, MembershipSettings};
    use consort_types::{Duration, Incarnation};
    let why = |change: &dyn Fn(&mut MembershipSettings)| {
        let mut settings = MembershipSettings::new(NodeId(1), vec![NodeId(1), NodeId(2)]);
        change(&mut settings);
        Membership::new(settings, Incarnation(1)).unwrap_err().to_string()
    };
    assert!(why(&|settings| settings.nodes.push(NodeId(2))).contains("listed twice"));
    assert!(why(&|settings| settings.me = NodeId(9)).contains("not among the nodes"));
    assert!(why(&|settings| settings.timers.heartbeat = Duration::ZERO).contains("heartbeat: 0"));
    assert!(why(&|settings| settings.timers.silence = Duration::from_millis(30)).contains("lost heartbeats"));
    assert!(why(&|settings| settings.timers.consensus = Duration::from_millis(30)).contains("5 JOINs"));
    assert!(why(&|settings| settings.primary = crate::Policy::Static(NodeId(7))).contains("primary"));
}

#[test]
fn where_two_pairs_do_not_hear_each_other_views_come_to_rest_too() {
    //= V05 test
    let mut cluster = Cluster::new(12, 7);
    cluster.talk = true;
    cluster.run(226);
    cluster.cuts.insert((NodeId(3), NodeId(10)));
    cluster.run(175);
    cluster.cuts.extend([(NodeId(6), NodeId(9)), (NodeId(9), NodeId(6))]);
    cluster.run(6_000);
    cluster.assert_sound();
    let views = cluster.toy(1).changes.len();
    assert!(views < 12, "{views} views");
}
