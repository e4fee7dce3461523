//! `cargo xtask sim`: seeds through the simulator.
mod batch;
mod failover;
mod options;

use consort_multiring::MultiRing;
use consort_multiring_paxos::MultiRingPaxos;
use consort_paxos::Paxos;
use consort_plato::Plato;
use consort_ring::Ring;
use consort_sim::fault::Kinds;
use consort_sim::machine::ServerTouch;
use consort_sim::plan::RunPlan;
use consort_sim::world::{RunOptions, RunOutcome};
use consort_toto::Toto;
use consort_worlds::{SessionsDrawn, Simulated, bare, ring, run, run_sessions};
pub use options::Protocol;
#[cfg(feature = "mutants")]
pub use options::cores;
use options::{Options, Sessions, Task};
use std::any::TypeId;
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
fn run_as_is(options: &Options, seed: u64, story: bool) -> Result<RunOutcome, String> {
    let (faults, sessions) = (&options.faults, options.sessions);
    match options.protocol {
        Protocol::Ring => run_with::<Ring>(seed, faults, sessions, story),
        Protocol::Toto => run_with::<Toto>(seed, faults, sessions, story),
        Protocol::Plato => run_with::<Plato>(seed, faults, sessions, story),
        Protocol::Paxos => run_with::<Paxos>(seed, faults, sessions, story),
        Protocol::MultiRingPaxos => run_with::<MultiRingPaxos>(seed, faults, sessions, story),
        Protocol::MultiRing => run_with::<MultiRing>(seed, faults, sessions, story),
    }
}

/// With sessions of one kind all seeds drive whole nodes.
fn run_with<E: Simulated>(seed: u64, faults: &Kinds, sessions: Sessions, story: bool) -> Result<RunOutcome, String> {
    let drawn = match sessions {
        Sessions::ByChance if !seed.is_multiple_of(2) => return run::<E>(seed, faults, &|_| {}, story),
        Sessions::ByChance => SessionsDrawn::AnyByChance { elects: TypeId::of::<E>() == TypeId::of::<Ring>() },
        Sessions::Senders => SessionsDrawn::Senders,
        Sessions::Readers => SessionsDrawn::Readers,
        Sessions::Candidates => SessionsDrawn::Candidates(None),
        Sessions::Servers => SessionsDrawn::Servers(ServerTouch::default()),
    };
    run_sessions::<E>(seed, faults, (&|_| {}, &|_| {}), &drawn, story)
}

/// One seed with its story.
fn one(options: &Options, seed: u64, whole: bool) -> ExitCode {
    let started = Instant::now();
    let outcome = match run_as_is(options, seed, true) {
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
    println!(
        "{} views, {} elections, {} readings begun, {} commands answered",
        totals.views, totals.elections, totals.resumed, totals.answered
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
    let world = match bare::<Ring>(plan, RunOptions::default(), &|config| *config = ring::defaults(config)) {
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
