//! `cargo papers`, `consort lab`: the papers' measurements again, with the engines that ship, in virtual time; and with real daemons.
//!
//! ```text
//! options   what is asked for                   net       engines in one view, and what delays their packets
//! toto      ToTo against all-ack                traffic   who sends when
//! model     the paper's model of its latency    samples   latencies, as a table shows them
//! plato     PLATO against a fixed sequencer     real      toto, plato and rings in network namespaces
//! figures   every figure of the papers, judged  check     what is printed against the page
//! deltas    the same with other deltas          swaps     how close packets come that were swapped
//! windows   tuned against fixed windows         wires     rings on a switch of limited ports, hosts that cost
//! streams   Multi-Ring Paxos over streams         losses    what a receiver loses that is switched out
//! reader    a receiver's socket, and its process  gateways  rings joined by gateways, on hosts that cost
//! parallel  on all processors                     machine   this machine's costs, and what follows for its daemons
//! ```
//!
//! For ToTo and PLATO hosts cost nothing and links lose nothing: what is measured is how long a protocol waits, not how fast a machine
//! is. The simulator's network draws delays evenly; the papers' delays have a tail, so the laboratory has its own.
#![allow(clippy::disallowed_methods)] // a program: it may read the clock and start threads

mod check;
mod deltas;
mod figures;
mod gateways;
mod losses;
mod machine;
mod model;
mod net;
mod options;
mod parallel;
mod plato;
mod reader;
mod real;
mod samples;
mod streams;
mod swaps;
mod toto;
mod traffic;
mod windows;
mod wires;

use options::{Options, Which};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let [check, rest @ ..] = &words[..]
        && check == "--check"
    {
        return check::main(rest);
    }
    if words.first().is_some_and(|word| figures::COMMANDS.iter().any(|command| word == command)) {
        return figures::main(words);
    }
    if words.first().is_some_and(|word| machine::commands::COMMANDS.iter().any(|command| word == command)) {
        return machine::commands::main(words);
    }
    let options = match Options::read(words) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(misuse) => {
            eprintln!("lab: {misuse}");
            return ExitCode::from(2);
        }
    };
    match table(&options) {
        Ok(table) => {
            print!("{table}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn table(options: &Options) -> Result<String, String> {
    let seed = options.seed;
    match &options.which {
        Which::Toto(lab) => toto::table(seed, lab),
        Which::Plato(lab) => plato::table(seed, lab),
        Which::Deltas(lab) => deltas::table(seed, lab),
        Which::Swaps(lab) => swaps::table(seed, lab),
        Which::RealToto(lab) => real::toto::table(seed, lab),
        Which::RealPlato(lab) => real::plato::table(seed, lab),
        Which::Windows(lab) => windows::table(lab),
        Which::Rings(lab) => real::rings::table(seed, lab),
    }
}
