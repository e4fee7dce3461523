//! Places that nobody can fill, and what is delivered beyond them.
use super::*;
use crate::Windows;

/// The sequence numbers given away so far.
fn base(net: &Net) -> u64 {
    net.counter(0, "aru")
}

#[test]
fn f11_beyond_a_hole_only_those_are_heard_that_move_along() {
    //= M36 test
    //= R19 test
    let mut net = Net::formed(4, |config| config.windows.accelerated_from = 100);
    let hole = base(&net) + 6;
    net.submit_packets(0, Service::Agreed, 8);
    net.run_dropping_until(ms(20), &mut |f| f.seq() == Some(hole), &mut |net| {
        net.rings[1..].iter().all(|ring| ring.holds(consort_types::Position((hole + 2) << 16)))
    });
    // Node 2 numbers its own above the hole; then node 1, who alone could fill it, is gone.
    net.submit(1, Service::Agreed, "above the hole");
    net.run_dropping_until(ms(20), &mut |f| f.seq() == Some(hole), &mut |net| net.counter(1, "packets_sent") > 0);
    net.crash(0);
    net.run_until_whole(ms(600));
    let mut expected: Vec<_> = (0..5).map(|k| format!("packet {k} of n1")).collect();
    expected.push("above the hole".into());
    for i in 1..4 {
        assert_eq!(net.words(i), expected, "7 and 8 are dropped by all alike");
    }
    net.end();
}

#[test]
fn f39_more_holes_than_a_token_can_ask_for_are_filled_over_several_rotations() {
    //= R14 test
    let mut net = Net::formed(3, |config| config.windows.store = 4_096);
    net.submit_packets(0, Service::Agreed, 900);
    net.submit_packets(1, Service::Agreed, 900);
    // Every second packet is lost at node 3, so that each hole is a run of its own.
    let mut drop = |flying: &Flying| {
        let first = matches!(&flying.packet, RingPacket::Data(data) if !data.retransmission);
        first && flying.to == NodeId(3) && flying.seq().is_some_and(|seq| seq % 2 == 0)
    };
    net.run_dropping(ms(150), &mut drop);
    net.end();
    net.agree_on(1_800);
    let most = tokens(&net.sent).iter().map(|token| token.requests.runs()).max();
    let max_runs = (net.rings[0].config().datagram.packet_room() - crate::packet::TOKEN_LEN) / crate::packet::RUN_LEN;
    assert_eq!(most, Some(max_runs), "the list was full");
}

/// A visit of 20 packets of which 15 leave after the token, and never do: the node crashes in between.
fn crash_between_token_and_packets(crashing: usize) -> Net {
    let mut net = Net::formed(4, |config| {
        config.windows = Windows::SPREAD;
        never_granted(config);
    });
    (0..4).for_each(|i| net.submit(i, Service::Agreed, format!("before, by n{}", i + 1)));
    net.run(ms(5));
    let me = net.incarnation(crashing);
    net.submit_packets(crashing, Service::Safe, 20);
    let successor = (crashing + 1) % 4;
    net.submit(successor, Service::Agreed, "above the holes");
    let token = |net: &Net| {
        net.flying.iter().position(|f| f.from == me && f.is_token() && net.counter(crashing, "packets_sent") >= 20)
    };
    net.run_until(ms(20), |net| token(net).is_some());
    let at = token(&net).unwrap();
    let (before, after) = (at, net.flying.iter().skip(at).filter(|f| f.from == me && f.is_data()).count());
    assert_eq!(after, 15 * 3, "fifteen packets to three others were to follow, {before} went before");
    let kept = net.flying.iter().enumerate().filter(|(k, f)| *k <= at || f.from != me);
    net.flying = kept.map(|(_, flying)| flying.clone()).collect();
    net.crash(crashing);
    net
}

#[test]
fn f40_a_representative_crashes_before_it_has_sent_what_it_numbered() {
    //= M36 test
    //= R16 test
    let mut net = crash_between_token_and_packets(0);
    net.run_until_whole(ms(600));
    for i in 1..4 {
        assert_eq!(net.words(i), net.words(1));
        let of_dead = net.words(i).iter().filter(|text| text.ends_with("of n1")).count();
        assert_eq!(of_dead, 5, "what went before the token was held by all");
        assert!(net.texts(i).contains(&"above the holes".to_owned()));
    }
    net.end();
}

#[test]
fn f41_another_crashes_so_and_its_successor_has_numbered_above_the_holes() {
    //= M36 test
    for crashing in 1..4 {
        let mut net = crash_between_token_and_packets(crashing);
        // The successor goes on: it numbers its own message above the fifteen holes, and all others get it.
        net.run(ms(1));
        net.run_until_whole(ms(600));
        for i in (0..4).filter(|i| *i != crashing) {
            assert!(net.texts(i).contains(&"above the holes".to_owned()), "{:?}", net.words(i));
            let of_dead = net.words(i).iter().filter(|text| text.starts_with("packet")).count();
            assert_eq!(of_dead, 5);
        }
        net.end();
    }
}

#[test]
fn f42_what_one_delivered_and_died_another_that_acknowledged_it_delivers_too() {
    //= M33 test
    //= M22 test
    //= M36 test
    let mut net = Net::formed(4, |config| config.windows.accelerated_from = 100);
    // Node 4 leaves a hole that nobody can fill; above it stands a safe message of node 3.
    let hole = base(&net) + 1;
    net.submit(3, Service::Agreed, "lost for ever");
    let mut lost = |f: &Flying| f.seq() == Some(hole);
    net.run_dropping_until(ms(20), &mut lost, &mut |net| net.counter(3, "packets_sent") == 1);
    net.submit(2, Service::Safe, "above the hole");
    net.run_dropping_until(ms(20), &mut lost, &mut |net| net.counter(2, "packets_sent") == 1);
    net.run_dropping(Duration::from_micros(35), &mut lost);
    net.crash(3);
    // Nodes 1, 2 and 3 recover; node 1 installs, the token to node 2 is lost.
    net.run_until(ms(700), |net| net.state(0) == "recovery");
    let mut done = false;
    let mut cut = |flying: &Flying| flying.is_token() && flying.from == member(1) && done;
    while net.state(0) != "operational" {
        net.step(&mut cut);
    }
    done = true;
    let mut cut = |flying: &Flying| flying.is_token() && flying.from == member(1) && done;
    net.step(&mut cut);
    assert_eq!(net.texts(0).last().unwrap(), "above the hole", "{:?}", net.texts(0));
    net.crash(0);
    net.crash(2);
    assert_eq!(net.state(1), "recovery");
    net.flying.clear();
    net.run_until_whole(ms(800));
    assert_eq!(net.last_members(1), [2]);
    assert_eq!(net.texts(1), ["above the hole"], "node 3 is not with us any more, but node 1 delivered it");
    let closing = net.views[1].iter().rev().nth(1).unwrap();
    assert_eq!(closing.members, [member(2)]);
    net.end();
}
