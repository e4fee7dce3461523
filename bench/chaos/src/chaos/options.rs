//! The command line of `cargo chaos run`.
use super::networks::FEWEST;
use super::registers::Reads;
use crate::command::{self, Misuse, within};
use consort_daemon::config::{PROTOCOLS, Protocol, STORAGES, Storage};
use consort_daemon::words;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` prints.
pub const HELP: &str = "\
Usage: cargo chaos run [options]
       cargo chaos run --judge DIR

Runs real daemons in network namespaces while everything goes wrong that a seed
can think of: kill -9, restart with the state directory kept or lost, leaving in
good order, SIGSTOP for less and for more than token_loss, up to 2 s, also of
all at once, partitions, cuts in one direction or between two nodes only, loss,
delay, jitter, duplication, reordering, corruption, low rates. Real clients send
and receive in several groups. Storms alternate with calms, in which all must
come back to one view and all must be delivered that living clients had sent.
What every client saw is judged by the checkers of the simulator.

With paxos all daemons may be killed at once, and nodes 1 and 2, of the three
acceptors, keep their state. With storage memory, and with multiring-paxos,
these two are never ended. Clients of paxos also keep registers that are read,
written, and compared and set; what they were told must be linearizable. Where
acceptors keep votes on disk, that of node 3 is full now and then: its daemon
has to say so and end, and is started again with room.

With multiring each ring is a network of its own, with faults of its own. From 5
nodes on three of them form a chain, with 3 or 4 nodes two. From 7 nodes on they
form a loop, with two gateways between the first two. Gateways are killed in
turn.

This needs Linux, root, /dev/net/tun, and the program `ip` (apt-get install
iproute2); without them it says so and does nothing, unless
CONSORT_REQUIRE_NETNS is 1.

  --protocol NAME  ring, toto, plato, paxos, multiring-paxos or multiring: what
                   orders the messages [ring]
  --storage KIND   what acceptors of paxos keep: memory, async or sync [sync]
  --reads HOW      how registers are read: ordered, or local, without the order:
                   such a run must end red [ordered]
  --retain WHAT    how much of the order acceptors of paxos keep: little, so that
                   some must start anew, or all, which at the end nodes 1 and 2
                   tell again, alike and with all that was acknowledged. With
                   multiring none, so that gateways send on only what is read
                   behind them; with multiring-paxos none, so that each daemon
                   takes part only in the rings of its groups [little]
  --nodes N        daemons, 2 to 32 [5]
  --minutes M      how long faults come and go, such as 10 or 0.5 [1]
  --seconds S      the same in seconds
  --seed S         what is drawn from chance [taken from the clock, and printed]
  --keep           keep traces and logs of a run in which all was well, too
  --judge DIR      judge the traces that a run has kept, once more
";

/// How registers may be read.
pub const READS: [(&str, Reads); 2] = [("ordered", Reads::Ordered), ("local", Reads::Local)];

const RETAIN: [(&str, Retain); 3] = [("none", Retain::None), ("little", Retain::Little), ("all", Retain::All)];

/// How much of the order is retained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retain {
    /// Nothing, of what clients read.
    None,
    /// So little that some nodes miss a part.
    Little,
    /// All of it.
    All,
}

/// What is asked of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub protocol: Protocol,
    pub storage: Storage,
    pub reads: Reads,
    pub retain: Retain,
    pub nodes: u16,
    pub length: Duration,
    pub seed: Option<u64>,
    pub keep: bool,
    pub judge: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            protocol: Protocol::Ring,
            storage: Storage::Sync,
            reads: Reads::Ordered,
            retain: Retain::Little,
            nodes: 5,
            length: Duration::from_secs(60),
            seed: None,
            keep: false,
            judge: None,
        }
    }
}

impl Options {
    /// Reads the words behind the command's name.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, Misuse> {
        let mut options = Self::default();
        command::read(words, |word, parser| options.take(&word.option()?, parser))?;
        let outlasts = options.protocol == Protocol::Paxos && options.storage != Storage::Memory;
        if options.retain == Retain::All && !outlasts {
            return Err(Some(
                "--retain: only paxos on disk keeps all; add --protocol paxos, and no --storage memory".into(),
            ));
        }
        if options.retain == Retain::None && !matches!(options.protocol, Protocol::MultiRing | Protocol::MultiRingPaxos)
        {
            let text = "--retain: only many rings go by that; add --protocol multiring or --protocol multiring-paxos";
            return Err(Some(text.into()));
        }
        if options.protocol == Protocol::MultiRing && options.nodes < FEWEST {
            return Err(Some(format!(
                "--nodes: multiring joins two networks by a gateway, which {} nodes do not make; give {FEWEST} or more",
                options.nodes
            )));
        }
        match (options.protocol, options.reads) {
            (Protocol::Paxos, _) | (_, Reads::Ordered) => Ok(options),
            (_, Reads::Local) => {
                Err(Some("--reads: only clients of paxos keep registers; add --protocol paxos".into()))
            }
        }
    }

    fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<(), String> {
        let mut value = || parser.value().map_err(|_| format!("{name} needs a value; see --help"));
        let seconds = |number: f64, unit: f64| Duration::from_secs_f64(number * unit);
        match name {
            "--protocol" => self.protocol = one_of((name, "no daemon offers"), &value()?, &PROTOCOLS)?,
            "--storage" => self.storage = one_of((name, "no daemon offers"), &value()?, &STORAGES)?,
            "--reads" => self.reads = one_of((name, "no caller reads"), &value()?, &READS)?,
            "--retain" => self.retain = one_of((name, "no run retains"), &value()?, &RETAIN)?,
            "--keep" => self.keep = true,
            "--nodes" => self.nodes = within(name, &value()?, 2..=32)?,
            "--minutes" => self.length = seconds(within(name, &value()?, 0.05..=1_440.0)?, 60.0),
            "--seconds" => self.length = seconds(within(name, &value()?, 3.0..=86_400.0)?, 1.0),
            "--seed" => self.seed = Some(within(name, &value()?, 0..=u64::MAX)?),
            "--judge" => self.judge = Some(value()?.into()),
            _ => return Err(format!("{name}: there is no such option; --help lists the options")),
        }
        Ok(())
    }
}

/// The value of a word, or what is wrong with it, in these words.
pub fn one_of<T: Copy, const N: usize>(
    (name, nobody): (&str, &str),
    given: &OsString,
    known: &[(&str, T); N],
) -> Result<T, String> {
    let given = given.to_string_lossy();
    let found = known.iter().find(|(word, _)| *word == given);
    let words = || words::either(&known.map(|(word, _)| word));
    found.map(|(_, value)| *value).ok_or_else(|| format!("{name}: {nobody} `{given}`; use {}", words()))
}

impl fmt::Display for Options {
    /// The options that lead to this run again, but for the seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (protocol, storage) = (self.protocol.name(), self.storage.name());
        let storage = if self.protocol == Protocol::Paxos { format!(" --storage {storage}") } else { String::new() };
        let reads = if self.reads == Reads::Local { " --reads local" } else { "" };
        let retain = match self.retain {
            Retain::None => " --retain none",
            Retain::Little => "",
            Retain::All => " --retain all",
        };
        write!(
            f,
            "--protocol {protocol}{storage}{reads}{retain} --nodes {} --seconds {}",
            self.nodes,
            self.length.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, Misuse> {
        Options::read(line.split_whitespace().map(OsString::from))
    }

    fn problem(line: &str) -> String {
        read(line).unwrap_err().unwrap()
    }

    #[test]
    fn the_printed_form_leads_to_the_same_run() {
        let options = read("--protocol toto --nodes 7 --minutes 2.5 --seed 9").unwrap();
        assert_eq!(options.protocol, Protocol::Toto);
        assert_eq!((options.nodes, options.length, options.seed), (7, Duration::from_secs(150), Some(9)));
        assert_eq!(read(&format!("{options} --seed 9")).unwrap(), options);
        assert_eq!(read("").unwrap(), Options::default());
        let paxos = read("--protocol paxos --storage memory --seconds 40").unwrap();
        assert_eq!((read(&paxos.to_string()).unwrap(), paxos.storage), (paxos.clone(), Storage::Memory));
        let all = read("--protocol paxos --retain all").unwrap();
        assert_eq!((read(&all.to_string()).unwrap(), all.retain), (all.clone(), Retain::All));
        let none = read("--protocol multiring --retain none").unwrap();
        assert_eq!((read(&none.to_string()).unwrap(), none.retain), (none.clone(), Retain::None));
        let local = read("--protocol paxos --reads local").unwrap();
        assert_eq!((read(&local.to_string()).unwrap(), local.reads), (local.clone(), Reads::Local));
    }

    #[test]
    fn wrong_lines_name_option_value_and_what_fits() {
        assert_eq!(problem("--nodes 1"), "--nodes: `1` does not fit; give a number from 2 to 32");
        assert_eq!(problem("--minutes soon"), "--minutes: `soon` does not fit; give a number from 0.05 to 1440");
        assert_eq!(problem("--seconds NaN"), "--seconds: `NaN` does not fit; give a number from 3 to 86400");
        for none in ["vote", "raft"] {
            let problem = problem(&format!("--protocol {none}"));
            assert_eq!(
                problem,
                format!(
                    "--protocol: no daemon offers `{none}`; use ring, toto, plato, paxos, multiring-paxos or multiring"
                )
            );
        }
        assert_eq!(problem("--storage disk"), "--storage: no daemon offers `disk`; use memory, async or sync");
        assert_eq!(problem("--reads dirty"), "--reads: no caller reads `dirty`; use ordered or local");
        assert_eq!(problem("--reads local"), "--reads: only clients of paxos keep registers; add --protocol paxos");
        for vain in ["--retain all", "--protocol paxos --storage memory --retain all"] {
            assert!(problem(vain).starts_with("--retain: only paxos on disk keeps all"), "{}", problem(vain));
        }
        assert!(problem("--retain none").starts_with("--retain: only many rings go by that"));
        assert_eq!(problem("--retain much"), "--retain: no run retains `much`; use none, little or all");
        assert_eq!(
            problem("--nodes 2 --protocol multiring"),
            "--nodes: multiring joins two networks by a gateway, which 2 nodes do not make; give 3 or more"
        );
        assert_eq!(problem("--seed"), "--seed needs a value; see --help");
        assert_eq!(problem("--faults all"), "--faults: there is no such option; --help lists the options");
        assert!(problem("stray").contains("stray"));
        assert_eq!(read("--help"), Err(None));
    }

    #[test]
    fn help_names_every_option() {
        for name in HELP.split_whitespace().filter(|word| word.starts_with("--")) {
            if let Err(Some(problem)) = read(name) {
                assert!(!problem.contains("no such option"), "{name}: {problem}");
            }
        }
    }
}
