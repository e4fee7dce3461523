//! `cargo chaos`: real daemons on bad networks, under kills, stops and partitions.
#![allow(clippy::disallowed_methods)] // a program: it may read the clock and start threads

mod candidate;
mod chaos;
mod command;
mod keeper;
mod lines;
mod trials;

use std::process::ExitCode;

const HELP: &str = "\
cargo chaos <task>

  lines          run real daemons on a network that is bad on purpose
  run            run real daemons while everything goes wrong, and judge what clients saw
  trials         run real daemons through single faults, and tell what each cost

cargo chaos <task> --help says more.
";

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let task = words.next().unwrap_or_default();
    match task.to_str() {
        // Not for people: trials start it.
        Some("candidate") => candidate::main(words),
        Some("keeper") => keeper::main(words),
        Some("lines") => lines::main(words),
        Some("run") => chaos::main(words),
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
