//! The command line of `cargo chaos trials`.
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::chaos::options::{READS, one_of};
use crate::chaos::registers::Reads;
use crate::command::{self, Misuse, Word, within};

use super::site::Lengths;
use super::trial::{TRIALS, Trial};

/// What `--help` prints in front of the trials.
const HELP: &str = "\
Usage: cargo chaos trials [NAME..] [options]

Runs real daemons through one fault at a time, with clients that measure, and
prints for each trial: views made and how many of them were needless, the longest
pause of ordering, lost tokens, resident memory of the largest daemon before and
after and at most, and whether the goal was met. Without names, all trials run.

This needs Linux, root, /dev/net/tun, and the program `ip` (apt-get install
iproute2); without them it says so and does nothing, unless CONSORT_REQUIRE_NETNS
is 1. It ends with 1 where a goal was missed.

  --consort PATH   the program; given again, each trial runs with each in turn
                   [built for release]
  --setting LINE   a line more in the file of each daemon, for example
                   'scheduling = \"auto\"'; given again, all of them
  --seconds S      how long the faults of networks, floods, the lies of an insider
                   and the troubles of leaders and replicas last, and how long
                   a receiver reads nothing, 5 to 3600 [36]; with it `hostile`
                   tries only as many attacks as fit, less strictly
  --seed N         which these are [45]
  --minutes M      how long storms of processes last, 0.1 to 60 [0.5]
  --crashes N      how many daemons are killed, 1 to 100 [5]
  --stops N        how often daemons are stopped, 1 to 100 [12]
  --cuts N         how often sessions are cut off, 10 to 100000 [1000]
  --state MB       how large the state is that a replica lacks, 1 to 8000 [1000]
  --transfer MIB   how much of it is sent a second, 1 to 1000
                   [as replicas do by default]
  --senders N      how many threads send forged datagrams at once, 1 to 16 [2]
  --reads HOW      how replicated registers are read: ordered, or local, as they
                   are at the replica: such a trial must end red [ordered]

Trials:
";

/// What `--help` prints.
pub fn help() -> String {
    let trials = TRIALS.iter().map(|trial| format!("  {:<20} {}\n", trial.name, trial.about));
    std::iter::once(HELP.to_owned()).chain(trials).collect()
}

/// What is asked of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub trials: Vec<&'static Trial>,
    pub programs: Vec<PathBuf>,
    /// Lines for the file of each daemon.
    pub settings: String,
    pub lengths: Lengths,
    pub reads: Reads,
}

impl Options {
    /// Reads the words behind the command's name.
    ///
    /// # Errors
    /// [`Misuse`].
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, Misuse> {
        let mut options = Self {
            trials: Vec::new(),
            programs: Vec::new(),
            settings: String::new(),
            lengths: Lengths {
                network: Duration::from_secs(36),
                storm: Duration::from_secs(30),
                crashes: 5,
                stops: 12,
                cuts: 1_000,
                state: 1_000_000_000,
                transfer: None,
                senders: 2,
                asked: None,
                seed: None,
            },
            reads: Reads::Ordered,
        };
        command::read(words, |word, parser| match word {
            Word::Option(name) => options.take(&name, parser),
            Word::Name(name) => {
                options.trials.push(named(&name)?);
                Ok(())
            }
        })?;
        if options.trials.is_empty() {
            options.trials = TRIALS.iter().collect();
        }
        Ok(options)
    }

    fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<(), String> {
        let mut value = || parser.value().map_err(|_| format!("{name} needs a value; see --help"));
        let seconds = |number: f64, unit: f64| Duration::from_secs_f64(number * unit);
        match name {
            "--consort" => self.programs.push(program(value()?.into())?),
            "--setting" => self.settings += &line(value()?)?,
            "--seconds" => {
                self.lengths.network = seconds(within(name, &value()?, 5.0..=3_600.0)?, 1.0);
                self.lengths.asked = Some(self.lengths.network);
            }
            "--seed" => self.lengths.seed = Some(within(name, &value()?, 0..=u64::MAX)?),
            "--minutes" => self.lengths.storm = seconds(within(name, &value()?, 0.1..=60.0)?, 60.0),
            "--crashes" => self.lengths.crashes = within(name, &value()?, 1..=100)?,
            "--cuts" => self.lengths.cuts = within(name, &value()?, 10..=100_000)?,
            "--state" => self.lengths.state = 1_000_000 * within::<u64>(name, &value()?, 1..=8_000)?,
            "--transfer" => self.lengths.transfer = Some(within::<u64>(name, &value()?, 1..=1_000)? << 20),
            "--reads" => self.reads = one_of((name, "no keeper reads"), &value()?, &READS)?,
            "--senders" => self.lengths.senders = within(name, &value()?, 1..=16)?,
            "--stops" => self.lengths.stops = within(name, &value()?, 1..=100)?,
            _ => return Err(format!("{name}: there is no such option; --help lists the options")),
        }
        Ok(())
    }
}

fn named(name: &str) -> Result<&'static Trial, String> {
    let known = || TRIALS.iter().map(|trial| trial.name).collect::<Vec<_>>().join(", ");
    TRIALS
        .iter()
        .find(|trial| trial.name == name)
        .ok_or_else(|| format!("there is no trial `{name}`; there are: {}", known()))
}

/// A line for the daemons' files; what it may say, their reader knows.
fn line(words: OsString) -> Result<String, String> {
    words.into_string().map(|line| line + "\n").map_err(|words| format!("--setting: {} is no text", words.display()))
}

fn program(path: PathBuf) -> Result<PathBuf, String> {
    std::fs::canonicalize(&path).map_err(|error| format!("--consort: {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Options, Misuse> {
        Options::read(words.iter().map(OsString::from))
    }

    #[test]
    fn names_choose_trials_and_without_any_all_run() {
        assert_eq!(read(&[]).unwrap().trials.len(), TRIALS.len());
        assert_eq!(read(&["joiner", "--state", "5", "--transfer", "2"]).unwrap().lengths.state, 5_000_000);
        assert_eq!(read(&["attack", "--senders", "3"]).unwrap().lengths.senders, 3);
        let insider = read(&["insider", "--seconds", "12"]).unwrap();
        assert_eq!((insider.trials[0].name, insider.lengths.network), ("insider", Duration::from_secs(12)));
        let hostile = read(&["hostile", "--seconds", "40", "--seed", "7"]).unwrap().lengths;
        assert_eq!((hostile.asked, hostile.seed), (Some(Duration::from_secs(40)), Some(7)));
        let whole = read(&["hostile"]).unwrap().lengths;
        assert_eq!((whole.asked, whole.seed), (None, None));
        assert_eq!(read(&["replica", "--reads", "local"]).unwrap().reads, Reads::Local);
        let set = read(&["--setting", "a = 1", "--setting", "b = 2"]).unwrap();
        assert_eq!(set.settings, "a = 1\nb = 2\n");
        let chosen = read(&["stops-250", "crash", "--crashes", "3", "--minutes", "0.5"]).unwrap();
        let names: Vec<_> = chosen.trials.iter().map(|trial| trial.name).collect();
        assert_eq!(
            (names, chosen.lengths.crashes, chosen.lengths.storm),
            (vec!["stops-250", "crash"], 3, Duration::from_secs(30))
        );
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        let refused = |words: &[&str]| read(words).unwrap_err().unwrap();
        assert!(refused(&["flood"]).starts_with("there is no trial `flood`; there are: stale-arp, "));
        assert_eq!(refused(&["--crashes", "0"]), "--crashes: `0` does not fit; give a number from 1 to 100");
        assert!(refused(&["--consort", "/nowhere/consort"]).starts_with("--consort: /nowhere/consort: "));
        assert_eq!(
            refused(&["insider", "--seconds", "1"]),
            "--seconds: `1` does not fit; give a number from 5 to 3600"
        );
        assert_eq!(refused(&["--senders", "0"]), "--senders: `0` does not fit; give a number from 1 to 16");
        assert_eq!(refused(&["--state", "0"]), "--state: `0` does not fit; give a number from 1 to 8000");
        assert_eq!(refused(&["--reads", "dirty"]), "--reads: no keeper reads `dirty`; use ordered or local");
        assert_eq!(refused(&["--stops"]), "--stops needs a value; see --help");
        assert!(refused(&["--fast"]).ends_with("there is no such option; --help lists the options"));
        assert_eq!(read(&["--help"]), Err(None));
    }
}
