//! A registry outside of the order, kept in ZooKeeper in the layout of URingPaxos. It advises; no promise depends on it.
//!
//! [`start`] begins a thread of its own. The thread keeps this node's ephemeral nodes registered: after a session ends, and
//! after the servers were away, it does so anew. It watches what operators and other nodes have put there, and tells what that
//! advises. Whatever happens to ZooKeeper, the thread waits and tries again; nothing waits for it.
//!
//! | module | what |
//! |---|---|
//! | `layout` | the paths, and what stands there, as text; no I/O |
//! | `reading` | what the registry advises, and how that differs from what was told last; no I/O |
//! | `session` | one session: registers, watches, reads |
//! | `thread` | sessions one after the other, and the end |
#![allow(clippy::disallowed_methods, reason = "a thread of its own, which waits for servers")]

mod layout;
mod reading;
mod session;
mod thread;

pub use consort_order::Advice;
use consort_types::NodeId;
use std::net::SocketAddr;
use std::time::Duration;
pub use thread::{Registry, start};

/// Where the registry is, and how long it remembers a node that is silent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The servers of ZooKeeper, as `host:port`; at least one.
    pub servers: Vec<String>,
    /// Below this path everything stands: it begins with a `/` and does not end with one.
    pub prefix: String,
    /// After so long without this node the servers drop its ephemeral nodes.
    pub session: Duration,
}

/// What is registered of this node. Every node proposes to all rings, and learns what they decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub node: NodeId,
    /// Where other nodes reach it.
    pub address: SocketAddr,
    /// The rings that it is in.
    pub rings: Vec<RingMember>,
}

/// What it is in one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingMember {
    /// The ring's number, which is that of its stream; 0 where there is only one.
    pub ring: u16,
    /// Whether it votes there.
    pub acceptor: bool,
}

/// What there is to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is a session, and this node is registered.
    Registered,
    /// The servers do not answer; the session may still go on.
    Away,
    /// There is no session. What was advised is withdrawn by [`Event::Advised`].
    Ended {
        /// Why.
        cause: String,
    },
    /// This is advised from here on.
    Advised(Advice),
}
