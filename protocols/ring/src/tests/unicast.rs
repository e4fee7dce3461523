//! One node's unicast is lost for good while its multicast passes, as with a wrong entry in an ARP table.
use super::*;

const WHILE: Duration = Duration::from_secs(5);

/// Runs with all that `loser` sends to one node alone lost, while every node sends now and then; returns how many messages.
fn run_without_unicast_of(net: &mut Net, loser: NodeId) -> usize {
    let (end, mut sent) = (net.now + WHILE, 0);
    while net.now < end {
        let sender = sent % net.rings.len();
        net.submit(sender, if sent % 3 == 0 { Service::Safe } else { Service::Agreed }, "x");
        sent += 1;
        let lost = &mut |flying: &Flying| flying.lane == Lane::Token && flying.from.node == loser;
        net.run_dropping(Duration::from_millis(40), lost);
    }
    sent
}

#[test]
fn a_member_whose_unicast_is_lost_costs_no_view() {
    //= R25 test
    for (n, loser) in [(2, 2), (3, 2), (5, 3), (8, 8)] {
        let mut net = Net::formed(n, |_| {});
        let sent = run_without_unicast_of(&mut net, NodeId(loser));
        assert!(net.views.iter().all(|views| views.len() == 1), "n{loser} of {n}: {:?}", net.views[0]);
        net.run(Duration::from_millis(200));
        assert!(net.delivered.iter().all(|delivered| delivered.len() == sent), "n{loser} of {n}");
    }
}

#[test]
fn a_representative_whose_unicast_is_lost_costs_few_views_for_each_member_it_grants_to() {
    //= R25 test
    //= R47 test
    for n in [2, 3, 5] {
        let mut net = Net::formed(n, |_| {});
        let sent = run_without_unicast_of(&mut net, NodeId(1));
        assert!(
            net.views.iter().all(|views| views.len() <= usize::from(n) + 1),
            "{n}: {:?}",
            net.views[0].iter().map(|view| (view.members.len(), view.why())).collect::<Vec<_>>()
        );
        net.run(Duration::from_millis(200));
        assert!(net.delivered.iter().all(|delivered| delivered.len() == sent));
    }
}

#[test]
fn nodes_find_each_other_though_the_unicast_of_one_is_lost_from_the_start() {
    //= M23 test
    for loser in 1..=4 {
        let mut net = Net::new(4, |_| {});
        (0..4).for_each(|i| net.start(i));
        let lost = &mut |flying: &Flying| flying.lane == Lane::Token && flying.from.node == NodeId(loser);
        net.run_dropping(Duration::from_secs(1), lost);
        let whole = |views: &Vec<View>| views.last().is_some_and(|view| view.members.len() == 4);
        assert!(net.views.iter().all(whole), "n{loser}: {:?}", net.views);
    }
}
