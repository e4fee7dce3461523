//! `cargo xtask netlab`: a network laboratory on one machine.
//!
//! Nodes live in network namespaces, each with a TAP device; between them stands a switch in this process that runs the
//! simulator's own link model in real time. Kernels often lack netem; and so there is one model of a bad network, in both
//! worlds.
//!
//! ```text
//! fabric      what a switch does with a frame, without sockets and clock        ethernet
//! switch      the same in real time, one thread between TAP devices     port  namespace  frame
//! lab         namespaces, addresses, switch: made together, removed together
//! run         daemons, senders, receivers and the verdict               program  process  lines  memory
//! ```
//!
//! The seed decides what the links draw and what the lines say. It does not decide the timing of real processes: a run
//! that fails may need a few replays to fail again.

pub mod ethernet;
mod fabric;
mod frame;
pub mod lab;
mod lines;
pub mod memory;
pub mod namespace;
mod options;
pub mod port;
pub mod process;
pub mod program;
mod run;
pub mod switch;
mod table;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use signal_hook::consts::{SIGINT, SIGTERM};

use lab::Lab;
use namespace::failed;
use options::Options;
pub use options::{number, span};
use program::{Program, Settings};
use run::{Outcome, Run, RunError};
use table::{Links, Table};

/// How long `--keep` keeps a lab at most.
const KEEP: Duration = Duration::from_secs(3600);

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match Options::read(words) {
        Ok(options) => options,
        Err(None) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(Some(misuse)) => {
            eprintln!("netlab: {misuse}");
            return ExitCode::from(2);
        }
    };
    let seed = options.seed.unwrap_or_else(seed_from_clock);
    let replay = format!("cargo xtask netlab {options} --seed {seed}");
    println!("netlab: {replay}");
    match laboratory(&options, seed) {
        Ok(outcome) => {
            println!("\n{}{}", Table(&outcome), summary(&options, &outcome));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("netlab: FAILED: {error}\nnetlab: again: {replay}");
            ExitCode::FAILURE
        }
    }
}

/// Builds program and lab, runs, and removes all again.
fn laboratory(options: &Options, seed: u64) -> Result<Outcome, RunError> {
    namespace::requirements()?;
    let stop = stop_on_signals().map_err(failed("listen to signals"))?;
    let file = program::build()?;
    let directory = directory("consort-netlab-").map_err(failed("make a temporary directory"))?;
    let program = Program::new(file, directory.path(), &Settings::of(options))?;
    for node in 0..options.nodes {
        run::lines(options, seed, node).write(&program.lines(node)).map_err(failed("write the lines to send"))?;
    }
    let lab = Lab::build(&run::plan(options, seed))?;
    let outcome = Run::start(options, seed, &lab, &program, stop.clone()).and_then(|mut run| {
        let took = run.send()?;
        run.finish(took)
    });
    if let (Err(_), Ok(report)) = (&outcome, lab.report()) {
        eprintln!("\n{}", Links(&report));
    }
    if options.keep && !stop.load(Ordering::Relaxed) {
        keep(&lab, directory.path(), &stop);
    }
    outcome
}

/// A directory whose name begins so, and that vanishes with its value; those of processes that were killed go first, for
/// they may be large.
pub fn directory(prefix: &str) -> std::io::Result<tempfile::TempDir> {
    for left_behind in namespace::stale(&std::env::temp_dir(), prefix) {
        std::fs::remove_dir_all(left_behind)?;
    }
    tempfile::Builder::new().prefix(&format!("{prefix}{}-", namespace::owner())).tempdir()
}

/// A flag that Ctrl-C and SIGTERM raise, so that everything is left in order.
pub fn stop_on_signals() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Lets someone look inside.
fn keep(lab: &Lab, directory: &std::path::Path, stop: &AtomicBool) {
    println!("netlab: the lab stands until Ctrl-C; logs and files: {}", directory.display());
    (0..lab.nodes()).for_each(|node| println!("  ip netns exec {} ip address", lab.namespace(node).name()));
    let deadline = Instant::now() + KEEP;
    while !stop.load(Ordering::Relaxed) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub fn seed_from_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    consort_types::Rng::new(since.as_nanos() as u64).next_u64() >> 32
}

fn summary(options: &Options, outcome: &Outcome) -> String {
    let seconds = outcome.took.as_secs_f64();
    let rate = options.lines as f64 / seconds;
    format!(
        "netlab: {} lines in {seconds:.1} s ({rate:.0} per second): one order at {} nodes, nothing lost, nothing twice, memory flat",
        options.lines, options.nodes
    )
}
