//! The end of a view: what all that go on together deliver of it.
use super::*;
use crate::{StreamContent, StreamPacket};
use consort_member::{Policy, vs};

const fn is_orders(packet: &PlatoPacket) -> bool {
    matches!(packet, PlatoPacket::Data(StreamPacket { content: StreamContent::Orders { .. }, repair: false, .. }))
}

/// The sequencer dies after what it said in `say`; nothing of its places came through unless `orders_to` says so.
fn without_sequencer(orders_to: &'static [u16], say: impl FnOnce(&mut Cluster)) -> Cluster {
    let mut cluster = Cluster::new(4, usual);
    cluster.fate =
        Box::new(move |_, to, packet| (!is_orders(packet) || orders_to.contains(&to)).then_some(Duration::ZERO));
    say(&mut cluster);
    cluster.crash(1);
    cluster.pass(ms(3_000));
    cluster
}

#[test]
fn without_places_what_was_sent_is_delivered_by_sender_and_number_before_the_next_view() {
    //= P42 test
    //= P43 test
    //= P44 test
    //= P45 test
    let cluster = without_sequencer(&[], |cluster| {
        for (me, text) in [(4, "d"), (3, "c"), (2, "b"), (4, "dd")] {
            cluster.say(me, text);
            cluster.pass(us(400));
        }
    });
    for me in 2..=4 {
        let told = cluster.told(me);
        assert_eq!(cluster.got(me), ["b", "c", "d", "dd"]);
        let closing = |delivery: &Delivery| delivery.position.0 >> 63 == 1;
        assert!(cluster.nodes[usize::from(me) - 1].got.iter().all(closing), "these positions are this part's own");
        let closes = told.iter().position(|told| told == "closes").unwrap();
        let view = told.iter().position(|told| told == "view of 3").unwrap();
        assert!(
            told[closes..view].contains(&"=d".to_owned()) || told[closes..view].contains(&"d".to_owned()),
            "{told:?}"
        );
        let offered = told.iter().filter(|told| told.starts_with('+')).count();
        let closed = told[..view].iter().filter(|told| told.starts_with(['-', '='])).count();
        assert_eq!(offered, closed, "{told:?}");
    }
    assert_eq!(cluster.got(1), ["d", "c", "b", "dd"], "the dead one went by its own places");
}

#[test]
fn places_that_one_survivor_knows_hold_for_all_and_go_first() {
    //= P41 test
    //= P42 test
    let cluster = without_sequencer(&[3], |cluster| {
        for (me, text) in [(4, "d"), (3, "c"), (2, "b")] {
            cluster.say(me, text);
            cluster.pass(us(400));
        }
    });
    for me in 2..=4 {
        let told = cluster.told(me);
        assert_eq!(cluster.got(me), ["d", "c", "b"], "two places were told, the third was not");
        let closes = told.iter().position(|told| told == "closes").unwrap();
        let delivered = |text: &str| told.iter().position(|told| told.trim_start_matches('=') == text).unwrap();
        assert!(delivered("d") < closes && delivered("c") < closes && closes < delivered("b"), "{told:?}");
    }
}

#[test]
fn a_sequencer_that_is_cut_off_tells_what_it_has_given_before_its_view_ends() {
    //= P40 test
    let mut cluster = untold();
    cluster.crash(3);
    cluster.pass(ms(3_000));
    assert_eq!((cluster.got(1), cluster.got(2)), (vec!["c".into(), "b".into()], vec!["c".into(), "b".into()]));
}

#[test]
fn what_may_stand_behind_something_unseen_is_left_out() {
    //= P42 test
    let mut cluster = Cluster::new(4, usual);
    // Node 4's first message and all places reach nodes 1 and 3 only; then these two are cut off from 2 and 4.
    cluster.fate = Box::new(|from, to, packet| {
        let hidden = to == 2 && (from == 4 || is_orders(packet));
        (!hidden).then_some(Duration::ZERO)
    });
    cluster.say(4, "cause");
    cluster.say(4, "more");
    cluster.pass(ms(2));
    assert_eq!(cluster.got(3), ["cause", "more"]);
    cluster.say(3, "effect");
    cluster.pass(us(500));
    [1, 3, 4].into_iter().for_each(|me| cluster.crash(me));
    cluster.pass(ms(3_000));
    assert!(cluster.got(2).is_empty(), "{:?}", cluster.got(2));
    assert_eq!(cluster.views()[0].members, [MemberId::new(2, 10)]);
}

#[test]
fn safe_messages_that_not_all_held_are_delivered_behind_the_transitional_view() {
    //= P43 test
    let mut cluster = Cluster::new(3, usual);
    cluster.fate = Box::new(|_, to, packet| {
        let lost = to == 3 && matches!(packet, PlatoPacket::Data(_));
        (!lost).then_some(Duration::ZERO)
    });
    cluster.say_as(2, Service::Safe, "s");
    cluster.pass(ms(10));
    cluster.crash(3);
    cluster.pass(ms(3_000));
    for me in 1..=2 {
        let told = cluster.told(me);
        let closes = told.iter().position(|told| told == "closes").unwrap();
        let safe = told.iter().position(|told| told.trim_start_matches('=') == "s").unwrap();
        assert!(closes < safe, "{told:?}");
    }
}

#[test]
fn a_view_becomes_primary_by_an_event_that_stands_in_the_order() {
    //= P46 test
    let mut cluster = Cluster::new(3, |config| {
        usual(config);
        config.primary = Policy::Majority;
    });
    cluster.crash(3);
    cluster.say(1, "a");
    cluster.pass(ms(3_000));
    let told = cluster.told(1);
    let view = told.iter().position(|told| told == "view of 2").unwrap();
    assert!(told[view..].contains(&"primary".to_owned()), "{told:?}");
    assert_eq!(told[view..], cluster.told(2)[cluster.told(2).iter().position(|t| t == "view of 2").unwrap()..]);
}

#[test]
fn who_leaves_has_said_all_and_the_others_go_on() {
    let mut cluster = Cluster::new(3, usual);
    cluster.say(1, "last words");
    let now = cluster.now;
    cluster.at(1, |engine| engine.leave(now));
    let refused = Submission {
        class: Class::Client,
        service: Service::Agreed,
        stream: OrderStream(0),
        payload: Bytes::from_static(b"x").into(),
    };
    assert!(cluster.at(1, |engine| engine.submit(now, refused)).is_err());
    cluster.pass(ms(1_000));
    assert!(!cluster.nodes[0].up);
    assert_eq!((cluster.got(2), cluster.got(3)), (vec!["last words".to_owned()], vec!["last words".to_owned()]));
    cluster.say(2, "on we go");
    cluster.pass(ms(100));
    assert_eq!(cluster.got(3).last().unwrap(), "on we go");
}

/// Node 1, the sequencer, has delivered c and b and told no place.
fn untold() -> Cluster {
    let mut cluster = Cluster::new(3, |config| {
        usual(config);
        config.sequencing = Sequencing { every: 40, within: Some(ms(10_000)) };
    });
    cluster.say(3, "c");
    cluster.pass(ms(1));
    cluster.say(2, "b");
    cluster.pass(ms(1));
    assert_eq!(cluster.got(1), ["c", "b"]);
    cluster
}

#[test]
fn a_sequencer_that_leaves_tells_the_places_it_has_delivered_by() {
    //= P40 test
    let mut cluster = untold();
    let now = cluster.now;
    cluster.at(1, |engine| engine.leave(now));
    cluster.pass(ms(1_000));
    assert!(!cluster.nodes[0].up);
    assert!((2..=3).all(|me| cluster.got(me) == ["c", "b"]), "{:?} {:?}", cluster.got(2), cluster.got(3));
}

#[test]
fn a_sequencer_whose_time_to_leave_is_up_tells_its_places_too() {
    //= P40 test
    let mut cluster = untold();
    // It never learns that its last message is held by all.
    cluster.fate = Box::new(|_, to, packet| {
        let lost = to == 1 && matches!(packet, PlatoPacket::Status(_));
        (!lost).then_some(Duration::ZERO)
    });
    cluster.say_as(1, Service::Safe, "s");
    let now = cluster.now;
    cluster.at(1, |engine| engine.leave(now));
    cluster.pass(ms(1_000));
    assert!(!cluster.nodes[0].up);
    assert!((2..=3).all(|me| cluster.got(me) == ["c", "b", "s"]), "{:?} {:?}", cluster.got(2), cluster.got(3));
}

#[test]
fn a_view_that_is_being_closed_is_not_called_primary() {
    //= P46 test
    let mut cluster = Cluster::new(3, |config| {
        usual(config);
        config.primary = Policy::Majority;
    });
    // The event is sent in the view of nodes 1 and 2, but its place is never told.
    cluster.crash(3);
    cluster.fate = Box::new(|_, _, packet| {
        let places = matches!(packet, PlatoPacket::Data(StreamPacket { content: StreamContent::Orders { .. }, .. }));
        (!places).then_some(Duration::ZERO)
    });
    let views = |cluster: &Cluster| cluster.told(2).iter().filter(|told| told.starts_with("view")).count();
    while views(&cluster) == 0 {
        cluster.pass(ms(1));
    }
    cluster.pass(ms(50));
    cluster.crash(1);
    cluster.pass(ms(3_000));
    let told = cluster.told(2);
    assert_eq!(told.iter().filter(|told| **told == "closes").count(), 2, "{told:?}");
    assert!(!told.contains(&"primary".to_owned()), "{told:?}");
}

#[test]
fn what_one_member_alone_finds_out_while_it_fetches_does_not_decide_where_the_transitional_view_stands() {
    //= P43 test
    let mut cluster = Cluster::new(4, usual);
    // Node 3 lacks the message until all have frozen; of the statuses only those to it come through, so that it alone can
    // know then that all hold the message.
    let mut frozen = false;
    cluster.fate = Box::new(move |from, to, packet| {
        frozen |= matches!(packet, PlatoPacket::Membership(vs::MembershipPacket::Plan(_)));
        let passes = match packet {
            PlatoPacket::Data(data) if data.key.origin == NodeId(2) => to != 3 || frozen,
            PlatoPacket::Request(_) => frozen,
            PlatoPacket::Status(_) => from != 4 || to == 3,
            _ => true,
        };
        passes.then_some(Duration::ZERO)
    });
    cluster.say_as(2, Service::Safe, "s");
    cluster.pass(ms(40));
    cluster.crash(4);
    cluster.pass(ms(1_000));
    let final_told =
        |me| -> Vec<_> { cluster.told(me).into_iter().filter(|told| !told.starts_with(['+', '-'])).collect() };
    for me in 1..=3 {
        let told: Vec<String> = final_told(me).iter().map(|told| told.trim_start_matches('=').to_owned()).collect();
        assert_eq!(told, ["closes", "s", "view of 3"], "node {me}");
    }
}

#[test]
fn what_stands_behind_a_gap_is_not_taken_in_when_the_gap_is_closed_for_the_end_of_the_view() {
    //= P41 test
    let mut cluster = Cluster::new(4, usual);
    // Of three packets of node 4, node 2 lacks the first and node 3 the last, and nobody else incarnations on.
    let mut frozen = false;
    cluster.fate = Box::new(move |from, to, packet| {
        frozen |= matches!(packet, PlatoPacket::Membership(vs::MembershipPacket::Plan(_)));
        let passes = match packet {
            PlatoPacket::Data(data) if from == 4 => to != 1 && ![(2, 1), (3, 3)].contains(&(to, data.key.seq)),
            PlatoPacket::Request(_) => frozen,
            _ => true,
        };
        passes.then_some(Duration::ZERO)
    });
    for text in ["a", "b", "c"] {
        cluster.say(4, text);
        cluster.pass(us(400));
    }
    cluster.crash(1);
    cluster.crash(4);
    cluster.pass(ms(3_000));
    assert_eq!((cluster.got(2), cluster.got(3)), (vec!["a".into(), "b".into()], vec!["a".into(), "b".into()]));
}

#[test]
fn what_is_agreed_on_is_fetched_however_little_a_member_knows_of_what_all_hold() {
    //= P41 test
    //= P03 test
    let mut cluster = Cluster::new(3, |config| {
        usual(config);
        config.window.packets = 40;
        config.links.status = us(200);
    });
    cluster.fate = Box::new(|from, to, packet| {
        let lost = (from, to) == (2, 3) && matches!(packet, PlatoPacket::Status(_));
        (!lost).then_some(Duration::ZERO)
    });
    (0..400).for_each(|_| cluster.say(1, &"x".repeat(1_000)));
    cluster.pass(ms(40));
    cluster.crash(1);
    assert!(cluster.got(2).len() > cluster.got(3).len() + 20, "{} {}", cluster.got(2).len(), cluster.got(3).len());
    cluster.pass(ms(3_000));
    assert_eq!(cluster.views()[0].members.len(), 2);
    assert_eq!(cluster.got(2), cluster.got(3));
}
