//! Up to where nothing more comes from each ring, and up to where the nodes of each ring hold everything.
use crate::key::RingNumber;
use std::collections::{BTreeMap, BTreeSet};

/// What one node knows in one view. Nothing in it ever falls.
#[derive(Clone, Debug)]
pub struct Horizons {
    /// The rings that have members in the view.
    rings: BTreeSet<RingNumber>,
    /// For each ring of this node: what the order of that ring says of every ring.
    by_order: BTreeMap<RingNumber, BTreeMap<RingNumber, u64>>,
    /// What gateways told of rings that this node does not stand in: their nodes hold every safe message up to here.
    held: BTreeMap<RingNumber, u64>,
}

/// What a node knows of one ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Horizon {
    /// No message that was first sent there, with this stamp or a lower one, is still to come.
    pub reached: u64,
    /// Its nodes hold all safe messages of all rings up to this stamp.
    pub held: u64,
}

impl Horizons {
    /// A view with members in these rings begins; this node stands in `own`.
    pub fn new(rings: BTreeSet<RingNumber>, own: impl IntoIterator<Item = RingNumber>) -> Self {
        let by_order = own.into_iter().map(|ring| (ring, BTreeMap::new())).collect();
        Self { rings, by_order, held: BTreeMap::new() }
    }

    /// The rings that have members in the view.
    pub const fn rings(&self) -> &BTreeSet<RingNumber> {
        &self.rings
    }

    /// In the order of ring `own` it turned out that nothing of `ring` up to `stamp` is still to come there.
    pub fn reach(&mut self, own: RingNumber, ring: RingNumber, stamp: u64) {
        //= TM12
        if let Some(known) = self.by_order.get_mut(&own) {
            let reached = known.entry(ring).or_default();
            *reached = stamp.max(*reached);
        }
    }

    /// A gateway told what the nodes of a ring hold.
    pub fn hold(&mut self, ring: RingNumber, stamp: u64) {
        //= TM15
        let held = self.held.entry(ring).or_default();
        *held = stamp.max(*held);
    }

    /// What the order of ring `own` says of a ring.
    pub fn reached_in(&self, own: RingNumber, ring: RingNumber) -> u64 {
        self.by_order.get(&own).and_then(|known| known.get(&ring)).copied().unwrap_or_default()
    }

    /// What is known of a ring here.
    pub fn of(&self, ring: RingNumber) -> Horizon {
        let reached = self.by_order.keys().map(|own| self.reached_in(*own, ring)).max().unwrap_or_default();
        Horizon { reached, held: self.held_in(ring) }
    }

    /// Up to where the nodes of a ring hold all safe messages. Those of an own ring hold what its order has told of every ring:
    /// it hands out no safe message that one of them lacks.
    pub fn held_in(&self, ring: RingNumber) -> u64 {
        //= TM15
        if self.by_order.contains_key(&ring) {
            return self.rings.iter().map(|other| self.reached_in(ring, *other)).min().unwrap_or_default();
        }
        self.held.get(&ring).copied().unwrap_or_default()
    }

    /// What is known of each ring that has members in the view.
    pub fn all(&self) -> Vec<(RingNumber, Horizon)> {
        self.rings.iter().map(|ring| (*ring, self.of(*ring))).collect()
    }

    /// Up to where everything has come from everywhere, and up to where the nodes of all rings hold what is safe.
    pub fn least(&self) -> Horizon {
        least(self.rings.iter().map(|ring| self.of(*ring)))
    }
}

/// What holds for all of them.
pub fn least(horizons: impl IntoIterator<Item = Horizon>) -> Horizon {
    let both = |a: Horizon, b: Horizon| Horizon { reached: a.reached.min(b.reached), held: a.held.min(b.held) };
    horizons.into_iter().reduce(both).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: RingNumber = RingNumber(1);
    const B: RingNumber = RingNumber(2);
    const C: RingNumber = RingNumber(3);

    #[test]
    fn what_nodes_of_an_own_ring_hold_follows_from_its_order_alone() {
        //= TM15 test
        let mut horizons = Horizons::new([A, B, C].into(), [A, B]);
        for (ring, stamp) in [(A, 9), (B, 7), (C, 8)] {
            horizons.reach(A, ring, stamp);
        }
        horizons.reach(B, C, 20);
        assert_eq!(horizons.held_in(A), 7, "what ring 2 says of ring 3 counts for its own nodes alone");
        assert_eq!((horizons.of(C).reached, horizons.held_in(B)), (20, 0));
        assert_eq!(horizons.least(), Horizon { reached: 7, held: 0 });
    }

    #[test]
    fn nothing_falls() {
        //= TM12 test
        let mut horizons = Horizons::new([A, C].into(), [A]);
        horizons.reach(A, A, 5);
        horizons.reach(A, A, 3);
        horizons.hold(C, 4);
        horizons.hold(C, 2);
        assert_eq!((horizons.of(A).reached, horizons.of(C).held), (5, 4));
    }
}
