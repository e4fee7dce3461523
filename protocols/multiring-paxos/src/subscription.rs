//! Changes of what is subscribed, as ordered commands.
use crate::slot::{RingId, Slot};

/// Names those that subscribe together: all of them read the same rings, and hand out the same sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u64);

/// Whether a ring is to be read or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It is to be read from here on.
    Join,
    /// It is to be read no more.
    Leave,
}

/// A command, of which a copy is ordered in `ring` and another in `beside`. The first of each counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Whose subscriptions change.
    pub subscriber: SubscriberId,
    /// Its number among the subscriber's, from 1. It is proposed once the one before it has taken effect.
    pub number: u64,
    /// What is to become of the ring.
    pub wish: Wish,
    /// The ring that is joined or left.
    pub ring: RingId,
    /// A ring that is subscribed before and after.
    pub beside: RingId,
    /// The copy in `ring` stands at this index of its log or behind. Whoever joins reads that log from there or before.
    pub since: u64,
}

/// How far a change is of which one copy was read.
///
/// | from | to | when |
/// |---|---|---|
/// | `Settled` | `Joining` | a join's copy beside is handed out |
/// | `Joining` | `Settled` | the copy in the ring is known |
/// | `Settled` | `Leaving` | a leave's first copy is handed out |
/// | `Leaving` | `Settled` | the other copy is handed out |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// No change is half read.
    #[default]
    Settled,
    /// Nothing is handed out until the copy in the ring is known.
    Joining {
        /// The ring that is joined.
        ring: RingId,
        /// The slot of the copy beside.
        at: Slot,
        /// The copy in the ring stands at this index of its log or behind.
        since: u64,
    },
    /// One copy of a leave was handed out.
    Leaving {
        /// In which ring that stood.
        first: RingId,
    },
}

/// What a ring that is read means for the merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It is read, but not merged: it may be joined.
    Cached {
        /// The number and the slot of the copy that joins it, once that is read. What follows is kept.
        copy: Option<(u64, Slot)>,
    },
    /// It is merged from a slot on, up to another one where it is being left.
    Merged {
        /// Nothing below counts.
        from: Slot,
        /// Nothing behind counts.
        until: Option<Slot>,
    },
}
