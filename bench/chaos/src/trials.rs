//! `cargo chaos trials`: real daemons, one fault at a time, and what it cost.
//!
//! ```text
//! trial      what there is to try              stage    namespaces, daemons and clients of one trial
//! networks   a stale ARP entry, a wrong address, a forged beacon             forge
//! wires      interfaces, addresses and switches that change, under each protocol
//! attack     datagrams of somebody without the key                       capture  flood
//! insider    packets of somebody with the key                            impostor  lies
//! hostile    a client that sends each request to a daemon, its listener for Spread and a store, at full speed
//! dead_ring  one of three rings loses its majority
//! standby    two rings, and the gateway between them is killed            rings    two rings against one
//! hosts      daemons that are stopped or killed, programs that compete       stress
//! readers    clients that do not read                 slow     one of five that does not, under each policy
//! sessions   sessions that are cut off by a relay                            receivers
//! leadership candidates that are stopped and killed    joiner   a replica that lacks a large state
//! replica    replicas and daemons that are cut off, stopped and killed       keepers
//! store      a server of a key-value store on many rings that is killed with much state
//! watch      clients that measure              outcome  figures, goals, and the table
//! ```
//!
//! Chaos judges promises under all faults at once; this tells what a single fault costs, so that two programs can be
//! compared. Goals say what a fault may cost at most; they do not depend on the program.

mod attack;
mod capture;
mod dead_ring;
mod flood;
mod forge;
mod hostile;
mod hosts;
mod impostor;
mod insider;
mod joiner;
mod keepers;
mod leadership;
mod lies;
mod merge;
mod networks;
mod options;
mod outcome;
mod readers;
mod receivers;
mod regions;
mod relay;
mod replica;
mod rings;
mod sessions;
mod site;
mod sites;
mod slow;
mod stage;
mod standby;
mod store;
mod stress;
mod trial;
mod watch;
mod wires;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::command;
use consort_testbed::network::program;
use consort_testbed::stop_on_signals;
use options::Options;
use outcome::{Row, Table};
use site::Site;

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match command::begin("trials", options::help(), Options::read(words)) {
        Ok(options) => options,
        Err(code) => return code,
    };
    if let Some(code) = command::skip("trials") {
        return code;
    }
    match run(&options) {
        Ok(rows) => {
            println!("\n{}", Table(&rows));
            if rows.iter().all(Row::is_green) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("trials: FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<Vec<Row>, String> {
    let stop = stop_on_signals().map_err(|error| format!("cannot listen to signals: {error}"))?;
    let programs = match options.programs.is_empty() {
        true => vec![program::build().map_err(|error| error.to_string())?],
        false => options.programs.clone(),
    };
    let mut rows = Vec::new();
    for trial in &options.trials {
        for file in &programs {
            let Options { lengths, reads, ref settings, .. } = *options;
            let site = Site { lengths, reads, file, settings, stop: &stop };
            let row = Row { trial: trial.name, program: shown(file, &programs), outcome: (trial.run)(&site) };
            if site.is_stopped() {
                return Err("interrupted".into());
            }
            eprintln!("trials: {row}");
            rows.push(row);
        }
    }
    Ok(rows)
}

/// A program's name, where there are several.
fn shown(file: &Path, programs: &[PathBuf]) -> String {
    if programs.len() < 2 { String::new() } else { file.display().to_string() }
}
