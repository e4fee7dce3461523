//! `consort demo`: real daemons on this machine deliver one order to real clients, told as a short story.
#![allow(clippy::disallowed_methods, reason = "a program is where clocks, threads and waiting live")]

mod majority;
mod outcome;
mod story;
mod trouble;
mod verdict;

use crate::args::Args;
use crate::config::{PROTOCOLS, Protocol};
use crate::failure::{Failure, Outcome, Trying};
use consort_daemon::{args, clock, config, failure, figures, words};
use consort_inquiry::inquiry;
use consort_testbed::job::{Load, Pace};
use consort_testbed::{Round, Testbed};
use std::ffi::OsString;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use story::Story;
use verdict::DemoVerdict;

/// What `consort demo --help` prints.
pub const HELP: &str = "\
Usage: consort demo [options]

Starts real daemons on this machine, lets a client on each multicast a file of
lines, all at once, and shows that every receiver saw the same sequence. Then
kills a daemon while messages flow, brings it back, and has what all clients saw
judged by the checkers of the simulator. Takes a few seconds, leaves nothing
behind, and exits with 0 only if all sequences are equal, nothing is missing and
no promise is broken. With paxos it also kills the coordinator, then a majority,
and reads the whole order again at two nodes. With multiring it also kills the
daemon that joins the two rings, and another that stood by joins them.

  --nodes N        daemons to start, 1 to 16, with paxos or multiring-paxos 3 to
                   16 [3], with multiring 5 to 16 [5]
  --lines N        lines in the file, 1 to 10,000,000 [20,000]
  --protocol NAME  ring, toto, plato, paxos, multiring-paxos or multiring: what
                   orders the messages [ring]
  --file FILE      send the lines of this file instead
  --json           print one JSON object instead of the story
";

/// The messages of the quiet second part, over all senders, in a second.
const QUIET_RATE: f64 = 1_000.0;

/// With two rings: two nodes in each, and one that joins them.
const JOINED: u16 = 5;
/// Of fewer the one that is killed first would join the rings.
const JOINED_LEAST: u16 = 5;

#[derive(Debug)]
struct Options {
    nodes: u16,
    lines: u64,
    protocol: Protocol,
    file: Option<PathBuf>,
    json: bool,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let options = read(words)?;
    let began = clock::now_ns();
    let story = Story::new(options.json);
    let mut testbed = Testbed::start(options.nodes, &["--protocol".into(), options.protocol.name().into()])?;
    story.daemons(&testbed, options.protocol)?;
    let (file, lines) = file_of_lines(&options, testbed.directory())?;
    story.start(options.nodes, lines)?;
    let loud = round("loud", Load::Lines(file), Pace::Max)
        .run(&mut testbed, &mut story.progress(lines * square(options.nodes)))?;
    let retransmissions = retransmissions(&testbed)?;
    story.sequences(&loud, lines)?;
    story.load(&loud, retransmissions)?;
    let trouble = (options.nodes > 1)
        .then(|| trouble::play(&mut testbed, options.nodes, options.protocol, &story))
        .transpose()?;
    let majority = (options.protocol == Protocol::Paxos)
        .then(|| majority::play(&mut testbed, options.nodes, &story))
        .transpose()?;
    let quiet = round("quiet", Load::Made(100), Pace::Even(QUIET_RATE)).run(&mut testbed, &mut |_| {})?;
    story.quiet(&quiet, QUIET_RATE)?;
    testbed.stop();
    let parts = verdict::Parts { loud: &loud, trouble, majority, quiet: &quiet, retransmissions };
    let verdict = DemoVerdict::new(&options_of(&options, lines), parts, clock::now_ns() - began);
    story.end(&verdict)?;
    if verdict.ok { Ok(()) } else { Err(Failure::new(verdict.problem())) }
}

fn options_of(options: &Options, lines: u64) -> verdict::Planned {
    verdict::Planned { nodes: options.nodes, lines }
}

fn square(nodes: u16) -> u64 {
    u64::from(nodes) * u64::from(nodes)
}

fn read(words: Vec<OsString>) -> Outcome<Options> {
    let mut options = Options { nodes: 3, lines: 20_000, protocol: Protocol::Ring, file: None, json: false };
    let mut nodes = None;
    Args::only_options(words, HELP, |option, args| {
        match option {
            "--nodes" => nodes = Some(args.number(1..=16)? as u16),
            "--lines" => options.lines = args.number(1..=10_000_000)?,
            "--protocol" => options.protocol = args.choice(&PROTOCOLS)?,
            "--file" => options.file = Some(args.path()?),
            "--json" => options.json = true,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let joined = options.protocol == Protocol::MultiRing;
    options.nodes = nodes.unwrap_or(if joined { JOINED } else { options.nodes });
    if joined && options.nodes < JOINED_LEAST {
        return Err(Failure::usage(format!(
            "--nodes: {} are too few for two rings, two nodes in both, and one that is killed; give {JOINED_LEAST} to 16",
            options.nodes
        )));
    }
    let needs_majority = matches!(options.protocol, Protocol::Paxos | Protocol::MultiRingPaxos);
    if needs_majority && options.nodes < majority::NODES_MIN {
        return Err(Failure::usage(format!(
            "--nodes: with {} acceptors none may be missing, and {} has nothing to show; give {} to 16",
            options.nodes,
            options.protocol.name(),
            majority::NODES_MIN
        )));
    }
    Ok(options)
}

fn round(group: &str, load: Load, pace: Pace) -> Round {
    Round {
        group: group.into(),
        service: "agreed".into(),
        load,
        pace,
        cut: false,
        senders: None,
        receivers: None,
        unbatched: false,
        sockets: false,
        digest: true,
        warm_up: Duration::from_millis(if pace == Pace::Max { 0 } else { 200 }),
        span: Duration::from_millis(1_300),
    }
}

/// The file that is sent, and how many lines it has.
fn file_of_lines(options: &Options, directory: &Path) -> Outcome<(PathBuf, u64)> {
    if let Some(file) = &options.file {
        let text = fs::read(file).trying(|| format!("--file: cannot read {}", file.display()))?;
        let lines = consort_testbed::lines_of(&text).count() as u64;
        return match lines {
            0 => Err(Failure::usage(format!("--file: {} has no lines to send", file.display()))),
            lines => Ok((file.clone(), lines)),
        };
    }
    let file = directory.join("lines.txt");
    let written = fs::File::create(&file).map(BufWriter::new).and_then(|mut out| {
        (1..=options.lines)
            .try_for_each(|line| writeln!(out, "line {line:>8}: all that was said is heard in one order"))?;
        out.flush()
    });
    written.trying(|| format!("cannot write {}", file.display()))?;
    Ok((file, options.lines))
}

/// How many packets the daemons had to send again.
fn retransmissions(testbed: &Testbed) -> Outcome<u64> {
    let mut sum = 0;
    for card in testbed.cards() {
        sum += inquiry::counter(&card, "retransmissions_sent")?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Outcome<Options> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
        assert_eq!(options("--lnes 3").unwrap_err().message, "--lnes: there is no such option; did you mean --lines?");
    }

    #[test]
    fn a_protocol_that_is_none_and_too_few_daemons_for_a_majority_are_refused() {
        assert_eq!(
            options("--protocol raft").unwrap_err().message,
            "--protocol: `raft` does not fit; give ring, toto, plato, paxos, multiring-paxos or multiring"
        );
        let few = "--nodes: with 2 acceptors none may be missing, and paxos has nothing to show; give 3 to 16";
        assert_eq!(options("--nodes 2 --protocol paxos").unwrap_err().message, few);
        let few = few.replace("paxos", "multiring-paxos");
        assert_eq!(options("--nodes 1 --protocol multiring-paxos").unwrap_err().message, few.replace("2 acc", "1 acc"));
        assert_eq!(options("--protocol paxos --nodes 3").unwrap().nodes, 3);
        assert_eq!(options("--nodes 1").unwrap().nodes, 1, "a ring of one is one");
        let few = options("--nodes 4 --protocol multiring").unwrap_err().message;
        assert!(few.starts_with("--nodes: 4 are too few for two rings, ") && few.ends_with("; give 5 to 16"), "{few}");
        let joined = ["", " --nodes 8"].map(|more| options(&format!("--protocol multiring{more}")).unwrap().nodes);
        assert_eq!((joined, options("").unwrap().nodes), ([5, 8], 3));
    }

    #[test]
    fn a_file_without_lines_is_refused_before_anything_is_sent() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("empty");
        fs::write(&file, "").unwrap();
        let options = options(&format!("--file {}", file.display())).unwrap();
        assert!(file_of_lines(&options, directory.path()).unwrap_err().message.ends_with("has no lines to send"));
    }
}
