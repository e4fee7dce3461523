//! What accepted messages wait for.
use crate::{ClientId, NodeId};
use std::fmt;

/// Why messages that were accepted have no place in the order yet, or have one and are not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrderWait {
    /// Their turn, and the windows of flow control: more is offered than is carried.
    Window,
    /// The daemons agree on who is there, or tell each other their groups.
    Membership,
    /// This node, which lags behind: nothing new may follow before it has what came before.
    Slow(NodeId),
    /// This client of this node, which does not read: its groups take nothing new until it does.
    SlowClient(NodeId, ClientId),
    /// Acceptors: fewer of them run and vote than it takes to order anything.
    Quorum,
    /// Copies of programs, which have not kept what the log holds for them: it is as full as it may be.
    Retention,
    /// The ring of this number, which has no majority of its acceptors.
    Ring(u16),
}

impl OrderWait {
    /// Its name in metrics; those of [`Self::Slow`] and [`Self::SlowClient`] name no node, that of [`Self::Ring`] no ring.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Membership => "membership",
            Self::Quorum => "quorum",
            Self::Slow(_) => "slow",
            Self::SlowClient(..) => "slow_client",
            Self::Retention => "retention",
            Self::Ring(_) => "ring",
        }
    }
}

/// `window`, `membership`, `quorum`, `slow:n3`, `slow_client:c7@n3`, `retention`, `ring:3`.
impl fmt::Display for OrderWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slow(node) => write!(f, "slow:{node}"),
            Self::SlowClient(node, client) => write!(f, "slow_client:{client}@{node}"),
            Self::Ring(ring) => write!(f, "ring:{ring}"),
            other => f.write_str(other.name()),
        }
    }
}
