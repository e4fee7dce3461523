//! Which nodes and rings can be reached by which ring, as they are described. [`crate::tree`] has what is used of that in a view.
use crate::key::RingNumber;
use consort_types::{Duration, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// One ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingNodes {
    /// Its number, from 1.
    pub id: RingNumber,
    /// The nodes that stand in it. One that stands in several rings is a gateway between them.
    pub nodes: Vec<NodeId>,
    /// How long packets are under way between its nodes at most, one way, where that is far more than in a LAN.
    pub delay: Duration,
}

/// The rings as one node sees them.
#[derive(Clone, Debug)]
pub struct Layout {
    rings: BTreeMap<RingNumber, BTreeSet<NodeId>>,
    me: NodeId,
    /// For each ring of this node: the rings that are reached by it without this node, itself among them.
    beyond: BTreeMap<RingNumber, BTreeSet<RingNumber>>,
}

impl Layout {
    /// What these rings are for this node.
    pub fn new(me: NodeId, rings: &[RingNodes]) -> Self {
        let rings = rings.iter().map(|ring| (ring.id, ring.nodes.iter().copied().collect())).collect();
        let mut layout = Self { rings, me, beyond: BTreeMap::new() };
        for ring in layout.of(me) {
            let (rings, _) = layout.reached(ring, &|node| node != me);
            layout.beyond.insert(ring, rings);
        }
        layout
    }

    /// The rings that a node stands in, ascending.
    pub fn of(&self, node: NodeId) -> Vec<RingNumber> {
        self.rings.iter().filter(|(_, nodes)| nodes.contains(&node)).map(|(ring, _)| *ring).collect()
    }

    /// Whether a node stands in a ring.
    pub fn stands_in(&self, node: NodeId, ring: RingNumber) -> bool {
        self.rings.get(&ring).is_some_and(|nodes| nodes.contains(&node))
    }

    fn beyond(&self, ring: RingNumber) -> impl Iterator<Item = RingNumber> {
        self.beyond.get(&ring).into_iter().flatten().copied()
    }

    /// Whether a node is reached by one of this node's rings.
    pub fn is_beyond(&self, ring: RingNumber, node: NodeId) -> bool {
        node != self.me && self.beyond(ring).any(|ring| self.stands_in(node, ring))
    }

    /// The rings and nodes that are reached from a ring, going only by nodes that `goes` allows.
    pub fn reached(&self, from: RingNumber, goes: &dyn Fn(NodeId) -> bool) -> (BTreeSet<RingNumber>, BTreeSet<NodeId>) {
        let (mut rings, mut nodes, mut open) = (BTreeSet::from([from]), BTreeSet::new(), vec![from]);
        while let Some(ring) = open.pop() {
            for node in self.rings.get(&ring).into_iter().flatten().filter(|node| goes(**node)) {
                if nodes.insert(*node) {
                    open.extend(self.of(*node).into_iter().filter(|ring| rings.insert(*ring)));
                }
            }
        }
        (rings, nodes)
    }
}
