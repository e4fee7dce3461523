//! What accepted messages wait for.
use crate::NodeId;
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
}

impl OrderWait {
    /// Its name in metrics; that of [`Self::Slow`] names no node.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Membership => "membership",
            Self::Slow(_) => "slow",
        }
    }
}

/// `window`, `membership`, `slow:n3`.
impl fmt::Display for OrderWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slow(node) => write!(f, "slow:{node}"),
            other => f.write_str(other.name()),
        }
    }
}
