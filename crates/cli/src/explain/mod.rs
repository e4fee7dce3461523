//! `consort explain`: the last changes of the network, as one daemon was told them, with their causes.

mod story;

use crate::args::Args;
use crate::connect::{self, Wanted};
use crate::failure::{Failure, Outcome, note};
use consort::Address;
use std::ffi::OsString;
use std::io::{self, Write};
use story::Story;

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
a policy, as on one machine without a file, nothing is said of it.

Daemons that were apart tell different stories: ask one on either side.
";

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let mut args = Args::new(words, HELP);
    let (mut wanted, mut json, mut last) = (Wanted::default(), false, 10);
    while let Some(option) = args.next()? {
        match option.as_str() {
            "--json" => json = true,
            "--last" => last = args.number(1..=1_000)? as usize,
            option if wanted.take(option, &mut args)? => {}
            _ => return Err(args.unknown()),
        }
    }
    args.no_words()?;
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

/// Asks the wanted daemon. Where several could be meant people are told which was asked.
fn ask(wanted: &Wanted, quiet: bool) -> Outcome<Story> {
    let (address, cluster) = match wanted.given() {
        Some(address) => (address.clone(), None),
        None => {
            let card = wanted.choose(if quiet { |_| {} } else { note })?;
            (Address::Unix(card.door), Some(card.cluster))
        }
    };
    let status = connect::status(&address)?;
    Story::read(cluster.as_deref(), status)
        .ok_or_else(|| Failure::new(format!("{address} tells of no change of the network; is it of another version?")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_that_help_shows_is_known() {
        let run = |line: &str| main(line.split_whitespace().map(OsString::from).collect());
        for option in crate::args::options_of(HELP) {
            // An extra word stops the command before it asks anybody.
            if let Err(failure) = run(&format!("{option} 1 extra")) {
                assert!(!failure.message.contains("no such option"), "{option}: {}", failure.message);
            }
        }
        assert_eq!(run("--last 0").unwrap_err().message, "--last: `0` does not fit; give a number from 1 to 1000");
        assert_eq!(run("--las 3").unwrap_err().message, "--las: there is no such option; did you mean --last?");
    }
}
