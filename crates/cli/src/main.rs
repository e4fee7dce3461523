//! The `consort` program: one daemon, its clients on the command line, a demonstration and a measurement.
//!
//! | module | what |
//! |---|---|
//! | `program` | which command |
//! | `daemon`, `send`, `receive`, `status`, `groups`, `clients`, `explain`, `demo`, `bench` | the commands, one module each |
//! | `connect`, `inquiry` | finding a daemon and talking to it; asking it for lists |
//! | `lab` | daemons and clients as child processes, for demonstration and measurement |
//! | `columns`, `progress` | tables, how far |
#![allow(clippy::disallowed_methods, reason = "a program is where clocks, threads and waiting live")]

mod bench;
mod clients;
mod columns;
mod connect;
mod daemon;
mod demo;
mod explain;
mod groups;
mod inquiry;
mod lab;
mod program;
mod progress;
mod receive;
mod send;
mod status;

use consort_daemon::{args, clock, config, failure, local, metrics, peers, place, usage, words};

fn main() -> std::process::ExitCode {
    program::run(std::env::args_os().skip(1).collect())
}
