//! Places in the order of all rings.
use consort_types::Position;
use std::fmt;

/// The number of a ring in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RingNumber(pub u8);

impl fmt::Display for RingNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ring {}", self.0)
    }
}

/// Where a message stands among those of all rings: by its stamp, and where stamps are equal by the ring that gave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The stamp that its first ring gave it; less than [`consort_ring::STAMP_END`].
    pub stamp: u64,
    /// The ring that it was first sent on.
    pub ring: RingNumber,
}

impl Key {
    /// The same as a position.
    pub const fn position(self) -> Position {
        //= TM10
        Position(self.stamp << 8 | self.ring.0 as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_go_by_stamp_and_then_by_ring() {
        //= TM10 test
        let last = consort_ring::STAMP_END - 1;
        let keys = [(1, 255), (2, 1), (2, 2), (last, 1), (last, 255)];
        let keys = keys.map(|(stamp, ring)| Key { stamp, ring: RingNumber(ring) });
        assert!(keys.is_sorted_by(|a, b| a < b && a.position() < b.position()));
    }
}
