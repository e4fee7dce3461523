//! What came of the middle part.
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
