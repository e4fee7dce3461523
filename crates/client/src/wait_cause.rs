//! Why a send cannot go now.
use consort_types::{ClientId, NodeId, OrderWait};
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
    /// Fewer acceptors run and vote than it takes to order anything.
    Quorum,
    /// All wait for this node, which lags behind.
    Slow(NodeId),
    /// This client of this node does not read, and its groups wait for it for some seconds: `slow = "block"`.
    SlowClient(NodeId, ClientId),
    /// The log of the daemons is as full as it may be, because copies of programs have not made checkpoints.
    Retention,
    /// The ring of this number, which decides nothing because it has no majority of its acceptors.
    Ring(u16),
}

impl From<OrderWait> for WaitCause {
    fn from(cause: OrderWait) -> Self {
        match cause {
            OrderWait::Window => Self::Window,
            OrderWait::Membership => Self::Membership,
            OrderWait::Quorum => Self::Quorum,
            OrderWait::Slow(node) => Self::Slow(node),
            OrderWait::SlowClient(node, client) => Self::SlowClient(node, client),
            OrderWait::Retention => Self::Retention,
            OrderWait::Ring(ring) => Self::Ring(ring),
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
            Self::Quorum => "too few acceptors run and vote; `consort explain` names the others, and why they do not".into(),
            Self::Slow(node) => format!("all wait for daemon {node}, which lags behind"),
            Self::SlowClient(node, client) => {
                format!("its groups wait for client {} of daemon {node}, which does not read", client.0)
            }
            Self::Retention => {
                "the log of the daemons is full up to its budget because copies of a program have not made checkpoints; \
                 `consort explain` names them"
                    .into()
            }
            Self::Ring(ring) => format!(
                "ring {ring} has no majority of its acceptors, so that it decides nothing; `consort explain` names those that it \
                 lacks"
            ),
        }
    }
}

/// `budget`, `window`, `membership`, `quorum`, `slow:n3`, `slow_client:c7@n3`, `retention`, `ring:3`.
impl fmt::Display for WaitCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget => f.write_str("budget"),
            Self::Window => f.write_str("window"),
            Self::Membership => f.write_str("membership"),
            Self::Quorum => f.write_str("quorum"),
            Self::Slow(node) => write!(f, "slow:{node}"),
            Self::SlowClient(node, client) => write!(f, "slow_client:{client}@{node}"),
            Self::Retention => f.write_str("retention"),
            Self::Ring(ring) => write!(f, "ring:{ring}"),
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
        assert_eq!(WaitCause::from(OrderWait::Retention).to_string(), "retention");
        assert_eq!(WaitCause::from(OrderWait::Quorum).to_string(), "quorum");
        assert_eq!(WaitCause::from(OrderWait::Ring(3)).to_string(), "ring:3");
        assert!(WaitCause::Ring(3).explain().starts_with("ring 3 has no majority of its acceptors"));
        assert_eq!(told[2].explain(), "all wait for daemon n3, which lags behind");
    }
}
