//! Nodes that are late: the others ask before they give the ring up.
use super::*;

/// Stops these for so long, 300 ms after the start, and lets them go on at once.
fn stop_for(net: &mut Net, stopped: &[usize], span: Duration) {
    stopped.iter().for_each(|i| net.stop(*i));
    net.run(span);
    stopped.iter().for_each(|i| net.go_on(*i));
    net.run(ms(700));
}

fn views(net: &Net) -> usize {
    (0..net.rings.len()).map(|i| net.regular_views(i)).max().unwrap() - 1
}

/// Each of three is stopped, in the midst of traffic or at rest.
fn each_stopped(spans: impl Iterator<Item = u64> + Clone, most: usize) {
    for (i, load) in (0..3).flat_map(|i| [(i, 0), (i, 9)]) {
        for span in spans.clone() {
            let mut net = Net::formed(3, |_| {});
            net.chatter("before", load);
            net.run(Duration::from_micros(137 * span));
            stop_for(&mut net, &[i], ms(span));
            assert!(
                views(&net) <= most,
                "n{} for {span} ms: {} views, {:?}",
                i + 1,
                views(&net),
                net.views[(i + 1) % 3]
            );
            assert!(net.is_whole(), "n{} for {span} ms: {}", i + 1, net.describe());
            net.end();
        }
    }
}

#[test]
fn f57_a_node_that_was_stopped_for_a_third_of_a_second_changes_no_view() {
    //= M57 test
    //= M54 test
    each_stopped((160..=330).step_by(17), 0);
}

#[test]
fn f57_a_node_that_was_stopped_for_longer_goes_and_comes_back() {
    //= M57 test
    //= M54 test
    each_stopped((350..2_000).step_by(97), 2);
}

#[test]
fn f57_all_nodes_stopped_together_change_no_view() {
    //= M57 test
    //= M54 test
    for load in [0, 9] {
        for span in [200, 400, 700, 1_000, 2_000] {
            let mut net = Net::formed(3, |_| {});
            net.chatter("before", load);
            net.run(Duration::from_micros(137 * span));
            stop_for(&mut net, &[0, 1, 2], ms(span));
            assert_eq!(views(&net), 0, "{load} for {span} ms: {:?}", net.views[1]);
            assert!(net.counter(0, "pauses") > 0);
            net.end();
        }
    }
}

#[test]
fn f58_a_crash_is_told_in_less_than_half_a_second_whoever_crashes() {
    //= M57 test
    //= M14 test
    for (n, crashed, load) in
        [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2), (8, 0), (8, 5)].into_iter().flat_map(|(n, i)| [(n, i, 0), (n, i, 5)])
    {
        for late in 0..7 {
            let mut net = Net::formed(n, |_| {});
            net.chatter("before", load);
            net.run(Duration::from_micros(1_000 + 4_300 * late));
            let begun = net.now;
            net.crash(crashed);
            let living = usize::from(n) - 1;
            let told = |net: &Net| net.living().all(|i| net.view(i).members.len() == living);
            net.run_until(ms(600), told);
            let took = net.now.since(begun);
            assert!(took < ms(450), "n{} of {n}: after {took:?}", crashed + 1);
            assert_eq!(views(&net), 1, "n{} of {n}: {:?}", crashed + 1, net.views[(crashed + 1) % living]);
        }
    }
}

#[test]
fn f58_the_holder_of_the_token_crashes_with_it() {
    //= M57 test
    let mut net = Net::formed(3, |config| config.idling = crate::IdleHold::CIRCULATE);
    net.chatter("before", 5);
    while net.flying.iter().all(|flying| !(flying.is_token() && flying.to == NodeId(2))) {
        net.step(&mut |_| false);
    }
    let begun = net.now;
    net.crash(1);
    net.run_until(ms(600), |net| net.living().all(|i| net.view(i).members.len() == 2));
    assert!(net.now.since(begun) < ms(400));
    net.end();
}

#[test]
fn f59_who_is_not_late_answers_now_and_then_and_who_has_gone_on_says_so() {
    //= M57 test
    use crate::packet::{Late, Trail};
    let mut net = Net::formed(3, |_| {});
    net.run(ms(100));
    let ring = net.view(0).id;
    let late = |ring| {
        RingPacket::Late(Late {
            ring,
            asks: true,
            trail: Trail { token_seq: 1, to: NodeId(2) },
            heard: BTreeSet::new(),
        })
    };
    net.sent.clear();
    (0..10).for_each(|_| net.hand(2, 1, late(ring)));
    let answers = |net: &Net| net.sent.iter().filter(|flying| matches!(flying.packet, RingPacket::Late(_))).count();
    assert_eq!(answers(&net), 1, "one for all that ask in 20 ms");
    net.run(ms(21));
    net.hand(2, 1, late(ring));
    assert_eq!(answers(&net), 2);
    net.run(ms(30));
    net.sent.clear();
    net.hand(2, 1, late(crate::RingId { number: ring.number - 4, ..ring }));
    net.run(ms(1));
    let beacons =
        net.sent.iter().filter(|flying| matches!(flying.packet, RingPacket::Beacon(_)) && flying.from == member(2));
    assert_eq!((answers(&net), beacons.count()), (0, 1), "that ring is over");
    assert_eq!(views(&net), 0);
    net.end();
}

/// Tokens do not pass from one node to the next, all else does.
fn without_tokens(net: &mut Net, from: u16, to: u16, span: Duration) {
    let lost = |flying: &Flying| flying.is_any_token() && flying.from.node.0 == from && flying.to.0 == to;
    net.run_dropping(span, &mut |flying| lost(flying));
}

#[test]
fn f60_whoever_no_token_gets_to_is_out_after_three_tries() {
    //= M58 test
    //= M52 test
    for (from, to) in [(1, 2), (2, 3), (3, 4), (4, 1)] {
        let mut net = Net::formed(4, |_| {});
        net.chatter("before", 2);
        let begun = net.now;
        let lost = |flying: &Flying| flying.is_any_token() && flying.from.node.0 == from && flying.to.0 == to;
        let parted = |net: &Net| (0..4).filter(|i| net.view(*i).members.len() == 3).count() == 3;
        net.run_dropping_until(ms(2_000), &mut |flying| lost(flying), &mut |net| parted(net));
        // The ring that was lost counts as a try: one commit token more, and all know.
        let took = net.now.since(begun);
        assert!(took < ms(600), "{from} to {to}: {took:?}");
        without_tokens(&mut net, from, to, ms(15_000));
        assert!(views(&net) <= 8, "{from} to {to}: {} views, {:?}", views(&net), net.views[0]);
        net.end();
    }
}

#[test]
fn f60_a_node_that_one_other_does_not_hear_is_there_all_the_same() {
    //= M57 test
    let mut net = Net::formed(4, |_| {});
    net.cut_one_way(&[1], &[3]);
    let mut tokens = |flying: &Flying| flying.is_token();
    net.run_dropping_until(ms(500), &mut tokens, &mut |net| net.state(2) == "gather");
    net.run_until(ms(300), Net::is_whole);
    assert_eq!(net.last_members(2), [1, 2, 3, 4]);
    net.end();
}

#[test]
fn f61_a_token_that_lay_too_long_is_not_used_but_its_copy_is() {
    //= M54 test
    let mut net = Net::formed(3, |config| config.idling = crate::IdleHold::CIRCULATE);
    net.submit(1, Service::Agreed, "keeps the token moving");
    while net.flying.iter().all(|flying| !(flying.is_token() && flying.to == NodeId(3))) {
        net.step(&mut |_| false);
    }
    (0..3).for_each(|i| net.stop(i));
    let token = net.flying.pop_front().unwrap();
    net.hand_over(token);
    net.run(ms(1_000));
    net.submit(2, Service::Agreed, "asked while stopped");
    (0..3).for_each(|i| net.go_on(i));
    net.run(ms(300));
    assert_eq!(net.counter(2, "stale_tokens"), 1);
    assert_eq!(views(&net), 0, "{:?}", net.views[0]);
    net.end();
    net.agree_on(2);
}

#[test]
fn f62_nodes_that_are_stopped_again_and_again_notice_a_crash_all_the_same() {
    //= M54 test
    //= M57 test
    // As where a container may use a third of the processors' time: in each period it is stopped for longer than is a pause.
    for (n, run, stopped) in [(2, 40, 110), (2, 90, 130), (3, 60, 120), (3, 150, 110)] {
        let mut net = Net::formed(n, |_| {});
        net.crash(usize::from(n) - 1);
        let (begun, living) = (net.now, usize::from(n) - 1);
        while net.living().any(|i| net.view(i).members.len() > living) {
            let took = net.now.since(begun);
            assert!(took < ms(5_000), "{run} of {} ms, {n} nodes: not told after {took:?}", run + stopped);
            net.run(ms(run));
            (0..living).for_each(|i| net.stop(i));
            net.run(ms(stopped));
            (0..living).for_each(|i| net.go_on(i));
        }
    }
}
