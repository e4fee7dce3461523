//! The `consort` program: one daemon, its clients on the command line, and a demonstration.
//!
//! | module | what |
//! |---|---|
//! | `program` | which command |
//! | `daemon`, `send`, `receive`, `status`, `groups`, `clients`, `explain`, `demo` | the commands, one module each |
//! | `connect`, `inquiry` | finding a daemon and talking to it; asking it for lists |
//! | `companion` | commands that are programs of their own |
//! | `progress` | how far |
#![allow(clippy::disallowed_methods, reason = "a program is where clocks, threads and waiting live")]

mod clients;
mod companion;
mod connect;
mod daemon;
mod demo;
mod explain;
mod groups;
mod inquiry;
mod program;
mod progress;
mod receive;
mod send;
mod status;

use consort_daemon::{args, clock, columns, config, failure, figures, metrics, peers, runtime_dir, usage, words};

fn main() -> std::process::ExitCode {
    program::run(std::env::args_os().skip(1).collect())
}
