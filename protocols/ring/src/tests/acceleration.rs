use super::*;
use crate::{Acceleration, Priority, Windows};

fn windows(personal: u32, accelerated: u32) -> Windows {
    Windows { personal, accelerated, global: 4 * personal, store: 64 * personal, ..Windows::SPREAD }
}

/// The kinds of what node 1 sends in the visit in which it has `n` packets to send.
fn visit(n: usize, adjust: impl Fn(&mut RingConfig)) -> Vec<(char, u64)> {
    let mut net = Net::formed(2, adjust);
    while net.flying.iter().all(|f| !(f.to == NodeId(1) && f.lane == Lane::Token)) {
        net.step(&mut |_| false);
    }
    (0..n).for_each(|_| net.submit(0, Service::Agreed, vec![0; 1_370]));
    net.sent.clear();
    while net.sent.is_empty() {
        net.step(&mut |_| false);
    }
    let kind = |flying: &Flying| match &flying.packet {
        RingPacket::Data(data) => ('d', data.round),
        RingPacket::Token(_) => ('t', 0),
        other => panic!("{other:?}"),
    };
    net.sent.iter().filter(|flying| flying.from == member(1)).map(kind).collect()
}

#[test]
fn the_last_packets_of_a_visit_leave_after_the_token() {
    //= R12 test
    //= R16 test
    let kinds = |n, personal, accelerated| -> String {
        let sent = visit(n, |config| {
            config.windows = windows(personal, accelerated);
            config.idling = crate::IdleHold { rounds: 255, ..crate::IdleHold::PARK };
        });
        sent.into_iter().map(|(kind, _)| kind).collect()
    };
    assert_eq!(kinds(7, 5, 3), "ddtddd");
    assert_eq!(kinds(5, 5, 5), "tddddd");
    assert_eq!(kinds(2, 5, 3), "tdd");
    assert_eq!(kinds(3, 5, 0), "dddt");
    assert_eq!(kinds(0, 5, 3), "t");
}

#[test]
fn few_packets_leave_before_the_token_unless_the_thesis_is_followed() {
    //= R12 test
    let sent = visit(2, |config| {
        config.windows = Windows { accelerated_from: 3, ..windows(5, 5) };
        config.idling = crate::IdleHold { rounds: 255, ..crate::IdleHold::PARK };
    });
    assert_eq!(sent.iter().map(|(kind, _)| *kind).collect::<String>(), "ddt");
}

#[test]
fn rounds_are_stamped_by_the_method_of_priority() {
    //= R17 test
    let rounds = |priority| {
        let sent = visit(4, |config| {
            config.windows = windows(4, 2);
            config.priority = priority;
            config.idling = crate::IdleHold { rounds: 255, ..crate::IdleHold::PARK };
        });
        let rounds: Vec<_> = sent.iter().filter(|(kind, _)| *kind == 'd').map(|(_, round)| *round).collect();
        (rounds[1] - rounds[0], rounds[2] - rounds[1], rounds[3] - rounds[2])
    };
    assert_eq!(rounds(Priority::Method2), (0, 1, 0), "before the token one round, after it the next");
    assert_eq!(rounds(Priority::Method1), (0, 0, 0), "all of a visit the same");
}

#[test]
fn the_token_gains_priority_by_a_first_packet_of_the_predecessors_next_round_only() {
    //= R17 test
    let mut net = Net::formed(3, |_| {});
    let ring = net.views[0][0].id;
    let received = net.rings[2].received_for_test();
    let packet = |seq, originator: u16, round, retransmission| {
        RingPacket::Data(DataPacket { ring, originator: NodeId(originator), round, retransmission, ..data(seq) })
    };
    let mut hand = |from: u16, packet| {
        net.hand_over(Flying { from: member(from), to: NodeId(3), lane: Lane::Data, packet });
        net.rings[2].reads_first()
    };
    assert_eq!(hand(2, packet(1, 2, received, false)), Lane::Data, "sent before its token");
    assert_eq!(hand(1, packet(2, 1, received + 1, false)), Lane::Data, "not the predecessor");
    assert_eq!(hand(2, packet(3, 2, received + 9, true)), Lane::Data, "a retransmission");
    assert_eq!(hand(2, packet(4, 2, received + 1, false)), Lane::Token);
}

#[test]
fn the_guard_takes_the_token_after_so_much_data() {
    //= R18 test
    let mut net = Net::formed(3, |config| config.starvation_guard = Some(10));
    let ring = net.views[0][0].id;
    for seq in 1..=11 {
        assert_eq!(net.rings[2].reads_first(), Lane::Data, "{seq}");
        let packet = RingPacket::Data(DataPacket { ring, ..data(seq) });
        net.hand_over(Flying { from: member(1), to: NodeId(3), lane: Lane::Data, packet });
    }
    assert_eq!(net.rings[2].reads_first(), Lane::Token);
}

#[test]
fn holes_are_asked_for_one_rotation_later_than_in_the_original_ring() {
    //= R14 test
    //= R32 test
    let visits_until_asked = |acceleration| {
        let mut net = Net::formed(3, |config| {
            config.acceleration = acceleration;
            config.idling = crate::IdleHold { rounds: 255, ..crate::IdleHold::PARK };
        });
        net.submit(0, Service::Agreed, "lost at n2");
        let start = net.counter(1, "visits");
        let mut lost = false;
        let mut drop = |flying: &Flying| {
            let hit = !lost && flying.to == NodeId(2) && matches!(flying.packet, RingPacket::Data(_));
            lost |= hit;
            hit
        };
        while net.counter(1, "requests_made") == 0 {
            net.step(&mut drop);
        }
        let visits = net.counter(1, "visits") - start;
        net.run(Duration::from_millis(20));
        net.agree_on(1);
        visits
    };
    let original = visits_until_asked(Acceleration::Original);
    assert_eq!(visits_until_asked(Acceleration::Accelerated), original + 1);
}

#[test]
fn the_original_ring_never_lets_the_token_overtake() {
    //= R32 test
    let mut net = Net::formed(3, |config| config.acceleration = Acceleration::Original);
    (0..600).for_each(|k| net.submit(k % 3, Service::Agreed, vec![0; 1_300]));
    net.run(Duration::from_millis(200));
    net.agree_on(600);
    assert_eq!((0..3).map(|i| net.counter(i, "packets_sent_after_token")).sum::<u64>(), 0);
}
