//! The simulator: virtual time, hosts, links, load and faults, all decided by one seed; and checkers that watch every
//! promise while it runs. It drives the same state machines as the real driver, so a bug that a seed finds is a bug of
//! the product. `docs/simulator.md` says how to use it.
//!
//! | module | what |
//! |---|---|
//! | [`plan`] | everything a seed decides before a run: size, network, load, faults |
//! | [`world`] | virtual time, one heap of what will happen; runs a plan and says what came of it |
//! | [`machine`] | what runs on a host: an engine alone, or a whole node with its clients |
//! | `clocks` | clocks that run fast or slow |
//! | `host` | a processor that everything waits for, sockets of limited room, a network core beside it where asked for |
//! | [`network`], [`link`] | what happens to a datagram on its way; [`link`] also serves the real-time switch |
//! | [`workload`], [`fault`] | who sends how much; what goes wrong, where and for how long |
//! | [`message`], `identity` | payloads that name their message, and how a delivery is recognised by its bytes alone |
//! | [`trace`], [`checkers`] | what happened, and one judge per promise; traces of real runs can be judged alike |
//! | [`story`], [`digest`] | a run as a reader sees it, and as one number |
//!
//! Absent so far: disks that keep a part of a record; a driver's checksums drop it.

pub mod checkers;
mod clocks;
pub mod digest;
pub mod fault;
mod host;
mod identity;
mod incarnations;
pub mod link;
pub mod machine;
pub mod message;
pub mod network;
pub mod plan;
mod quiescence;
mod recorder;
pub mod story;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod workload;
pub mod world;

pub use host::{CoreModel, HostModel, NetworkCore};
