//! Identities and counters, each a type of its own so that none is taken for another.
use std::fmt;

/// The index of a node in the configuration. An index, never an address: addresses may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

/// Which incarnation of a node this is. A later incarnation has a larger number; seeing it proves the earlier one dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// The largest there is. Incarnations count microseconds since 1970, and this is reached in 2255: what is larger was
    /// made up, or is damaged.
    pub const LAST: Self = Self((1 << 53) - 1);

    /// Whether a node can have such an incarnation.
    pub const fn is_plausible(self) -> bool {
        self.0 <= Self::LAST.0
    }
}

/// One incarnation of one node: what views list and what per-peer state is keyed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId {
    /// Which node.
    pub node: NodeId,
    /// Which of its incarnations.
    pub incarnation: Incarnation,
}

impl MemberId {
    /// Names one incarnation of one node.
    pub const fn new(node: u16, incarnation: u64) -> Self {
        Self { node: NodeId(node), incarnation: Incarnation(incarnation) }
    }
}

/// An independently ordered sequence: one for a single ring, one per ring where there are many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderStream(pub u16);

/// A place among the protocol packets of one configuration, counted from 1; 0 means "none yet".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

impl Seq {
    /// The place after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The place `n` further on, stopping at the largest number there is.
    pub const fn plus(self, n: u64) -> Self {
        Self(self.0.saturating_add(n))
    }

    /// How far this place lies behind `other`; zero where it does not.
    pub const fn behind(self, other: Self) -> u64 {
        other.0.saturating_sub(self.0)
    }
}

/// Where a message stands in its stream: equal at every member that delivers it in the same part of its view, larger for
/// later messages, gaps allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// Of a message that an engine delivers before the one order: it stands nowhere in it.
    pub const OUTSIDE: Self = Self(0);
}

/// What `submit` returned for an accepted message; given back with its delivery at the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// An offered message at one node: the same number whenever the same message is offered there, never another's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferId(pub u64);

/// Names a durable write, so that its completion can be told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A client session of one node, numbered by the driver; never reused within an incarnation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u32);

impl ClientId {
    /// Set in the numbers of clients that speak the session protocol of Spread.
    pub const SPREAD: u32 = 1 << 31;

    /// Whether the client speaks the session protocol of Spread, at whichever daemon it is.
    pub const fn speaks_spread(self) -> bool {
        self.0 & Self::SPREAD != 0
    }
}

/// Tells clusters apart that share a network: a hash of the cluster's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub u64);

/// A hash of all settings that every member must share. Nodes that differ never talk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigHash(pub u64);

macro_rules! show {
    ($($kind:ident $form:literal),* $(,)?) => { $(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $form, self.0)
            }
        }
    )* };
}

show!(
    NodeId "n{}", Incarnation "{}", OrderStream "s{}", Seq "{}", Position "{}", MessageId "m{}", OfferId "o{}", Ticket "t{}",
    ClientId "c{}", ClusterId "{:016x}", ConfigHash "{:016x}",
);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.incarnation)
    }
}
