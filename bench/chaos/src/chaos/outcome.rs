//! What came of a run, and how it is told.
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use consort_sim::checkers::Violation;

use super::judge::Seen;
use super::ledger::Extent;
use super::registers::Work;
use super::reread::Told;
use consort_testbed::network::memory::{Course, mib};
use consort_testbed::network::namespace::NetworkError;
use consort_testbed::network::process::Failed;
use consort_testbed::network::switch::Ended;

/// How many bytes more than in the first third of a run a daemon may hold in the last: what waits in its buffers when a storm
/// is at its worst.
const SLACK: u64 = 16 << 20;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum ChaosError {
    /// There is no network, or it refused something.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The switch is gone.
    #[error(transparent)]
    Switch(#[from] Ended),
    /// A daemon ended that should not, or did not end that should.
    #[error(transparent)]
    Daemon(#[from] Failed),
    /// The traces cannot be written.
    #[error("cannot write the traces: {0}")]
    Trace(#[from] std::io::Error),
    /// A calm in which not all came to rest.
    #[error("not at rest {after:?} after all was whole: {why}")]
    Unrest {
        /// How long it was waited for.
        after: Duration,
        /// What was missing.
        why: String,
    },
    /// Promises were broken.
    #[error("{} violations, the first: {}", .0.len(), .0[0])]
    Broken(Vec<Violation>),
    /// A daemon's memory did not stay flat.
    #[error(
        "daemon {node}: memory grew from {} MiB in the first third of the run to {} MiB in the last; {} MiB more are allowed",
        mib(*.first), mib(*.last), mib(SLACK)
    )]
    Memory {
        /// Counted from 1.
        node: usize,
        /// The most in the first third of the run, in bytes.
        first: u64,
        /// The most in the last third.
        last: u64,
    },
    /// A daemon gave up its membership where none has to.
    #[error("daemons started anew {0} times, which the protocol never needs: see \"starts anew\" in their logs")]
    StartedAnew(usize),
    /// Guests were told what cannot be.
    #[error("guests: {0}")]
    Guests(String),
    /// What keepers of registers were told fits no order, or one was told nothing.
    #[error("registers: {0}")]
    Registers(String),
    /// The order, read again, is another, or lacks something.
    #[error("read again: {0}")]
    Reread(String),
    /// A daemon says of itself what is not so.
    #[error("daemon {node}, while {situation}: {why}")]
    Untrue {
        /// Counted from 1.
        node: usize,
        /// What is wrong, in words.
        situation: String,
        /// What the daemon says, and what is so.
        why: String,
    },
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,
    /// What cannot be.
    #[error("a mistake in this program: {0}")]
    Bug(&'static str),
}

/// What a run did.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How many nodes.
    pub nodes: u16,
    /// From the first storm to the last calm.
    pub took: Duration,
    /// How often each kind of fault began.
    pub faults: BTreeMap<&'static str, u64>,
    /// What the clients that are in all groups saw.
    pub seen: Seen,
    /// Messages that their senders were told to be ordered.
    pub acknowledged: u64,
    /// Deliveries to all clients.
    pub deliveries: u64,
    /// What guests at both listeners were told.
    pub guests: Extent,
    /// What was done to registers.
    pub registers: Work,
    /// The whole order as two nodes tell it at the end, where all of it is retained.
    pub reread: Option<Told>,
    /// How many daemons were looked at in situations that lasted, and how many of them were ready.
    pub looks: (u64, u64),
    /// How long it took until all was at rest, storm by storm.
    pub calms: Vec<Duration>,
    /// How often a daemon ended because its disk was full, and said so.
    pub full: usize,
    /// How often daemons started anew by themselves.
    pub started_anew: usize,
    /// Each daemon's incarnations and memory.
    pub daemons: Vec<(usize, Course)>,
}

impl Outcome {
    /// How many faults there were.
    pub fn faults(&self) -> u64 {
        self.faults.values().sum()
    }

    /// The last line.
    pub fn summary(&self) -> String {
        format!(
            "chaos: {} nodes, {:.1} minutes, {} faults, {} messages, {} views, {} of them needless, 0 violations",
            self.nodes,
            self.took.as_secs_f64() / 60.0,
            self.faults(),
            self.seen.messages,
            self.seen.views.len(),
            self.seen.needless.len()
        )
    }

    /// # Errors
    /// The first daemon whose memory did not stay flat.
    pub fn is_flat(&self) -> Result<(), ChaosError> {
        let flat = |(node, (_, memory)): (usize, &(usize, Course))| match memory.thirds() {
            Some((first, last)) if last > first + SLACK => Err(ChaosError::Memory { node: node + 1, first, last }),
            _ => Ok(()),
        };
        self.daemons.iter().enumerate().try_for_each(flat)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<22} {:>7}", "fault", "times")?;
        self.faults.iter().try_for_each(|(kind, times)| writeln!(f, "{kind:<22} {times:>7}"))?;
        writeln!(f, "{:<22} {:>7}", "all", self.faults())?;
        writeln!(f, "\n{:>6}  {:>5}  daemon MiB: first third / last third / most", "node", "incarnations")?;
        for (node, (incarnations, memory)) in self.daemons.iter().enumerate() {
            let (first, last) = memory.thirds().unwrap_or_default();
            let most = memory.summary().map_or(0, |(.., most)| most);
            writeln!(f, "{:>6}  {incarnations:>5}  {} / {} / {}", node + 1, mib(first), mib(last), mib(most))?;
        }
        let slowest = self.calms.iter().max().copied().unwrap_or_default();
        writeln!(
            f,
            "\n{} calms; all at rest again at most {:.1} s after all was whole\n\
             {} messages acknowledged, nothing of that lost; {} deliveries; no daemon ended but those that were to\n\
             {} native and {} Spread guests heard {} and {} times {} words of theirs, in one order",
            self.calms.len(),
            slowest.as_secs_f64(),
            self.acknowledged,
            self.deliveries,
            self.guests.visits[0],
            self.guests.visits[1],
            self.guests.heard[0],
            self.guests.heard[1],
            self.guests.words
        )?;
        if self.looks.0 > 0 {
            let (all, ready) = self.looks;
            writeln!(f, "{all} looks at daemons while something lasted: {ready} said that they were ready, and were")?;
        }
        if self.full > 0 {
            writeln!(
                f,
                "{} times a daemon ended on a full disk and named it, and was started again with room",
                self.full
            )?;
        }
        if let Some(told) = &self.reread {
            writeln!(f, "{told}")?;
        }
        if self.started_anew > 0 {
            let times = self.started_anew;
            writeln!(f, "{times} times a daemon started anew, as others had let go of what it missed")?;
        }
        match self.registers {
            Work { calls: 0, .. } => Ok(()),
            Work { calls, unknown } => {
                writeln!(f, "{calls} calls to registers, {unknown} of unknown outcome: linearizable")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_faults_memory_and_calms_and_the_last_line_sums_up() {
        let mut memory = Course::default();
        [3, 4, 9, 5, 6, 5].into_iter().for_each(|mib| memory.push(mib << 20));
        let outcome = Outcome {
            nodes: 5,
            took: Duration::from_secs(90),
            faults: [("kill -9", 7), ("loss", 12)].into(),
            calms: vec![Duration::from_millis(2_300)],
            daemons: vec![(3, memory)],
            ..Outcome::default()
        };
        let text = outcome.to_string();
        let has = |words: &str| text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == words);
        assert!(has("kill -9 7") && has("all 19") && has("1 3 4 / 6 / 9"), "{text}");
        assert!(has("1 calms; all at rest again at most 2.3 s after all was whole"), "{text}");
        assert_eq!(
            outcome.summary(),
            "chaos: 5 nodes, 1.5 minutes, 19 faults, 0 messages, 0 views, 0 of them needless, 0 violations"
        );
        assert!(outcome.is_flat().is_ok() && !text.contains("registers"));
        let kept = Outcome { registers: Work { calls: 900, unknown: 4 }, started_anew: 2, ..outcome }.to_string();
        assert!(!text.contains("anew") && kept.contains("\n2 times a daemon started anew"), "{kept}");
        assert!(kept.ends_with("\n900 calls to registers, 4 of unknown outcome: linearizable\n"), "{kept}");
    }

    #[test]
    fn memory_that_grows_is_a_failure() {
        let mut memory = Course::default();
        (0..90).for_each(|mib| memory.push(mib << 21));
        let outcome = Outcome { daemons: vec![(1, Course::default()), (1, memory)], ..Outcome::default() };
        assert!(outcome.is_flat().unwrap_err().to_string().starts_with("daemon 2: memory grew"));
    }
}
