//! What of an order can be read again.
use consort_types::Position;

/// Which part of an order a node can show once more. Positions are consecutive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retained {
    /// Names the order: positions of another mean nothing here. Never 0.
    pub order: u64,
    /// The oldest position that is retained; the one behind `last` where none is.
    pub first: Position,
    /// The last one.
    pub last: Position,
}

impl Retained {
    /// Whether what stands there can be shown.
    pub const fn contains(&self, position: Position) -> bool {
        self.first.0 <= position.0 && position.0 <= self.last.0
    }
}
