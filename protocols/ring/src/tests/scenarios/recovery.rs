//! Recovery: what is lost on the way, given up halfway, late, or too much.
use super::*;

/// Three nodes have lost their token, and the third lacks what the first two said last.
fn third_lacks(n: usize) -> Net {
    third_lacks_after(|net| {
        net.submit_packets(0, Service::Agreed, n);
        net.submit_packets(1, Service::Safe, n);
    })
}

fn third_lacks_after(said: impl Fn(&mut Net)) -> Net {
    let mut net = Net::formed(3, |config| config.timers.fail_to_receive_rotations = u32::MAX);
    said(&mut net);
    net.run_dropping(ms(5), &mut data_to_third);
    net.run_dropping_until(ms(500), &mut |flying| flying.is_token() || data_to_third(flying), &mut all_gather);
    assert_eq!(net.delivered[2].len(), 0);
    net
}

fn data_to_third(flying: &Flying) -> bool {
    flying.is_data() && flying.to == NodeId(3)
}

fn all_gather(net: &Net) -> bool {
    net.living().all(|i| net.state(i) == "gather")
}

/// The sequence numbers given away so far.
fn base(net: &Net) -> u64 {
    net.counter(0, "aru")
}

#[test]
fn f06_tokens_lost_in_commit_and_in_recovery_thrice_leave_old_store_and_obligations_intact() {
    //= M40 test
    //= M32 test
    //= M24 test
    //= M33 test
    let mut net = third_lacks(10);
    net.submit(2, Service::Safe, "of the third");
    let owed = |net: &Net, i: usize| net.rings[i].installed().unwrap().obligations.len();
    for (attempt, told) in [(1, 2), (2, 1), (3, 2)] {
        let mut commit_lost = |flying: &Flying| flying.commit().is_some_and(|commit| commit.told() >= told);
        net.run_dropping_until(ms(400), &mut commit_lost, &mut |net| net.state(0) == "commit");
        net.run_dropping_until(ms(400), &mut commit_lost, &mut all_gather);
        // Recovery comes as far as its second token.
        let mut passed = 0;
        let mut token_lost = |flying: &Flying| {
            passed += u32::from(flying.is_token());
            flying.is_token() && passed > 2
        };
        net.run_dropping_until(ms(400), &mut token_lost, &mut |net| (0..3).all(|i| net.state(i) == "recovery"));
        net.run_dropping_until(ms(400), &mut token_lost, &mut all_gather);
        assert!(net.counter(2, "views") == 1, "attempt {attempt} came to nothing");
        assert_eq!(net.rings[2].installed().unwrap().view.members.len(), 3);
    }
    assert_eq!((owed(&net, 0), owed(&net, 1), owed(&net, 2)), (3, 3, 3));
    let told: Vec<_> = net.commits().iter().flat_map(|(_, commit)| commit.olds.clone()).collect();
    assert_eq!(told.last().map(|old| old.obligations.len()), Some(3), "whoever comes along next learns of them");
    let recovered = net.sent.iter().filter(|flying| flying.recovered().is_some_and(|_| flying.from.node != NodeId(3)));
    assert!(recovered.count() <= 20 + 4, "what was recovered once is not sent again");
    net.run_until_whole(ms(500));
    net.end();
    assert_eq!((net.delivered[0].len(), net.texts(0) == net.texts(2)), (21, true));
}

#[test]
fn f06_all_agree_but_the_commit_token_does_not_come() {
    //= M13 test
    let mut net = Net::formed(3, |_| {});
    let is_commit = |flying: &Flying| flying.commit().is_some();
    net.run_dropping_until(ms(400), &mut |flying| flying.is_token() || is_commit(flying), &mut all_gather);
    // The lowest, who makes the commit token, is gone right after all agreed.
    net.run_dropping_until(ms(400), &mut |flying| is_commit(flying), &mut |net| net.state(0) == "commit");
    net.crash(0);
    let gone = net.now;
    net.run_until(ms(900), |net| net.last_members(1) == [2, 3] && net.last_members(2) == [2, 3]);
    let t = crate::RingConfig::new(NodeId(1), vec![NodeId(1)]).timers;
    assert!(
        net.now.since(gone) <= t.token_loss * 2 + ms(50),
        "asked once more, then failed: {:?}",
        net.now.since(gone)
    );
    net.end();
}

#[test]
fn f08_four_of_five_stop_during_recovery() {
    //= M12 test
    //= M34 test
    let mut net = Net::formed(5, |_| {});
    net.chatter("before", 5);
    net.run_dropping(ms(5), &mut |flying| flying.is_data() && flying.to == NodeId(3));
    net.lose_the_token();
    net.run_until(ms(400), |net| (0..5).all(|i| net.state(i) == "recovery"));
    [0, 1, 3, 4].into_iter().for_each(|i| net.crash(i));
    net.run_until_whole(ms(800));
    assert_eq!(net.last_members(2), [3]);
    net.submit(2, Service::Safe, "alone");
    net.end();
}

#[test]
fn f10_more_packets_than_any_window_are_recovered() {
    //= M30 test
    //= M31 test
    let mut net = Net::formed(4, |config| {
        config.windows =
            crate::Windows { global: 10, personal: 5, accelerated: 3, store: 8_192, ..crate::Windows::SPREAD };
    });
    net.step = Duration::from_micros(1);
    // Node 4 says much that does not come to node 3, and crashes.
    let (ring, base) = (net.view(0).id, base(&net));
    for seq in base + 1..=base + 4_200 {
        for to in 0..2 {
            net.hand(3, to, RingPacket::Data(DataPacket { ring, originator: NodeId(4), ..data(seq) }));
        }
    }
    net.crash(3);
    net.sent.clear();
    net.lose_the_token();
    net.run_until_whole(ms(4_000));
    let recovered = net.sent.iter().filter(|flying| flying.recovered().is_some());
    let first = recovered.filter(|f| matches!(&f.packet, RingPacket::Data(data) if !data.retransmission));
    assert_eq!(first.count(), 4_200, "each once");
    let most = tokens(&net.sent).iter().map(|token| token.fcc.packets).max();
    assert!(most <= Some(15), "the windows hold while recovering, too: {most:?}");
    net.end();
    assert!((0..3).all(|i| net.delivered[i].len() == 4_200 && net.texts(i) == net.texts(0)));
}

#[test]
fn f12_recovered_packets_are_let_go_when_all_hold_them_and_nobody_asks_for_them_again() {
    //= R22 test
    //= M31 test
    let mut net = third_lacks(10);
    net.sent.clear();
    let mut lost = 0;
    let mut drop = |flying: &Flying| {
        let hit = flying.recovered().is_some() && flying.to == NodeId(3) && lost < 7;
        lost += u32::from(hit);
        hit
    };
    net.run_dropping_until(ms(500), &mut drop, &mut Net::is_whole);
    let senders = |again| {
        let copies = net.sent.iter().filter_map(|flying| Some((flying.from.node.0, flying.recovered()?, flying)));
        let copies = copies.filter(|(_, _, f)| matches!(&f.packet, RingPacket::Data(d) if d.retransmission == again));
        copies.map(|(from, recovered, _)| (from, recovered.seq.0)).collect::<Vec<_>>()
    };
    assert_eq!(senders(false).len(), 20, "each packet has one sender");
    assert!(senders(false).iter().all(|(from, _)| *from == 1), "its first holder");
    assert!(senders(true).len() >= 7, "what was lost was asked for");
    let asked = net.total("requests_made");
    net.chatter("after", 5);
    net.end();
    assert_eq!(net.total("requests_made"), asked);
}

#[test]
fn f13_a_packet_that_fills_a_datagram_still_fits_into_one_when_it_is_recovered() {
    //= M31 test
    use consort_wire::Packet as _;
    let mut net = third_lacks_after(|net| (0..5).for_each(|k| net.submit(0, Service::Agreed, format!("{k:.>4000}"))));
    net.run_until_whole(ms(500));
    let len = |packet: &RingPacket| {
        let mut head = bytes::BytesMut::new();
        let body = packet.encode(&mut head);
        head.len() + body.len()
    };
    let room = net.rings[0].config().datagram.packet_room();
    let lens: Vec<_> = net.sent.iter().filter(|f| f.recovered().is_some()).map(|f| len(&f.packet)).collect();
    assert_eq!(lens.iter().max(), Some(&room), "to the last byte");
    net.end();
    net.agree_on(5);
}

#[test]
fn f28_what_comes_after_a_member_has_told_what_it_holds_is_dropped_by_all() {
    //= M24 test
    let mut net = Net::formed(3, |_| {});
    net.submit(0, Service::Agreed, "common");
    net.run(ms(5));
    let ring = net.view(0).id;
    let late = RingPacket::Data(DataPacket { ring, ..data(net.counter(0, "aru") + 1) });
    let late = |to| Flying { from: member(1), to: NodeId(to), lane: Lane::Data, packet: late.clone() };
    net.crash(0);
    net.lose_the_token();
    net.run_until(ms(400), |net| net.state(1) == "commit");
    net.hand_over(late(2));
    net.run_until(ms(400), |net| net.state(2) != "gather" && net.state(1) != "operational");
    net.hand_over(late(3));
    net.hand_over(late(2));
    net.end();
    for i in [1, 2] {
        assert_eq!(net.texts(i), ["common"], "neither may know what the other had not told");
    }
}

#[test]
fn f30_f47_what_was_let_go_before_a_merge_is_neither_asked_for_nor_taken_again() {
    //= M41 test
    //= R23 test
    let mut net = Net::formed(4, |_| {});
    net.part(&[1, 2]);
    net.run_until(ms(900), |net| net.last_members(0) == [1, 2] && net.last_members(3) == [3, 4]);
    net.sent.clear();
    (0..300).for_each(|k| net.submit(k % 2, Service::Agreed, format!("long ago {k}")));
    net.run(ms(30));
    net.submit(2, Service::Safe, "the other side has said little");
    net.run(ms(30));
    assert_eq!(net.total("store_packets"), 0, "all is stable and let go");
    let old: Vec<_> =
        net.sent.iter().filter(|flying| flying.is_data() && flying.from.node == NodeId(1)).cloned().collect();
    let asked = net.total("requests_made");
    net.heal();
    net.run_until(ms(2_500), |net| net.state(1) == "gather");
    for flying in &old {
        net.hand_over(Flying { to: NodeId(2), ..flying.clone() });
    }
    net.run_until_whole(ms(1_000));
    for flying in &old {
        net.hand_over(Flying { to: NodeId(2), ..flying.clone() });
    }
    assert_eq!(net.total("store_packets"), 0);
    net.end();
    assert_eq!(net.total("requests_made"), asked);
    assert!(net.sent.iter().all(|flying| flying.recovered().is_none()));
    assert_eq!(net.delivered[1].len(), 300);
}

#[test]
fn f31_what_was_learned_about_stability_in_recovery_counts_for_nothing_afterwards() {
    //= M38 test
    //= R21 test
    let mut net = third_lacks(10);
    let mut done = [0; 3];
    net.run_until(ms(500), |net| net.state(0) == "operational");
    net.submit(0, Service::Safe, "first in the new view");
    let mut lost = 0;
    let fresh = |flying: &Flying| flying.is_data() && flying.recovered().is_none();
    for _ in 0..3_000 {
        net.step(&mut |flying| {
            let hit = fresh(flying) && flying.to == NodeId(3) && lost < 3;
            lost += u32::from(hit);
            hit
        });
        for (i, done) in done.iter_mut().enumerate() {
            for delivery in net.delivered[i].iter().skip(std::mem::replace(done, net.delivered[i].len())) {
                let new = delivery.payload.to_bytes() == "first in the new view";
                let all_hold = net.rings.iter().all(|ring| ring.holds(delivery.position));
                let all_are_in = (0..3).all(|j| net.view(j).id == net.view(i).id && net.state(j) == "operational");
                assert!(!new || all_hold && all_are_in, "n{} is too early", i + 1);
            }
        }
    }
    assert_eq!(lost, 3);
    net.end();
    assert_eq!(net.texts(2).last().unwrap(), "first in the new view");
}

#[test]
fn f33_a_token_lost_or_doubled_where_recovery_ends_installs_once() {
    //= M34 test
    //= M35 test
    for (k, doubled) in (0..14).flat_map(|k| [(k, false), (k, true)]) {
        let mut net = third_lacks(4);
        let views = net.total("views");
        let mut seen = 0;
        net.run_until(ms(400), |net| net.state(0) == "recovery");
        let end = net.now + ms(100);
        while net.now < end {
            let token = net.flying.front().filter(|flying| flying.is_token()).cloned();
            seen += usize::from(token.is_some());
            net.step(&mut |flying| flying.is_token() && seen == k + 1 && !doubled);
            if let Some(token) = token.filter(|_| doubled && seen > k) {
                net.hand_over(token);
            }
        }
        assert!(net.is_whole(), "{k} {doubled}{}", net.describe());
        assert_eq!(net.total("views"), views + 3, "each installed once");
        net.end();
    }
}

#[test]
fn f34_a_recovery_that_never_ends_is_given_up() {
    //= M39 test
    let mut net = third_lacks_after(|net| net.submit_packets(0, Service::Agreed, 5));
    let mut unobtainable =
        |flying: &Flying| flying.recovered().is_some_and(|r| r.seq.0 % 4 == 0) && flying.to == NodeId(3);
    net.run_until(ms(500), |net| net.state(0) == "recovery");
    let (begun, losses) = (net.now, net.total("token_losses"));
    net.step = Duration::from_micros(100);
    net.run_dropping_until(ms(6_000), &mut unobtainable, &mut |net| net.state(0) == "gather");
    let took = net.now.since(begun);
    assert!(took >= net.rings[0].config().timers.recovery_max - ms(50), "{took:?}");
    assert_eq!(net.total("token_losses"), losses, "the token went round all the while");
    net.run_until_whole(ms(1_000));
    net.end();
    net.agree_on(5);
}
