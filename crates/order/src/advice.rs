//! What stands outside of the order and knows better where it should be led from.
use consort_types::{NodeId, OrderStream};

/// What an outside registry advises. No promise depends on it: it may be missing, late, wrong, or differ from node to node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Who should lead.
    Leader {
        /// Which order.
        stream: OrderStream,
        /// The node; none where the engine chooses by itself.
        node: Option<NodeId>,
    },
    /// In which order nodes should pass things on to each other.
    Order {
        /// In which order of messages.
        stream: OrderStream,
        /// The nodes. Those that are not named come behind, in the engine's own order.
        nodes: Vec<NodeId>,
    },
}

impl Advice {
    /// The order that it is about.
    pub const fn stream(&self) -> OrderStream {
        match self {
            Self::Leader { stream, .. } | Self::Order { stream, .. } => *stream,
        }
    }
}
