//! Developer tasks: `cargo xtask <task>`.
#![allow(clippy::disallowed_methods)] // a program: it may read the clock and start threads

mod instructions;
mod modules;
mod mutants;
mod pages;
mod search;
mod sim;
mod trace;
mod verify;
mod words;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask <task>

  verify         everything that must hold before a change is taken in
  sim            run a protocol in the simulator, seed by seed
  search         take a few nodes of the ring through every order of events within bounds
  mutants        break the protocol's rules one by one; each must be noticed
  trace          list rules that no code or no test cites
  modules        list circles between modules
  words          count words that may not come back, against what is recorded
  instructions   count what the hot paths take, against what is recorded

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
        Some("words") => words::main(words),
        Some("instructions") => instructions::main(words),
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
