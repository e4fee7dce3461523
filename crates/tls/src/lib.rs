//! TLS 1.3 for sessions over TCP.
//!
//! A thread of its own turns sealed connections into plain ones: a handshake takes up to a millisecond of the processor,
//! and a daemon's loop must not keep its token waiting for that. Whoever uses it reads and writes a Unix socket pair, whose
//! other end the thread holds.
//!
//! | module | what |
//! |---|---|
//! | [`config`] | [`ServerTls`] and [`ClientTls`]: certificates and keys, checked |
//! | [`files`] | [`ClientTls`] out of files, and which line of which file is at fault |
//! | [`server`] | [`TlsListener`]: listeners, and who has come through them |
//! | [`client`] | a client's end of one connection |
//! | `pump` | one connection, sealed on one side, plain on the other |
#![allow(clippy::disallowed_methods, reason = "a driver's part: clocks and threads live here")]

pub mod client;
pub mod config;
pub mod files;
mod pump;
pub mod server;
#[cfg(test)]
mod tests;

pub use client::{Bridge, Problem, is_no_tls};
pub use config::{ClientTls, ServerTls, TlsError};
pub use files::TlsFileError;
pub use server::{Arrival, TlsListener};
