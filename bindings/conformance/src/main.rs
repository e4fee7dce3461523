//! Plays the scenarios with a client: `consort-conformance -- PROGRAM [WORD...]`.
use consort_conformance::{Program, SCENARIOS, play};
use lexopt::prelude::*;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
consort-conformance [OPTIONS] -- PROGRAM [WORD...]

Plays all scenarios with a client, each with a daemon of its own: over its Unix socket, then over TCP. A client of Spread
uses the daemon's Spread listener. PROGRAM reads requests and answers them, one a line: docs/clients.md.

  --consort FILE  the program `consort` [built now, if it is not]
  --only TEXT     the scenarios whose names contain it
  --list          names them all
  --help          this
";

struct ConformanceOptions {
    consort: Option<PathBuf>,
    only: String,
    program: Vec<String>,
}

fn main() -> ExitCode {
    match read().and_then(|options| options.map_or(Ok(true), run)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("consort-conformance: {error}");
            ExitCode::from(2)
        }
    }
}

/// What is wanted; nothing where it was told already.
fn read() -> Result<Option<ConformanceOptions>, String> {
    let mut options = ConformanceOptions { consort: None, only: String::new(), program: Vec::new() };
    let mut words = lexopt::Parser::from_env();
    let said = |error: lexopt::Error| error.to_string();
    while let Some(word) = words.next().map_err(said)? {
        match word {
            Long("consort") => options.consort = Some(words.value().map_err(said)?.into()),
            Long("only") => options.only = words.value().and_then(|text| text.string()).map_err(said)?,
            Long("list") => {
                SCENARIOS.iter().for_each(|scenario| println!("{}", scenario.name));
                return Ok(None);
            }
            Long("help") | Short('h') => {
                print!("{HELP}");
                return Ok(None);
            }
            Value(first) => {
                options.program.push(first.string().map_err(said)?);
                for rest in words.raw_args().map_err(said)? {
                    options.program.push(rest.string().map_err(said)?);
                }
            }
            other => return Err(format!("{}; --help lists the options", other.unexpected())),
        }
    }
    if options.program.is_empty() {
        return Err("no client is named; write its program behind `--`".into());
    }
    Ok(Some(options))
}

fn run(options: ConformanceOptions) -> Result<bool, String> {
    let consort = match options.consort {
        Some(file) => file,
        None => consort_testbed::program("consort-cli", "dev").map_err(|error| error.to_string())?,
    };
    let mut played = 0;
    let failed = play(&Program(options.program), &consort, &options.only, |listener, scenario, outcome| {
        played += usize::from(outcome.is_some());
        match outcome {
            Some(Ok(())) => println!("ok    {listener:4}  {}", scenario.name),
            Some(Err(error)) => println!("WRONG {listener:4}  {}: {error}", scenario.name),
            None => match scenario.beyond_spread.filter(|_| listener.starts_with("spread")) {
                Some(needed) => println!("lacks {listener:4}  {}: Spread has no {needed}", scenario.name),
                None => println!("lacks {listener:4}  {}", scenario.name),
            },
        }
    })?;
    println!("{played} played, {failed} wrong");
    Ok(failed == 0)
}
