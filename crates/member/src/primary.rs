//! Which view may act alone.
use consort_types::{MemberId, NodeId, Primary};
use std::collections::BTreeMap;

/// How the primary view is chosen. Views of one policy that hold never have disjoint members, so that of two primary
/// views one is always known to a member of the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// No view is primary.
    #[default]
    None,
    /// More than half of the configured nodes.
    Majority,
    /// More than half of all weights; a node that is not named weighs 1.
    Weights(BTreeMap<NodeId, u32>),
    /// The view that holds this node.
    Static(NodeId),
}

/// A policy that cannot work with the configured nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError(
    /// What is wrong and what to do.
    pub String,
);

impl std::fmt::Display for PolicyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PolicyError {}

impl Policy {
    /// Whether a view with these members would be primary.
    pub fn holds(&self, configured: &[NodeId], members: &[MemberId]) -> bool {
        match self {
            Self::None => false,
            Self::Majority => members.len() * 2 > configured.len(),
            Self::Weights(weights) => {
                let weight = |node: &NodeId| u64::from(*weights.get(node).unwrap_or(&1));
                let present: u64 = members.iter().map(|member| weight(&member.node)).sum();
                present * 2 > configured.iter().map(weight).sum()
            }
            Self::Static(node) => members.iter().any(|member| member.node == *node),
        }
    }

    /// How a regular view with these members begins: pending where the policy holds.
    pub fn at_install(&self, configured: &[NodeId], members: &[MemberId]) -> Primary {
        if self.holds(configured, members) { Primary::Pending } else { self.never() }
    }

    /// The state of a view that cannot become primary, such as a closing one.
    pub const fn never(&self) -> Primary {
        match self {
            Self::None => Primary::NoPolicy,
            Self::Majority | Self::Weights(_) | Self::Static(_) => Primary::No,
        }
    }

    /// Checks that the policy names only configured nodes and that some view can hold it.
    ///
    /// # Errors
    /// [`PolicyError`] says what is wrong.
    pub fn validate(&self, configured: &[NodeId]) -> Result<(), PolicyError> {
        let unknown = |node: &NodeId| PolicyError(format!("{node} is not among the nodes; name a configured one"));
        match self {
            Self::None | Self::Majority => Ok(()),
            Self::Static(node) if configured.contains(node) => Ok(()),
            Self::Static(node) => Err(unknown(node)),
            Self::Weights(weights) => {
                if let Some(node) = weights.keys().find(|node| !configured.contains(node)) {
                    return Err(unknown(node));
                }
                let all_zero = configured.iter().all(|node| weights.get(node) == Some(&0));
                if all_zero {
                    Err(PolicyError("all weights are 0; give at least one node a weight".into()))
                } else {
                    Ok(())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(n: u16) -> Vec<NodeId> {
        (1..=n).map(NodeId).collect()
    }

    fn members(list: &[u16]) -> Vec<MemberId> {
        list.iter().map(|node| MemberId::new(*node, 1)).collect()
    }

    #[test]
    fn each_policy_holds_where_it_should() {
        assert!(!Policy::None.holds(&nodes(1), &members(&[1])));
        assert!(Policy::Majority.holds(&nodes(5), &members(&[1, 2, 3])));
        assert!(!Policy::Majority.holds(&nodes(4), &members(&[1, 2])));
        let weights = Policy::Weights([(NodeId(1), 3)].into());
        assert!(weights.holds(&nodes(3), &members(&[1])));
        assert!(!weights.holds(&nodes(3), &members(&[2, 3])));
        assert!(Policy::Static(NodeId(2)).holds(&nodes(9), &members(&[2])));
        assert!(!Policy::Static(NodeId(2)).holds(&nodes(9), &members(&[1, 3, 4, 5, 6, 7, 8, 9])));
    }

    #[test]
    fn without_a_policy_a_view_is_neither_primary_nor_not() {
        assert_eq!(Policy::Majority.at_install(&nodes(3), &members(&[1, 2])), Primary::Pending);
        assert_eq!(Policy::Majority.at_install(&nodes(3), &members(&[1])), Primary::No);
        assert_eq!(Policy::None.at_install(&nodes(3), &members(&[1, 2, 3])), Primary::NoPolicy);
        assert_eq!((Policy::None.never(), Policy::Majority.never()), (Primary::NoPolicy, Primary::No));
    }

    #[test]
    fn a_policy_that_no_view_can_hold_is_refused() {
        assert!(Policy::Majority.validate(&nodes(3)).is_ok());
        assert!(Policy::Static(NodeId(9)).validate(&nodes(3)).unwrap_err().0.contains("n9"));
        assert!(Policy::Weights([(NodeId(9), 1)].into()).validate(&nodes(3)).is_err());
        let zero = Policy::Weights(nodes(2).into_iter().map(|node| (node, 0)).collect());
        assert!(zero.validate(&nodes(2)).unwrap_err().0.contains("all weights are 0"));
    }
}
