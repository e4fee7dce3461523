//! `consort bench`: measurements on this machine.

mod failover;
mod ring;

use crate::failure::{Failure, Outcome};
use std::ffi::OsString;

/// What `consort bench --help` prints.
pub const HELP: &str = "\
Usage: consort bench ring|failover [options]

Measures real daemon processes on this machine.

  ring       throughput, latency and CPU, beside what bare sockets do here
  failover   how soon everybody is told of a daemon that crashed, left or came
             back, and that a short pause is not taken for a crash

  consort bench ring --help       what can be set
  consort bench failover --help
";

/// Runs the command.
pub fn main(mut words: Vec<OsString>) -> Outcome {
    let what = if words.is_empty() { OsString::new() } else { words.remove(0) };
    match what.to_str() {
        Some("ring") => ring::main(words),
        Some("failover") => failover::main(words),
        Some("--help" | "-h") => Err(Failure::shown(HELP)),
        _ => {
            Err(Failure::usage("say first what to measure: consort bench ring or consort bench failover (see --help)"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_measure_must_be_said_first() {
        let problem = |line: &str| main(line.split_whitespace().map(OsString::from).collect()).unwrap_err();
        for line in ["", "rnig", "--nodes 3 ring", "3"] {
            let failure = problem(line);
            assert_eq!(failure.code, crate::failure::Code::Usage);
            assert!(failure.message.starts_with("say first what to measure: consort bench ring or"), "{line}");
        }
        for (line, start) in
            [("--help", "Usage: consort bench ring|failover"), ("ring -h", "Usage: consort bench ring [")]
        {
            assert!(problem(line).message.starts_with(start), "{line}");
        }
        assert!(problem("failover --help").message.starts_with("Usage: consort bench failover ["));
        assert!(HELP.lines().all(|line| line.len() <= 80));
    }
}
