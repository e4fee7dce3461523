//! What is offered, confirmed and delivered while nothing goes wrong.
use super::*;
use crate::{StreamContent, StreamPacket};

#[test]
fn what_comes_alone_is_offered_long_before_its_place_is_known() {
    //= P10 test
    //= P11 test
    //= P12 test
    //= P28 test
    let mut cluster = Cluster::new(3, usual);
    let start = cluster.now;
    cluster.say(2, "a");
    cluster.pass(ms(2));
    assert_eq!(cluster.told(3), ["+a"]);
    assert_eq!(cluster.when(3, "+a"), start + HOP);
    assert_eq!(cluster.told(1), ["a"], "the sequencer knows the place at once");
    cluster.pass(ms(20));
    assert_eq!(cluster.told(3), ["+a", "=a"]);
    assert_eq!(cluster.when(3, "=a"), start + HOP + ms(5) + HOP, "the list is flushed");
    cluster.say(2, "b");
    cluster.pass(us(300));
    cluster.say(3, "c");
    cluster.pass(ms(1));
    assert_eq!(cluster.told(3)[2..], ["+b", "+c", "=b", "=c"], "two places are told at once");
    assert!((1..=3).all(|me| cluster.got(me) == ["a", "b", "c"]));
}

#[test]
fn by_default_a_place_is_told_at_once_after_a_pause_and_a_burst_is_bundled() {
    //= P15 test
    let mut cluster = Cluster::new(3, |config| config.prediction = Prediction::Off);
    cluster.pass(ms(20));
    let (start, orders) = (cluster.now, cluster.counter(1, "orders_sent"));
    cluster.say(2, "a");
    cluster.pass(us(100));
    ["b", "c", "d"].into_iter().for_each(|text| cluster.say(2, text));
    cluster.pass(ms(1));
    assert_eq!(cluster.told(3), ["a", "b", "c", "d"]);
    assert_eq!(cluster.when(3, "a"), start + HOP + HOP);
    assert_eq!(cluster.counter(1, "orders_sent") - orders, 2);
}

#[test]
fn without_prediction_all_wait_for_their_places() {
    let mut cluster = Cluster::new(3, |config| {
        usual(config);
        config.prediction = Prediction::Off;
    });
    ["a", "b", "c"].into_iter().for_each(|text| {
        cluster.say(2, text);
        cluster.pass(ms(1));
    });
    cluster.pass(ms(20));
    assert_eq!(cluster.told(3), ["a", "b", "c"]);
}

/// Node 1's packets to node 3 are slow, so that node 3 hears node 2 first.
fn swapped() -> Cluster {
    let mut cluster = Cluster::new(3, usual);
    cluster.fate = Box::new(|from, to, packet| {
        let slow = from == 1
            && to == 3
            && matches!(packet, PlatoPacket::Data(StreamPacket { content: StreamContent::Messages(_), .. }));
        Some(if slow { us(150) } else { Duration::ZERO })
    });
    cluster
}

#[test]
fn packets_that_come_too_close_are_withheld_and_delivered_in_the_order_of_the_sequencer() {
    let mut cluster = swapped();
    cluster.say(1, "a");
    cluster.pass(us(100));
    cluster.say(2, "b");
    cluster.pass(ms(10));
    assert_eq!(cluster.told(1), ["a", "b"]);
    assert_eq!(cluster.told(3), ["+b", "-b", "a", "b"], "50 us apart: one of the two is taken back in time");
    assert_eq!((cluster.counter(3, "late_revokes"), cluster.counter(3, "offers_revoked")), (0, 1));
}

#[test]
fn a_guess_that_was_wrong_is_taken_back_late_and_counted() {
    //= P30 test
    let mut cluster = Cluster::new(3, usual);
    // Node 3 hears node 2 at once and node 1 so late that it believes both to be in their order.
    cluster.fate = Box::new(|from, to, packet| {
        let slow = from == 1
            && to == 3
            && matches!(packet, PlatoPacket::Data(StreamPacket { content: StreamContent::Messages(_), .. }));
        Some(if slow { us(700) } else { Duration::ZERO })
    });
    cluster.say(1, "a");
    cluster.pass(us(100));
    cluster.say(2, "b");
    cluster.pass(ms(10));
    assert_eq!(cluster.got(1), ["a", "b"]);
    assert_eq!(cluster.got(3), ["a", "b"]);
    assert_eq!(cluster.told(3), ["+b", "+a", "-b", "=a", "b"]);
    assert_eq!(cluster.counter(3, "late_revokes"), 1);
}

#[test]
fn a_safe_message_waits_until_all_hold_it_and_what_stands_before_it() {
    //= P13 test
    let mut cluster = Cluster::new(3, usual);
    let start = cluster.now;
    cluster.fate = Box::new(move |_, to, packet| {
        let late = to == 2 && matches!(packet, PlatoPacket::Data(data) if data.key.origin == NodeId(3));
        Some(if late { ms(30) } else { Duration::ZERO })
    });
    cluster.say_as(3, Service::Safe, "s");
    cluster.say(3, "after");
    cluster.pass(ms(25));
    assert!(cluster.got(1).is_empty() && cluster.got(3).is_empty(), "node 2 does not hold it");
    cluster.pass(ms(40));
    assert!((1..=3).all(|me| cluster.got(me) == ["s", "after"]));
    assert!(cluster.when(1, "=s") > start + ms(30));
}

#[test]
fn a_message_of_many_packets_is_offered_and_delivered_whole() {
    let mut cluster = Cluster::new(2, usual);
    let long = "x".repeat(50_000);
    cluster.say(1, &long);
    cluster.say(2, "short");
    cluster.pass(ms(100));
    let got = cluster.got(2);
    assert_eq!(got, cluster.got(1));
    assert!(got.contains(&long) && got.contains(&"short".to_owned()));
}

#[test]
fn own_messages_come_back_with_the_names_they_were_given() {
    let mut cluster = Cluster::new(3, usual);
    (0..5).for_each(|n| cluster.say(2, &n.to_string()));
    cluster.pass(ms(50));
    let ids: Vec<_> = cluster.nodes[1].got.iter().map(|delivery| delivery.id.unwrap().0).collect();
    assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]) && ids.len() == 5, "{ids:?}");
    assert!(cluster.nodes[2].got.iter().all(|delivery| delivery.id.is_none()));
}
