//! `cargo chaos lines`: many lines over a network that is bad on purpose, received in one order and each once.
//!
//! ```text
//! run         daemons, senders, receivers and the verdict               content  options  table
//! ```
//!
//! The seed decides what the links draw and what the lines say. It does not decide the timing of real processes: a run
//! that fails may need a few replays to fail again.
mod content;
mod options;
mod run;
mod table;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::command;
use consort_testbed::network::namespace::{self, failed};
use consort_testbed::network::program::{self, Program, Settings};
use consort_testbed::network::{Network, directory};
use consort_testbed::{seed_from_clock, stop_on_signals};
use options::Options;
use run::{Outcome, Run, RunError};
use table::{Links, Table};

/// How long `--keep` keeps a network at most.
const KEEP: Duration = Duration::from_secs(3600);

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match command::begin("lines", options::HELP, Options::read(words)) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let seed = options.seed.unwrap_or_else(seed_from_clock);
    let replay = format!("cargo chaos lines {options} --seed {seed}");
    println!("lines: {replay}");
    match experiment(&options, seed) {
        Ok(outcome) => {
            println!("\n{}{}", Table(&outcome), summary(&options, &outcome));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("lines: FAILED: {error}\nlines: again: {replay}");
            ExitCode::FAILURE
        }
    }
}

/// Builds program and network, runs, and removes all again.
fn experiment(options: &Options, seed: u64) -> Result<Outcome, RunError> {
    namespace::requirements()?;
    let stop = stop_on_signals().map_err(failed("listen to signals"))?;
    let file = program::build()?;
    let directory = directory("consort-lines-").map_err(failed("make a temporary directory"))?;
    let program = Program::new(file, directory.path(), &settings(options))?;
    for node in 0..options.nodes {
        run::lines(options, seed, node).write(&program.lines(node)).map_err(failed("write the lines to send"))?;
    }
    let network = Network::build(&run::plan(options, seed))?;
    let outcome = Run::start(options, seed, &network, &program, stop.clone()).and_then(|mut run| {
        let took = run.send()?;
        run.finish(took)
    });
    if let (Err(_), Ok(report)) = (&outcome, network.report()) {
        eprintln!("\n{}", Links(&report));
    }
    if options.keep && !stop.load(Ordering::Relaxed) {
        keep(&network, directory.path(), &stop);
    }
    outcome
}

/// The file of the daemons.
fn settings(options: &Options) -> Settings {
    let head = options.datagram.map_or_else(String::new, |bytes| format!("datagram = {bytes}\n"));
    Settings { nodes: options.nodes, head, sections: String::new() }
}

/// Lets someone look inside.
fn keep(network: &Network, directory: &std::path::Path, stop: &AtomicBool) {
    println!("lines: the network stands until Ctrl-C; logs and files: {}", directory.display());
    (0..network.nodes()).for_each(|node| println!("  ip netns exec {} ip address", network.namespace(node).name()));
    let deadline = Instant::now() + KEEP;
    while !stop.load(Ordering::Relaxed) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn summary(options: &Options, outcome: &Outcome) -> String {
    let seconds = outcome.took.as_secs_f64();
    let rate = options.lines as f64 / seconds;
    format!(
        "lines: {} lines in {seconds:.1} s ({rate:.0} per second): one order at {} nodes, nothing lost, nothing twice, memory flat",
        options.lines, options.nodes
    )
}
