//! `cargo chaos run`: real daemons while everything goes wrong, and the simulator's checkers on what their clients saw.
//!
//! The network is the testbed's: a namespace for each node, and a switch between them that runs the simulator's link model.
//! Token rings that gateways join have a switch each.
//!
//! ```text
//! storm      what a seed draws, storm by storm           trouble   what that makes of links
//! run        storms and calms, one after the other       fleet     the daemons' processes
//! client     connects, sends, receives, writes down      board     what clients and run know of each other
//! guest      comes and goes, at both listeners           ledger    what guests were told must be in one order
//! spread     the protocol of Spread clients, to the byte
//! registers  with paxos: clients keep registers by the order, and what they were told must be linearizable
//! reread     with paxos: the whole order once more, alike at two nodes
//! truth      in situations that last, what daemons say of themselves beside whether a write goes through
//! judge      traces, and the checkers on them            outcome   what is printed
//! networks   who stands in which network
//! ```
//!
//! The seed decides what goes wrong, when, and what clients say. It does not decide when processes run: a run that fails
//! may need a few replays to fail again. That is why a red run keeps its traces, which can be judged again, and its logs.

pub mod board;
mod client;
pub mod fleet;
mod guest;
mod judge;
mod ledger;
mod networks;
pub mod options;
mod outcome;
pub mod registers;
mod reread;
mod run;
mod storm;
pub mod trouble;
mod truth;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::command;
use board::{Board, StopAtEnd};
use client::Role;
use consort_daemon::config::Protocol;
use consort_testbed::network::namespace::failed;
use consort_testbed::network::{Network, Plan};
use consort_testbed::network::{directory, program};
use consort_testbed::{promised, seed_from_clock, stop_on_signals};
use ledger::Ledger;
use options::{Options, Retain};
use outcome::{ChaosError, Outcome};
use registers::History;
use registers::caller::{CALLERS, Caller};
use run::{CLIENTS, Run, SCOPES};

/// What the directories of runs are called; those that are kept have their seed in their names.
const PREFIX: &str = "consort-chaos-";

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match command::begin("chaos", options::HELP, Options::read(words)) {
        Ok(options) => options,
        Err(code) => return code,
    };
    if let Some(directory) = &options.judge {
        return again(directory, options.protocol);
    }
    if let Some(code) = command::skip("chaos") {
        return code;
    }
    let seed = options.seed.unwrap_or_else(seed_from_clock);
    println!("chaos: cargo chaos run {options} --seed {seed}");
    match experiment(&options, seed) {
        Ok(outcome) => {
            println!("\n{outcome}\n{}", outcome.summary());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("chaos: FAILED: {error}\nchaos: again: cargo chaos run {options} --seed {seed}");
            ExitCode::FAILURE
        }
    }
}

/// Builds program and network, runs, and removes all again but what a red run leaves to look at.
fn experiment(options: &Options, seed: u64) -> Result<Outcome, ChaosError> {
    let stop = stop_on_signals().map_err(failed("listen to signals"))?;
    let file = program::build()?;
    let place = directory(PREFIX).map_err(failed("make a temporary directory"))?;
    let outcome = in_a_network(options, seed, file, place.path(), stop);
    let red = matches!(&outcome, Err(error) if !matches!(error, ChaosError::Interrupted));
    if red || options.keep {
        let kept = keep(place, seed)?;
        if let Err(ChaosError::Broken(violations)) = &outcome {
            report(violations, &kept)?;
        }
        eprintln!("chaos: traces and logs are kept in {}", kept.display());
        eprintln!(
            "chaos: judge them again: cargo chaos run --judge {} --protocol {}",
            kept.display(),
            options.protocol.name()
        );
    }
    outcome
}

fn in_a_network(
    options: &Options,
    seed: u64,
    file: PathBuf,
    place: &Path,
    stop: Arc<AtomicBool>,
) -> Result<Outcome, ChaosError> {
    let plan = Plan { nodes: options.nodes.into(), mtu: 1_500, seed, ethernet: None };
    let network = Network::several(&plan, &networks::networks(options.protocol, options.nodes))?;
    let board = Board::new(options.nodes, CLIENTS, SCOPES);
    let board = if options.retain == Retain::All { board.reread() } else { board };
    let (roles, groups) = (run::roles(options.nodes, seed, place)?, run::guest_groups()?);
    let (ledger, history) = (Ledger::default(), History::default());
    let group = run::registers_group()?;
    let outcome = std::thread::scope(|scope| {
        let _stop_at_end = StopAtEnd(&board);
        for role in &roles {
            scope.spawn(|| live(role, &network, &board));
        }
        let (board, ledger, groups) = (&board, &ledger, &groups);
        for node in 0..usize::from(options.nodes) {
            let visits = |listener| guest::Visits {
                node,
                directory: place,
                board,
                ledger,
                seed: run::guest_seed(seed, node, listener),
                last: guest::LAST,
            };
            let (native, spread) = (visits(0), visits(1));
            scope.spawn(move || native.native(groups));
            scope.spawn(move || spread.spread());
        }
        for number in 0..callers(options) {
            let (node, reads, seed) =
                ((number % u64::from(options.nodes)) as usize, options.reads, run::caller_seed(seed, number));
            let caller =
                Caller { node, number, directory: place, group: &group, board, history: &history, reads, seed };
            scope.spawn(move || caller.live());
        }
        Run::start(options, seed, &network, board, (file, place), stop)?.finish()
    });
    if callers(options) > 0 {
        history.write(place)?;
    }
    let mut outcome = outcome?;
    outcome.registers = history.judge().map_err(ChaosError::Registers)?;
    outcome.guests = ledger.judge(promised(options.protocol).per_component).map_err(ChaosError::Guests)?;
    Ok(outcome)
}

/// How many keep registers: only where an order outlasts a daemon can one that comes back read what it missed.
fn callers(options: &Options) -> u64 {
    if options.protocol == Protocol::Paxos { CALLERS * u64::from(options.nodes) } else { 0 }
}

/// Clients that reach their daemons over TCP live in the namespace; paths lead there from everywhere. A namespace that
/// cannot be entered shows: its client never comes to rest.
fn live(role: &Role, network: &Network, board: &Board) {
    if matches!(role.address, consort::Address::Unix(_)) {
        return client::live(role, board);
    }
    let entered = network.namespace(role.node).enter(|| client::live(role, board));
    if let Err(error) = entered {
        eprintln!("chaos: a client of node {}: {error}", role.node + 1);
    }
}

/// Gives a directory a name that no later run takes for left behind.
fn keep(place: tempfile::TempDir, seed: u64) -> Result<PathBuf, ChaosError> {
    let kept = tempfile::Builder::new().prefix(&format!("{PREFIX}kept-{seed}-")).tempdir()?.keep();
    std::fs::remove_dir(&kept)?;
    std::fs::rename(place.keep(), &kept)?;
    Ok(kept)
}

fn report(violations: &[consort_sim::checkers::Violation], kept: &Path) -> Result<(), ChaosError> {
    let mut file = std::fs::File::create(kept.join("violations.txt"))?;
    for violation in violations {
        eprintln!("chaos: {violation}");
        writeln!(file, "{violation}")?;
    }
    Ok(())
}

/// Judges what a run has kept.
fn again(directory: &Path, protocol: Protocol) -> ExitCode {
    let mut red = false;
    for scope in 0..SCOPES {
        let file = judge::file(directory, scope);
        match judge::again(&file, promised(protocol)) {
            Ok((seen, violations)) => {
                let (messages, views) = (seen.messages, seen.views.len());
                println!("{}: {messages} messages, {views} views, {} violations", file.display(), violations.len());
                violations.iter().for_each(|violation| println!("  {violation}"));
                red |= !violations.is_empty();
            }
            Err(error) => {
                eprintln!("chaos: {}: {error}", file.display());
                return ExitCode::from(2);
            }
        }
    }
    if protocol == Protocol::Paxos {
        let file = registers::file(directory);
        match registers::again(directory) {
            Ok(Ok(work)) => println!("{}: {} calls, linearizable", file.display(), work.calls),
            Ok(Err(contradiction)) => {
                println!("{}: {contradiction}", file.display());
                red = true;
            }
            Err(error) => {
                eprintln!("chaos: {}: {error}", file.display());
                return ExitCode::from(2);
            }
        }
    }
    if red { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
