//! Who stands in which network: one for all, or a ring's own for each part of a chain.
use consort_daemon::config::Protocol;
use std::collections::BTreeSet;

/// The fewest nodes that two networks and a gateway between them have.
pub const FEWEST: u16 = 3;
/// From so many nodes on there are three networks.
const THREE: u16 = 5;

/// From so many nodes on they form a loop, with a second gateway between the first two.
const LOOP: u16 = 7;

/// The nodes of each network, counted from 0. Those of token rings that gateways join follow each other, as a chain; each
/// shares one node with the next. Of many nodes the last stands in the first network, too, and the one before the first gateway
/// in the second.
pub fn networks(protocol: Protocol, nodes: u16) -> Vec<Vec<usize>> {
    let last = usize::from(nodes) - 1;
    let ends = match protocol {
        Protocol::MultiRing if nodes >= THREE => vec![0, last / 3, last - last / 3, last],
        Protocol::MultiRing if nodes >= FEWEST => vec![0, last / 2, last],
        _ => vec![0, last],
    };
    let mut networks: Vec<Vec<usize>> = ends.windows(2).map(|ends| (ends[0]..=ends[1]).collect()).collect();
    if protocol == Protocol::MultiRing && nodes >= LOOP {
        networks[0].push(last);
        networks[1].insert(0, ends[1] - 1);
    }
    networks
}

/// The nodes that stand in two networks.
pub fn gateways(networks: &[Vec<usize>]) -> Vec<usize> {
    let all: BTreeSet<usize> = networks.iter().flatten().copied().collect();
    let stands = |node: &usize| networks.iter().filter(|network| network.contains(node)).count();
    all.into_iter().filter(|node| stands(node) > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_form_a_chain_or_a_loop_and_others_have_one_network() {
        let of = |nodes| networks(Protocol::MultiRing, nodes);
        assert_eq!(of(3), [[0, 1], [1, 2]]);
        assert_eq!(of(5), [vec![0, 1], vec![1, 2, 3], vec![3, 4]]);
        assert_eq!(of(7), [vec![0, 1, 2, 6], vec![1, 2, 3, 4], vec![4, 5, 6]]);
        assert_eq!((gateways(&of(7)), gateways(&of(5)), gateways(&of(3))), (vec![1, 2, 4, 6], vec![1, 3], vec![1]));
        for nodes in FEWEST..=32 {
            let of = of(nodes);
            let places: usize = of.iter().map(Vec::len).sum();
            let more = if nodes < LOOP { 0 } else { 2 };
            assert_eq!(places, usize::from(nodes) + of.len() - 1 + more, "{of:?}");
            assert!(of.iter().all(|network| network.len() > 1), "{of:?}");
        }
        assert_eq!(networks(Protocol::Ring, 3), [[0, 1, 2]]);
        assert_eq!(gateways(&networks(Protocol::Toto, 9)), [] as [usize; 0]);
    }
}
