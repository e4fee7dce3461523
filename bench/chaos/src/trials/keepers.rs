//! Keepers of replicated registers, and all that they have said.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use consort_types::Rng;
use rustix::process::Signal;

use super::relay::Relay;
use super::stage::{Stage, text};
use crate::chaos::options::READS;
use crate::chaos::registers::Reads;
use crate::chaos::registers::operation::Operation;
use crate::keeper::{Keeper, now};

/// How many there are.
pub const KEEPERS: usize = 5;
/// A stop lasts so long at most.
const STOP: Duration = Duration::from_millis(2_500);
/// Within that all must be answered, once nothing is wrong any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// The keepers, and what they have said.
pub struct Keepers {
    addresses: Vec<String>,
    directory: PathBuf,
    reads: &'static str,
    /// Without the one that is killed.
    running: Vec<Option<Keeper>>,
    /// Until when each is stopped.
    stopped: Vec<Option<Instant>>,
    /// When the last call began that was answered to each.
    answered: Vec<consort_types::Instant>,
    started: u64,
    /// By caller and number; the last word on each counts.
    operations: BTreeMap<(u64, u64), Operation>,
}

impl Keepers {
    /// Starts all of them, each at another daemon first.
    pub fn start(relays: &[Relay], directory: &Path, reads: Reads) -> Result<Self, String> {
        let addresses = relays.iter().map(|relay| relay.path().display().to_string()).collect();
        let reads = READS.iter().find(|(_, kind)| *kind == reads).map_or("", |(word, _)| word);
        let mut keepers = Self {
            addresses,
            directory: directory.to_owned(),
            reads,
            running: Vec::new(),
            stopped: vec![None; KEEPERS],
            answered: vec![consort_types::Instant::ZERO; KEEPERS],
            started: 0,
            operations: BTreeMap::new(),
        };
        for at in 0..KEEPERS {
            let keeper = keepers.next(at)?;
            keepers.running.push(Some(keeper));
        }
        Ok(keepers)
    }

    fn next(&mut self, at: usize) -> Result<Keeper, String> {
        self.started += 1;
        let mut addresses = self.addresses.clone();
        addresses.rotate_left(at % self.addresses.len());
        let directory = self.directory.join(format!("keeper-{at}"));
        Keeper::start(self.started, &directory, self.reads, &addresses).map_err(text)
    }

    /// Notes what they have said.
    pub fn hear(&mut self) {
        for at in 0..KEEPERS {
            let said: Vec<_> = self.running[at].iter().flat_map(Keeper::said).collect();
            said.into_iter().for_each(|operation| self.note(at, operation));
        }
    }

    fn note(&mut self, at: usize, operation: Operation) {
        self.operations.insert((operation.call.caller, operation.call.number), operation);
        if operation.outcome.is_some() {
            self.answered[at] = self.answered[at].max(operation.from);
        }
    }

    /// All that they have said.
    pub fn operations(&self) -> Vec<Operation> {
        self.operations.values().copied().collect()
    }

    /// Stops one for a while.
    pub fn stop(&mut self, rng: &mut Rng) -> Result<(), String> {
        let at = rng.below(KEEPERS as u64) as usize;
        self.signal(at, Signal::STOP)?;
        self.stopped[at] = Some(Instant::now() + STOP.mul_f64(rng.unit()));
        Ok(())
    }

    /// Those that were stopped for long enough go on, or all of them.
    pub fn wake(&mut self, all: bool) -> Result<(), String> {
        for at in 0..KEEPERS {
            if self.stopped[at].take_if(|until| all || Instant::now() >= *until).is_some() {
                self.signal(at, Signal::CONT)?;
            }
            if let Some(status) = self.ended(at)? {
                return Err(format!("keeper {at} has ended by itself: {status}"));
            }
        }
        Ok(())
    }

    /// Where nothing is wrong any more, all go on: each is answered a call that it begins now.
    pub fn settle(&mut self, stage: &mut Stage<'_>) -> Result<(), String> {
        let (from, deadline) = (now(), Instant::now() + PATIENCE);
        loop {
            self.wake(true)?;
            self.hear();
            let Some(at) = self.answered.iter().position(|answered| *answered < from) else { return Ok(()) };
            if Instant::now() > deadline {
                return Err(format!("keeper {at} is answered nothing within {PATIENCE:?} though nothing is wrong"));
            }
            stage.pass(Duration::from_millis(20))?;
        }
    }

    /// One is killed where all are up to date, and starts again after a while with its checkpoints. What only those know that
    /// are killed is lost: no second one is killed before.
    pub fn kill(&mut self, stage: &mut Stage<'_>, rng: &mut Rng) -> Result<(), String> {
        self.settle(stage)?;
        let at = rng.below(KEEPERS as u64) as usize;
        self.collect(at);
        stage.pass(Duration::from_millis(rng.below(1_500)))?;
        self.running[at] = Some(self.next(at)?);
        Ok(())
    }

    /// Ends one that may still run; notes all that it has said.
    fn collect(&mut self, at: usize) {
        let said = self.running[at].take().map(Keeper::kill).unwrap_or_default();
        said.into_iter().for_each(|operation| self.note(at, operation));
    }

    fn signal(&self, at: usize, signal: Signal) -> Result<(), String> {
        self.running[at].as_ref().map_or(Ok(()), |keeper| keeper.signal(signal))
    }

    fn ended(&mut self, at: usize) -> Result<Option<ExitStatus>, String> {
        self.running[at].as_mut().map_or(Ok(None), |keeper| keeper.ended().map_err(text))
    }

    /// Has each make its last calls, which must be answered, and end.
    pub fn finish(&mut self, stage: &mut Stage<'_>) -> Result<(), String> {
        self.settle(stage)?;
        self.running.iter_mut().flatten().for_each(Keeper::finish);
        let deadline = Instant::now() + PATIENCE;
        for at in 0..KEEPERS {
            loop {
                match self.ended(at)? {
                    Some(status) if status.success() => break,
                    Some(status) => return Err(format!("keeper {at} has ended badly: {status}")),
                    None if Instant::now() > deadline => return Err(format!("keeper {at} does not end")),
                    None => stage.pass(Duration::from_millis(20))?,
                }
            }
            self.collect(at);
        }
        Ok(())
    }
}
