//! Developer tasks: `cargo xtask <task>`.
#![allow(clippy::disallowed_methods)] // a program: it may read the clock and start threads

mod chaos;
#[cfg(test)]
mod conformance;
mod crowd;
mod engines;
mod instructions;
mod lab;
mod modules;
mod mutants;
mod netlab;
mod pages;
mod paxos;
mod plato;
mod ring;
#[cfg(any(test, feature = "mutants"))]
mod scenes;
mod search;
mod sim;
mod toto;
mod trace;
mod trials;
mod verify;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <task>

  verify         everything that must hold before a change is taken in
  sim            run a protocol in the simulator, seed by seed
  search         take a few nodes of the ring through every order of events within bounds
  mutants        break the protocol's rules one by one; each must be noticed
  trace          list rules that no code or no test cites
  modules        list circles between modules
  lab            measure again what the papers measured, in virtual time or with real daemons
  instructions   count what the hot paths take, against what is recorded
  netlab         run real daemons on a network that is bad on purpose
  crowd          run real daemons, one of them with many clients that never read
  chaos          run real daemons while everything goes wrong, and judge what clients saw
  trials         run real daemons through single faults, and tell what each cost

cargo xtask <task> --help says more.
";

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let task = words.next().unwrap_or_default();
    match task.to_str() {
        Some("verify") => verify::main(words),
        Some("sim") => sim::main(words),
        Some("search") => search::main(words),
        Some("mutants") => mutants::main(words),
        Some("trace") => trace::main(words),
        Some("modules") => modules::main(words),
        Some("lab") => lab::main(words),
        Some("instructions") => instructions::main(words),
        Some("netlab") => netlab::main(words),
        Some("crowd") => crowd::main(words),
        Some("chaos") => chaos::main(words),
        Some("trials") => trials::main(words),
        None | Some("" | "help" | "--help" | "-h") => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Some(other) => {
            eprint!("there is no task `{other}`\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}
