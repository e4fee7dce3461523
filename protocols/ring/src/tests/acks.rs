use super::grants::{have_all, resting, visits};
use super::*;
use crate::packet::Ack;

/// Demands of every step that nobody has delivered a safe message that another does not hold.
fn run_looking(net: &mut Net, span: Duration, drop: &mut dyn FnMut(&Flying) -> bool) {
    let end = net.now + span;
    while net.now < end {
        net.skip_to(end);
        net.step(drop);
        let held = (0..net.rings.len()).map(|i| net.counter(i, "aru")).min();
        let safe = net.delivered.iter().flatten().filter(|d| d.service == Service::Safe);
        let last = safe.map(|d| d.position.0 >> 16).max();
        assert!(last <= held, "{last:?} is delivered, {held:?} is held by all");
    }
}

fn is_ack(flying: &Flying) -> bool {
    matches!(flying.packet, RingPacket::Ack(_))
}

fn acks(net: &Net) -> usize {
    net.sent.iter().filter(|flying| is_ack(flying)).count()
}

#[test]
fn a_safe_message_that_is_sent_while_the_token_rests_needs_no_rotation() {
    //= R48 test
    for (n, sender) in [(2, 0), (2, 1), (3, 0), (3, 2), (4, 0), (4, 3), (8, 5)] {
        let mut net = resting(n);
        let before = visits(&net);
        net.submit(sender, Service::Safe, "safe");
        run_looking(&mut net, Duration::from_millis(1), &mut |_| false);
        assert!(have_all(&net, 1), "{n} members, sent by {sender}");
        assert_eq!((visits(&net), net.total("grants")), (before, 1), "{n} members, sent by {sender}");
        let others = usize::from(n) - 1;
        assert_eq!(acks(&net), if n > 3 { others + 1 } else { others }, "{n} members, sent by {sender}");
        net.run(Duration::from_millis(30));
        assert_eq!((0..usize::from(n)).filter(|i| net.counter(*i, "store_packets") > 0).count(), 0);
    }
}

#[test]
fn what_rests_before_a_safe_message_is_delivered_before_it() {
    //= R48 test
    for (first, second) in (0..3).flat_map(|first| (0..3).map(move |second| (first, second))) {
        let mut net = resting(3);
        net.submit(first, Service::Agreed, "waits");
        net.run(Duration::from_millis(1));
        net.submit(second, Service::Safe, "safe");
        run_looking(&mut net, Duration::from_millis(1), &mut |_| false);
        assert!(have_all(&net, 2), "sent by {first} and {second}");
    }
}

#[test]
fn what_is_lost_of_a_safe_message_or_of_what_is_said_of_it_delays_it_and_no_more() {
    //= R48 test
    for (n, sender) in [(2, 1), (3, 0), (3, 1), (5, 0), (5, 3)] {
        for nth in 0..2 * n {
            let (mut net, mut seen) = (resting(n), 0);
            net.submit(sender, Service::Safe, "safe");
            run_looking(&mut net, Duration::from_millis(12), &mut |flying| {
                let counts = is_ack(flying) || flying.is_data();
                seen += u16::from(counts);
                counts && seen == nth + 1
            });
            assert!(have_all(&net, 1), "{n} members, sent by {sender}, packet {nth} lost");
            assert!(net.views.iter().all(|views| views.len() == 1));
            assert_eq!(net.total("assertion_failures"), 0);
        }
    }
}

#[test]
fn while_nobody_says_anything_rotations_prove_it_soon() {
    //= R48 test
    for sender in 0..4 {
        let mut net = resting(4);
        net.submit(sender, Service::Safe, "safe");
        run_looking(&mut net, Duration::from_millis(2), &mut |flying| is_ack(flying));
        assert!(have_all(&net, 1), "sent by {sender}");
    }
}

#[test]
fn who_lacks_a_packet_says_nothing_before_it_came() {
    //= R48 test
    let mut net = resting(4);
    net.submit(2, Service::Agreed, "late");
    let mut late = None;
    net.run_dropping(Duration::from_millis(1), &mut |flying| {
        let hit = flying.is_data() && flying.to == NodeId(2);
        late = late.take().or_else(|| hit.then(|| flying.clone()));
        hit
    });
    net.sent.clear();
    net.submit(2, Service::Safe, "safe");
    // Nor does it ask for the token, and so have it repeated.
    let is_request = |flying: &Flying| matches!(flying.packet, RingPacket::TokenRequest(_)) && flying.from == member(2);
    run_looking(&mut net, Duration::from_micros(300), &mut |flying| is_request(flying));
    assert_eq!(acks(&net), 2, "of the others");
    assert!(net.delivered.iter().all(|delivered| delivered.len() < 2), "one lacks a packet");
    net.hand_over(late.unwrap());
    run_looking(&mut net, Duration::from_micros(300), &mut |_| false);
    assert!(have_all(&net, 2));
    assert_eq!(acks(&net), 4, "it was said late, and told");
}

#[test]
fn what_cannot_be_true_is_not_believed_nor_what_is_said_of_another_ring() {
    //= R48 test
    //= R24 test
    let mut net = resting(4);
    let ring = net.views[0][0].id;
    let ack = |aru| Ack { ring, aru: Seq(aru), stable: Seq(aru) };
    net.hand(2, 0, RingPacket::Ack(Ack { ring: crate::RingId { number: ring.number + 1, ..ring }, ..ack(1) }));
    net.hand(2, 0, RingPacket::Ack(ack(1 << 40)));
    assert_eq!((net.counter(0, "foreign_ring"), net.counter(0, "beyond_window")), (1, 1));
    net.submit(1, Service::Safe, "safe");
    net.run_dropping(Duration::from_micros(500), &mut |flying| flying.is_data() && flying.to == NodeId(4));
    assert!(net.delivered.iter().all(Vec::is_empty), "one lacks it");
    net.run(Duration::from_millis(12));
    assert!(have_all(&net, 1));
}

#[test]
fn nobody_believes_to_be_stable_what_it_does_not_hold_and_one_alone_proves_nothing() {
    //= R48 test
    let mut net = resting(4);
    let ring = net.views[0][0].id;
    net.hand(2, 0, RingPacket::Ack(Ack { ring, aru: Seq(100), stable: Seq(100) }));
    assert_eq!((net.counter(0, "stable"), net.counter(0, "assertion_failures")), (net.counter(0, "aru"), 0));
    net.hand(2, 1, RingPacket::Ack(Ack { ring, aru: Seq(100), stable: Seq(0) }));
    net.submit(1, Service::Safe, "safe");
    let is_of_others = |flying: &Flying| is_ack(flying) && flying.from != member(3);
    net.run_dropping(Duration::from_micros(300), &mut |flying| is_of_others(flying));
    assert!(net.delivered[1].is_empty());
    net.run(Duration::from_millis(12));
    assert!(have_all(&net, 1));
}

#[test]
fn a_lost_word_and_a_lost_way_back_delay_it_no_longer_than_two_rotations() {
    //= R29 test
    //= R48 test
    for n in [3, 4] {
        let (mut net, mut token, mut word) = (resting(n), false, false);
        net.submit(1, Service::Safe, vec![7; 2_000]);
        run_looking(&mut net, Duration::from_micros(13_500), &mut |flying| {
            let back = !token && flying.is_token() && flying.to == NodeId(1);
            let told = !word && is_ack(flying) && flying.to == NodeId(3);
            (token, word) = (token || back, word || told);
            back || told
        });
        assert!(have_all(&net, 1), "{n} members");
    }
}

#[test]
fn other_grants_do_not_put_off_that_the_token_goes_round() {
    //= R48 test
    for every in [300, 500, 900].map(Duration::from_micros) {
        let mut net = resting(3);
        let (before, began) = (visits(&net)[0], net.now);
        net.submit(1, Service::Safe, "safe");
        let mut next = began + every;
        while visits(&net)[0] == before {
            if net.now >= next {
                net.submit(2, Service::Agreed, "x");
                next += every;
            }
            net.skip_to(next);
            net.step(&mut |flying| is_ack(flying) && flying.to == NodeId(1));
        }
        assert!(net.now.since(began) < Duration::from_micros(1_200), "{:?}", net.now.since(began));
    }
}

/// Two ask; the packet of the first comes to one member after that of the second.
fn asked_in_the_wrong_order(n: u16, late_at: u16) -> Duration {
    let others: Vec<_> = (0..usize::from(n)).filter(|i| *i + 1 != usize::from(late_at)).collect();
    let [.., first, second] = others[..] else { unreachable!() };
    let mut net = resting(n);
    let (mut late, mut handed, mut submitted, began) = (None, false, false, net.now);
    net.submit(first, Service::Safe, "first");
    while !have_all(&net, 2) {
        assert!(net.now.since(began) < Duration::from_millis(40), "{n} members: never");
        net.step(&mut |flying| {
            let hit = late.is_none() && flying.to == NodeId(late_at) && flying.seq() == Some(1);
            late = late.take().or_else(|| hit.then(|| flying.clone()));
            hit
        });
        if !submitted && net.counter(second, "aru") == 1 {
            net.submit(second, Service::Safe, "second");
            submitted = true;
        }
        let under_way = |f: &Flying| f.seq() == Some(2) && f.to == NodeId(late_at);
        if !handed && net.sent.iter().any(|f| f.seq() == Some(2)) && !net.flying.iter().any(under_way) {
            net.hand_over(late.clone().unwrap());
            handed = true;
        }
    }
    net.now.since(began)
}

#[test]
fn what_two_ask_for_in_the_wrong_order_is_said_to_the_one_that_asked_for_more() {
    //= R48 test
    for (n, late_at) in [(4, 4), (4, 3), (8, 7)] {
        let took = asked_in_the_wrong_order(n, late_at);
        assert!(took < Duration::from_micros(900), "{n} members: {took:?}");
    }
}

#[test]
fn who_asked_for_what_a_rotation_proved_tells_nothing_later() {
    //= R48 test
    let mut net = resting(5);
    net.submit(1, Service::Safe, "first");
    net.run_dropping(Duration::from_millis(30), &mut |flying| is_ack(flying) && flying.to == NodeId(2));
    net.sent.clear();
    net.submit(3, Service::Safe, "second");
    net.run(Duration::from_millis(1));
    let told = net.sent.iter().filter(|flying| is_ack(flying) && flying.lane == Lane::Data);
    assert_eq!(told.map(|flying| flying.from.node).collect::<Vec<_>>(), [NodeId(4)]);
}

#[test]
fn a_member_that_leaves_while_its_safe_message_rests_goes_when_all_hold_it() {
    //= R48 test
    //= M15 test
    for leaver in 0..3 {
        let mut net = resting(3);
        net.submit(leaver, Service::Safe, "last words");
        let now = net.now;
        net.rings[leaver].leave(now);
        net.drain(leaver);
        net.run(Duration::from_millis(40));
        assert!(have_all(&net, 1), "{leaver}");
        assert!(net.incarnations[leaver].is_none(), "{leaver} has left");
    }
}
