//! How rings come to be: commit tokens, numbers, and settings.
use super::*;
use crate::RingId;

#[test]
fn f02_the_first_token_is_made_once_however_often_the_commit_token_comes_back() {
    //= M23 test
    //= R4 test
    let mut net = Net::new(3, |_| {});
    (0..3).for_each(|i| net.start(i));
    let mut last = None;
    while !net.is_whole() {
        let back = net.flying.front().filter(|flying| flying.to == NodeId(1) && flying.commit().is_some()).cloned();
        net.step(&mut |_| false);
        if let Some(back) = back {
            net.hand_over(back.clone());
            net.hand_over(back.clone());
            last = Some(back);
        }
        if let Some(back) = &last {
            net.hand_over(back.clone());
        }
    }
    let ring = net.view(0).id;
    let firsts = tokens(&net.sent).into_iter().filter(|token| token.ring == ring && token.token_seq == 1).count();
    assert_eq!(firsts, 1, "also when it comes again while the ring recovers and while it works");
    net.end();
}

#[test]
fn f03_a_commit_token_that_is_not_mine_to_fill_falls_through() {
    //= M21 test
    let mut net = Net::new(3, |_| {});
    (0..3).for_each(|i| net.start(i));
    let agreed = |net: &Net| net.rings[1].describe(net.now).contains("waiting for the commit token");
    net.run_dropping_until(ms(300), &mut |flying| flying.commit().is_some(), &mut |net| agreed(net));
    let members: Vec<_> = (0..3).map(|i| net.incarnation(i)).collect();
    let commit = |told: usize, held_by: usize| {
        let ring = RingId { number: 500, representative: members[0] };
        let mut held = crate::holdings::HoldingsMap::default();
        held.tell(0, None, Seq(0), Seq(0), |_| false);
        let old = crate::RingId { number: 1, representative: members[0] };
        let olds = vec![crate::packet::OldRing { ring: old, line: Seq(0), obligations: BTreeSet::new(), held }];
        let members = members.iter().take(held_by).enumerate();
        let members = members.map(|(i, member)| (*member, (i < told).then_some(0))).collect();
        RingPacket::Commit(Commit { ring, rotation: 1, members, olds })
    };
    let unexpected = net.counter(1, "unexpected");
    net.hand(0, 1, commit(0, 3)); // not even its maker has told
    net.hand(0, 1, commit(2, 3)); // I am said to have told already
    net.hand(0, 1, commit(3, 3)); // so is everybody
    net.hand(0, 1, commit(1, 2)); // not for all that I want
    net.hand(2, 1, commit(1, 3)); // not from my predecessor
    assert_eq!(net.counter(1, "unexpected"), unexpected + 5);
    assert_eq!(net.state(1), "gather");
    net.hand(0, 1, commit(1, 3));
    assert_eq!(net.state(1), "commit", "this one is");
    net.end();
}

#[test]
fn f07_a_number_is_never_given_twice_and_tokens_of_a_ring_given_up_are_worth_nothing() {
    //= M03 test
    //= M10 test
    let mut net = Net::new(4, |_| {});
    (0..4).for_each(|i| net.start(i));
    // Some rings come as far as their first tokens, and are given up.
    let mut lost = Vec::new();
    net.run_dropping(ms(600), &mut |flying| {
        if flying.is_token() {
            lost.push(flying.clone());
        }
        flying.is_token()
    });
    net.part(&[4]);
    net.run_until(ms(1_500), |net| net.last_members(0) == [1, 2, 3] && net.state(0) == "operational");
    let mut members_of: std::collections::BTreeMap<RingId, Vec<MemberId>> = Default::default();
    for (_, commit) in net.commits() {
        let members = members_of.entry(commit.ring).or_insert_with(|| commit.member_ids());
        assert_eq!(*members, commit.member_ids(), "one number, one set of members");
    }
    assert!(members_of.len() >= 3, "{members_of:?}");
    assert!(!lost.is_empty());
    net.cut(&[1, 2, 3, 4], &[1, 2, 3, 4]);
    net.run_until(ms(400), |net| net.state(1) == "gather");
    for token in lost {
        net.hand_over(Flying { to: NodeId(2), ..token });
        assert_eq!(net.state(1), "gather");
    }
    net.end();
}

#[test]
fn f09_timers_that_split_rings_are_refused_and_the_defaults_split_none() {
    //= M12 test
    let refused = |adjust: &dyn Fn(&mut RingConfig)| {
        let mut config = RingConfig::new(NodeId(1), vec![NodeId(1), NodeId(2)]);
        adjust(&mut config);
        Ring::new(config, Incarnation(1)).unwrap_err()
    };
    let short = refused(&|config| config.timers.consensus = config.timers.token_loss);
    assert_eq!(short.setting, "ring.consensus");
    assert!(short.to_string().contains("make it at least"), "{short}");
    let slow_joins = refused(&|config| config.timers.join = config.timers.consensus);
    assert_eq!(slow_joins.setting, "ring.consensus");
    // A member crashes right after the token left it: the others miss the token as far apart as they can.
    for crashed in 0..5 {
        let mut net = Net::formed(5, |_| {});
        let me = net.incarnation(crashed);
        while net.flying.iter().all(|flying| !(flying.is_token() && flying.from == me)) {
            net.run(Duration::from_micros(5));
        }
        net.crash(crashed);
        net.run_until_whole(ms(500));
        for i in (0..5).filter(|i| *i != crashed) {
            assert_eq!(net.regular_views(i), 2, "nobody was in a smaller ring meanwhile: {:?}", net.views[i]);
        }
        net.end();
    }
}

#[test]
fn f29_a_commit_token_of_an_older_attempt_is_ignored() {
    //= M21 test
    //= M24 test
    let mut net = Net::new(3, |_| {});
    (0..3).for_each(|i| net.start(i));
    // The first attempt's token comes to node 2 and no further; the second attempt's gets through.
    net.run_until(ms(400), |net| !net.commits().is_empty());
    let old = net.commits()[0].1.clone();
    let mut drop = |flying: &Flying| flying.commit().is_some_and(|c| c.ring == old.ring && c.told() > 1);
    let newer = |net: &Net| net.commits().iter().any(|(from, c)| c.ring > old.ring && from.node == NodeId(2));
    net.run_dropping_until(ms(500), &mut drop, &mut |net| newer(net));
    assert_eq!(net.state(1), "commit");
    let unexpected = net.counter(1, "unexpected");
    net.hand(0, 1, RingPacket::Commit(old.clone()));
    assert_eq!((net.state(1), net.counter(1, "unexpected")), ("commit", unexpected + 1));
    net.run_until_whole(ms(500));
    net.hand(0, 1, RingPacket::Commit(old.clone()));
    assert_eq!(net.state(1), "operational");
    assert!(net.view(1).id > old.ring);
    net.end();
}

#[test]
fn f43_a_hundred_and_twenty_eight_nodes_that_start_together_form_one_ring() {
    //= M14 test
    let mut net = Net::new(128, |_| {});
    net.step = Duration::from_nanos(200);
    for i in 0..128 {
        net.start((i * 37) % 128);
        net.run(Duration::from_micros(150));
    }
    while !net.is_whole() && net.now < Instant::ZERO + ms(3_000) {
        net.run(ms(20));
    }
    let views = (0..128).map(|i| net.regular_views(i)).max();
    assert!(views <= Some(4), "{views:?}");
    assert!(net.is_whole());
    net.check();
}

#[test]
fn f43_nodes_that_start_one_by_one_are_let_in() {
    //= M51 test
    let mut net = Net::new(12, |_| {});
    for i in [5, 0, 11, 3, 8, 1, 2, 10, 4, 9, 6, 7] {
        net.start(i);
        net.run_until_whole(ms(1_500));
    }
    let views = (0..12).map(|i| net.regular_views(i)).max();
    assert!(views <= Some(2 * 12), "{views:?}");
    net.end();
}

#[test]
fn f51_all_nodes_order_members_alike_and_no_list_is_cut() {
    //= M20 test
    //= R1 test
    use consort_wire::Packet as _;
    let all: Vec<_> = (1..=128).map(|node| MemberId::new(node, 1_000 - u64::from(node))).collect();
    let ring = RingId { number: 7, representative: all[0] };
    let proposal = Proposal {
        proc: all.iter().copied().collect(),
        fail: all[64..].iter().copied().collect(),
        number: 7,
        heard: all.iter().map(|member| member.node).collect(),
        leave: false,
        episode: 1,
        ..Proposal::default()
    };
    let join = Join { proposal, ring, attempt: None };
    let mut held = crate::holdings::HoldingsMap::default();
    held.tell(0, None, Seq(0), Seq(4_000), |seq| seq.0 % 2 == 0);
    let old = crate::RingId { number: 1, representative: all[0] };
    let obligations = all.iter().copied().collect();
    let olds = vec![crate::packet::OldRing { ring: old, line: Seq(0), obligations, held }];
    let commit = Commit { ring, rotation: 2, members: all.iter().map(|member| (*member, Some(0))).collect(), olds };
    for packet in [RingPacket::Join(join), RingPacket::Commit(commit)] {
        let mut head = bytes::BytesMut::new();
        let body = packet.encode(&mut head);
        assert!(body.is_empty());
        assert_eq!(RingPacket::decode(head.freeze()), Ok(packet));
    }
    // By node, whatever the incarnations say.
    let mut net = Net::new(4, |_| {});
    for (i, incarnation) in [(0, 900), (1, 20), (2, 700), (3, 5)] {
        let config = net.rings[i].config().clone();
        net.rings[i] = Ring::new(config, Incarnation(incarnation)).unwrap();
        net.start(i);
    }
    net.run_until_whole(ms(500));
    for i in 0..4 {
        assert_eq!(net.last_members(i), [1, 2, 3, 4]);
        assert_eq!(net.view(i).id.representative, MemberId::new(1, 900));
    }
    net.end();
}
