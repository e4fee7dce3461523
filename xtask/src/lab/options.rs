//! What is asked for.
use super::toto;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::ops::RangeInclusive;

/// What `--help` prints.
pub const HELP: &str = "\
cargo xtask lab toto [options]     ToTo against all-ack: latency at the sender, 50 to 200 messages a second

  --seed S          where all chance comes from (default 1)

 toto:
  --nodes N         how many members, 2 to 64 (default 8, as in the paper)
  --messages N      how many messages a run measures (default 4000, as in the paper)
  --runs N          how many runs make one line (default 5)
  --ack-gaps G      an acknowledgement is sent alone after so many of a sender's mean gaps (default 20: nearly never)

Virtual time, no loss, hosts that cost nothing. The same seed prints the same table. What the papers measured stands
beside what was measured here.
";

/// What to measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Where all chance comes from.
    pub seed: u64,
    /// Which laboratory.
    pub which: Which,
}

/// Which laboratory.
#[derive(Clone, Debug, PartialEq)]
pub enum Which {
    /// ToTo against all-ack.
    Toto(toto::Lab),
}

impl Options {
    /// Reads the words; `None` where help was asked for.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Option<Self>, String> {
        let mut parser = lexopt::Parser::from_args(words);
        Self::parse(&mut parser).map_err(|error| format!("{error}; see cargo xtask lab --help"))
    }

    fn parse(parser: &mut lexopt::Parser) -> Result<Option<Self>, lexopt::Error> {
        let which = match parser.next()? {
            Some(Value(name)) if name == "toto" => Which::Toto(toto::Lab::default()),
            Some(Value(name)) => return Err(format!("there is no lab {name:?}; there is toto").into()),
            Some(Long("help") | Short('h')) => return Ok(None),
            Some(other) => return Err(other.unexpected()),
            None => return Err("say which lab: toto".into()),
        };
        let mut options = Self { seed: 1, which };
        while let Some(word) = parser.next()? {
            match word {
                Long("help") | Short('h') => return Ok(None),
                Long("seed") => options.seed = parser.value()?.parse()?,
                Long(name) => {
                    let name = name.to_owned();
                    options.which.set(&name, parser)?;
                }
                other => return Err(other.unexpected()),
            }
        }
        Ok(Some(options))
    }
}

impl Which {
    fn set(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<(), lexopt::Error> {
        match (self, name) {
            (Self::Toto(lab), "nodes") => lab.nodes = number(parser, name, 2..=64)?,
            (Self::Toto(lab), "messages") => lab.messages = number(parser, name, 1..=1_000_000)?,
            (Self::Toto(lab), "runs") => lab.runs = number(parser, name, 1..=1_000)?,
            (Self::Toto(lab), "ack-gaps") => lab.ack_gaps = number(parser, name, 1..=1_000)?,
            _ => return Err(format!("this lab has no option --{name}").into()),
        }
        Ok(())
    }
}

/// The number behind an option, if it is within its bounds.
fn number(parser: &mut lexopt::Parser, name: &str, within: RangeInclusive<u64>) -> Result<u64, lexopt::Error> {
    let number: u64 = parser.value()?.parse()?;
    if within.contains(&number) {
        return Ok(number);
    }
    Err(format!("--{name} {number} is out of range; use {} to {}", within.start(), within.end()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Options>, String> {
        Options::read(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn words_mean_what_the_help_says() {
        let toto = read("toto --seed 9 --nodes 16 --messages 50 --runs 2 --ack-gaps 3").unwrap().unwrap();
        let lab = toto::Lab { nodes: 16, messages: 50, runs: 2, ack_gaps: 3 };
        assert_eq!(toto, Options { seed: 9, which: Which::Toto(lab) });
        assert!(read("--help").unwrap().is_none() && read("toto -h").unwrap().is_none());
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, wrong) in [
            ("", "which lab"),
            ("ring", "ring"),
            ("toto --nodes 1", "2 to 64"),
            ("toto --messages 0", "1 to 1000000"),
            ("toto --seed x", "x"),
            ("toto --seconds 5", "--seconds"),
            ("toto 8", "8"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(wrong) && error.contains("--help"), "{error}");
        }
    }
}
