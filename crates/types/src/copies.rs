//! Programs that keep a state in several copies, and what the order knows of each copy.
use crate::{Holder, Position};

/// A copy says in which state it starts. What the log releases depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The order that the positions belong to; 0 for whatever order there is.
    pub order: u64,
    /// Which copy of which program.
    pub holder: Holder,
    /// Names this start of the copy; never 0. A copy that asks again sees by it that an earlier binding was its own.
    pub token: u128,
    /// The epoch of the copy that it replaces; 0 for a copy that was never bound.
    pub replaces: u64,
    /// The first position that the copy has no checkpoint of, which may be less than it once declared; 1 where it has none.
    pub from: Position,
    /// How many copies the program has; 0 for as many as the order knows already.
    pub copies: u16,
    /// For people: which server this is, and where. [`Binding::LABEL_MAX`] bytes at most.
    pub label: String,
}

impl Binding {
    /// The longest label, in bytes.
    pub const LABEL_MAX: usize = 128;
}

/// What is known of the copies of a program, at a position of the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    /// The copy that was asked about.
    pub holder: Holder,
    /// Names the order; 0 while the daemon knows none.
    pub order: u64,
    /// Whether positions outlive a restart of all daemons. If not, no copy can be bound, and all that follows is 0.
    pub lasts: bool,
    /// How many copies the program has; 0 if none was ever bound.
    pub copies: u16,
    /// The first position of the program's history: behind the last message before its first binding. 0 if none was bound.
    pub began: Position,
    /// The oldest position that is retained; the one behind `last` if none is.
    pub first: Position,
    /// The last position.
    pub last: Position,
    /// Bytes of the log that the daemon retains.
    pub held: u64,
    /// If it is reached, the messages of clients wait, or the oldest part goes. Copies are to checkpoint at half of it.
    pub budget: u64,
    /// How many acceptors are configured.
    pub voters: u16,
    /// The seats that are bound or were withdrawn, by holder.
    pub seats: Vec<Seat>,
}

impl Copies {
    /// Of a daemon whose order does not last.
    pub fn unsupported(holder: Holder) -> Self {
        let zero = Position(0);
        Self {
            holder,
            order: 0,
            lasts: false,
            copies: 0,
            began: zero,
            first: zero,
            last: zero,
            held: 0,
            budget: 0,
            voters: 0,
            seats: Vec::new(),
        }
    }
}

/// A copy in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Which copy.
    pub holder: Holder,
    /// Names its binding, or its withdrawal: what the next binding replaces.
    pub epoch: u64,
    /// The token of its binding; 0 if it was withdrawn.
    pub token: u128,
    /// The first position that it has no checkpoint of; 0 if it was withdrawn.
    pub from: Position,
    /// The label of its binding; empty if it was withdrawn.
    pub label: String,
}
