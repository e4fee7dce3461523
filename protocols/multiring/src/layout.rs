//! Which nodes and rings lie behind which ring. Rings and nodes form a tree, so there is one way from each to each.
use crate::key::RingNumber;
use consort_types::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// One ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingNodes {
    /// Its number, from 1.
    pub id: RingNumber,
    /// The nodes that stand in it. One that stands in several rings is a gateway between them.
    pub nodes: Vec<NodeId>,
}

/// The rings as one node sees them.
#[derive(Clone, Debug)]
pub struct Layout {
    rings: BTreeMap<RingNumber, BTreeSet<NodeId>>,
    me: NodeId,
    /// For each ring of this node: the rings that lie on its side, itself among them.
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

    /// All rings, ascending.
    pub fn all(&self) -> impl Iterator<Item = RingNumber> {
        self.rings.keys().copied()
    }

    /// Whether a node stands in a ring.
    pub fn stands_in(&self, node: NodeId, ring: RingNumber) -> bool {
        self.rings.get(&ring).is_some_and(|nodes| nodes.contains(&node))
    }

    /// The rings on the side of one of this node's rings, that ring among them.
    pub fn beyond(&self, ring: RingNumber) -> impl Iterator<Item = RingNumber> {
        self.beyond.get(&ring).into_iter().flatten().copied()
    }

    /// Whether a node lies on the side of one of this node's rings.
    pub fn is_beyond(&self, ring: RingNumber, node: NodeId) -> bool {
        node != self.me && self.beyond(ring).any(|ring| self.stands_in(node, ring))
    }

    /// Who leads to a ring in which this node does not stand: a node of the own ring on whose side it lies.
    pub fn gateway_to(&self, ring: RingNumber) -> Option<NodeId> {
        let (own, _) = self.beyond.iter().find(|(own, rings)| **own != ring && rings.contains(&ring))?;
        let leads = |node: NodeId| {
            let others = self.of(node).into_iter().filter(|other| other != own);
            others.into_iter().any(|other| self.reached(other, &|next| next != node).0.contains(&ring))
        };
        self.rings.get(own)?.iter().copied().find(|node| *node != self.me && leads(*node))
    }

    /// The rings in which any of these nodes stands.
    pub fn rings_of(&self, nodes: impl IntoIterator<Item = NodeId>) -> BTreeSet<RingNumber> {
        nodes.into_iter().flat_map(|node| self.of(node)).collect()
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
