//! A store that is written to while something happens to its machines, and what must be true of it afterwards.
use super::machines::{COUNT, Id, Kept, Machines, PATIENCE, Part};
use super::readers;
use super::writes::{Ledger, Writers};
use consort_testbed::seed_from_clock;
use consort_types::Rng;
use std::thread;
use std::time::{Duration, Instant};

/// Keys that are written at each server before the store is compared, so that each partition very likely has one of them.
const MARKS: usize = 16;
/// How long after the last awaited answer the harm comes at most: for each of these answers, and in all.
const ANSWER_US: u64 = 100;
const MOMENT_US: u64 = 30_000;

/// A store on three machines, and what was written to it.
pub struct Store {
    // Dropped in this order: if a test fails, processes are ended first.
    pub machines: Machines,
    pub ledger: Ledger,
    pub rng: Rng,
    runs: u64,
}

impl Store {
    /// One that serves.
    pub fn start(kept: Kept) -> Self {
        Self::start_on(Machines::new(kept))
    }

    /// One that serves on these machines, which may have mounted disks already.
    pub fn start_on(mut machines: Machines) -> Self {
        let seed = seed_from_clock();
        println!("seed {seed}");
        machines.start_all().unwrap();
        Self { machines, ledger: Ledger::default(), rng: Rng::new(seed), runs: 0 }
    }

    /// Writes at all servers until this number of answers has come, and lets this happen a random moment later, while the
    /// writers go on.
    pub fn under_load(&mut self, answers: u64, harm: impl FnOnce(&mut Self, &Writers)) {
        let before = self.ledger.unanswered;
        let writers = Writers::start(self.machines.addresses(), self.runs, &mut self.rng);
        self.runs += 1;
        writers.wait_for(answers);
        self.pause((answers * ANSWER_US).min(MOMENT_US));
        harm(self, &writers);
        writers.end(&mut self.ledger);
        let unanswered = self.ledger.unanswered - before;
        println!("{} writes answered so far, {unanswered} in flight now", self.ledger.answered);
    }

    /// Writes, and kills these while writes are in flight.
    pub fn kill_under_load(&mut self, answers: u64, ids: &[Id]) {
        self.under_load(answers, |store, _| store.machines.kill(ids));
    }

    /// Waits for at most this long.
    pub fn pause(&mut self, most_us: u64) {
        thread::sleep(Duration::from_micros(self.rng.below(most_us + 1)));
    }

    /// The same processes in a random order.
    pub fn shuffled(&mut self, ids: &[Id]) -> Vec<Id> {
        let mut left = ids.to_vec();
        ids.iter().map(|_| left.swap_remove(self.rng.below(left.len() as u64) as usize)).collect()
    }

    /// All servers serve, take writes, agree, and have each answered write.
    pub fn verify(&mut self, after: &str) {
        self.check().unwrap_or_else(|wrong| panic!("after {after}: {wrong}"));
        self.machines.assert_all_run();
        println!("after {after}: each of {} answered writes is there", self.ledger.answered);
    }

    /// The same as a result.
    ///
    /// # Errors
    /// What is lost, what differs, or who does not serve.
    pub fn check(&mut self) -> Result<(), String> {
        let addresses = self.machines.addresses().to_vec();
        addresses.iter().try_for_each(|address| self.await_service(address))?;
        for address in &addresses {
            (0..MARKS).try_for_each(|_| self.ledger.mark(address))?;
        }
        let sizes: Vec<_> = addresses.iter().map(|address| readers::size(address)).collect::<Result<_, _>>()?;
        let keys = self.ledger.keys();
        let found: Vec<_> =
            addresses.iter().map(|address| readers::values(address, &keys)).collect::<Result<_, _>>()?;
        let differ =
            keys.iter().enumerate().filter(|(at, _)| (1..COUNT).any(|server| found[server][*at] != found[0][*at]));
        let differ: Vec<_> = differ.map(|(_, key)| key.to_string()).collect();
        if let Some(key) = differ.first() {
            return Err(format!("servers have {sizes:?} keys and differ in {}, for example {key}", differ.len()));
        }
        self.ledger.judge(&found[0]).map_err(|lost| format!("servers have {sizes:?} keys: {lost}"))?;
        let (least, most) = self.ledger.sizes();
        let fits = sizes.iter().all(|size| *size == sizes[0] && (least..=most).contains(size));
        if fits { Ok(()) } else { Err(format!("servers have {sizes:?} keys where {least} to {most} were written")) }
    }

    /// What a server that is ready says of a partition whose directory it does not take, as a backup that was made while the
    /// server wrote can be.
    pub fn partition_refused(&self, (part, machine): Id) -> Option<String> {
        let state = self.machines.state((part, machine)).display().to_string();
        let asked = (part == Part::Server).then(|| readers::size(&self.machines.addresses()[machine]));
        asked?.err().filter(|refusal| refusal.contains("CLUSTERDOWN") && refusal.contains(&state))
    }

    fn await_service(&mut self, address: &str) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let asked = readers::size(address);
            let ended = self.machines.take_ended();
            if !ended.is_empty() {
                return Err(format!("these ended although nothing ended them: {ended:#?}"));
            }
            match asked {
                Ok(_) => return Ok(()),
                Err(why) if Instant::now() > deadline => return Err(format!("not within {PATIENCE:?}: {why}")),
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}
