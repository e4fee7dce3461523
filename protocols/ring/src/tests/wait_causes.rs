//! What messages wait for, as the ring tells it.
use super::*;
use crate::Windows;
use crate::engine::RingState;
use consort_order::Obstacle;
use consort_types::OrderWait;

const SOON: Duration = Duration::from_millis(100);

/// Windows through which little goes at once.
fn narrow(personal: u32) -> Windows {
    Windows { personal, global: 3 * personal, accelerated: 0, store: 12 * personal, tuning: None, ..Windows::default() }
}

/// The third node receives no data, but all else.
fn deaf_third(flying: &Flying) -> bool {
    flying.to == NodeId(3) && matches!(flying.packet, RingPacket::Data(_))
}

#[test]
fn before_a_ring_stands_messages_wait_for_the_membership() {
    //= R38 test
    let mut net = Net::new(3, |_| {});
    assert_eq!(net.rings[0].wait_cause(), None);
    (0..3).for_each(|i| net.start(i));
    net.submit(0, Service::Agreed, "early");
    assert_eq!((net.rings[0].wait_cause(), net.rings[1].wait_cause()), (Some(OrderWait::Membership), None));
    net.run(Duration::from_millis(300));
    net.agree_on(1);
    assert_eq!(net.rings[0].wait_cause(), None);
}

#[test]
fn until_the_view_is_resumed_client_messages_wait_for_the_membership() {
    //= R38 test
    let mut net = Net::new(2, |_| {});
    net.resumes = false;
    (0..2).for_each(|i| net.start(i));
    net.run_until(Duration::from_secs(1), Net::is_whole);
    net.submit(1, Service::Agreed, "gated");
    assert_eq!(net.rings[1].wait_cause(), Some(OrderWait::Membership));
    let (now, view) = (net.now, net.views[1].last().unwrap().id);
    net.rings[1].resume(now, view);
    assert_eq!(net.rings[1].wait_cause(), Some(OrderWait::Window));
    net.drain(1);
    net.run(SOON);
    assert_eq!(net.rings[1].wait_cause(), None);
}

#[test]
fn while_the_token_is_late_messages_wait_for_the_membership() {
    //= R38 test
    let mut net = Net::formed(2, |_| {});
    let mut silent = |flying: &Flying| flying.from.node == NodeId(2);
    net.run_dropping(SOON, &mut silent);
    net.submit(0, Service::Safe, "late");
    let late = |net: &Net| net.rings[0].wait_cause() == Some(OrderWait::Membership);
    net.run_dropping_until(Duration::from_millis(300), &mut silent, &mut |net| late(net));
    assert!(late(&net));
    assert_eq!(net.state(0), "operational", "the ring is not given up yet");
}

#[test]
fn a_ring_that_is_offered_more_than_it_carries_waits_for_its_windows() {
    //= R38 test
    let mut net = Net::formed(3, |config| config.windows = narrow(1));
    (0..500).for_each(|_| net.submit(0, Service::Agreed, vec![0; 1_300]));
    let mut seen = 0;
    while let Some(cause) = net.rings[0].wait_cause() {
        assert_eq!(cause, OrderWait::Window);
        seen += 1;
        net.step(&mut |_| false);
    }
    assert!(seen > 500, "{seen}");
    net.run(SOON);
    net.agree_on(500);
}

#[test]
fn a_member_that_keeps_all_waiting_is_named_until_it_is_out() {
    //= R38 test
    let mut net = Net::formed(3, |config| config.windows = narrow(10));
    (0..1_000).for_each(|_| net.submit(0, Service::Agreed, vec![0; 1_300]));
    let named = |net: &Net| net.rings[0].wait_cause() == Some(OrderWait::Slow(NodeId(3)));
    net.run_dropping_until(SOON, &mut deaf_third, &mut |net| named(net));
    assert_eq!(net.rings[1].wait_cause(), None, "nothing waits there");
    let gathers = |net: &Net| net.state(0) != "operational";
    net.run_dropping_until(Duration::from_secs(1), &mut deaf_third, &mut |net| gathers(net));
    assert_eq!(net.rings[0].wait_cause(), Some(OrderWait::Membership));
    net.run_dropping_until(Duration::from_secs(2), &mut deaf_third, &mut |net| net.rings[0].wait_cause().is_none());
    assert_eq!(net.last_members(0), [1, 2]);
}

#[test]
fn a_member_that_fills_the_store_is_named() {
    //= R38 test
    let mut net = Net::formed(3, |config| config.windows = narrow(40));
    (0..3_000).for_each(|_| net.submit(0, Service::Agreed, vec![0; 1_300]));
    // It lacks so much, here and there, that the token has no room to ask for all of it.
    let mut hears_half = |flying: &Flying| {
        flying.to == NodeId(3) && matches!(&flying.packet, RingPacket::Data(data) if data.seq.0 % 2 == 1)
    };
    let filled = |net: &Net| match &net.rings[0].state {
        RingState::Operational(state) => state.rotation.filled_by(),
        _ => None,
    };
    net.run_dropping_until(Duration::from_millis(180), &mut hears_half, &mut |net| filled(net) == Some(NodeId(3)));
    assert_eq!(net.rings[0].wait_cause(), Some(OrderWait::Slow(NodeId(3))));
    net.run(Duration::from_secs(1));
    net.agree_on(3_000);
    assert!(net.rings.iter().all(|ring| ring.wait_cause().is_none()));
}

#[test]
fn a_member_that_lacks_what_is_to_be_safe_is_named() {
    //= R38 test
    let mut net = Net::formed(3, |_| {});
    net.submit(0, Service::Safe, "safe");
    net.run_dropping_until(SOON, &mut deaf_third, &mut |net| {
        net.rings[0].wait_cause() == Some(OrderWait::Slow(NodeId(3)))
    });
    assert!(net.delivered[0].is_empty());
    net.run(SOON);
    net.agree_on(1);
    assert_eq!(net.rings[0].wait_cause(), None);
}

#[test]
fn nothing_is_ordered_soon_until_a_ring_stands_or_once_the_node_leaves() {
    //= R50 test
    let mut net = Net::new(2, |_| {});
    (0..2).for_each(|i| net.start(i));
    let obstacle = |net: &Net, node: usize| net.rings[node].obstacle(net.now);
    assert_eq!(obstacle(&net, 0), Some(Obstacle::Membership));
    net.run(Duration::from_millis(300));
    assert_eq!([0, 1].map(|node| obstacle(&net, node)), [None, None]);
    let now = net.now;
    net.rings[1].leave(now);
    assert_eq!((obstacle(&net, 0), obstacle(&net, 1)), (None, Some(Obstacle::Leaving)));
}
