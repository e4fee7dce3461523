//! The command line.
use crate::args::Args;
use crate::failure::{Failure, Outcome};
use consort_inquiry::connect::Wanted;
use std::ffi::OsString;
use std::time::Duration;

/// What `consort top --help` prints.
pub const HELP: &str = "\
Usage: consort top [options]

Shows the daemons of a cluster on this machine, who they see, the groups, the
clients, what is ordered a second, who holds the others back, and the last
changes with their causes. The screen has four panes; F1 lists the keys.

  --every TIME     how often to ask, 100ms to 1m [1s]
  --once           print all once, as text, after one such time
  --json           with --once: as one JSON object

  --cluster NAME   the daemons of this cluster
  --node ID        only this node
  --daemon ADDR    the daemon at this socket path or ADDRESS:PORT

Rates are differences between two looks. A daemon that goes away stays on the
screen with the reason, and is asked again.
";

/// The shortest time between two looks, and the longest.
const EVERY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// How to show what is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// On the terminal, again and again.
    Screen,
    /// As text, once.
    Once,
    /// As JSON, once.
    Json,
}

/// What is wanted.
#[derive(Debug)]
pub struct Options {
    /// Whom to ask.
    pub wanted: Wanted,
    /// How often.
    pub every: Duration,
    /// How to show it.
    pub output: Output,
}

/// Reads the words behind the command's name.
pub fn read(words: Vec<OsString>) -> Outcome<Options> {
    let (mut wanted, mut every, mut once, mut json) = (Wanted::default(), Duration::from_secs(1), false, false);
    Args::only_options(words, HELP, |option, args| {
        match option {
            "--every" => every = time(args)?,
            "--once" => once = true,
            "--json" => json = true,
            _ => return wanted.take(option, args),
        }
        Ok(true)
    })?;
    let output = match (once, json) {
        (false, true) => return Err(Failure::usage("--json goes with --once: a screen is for people")),
        (false, false) => Output::Screen,
        (true, false) => Output::Once,
        (true, true) => Output::Json,
    };
    Ok(Options { wanted, every, output })
}

fn time(args: &mut Args) -> Outcome<Duration> {
    let every = args.duration()?;
    let (least, most) = EVERY;
    if (least..=most).contains(&every) {
        return Ok(every);
    }
    Err(args.wrong(&format!("{every:?}"), &format!("a time from {least:?} to {most:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Outcome<Options> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    fn problem(line: &str) -> String {
        options(line).unwrap_err().message
    }

    #[test]
    fn every_option_that_help_shows_is_known_and_fits_a_terminal() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
        assert!(HELP.lines().all(|line| line.len() <= 80));
        assert!(problem("--help").starts_with("Usage: consort top"));
    }

    #[test]
    fn what_is_wanted_is_read() {
        let plain = options("").unwrap();
        assert_eq!((plain.output, plain.every), (Output::Screen, Duration::from_secs(1)));
        let json = options("--json --once --every 250ms").unwrap();
        assert_eq!((json.output, json.every), (Output::Json, Duration::from_millis(250)));
        assert_eq!(options("--once").unwrap().output, Output::Once);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        assert_eq!(problem("--json"), "--json goes with --once: a screen is for people");
        assert_eq!(problem("--every 0s"), "--every: `0ns` does not fit; give a time from 100ms to 60s");
        assert_eq!(problem("--every 2h"), "--every: `7200s` does not fit; give a time from 100ms to 60s");
        assert!(problem("--every soon").starts_with("--every: `soon` does not fit; give a time such as"));
        assert_eq!(problem("--onc"), "--onc: there is no such option; did you mean --once?");
        assert!(problem("now").starts_with("`now` is not an option"));
    }
}
