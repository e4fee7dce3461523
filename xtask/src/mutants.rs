//! `cargo xtask mutants`: a protocol, its membership, or the groups over it, with one rule broken at a time. A checker that
//! no broken rule can wake is no checker.
use crate::sim::Protocol;
use std::ffi::OsString;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask mutants [options]

  --seeds N        give each mutant so many seeds of 10 simulated seconds to be noticed (default 400)
  --protocol NAME  try only those of ring (and the groups over it), toto (and the view-synchronous membership), plato,
                   paxos (and readers by position), multiring-paxos (and its merge) or multiring
  --mutant NAME    try only this one
  --seed S         with --mutant: run this seed and tell its story
  --scene NAME     with --mutant: play this scene and tell its story
  --record         try all seeds in turn, and write down where each mutant is noticed: that is tried first from then on

Builds the protocols and the groups with their mutants, which no release contains. Prints which checker noticed which mutant,
in which scene (a simulated run in which just the packets are lost that must be), or at which seed and after how much
simulated time, or which of the protocol's own tests. Fails if a mutant goes unnoticed.
";

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "mutants"), allow(dead_code))] // then only the words are checked, and handed on
struct Options {
    seeds: u64,
    protocol: Option<Protocol>,
    mutant: Option<String>,
    seed: Option<u64>,
    scene: Option<String>,
    record: bool,
}

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<_> = words.into_iter().collect();
    match read(&words) {
        Ok(Some(options)) => run(&options, &words),
        Ok(None) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(misuse) => {
            eprintln!("mutants: {misuse}; see cargo xtask mutants --help");
            ExitCode::from(2)
        }
    }
}

fn read(words: &[OsString]) -> Result<Option<Options>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_args(words.iter().cloned());
    let mut options = Options { seeds: 400, ..Options::default() };
    while let Some(word) = parser.next()? {
        match word {
            Long("seeds") => options.seeds = parser.value()?.parse()?,
            Long("protocol") => options.protocol = Some(Protocol::named(&parser.value()?.string()?)?),
            Long("mutant") => options.mutant = Some(parser.value()?.string()?),
            Long("seed") => options.seed = Some(parser.value()?.parse()?),
            Long("scene") => options.scene = Some(parser.value()?.string()?),
            Long("record") => options.record = true,
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    if options.record && (options.protocol.is_some() || options.mutant.is_some()) {
        return Err("--record writes down all mutants: not with --protocol or --mutant".into());
    }
    if (options.seed.is_some() || options.scene.is_some()) && options.mutant.is_none() {
        return Err("--seed and --scene need --mutant".into());
    }
    Ok(Some(options))
}

/// As this program was built, so that crates which have no mutants are not compiled again.
#[cfg(not(feature = "mutants"))]
const PROFILE: &str = if cfg!(debug_assertions) { "dev" } else { "tools" };

/// This build has no mutants: the same words go to one that has.
#[cfg(not(feature = "mutants"))]
fn run(_options: &Options, words: &[OsString]) -> ExitCode {
    let arguments =
        ["run", "--profile", PROFILE, "--quiet", "--package", "xtask", "--features", "mutants", "--", "mutants"];
    match consort_cargo::cargo().args(arguments).args(words).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutants: cargo cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "mutants")]
use noticed::run;

#[cfg(feature = "mutants")]
mod noticed;
#[cfg(feature = "mutants")]
mod own_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Option<Options>, lexopt::Error> {
        read(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn words_mean_what_the_help_says() {
        let options = words("--mutant OneAru --seed 4 --seeds 7").unwrap().unwrap();
        let wanted = Options { seeds: 7, mutant: Some("OneAru".into()), seed: Some(4), ..Options::default() };
        assert_eq!(options, wanted);
        assert_eq!(words("--protocol toto").unwrap().unwrap().protocol, Some(Protocol::Toto));
        assert!(words("--protocol trio").unwrap_err().to_string().contains("trio"));
        assert!(words("--record").unwrap().unwrap().record);
        assert!(words("--record --mutant OneAru").unwrap_err().to_string().contains("--record"));
        assert!(words("--help").unwrap().is_none());
        assert!(
            ["--seed 4", "--scene gaps"].iter().all(|line| words(line).unwrap_err().to_string().contains("--mutant"))
        );
        assert!(words("--fire").unwrap_err().to_string().contains("fire"));
    }
}
