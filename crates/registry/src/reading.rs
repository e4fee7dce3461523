//! What the registry advises, and what of that is news.
use crate::layout;
use consort_order::Advice;
use consort_types::{NodeId, OrderStream};
use std::collections::BTreeMap;

/// What stands there of one ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The names of those that are registered as acceptors.
    pub(crate) acceptors: Vec<String>,
    /// What the key says of who should lead; `None` where it is missing.
    pub(crate) coordinator: Option<String>,
    /// What it says of the order of the ring.
    pub(crate) order: Option<String>,
}

/// What of a ring was told last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Told {
    leader: Option<NodeId>,
    order: Vec<NodeId>,
    /// Keys that could not be read: people are told once.
    unreadable: Vec<(&'static str, String)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    rings: BTreeMap<u16, Told>,
}

impl Reading {
    /// Takes what was found of a ring; what is to be told of it now.
    pub(crate) fn take(&mut self, ring: u16, found: &Found) -> Vec<Advice> {
        let told = self.rings.entry(ring).or_default();
        let mut unreadable = Vec::new();
        let wanted = found.coordinator.as_deref().filter(|text| !text.trim().is_empty());
        let named = wanted.and_then(layout::node);
        if let Some(text) = wanted.filter(|_| named.is_none()) {
            unreadable.push(("coordinator", text.to_owned()));
        }
        let order = found.order.as_deref().map(layout::nodes);
        if let (Some(None), Some(text)) = (&order, &found.order) {
            unreadable.push(("order", text.clone()));
        }
        for (key, text) in unreadable.iter().filter(|one| !told.unreadable.contains(one)) {
            tracing::warn!(
                ring,
                key,
                text,
                "no number of a node in the registry: write one like 3, an order like 3 1 2"
            );
        }
        // One that is not registered is not there, or does not vote.
        let is_there = |node: &NodeId| found.acceptors.iter().any(|name| layout::node(name) == Some(*node));
        let leader = named.filter(is_there);
        let now = Told { leader, order: order.flatten().unwrap_or_default(), unreadable };
        news(ring, std::mem::replace(told, now.clone()), now)
    }

    /// The session has ended: nothing is advised any more. What stood there may be old by the time there is another.
    pub(crate) fn withdraw(&mut self) -> Vec<Advice> {
        let before = std::mem::take(&mut self.rings);
        before.into_iter().flat_map(|(ring, told)| news(ring, told, Told::default())).collect()
    }
}

fn news(ring: u16, before: Told, now: Told) -> Vec<Advice> {
    let stream = OrderStream(ring);
    let leader = (before.leader != now.leader).then_some(Advice::Leader { stream, node: now.leader });
    let order = (before.order != now.order).then_some(Advice::Order { stream, nodes: now.order });
    leader.into_iter().chain(order).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(acceptors: &[&str], coordinator: Option<&str>, order: Option<&str>) -> Found {
        let acceptors = acceptors.iter().map(ToString::to_string).collect();
        Found { acceptors, coordinator: coordinator.map(Into::into), order: order.map(Into::into) }
    }

    fn leader(ring: u16, node: Option<u16>) -> Advice {
        Advice::Leader { stream: OrderStream(ring), node: node.map(NodeId) }
    }

    #[test]
    fn the_coordinator_that_is_named_is_advised_while_it_is_registered() {
        let mut reading = Reading::default();
        assert!(reading.take(1, &found(&["1", "2"], None, None)).is_empty());
        assert_eq!(reading.take(1, &found(&["1", "2"], Some("2\n"), None)), [leader(1, Some(2))]);
        assert!(reading.take(1, &found(&["2"], Some("2"), None)).is_empty(), "told already");
        assert_eq!(reading.take(1, &found(&["1"], Some("2"), None)), [leader(1, None)]);
        assert_eq!(reading.take(1, &found(&["2"], Some("2"), None)), [leader(1, Some(2))]);
        assert_eq!(reading.take(1, &found(&["2"], Some("two"), None)), [leader(1, None)], "no number");
        assert!(reading.take(1, &found(&["2"], Some(""), None)).is_empty());
    }

    #[test]
    fn an_order_is_told_once_and_all_is_withdrawn_with_the_session() {
        let mut reading = Reading::default();
        let order =
            |nodes: &[u16]| Advice::Order { stream: OrderStream(4), nodes: nodes.iter().map(|n| NodeId(*n)).collect() };
        assert_eq!(reading.take(4, &found(&["2"], Some("2"), Some("2 1"))), [leader(4, Some(2)), order(&[2, 1])]);
        assert!(reading.take(4, &found(&["2"], Some("2"), Some("2,1"))).is_empty());
        assert_eq!(reading.take(4, &found(&["2"], Some("2"), Some("2 x"))), [order(&[])]);
        assert_eq!(reading.take(4, &found(&["2"], Some("2"), Some("1"))), [order(&[1])]);
        assert_eq!(reading.withdraw(), [leader(4, None), order(&[])]);
        assert!(reading.withdraw().is_empty());
    }
}
