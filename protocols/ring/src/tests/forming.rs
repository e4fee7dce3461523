use super::*;
use consort_types::{Cause, Rng};

#[test]
fn members_started_in_any_order_agree_on_one_ring() {
    //= R1 test
    //= R2 test
    //= R3 test
    //= R4 test
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [1, 0, 2]] {
        let mut net = Net::new(3, |_| {});
        for i in order {
            net.start(i);
            net.run(Duration::from_millis(700));
        }
        let view = net.views[0][0].clone();
        assert_eq!(view.members, [member(1), member(2), member(3)]);
        assert_eq!((view.cause.clone(), view.id.representative), (Cause::Formed, member(1)));
        for (views, me) in net.views.iter().zip(1..) {
            assert_eq!((views.len(), views[0].id, &views[0].members), (1, view.id, &view.members));
            assert_eq!(views[0].moved_together, [member(me)]);
        }
    }
}

#[test]
fn formation_survives_the_loss_of_half_of_all_packets() {
    //= R2 test
    for seed in 0..20 {
        let (mut net, mut rng) = (Net::new(4, |_| {}), Rng::new(seed));
        (0..4).for_each(|i| net.start(i));
        net.run_dropping(Duration::from_secs(10), &mut |_| rng.chance(0.5));
        assert!(net.views.iter().all(|views| views.len() == 1), "seed {seed}");
    }
}

#[test]
fn messages_submitted_before_the_ring_stands_are_sent_once_it_does() {
    //= R33 test
    let mut net = Net::new(2, |_| {});
    net.start(0);
    net.submit(0, Service::Agreed, "early");
    net.run(Duration::from_millis(100));
    assert!(net.rings[0].describe(net.now).contains("nothing heard yet from n2"), "{}", net.rings[0].describe(net.now));
    net.start(1);
    net.run(Duration::from_millis(500));
    assert_eq!(net.texts(1), ["early"]);
}

#[test]
fn a_restarted_member_is_not_taken_back_and_status_says_so() {
    //= R35 test
    let mut net = Net::formed(3, |_| {});
    let config = net.rings[1].config().clone();
    net.rings[1] = Ring::new(config, Incarnation(9_999)).unwrap();
    let newer = MemberId { node: NodeId(2), incarnation: Incarnation(9_999) };
    let packet = Packet::HoldCancel(crate::packet::HoldCancel { ring: net.views[0][0].id });
    net.hand_over(Flying { from: newer, to: NodeId(1), lane: Lane::Token, packet });
    net.start(1);
    net.run(Duration::from_secs(1));
    assert_eq!(net.counter(0, "new_incarnation"), 1);
    assert!(net.rings[0].describe(net.now).contains("n2 was restarted"), "{}", net.rings[0].describe(net.now));
    assert_eq!(net.views[1].len(), 1, "the new life sees no view of the old ring");
}

#[test]
fn packets_of_an_earlier_life_and_of_strangers_are_counted_and_dropped() {
    //= R35 test
    let mut net = Net::formed(2, |_| {});
    let packet = Packet::Data(data(1));
    let old = MemberId { node: NodeId(2), incarnation: Incarnation(3) };
    net.hand_over(Flying { from: old, to: NodeId(1), lane: Lane::Data, packet: packet.clone() });
    net.hand_over(Flying { from: MemberId::new(77, 1), to: NodeId(1), lane: Lane::Data, packet });
    assert_eq!((net.counter(0, "old_incarnation"), net.counter(0, "strangers")), (1, 1));
    assert_eq!(net.counter(0, "store_packets"), 0);
}
