//! What is asked for.
use super::{plato, toto, windows};
use consort_types::Duration;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::ops::RangeInclusive;

/// What `--help` prints.
pub const HELP: &str = "\
cargo xtask lab toto [options]     ToTo against all-ack: latency at the sender, 50 to 200 messages a second
cargo xtask lab plato [options]    PLATO against a fixed sequencer: latency at a receiver, 400 and 1600 packets a second
cargo xtask lab windows [options]  the ring's own windows against fixed ones; the accelerated against the original ring

  --seed S          where all chance comes from (default 1)

 toto:
  --nodes N         how many members, 2 to 64 (default 8, as in the paper)
  --messages N      how many messages a run measures (default 500)
  --runs N          how many runs make one line, each with phases of its own (default 40)
  --ack-gaps G      an acknowledgement is sent alone after so many of a sender's mean gaps (default 20: nearly never)

 plato:
  --seconds N       how long a line lasts, 1 to 3600 (default 60); the spike three times as long
  --delta US        how close packets must come to be suspected, in microseconds (default 128), or `adaptive`

 windows:
  --nodes N         how many members, 2 to 64 (default 8, as in the thesis)
  --millis N        how long each cell is measured, 10 to 10000 (default 40)

Virtual time; for toto and plato no loss, and hosts that cost nothing. The same seed prints the same table. What the papers measured stands
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
    /// PLATO against a fixed sequencer.
    Plato(plato::Lab),
    /// The ring's windows.
    Windows(windows::Lab),
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
            Some(Value(name)) if name == "plato" => Which::Plato(plato::Lab::default()),
            Some(Value(name)) if name == "windows" => Which::Windows(windows::Lab::default()),
            Some(Value(name)) => {
                return Err(format!("there is no lab {name:?}; there are toto, plato and windows").into());
            }
            Some(Long("help") | Short('h')) => return Ok(None),
            Some(other) => return Err(other.unexpected()),
            None => return Err("say which lab: toto, plato or windows".into()),
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
            (Self::Windows(lab), "nodes") => lab.nodes = number(parser, name, 2..=64)?,
            (Self::Windows(lab), "millis") => lab.millis = number(parser, name, 10..=10_000)?,
            (Self::Plato(lab), "seconds") => lab.seconds = number(parser, name, 1..=3_600)?,
            (Self::Plato(lab), "delta") => lab.delta = delta(parser)?,
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

/// A fixed delta, or none where it is to be adapted.
fn delta(parser: &mut lexopt::Parser) -> Result<Option<Duration>, lexopt::Error> {
    let text = parser.value()?.string()?;
    if text == "adaptive" {
        return Ok(None);
    }
    let micros = text.parse().ok().filter(|micros| *micros <= DELTA_MAX);
    let wrong = || format!("--delta {text} is neither `adaptive` nor a number of microseconds from 0 to {DELTA_MAX}");
    Ok(Some(Duration::from_micros(micros.ok_or_else(wrong)?)))
}

/// The longest delta, in microseconds.
const DELTA_MAX: u64 = 1_000_000;

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
        let plato = read("plato --seconds 3 --delta 50").unwrap().unwrap();
        let lab = plato::Lab { seconds: 3, delta: Some(Duration::from_micros(50)) };
        assert_eq!(plato, Options { seed: 1, which: Which::Plato(lab) });
        let adaptive = read("plato --delta adaptive").unwrap().unwrap();
        assert_eq!(adaptive.which, Which::Plato(plato::Lab { delta: None, ..plato::Lab::default() }));
        let windows = read("windows --nodes 3 --millis 20").unwrap().unwrap();
        assert_eq!(windows.which, Which::Windows(windows::Lab { nodes: 3, millis: 20 }));
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
            ("plato --seconds 0", "1 to 3600"),
            ("plato --delta soon", "soon"),
            ("plato --nodes 8", "--nodes"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(wrong) && error.contains("--help"), "{error}");
        }
    }
}
