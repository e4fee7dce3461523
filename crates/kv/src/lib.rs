//! A key-value store whose partitions are replicated, each in a group of its own, and which speaks the protocol of Redis.
//!
//! | module | what |
//! |---|---|
//! | [`arcs`] | which partition holds a key |
//! | [`command`] | what stands in the order |
//! | [`partition`], `leaves` | the state machine |
//! | [`store`] | a replica of each partition |
//! | [`saved`] | what a server's directory has, read without the server |
//! | [`resp`], [`request`] | RESP2, and what words ask for |
//! | `answer`, `info`, `connection`, [`server`] | requests of clients, and their replies |
//! | [`client`] | the other end |
//! | `glob` | patterns of keys |
//! | [`limits`] | what is taken at most |
//!
//! # What it promises
//!
//! - A write is answered once it has its place in the order of its partition, and is applied at this server. It is applied
//!   once.
//! - Reads of one partition are linearizable: they look once the partition has all that was answered before, at any server.
//! - What looks at several partitions (MGET, EXISTS, DBSIZE, ranges) sees all of them at one place of the order, which is
//!   linearizable, too: see [`Replica::cut`](consort_replica::Replica::cut).
//! - The state machine reads no clock, no chance and no budget of its own server: each command brings what it depends on.

mod answer;
pub mod arcs;
pub mod client;
pub mod command;
mod connection;
mod glob;
mod info;
mod leaves;
pub mod limits;
pub mod partition;
pub mod request;
pub mod resp;
pub mod saved;
pub mod server;
pub mod store;

pub use client::Connected;
pub use limits::Limits;
pub use resp::Reply;
pub use store::{Store, StoreError, StoreOptions};
