//! Slots and positions: where something stands in its ring, and in the order of all rings.
use consort_types::Position;
use std::fmt;

/// Names a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RingId(pub u8);

impl fmt::Display for RingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ring {}", self.0)
    }
}

/// A place in the order of one ring, from 1. Every item fills one, skips leave many free: slots pass like time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u64);

/// The bits of a position that name its ring.
const RING_BITS: u32 = 8;

impl Slot {
    /// The first one.
    pub const FIRST: Self = Self(1);
    /// The last one. At [`Slot::PER_SECOND`] it is reached after 34 years.
    pub const LAST: Self = Self(u64::MAX >> RING_BITS);
    /// How many pass in a second.
    pub const PER_SECOND: u64 = 1 << 26;

    /// So many behind this one, and never behind [`Slot::LAST`].
    #[must_use]
    pub const fn plus(self, slots: u64) -> Self {
        let sum = self.0.saturating_add(slots);
        if sum > Self::LAST.0 { Self::LAST } else { Self(sum) }
    }

    /// The position of what stands there in a ring. Positions grow by slot, then by ring.
    pub const fn position(self, ring: RingId) -> Position {
        //= MP01
        Position(self.plus(0).0 << RING_BITS | ring.0 as u64)
    }

    /// The slot of a position.
    pub const fn of(position: Position) -> Self {
        Self(position.0 >> RING_BITS)
    }
}
