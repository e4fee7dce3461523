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

/// What became of a declared checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclareProgress {
    /// It stands in the order, as far as this node has read it.
    Stands,
    /// It is on its way; to be asked again.
    Pending,
    /// Others hold as many checkpoints as there may be; nothing changed.
    Full,
    /// This protocol retains nothing for holders; nothing changed.
    Unsupported,
}
