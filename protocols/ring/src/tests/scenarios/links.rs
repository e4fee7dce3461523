//! Ways that are cut one way, halfway, or for some packets only; and rings that find each other again.
use super::*;

/// The regular views all nodes installed in a span of time.
fn views_in(net: &mut Net, span: Duration, drop: &mut dyn FnMut(&Flying) -> bool) -> u64 {
    let before = net.total("views");
    net.run_dropping(span, drop);
    net.total("views") - before
}

/// Submits something everywhere each few milliseconds, for so long.
fn under_load(net: &mut Net, span: Duration, word: &str) {
    let end = net.now + span;
    let mut round = 0;
    while net.now < end {
        round += 1;
        net.chatter(&format!("{word} {round}:"), 2);
        net.run(ms(3));
    }
}

#[test]
fn f13_a_way_that_loses_all_large_packets_leads_to_one_exclusion_and_to_no_flapping() {
    //= M50 test
    //= M52 test
    //= M53 test
    use consort_wire::Packet as _;
    let mut net = Net::formed(3, |_| {});
    let mut black_hole = |flying: &Flying| {
        let mut head = bytes::BytesMut::new();
        let body = flying.packet.encode(&mut head);
        let third = flying.to == NodeId(3) || flying.from.node == NodeId(3);
        third && head.len() + body.len() > 1_000
    };
    net.submit_packets(0, Service::Agreed, 3);
    net.run_dropping(ms(600), &mut black_hole);
    assert_eq!(net.last_members(0), [1, 2]);
    // Each time it is let in again, something large shows that it must not be; each time it stays out for longer.
    let mut per_span = Vec::new();
    for k in 0..6 {
        let before = net.counter(0, "views");
        for j in 0..20 {
            net.submit(1, Service::Agreed, format!("{k} {j} {:.>1300}", ""));
            net.run_dropping(ms(500), &mut black_hole);
        }
        per_span.push(net.counter(0, "views") - before);
    }
    assert!(per_span.iter().sum::<u64>() <= 14 && per_span[5] <= 2, "{per_span:?}");
    assert_eq!(net.texts(0), net.texts(1));
    net.check();
}

#[test]
fn f21_busy_rings_that_were_parted_find_each_other_under_load() {
    //= M50 test
    //= M51 test
    let mut net = Net::formed(4, |_| {});
    under_load(&mut net, ms(50), "whole");
    net.part(&[1, 4]);
    under_load(&mut net, ms(1_200), "apart");
    assert_eq!((net.last_members(0), net.last_members(1)), (vec![1, 4], vec![2, 3]));
    net.heal();
    under_load(&mut net, ms(1_500), "healed");
    assert!(net.is_whole(), "merged although neither was ever idle{}", net.describe());
    net.end();
}

#[test]
fn f22_two_that_do_not_hear_each_other_but_both_a_third_settle() {
    //= M51 test
    //= M17 test
    let mut net = Net::formed(3, |_| {});
    net.cut(&[1], &[2]);
    let first = views_in(&mut net, ms(2_000), &mut |_| false);
    assert!(first <= 12, "{first} views");
    let later = views_in(&mut net, ms(20_000), &mut |_| false);
    assert!(later <= 6, "{later} views in twenty seconds");
    assert_eq!(views_in(&mut net, ms(5_000), &mut |_| false), 0);
    assert!((0..3).all(|i| net.state(i) == "operational"), "{}", net.describe());
    net.check();
    net.end();
}

#[test]
fn f22_a_cut_that_the_token_does_not_cross_only_costs_retransmissions() {
    //= M17 test
    //= R7 test
    let mut net = Net::formed(5, |_| {});
    net.cut(&[2], &[4]);
    for k in 0..50 {
        net.chatter(&format!("{k}:"), 1);
        net.run(ms(100));
    }
    assert_eq!(net.total("views"), 5, "others hand on what the two do not hear of each other");
    assert_eq!((0..5).map(|i| net.delivered[i].len()).collect::<Vec<_>>(), [250; 5]);
    assert!(net.total("retransmissions_sent") >= 100);
    net.end();
}

/// A node that sends but does not receive some kind of packets, for a long time.
fn deaf_to(kind: fn(&Flying) -> bool, deaf: u16) {
    let mut net = Net::formed(3, |_| {});
    let mut drop = |flying: &Flying| flying.to == NodeId(deaf) && kind(flying);
    net.chatter("some", 3);
    net.run_dropping(ms(1_200), &mut drop);
    let others: Vec<_> = (1..=3).filter(|node| *node != deaf).collect();
    let (i, j) = (usize::from(others[0]) - 1, usize::from(others[1]) - 1);
    assert_eq!((net.last_members(i), net.last_members(j)), (others.clone(), others.clone()), "{}", net.describe());
    // Let in again at ever longer intervals at most, the others work on in between.
    let mut per_span = Vec::new();
    for k in 0..6 {
        let before = net.counter(i, "views");
        for _ in 0..20 {
            net.submit(i, Service::Safe, format!("still {k} {}", net.now));
            net.run_dropping(ms(500), &mut drop);
        }
        per_span.push(net.counter(i, "views") - before);
    }
    assert!(per_span[3..].iter().all(|n| *n <= 4), "n{deaf}: {per_span:?}");
    let expected = 9 / 3 + 120;
    let own = |node: usize| net.texts(node).iter().filter(|text| text.starts_with("still")).count();
    assert!(own(i) + 4 >= expected && own(j) + 4 >= expected, "{} {}", own(i), own(j));
    net.end();
}

#[test]
fn f23_a_node_that_hears_nothing_is_left_out() {
    //= M17 test
    //= M19 test
    (1..=3).for_each(|deaf| deaf_to(|_| true, deaf));
}

#[test]
fn f23_a_node_that_gets_no_data_is_left_out() {
    //= M53 test
    //= M52 test
    (1..=3).for_each(|deaf| deaf_to(Flying::is_data, deaf));
}

#[test]
fn f23_a_node_that_gets_no_tokens_is_left_out() {
    //= M25 test
    //= M52 test
    (1..=3).for_each(|deaf| deaf_to(Flying::is_any_token, deaf));
}

#[test]
fn f45_whoever_dies_during_a_merge_leaves_no_half_merged_view() {
    //= M51 test
    //= M40 test
    // At each of the steps of a merge, each of the nodes once.
    for (dying, step) in (0..4).flat_map(|i| (0..40).map(move |step| (i, step * 3))) {
        let mut net = Net::formed(4, |_| {});
        net.part(&[1, 3]);
        net.run_until(ms(900), |net| net.last_members(0) == [1, 3] && net.last_members(1) == [2, 4]);
        net.chatter("apart", 2);
        net.run(ms(20));
        net.heal();
        net.run_until(ms(2_500), |net| (0..4).any(|i| net.state(i) == "gather"));
        for _ in 0..step {
            net.step(&mut |_| false);
        }
        net.crash(dying);
        net.run_until_whole(ms(2_000));
        net.end();
    }
}

#[test]
fn f23_data_of_another_ring_that_hears_nobody_disturbs_no_ring() {
    //= M17 test
    let mut net = Net::formed(3, |_| {});
    net.cut_one_way(&[1, 2], &[3]);
    net.run_until(ms(2_000), |net| {
        net.last_members(0) == [1, 2] && net.last_members(2) == [3] && (0..3).all(|i| net.state(i) == "operational")
    });
    let gathers = net.counter(0, "gathers");
    for k in 0..40 {
        net.submit(2, Service::Agreed, format!("{k} to whom it may concern"));
        net.run(ms(5));
    }
    assert!(net.counter(0, "foreign_ring") >= 20, "it hears them well");
    assert_eq!((net.counter(0, "gathers"), net.last_members(0)), (gathers, vec![1, 2]));
    net.end();
}
