//! `cargo xtask sim`: seeds through the simulator.
mod batch;
mod failover;
mod options;

use crate::ring::{self, Adjust, Touch};
use crate::{paxos, plato, toto};
use consort_sim::fault::Kinds;
use consort_sim::plan::RunPlan;
use consort_sim::world::{RunOptions as Keep, RunOutcome};
pub use options::Protocol;
#[cfg(feature = "mutants")]
pub use options::cores;
use options::{Options, Task};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match Options::read(words) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{}", options::help());
            return ExitCode::SUCCESS;
        }
        Err(misuse) => {
            eprintln!("sim: {misuse}");
            return ExitCode::from(2);
        }
    };
    match options.task {
        Task::One { seed, whole } => one(&options, seed, whole),
        Task::Batch { first, seeds } => batch::run_batch(&options, first, seeds),
        Task::Idle { nodes } => idle(nodes),
        Task::Failover { runs } => failover::failover(runs),
    }
}

/// Runs one seed of a protocol as it is.
fn run_as_is(protocol: Protocol, seed: u64, faults: &Kinds, story: bool) -> Result<RunOutcome, String> {
    match protocol {
        Protocol::Ring => run(seed, faults, &|_| {}, story),
        Protocol::Toto => run_toto(seed, faults, &|_| {}, story),
        Protocol::Plato => run_plato(seed, faults, &|_| {}, story),
        Protocol::Paxos => run_paxos(seed, faults, &|_| {}, story),
    }
}

/// Runs one seed of ToTo: an odd one drives engines alone, an even one whole nodes with their clients.
pub fn run_toto(seed: u64, faults: &Kinds, adjust: toto::Adjust<'_>, story: bool) -> Result<RunOutcome, String> {
    let keep =
        |plan: &RunPlan, whole| Ok::<_, String>(Keep { bounds: toto::bounds(plan, whole)?, story, trace: false });
    if seed.is_multiple_of(2) {
        let plan = RunPlan::draw_whole(seed, faults);
        Ok(toto::whole(plan.clone(), keep(&plan, true)?, adjust, &|_| {})?.run())
    } else {
        let plan = RunPlan::draw_bare(seed, faults);
        Ok(toto::bare(plan.clone(), keep(&plan, false)?, adjust)?.run())
    }
}

/// Runs one seed of PLATO: an odd one drives engines alone, an even one whole nodes with their clients.
pub fn run_plato(seed: u64, faults: &Kinds, adjust: plato::Adjust<'_>, story: bool) -> Result<RunOutcome, String> {
    let keep = |plan: &RunPlan| Ok::<_, String>(Keep { bounds: plato::bounds(plan)?, story, trace: false });
    if seed.is_multiple_of(2) {
        let plan = RunPlan::draw_whole(seed, faults);
        Ok(plato::whole(plan.clone(), keep(&plan)?, adjust, &|_| {})?.run())
    } else {
        let plan = RunPlan::draw_bare(seed, faults);
        Ok(plato::bare(plan.clone(), keep(&plan)?, adjust)?.run())
    }
}

/// Runs one seed of Ring Paxos: an odd one drives engines alone, an even one whole nodes with their clients.
pub fn run_paxos(seed: u64, faults: &Kinds, adjust: paxos::Adjust<'_>, story: bool) -> Result<RunOutcome, String> {
    if seed.is_multiple_of(2) {
        return run_paxos_whole(seed, faults, (adjust, &|_| {}), story);
    }
    let plan = paxos::suited(RunPlan::draw_bare(seed, faults));
    let keep = Keep { bounds: paxos::bounds(&plan)?, story, trace: false };
    Ok(paxos::bare(plan, keep, adjust)?.run())
}

/// Runs one seed of Ring Paxos with whole nodes.
pub fn run_paxos_whole(
    seed: u64,
    faults: &Kinds,
    with: (paxos::Adjust<'_>, paxos::Touch<'_>),
    story: bool,
) -> Result<RunOutcome, String> {
    let plan = paxos::suited(RunPlan::draw_whole(seed, faults));
    let keep = Keep { bounds: paxos::bounds(&plan)?, story, trace: false };
    Ok(paxos::whole(plan, keep, with.0, with.1)?.run())
}

/// Runs one seed of the ring: an odd one drives engines alone, an even one whole nodes with their clients.
pub fn run(seed: u64, faults: &Kinds, adjust: Adjust<'_>, story: bool) -> Result<RunOutcome, String> {
    if seed.is_multiple_of(2) {
        run_whole(seed, faults, (adjust, &|_| {}), story)
    } else {
        let plan = RunPlan::draw_bare(seed, faults);
        Ok(ring::bare(plan.clone(), keep(&plan, story), adjust)?.run())
    }
}

/// Runs one seed with whole nodes.
pub fn run_whole(seed: u64, faults: &Kinds, with: (Adjust<'_>, Touch<'_>), story: bool) -> Result<RunOutcome, String> {
    let plan = RunPlan::draw_whole(seed, faults);
    Ok(ring::whole(plan.clone(), keep(&plan, story), with.0, with.1)?.run())
}

fn keep(plan: &RunPlan, story: bool) -> Keep {
    Keep { bounds: ring::bounds(plan), story, trace: false }
}

/// One seed with its story.
fn one(options: &Options, seed: u64, whole: bool) -> ExitCode {
    let started = Instant::now();
    let outcome = match run_as_is(options.protocol, seed, &options.faults, true) {
        Ok(outcome) => outcome,
        Err(error) => return fail(&error),
    };
    tell(seed, &outcome, whole);
    let (simulated, real) = (outcome.simulated.as_secs_f64(), started.elapsed().as_secs_f64());
    println!("{simulated:.1} simulated s in {real:.2} s");
    println!(
        "sim: 1 seeds, {:.4} simulated hours, {} faults, {} violations",
        simulated / 3600.0,
        outcome.totals.faults,
        outcome.violations.len()
    );
    if outcome.violations.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("replay: {}", options.replay(seed));
    ExitCode::FAILURE
}

/// Prints the story of a run and what came of it.
pub fn tell(seed: u64, outcome: &RunOutcome, whole: bool) {
    if let Some(story) = &outcome.story {
        println!("{}", story.text(whole));
    }
    let totals = outcome.totals;
    println!("seed {seed}, digest {}", outcome.digest);
    println!(
        "{} messages, {} deliveries, {} datagrams sent, {} mishaps on links and in sockets, {} refusals, {} faults",
        totals.accepted, totals.delivered, totals.sent, outcome.mishaps, totals.waits, totals.faults
    );
    for violation in &outcome.violations {
        println!("{violation}");
    }
}

/// How much faster than real time idle nodes are simulated on one core.
fn idle(nodes: u16) -> ExitCode {
    let mut plan = RunPlan::lan(nodes);
    plan.calm = consort_types::Instant(600_000_000_000);
    plan.end = plan.calm;
    let world = match ring::bare(plan, Keep::default(), &|config| *config = ring::defaults(config)) {
        Ok(world) => world,
        Err(error) => return fail(&error),
    };
    let started = processor_seconds();
    let outcome = world.run();
    let spent = processor_seconds() - started;
    let simulated = outcome.simulated.as_secs_f64();
    println!(
        "sim: {nodes} idle nodes, {simulated:.0} simulated s in {spent:.2} s of one core: {:.0} x real time, {} events",
        simulated / spent,
        outcome.totals.events
    );
    outcome.violations.first().map_or(ExitCode::SUCCESS, |violation| fail(&violation.to_string()))
}

/// What this thread has used of its core: what else the machine does must not count.
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn fail(error: &str) -> ExitCode {
    eprintln!("sim: {error}");
    ExitCode::FAILURE
}
