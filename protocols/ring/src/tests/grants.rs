use super::*;
use crate::packet::Token;
use consort_types::{Rng, ViewKind};
use std::collections::BTreeMap;

const LONGER: Duration = Duration::from_millis(12);

pub(super) fn resting(n: u16) -> Net {
    let mut net = Net::formed(n, |_| {});
    net.run(Duration::from_millis(105));
    net.sent.clear();
    net
}

pub(super) fn visits(net: &Net) -> Vec<u64> {
    (0..net.rings.len()).map(|i| net.counter(i, "visits")).collect()
}

pub(super) fn have_all(net: &Net, n: usize) -> bool {
    net.delivered.iter().all(|delivered| delivered.len() == n)
}

#[test]
fn a_resting_token_is_granted_and_comes_back_and_a_rotation_later_tells_what_all_hold() {
    //= R47 test
    //= R29 test
    for (sender, hops) in [(0, 0), (1, 2), (2, 2), (4, 2)] {
        let mut net = resting(5);
        net.step = Duration::from_micros(25);
        let before = visits(&net);
        net.submit(sender, Service::Agreed, "x");
        net.run(Duration::from_millis(4));
        assert!(have_all(&net, 1), "sent by {sender}");
        assert_eq!(tokens(&net.sent).len(), hops, "sent by {sender}");
        assert_eq!((visits(&net), net.total("grants")), (before.clone(), 1), "no rotation");
        let unstable = |net: &Net| (0..5).filter(|i| net.counter(*i, "store_packets") > 0).count();
        assert_eq!(unstable(&net), 5, "nobody knows yet");
        net.run(Duration::from_millis(4));
        assert_eq!(visits(&net), before.iter().map(|n| n + 1).collect::<Vec<_>>(), "one rotation");
        net.run(Duration::from_millis(4));
        assert_eq!(unstable(&net), 0, "all know");
        assert_eq!(net.total("tokens_retransmitted"), 0);
    }
}

#[test]
fn however_often_it_is_granted_the_token_goes_round_in_time() {
    //= R29 test
    //= R47 test
    let mut net = resting(3);
    let before = visits(&net);
    for k in 0..200 {
        net.submit(k % 3, Service::Agreed, "x");
        // Not in step with rotations: a message that meets one has it followed by another.
        net.run(Duration::from_micros(300 + k as u64 * 97 % 400));
    }
    assert!(have_all(&net, 200));
    let rotations = net.counter(2, "visits") - before[2];
    assert!((15..=25).contains(&rotations), "{rotations} in 100 ms");
    assert!(net.total("grants") > 180);
}

#[test]
fn a_packet_that_is_lost_while_the_token_is_granted_is_missed_with_the_next_one_or_the_next_rotation() {
    //= R47 test
    let lose_one = |net: &mut Net, to: u16, span| {
        let mut lost = 0;
        net.run_dropping(span, &mut |flying| {
            let hit = lost == 0 && flying.to == NodeId(to) && flying.is_data();
            lost += u32::from(hit);
            hit
        });
        assert_eq!(lost, 1);
    };
    for loser in 1..=3 {
        let sender = usize::from(loser % 3);
        let mut net = resting(3);
        net.submit(sender, Service::Agreed, "lost");
        lose_one(&mut net, loser, Duration::from_millis(1));
        // The representative sends the token round at once if it lacks a packet.
        assert_eq!(have_all(&net, 1), loser == 1, "lost at {loser}");
        net.run(Duration::from_millis(5));
        assert!(have_all(&net, 1), "lost at {loser}");

        net.submit(sender, Service::Agreed, "lost");
        lose_one(&mut net, loser, Duration::from_millis(1));
        net.submit(sender, Service::Agreed, "shows it");
        net.run(Duration::from_millis(1));
        assert!(have_all(&net, 3), "lost at {loser}");
        assert!(net.views.iter().all(|views| views.len() == 1));
    }
}

#[test]
fn a_token_that_is_lost_on_either_way_is_sent_again() {
    //= R25 test
    //= R47 test
    for lost_to in [1, 3] {
        let mut net = resting(3);
        net.submit(2, Service::Agreed, vec![7; 2_000]);
        let mut lost = 0;
        net.run_dropping(Duration::from_millis(10), &mut |flying| {
            let hit = lost == 0 && flying.is_token() && flying.to == NodeId(lost_to);
            lost += u32::from(hit);
            hit
        });
        assert_eq!(lost, 1);
        assert!(have_all(&net, 1) && net.total("tokens_retransmitted") > 0, "lost to {lost_to}");
        net.submit(1, Service::Safe, "y");
        net.run(Duration::from_millis(10));
        assert!(have_all(&net, 2));
        assert!(net.views.iter().all(|views| views.len() == 1));
    }
}

#[test]
fn between_two_rotations_a_member_sends_no_more_than_in_one_visit() {
    //= R47 test
    //= R8 test
    let windows = |config: &mut RingConfig| {
        config.windows = crate::Windows { global: 40, personal: 20, accelerated: 0, tuning: None, ..config.windows };
    };
    for sender in 0..3 {
        let mut net = Net::formed(3, windows);
        net.run(Duration::from_millis(105));
        let before = visits(&net);
        for k in 1..=4 {
            (0..8).for_each(|_| net.submit(sender, Service::Agreed, vec![7; 1_300]));
            net.run(Duration::from_micros(700));
            let sent = net.counter(sender, "packets_sent");
            let rotated = net.counter(sender, "visits") > before[sender];
            assert_eq!((sent, rotated), (8 * k, k > 2), "sent by {sender}");
        }
        assert_eq!(net.total("assertion_failures"), 0);
    }
}

/// Members say something now and then while a way is cut for good. How often each installed a view.
fn views_over_a_cut(n: u16, sender: usize, is_cut: impl Fn(&Flying) -> bool) -> Vec<usize> {
    let (mut net, mut sent) = (resting(n), 0);
    for _ in 0..140 {
        net.submit(sender, Service::Safe, "x");
        sent += 1;
        net.run_dropping(Duration::from_millis(100), &mut |flying| is_cut(flying));
    }
    net.run_dropping(Duration::from_secs(1), &mut |flying| is_cut(flying));
    assert!(have_all(&net, sent), "{:?}", net.delivered.iter().map(Vec::len).collect::<Vec<_>>());
    net.views.iter().map(|views| views.iter().filter(|view| view.kind == ViewKind::Regular).count()).collect()
}

#[test]
fn a_way_that_is_cut_for_good_costs_one_ring_and_two_where_it_swallows_tokens_alone() {
    //= R47 test
    for n in [4, 6] {
        for (from, to) in [(1, 3), (3, 1)] {
            let is_there = |flying: &Flying| (flying.from.node, flying.to) == (NodeId(from), NodeId(to));
            let sender = 2;
            let all = views_over_a_cut(n, sender, is_there);
            // One is tried at once, and none after that: nothing shows that what is granted would come back.
            assert!(all.iter().all(|views| *views <= 2), "all packets from {from} to {to} of {n}: {all:?}");
            // As with an address that is not the node's: multicast passes.
            let lost = |flying: &Flying| is_there(flying) && flying.lane == Lane::Token;
            let unicast = views_over_a_cut(n, sender, lost);
            assert!(unicast.iter().all(|views| *views <= 2), "unicast from {from} to {to} of {n}: {unicast:?}");
            // All else passes, so it is tried once more, and then not for a minute.
            let tokens = views_over_a_cut(n, sender, |flying| is_there(flying) && flying.is_token());
            assert!(tokens.iter().all(|views| *views <= 3), "tokens from {from} to {to} of {n}: {tokens:?}");
        }
    }
}

#[test]
fn a_way_that_was_cut_for_a_second_is_granted_over_again_as_soon_as_it_passes() {
    //= R47 test
    for unicast_alone in [false, true] {
        let is_cut = |flying: &Flying| {
            let there = (flying.from.node, flying.to) == (NodeId(1), NodeId(3));
            there && (flying.lane == Lane::Token || !unicast_alone)
        };
        let (mut net, mut sent) = (resting(4), 0);
        let mut say = |net: &mut Net, cut: bool| {
            net.submit(2, Service::Agreed, "x");
            sent += 1;
            net.run_dropping(Duration::from_millis(100), &mut |flying| cut && is_cut(flying));
            (net.total("grants"), net.views[0].len())
        };
        let cut: Vec<_> = (0..20).map(|_| say(&mut net, true)).collect();
        assert_eq!(cut[19], (0, 3), "one ring ended, and nothing was granted after that: {cut:?}");
        let healed: Vec<_> = (0..5).map(|_| say(&mut net, false)).collect();
        assert!(healed[4].0 >= 4, "{healed:?}");
        net.run(LONGER);
        assert!(have_all(&net, sent));
    }
}

#[test]
fn who_is_not_the_representative_asks_nobody_whether_it_is_reached() {
    //= R47 test
    let mut net = resting(3);
    let ring = net.views[0][0].id;
    let said = |asks, ring| RingPacket::Reach(crate::packet::Reach { ring, asks });
    let other = consort_types::ViewId { number: ring.number + 4, ..ring };
    for (from, to, packet, answered) in [
        (1, 2, said(true, ring), 1),
        (3, 2, said(true, ring), 0),
        (1, 2, said(true, other), 0),
        (2, 1, said(false, ring), 0),
        (2, 3, said(false, ring), 0),
    ] {
        net.sent.clear();
        net.hand_over(Flying { from: member(from), to: NodeId(to), lane: Lane::Token, packet });
        net.run(Duration::from_millis(1));
        let answers = net.sent.iter().filter(|flying| matches!(flying.packet, RingPacket::Reach(_))).count();
        assert_eq!(answers, answered, "from {from} to {to}");
    }
}

#[test]
fn a_token_numbered_almost_to_the_end_of_numbers_makes_nobody_fall_over() {
    //= R47 test
    //= R5 test
    for (to_the_end, accepted) in [(1, 0), (8, 0), (9, 1)] {
        let mut net = resting(3);
        let mut last = None;
        net.run_dropping(Duration::from_millis(40), &mut |flying| match &flying.packet {
            RingPacket::Token(token) if flying.to == NodeId(1) && last.is_none() => {
                last = Some(token.clone());
                true
            }
            _ => false,
        });
        let parked = net.counter(0, "holds");
        let lie = Token { token_seq: u64::MAX - to_the_end, ..last.unwrap() };
        net.hand_over(Flying { from: member(3), to: NodeId(1), lane: Lane::Token, packet: RingPacket::Token(lie) });
        assert_eq!(net.counter(0, "holds") - parked, accepted, "{to_the_end}");
        net.submit(1, Service::Agreed, "x");
        net.run(Duration::from_millis(500));
        assert!(net.delivered.iter().all(|delivered| !delivered.is_empty()), "{to_the_end}");
    }
}

#[test]
fn nobody_else_can_give_a_token_back() {
    //= R5 test
    let mut net = resting(4);
    let mut token = Token::default();
    net.submit(2, Service::Agreed, vec![7; 2_000]);
    net.run_dropping(Duration::from_millis(1), &mut |flying| {
        if let RingPacket::Token(back) = &flying.packet
            && flying.to == NodeId(1)
        {
            token = back.clone();
        }
        false
    });
    let refused = net.counter(0, "wrong_sender");
    let again = Token { token_seq: token.token_seq + 10, ..token };
    assert!(again.granted);
    for (from, packet) in [(3, again.clone()), (2, again.clone()), (2, Token { granted: false, ..again })] {
        net.hand_over(Flying {
            from: member(from),
            to: NodeId(1),
            lane: Lane::Token,
            packet: RingPacket::Token(packet),
        });
    }
    assert_eq!(net.counter(0, "wrong_sender"), refused + 3, "it was not granted to them");
    net.submit(3, Service::Agreed, "y");
    net.run(LONGER);
    assert!(have_all(&net, 2));
}

#[test]
fn a_token_that_is_said_to_be_granted_is_taken_from_nobody_else() {
    //= R5 test
    let mut net = resting(4);
    net.submit(0, Service::Agreed, "x");
    let is_passed_on = |f: &Flying| f.from == member(2) && f.to == NodeId(3) && f.is_token();
    net.run_until(Duration::from_millis(10), |net| net.flying.iter().any(is_passed_on));
    let passed = net.flying.iter_mut().find(|flying| is_passed_on(flying)).unwrap();
    let RingPacket::Token(token) = &mut passed.packet else { unreachable!() };
    token.granted = true;
    net.run(Duration::from_millis(400));
    assert_eq!((net.counter(2, "wrong_sender"), net.total("token_losses")), (1, 0), "it was sent again");
    assert!(have_all(&net, 1) && net.views.iter().all(|views| views.len() == 1));
}

/// Asks for the token just before its rest ends, as a member that has nothing to send; the grant is over just after that.
fn ask_at_the_last_moment(net: &mut Net, rest: Duration) {
    net.step = Duration::from_micros(10);
    let at = net.now + (rest - Duration::from_micros(60));
    while net.now < at {
        net.skip_to(at);
        net.step(&mut |_| false);
    }
    let packet = RingPacket::TokenRequest(crate::packet::TokenRequest { ring: net.views[0][0].id });
    net.hand_over(Flying { from: member(3), to: NodeId(1), lane: Lane::Token, packet });
    net.step(&mut |_| false);
    net.step = Duration::from_micros(100);
}

#[test]
fn requests_for_nothing_do_not_put_the_rotation_off() {
    //= R29 test
    //= R47 test
    let mut net = resting(4);
    let holds = net.counter(0, "holds");
    net.run_until(Duration::from_millis(60), |net| net.counter(0, "holds") > holds);
    let before = net.counter(1, "visits");
    ask_at_the_last_moment(&mut net, Duration::from_millis(25));
    net.run_until(Duration::from_millis(2), |net| net.counter(1, "visits") > before);
}

/// What no schedule may bring about: what one believes to be stable another lacks, or there are two tokens.
fn look_at(net: &Net, seen: &mut BTreeMap<u64, (NodeId, Token)>) {
    let aru = (0..net.rings.len()).map(|i| net.counter(i, "aru")).min();
    let stable = (0..net.rings.len()).map(|i| net.counter(i, "stable")).max();
    assert!(stable <= aru, "R20: {stable:?} is stable, {aru:?} is held");
    for flying in &net.flying {
        if let RingPacket::Token(token) = &flying.packet {
            // Copies go to all; its receiver stands on the first sending.
            if flying.lane == Lane::Token {
                let known = seen.entry(token.token_seq).or_insert_with(|| (flying.to, token.clone()));
                assert_eq!(*known, (flying.to, token.clone()), "two tokens");
            } else if let Some((_, known)) = seen.get(&token.token_seq) {
                assert_eq!(known, token, "two tokens");
            }
        }
    }
}

#[test]
fn no_loss_repetition_or_pause_makes_two_tokens_or_calls_stable_what_somebody_lacks() {
    //= R20 test
    //= R47 test
    //= R48 test
    for seed in 1..=60 {
        let (mut net, mut rng, mut seen) = (Net::formed(4, |_| {}), Rng::new(seed), BTreeMap::new());
        let mut pick = |of: &[f64]| of[rng.below(of.len() as u64) as usize];
        let (loss, twice, late) = (pick(&[0.0, 0.02, 0.2]), pick(&[0.0, 0.05, 0.3]), pick(&[0.0, 0.1, 0.5]));
        let safe = pick(&[0.05, 0.5, 1.0]);
        let mut sent = 0;
        for k in 0..300 {
            net.step = Duration::from_micros([5, 10, 25, 60, 200][rng.below(5) as usize]);
            let service = if rng.chance(safe) { Service::Safe } else { Service::Agreed };
            net.submit(rng.below(4) as usize, service, vec![k as u8; rng.below(2_000) as usize + 1]);
            sent += 1;
            let end = net.now + Duration::from_micros(rng.below(2_000));
            while net.now < end {
                net.skip_to(end);
                if rng.chance(late) && net.flying.len() > 1 {
                    let overtaken = net.flying.pop_front().unwrap();
                    net.flying.insert(rng.below(net.flying.len() as u64) as usize, overtaken);
                }
                if let Some(first) = net.flying.front().cloned().filter(|_| rng.chance(twice)) {
                    net.flying.push_back(first);
                }
                net.step(&mut |_| rng.chance(loss));
                look_at(&net, &mut seen);
            }
        }
        net.run(Duration::from_secs(1));
        net.agree_on(sent);
        assert_eq!(net.total("assertion_failures"), 0, "seed {seed}");
        assert!(net.views.iter().all(|views| views.len() == 1), "seed {seed}");
    }
}

#[test]
fn messages_of_all_at_low_rates_survive_loss_while_the_token_is_granted() {
    //= R47 test
    for loss in [0.0, 0.01, 0.2] {
        let (mut net, mut rng, mut sent) = (Net::formed(4, |_| {}), Rng::new(47), 0);
        for k in 0..1_500 {
            let service = if rng.below(20) == 0 { Service::Safe } else { Service::Agreed };
            net.submit(rng.below(4) as usize, service, vec![k as u8; rng.below(3_000) as usize + 1]);
            sent += 1;
            let pause = Duration::from_micros(rng.below(2_000));
            net.run_dropping(pause, &mut |_| rng.chance(loss));
        }
        net.run(Duration::from_millis(500));
        net.agree_on(sent);
        assert_eq!(net.total("assertion_failures"), 0);
        assert!(
            net.total("grants") > if loss < 0.1 { 100 } else { 0 },
            "{} grants with a loss of {loss}",
            net.total("grants")
        );
    }
}
