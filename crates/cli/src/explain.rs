//! `consort explain`: the last changes of the network, as one daemon was told them, with their causes.

use crate::args::Args;
use crate::connect::Wanted;
use crate::failure::{Failure, Outcome, note};
use crate::inquiry;
use consort::Address;
use consort_inquiry::story::Story;
use std::ffi::OsString;
use std::io::{self, Write};

/// What `consort explain --help` prints.
pub const HELP: &str = "\
Usage: consort explain [options]

Tells the last changes of the network as a daemon was told them, oldest first:
when, which view, who is in it, who came and who is gone, whether it is
primary, and why it came, with the evidence.

  --last N         at most so many changes [10]; a daemon remembers 64 lines
  --json           print one JSON object, all changes in it

  --node ID        ask this node's daemon [the lowest on this machine]
  --cluster NAME   of this cluster
  --daemon ADDR    ask the daemon at this socket path or ADDRESS:PORT

A view is primary if its members may act for the whole cluster. The setting
`primary` of the file says which part may [more than half of the nodes]. Without
a policy, as on one machine without a file and without paxos, nothing is said of
it.

Daemons that were apart tell different stories: ask one on either side.
";

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let (wanted, json, last) = read(words)?;
    let story = ask(&wanted, json)?;
    let mut out = io::stdout();
    if json {
        writeln!(out, "{}", serde_json::to_string(&story).unwrap_or_default())?;
        return Ok(());
    }
    for line in story.lines(last) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn read(words: Vec<OsString>) -> Outcome<(Wanted, bool, usize)> {
    let (mut wanted, mut json, mut last) = (Wanted::default(), false, 10);
    Args::only_options(words, HELP, |option, args| {
        match option {
            "--json" => json = true,
            "--last" => last = args.number(1..=1_000)? as usize,
            _ => return wanted.take(option, args),
        }
        Ok(true)
    })?;
    Ok((wanted, json, last))
}

/// Asks the wanted daemon. Where several could be meant people are told which was asked.
fn ask(wanted: &Wanted, quiet: bool) -> Outcome<Story> {
    let (address, cluster) = match wanted.given() {
        Some(address) => (address.clone(), None),
        None => {
            let card = wanted.choose(if quiet { |_| {} } else { note })?;
            (Address::Unix(card.socket), Some(card.cluster))
        }
    };
    let status = inquiry::status(&address)?;
    Story::read(cluster.as_deref(), status)
        .ok_or_else(|| Failure::new(format!("{address} tells of no change of the network; is it of another version?")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
        let run = |line: &str| main(line.split_whitespace().map(OsString::from).collect());
        assert_eq!(run("--last 0").unwrap_err().message, "--last: `0` does not fit; give a number from 1 to 1000");
        assert_eq!(run("--las 3").unwrap_err().message, "--las: there is no such option; did you mean --last?");
    }
}
