//! Cases told step by step.
use super::cluster::{Cluster, MS, at_rest, config, formed, sound};
use crate::key::RingNumber;
use crate::packet::{Content, Packet, Relayed, RelayedContent};
use consort_order::{Arrival, Engine, Lane, Obstacle, Topic};
use consort_types::{Instant, MemberId, NodeId, Service, ViewId};

const LINE: &[&[u16]] = &[&[1, 2, 3], &[3, 4, 5], &[5, 6, 7]];

/// How long messages took to their senders at most, in milliseconds.
fn longest(cluster: &Cluster) -> u64 {
    cluster.took.values().map(|(sent, came)| came.saturating_sub(*sent) / MS).max().unwrap()
}

#[test]
fn three_rings_have_one_order_whoever_sends() {
    //= TM10 test
    //= TM11 test
    //= TM12 test
    //= TM13 test
    //= TM22 test
    let mut cluster = formed(LINE);
    for round in 0..40 {
        for node in cluster.nodes() {
            let service = if round % 3 == 0 { Service::Safe } else { Service::Agreed };
            cluster.submit(node, service, 20 + 100 * (round % 4));
        }
        cluster.run(1);
    }
    at_rest(&mut cluster);
    assert_eq!(cluster.deliveries, 7 * 7 * 40);
    let order = cluster.texts(1);
    assert!(cluster.nodes().into_iter().all(|node| cluster.texts(node) == order));
}

#[test]
fn idle_rings_hold_up_nobody_and_a_network_at_rest_tells_nothing() {
    //= TM13 test
    let mut cluster = formed(LINE);
    for _ in 0..50 {
        cluster.submit(1, Service::Agreed, 100);
        cluster.run(20);
    }
    assert_eq!(cluster.texts(7).len(), 50);
    assert!(longest(&cluster) < 20, "{} ms", longest(&cluster));
    cluster.run(1_000);
    let told = cluster.total("horizons_sent");
    let visits = cluster.total("visits");
    cluster.run(10_000);
    assert_eq!(cluster.total("horizons_sent"), told);
    assert!(cluster.total("visits") - visits < 10 * 9 * 50, "tokens rest");
}

#[test]
fn a_message_that_waits_says_for_which_ring_and_who_tells_of_it() {
    //= TM12 test
    let mut cluster = formed(LINE);
    let mut told = String::new();
    for _ in 0..20 {
        cluster.submit(1, Service::Safe, 100);
        for _ in 0..10 {
            cluster.run(1);
            told += &cluster.states();
        }
    }
    assert!(told.contains("the next until nothing before it can come from ring 3 (told by n3)"), "{told}");
    assert!(told.contains("until all nodes of ring 1 (told by n3) hold it\n"), "{told}");
    assert!(told.contains("\n  ring 3: behind n5, reached "), "{told}");
    at_rest(&mut cluster);
    assert!(!cluster.states().contains("messages wait"), "{}", cluster.states());
}

#[test]
fn a_safe_message_waits_until_all_rings_hold_it_and_holds_back_what_follows() {
    //= TM14 test
    //= TM15 test
    let mut cluster = formed(LINE);
    // What comes from the gateway to the last ring does not arrive.
    cluster.cut(3, &[5]);
    cluster.submit(1, Service::Safe, 10);
    cluster.submit(1, Service::Agreed, 10);
    cluster.run(100);
    assert!(cluster.texts(1).is_empty() && cluster.texts(4).is_empty(), "not all hold it");
    cluster.cut(3, &[]);
    at_rest(&mut cluster);
    assert_eq!(cluster.texts(7), ["1.1:1", "1.1:2"]);
}

/// Three rings whose nodes say what they read: nothing yet.
fn choosy(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(seed, config(LINE));
    cluster.choosy = cluster.nodes().into_iter().collect();
    cluster.run(4_000);
    assert_eq!(cluster.together().len(), 1, "{}", cluster.states());
    cluster
}

/// How many messages nodes were given that are not about what is read.
fn given(cluster: &Cluster, node: u16) -> usize {
    cluster.texts(node).iter().filter(|text| !text.contains(['+', '-'])).count()
}

#[test]
fn gateways_send_on_only_what_is_read_behind_them() {
    //= TM50 test
    //= TM51 test
    //= TM52 test
    let mut cluster = choosy(1);
    cluster.wish(7, 1, true);
    cluster.wish(4, 2, true);
    cluster.run(500);
    for round in 0..10 {
        let service = if round % 2 == 0 { Service::Safe } else { Service::Agreed };
        for topics in [&[1][..], &[2], &[3], &[2, 3], &[]] {
            cluster.submit_to(1, topics, service, 100);
            cluster.submit_to(6, topics, service, 100);
        }
        cluster.run(3);
    }
    at_rest(&mut cluster);
    // From ring 1 only topic 3 stays; behind node 5 only topic 1 is read. Then what comes the other way, for node 4 alone.
    let told = [1, 2, 3, 4, 5, 6, 7].map(|node| given(&cluster, node));
    assert_eq!(told, [50 + 10, 50 + 10, 50 + 30, 40 + 30, 40 + 50, 20 + 50, 20 + 50]);
    assert_eq!((cluster.counter(3, "filtered"), cluster.counter(5, "filtered")), (10 + 20, 20 + 20));
    assert!(cluster.counter(5, "filtered_bytes") > 40 * 100 && cluster.counter(1, "filtered") == 0);
    assert_eq!(cluster.counter(7, "passed"), 30, "everything has its place everywhere");
}

#[test]
fn a_topic_is_read_once_all_gateways_have_echoed() {
    //= TM53 test
    let mut cluster = choosy(2);
    for round in 0..200 {
        cluster.submit_to(1, &[1], Service::Agreed, 100);
        cluster.submit_to(4, &[1], Service::Agreed, 100);
        if round == 50 {
            let echoes = cluster.total("echoes_sent");
            // The nearer gateway hears it at once, the other one later, after it has held back some more.
            cluster.cut(2, &[3]);
            cluster.wish(7, 1, true);
            assert!(!cluster.hosts[&7].engine.reads(Topic(1)), "nobody has echoed");
            for _ in 0..5 {
                cluster.run(1);
                cluster.submit_to(1, &[1], Service::Agreed, 100);
            }
            assert!(!cluster.hosts[&7].engine.reads(Topic(1)), "one has echoed");
            cluster.cut(2, &[]);
            for _ in 0..500 {
                cluster.run(u64::from(!cluster.waiting_wishes().is_empty()));
            }
            assert!(cluster.waiting_wishes().is_empty(), "joins: {:?} wait", cluster.waiting_wishes());
            assert_eq!(cluster.total("echoes_sent") - echoes, 2, "one of each gateway");
        }
        if round == 150 {
            cluster.wish(7, 1, false);
        }
        cluster.run(1);
        sound(cluster.check());
    }
    at_rest(&mut cluster);
    let (got, passed) = (given(&cluster, 7) as u64, cluster.counter(7, "passed"));
    assert_eq!(got + passed, 405);
    assert!((150..300).contains(&got) && cluster.counter(3, "filtered") > 50, "{got}");
}

#[test]
fn a_join_stands_behind_all_that_any_gateway_held_back() {
    //= TM53 test
    //= TM54 test
    let mut cluster = choosy(6);
    // The far gateway hears of it late, and holds back until then what has higher stamps than the near one's echo.
    cluster.cut(2, &[3]);
    cluster.wish(7, 1, true);
    for _ in 0..5 {
        (0..20).for_each(|_| cluster.submit_to(1, &[1], Service::Agreed, 10));
        cluster.run(1);
    }
    cluster.cut(2, &[]);
    cluster.run(500);
    sound(cluster.check());
    cluster.submit_to(1, &[1], Service::Agreed, 10);
    at_rest(&mut cluster);
    assert_eq!((given(&cluster, 7), cluster.counter(3, "filtered")), (1, 100), "{:?}", cluster.texts(7));
}

#[test]
fn who_says_nothing_of_what_it_reads_is_given_everything() {
    //= TM50 test
    let mut cluster = Cluster::new(3, config(LINE));
    cluster.choosy = [1, 2, 3, 4, 5, 6].into();
    cluster.run(4_000);
    for _ in 0..20 {
        cluster.submit_to(1, &[1], Service::Safe, 100);
    }
    cluster.submit_to(7, &[1], Service::Safe, 100);
    cluster.submit_to(7, &[1, 2, 3, 4, 5, 6, 7, 8, 9], Service::Safe, 100);
    at_rest(&mut cluster);
    assert_eq!(given(&cluster, 7), 22);
    assert_eq!(given(&cluster, 1), 21, "a message of too many topics is for all");
    assert_eq!(cluster.total("filtered"), 1);
}

#[test]
fn a_safe_message_waits_until_all_know_its_place_whoever_reads_it() {
    //= TM14 test
    //= TM51 test
    let mut cluster = choosy(9);
    // The next ring brings one of its nodes nothing, and loses both gateways then.
    cluster.deaf.insert((RingNumber(2), 4));
    cluster.submit_to(1, &[1], Service::Safe, 10);
    cluster.run(20);
    assert_eq!(cluster.counter(3, "filtered"), 1);
    let early = given(&cluster, 1);
    cluster.crash(3);
    cluster.crash(5);
    cluster.deaf.clear();
    cluster.run(3_000);
    sound(cluster.check());
    assert_eq!(early, 0, "not all knew its place");
    cluster.heal();
    cluster.run(6_000);
    at_rest(&mut cluster);
    assert_eq!(given(&cluster, 2), 1);
}

#[test]
fn a_new_view_begins_with_what_its_members_read_by_then() {
    //= TM52 test
    let mut cluster = choosy(4);
    cluster.wish(7, 1, true);
    cluster.run(500);
    cluster.crash(2);
    // Nobody has told the gateways of the next view anything when these are sent.
    for _ in 0..200 {
        cluster.submit_to(1, &[1], Service::Agreed, 10);
        cluster.wish(6, 1, true);
        cluster.run(10);
        sound(cluster.check());
    }
    at_rest(&mut cluster);
    assert_eq!((given(&cluster, 7), cluster.waiting_wishes().len()), (200, 0));
}

#[test]
fn what_was_read_in_the_view_before_counts_no_more() {
    //= TM52 test
    let mut cluster = choosy(8);
    cluster.wish(4, 2, true);
    cluster.run(500);
    cluster.crash(2);
    for _ in 0..3_000 {
        cluster.run(u64::from(!cluster.states().contains("n7 true forming")));
    }
    // It may join as soon as the next view begins. Gateways have yet to hear of it when these come.
    cluster.wish(7, 1, true);
    (0..50).for_each(|_| cluster.submit_to(1, &[1], Service::Agreed, 10));
    cluster.run(3_000);
    sound(cluster.check());
    at_rest(&mut cluster);
    assert_eq!(cluster.waiting_wishes(), []);
}

#[test]
fn what_is_lacking_of_messages_that_were_not_sent_on_is_asked_of_those_who_have_them() {
    //= TM55 test
    let mut cluster = choosy(5);
    cluster.wish(2, 1, true);
    cluster.run(500);
    // Node 2 gets nothing of its ring any more; the gateway does, and sends nothing on.
    cluster.cut(1, &[2]);
    cluster.run(20);
    for _ in 0..100 {
        cluster.submit_to(1, &[1], Service::Agreed, 300);
        cluster.submit_to(1, &[], Service::Agreed, 300);
    }
    cluster.run(40);
    cluster.cut(1, &[]);
    cluster.run(6_000);
    at_rest(&mut cluster);
    assert_eq!(cluster.together().len(), 1, "{}", cluster.states());
    assert_eq!((given(&cluster, 2), given(&cluster, 1)), (200, 200));
}

#[test]
fn many_who_lack_what_was_not_sent_on_are_given_places_one_by_one() {
    //= TM55 test
    let mut cluster = Cluster::new(6, config(&[&[1, 2, 3], &[3, 4], &[4, 5, 6, 7, 8, 9], &[1, 10]]));
    cluster.choosy = cluster.nodes().into_iter().collect();
    cluster.run(4_000);
    cluster.wish(2, 1, true);
    cluster.run(500);
    // One ring loses its token, which ends the view, while another gets no places of what is not sent on.
    cluster.toll = 50_000;
    cluster.cut(4, &[10]);
    cluster.run(60);
    cluster.cut(3, &[4]);
    (0..500).for_each(|_| cluster.submit_to(1, &[1], Service::Agreed, 100));
    while cluster.counter(10, "token_losses") == 0 {
        cluster.run(1);
    }
    cluster.cut(4, &[]);
    cluster.cut(3, &[]);
    cluster.run(4_000);
    sound(cluster.check());
    assert_eq!(cluster.together().len(), 1, "{}", cluster.states());
    assert!(cluster.counter(4, "pieces_sent") > 500, "all of them asked");
    at_rest(&mut cluster);
}

#[test]
fn a_gateway_sends_no_request_on_of_a_view_that_it_does_not_close() {
    //= TM55 test
    let mut cluster = formed(LINE);
    let arrival = Arrival { at: Instant(cluster.now), from: MemberId::new(4, 1), lane: Lane::Control };
    let old = ViewId { number: 1, representative: MemberId::new(4, 1) };
    let open = cluster.hosts[&3].view.clone().unwrap().id;
    let wants = |view| RelayedContent::Wants { view, member: 0, number: 1, offset: 0, strict: true };
    // The first it sends on: to it, too, node 4 is who it says.
    let said = [RelayedContent::HandedOut { view: open, numbers: vec![0; 7] }, wants(old), wants(open)];
    for ((content, sent_on), number) in said.into_iter().zip([1, 0, 0]).zip(500..) {
        let relayed = Relayed { from: arrival.from, number, to: Some(NodeId(1)), content };
        let packet = Packet { ring: RingNumber(2), content: Content::Relayed(relayed) };
        let before = cluster.counter(3, "relayed_packets");
        cluster.with(3, |engine| engine.handle_packet(arrival.at, arrival, packet));
        sound(cluster.check());
        assert_eq!(cluster.counter(3, "relayed_packets") - before, sent_on);
    }
}

#[test]
fn both_sides_go_on_without_their_gateway_and_come_together_with_it() {
    //= TM31 test
    //= TM33 test
    //= TM40 test
    let mut cluster = formed(LINE);
    for node in [1, 4, 7] {
        cluster.submit(node, Service::Safe, 2_000);
    }
    cluster.crash(3);
    cluster.run(2_500);
    assert_eq!(cluster.together(), [vec![1, 2], vec![4, 5, 6, 7]].into(), "{}", cluster.states());
    for node in [1, 4, 7] {
        cluster.submit(node, Service::Safe, 10);
    }
    cluster.run(1_000);
    sound(cluster.check());
    cluster.restart(3);
    cluster.run(5_000);
    assert_eq!(cluster.together(), [vec![1, 2, 3, 4, 5, 6, 7]].into(), "{}", cluster.states());
    at_rest(&mut cluster);
}

#[test]
fn a_gateway_that_is_cut_off_on_one_side_stays_on_the_other() {
    //= TM05 test
    //= TM33 test
    let mut cluster = formed(LINE);
    cluster.cut(1, &[3]);
    cluster.run(2_500);
    assert_eq!(cluster.together(), [vec![1, 2], vec![3, 4, 5, 6, 7]].into(), "{}", cluster.states());
    cluster.cut(1, &[]);
    cluster.run(5_000);
    assert_eq!(cluster.together().len(), 1, "{}", cluster.states());
    at_rest(&mut cluster);
}

#[test]
fn a_loss_anywhere_costs_no_message_and_views_are_closed_alike() {
    //= TM24 test
    //= TM32 test
    //= TM34 test
    //= TM41 test
    //= TM42 test
    let mut cluster = formed(LINE);
    cluster.loss = 0.02;
    for round in 0..60 {
        for node in cluster.nodes() {
            let service = if round % 2 == 0 { Service::Safe } else { Service::Agreed };
            cluster.submit(node, service, 3_000);
        }
        if round == 30 {
            cluster.crash(7);
        }
        cluster.run(20);
    }
    cluster.heal();
    cluster.run(8_000);
    at_rest(&mut cluster);
    assert!(cluster.total("sent_again") > 0, "some had no place in the view that ended");
}

#[test]
fn many_who_lack_much_when_a_view_ends_do_not_swamp_the_one_who_holds_it() {
    //= TM41 test
    let mut cluster = formed(&[&[1, 2, 3], &[3, 4], &[3, 5, 6, 7, 8, 9, 10, 11, 12]]);
    // One ring loses its token, which ends the view, while another gets nothing of what the first brings.
    cluster.toll = 50_000;
    cluster.cut(2, &[3]);
    cluster.run(60);
    cluster.cut(3, &[3]);
    for _ in 0..3_000 {
        cluster.submit(1, Service::Agreed, 100);
        cluster.submit(2, Service::Agreed, 100);
    }
    while cluster.counter(3, "token_losses") == 0 {
        cluster.run(1);
    }
    cluster.cut(2, &[]);
    cluster.cut(3, &[]);
    cluster.run(2_000);
    assert_eq!(cluster.together().len(), 1, "{}", cluster.states());
    let given = |node| cluster.counter(node, "pieces_sent");
    assert!(given(3) > 2_000, "eight lacked many");
    assert!(given(3) < 2 * 6_000, "hardly any were given twice, though eight lacked them: {}", given(3));
    assert_eq!((given(1), given(2)), (0, 0), "the gateway answered what it was to pass on");
    at_rest(&mut cluster);
    assert_eq!(cluster.texts(12).len(), 6_000);
}

#[test]
fn who_misses_a_part_of_an_answer_to_all_is_not_kept_from_it_by_what_came_behind() {
    //= TM41 test
    let mut cluster = formed(&[&[1, 2, 3], &[3, 4], &[3, 5, 6, 7, 8, 9, 10, 11, 12]]);
    cluster.toll = 50_000;
    cluster.cut(2, &[3]);
    cluster.run(60);
    cluster.cut(3, &[3]);
    for _ in 0..6_000 {
        cluster.submit(1, Service::Agreed, 10);
        cluster.submit(2, Service::Agreed, 10);
    }
    while cluster.counter(3, "token_losses") == 0 {
        cluster.run(1);
    }
    cluster.heal();
    cluster.cut(2, &[]);
    cluster.cut(3, &[]);
    cluster.loss = 0.05;
    cluster.run(4_000);
    cluster.loss = 0.0;
    cluster.run(2_000);
    assert_eq!(cluster.together().len(), 1, "{}", cluster.states());
    at_rest(&mut cluster);
    assert_eq!(cluster.texts(12).len(), 12_000);
}

#[test]
fn a_view_begins_in_a_ring_once_all_have_said_so() {
    //= TM30 test
    let mut cluster = Cluster::new(3, config(&[&[1, 2, 3], &[3, 4]]));
    cluster.loss = 0.2;
    for _ in 0..200 {
        cluster.submit(1, Service::Safe, 10);
        cluster.submit(4, Service::Agreed, 10);
        cluster.run(20);
        sound(cluster.check());
    }
    cluster.heal();
    cluster.run(8_000);
    at_rest(&mut cluster);
}

#[test]
fn what_is_under_way_is_bounded_and_nothing_is_lost_by_that() {
    //= TM23 test
    let mut config = config(LINE);
    config.credit = 5_000;
    let mut cluster = Cluster::new(1, config);
    cluster.run(4_000);
    for _ in 0..100 {
        cluster.submit(1, Service::Agreed, 1_000);
    }
    for _ in 0..100 {
        cluster.run(5);
        assert!(cluster.counter(1, "own_held_bytes") < 7_000);
    }
    cluster.run(3_000);
    at_rest(&mut cluster);
    assert_eq!(cluster.texts(7).len(), 100);
}

#[test]
fn nobody_holds_more_than_all_have_under_way() {
    //= TM21 test
    //= TM23 test
    let mut config = config(LINE);
    config.credit = 5_000;
    let mut cluster = Cluster::new(1, config);
    cluster.run(4_000);
    let senders = [1, 4, 7];
    for sender in senders.repeat(200) {
        cluster.submit(sender, Service::Safe, 1_000);
    }
    let allowed = senders.len() as u64 * (5_000 + 1_064);
    for _ in 0..1_000 {
        cluster.run(1);
        for node in cluster.nodes() {
            let held = cluster.counter(node, "held_bytes");
            assert!(held <= allowed, "{node} holds {held}, {allowed} allowed\n{}", cluster.states());
        }
    }
    cluster.run(10_000);
    at_rest(&mut cluster);
    assert_eq!(cluster.texts(2).len(), 600);
}

#[test]
fn messages_of_no_bytes_are_bounded_as_others_are() {
    //= TM23 test
    let mut config = config(LINE);
    config.credit = 5_000;
    let mut cluster = Cluster::new(1, config);
    cluster.run(4_000);
    for _ in 0..1_000 {
        cluster.submit(1, Service::Agreed, 0);
    }
    for _ in 0..100 {
        cluster.run(1);
        let held = cluster.counter(1, "own_held_bytes");
        assert!(held < 6_000, "{held}");
    }
    cluster.run(10_000);
    at_rest(&mut cluster);
    assert_eq!(cluster.texts(7).len(), 1_000);
}

#[test]
fn who_leaves_has_said_everything() {
    let mut cluster = formed(LINE);
    for _ in 0..20 {
        cluster.submit(3, Service::Safe, 500);
    }
    let now = Instant(cluster.now);
    cluster.with(3, |engine| engine.leave(now));
    cluster.run(3_000);
    assert!(cluster.hosts[&3].left);
    assert_eq!((cluster.texts(1).len(), cluster.texts(7).len()), (20, 20));
    assert_eq!(cluster.together(), [vec![1, 2], vec![4, 5, 6, 7]].into(), "{}", cluster.states());
    sound(cluster.check());
}

#[test]
fn nothing_is_ordered_soon_until_all_rings_of_a_node_carry_the_view() {
    //= TM72 test
    let mut cluster = Cluster::new(1, config(LINE));
    let obstacle = |cluster: &Cluster, node: u16| cluster.hosts[&node].engine.obstacle(Instant(cluster.now));
    cluster.run(1);
    assert_eq!(obstacle(&cluster, 3), Some(Obstacle::Membership));
    cluster.run(4_000);
    assert!(cluster.nodes().into_iter().all(|node| obstacle(&cluster, node).is_none()), "{}", cluster.states());
    cluster.crash(5);
    cluster.crash(4);
    let mut closed = false;
    for _ in 0..3_000 {
        cluster.run(1);
        closed |= obstacle(&cluster, 3) == Some(Obstacle::Membership);
    }
    assert!(closed, "a view ended");
    cluster.run(2_000);
    assert_eq!([1, 3].map(|node| obstacle(&cluster, node)), [None, None], "they go on without the others");
}
