//! `consort kv`: a replicated key-value store, and what is asked of it.
//!
//! | module | what |
//! |---|---|
//! | `serve` | one server of a store, its partitions and its end |
//! | `ask` | put, get, delete, range |
//! | `load` | what a server's directory has, for another store |
//! | `servers` | which servers are asked, and how long |
//! | `bench` | what a store does under load |
#![allow(clippy::disallowed_methods, reason = "a program is where clocks, threads and waiting live")]

mod ask;
mod bench;
mod load;
mod serve;
mod servers;

use crate::failure::{Failure, Outcome};
use consort_daemon::{args, clock, failure, figures, words};
use consort_inquiry::connect;
use std::ffi::OsString;

/// What `consort kv --help` prints.
pub const HELP: &str = "\
Usage: consort kv COMMAND [options]

A key-value store that is replicated over the daemons. Its servers speak the
protocol of Redis (RESP2), so that redis-cli and its like talk to them, too.

  serve    serve a store, beside a daemon; several servers hold the same
  put      put a value under a key, or only under a condition
  get      print the value of a key
  delete   take keys away
  range    print keys and values in the order of keys, as of one time
  load     put what a server's directory has into another store
  bench    measure a store

  consort kv COMMAND --help    what it can do

The daemons need a policy for the primary part: settings in a file have one, and
so have `--protocol paxos` and `multiring-paxos`. In three terminals:
  consort daemon --protocol paxos --nodes 1
  consort kv serve
  consort kv put tea green
";

/// Runs the command.
pub fn main(mut words: Vec<OsString>) -> Outcome {
    if words.is_empty() {
        return Err(Failure::usage(format!("kv: no command was given\n\n{}", HELP.trim_end())));
    }
    let command = words.remove(0);
    match command.to_str() {
        Some("serve") => serve::main(words),
        Some("put") => ask::put(words),
        Some("get") => ask::get(words),
        Some("delete") => ask::delete(words),
        Some("range") => ask::range(words),
        Some("load") => load::main(words),
        Some("bench") => bench::main(words),
        Some("--help" | "-h" | "help") => Err(Failure::shown(HELP)),
        _ => Err(unknown(&command.to_string_lossy())),
    }
}

fn unknown(command: &str) -> Failure {
    let near = words::nearest(command, ["serve", "put", "get", "delete", "range", "load", "bench"]);
    let remedy = near.map_or("consort kv --help lists them".to_owned(), |near| format!("did you mean {near}?"));
    Failure::usage(format!("kv: `{command}` is not a command; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(line: &str) -> Failure {
        main(line.split_whitespace().map(OsString::from).collect()).unwrap_err()
    }

    #[test]
    fn a_mistyped_command_gets_a_suggestion() {
        assert_eq!(failure("gte").message, "kv: `gte` is not a command; did you mean get?");
        assert_eq!(failure("zebra").message, "kv: `zebra` is not a command; consort kv --help lists them");
        assert!(failure("").message.starts_with("kv: no command was given"));
    }

    #[test]
    fn every_command_has_its_help() {
        for command in ["serve", "put", "get", "delete", "range", "load", "bench"] {
            let help = failure(&format!("{command} --help"));
            assert_eq!(help.code, crate::failure::Code::Fine);
            assert!(help.message.starts_with(&format!("Usage: consort kv {command} ")), "{command}");
            assert!(help.message.lines().all(|line| line.len() <= 80), "{command}");
        }
    }
}
