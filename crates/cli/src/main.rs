//! The `consort` program: one daemon, its clients on the command line, and a demonstration.
//!
//! | module | what |
//! |---|---|
//! | `program` | which command |
//! | `daemon`, `send`, `receive`, `status`, `groups`, `clients`, `explain`, `keygen`, `token`, `withdraw`, `abandon`, `adopt` | the commands, one module each; `demo` and `kv` are crates, `consort-demo` and `consort-kv-cli` |
//! | `companion` | commands that are programs of their own |
//! | `progress` | how far |
#![allow(clippy::disallowed_methods, reason = "a program is where clocks, threads and waiting live")]

mod abandon;
mod adopt;
mod clients;
mod companion;
mod daemon;
mod explain;
mod groups;
mod key;
mod keygen;
mod program;
mod progress;
mod receive;
mod send;
mod status;
mod token;
mod withdraw;

use consort_daemon::{args, clock, columns, failure, figures, metrics, peers, runtime_dir, usage, words};
use consort_inquiry::{connect, inquiry};

fn main() -> std::process::ExitCode {
    program::run(std::env::args_os().skip(1).collect())
}
