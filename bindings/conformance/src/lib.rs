//! Scenarios that a client in any language passes.
//!
//! A client is tried as a program: it reads requests from its standard input, one a line, does each with its library, and
//! answers with a line. `docs/clients.md` lists both. The scenarios start daemons and such programs, and compare.
#![allow(clippy::disallowed_methods, reason = "processes are where clocks, threads and waiting live")]

mod daemon;
mod player;
mod reply;
mod scenarios;
pub mod words;

pub use daemon::Daemon;
pub use player::{Player, Program};
pub use reply::Reply;
pub use scenarios::{Outcome, SCENARIOS, Scenario, play};
