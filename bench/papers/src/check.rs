//! `cargo papers --check`: what the laboratory prints now, against the tables of docs/lab.md.
//!
//! A table there is a code block whose first line names what printed it, as in ```` ```lab plato --delta 50 ````. Its lines
//! must stand in the output in this order; the page may leave lines out.
use super::Options;
use super::parallel;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::process::ExitCode;

const PAGE: &str = "docs/lab.md";
/// These take minutes: they are checked where all are.
const SLOW: [&str; 2] = ["windows", "run"];

/// Checks the tables; the slow ones, too, where `all` is said.
pub fn main(words: &[OsString]) -> ExitCode {
    match words {
        [] => run(false),
        [all] if all == "all" => run(true),
        _ => {
            eprintln!("lab: --check takes nothing, or `all`");
            ExitCode::from(2)
        }
    }
}

fn run(all: bool) -> ExitCode {
    let page = match std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE))
    {
        Ok(page) => page,
        Err(error) => {
            eprintln!("lab: {PAGE}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let is_slow = |command: &str| SLOW.iter().any(|slow| command.starts_with(slow));
    let tables: Vec<_> = tables_of(&page).filter(|(command, _)| all || !is_slow(command)).collect();
    let printed = outputs(tables.iter().map(|(command, _)| *command).collect());
    let mut stale = 0;
    for (command, table) in &tables {
        if let Err(why) = printed[command].as_ref().map_err(Clone::clone).and_then(|output| compare(table, output)) {
            stale += 1;
            println!("{PAGE}: `cargo papers {command}`: {why}");
        }
    }
    println!("lab: {} tables, {stale} stale", tables.len());
    if stale == 0 && !tables.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What each command prints, on all processors.
fn outputs(commands: BTreeSet<&str>) -> BTreeMap<&str, Result<String, String>> {
    let commands: Vec<_> = commands.into_iter().collect();
    let printed = parallel::map(&commands, |command| Ok(print(command))).unwrap_or_default(); // an error is a result here
    commands.into_iter().zip(printed).collect()
}

fn print(command: &str) -> Result<String, String> {
    if command.starts_with("run ") {
        return super::figures::printed(command.split_whitespace().map(OsString::from).collect());
    }
    let options = Options::read(command.split_whitespace().map(OsString::from))?;
    super::table(&options.ok_or("asks for help")?)
}

/// The commands of the page, with the lines of their tables.
fn tables_of(page: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let blocks = page.split("\n```lab ").skip(1);
    blocks.filter_map(|block| {
        let (block, _) = block.split_once("\n```")?;
        let (command, table) = block.split_once('\n')?;
        Some((command, table.lines().filter(|line| !line.trim().is_empty()).collect()))
    })
}

fn compare(table: &[&str], output: &str) -> Result<(), String> {
    let mut printed = output.lines().map(str::trim_end);
    let missing = table.iter().find(|line| !printed.any(|printed| printed == line.trim_end()));
    missing.map_or(Ok(()), |line| Err(format!("prints no more: {line}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_by_their_command() {
        let page = "text\n```lab toto --runs 2\na 1\n\nb 2\n```\n```\nother\n```\n```lab swaps\nc 3\n```\n";
        let found: Vec<_> = tables_of(page).collect();
        assert_eq!(found, [("toto --runs 2", vec!["a 1", "b 2"]), ("swaps", vec!["c 3"])]);
    }

    #[test]
    fn a_line_that_changed_or_moved_is_stale_and_one_left_out_is_not() {
        let output = "head\na 1  \nb 2\nc 3\n";
        assert_eq!(compare(&["a 1", "c 3"], output), Ok(()));
        assert_eq!(compare(&["a 1", "b 3"], output), Err("prints no more: b 3".into()));
        assert!(compare(&["b 2", "a 1"], output).is_err());
    }

    #[test]
    fn each_command_has_its_own_output_or_error() {
        let outputs = outputs(["nothing", "else"].into());
        assert_eq!(outputs.len(), 2);
        assert!(outputs.iter().all(|(command, output)| output.as_ref().unwrap_err().contains(command)));
    }

    #[test]
    fn a_command_that_does_not_exist_is_told() {
        assert!(print("nothing").unwrap_err().contains("nothing"));
    }
}
