//! The `consort` program: one daemon, its clients on the command line, a demonstration and a measurement; and
//! [`embedded`], a daemon within another program.
//!
//! | module | what |
//! |---|---|
//! | `program` | which command |
//! | `daemon`, `send`, `receive`, `status`, `groups`, `clients`, `explain`, `demo`, `bench` | the commands, one module each |
//! | `config`, `local`, `place` | settings from a file or from nothing; where daemons and clients of a machine meet |
//! | `connect`, `inquiry`, `peers` | finding a daemon and talking to it; asking it for lists; reading whom it hears |
//! | `lab` | daemons and clients as child processes, for demonstration and measurement |
//! | [`embedded`] | a node of a cluster in the process of the program that uses it |
//! | `metrics` | what a running daemon tells monitoring over HTTP |
//! | `args`, `words`, `columns`, `failure`, `progress` | command line, words, tables, ends that are not good, how far |
//! | `clock`, `usage` | time, cost |
#![allow(clippy::disallowed_methods, reason = "a program is where clocks, threads and waiting live")]

mod args;
mod bench;
mod clients;
mod clock;
mod columns;
mod config;
mod connect;
mod daemon;
mod demo;
pub mod embedded;
mod explain;
mod failure;
mod groups;
mod inquiry;
mod lab;
mod local;
mod metrics;
mod peers;
mod place;
mod program;
mod progress;
mod receive;
mod send;
mod status;
mod usage;
mod words;

/// Runs the program with this process's arguments.
pub fn main() -> std::process::ExitCode {
    program::run(std::env::args_os().skip(1).collect())
}
