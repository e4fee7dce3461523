//! What programs of searches share: words in, one line out.
use crate::{Found, Report};
use lexopt::prelude::*;
use std::process::ExitCode;
use std::time::Instant;

/// How far a search goes, and what it does differently.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Gives up after so many different worlds.
    pub most: u64,
    /// Continues every so many-th world.
    pub sample: u64,
    /// The rule that is broken on purpose, by its name; nothing looks at it without the feature `mutants`.
    pub mutant: Option<String>,
}

/// Where the words of a search go that are not of all searches: a name and its value. `Ok(false)` if it has no such word.
pub type Take<'a> = &'a mut dyn FnMut(&str, &str) -> Result<bool, String>;

/// One of the searches that are run as a matter of course: what it is, and how it ended.
pub type Outcome<Tally> = (String, Result<Report<Tally>, Box<Found>>);

/// Runs all searches where there are no words, else the `one` that they say. Prints one line, or what was found.
#[allow(clippy::print_stdout, reason = "a program talks")]
pub fn run<Options>(
    help: &str,
    all: impl FnOnce() -> Result<String, String>,
    parse: impl FnOnce() -> Result<Options, String>,
    one: impl FnOnce(&Options) -> Result<String, String>,
) -> ExitCode {
    let done = match std::env::args_os().nth(1) {
        None => all(),
        Some(word) if word == "--help" || word == "-h" => Ok(help.into()),
        Some(_) => parse().map_err(|error| format!("{error}\n{help}")).and_then(|options| one(&options)),
    };
    let (Ok(line) | Err(line)) = &done;
    println!("{line}");
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs searches one after the other, and tells of each.
///
/// # Errors
/// What the first found that found something, or that it did not end.
#[allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program talks, and may say how long it took")]
pub fn run_all<Tally: std::fmt::Display>(
    what: &str,
    searches: impl Iterator<Item = Outcome<Tally>>,
) -> Result<String, String> {
    let (mut states, mut n, mut began) = (0, 0, Instant::now());
    for (name, outcome) in searches {
        let report = outcome.map_err(|found| format!("{name}\n{found}"))?;
        if !report.complete {
            return Err(format!("{name}: {report}; lower the bounds"));
        }
        println!("{name}: {report}, {:.1} s", began.elapsed().as_secs_f64());
        (states, n, began) = (states + report.states, n + 1, Instant::now());
    }
    Ok(format!("search: {n} searches of {what}, {states} states, 0 violations"))
}

/// Reads the words of one search: those of all searches here, each other by `take`.
///
/// # Errors
/// Which word is wrong.
pub fn parse(mut limits: Limits, take: Take<'_>) -> Result<Limits, String> {
    let mut parser = lexopt::Parser::from_env();
    let text = |error: lexopt::Error| error.to_string();
    while let Some(arg) = parser.next().map_err(text)? {
        let Long(name) = arg else { return Err(arg.unexpected().to_string()) };
        let name = name.to_owned();
        let value = parser.value().and_then(|value| value.string()).map_err(text)?;
        match &name[..] {
            "most" => limits.most = number(&name, &value)?,
            "sample" => limits.sample = number(&name, &value)?,
            "mutant" if cfg!(feature = "mutants") => limits.mutant = Some(value),
            _ if take(&name, &value)? => {}
            _ => return Err(format!("--{name}: unknown")),
        }
    }
    Ok(limits)
}

/// A value that is a number.
///
/// # Errors
/// That it is none.
pub fn number(name: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("--{name} {value}: not a number"))
}

/// Sets the bound of this name, if there is one; none is larger than 100.
///
/// # Errors
/// That the value is no number.
pub fn set(bound: Option<&mut u8>, name: &str, value: &str) -> Result<bool, String> {
    let Some(bound) = bound else { return Ok(false) };
    *bound = number(name, value)?.min(100) as u8;
    Ok(true)
}

/// The bounds that are not 0, in a few words.
pub fn name(bounds: &[(u8, &str)]) -> String {
    let said: Vec<_> = bounds.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    said.join(", ")
}
