//! What is asked for.
mod rings;

use super::{deltas, plato, real, swaps, toto, windows};
use consort_types::Duration;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::ops::RangeInclusive;

/// What `--help` prints.
pub const HELP: &str = "\
cargo papers list               every figure and table of the papers, and two entries of our own
cargo papers run FIGURE...      runs figures, as `toto/table-2`, or all with --all: what the paper states beside what comes out
cargo papers report             runs all and writes one page with every plot: --to FILE (default consort-figures.html)
                               --plots FOLDER, of run and report: each plot as SVG and PNG (of report beside the page)
cargo papers calibrate          measures what work takes on this machine: --to FILE (default host.toml), --program FILE
cargo papers predict --host FILE   what 3 and 8 daemons do on such a machine, beside a measurement: --rate R (1000),
                               --measured FILE (read where it exists, else written), --program FILE
cargo papers toto [options]     ToTo against all-ack: latency at the sender, 50 to 200 messages a second
cargo papers plato [options]    PLATO against a fixed sequencer: latency at a receiver, 400 and 1600 packets a second
cargo papers deltas [options]   PLATO's latency and late revokes, from a short delta to a long one
cargo papers swaps [options]    how close to each other packets come that were swapped, and all packets
cargo papers windows [options]  the ring's own windows against fixed ones; the accelerated against the original ring
cargo papers rings [options]    the accelerated against the original ring with real daemons, on an Ethernet
cargo papers --check [all]      what is printed now against the tables of docs/lab.md; `all` takes some minutes more

  --seed S          where chance comes from (default 1); the entries of the thesis, `windows`, and Totem's with one ring
                    have a fixed one
  --quick           of run and report: a tenth of the time, for a look; verdicts may differ
  --network NET     of toto and plato: `virtual` (default), or `namespaces`

 toto:
  --nodes N         how many members, 2 to 64 (default 8, as in the paper)
  --messages N      how many messages a run measures (default 500)
  --runs N          how many runs make one line, each with phases of its own (default 40)
  --ack-gaps G      an acknowledgement is sent alone after so many of a sender's mean gaps (default 20: nearly never)

 plato, deltas, swaps:
  --seconds N       how long a line lasts, 1 to 3600 (default 60); the spike three times as long
  --delta US        of plato: how close packets must come to be suspected, in microseconds (default 128), or `adaptive`

 windows:
  --nodes N         how many members, 2 to 64 (default 8, as in the thesis)
  --millis N        how long each cell is measured, 10 to 10000 (default 150)

Virtual time; for toto and plato no loss, and hosts that cost nothing. The same seed prints the same table. What the papers measured stands
beside what was measured here.

 --network namespaces: real daemons and real time, in network namespaces joined by a switch that delays frames as the
 papers' networks did. Needs Linux, root, /dev/net/tun, and the program `ip`. It takes some minutes.
  --nodes N         of toto: how many daemons, 2 to 16 (default 8)
  --ack-gaps G      of toto: as above
  --delta US        of plato: as above
  --seconds N       how long a line lasts, 2 to 3600 (default 10); the spike three times as long
  --only PART       only a part of the table: a load of toto's; a k of plato's, or `spike`
  --program FILE    the program `consort` (built for release where none is named)

 rings: always with real daemons in network namespaces. Cables carry frames at one rate, a switch passes on what has come
 whole, and its ports hold so much. Both rings have the same fixed windows; they are measured in turn, to and fro: how much
 they carry, and how long messages take that are due at given times.
  --nodes N         how many daemons, 2 to 16 (default 3)
  --windows P/A,... personal and accelerated windows in packets (default 20/15)
  --from N          from how many packets in a visit on some follow the token, 1 to 1000 (default 2, as for every daemon)
  --rate BITS       of a cable in each direction, 1M to 1G (default 100M)
  --latency TIME    of the switch (default 50us)
  --queue BYTES     what a port holds, 2k to 100M (default 256k)
  --service LEVEL   agreed (default) or safe
  --idling PROFILE  latency, balanced (default) or frugal
  --loads PERCENTS  of a cable's rate, for latency (default 20,50,80), or `none`
  --runs N          how often, 1 to 100; medians are told (default 3)
  --millis N        how long each load is measured, 100 to 60000 (default 1000)
  --json            print one JSON object
  --program FILE    as above
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
    /// PLATO with other deltas.
    Deltas(deltas::Lab),
    /// How close swapped packets come.
    Swaps(swaps::Lab),
    /// ToTo against all-ack, with real daemons.
    RealToto(real::toto::Lab),
    /// PLATO against a fixed sequencer, with real daemons.
    RealPlato(real::plato::Lab),
    /// The ring's windows.
    Windows(windows::Lab),
    /// Both rings, with real daemons.
    Rings(real::rings::Lab),
}

/// An option and its value.
type Word = (String, String);

impl Options {
    /// Reads the words; `None` where help was asked for.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Option<Self>, String> {
        let mut parser = lexopt::Parser::from_args(words);
        let read = match split(&mut parser) {
            Ok(Some((name, words))) => Self::of(&name, &words).map(Some),
            Ok(None) => Ok(None),
            Err(error) => Err(error.to_string()),
        };
        read.map_err(|error| format!("{error}; see cargo papers --help"))
    }

    fn of(name: &str, words: &[Word]) -> Result<Self, String> {
        let network = words.iter().rfind(|(option, _)| option == "network").map(|(_, network)| network.as_str());
        let mut options = Self { seed: 1, which: Which::of(name, network)? };
        for (option, value) in words.iter().filter(|(option, _)| option != "network") {
            match &option[..] {
                "seed" => options.seed = value.parse().map_err(|_| format!("--seed {value} is not a number"))?,
                option => options.which.set(option, value)?,
            }
        }
        Ok(options)
    }
}

/// The laboratory's name, and its options; `None` where help was asked for.
fn split(parser: &mut lexopt::Parser) -> Result<Option<(String, Vec<Word>)>, lexopt::Error> {
    let name = match parser.next()? {
        Some(Value(name)) => name.string()?,
        Some(Long("help") | Short('h')) => return Ok(None),
        Some(other) => return Err(other.unexpected()),
        None => return Err(format!("say which lab: {LABS}").into()),
    };
    let mut words = Vec::new();
    while let Some(word) = parser.next()? {
        match word {
            Long("help") | Short('h') => return Ok(None),
            Long("json") => words.push(("json".into(), String::new())),
            Long(option) => {
                let option = option.to_owned();
                words.push((option, parser.value()?.string()?));
            }
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some((name, words)))
}

const LABS: &str = "toto, plato, deltas, swaps, windows or rings";

impl Which {
    fn of(name: &str, network: Option<&str>) -> Result<Self, String> {
        Ok(match (name, network.unwrap_or(if name == "rings" { "namespaces" } else { "virtual" })) {
            ("rings", "namespaces") => Self::Rings(real::rings::Lab::default()),
            ("rings", "virtual") => {
                return Err("rings is measured with real daemons alone; `windows` does the same in virtual time".into());
            }
            ("toto", "virtual") => Self::Toto(toto::Lab::default()),
            ("plato", "virtual") => Self::Plato(plato::Lab::default()),
            ("deltas", "virtual") => Self::Deltas(deltas::Lab::default()),
            ("swaps", "virtual") => Self::Swaps(swaps::Lab::default()),
            ("windows", "virtual") => Self::Windows(windows::Lab::default()),
            ("toto", "namespaces") => Self::RealToto(real::toto::Lab::default()),
            ("plato", "namespaces") => Self::RealPlato(real::plato::Lab::default()),
            ("deltas" | "swaps" | "windows", "namespaces") => {
                return Err(format!("{name} is measured in virtual time alone"));
            }
            ("toto" | "plato" | "deltas" | "swaps" | "windows" | "rings", network) => {
                return Err(format!("--network {network} is neither `virtual` nor `namespaces`"));
            }
            _ => return Err(format!("there is no lab {name:?}; use {LABS}")),
        })
    }

    fn set(&mut self, option: &str, value: &str) -> Result<(), String> {
        let within = |range| number(option, value, range);
        match (self, option) {
            (Self::Toto(lab), "nodes") => lab.nodes = within(2..=64)?,
            (Self::Toto(lab), "messages") => lab.messages = within(1..=1_000_000)?,
            (Self::Toto(lab), "runs") => lab.runs = within(1..=1_000)?,
            (Self::Toto(lab), "ack-gaps") => lab.ack_gaps = within(1..=1_000)?,
            (Self::Plato(lab), "seconds") => lab.seconds = within(1..=3_600)?,
            (Self::Plato(lab), "delta") => lab.delta = delta(value)?,
            (Self::Deltas(lab), "seconds") => lab.seconds = within(1..=3_600)?,
            (Self::Swaps(lab), "seconds") => lab.seconds = within(1..=3_600)?,
            (Self::Windows(lab), "nodes") => lab.nodes = within(2..=64)?,
            (Self::Windows(lab), "millis") => lab.millis = within(10..=10_000)?,
            (Self::RealToto(lab), "nodes") => lab.nodes = within(2..=16)?,
            (Self::RealToto(lab), "seconds") => lab.seconds = within(2..=3_600)?,
            (Self::RealToto(lab), "ack-gaps") => lab.ack_gaps = within(1..=1_000)?,
            (Self::RealToto(lab), "only") => lab.only = Some(load(value)?),
            (Self::RealToto(lab), "program") => lab.program = Some(value.into()),
            (Self::RealPlato(lab), "seconds") => lab.seconds = within(2..=3_600)?,
            (Self::RealPlato(lab), "delta") => lab.delta = delta(value)?,
            (Self::RealPlato(lab), "only") => lab.only = Some(part(value)?),
            (Self::RealPlato(lab), "program") => lab.program = Some(value.into()),
            (Self::Rings(lab), option) => return rings::set(lab, option, value),
            (Self::RealToto(_) | Self::RealPlato(_), _) => {
                return Err(format!("this lab has no option --{option} with --network namespaces"));
            }
            (Self::Toto(_) | Self::Plato(_), "only" | "program") => {
                return Err(format!("--{option} needs --network namespaces"));
            }
            _ => return Err(format!("this lab has no option --{option}")),
        }
        Ok(())
    }
}

/// The number behind an option, if it is within its bounds.
fn number(name: &str, value: &str, within: RangeInclusive<u64>) -> Result<u64, String> {
    match value.parse() {
        Ok(number) if within.contains(&number) => Ok(number),
        Ok(_) => Err(format!("--{name} {value} is out of range; use {} to {}", within.start(), within.end())),
        Err(_) => Err(format!("--{name} {value} is not a whole number; use {} to {}", within.start(), within.end())),
    }
}

/// A fixed delta, or none where it is to be adapted.
fn delta(value: &str) -> Result<Option<Duration>, String> {
    if value == "adaptive" {
        return Ok(None);
    }
    let micros = value.parse().ok().filter(|micros| *micros <= DELTA_MAX);
    let wrong = || format!("--delta {value} is neither `adaptive` nor a number of microseconds from 0 to {DELTA_MAX}");
    Ok(Some(Duration::from_micros(micros.ok_or_else(wrong)?)))
}

/// A load of ToTo's table.
fn load(value: &str) -> Result<u64, String> {
    let found = value.parse().ok().filter(|load| real::toto::loads().any(|known| known == *load));
    found.ok_or_else(|| format!("--only {value} is no load of the table; use {}", list(real::toto::loads())))
}

/// A part of PLATO's table.
fn part(value: &str) -> Result<real::plato::Only, String> {
    if value == "spike" {
        return Ok(real::plato::Only::Spike);
    }
    let found = value.parse().ok().filter(|every| real::plato::everies().any(|known| known == *every));
    let wrong = || format!("--only {value} is no part of the table; use {} or spike", list(real::plato::everies()));
    found.map(real::plato::Only::Every).ok_or_else(wrong)
}

fn list(values: impl Iterator<Item = impl ToString>) -> String {
    values.map(|value| value.to_string()).collect::<Vec<_>>().join(", ")
}

/// The longest delta, in microseconds.
const DELTA_MAX: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::real::plato::Only;
    use super::*;
    use consort::Service;
    use consort_testbed::network::ethernet::Ethernet;

    fn read(line: &str) -> Result<Option<Options>, String> {
        Options::read(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn words_mean_what_the_help_says() {
        let toto = read("toto --seed 9 --nodes 16 --messages 50 --runs 2 --ack-gaps 3").unwrap().unwrap();
        let lab = toto::Lab { nodes: 16, messages: 50, runs: 2, ack_gaps: 3, ..toto::Lab::default() };
        assert_eq!(toto, Options { seed: 9, which: Which::Toto(lab) });
        let plato = read("plato --seconds 3 --delta 50").unwrap().unwrap();
        let lab = plato::Lab { seconds: 3, delta: Some(Duration::from_micros(50)), ..plato::Lab::default() };
        assert_eq!(plato, Options { seed: 1, which: Which::Plato(lab) });
        let adaptive = read("plato --delta adaptive").unwrap().unwrap();
        assert_eq!(adaptive.which, Which::Plato(plato::Lab { delta: None, ..plato::Lab::default() }));
        let real =
            read("toto --only 150 --network namespaces --seconds 4 --nodes 5 --program x/consort").unwrap().unwrap();
        let program = Some("x/consort".into());
        let lab = real::toto::Lab { nodes: 5, seconds: 4, only: Some(150), program, ..real::toto::Lab::default() };
        assert_eq!(real, Options { seed: 1, which: Which::RealToto(lab) });
        let real = |only| {
            let Which::RealPlato(lab) =
                read(&format!("plato --network namespaces --only {only}")).unwrap().unwrap().which
            else {
                panic!("another lab")
            };
            lab.only
        };
        assert_eq!([real("25"), real("spike")], [Some(Only::Every(25)), Some(Only::Spike)]);
        assert_eq!(read("swaps --seconds 7").unwrap().unwrap().which, Which::Swaps(swaps::Lab { seconds: 7 }));
        assert_eq!(read("deltas --network virtual").unwrap().unwrap().which, Which::Deltas(deltas::Lab::default()));
        let windows = read("windows --nodes 3 --millis 20").unwrap().unwrap();
        assert_eq!(windows.which, Which::Windows(windows::Lab { nodes: 3, millis: 20 }));
        let rings = "rings --nodes 8 --windows 5/5,50/40 --from 1 --rate 50M --latency 100us --queue 64k --service safe --idling \
                     latency --loads 10,90 --runs 5 --millis 500 --json --program x";
        let ethernet = Ethernet { rate: 50_000_000, latency: Duration::from_micros(100), queue: 64_000 };
        let lab = real::rings::Lab {
            nodes: 8,
            windows: vec![(5, 5), (50, 40)],
            from: 1,
            ethernet,
            service: Service::Safe,
            idling: "latency".into(),
            loads: vec![10, 90],
            runs: 5,
            millis: 500,
            json: true,
            program: Some("x".into()),
        };
        assert_eq!(read(rings).unwrap().unwrap().which, Which::Rings(lab));
        assert!(read("rings --network namespaces").unwrap().is_some());
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
            ("toto --network ethernet", "neither `virtual` nor `namespaces`"),
            ("deltas --network namespaces", "virtual time alone"),
            ("toto --network namespaces --runs 3", "no option --runs with --network namespaces"),
            ("toto --network namespaces --nodes 17", "2 to 16"),
            ("toto --network namespaces --only 60", "50, 100, 150, 200"),
            ("plato --network namespaces --only 2", "1, 10, 25 or spike"),
            ("plato --only 10", "needs --network namespaces"),
            ("swaps --delta 1", "--delta"),
            ("swaps --json", "--json"),
            ("rings --network virtual", "real daemons alone"),
            ("rings --network ethernet", "neither `virtual` nor `namespaces`"),
            ("rings --windows 20", "such as 20/15"),
            ("rings --windows 20/15,5/6", "--windows 5/6 does not fit"),
            ("rings --windows 20/15,20/15", "twice"),
            ("rings --rate 10G", "1000000 to 1000000000"),
            ("rings --latency 50", "0us to 100ms"),
            ("rings --loads 20,0", "1 to 200"),
            ("rings --service causal", "neither `agreed` nor `safe`"),
            ("rings --idling deep", "latency, balanced or frugal"),
            ("rings --delta 1", "no option --delta"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(wrong) && error.contains("--help"), "{error}");
        }
    }
}
