//! `consort bench`: measurements on this machine. A program of its own, `consort-bench`, that `consort` starts.
#![allow(clippy::disallowed_methods, reason = "a program is where clocks, threads and waiting live")]

mod clients;
mod failover;
mod floor;
mod idle_states;
mod join;
mod latency;
mod median;
mod page;
mod peers;
mod report;
mod ring;
mod sample;
mod setup;
mod trial;

use consort_daemon::{args, clock, columns, config, failure, figures, local, usage};
use consort_testbed::helper;
use failure::{Failure, Outcome};
use std::ffi::OsString;
use std::process::ExitCode;

/// What `consort bench --help` prints.
const HELP: &str = "\
Usage: consort bench WHAT [options]

Measures real daemon processes on this machine.

  ring       throughput, latency and CPU, beside what bare sockets do here; and
             goodput at loads beyond what the cluster carries
  latency    how long a message takes at a given rate, to the percentile; with
             --join between machines whose clocks do not agree
  clients    throughput and latency as the number of clients grows
  failover   how soon everybody is told of a daemon that crashed, left or came
             back, and that a short pause is not taken for a crash
  floor      what bare sockets reach here
  peers      the same work done by others that are installed, in the same run

  consort bench WHAT --help    what can be set
";

fn main() -> ExitCode {
    match run(std::env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Runs the command.
fn run(mut words: Vec<OsString>) -> Outcome {
    let what = if words.is_empty() { OsString::new() } else { words.remove(0) };
    match what.to_str() {
        Some("ring") => ring::main(words),
        Some("latency") => latency::main(words),
        Some("clients") => clients::main(words),
        Some("failover") => failover::main(words),
        Some("peers") => peers::main(words),
        Some("floor") => floor::main(words),
        Some(helper::COMMAND) => helper::main(&words, &consort_peers::SYSTEMS),
        Some("--help" | "-h") => Err(Failure::shown(HELP)),
        _ => {
            Err(Failure::usage("say first what to measure, such as consort bench ring; consort bench --help lists it"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_measure_must_be_said_first() {
        let problem = |line: &str| run(line.split_whitespace().map(OsString::from).collect()).unwrap_err();
        for line in ["", "rnig", "--nodes 3 ring", "3"] {
            let failure = problem(line);
            assert_eq!(failure.code, crate::failure::Code::Usage);
            assert!(failure.message.starts_with("say first what to measure, such as consort bench ring"), "{line}");
        }
        assert!(problem("--help").message.starts_with("Usage: consort bench WHAT"));
        for what in ["ring", "latency", "clients", "failover", "floor", "peers"] {
            let help = problem(&format!("{what} --help")).message;
            assert!(help.starts_with(&format!("Usage: consort bench {what} [")), "{help}");
            assert!(help.lines().all(|line| line.len() <= 82), "{help}");
            assert!(HELP.contains(&format!("\n  {what} ")));
        }
        assert!(HELP.lines().all(|line| line.len() <= 80));
    }
}
