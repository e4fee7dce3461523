//! Packets that are lost, and what all hold.
use super::*;
use crate::{StreamContent, StreamPacket};

/// Loses the first `count` packets that fit.
fn lose(mut count: u32, fits: impl Fn(u16, u16, &PlatoPacket) -> bool + 'static) -> Fate {
    Box::new(move |from, to, packet| {
        if count > 0 && fits(from, to, packet) {
            count -= 1;
            return None;
        }
        Some(Duration::ZERO)
    })
}

const fn is_data(packet: &PlatoPacket) -> bool {
    matches!(packet, PlatoPacket::Data(StreamPacket { content: StreamContent::Messages(_), .. }))
}

#[test]
fn a_gap_is_asked_for_and_closed_and_nothing_overtakes_it() {
    //= P01 test
    //= P02 test
    //= P03 test
    let mut cluster = Cluster::new(3, usual);
    cluster.fate = lose(1, |from, to, packet| from == 2 && to == 3 && is_data(packet));
    for text in ["a", "b", "c"] {
        cluster.say(2, text);
        cluster.pass(us(300));
    }
    cluster.pass(ms(20));
    assert!((1..=3).all(|me| cluster.got(me) == ["a", "b", "c"]));
    assert_eq!((cluster.counter(3, "requests_made"), cluster.counter(2, "retransmissions_sent")), (1, 1));
    assert_eq!(cluster.counter(3, "needless_retransmissions"), 0);
}

#[test]
fn a_lost_last_packet_shows_by_status_and_a_lost_list_of_places_too() {
    //= P04 test
    for orders in [false, true] {
        let mut cluster = Cluster::new(3, usual);
        cluster.fate = lose(1, move |_, to, packet| {
            let is_orders =
                matches!(packet, PlatoPacket::Data(StreamPacket { content: StreamContent::Orders { .. }, .. }));
            to == 3 && if orders { is_orders } else { is_data(packet) }
        });
        cluster.say(2, "a");
        cluster.pass(ms(60));
        assert_eq!(cluster.got(3), ["a"], "{orders}");
    }
}

#[test]
fn who_cannot_ask_the_sender_asks_another_that_holds_it() {
    //= P02 test
    let mut cluster = Cluster::new(3, usual);
    cluster.fate = Box::new(|from, to, packet| {
        let lost = (from, to) == (2, 3) && matches!(packet, PlatoPacket::Data(_));
        (!lost).then_some(Duration::ZERO)
    });
    cluster.say(2, "a");
    cluster.pass(ms(100));
    assert_eq!(cluster.got(3), ["a"]);
    assert!(cluster.counter(1, "retransmissions_sent") >= 1);
}

#[test]
fn what_all_hold_is_let_go_and_idle_nodes_say_nothing_about_it() {
    //= P05 test
    let mut cluster = Cluster::new(3, usual);
    (0..50).for_each(|n| cluster.say(n % 3 + 1, "x"));
    cluster.pass(ms(2));
    assert!((1..=3).any(|me| cluster.counter(me, "store_packets") > 0));
    cluster.pass(ms(200));
    for me in 1..=3 {
        for gauge in ["store_packets", "store_bytes", "queued_bytes", "packets_undelivered", "places_awaited"] {
            assert_eq!(cluster.counter(me, gauge), 0, "{gauge} of {me}");
        }
    }
    let told = |cluster: &Cluster| (1..=3).map(|me| cluster.counter(me, "statuses_sent")).sum::<u64>();
    let before = told(&cluster);
    cluster.pass(ms(1_000));
    // Only heartbeats: three nodes, one each 25 ms.
    assert!(told(&cluster) - before < 3 * 45, "{}", told(&cluster) - before);
}

#[test]
fn no_more_is_under_way_than_the_window_allows() {
    //= P06 test
    let mut cluster = Cluster::new(3, |config| {
        usual(config);
        config.window = crate::Window { packets: 4, bytes: 1 << 20 };
    });
    let text = "y".repeat(1_000);
    (0..40).for_each(|_| cluster.say(2, &text));
    assert_eq!(cluster.counter(2, "packets_sent"), 4);
    cluster.pass(ms(1_000));
    assert_eq!(cluster.got(3).len(), 40);
    let mut bytes = Cluster::new(3, |config| {
        usual(config);
        config.window = crate::Window { packets: 400, bytes: 3_000 };
    });
    (0..40).for_each(|_| bytes.say(2, &text));
    assert!(bytes.counter(2, "packets_sent") <= 3, "{}", bytes.counter(2, "packets_sent"));
}

#[test]
fn places_that_come_due_at_once_are_told_in_packets_that_fit() {
    //= P11 test
    let mut cluster = Cluster::new(2, usual);
    cluster.fate = lose(1, |_, to, packet| to == 1 && is_data(packet));
    (0..200).for_each(|_| cluster.say(2, "x"));
    cluster.pass(ms(100));
    assert_eq!((cluster.got(1).len(), cluster.got(2).len()), (200, 200));
    assert_eq!(cluster.counter(1, "orders_sent"), 100, "two at a time");
}

#[test]
fn a_request_for_many_gaps_fits_the_smallest_datagram() {
    //= P02 test
    let mut cluster = Cluster::new(2, |config| {
        usual(config);
        config.datagram = consort_wire::DatagramSize::new(576).unwrap();
    });
    cluster.fate = Box::new(|_, _, packet| {
        let lost = matches!(packet, PlatoPacket::Data(data) if data.key.seq % 2 == 1 && !data.repair);
        (!lost).then_some(Duration::ZERO)
    });
    (0..200).for_each(|_| cluster.say(2, "x"));
    cluster.pass(ms(500));
    assert_eq!((cluster.got(1).len(), cluster.got(2).len()), (200, 200));
}

#[test]
fn who_learns_what_others_hold_but_no_places_sends_no_more_than_the_window_allows() {
    //= P06 test
    let mut cluster = Cluster::new(3, |config| {
        usual(config);
        config.window = crate::Window { packets: 4, bytes: 1 << 20 };
    });
    cluster.fate = Box::new(|from, to, packet| {
        let lost = (from, to) == (1, 2) && matches!(packet, PlatoPacket::Data(_)) || to == 2 && is_places(packet);
        (!lost).then_some(Duration::ZERO)
    });
    for _ in 0..10 {
        cluster.say(2, &"y".repeat(1_000));
        cluster.pass(ms(30));
    }
    assert_eq!((cluster.counter(2, "packets_sent"), cluster.got(2).len()), (4, 0));
}

const fn is_places(packet: &PlatoPacket) -> bool {
    matches!(packet, PlatoPacket::Data(StreamPacket { content: StreamContent::Orders { .. }, .. }))
}

#[test]
fn whose_own_packets_do_not_get_out_goes_alone() {
    //= P07 test
    let mut cluster = Cluster::new(3, usual);
    cluster.fate = Box::new(|from, _, packet| {
        let lost = from == 3 && matches!(packet, PlatoPacket::Data(_));
        (!lost).then_some(Duration::ZERO)
    });
    cluster.say(3, "a");
    cluster.pass(ms(1_000));
    for me in 1..=2 {
        assert_eq!(cluster.told(me), ["closes", "view of 2"], "{me}");
    }
    assert_eq!(cluster.views()[0].members, cluster.views()[1].members);
}

#[test]
fn nobody_is_called_deaf_by_what_was_known_before_a_pause() {
    //= M54 test
    let mut cluster = Cluster::new(3, usual);
    cluster.fate = lose(1, |from, to, packet| (from, to) == (1, 3) && is_data(packet));
    cluster.say(1, "a");
    cluster.pass(us(500));
    cluster.now += ms(5_000);
    cluster.pass(ms(1_000));
    assert_eq!(cluster.told(1), ["a"], "and no view");
    assert_eq!(cluster.got(3), ["a"]);
}

#[test]
fn who_takes_nothing_in_is_left_behind() {
    //= P07 test
    let mut cluster = Cluster::new(3, usual);
    cluster.fate = Box::new(|_, to, packet| {
        let deaf = to == 3 && !matches!(packet, PlatoPacket::Membership(_));
        (!deaf).then_some(Duration::ZERO)
    });
    cluster.say(1, "a");
    cluster.pass(ms(3_000));
    let views = cluster.views();
    assert_eq!(views[0].members, views[1].members);
    assert!(!views[0].members.contains(&MemberId::new(3, 10)), "{views:?}");
    assert_eq!(cluster.got(1), ["a"]);
}
