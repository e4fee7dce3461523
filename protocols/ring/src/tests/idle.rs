use super::*;
use consort_types::Rng;

#[test]
fn an_idle_token_rests_at_the_representative_and_comes_round_now_and_then() {
    //= R28 test
    //= R29 test
    let mut net = Net::formed(5, |_| {});
    net.run(Duration::from_millis(50));
    let visits = net.counter(2, "visits");
    net.run(Duration::from_secs(1));
    let rate = net.counter(2, "visits") - visits;
    assert!((37..=40).contains(&rate), "one rotation each 25 ms, not {rate} a second");
    assert_eq!(net.counter(0, "tokens_retransmitted"), 0);
    assert_eq!((0..5).map(|i| net.counter(i, "token_losses")).sum::<u64>(), 0);
}

#[test]
fn a_token_rests_only_when_safe_messages_are_delivered_everywhere() {
    //= R28 test
    for sender in 0..3 {
        let mut net = Net::formed(3, |_| {});
        net.run(Duration::from_millis(105));
        net.submit(sender, Service::Safe, "x");
        net.run(Duration::from_millis(4));
        assert!(net.delivered.iter().all(|delivered| delivered.len() == 1), "sent by {sender}");
    }
}

/// Runs for so long; the first so many tokens to a node are lost.
fn lose_tokens(net: &mut Net, many: u32, to: NodeId, span: Duration) {
    let mut lost = 0;
    net.run_dropping(span, &mut |flying| {
        let hit = lost < many && flying.to == to && matches!(flying.packet, RingPacket::Token(_));
        lost += u32::from(hit);
        hit
    });
    assert_eq!(lost, many);
}

#[test]
fn a_token_that_is_lost_before_all_know_that_all_is_stable_is_missed_soon() {
    //= R25 test
    let mut net = Net::formed(3, |_| {});
    net.run(Duration::from_millis(105));
    net.submit(0, Service::Safe, "x");
    lose_tokens(&mut net, 1, NodeId(3), Duration::from_millis(12));
    assert!(net.delivered.iter().all(|delivered| delivered.len() == 1));
}

#[test]
fn a_token_does_not_rest_while_the_windows_hold_something_back() {
    //= R28 test
    let mut net = Net::formed(3, |config| {
        let windows = crate::Windows { global: 20, personal: 20, accelerated: 0, tuning: None, ..config.windows };
        config.windows = windows;
        never_granted(config);
    });
    net.run(Duration::from_millis(105));
    let fill = |net: &mut Net, i: usize| (0..20).for_each(|_| net.submit(i, Service::Safe, vec![7; 1_300]));
    fill(&mut net, 2);
    let visits = net.counter(1, "visits");
    net.run_until(Duration::from_millis(1), |net| net.counter(1, "visits") > visits);
    // The second asks for the token too early; when it comes, the third and the first have used the window up.
    fill(&mut net, 1);
    net.run_until(Duration::from_millis(1), |net| net.counter(2, "packets_sent") == 20);
    fill(&mut net, 0);
    let start = net.now;
    net.run_until(Duration::from_millis(40), |net| net.delivered.iter().all(|delivered| delivered.len() == 60));
    assert!(net.now.since(start) < Duration::from_millis(4), "{:?}", net.now.since(start));
}

#[test]
fn an_idle_token_may_be_lost_twelve_times_running() {
    //= R25 test
    let mut net = Net::formed(3, |_| {});
    net.run(Duration::from_millis(100));
    let mut lost = 0;
    net.run_dropping(Duration::from_millis(400), &mut |flying| {
        let hit = lost < 12 && matches!(flying.packet, RingPacket::Token(_));
        lost += u32::from(hit);
        hit
    });
    assert_eq!(lost, 12);
    assert!(net.views.iter().all(|views| views.len() == 1), "no ring was given up");
}

#[test]
fn a_message_does_not_wait_for_the_parked_token() {
    //= R30 test
    for i in 0..3 {
        let mut net = Net::formed(3, |_| {});
        net.run(Duration::from_millis(105));
        let start = net.now;
        net.submit(i, Service::Agreed, "hurry");
        while net.delivered.iter().any(Vec::is_empty) {
            net.step(&mut |_| false);
        }
        assert!(net.now.since(start) < Duration::from_millis(1), "{:?}", net.now.since(start));
    }
}

/// Who got the token, one after the other, until a message of each sender, sent at the same time, was delivered by all.
fn tokens_for(net: &mut Net, senders: &[usize]) -> Vec<u16> {
    let (mut tokens, before) = (Vec::new(), net.delivered[0].len());
    senders.iter().for_each(|i| net.submit(*i, Service::Agreed, "hurry"));
    while net.delivered.iter().any(|delivered| delivered.len() < before + senders.len()) {
        net.step(&mut |flying| {
            tokens.extend(matches!(flying.packet, RingPacket::Token(_)).then_some(flying.to.0));
            false
        });
    }
    tokens
}

#[test]
fn a_token_that_rests_is_handed_to_the_one_that_asks_and_goes_round_for_several() {
    //= R30 test
    let mut net = Net::formed(8, |_| {});
    net.run(Duration::from_millis(105));
    for (senders, way) in [(&[5][..], &[6][..]), (&[1], &[2]), (&[0, 5], &[2, 3, 4, 5, 6])] {
        assert!(tokens_for(&mut net, senders).starts_with(way), "{senders:?}");
        net.run(Duration::from_millis(50));
    }
    // Two ask at once.
    let ring = net.views[0][0].id;
    for node in [4, 6] {
        let packet = RingPacket::TokenRequest(crate::packet::TokenRequest { ring });
        net.hand_over(Flying { from: member(node), to: NodeId(1), lane: Lane::Token, packet });
    }
    assert!(tokens_for(&mut net, &[5]).starts_with(&[2, 3, 4, 5, 6]));
    net.agree_on(5);
    // What rounds are compared with: the second member hears of each visit of the first.
    let ahead = net.counter(0, "visits") - net.counter(1, "visits");
    assert!(ahead <= 1, "{ahead} visits ahead");
}

#[test]
fn a_token_that_is_lost_when_it_is_handed_over_is_sent_again_to_the_same_one() {
    //= R30 test
    //= R25 test
    let mut net = Net::formed(8, |_| {});
    net.run(Duration::from_millis(105));
    net.submit(5, Service::Safe, "hurry");
    lose_tokens(&mut net, 2, NodeId(6), Duration::from_millis(12));
    assert!(
        net.delivered.iter().all(|delivered| delivered.len() == 1),
        "it is missed like any token that is under way"
    );
}

#[test]
fn messages_of_all_at_all_times_come_through_tokens_that_are_handed_over() {
    //= R30 test
    let (mut net, mut rng) = (Net::formed(5, |_| {}), Rng::new(30));
    let mut sent = 0;
    for k in 0..2_000 {
        let senders = rng.below(8).saturating_sub(4);
        for _ in 0..senders {
            let service = if rng.below(3) == 0 { Service::Safe } else { Service::Agreed };
            net.submit(rng.below(5) as usize, service, vec![k as u8; rng.below(3_000) as usize + 1]);
            sent += 1;
        }
        let pause = Duration::from_micros([50, 300, 2_000, 8_000][rng.below(4) as usize]);
        net.run_dropping(pause, &mut |_| rng.chance(0.02));
    }
    net.run(Duration::from_millis(500));
    net.agree_on(sent);
    assert!((0..5).all(|i| net.counter(i, "assertion_failures") == 0 && net.views[i].len() == 1));
}

#[test]
fn a_lost_wake_up_is_sent_again() {
    //= R30 test
    let mut net = Net::formed(3, |config| {
        config.timers.token_loss = Duration::from_secs(10);
        config.timers.consensus = Duration::from_secs(12);
        config.timers.token_retransmit_idle = Duration::from_secs(1);
        config.timers.hold = Duration::from_millis(900);
    });
    net.run(Duration::from_millis(100));
    net.submit(2, Service::Agreed, "hurry");
    let mut lost = 0;
    net.run_dropping(Duration::from_millis(30), &mut |flying| {
        let hit = lost < 3 && matches!(flying.packet, RingPacket::TokenRequest(_));
        lost += u32::from(hit);
        hit
    });
    assert_eq!(lost, 3, "to the representative, and to all");
    net.agree_on(1);
}

#[test]
fn a_wake_up_that_comes_too_early_is_remembered() {
    //= R30 test
    let mut net = Net::formed(2, |_| {});
    let ring = net.views[0][0].id;
    net.run(Duration::from_millis(100));
    // Let the parked token go, and while it is away ask for it.
    while net.flying.iter().all(|f| !matches!(f.packet, RingPacket::Token(_))) {
        net.run(Duration::from_micros(100));
    }
    let holds = net.counter(0, "holds");
    let packet = RingPacket::TokenRequest(crate::packet::TokenRequest { ring });
    net.hand_over(Flying { from: member(2), to: NodeId(1), lane: Lane::Token, packet });
    let visits = net.counter(0, "visits");
    while net.counter(0, "visits") == visits {
        net.step(&mut |_| false);
    }
    assert_eq!(net.counter(0, "holds"), holds, "not parked, though idle");
}

#[test]
fn a_lingering_ring_keeps_the_token_moving_after_traffic() {
    //= R28 test
    let mut net = Net::formed(3, |config| config.idling = crate::IdleHold::CIRCULATE);
    net.run(Duration::from_secs(1));
    net.submit(0, Service::Agreed, "x");
    net.run(Duration::from_millis(30));
    let holds = net.counter(0, "holds");
    net.run(Duration::from_millis(300));
    assert_eq!(net.counter(0, "holds"), holds, "still circulating");
    net.run(Duration::from_millis(300));
    assert!(net.counter(0, "holds") > holds, "parked again");
}

#[test]
fn open_requests_keep_the_token_moving() {
    //= R28 test
    let mut net = Net::formed(3, |_| {});
    net.submit(0, Service::Agreed, "x");
    let mut gone = 0;
    net.run_dropping(Duration::from_millis(40), &mut |flying| {
        let hit = flying.to == NodeId(2) && matches!(flying.packet, RingPacket::Data(_)) && gone < 20;
        gone += u32::from(hit);
        hit
    });
    net.agree_on(1);
}

#[test]
fn a_ring_of_one_orders_safely_does_not_recurse_and_does_not_spin() {
    //= R31 test
    let mut net = Net::formed(1, |_| {});
    for k in 0..10_000 {
        net.submit(0, if k % 2 == 0 { Service::Safe } else { Service::Agreed }, format!("{k}"));
    }
    net.run(Duration::from_millis(100));
    net.agree_on(10_000);
    let visits = net.counter(0, "visits");
    net.run(Duration::from_secs(1));
    assert_eq!(net.counter(0, "visits"), visits, "the token rests without a timer");
    assert_eq!(net.counter(0, "store_packets"), 0);
    net.submit(0, Service::Safe, "later");
    net.run(Duration::from_millis(1));
    assert_eq!(net.delivered[0].len(), 10_001);
}

#[test]
fn a_ring_of_one_takes_one_visit_at_a_time_however_much_waits() {
    //= R31 test
    let mut net = Net::formed(1, |_| {});
    let payload = vec![7; 64 << 10];
    let ring = &mut net.rings[0];
    for _ in 0..32 {
        let payload = Bytes::copy_from_slice(&payload).into();
        let (class, service, stream) = (Class::Client, Service::Agreed, OrderStream(0));
        ring.submit(net.now, Submission { class, service, stream, payload }).unwrap();
        while ring.poll_output().is_some() {}
    }
    let mut delivered = 0;
    for input in 1..=32 {
        ring.handle_timeout(net.now);
        delivered += std::iter::from_fn(|| ring.poll_output()).filter(|it| matches!(it, Output::Deliver(_))).count();
        assert!(delivered <= 4 * input, "{delivered} messages with {input} inputs: the driver waits too long");
    }
    assert_eq!(delivered, 32);
}

#[test]
fn a_ring_of_one_whose_store_is_full_comes_to_the_end_of_its_input() {
    //= R31 test
    let mut net = Net::formed(1, |config| {
        let small = 4 * u32::try_from(config.datagram.get()).unwrap();
        config.windows = crate::Windows { store_bytes: small, ..config.windows };
    });
    (0..200).for_each(|_| net.submit(0, Service::Agreed, vec![7; 1_300]));
    net.run(Duration::from_millis(100));
    net.agree_on(200);
}
