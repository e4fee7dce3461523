//! `cargo xtask verify`: everything that must hold before a change is taken in, and how long each part takes.
use crate::{modules, mutants, pages, sim, trace, words};
use std::ffi::OsString;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

const HELP: &str = "\
cargo xtask verify [--only PART,...]

  format    every file is formatted
  clippy    no warning, in any target, with and without the mutants
  tests     all tests of the workspace
  docs      the documentation builds without a warning
  pages     no link of a page is dead, no page is missing from the book, no line is long
  words     no word that may not come back is used more often than recorded
  trace     every rule of the protocol pages has code and a test
  modules   no circle between modules
  sim       a short simulation: 100 seeds with all faults, 40 without
  mutants   every broken rule is noticed

Goes on after a part that fails; ends with a table, and fails if any part did.
";

/// One thing that must hold.
struct Part {
    name: &'static str,
    check: fn() -> bool,
}

const PARTS: &[Part] = &[
    Part { name: "format", check: || cargo(&["fmt", "--all", "--check"]) },
    Part { name: "clippy", check: clippy },
    Part { name: "tests", check: || cargo(&["test", "--quiet", "--workspace"]) },
    Part { name: "docs", check: docs },
    Part { name: "pages", check: pages::check },
    Part { name: "words", check: || is_success(words::main([])) },
    Part { name: "trace", check: || is_success(trace::main([])) },
    Part { name: "modules", check: || is_success(modules::main([])) },
    Part { name: "sim", check: simulation },
    Part { name: "mutants", check: || is_success(mutants::main([])) },
];

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    match read(words) {
        Ok(Some(parts)) => run(&parts),
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(misuse) => {
            eprintln!("verify: {misuse}; see cargo xtask verify --help");
            ExitCode::from(2)
        }
    }
}

fn read(words: impl IntoIterator<Item = OsString>) -> Result<Option<Vec<&'static Part>>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_args(words);
    let mut parts: Vec<_> = PARTS.iter().collect();
    while let Some(word) = parser.next()? {
        match word {
            Long("only") => {
                let list = parser.value()?.string()?;
                parts = list.split(',').map(part).collect::<Result<_, _>>()?;
            }
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(parts))
}

fn part(name: &str) -> Result<&'static Part, lexopt::Error> {
    let names = || PARTS.iter().map(|part| part.name).collect::<Vec<_>>().join(", ");
    let found = PARTS.iter().find(|part| part.name == name);
    found.ok_or_else(|| format!("no part `{name}`; there are {}", names()).into())
}

fn run(parts: &[&Part]) -> ExitCode {
    let started = Instant::now();
    let results: Vec<_> = parts.iter().map(|part| timed(part)).collect();
    println!("\n{:<10} {:<7} {:>8}", "part", "result", "seconds");
    for (part, (holds, took)) in parts.iter().zip(&results) {
        println!("{:<10} {:<7} {:>8.1}", part.name, if *holds { "ok" } else { "FAILED" }, took.as_secs_f64());
    }
    println!("{:<10} {:<7} {:>8.1}", "all", "", started.elapsed().as_secs_f64());
    if results.iter().all(|(holds, _)| *holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn timed(part: &Part) -> (bool, Duration) {
    println!("verify: {}", part.name);
    let started = Instant::now();
    let holds = (part.check)();
    (holds, started.elapsed())
}

fn clippy() -> bool {
    let workspace = ["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"];
    let mutants = ["clippy", "--quiet", "--package", "xtask", "--features", "mutants", "--", "-D", "warnings"];
    cargo(&workspace) && cargo(&mutants)
}

fn docs() -> bool {
    let mut command = command(&["doc", "--quiet", "--workspace", "--no-deps"]);
    succeeds(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn simulation() -> bool {
    let sim = |line: &str| is_success(sim::main(line.split_whitespace().map(OsString::from)));
    sim("--seeds 100") && sim("--seeds 40 --faults none")
}

fn cargo(arguments: &[&str]) -> bool {
    succeeds(&mut command(arguments))
}

fn command(arguments: &[&str]) -> Command {
    let mut command = consort_cargo::cargo();
    command.args(arguments).current_dir(trace::root());
    command
}

fn succeeds(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("verify: cargo cannot be run: {error}");
            false
        }
    }
}

fn is_success(code: ExitCode) -> bool {
    code == ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str) -> Result<Vec<&'static str>, String> {
        let parts = read(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())?;
        Ok(parts.unwrap_or_default().iter().map(|part| part.name).collect())
    }

    #[test]
    fn all_parts_or_those_that_are_named() {
        assert_eq!(names("").unwrap().len(), PARTS.len());
        assert_eq!(names("--only docs,trace").unwrap(), ["docs", "trace"]);
        assert!(names("--only fire").unwrap_err().contains("`fire`; there are format, clippy"));
    }
}
