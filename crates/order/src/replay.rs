//! What of an order can be read again, and for which programs it is retained.
use consort_types::{Binding, Holder, Position};

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

/// What kind of declaration it is: of one kind and holder only the latest matters. Bindings of each start are a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeclarationKind {
    /// A checkpoint.
    Keep,
    /// A binding, with its token.
    Bind(u128),
    /// A withdrawal.
    Withdraw,
}

/// What a program says of one of its copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declaration {
    /// It keeps by itself what is below a position.
    Keep {
        /// Which copy.
        holder: Holder,
        /// The epoch of its binding; 0 for a plain holder.
        epoch: u64,
        /// The first position that it does not keep yet.
        from: Position,
    },
    /// It starts.
    Bind(Binding),
    /// It keeps nothing any more, and nothing is to be retained for it.
    Withdraw(Holder),
}

impl Declaration {
    /// Which copy it is about.
    pub const fn holder(&self) -> &Holder {
        match self {
            Self::Keep { holder, .. } | Self::Withdraw(holder) => holder,
            Self::Bind(binding) => &binding.holder,
        }
    }

    /// Of which kind it is.
    pub const fn kind(&self) -> DeclarationKind {
        match self {
            Self::Keep { .. } => DeclarationKind::Keep,
            Self::Bind(binding) => DeclarationKind::Bind(binding.token),
            Self::Withdraw(_) => DeclarationKind::Withdraw,
        }
    }
}

/// Why messages of clients wait: the log is as full as it may be with what copies of programs lack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overfull {
    /// The programs that hold back more than the budget: messages to their groups wait.
    pub programs: Vec<Box<str>>,
    /// The messages of all clients wait.
    pub all: bool,
}

/// What became of a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclareProgress {
    /// It is in the order, as far as this node has read it.
    Stands,
    /// The same of a binding.
    Bound {
        /// The new epoch of the copy.
        epoch: u64,
    },
    /// It was for another epoch of the copy than the present one; nothing changed.
    Superseded {
        /// The present epoch; 0 if the copy is not bound.
        epoch: u64,
        /// The label of the copy that is bound now.
        label: String,
    },
    /// All copies of the program are bound, or another number of copies was given; nothing changed.
    SeatsTaken {
        /// How many copies the order knows of the program; 0 if none was ever bound, so that a number must be given.
        copies: u16,
    },
    /// It is on its way; to be asked again.
    Pending,
    /// Others hold as many checkpoints as there may be; nothing changed.
    Full,
    /// This protocol retains nothing for holders; nothing changed.
    Unsupported,
}
