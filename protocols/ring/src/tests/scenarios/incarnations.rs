//! Nodes that come back, go, and are taken for others.
use super::*;
use consort_types::ViewCause;

#[test]
fn f01_a_representative_that_restarts_before_its_token_is_missed_is_a_new_member_at_once() {
    //= M16 test
    //= M01 test
    //= M03 test
    let mut net = Net::formed(3, |_| {});
    let ring = net.view(0).id;
    net.chatter("before", 10);
    net.run(ms(5));
    net.chatter("cut short", 10);
    net.crash(0);
    net.run(ms(40));
    let back = net.now;
    net.restart(0);
    net.run_until_whole(ms(90));
    assert!(net.now.since(back) < net.rings[0].config().timers.token_loss, "no timer was waited for");
    assert!(net.view(1).evidence.contains(&ViewCause::Restarted { nodes: vec![NodeId(1)] }), "{:?}", net.view(1));
    assert!(net.view(0).id.number > ring.number, "numbers of the earlier incarnation are not used again");
    assert_eq!(net.view(0).members[0], net.incarnation(0));
    assert_eq!(net.texts(1), net.texts(2));
    net.chatter("after", 10);
    net.end();
}

#[test]
fn f04_a_join_that_fails_us_is_none_of_our_business_and_parts_healed_midway_still_merge() {
    //= M11 test
    let mut net = Net::formed(4, |_| {});
    let mut join = net.join_of(1);
    join.proposal.fail = [net.incarnation(0)].into();
    net.hand(1, 0, RingPacket::Join(join));
    assert_eq!(net.state(0), "operational");
    net.part(&[1, 2]);
    // Halfway: the token is missed on both sides, but nobody has been failed yet.
    net.run_until(ms(400), |net| (0..4).all(|i| net.state(i) == "gather"));
    net.run(ms(60));
    net.heal();
    net.run_until_whole(ms(2_500));
    net.end();
}

#[test]
fn f05_a_member_that_gathers_has_lost_the_ring_even_if_it_says_nothing_new() {
    //= M11 test
    let mut net = Net::formed(3, |_| {});
    let mut join = net.join_of(1);
    net.hand(1, 0, RingPacket::Join(join.clone()));
    assert_eq!(net.state(0), "gather", "at once, not when the token is missed");
    // One that was sent before this ring stood is late.
    join.proposal.number -= 1;
    net.hand(1, 2, RingPacket::Join(join));
    assert_eq!(net.state(2), "operational");
    net.end();
}

#[test]
fn f18_three_of_five_leave_at_once_and_the_others_hardly_notice() {
    //= M15 test
    let mut net = Net::formed(5, |_| {});
    net.chatter("last words", 5);
    let now = net.now;
    for i in [0, 2, 3] {
        net.rings[i].leave(now);
        net.drain(i);
    }
    net.run_until(ms(30), |net| net.incarnations.iter().flatten().count() == 2 && net.is_whole());
    assert_eq!((net.last_members(1), net.last_members(4)), (vec![2, 5], vec![2, 5]));
    assert!(net.regular_views(1) <= 1 + 3, "{:?}", net.views[1]);
    assert_eq!(net.texts(1).len(), 25, "who leaves sends first what it accepted");
    let refused = net.rings[0].submit(now, submission("too late"));
    assert!(refused.is_err(), "and takes no more");
    assert!(net.now.since(now) < ms(30), "far below token_loss");
    net.end();
}

#[test]
fn f18_a_good_bye_waits_for_nobody_elses_messages_and_who_is_left_alone_does_not_wait_either() {
    //= M15 test
    //= M14 test
    let mut net = Net::formed(2, |_| {});
    net.submit(0, Service::Safe, "the last of mine");
    let now = net.now;
    net.rings[0].leave(now);
    net.drain(0);
    // The other never stops talking, so that not all is stable at any time.
    let mut said = 0;
    while net.incarnations[0].is_some() && net.now.since(now) < ms(100) {
        net.submit(1, Service::Agreed, format!("and another thing {said}"));
        said += 1;
        net.run(Duration::from_micros(100));
    }
    net.run_until(ms(20), |net| net.last_members(1) == [2] && net.state(1) == "operational");
    assert!(net.now.since(now) < ms(30), "{:?} after the good-bye", net.now.since(now));
    assert!(net.texts(1).contains(&"the last of mine".into()));
    net.end();
}

#[test]
fn f18_a_good_bye_is_not_taken_for_agreement() {
    //= M15 test
    let mut net = Net::formed(3, |_| {});
    net.lose_the_token();
    net.cut(&[2], &[1, 3]);
    // Node 2 says what node 1 says word for word, but takes its leave.
    let mine = net.sent.iter().rev().find(|flying| flying.from == net.incarnation(0) && flying.join().is_some());
    let mut join = mine.unwrap().join().unwrap().clone();
    join.proposal.leave = true;
    net.hand(1, 0, RingPacket::Join(join));
    net.run_until(ms(50), |net| net.state(0) == "operational");
    assert_eq!(net.last_members(0), [1, 3], "without it, and at once");
    net.check();
}

fn submission(text: &'static str) -> Submission {
    let payload = Bytes::from_static(text.as_bytes()).into();
    Submission { class: Class::Client, service: Service::Agreed, stream: OrderStream(0), payload }
}

#[test]
fn f24_what_a_member_said_in_an_earlier_gathering_counts_for_nothing_in_a_later_one() {
    //= M18 test
    let mut net = Net::formed(3, |_| {});
    let third = net.incarnation(2);
    net.part(&[3]);
    net.run_until(ms(900), |net| net.last_members(0) == [1, 2] && net.state(0) == "operational");
    let failing = |flying: &&Flying| {
        flying.from == net.incarnation(1) && flying.join().is_some_and(|join| join.proposal.fail.contains(&third))
    };
    let old = net.sent.iter().rev().find(failing).unwrap().join().unwrap().clone();
    net.heal();
    net.run_until_whole(ms(3_000));
    net.lose_the_token();
    net.hand(1, 0, RingPacket::Join(old));
    net.run_until(ms(50), |net| net.state(0) == "operational");
    assert_eq!(net.last_members(0), [1, 2, 3], "it came late, and says nothing about now");
    net.end();
}

#[test]
fn f24_the_first_packets_of_a_new_incarnation_are_not_taken_for_repetitions_of_the_last() {
    //= M18 test
    //= M01 test
    let mut net = Net::formed(3, |_| {});
    // Its earlier incarnation has gathered often: what counts gatherings and ring numbers stands high.
    for _ in 0..5 {
        net.part(&[2]);
        net.run_until(ms(900), |net| net.last_members(0) == [1, 3] && net.state(0) == "operational");
        net.heal();
        net.run_until_whole(ms(3_000));
        net.run(ms(40));
    }
    let stale = net.total("stale_membership");
    net.restart(1);
    net.run_until_whole(ms(100));
    assert_eq!(net.total("stale_membership"), stale);
    net.chatter("first", 3);
    net.end();
}

#[test]
fn f48_a_replayed_join_of_a_dead_incarnation_splits_nothing() {
    //= M02 test
    //= R35 test
    let mut net = Net::formed(3, |_| {});
    let old = net.incarnation(2);
    net.part(&[3]);
    net.run_until(ms(900), |net| net.last_members(0) == [1, 2]);
    let replay: Vec<_> = net.sent.iter().filter(|flying| flying.from == old).cloned().collect();
    net.heal();
    net.restart(2);
    net.run_until_whole(ms(1_500));
    let (views, dropped) = (net.regular_views(0), net.counter(0, "old_incarnation"));
    assert!(replay.iter().any(|flying| flying.join().is_some()));
    for flying in &replay {
        for to in [NodeId(1), NodeId(2)] {
            net.hand_over(Flying { to, ..flying.clone() });
        }
        assert!((0..2).all(|i| net.state(i) == "operational"), "{flying:?}");
    }
    net.run(ms(500));
    assert_eq!(net.regular_views(0), views);
    assert_eq!(net.counter(0, "old_incarnation") - dropped, replay.len() as u64);
    net.end();
}

impl Net {
    /// A later incarnation of a member says something once, to all.
    fn forge_beacon(&mut self, of: usize, incarnation: u64) {
        let (view, heard) = (self.view(of), (1..=self.rings.len() as u16).map(NodeId).collect());
        let beacon = Beacon {
            view: view.id,
            members: view.members.clone(),
            heard,
            wants: None,
            settled: true,
            clocks: Box::default(),
            annotation: Bytes::new(),
            padding: 0,
        };
        let from = MemberId { incarnation: Incarnation(incarnation), ..self.incarnation(of) };
        for to in (1..=self.rings.len() as u16).map(NodeId) {
            let packet = RingPacket::Beacon(beacon.clone());
            self.hand_over(Flying { from, to, lane: Lane::Control, packet });
        }
    }
}

#[test]
fn f60_a_later_incarnation_that_spoke_once_shuts_nobody_out() {
    //= M07 test
    for later in [9_000, 1 << 40, Incarnation::LAST.0, Incarnation::LAST.0 + 1, 1 << 63, u64::MAX] {
        let mut net = Net::formed(3, |_| {});
        net.forge_beacon(2, later);
        net.run(ms(50));
        assert!((0..3).all(|i| net.state(i) == "operational"), "a beacon tears no ring down");
        net.lose_the_token();
        net.run_until_whole(ms(4_000));
        net.chatter("after", 3);
        net.end();
    }
}

#[test]
fn f60_a_node_whose_clock_was_ahead_once_comes_back_though_its_disk_is_new() {
    //= M07 test
    let mut net = Net::formed(3, |_| {});
    let first = net.incarnation(2).incarnation;
    net.restart_as(2, Incarnation(first.0 + 3_600_000_000));
    net.run_until_whole(ms(1_000));
    net.restart_as(2, Incarnation(first.0 + 1_000));
    let back = net.now;
    net.run_until(ms(600), |net| net.last_members(0) == [1, 2]);
    let causes = &net.view(0).evidence;
    let outdated =
        ViewCause::Outdated { incarnations: vec![(net.incarnation(2), Incarnation(first.0 + 3_600_000_000))] };
    assert!(causes.contains(&outdated), "it was heard, and that is said: {causes:?}");
    assert!(status(&net, 0, 3).contains("but dropped: incarnation"), "{}", status(&net, 0, 3));
    net.run_until_whole(ms(3_000));
    assert!(net.now.since(back) < ms(3_000), "{:?}", net.now.since(back));
    net.chatter("after", 3);
    net.end();
}

#[test]
fn f60_what_an_earlier_incarnation_said_late_disturbs_no_ring_of_the_later_one() {
    //= M07 test
    //= M02 test
    let mut net = Net::formed(3, |_| {});
    let old = net.incarnation(2);
    net.restart(2);
    net.run_until_whole(ms(1_000));
    let replay: Vec<_> = net.sent.iter().filter(|flying| flying.from == old).cloned().collect();
    // The node is not run for so long that its incarnation is forgotten, and what its earlier one said comes meanwhile.
    net.stop(2);
    net.run_until(ms(3_000), |net| net.last_members(0) == [1, 2] && net.state(0) == "operational");
    net.run(ms(1_500));
    for flying in &replay {
        for to in [NodeId(1), NodeId(2)] {
            net.hand_over(Flying { to, ..flying.clone() });
        }
        net.run(ms(1));
    }
    net.go_on(2);
    net.run_until_whole(ms(4_000));
    net.chatter("after", 3);
    net.end();
}

#[test]
fn f60_a_late_join_of_an_earlier_incarnation_disturbs_nobody_though_the_later_one_is_forgotten() {
    //= M07 test
    let mut net = Net::formed(3, |_| {});
    let (old, join) = (net.incarnation(2), net.join_of(2));
    net.restart(2);
    net.run_until_whole(ms(1_000));
    net.stop(2);
    net.run_until(ms(3_000), |net| net.last_members(0) == [1, 2] && net.state(0) == "operational");
    net.run(ms(1_500));
    let before = [0, 1].map(|node| net.regular_views(node));
    for to in [NodeId(1), NodeId(2)] {
        let mut join = join.clone();
        join.proposal.proc = [net.incarnation(0), net.incarnation(1), old].into();
        join.proposal.episode = 1;
        net.hand_over(Flying { from: old, to, lane: Lane::Control, packet: RingPacket::Join(join) });
        assert!((0..2).all(|i| net.state(i) == "operational"), "{}", net.describe());
    }
    net.run(ms(1_000));
    assert_eq!([0, 1].map(|node| net.regular_views(node)), before, "no view for it");
}

#[test]
fn f50_two_nodes_with_one_id_do_not_take_turns() {
    //= M01 test
    //= M11 test
    // The twin of node 3 has the larger incarnation: it is node 3 from now on.
    let mut net = Net::formed(3, |_| {});
    let twin = MemberId { incarnation: Incarnation(9_000), ..net.incarnation(2) };
    let mut join = net.join_of(2);
    let heard = [NodeId(1), NodeId(2)].into();
    join.proposal = Proposal { proc: [twin].into(), heard, episode: 1, ..join.proposal };
    let flying =
        |to| Flying { from: twin, to: NodeId(to), lane: Lane::Control, packet: RingPacket::Join(join.clone()) };
    (1..=3).for_each(|to| net.hand_over(flying(to)));
    assert_eq!(net.counter(2, "twins"), 1, "the one that is older says so");
    assert!(net.rings[2].describe(net.now).contains("another process runs as n3"), "{}", net.describe());
    // The twin goes on speaking, so the older one is not heard, and does not fight: it is alone, the others do not count
    // it in.
    let twin_speaks = |net: &mut Net| {
        net.forge_beacon(2, 9_000);
        net.run(ms(200));
    };
    (0..10).for_each(|_| twin_speaks(&mut net));
    assert_eq!((net.last_members(0), net.last_members(2)), (vec![1, 2], vec![3]));
    let views = net.regular_views(0);
    (0..25).for_each(|_| twin_speaks(&mut net));
    assert_eq!(net.regular_views(0), views, "no oscillation");
    net.check();
    assert_eq!(net.state(2), "operational");
    assert!(status(&net, 0, 3).contains("but dropped: incarnation"), "{}", status(&net, 0, 3));
    // The twin ends.
    net.run_until_whole(ms(3_000));
    assert!(!net.rings[2].describe(net.now).contains("another process"), "{}", net.describe());
    net.end();
}

/// What a node tells of another.
fn status(net: &Net, i: usize, node: u16) -> String {
    let reaches = net.rings[i].reachability(net.now);
    reaches.iter().find(|reach| reach.node == NodeId(node)).unwrap().to_string()
}
