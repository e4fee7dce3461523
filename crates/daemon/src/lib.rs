//! One node of a cluster, as the program `consort` and the library's embedded nodes run it.
//!
//! | module | what |
//! |---|---|
//! | [`config`], [`local`] | settings from a file or from nothing, and what follows from them |
//! | [`runtime_dir`] | where daemons and clients of a machine meet: sockets, cards, locks |
//! | [`run`] | from settings to a node that runs |
//! | [`reload`] | what clients may do, read again at SIGHUP |
//! | [`signals`] | what ends the process, and what is ignored |
//! | [`security`] | the cluster's key |
//! | `registry` | the registry outside of the order, and what it advises |
//! | `seat` | which node this machine can be |
//! | `state_lock` | the one owner of a node's files |
//! | `tls` | the daemon's certificate |
//! | [`tokens`] | the file of tokens |
//! | [`metrics`] | what a running daemon tells monitoring over HTTP |
//! | [`peers`] | whom a daemon hears, read from its status |
//! | [`log`] | the log on the standard error |
//! | [`options`] | the command line of `consort daemon` |
//! | [`args`], [`failure`] | command lines, ends that are not good |
//! | [`words`], [`figures`], [`columns`] | words, numbers and tables for people |
//! | [`votes`] | what an acceptor keeps on disk, and how an operator gives it up, or says that it is the newest |
//! | [`clock`], [`usage`] | time, cost |
#![allow(clippy::disallowed_methods, reason = "a program is where clocks, threads and waiting live")]

pub mod args;
pub mod clock;
pub mod columns;
pub mod config;
pub mod failure;
pub mod figures;
mod incarnation;
pub mod local;
pub mod log;
pub mod metrics;
pub mod options;
pub mod peers;
mod registry;
pub mod reload;
pub mod run;
pub mod runtime_dir;
mod seat;
pub mod security;
pub mod signals;
mod state_lock;
mod tls;
pub mod tokens;
pub mod usage;
pub mod votes;
pub mod words;

pub use incarnation::usual_home;
