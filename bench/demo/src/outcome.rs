//! What came of the parts in which daemons are killed.
use serde::Serialize;
use std::path::PathBuf;

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Trouble {
    /// The node whose daemon was killed.
    pub node: u16,
    /// From the kill until the clients of all others were told.
    pub crash_ms: f64,
    /// From the new start until the clients of all were told.
    pub restart_ms: f64,
    /// The views that the first node's client was told.
    pub views: Vec<Viewed>,
    /// The daemon that joins two rings was killed then, and came back; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handed_over: Option<HandedOver>,
    pub clients: usize,
    pub sent: u64,
    pub delivered: u64,
    /// How many promises were watched over.
    pub promises: usize,
    /// Those that were broken, a sentence each.
    pub violations: Vec<String>,
    /// Where the clients' traces were kept because of that.
    pub trace: Option<PathBuf>,
}

/// What came of killing the daemon that joins two rings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HandedOver {
    /// Its node.
    pub node: u16,
    /// The one that stood by and joined them then.
    pub standby: u16,
    /// From the kill until the clients of all others were told of one view of theirs.
    pub taken_over_ms: f64,
    /// From the new start until the clients of all were told.
    pub back_ms: f64,
}

/// A view as a client was told it.
#[derive(Clone, Debug, Serialize)]
pub struct Viewed {
    /// Milliseconds since the kill or the new start.
    pub ms: f64,
    /// `regular` or `transitional`.
    pub kind: &'static str,
    pub view: String,
    pub members: Vec<u16>,
    pub cause: String,
}

/// What came of killing the coordinator of Ring Paxos, then a majority of its acceptors.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Majority {
    /// How many nodes vote.
    pub acceptors: u16,
    /// The node that was the coordinator and was killed.
    pub coordinator: u16,
    /// From the kill until a message that was sent then was ordered.
    pub again_ms: f64,
    /// The next coordinator.
    pub next: u16,
    /// All nodes whose daemons were killed: a majority of the acceptors.
    pub killed: Vec<u16>,
    /// What a client was told that sent meanwhile and waited.
    pub in_vain: String,
    /// From the new start until its message was ordered.
    pub back_ms: f64,
    /// How many messages their senders know to be ordered.
    pub acknowledged: usize,
    /// What was read afterwards, node by node.
    pub read: Vec<Reread>,
    /// What should not be, a sentence each.
    pub violations: Vec<String>,
}

/// What a client at a node read from the start of the order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reread {
    pub node: u16,
    pub messages: usize,
    /// SHA-256 of all in their order.
    pub digest: String,
    #[serde(skip)]
    pub words: Vec<String>,
}
