//! The words of the command line.
use consort_sim::fault::{Kind, Kinds};
use lexopt::prelude::*;
use std::ffi::OsString;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which protocol.
    pub protocol: Protocol,
    /// Which faults may happen.
    pub faults: Kinds,
    /// Which sessions there are.
    pub sessions: Sessions,
    /// How many threads run seeds.
    pub threads: usize,
    /// Which seeds.
    pub task: Task,
}

/// The protocols that can be simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The token ring.
    #[default]
    Ring,
    /// Votes over a causal DAG.
    Toto,
    /// A sequencer whose receivers predict.
    Plato,
    /// Votes of a majority over a log.
    Paxos,
    /// Many such logs, merged.
    MultiRingPaxos,
    /// Many token rings, joined by gateways.
    MultiRing,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Ring, Self::Toto, Self::Plato, Self::Paxos, Self::MultiRingPaxos, Self::MultiRing];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Toto => "toto",
            Self::Plato => "plato",
            Self::Paxos => "paxos",
            Self::MultiRingPaxos => "multiring-paxos",
            Self::MultiRing => "multiring",
        }
    }

    /// The one of that name.
    ///
    /// # Errors
    /// That there is none, and which there are.
    pub fn named(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(" and ");
        let found = Self::ALL.into_iter().find(|protocol| protocol.name() == name);
        found.ok_or_else(|| format!("no protocol `{name}`; there are {}", names()))
    }
}

/// Which sessions that outlive their daemons a run has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sessions {
    /// The seed says.
    #[default]
    ByChance,
    /// Some that send.
    Senders,
    /// Some that read.
    Readers,
    /// Some that want to lead.
    Candidates,
    /// Servers with a replicated state, where the order lasts.
    Servers,
}

impl Sessions {
    const ALL: [(Self, &'static str); 5] = [
        (Self::ByChance, "drawn"),
        (Self::Senders, "senders"),
        (Self::Readers, "readers"),
        (Self::Candidates, "candidates"),
        (Self::Servers, "servers"),
    ];

    fn named(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(|(_, name)| name).join(", ");
        let found = Self::ALL.iter().find(|(_, known)| *known == name).map(|(sessions, _)| *sessions);
        found.ok_or_else(|| format!("no sessions `{name}`; there are {}", names()))
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(sessions, _)| *sessions == self).map_or("", |(_, name)| name)
    }
}

/// Which seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// One, with its story.
    One { seed: u64, whole: bool },
    /// Many.
    Batch { first: u64, seeds: u64 },
    /// None: measure how fast idle nodes are.
    Idle { nodes: u16 },
    /// None: how long 2 to 128 members are without a view after a crash and the like.
    Failover { runs: u64 },
}

/// What `--help` prints.
pub fn help() -> String {
    let faults: String = Kind::ALL.iter().map(|kind| format!("    {:<12}{}\n", kind.name(), kind.what())).collect();
    format!(
        "\
cargo xtask sim --protocol NAME [options]

  --protocol NAME    ring (default), toto, plato, paxos, multiring-paxos or multiring
  --seeds N          run N seeds of 10 simulated seconds (default 100)
  --first-seed S     the first of them (default 1)
  --seed S           run one seed and tell its story
  --whole            do not leave out the middle of the story
  --faults LIST      all (default), steady (those that change no membership), none, or some of these, with commas:
{faults}  --sessions KIND    drawn (default), or in every run senders, readers, candidates or servers
  --threads N        run so many seeds at a time (default: one for each core)
  --idle [NODES]     (ring) measure how much faster than real time idle nodes (default 5) are simulated
  --failover [RUNS]  (ring) how long 2 to 128 members take to a new view after a crash, a restart, a good-bye and at first

Ends with one line that sums up. If a promise was broken, says which, and with which command to see it again.
"
    )
}

impl Options {
    /// Reads the words; `None` where help was asked for.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Option<Self>, String> {
        let mut parser = lexopt::Parser::from_args(words);
        Self::parse(&mut parser).map_err(|error| format!("{error}; see cargo xtask sim --help"))
    }

    fn parse(parser: &mut lexopt::Parser) -> Result<Option<Self>, lexopt::Error> {
        let (mut first, mut seeds, mut one, mut whole) = (1, 100, None, false);
        let (mut idle, mut failover) = (None, None);
        let mut options = Self {
            protocol: Protocol::Ring,
            faults: Kinds::all(),
            sessions: Sessions::ByChance,
            threads: cores(),
            task: Task::Idle { nodes: 0 },
        };
        while let Some(word) = parser.next()? {
            match word {
                Long("protocol") => options.protocol = Protocol::named(&parser.value()?.string()?)?,
                Long("faults") => options.faults = parser.value()?.parse_with(str::parse)?,
                Long("sessions") => options.sessions = Sessions::named(&parser.value()?.string()?)?,
                Long("seeds") => seeds = parser.value()?.parse()?,
                Long("first-seed") => first = parser.value()?.parse()?,
                Long("seed") => one = Some(parser.value()?.parse()?),
                Long("whole") => whole = true,
                Long("threads") => options.threads = parser.value()?.parse::<usize>()?.max(1),
                Long("idle") => idle = Some(parser.optional_value().map_or(Ok(5), |value| value.parse())?),
                Long("failover") => failover = Some(parser.optional_value().map_or(Ok(20), |value| value.parse())?),
                Value(nodes) if idle.is_some() => idle = Some(nodes.parse()?),
                Long("help") | Short('h') => return Ok(None),
                other => return Err(other.unexpected()),
            }
        }
        options.task = match (failover, idle, one) {
            (Some(runs), ..) => Task::Failover { runs },
            (None, Some(nodes), _) => Task::Idle { nodes },
            (None, None, Some(seed)) => Task::One { seed, whole },
            (None, None, None) => Task::Batch { first, seeds },
        };
        Ok(Some(options))
    }

    /// The command that shows a seed again.
    pub fn replay(&self, seed: u64) -> String {
        let sessions = match self.sessions {
            Sessions::ByChance => String::new(),
            sessions => format!(" --sessions {}", sessions.name()),
        };
        format!("cargo xtask sim --protocol {} --faults {}{sessions} --seed {seed}", self.protocol.name(), self.faults)
    }
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Options>, String> {
        Options::read(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn words_mean_what_the_help_says() {
        let options = read("--protocol ring --faults slow,late --seeds 7 --first-seed 3").unwrap().unwrap();
        assert_eq!(
            (options.faults.to_string(), options.task),
            ("slow,late".into(), Task::Batch { first: 3, seeds: 7 })
        );
        assert_eq!(options.replay(5), "cargo xtask sim --protocol ring --faults slow,late --seed 5");
        let toto = read("--protocol toto").unwrap().unwrap();
        assert_eq!(toto.replay(5), "cargo xtask sim --protocol toto --faults all --seed 5");
        let readers = read("--sessions readers").unwrap().unwrap();
        assert_eq!(readers.replay(5), "cargo xtask sim --protocol ring --faults all --sessions readers --seed 5");
        let one = read("--seed 9 --whole").unwrap().unwrap();
        assert_eq!(one.task, Task::One { seed: 9, whole: true });
        assert_eq!(read("--idle 8").unwrap().unwrap().task, Task::Idle { nodes: 8 });
        assert_eq!(read("--failover=3").unwrap().unwrap().task, Task::Failover { runs: 3 });
        assert!(read("--help").unwrap().is_none());
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, wrong) in [
            ("--protocol trio", "trio"),
            ("--faults fire", "fire"),
            ("--seed x", "x"),
            ("--sessions x", "senders"),
            ("8", "8"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(wrong) && error.contains("--help"), "{error}");
        }
    }
}
