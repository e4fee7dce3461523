//! Many seeds, on all cores.
use super::{Options, run_as_is};
use consort_sim::world::RunOutcome;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How many red seeds are told in full.
const TOLD: usize = 5;
/// Each so many seeds one is run twice: both runs must do exactly the same.
const TWICE: u64 = 50;

/// What all seeds did together.
#[derive(Default)]
struct Sum {
    seeds: u64,
    simulated: Duration,
    faults: u64,
    deliveries: u64,
    mishaps: u64,
    violations: u64,
    views: u64,
    elections: u64,
    readings: u64,
    answered: u64,
    /// The longest that a whole network took to come to its last view, and the seed.
    healed: (Duration, u64),
    red: BTreeMap<u64, String>,
}

/// Runs `seeds` seeds from `first` on.
pub fn run_batch(options: &Options, first: u64, seeds: u64) -> ExitCode {
    let started = Instant::now();
    let sum = Mutex::new(Sum::default());
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                while let Some(seed) = take(&next, first, seeds) {
                    let result = judge(options, seed, first);
                    let mut sum = sum.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    sum.add(seed, result);
                    show_progress(&sum, seeds, started);
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    sum.tell(options, started)
}

fn take(next: &AtomicU64, first: u64, seeds: u64) -> Option<u64> {
    let n = next.fetch_add(1, Ordering::Relaxed);
    (n < seeds).then(|| first + n)
}

/// Runs a seed, now and then twice.
fn judge(options: &Options, seed: u64, first: u64) -> Result<RunOutcome, String> {
    let outcome = run_as_is(options, seed, false)?;
    if (seed - first).is_multiple_of(TWICE) {
        let again = run_as_is(options, seed, false)?;
        if again.digest != outcome.digest {
            return Err(format!("DET (one seed, one run) broken: digest {}, then {}", outcome.digest, again.digest));
        }
    }
    Ok(outcome)
}

impl Sum {
    fn add(&mut self, seed: u64, result: Result<RunOutcome, String>) {
        self.seeds += 1;
        match result {
            Ok(outcome) => {
                self.simulated += outcome.simulated;
                self.faults += outcome.totals.faults;
                self.views += outcome.totals.views;
                self.elections += outcome.totals.elections;
                self.readings += outcome.totals.resumed;
                self.answered += outcome.totals.answered;
                self.deliveries += outcome.totals.delivered;
                self.mishaps += outcome.mishaps;
                if outcome.violations.is_empty() {
                    self.healed = self.healed.max((outcome.healed, seed));
                }
                if let Some(violation) = outcome.violations.first() {
                    self.violations += outcome.violations.len() as u64;
                    self.red.insert(seed, violation.to_string());
                }
            }
            Err(error) => {
                self.violations += 1;
                self.red.insert(seed, error);
            }
        }
    }

    fn tell(&self, options: &Options, started: Instant) -> ExitCode {
        for (seed, what) in self.red.iter().take(TOLD) {
            println!("seed {seed}: {what}\nreplay: {}", options.replay(*seed));
        }
        if self.red.len() > TOLD {
            println!("... and {} more red seeds; all of them by the rule that broke first:", self.red.len() - TOLD);
            self.by_rule().iter().for_each(|(rule, seeds)| println!("  {rule:<4} {seeds:?}"));
        }
        let simulated = self.simulated.as_secs_f64();
        let real = started.elapsed().as_secs_f64();
        println!(
            "{} deliveries, {} datagrams lost, doubled, delayed or changed; {real:.1} s on {} threads, {:.0} x real time",
            self.deliveries,
            self.mishaps,
            options.threads,
            simulated / real
        );
        println!(
            "{} views, {} elections, {} readings begun, {} commands answered",
            self.views, self.elections, self.readings, self.answered
        );
        let (healed, seed) = self.healed;
        println!("one ring of all that live at most {:.2} s after the faults, in seed {seed}", healed.as_secs_f64());
        println!(
            "sim: {} seeds, {:.2} simulated hours, {} faults, {} violations",
            self.seeds,
            simulated / 3600.0,
            self.faults,
            self.violations
        );
        if self.violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

impl Sum {
    fn by_rule(&self) -> BTreeMap<&str, Vec<u64>> {
        let mut rules = BTreeMap::<_, Vec<_>>::new();
        for (seed, what) in &self.red {
            rules.entry(what.split(' ').next().unwrap_or_default()).or_default().push(*seed);
        }
        rules
    }
}

fn show_progress(sum: &Sum, seeds: u64, started: Instant) {
    let mut out = std::io::stderr();
    if out.is_terminal() && (sum.seeds.is_multiple_of(10) || sum.seeds == seeds) {
        let red = sum.red.len();
        let end = if sum.seeds == seeds { "\r\x1b[K" } else { "" };
        let seconds = started.elapsed().as_secs();
        let _ = write!(out, "\r{}/{seeds} seeds, {red} red, {seconds} s{end}", sum.seeds).and_then(|()| out.flush());
    }
}
