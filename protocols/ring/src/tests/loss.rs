use super::*;
use consort_types::Rng;

#[test]
fn a_lost_token_is_sent_again_as_an_exact_copy() {
    //= R25 test
    let mut net = Net::formed(3, |_| {});
    let mut lost = None;
    net.submit(0, Service::Agreed, "x");
    net.run_dropping(Duration::from_millis(50), &mut |flying| {
        let hit = lost.is_none() && flying.to == NodeId(3) && matches!(flying.packet, RingPacket::Token(_));
        if hit {
            lost = Some(flying.packet.clone());
        }
        hit
    });
    net.agree_on(1);
    let copies = net.sent.iter().filter(|flying| Some(&flying.packet) == lost.as_ref());
    let lanes: Vec<_> = copies.map(|flying| flying.lane).collect();
    assert_eq!(lanes, [Lane::Token, Lane::Token, Lane::Control], "to its receiver, once more, and to all");
    assert_eq!(net.counter(1, "tokens_retransmitted"), 1);
}

#[test]
fn only_a_packet_numbered_after_the_token_is_evidence_that_it_moved_on() {
    //= R26 test
    let mut net = Net::formed(3, |_| {});
    let ring = net.views[0][0].id;
    (0..5).for_each(|_| net.submit(0, Service::Agreed, vec![0; 1_300]));
    // Node 2 gets the token with seq 5, passes it on, and the token is lost.
    let mut drop = |flying: &Flying| flying.from == member(2) && matches!(flying.packet, RingPacket::Token(_));
    while net.counter(1, "aru") < 5 || !tokens(&net.sent).iter().any(|token| token.seq == Seq(5)) {
        net.step(&mut drop);
    }
    (0..20).for_each(|_| net.step(&mut drop));
    let retransmitted = |net: &Net| net.counter(1, "tokens_retransmitted");
    let packet = |seq| RingPacket::Data(DataPacket { ring, retransmission: false, ..data(seq) });
    let to_second = |packet| Flying { from: member(1), to: NodeId(2), lane: Lane::Data, packet };
    net.hand_over(to_second(packet(5)));
    let before = retransmitted(&net);
    net.run_dropping(Duration::from_millis(12), &mut drop);
    assert!(retransmitted(&net) > before, "an old packet is no evidence");
    net.hand_over(to_second(packet(6)));
    let before = retransmitted(&net);
    net.run_dropping(Duration::from_millis(50), &mut drop);
    assert_eq!(retransmitted(&net), before, "a packet beyond the token is");
}

#[test]
fn a_third_of_all_packets_may_be_lost() {
    //= R6 test
    //= R7 test
    //= R13 test
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let mut net = Net::formed(3, |_| {});
        for k in 0..60 {
            let service = if rng.chance(0.3) { Service::Safe } else { Service::Agreed };
            net.submit(k % 3, service, vec![k as u8; rng.below(4_000) as usize]);
        }
        net.run_dropping(Duration::from_secs(20), &mut |_| rng.chance(0.33));
        net.run(Duration::from_secs(3));
        net.agree_on(60);
        assert!((0..3).all(|i| net.counter(i, "assertion_failures") == 0 && net.counter(i, "store_packets") == 0));
    }
}

#[test]
fn waiting_for_lost_tokens_does_not_make_the_wait_longer() {
    //= R25 test
    let (mut net, mut rng) = (Net::formed(3, |_| {}), Rng::new(3));
    for k in 0..300 {
        net.submit(k % 3, Service::Agreed, vec![k as u8; 4_000]);
        net.run_dropping(Duration::from_millis(30), &mut |flying| {
            matches!(flying.packet, RingPacket::Token(_)) && rng.chance(0.2)
        });
    }
    net.run(Duration::from_millis(500));
    net.agree_on(300);
    let rotation = net.counter(0, "rotation_us");
    assert!(rotation < 60_000, "{rotation} us");
}

#[test]
fn many_tokens_may_be_lost_where_a_rotation_has_many_hops() {
    //= R25 test
    let mut rng = Rng::new(375);
    let mut far = distance::Far::formed(12, Duration::from_micros(290), |_| {});
    for k in 0..5_000 {
        far.net.submit(k % 12, Service::Agreed, vec![k as u8; 100]);
        far.run_dropping(Duration::from_millis(2), &mut |flying| {
            matches!(flying.packet, RingPacket::Token(_)) && rng.chance(0.1)
        });
    }
    let rotations: Vec<_> = (0..12).map(|i| far.net.counter(i, "rotation_us")).collect();
    assert!(rotations.iter().all(|us| *us < 10_000), "{rotations:?}");
    assert_eq!(far.net.total("token_losses"), 0);
    far.run(Duration::from_millis(500));
    far.net.agree_on(5_000);
}

#[test]
fn duplicated_and_reordered_packets_change_nothing() {
    //= R23 test
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let mut net = Net::formed(3, |_| {});
        (0..60).for_each(|k| net.submit(k % 3, Service::Agreed, vec![k as u8; 900]));
        for _ in 0..20_000 {
            if let Some(flying) = net.flying.front().cloned()
                && rng.chance(0.2)
            {
                let at = rng.below(net.flying.len() as u64) as usize;
                net.flying.insert(at, flying);
            }
            net.step(&mut |_| false);
        }
        net.agree_on(60);
    }
}

#[test]
fn requests_that_were_satisfied_go_silently() {
    //= R7 test
    let mut net = Net::formed(2, |_| {});
    net.submit(0, Service::Agreed, "stable soon");
    net.run(Duration::from_millis(10));
    let ring = net.views[0][0].id;
    let sent = net.counter(0, "retransmissions_sent");
    let mut requests = crate::requests::Requests::default();
    requests.merge([Seq(1)].into_iter(), 10);
    let token =
        crate::packet::Token { ring, token_seq: 1 << 30, seq: Seq(1), aru: Seq(1), requests, ..Default::default() };
    net.sent.clear();
    net.hand_over(Flying { from: member(2), to: NodeId(1), lane: Lane::Token, packet: RingPacket::Token(token) });
    assert_eq!(net.counter(0, "retransmissions_sent"), sent);
    assert!(tokens(&net.sent).iter().all(|token| token.requests.is_empty()));
}

#[test]
fn a_ring_whose_token_is_lost_is_formed_anew_and_keeps_everything() {
    //= R27 test
    let mut net = Net::formed(3, |_| {});
    net.submit(0, Service::Agreed, "waits");
    let gathers = &mut |net: &Net| net.state(2) == "gather";
    net.run_dropping_until(Duration::from_millis(500), &mut |flying| flying.is_token(), gathers);
    assert!(
        net.rings[2].describe(net.now).starts_with("gathering (token lost after 36"),
        "{}",
        net.rings[2].describe(net.now)
    );
    net.run(Duration::from_millis(300));
    net.agree_on(1);
    assert!((0..3).all(|i| net.rings[i].state() == "operational"));
    assert_eq!(net.interruptions.len(), 3, "each gave the ring up once: {:?}", net.interruptions);
    assert!(
        matches!(&net.interruptions[0], (_, ViewCause::TokenLost { .. }, out) if out.is_empty()),
        "all have answered"
    );
}

#[test]
fn all_tell_who_has_not_answered_when_the_token_is_lost() {
    //= R27 test
    let mut net = Net::formed(3, |_| {});
    net.crash(1);
    net.run(Duration::from_millis(600));
    let [(first, ViewCause::TokenLost { .. }, out), (second, ..)] = &net.interruptions[..] else {
        panic!("{:?}", net.interruptions)
    };
    assert_eq!((first + second, &out[..], &net.interruptions[1].2[..]), (2, &[member(2)][..], &[member(2)][..]));
    assert_eq!(net.views[0].last().map(|view| view.members.len()), Some(2));
}
