//! Why a send cannot go now.
use consort_types::{NodeId, OrderWait};
use std::fmt;

/// Why a send cannot go now: what the sends before it wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitCause {
    /// The client's own credit is used up, and the daemon has named no other cause: those before are on their way.
    Budget,
    /// The daemons send as much as flow control lets them: more is offered than is carried.
    Window,
    /// The daemons agree on who is there, or tell each other their groups.
    Membership,
    /// All wait for this node, which lags behind.
    Slow(NodeId),
}

impl From<OrderWait> for WaitCause {
    fn from(cause: OrderWait) -> Self {
        match cause {
            OrderWait::Window => Self::Window,
            OrderWait::Membership => Self::Membership,
            OrderWait::Slow(node) => Self::Slow(node),
        }
    }
}

impl WaitCause {
    /// The same in a sentence's words.
    pub fn explain(self) -> String {
        match self {
            Self::Budget => "earlier sends have used up this client's credit".into(),
            Self::Window => "the daemons are offered more than they carry".into(),
            Self::Membership => "the daemons are agreeing on who is there".into(),
            Self::Slow(node) => format!("all wait for daemon {node}, which lags behind"),
        }
    }
}

/// `budget`, `window`, `membership`, `slow:n3`.
impl fmt::Display for WaitCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget => f.write_str("budget"),
            Self::Window => f.write_str("window"),
            Self::Membership => f.write_str("membership"),
            Self::Slow(node) => write!(f, "slow:{node}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_name_and_its_words() {
        let told = [OrderWait::Window, OrderWait::Membership, OrderWait::Slow(NodeId(3))].map(WaitCause::from);
        assert_eq!(told.map(|cause| cause.to_string()), ["window", "membership", "slow:n3"]);
        assert_eq!(WaitCause::Budget.to_string(), "budget");
        assert_eq!(told[2].explain(), "all wait for daemon n3, which lags behind");
    }
}
