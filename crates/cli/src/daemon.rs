//! `consort daemon`: one node of a cluster, until it is told to end.

use crate::failure::{Outcome, Trying, heard_or_not};
use crate::inquiry;
use crate::runtime_dir::Card;
use consort::Address;
use consort_daemon::{log, options, run};
use consort_net::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let options = options::read(words)?;
    let _log = log::start(options.log.as_deref(), options.log_format)?;
    log::raise_on_signal().trying(|| "cannot watch for SIGUSR1".into())?;
    let settings = options.settings()?;
    let stop = stop_on_signals().trying(|| "cannot watch for signals".into())?;
    if options.while_stdin_open {
        stop_with_stdin(stop.clone());
    }
    run::open_many_files(settings.limits.clients_most);
    let ready = run::prepare(settings, options.node, ask)?;
    announce(&ready.card)?;
    ready.serve(stop)
}

/// The metrics ask like any client.
fn ask(door: &Path) -> Result<Vec<(String, String)>, String> {
    inquiry::status(&Address::Unix(door.into())).map_err(|failure| failure.message)
}

/// Tells whoever started us that clients can connect.
fn announce(card: &Card) -> Outcome {
    let mut out = io::stdout();
    let (node, cluster, door) = (card.node, &card.cluster, card.door.display());
    let written = writeln!(out, "ready: node {node} of cluster {cluster} serves clients at {door}");
    heard_or_not(written.and_then(|()| out.flush()))
}

fn stop_on_signals() -> io::Result<Stop> {
    let stop = Stop::new()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        stop.on_signal(signal)?;
    }
    Ok(stop)
}

fn stop_with_stdin(stop: Stop) {
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        let mut ignored = [0; 256];
        while matches!(input.read(&mut ignored), Ok(n) if n > 0) {}
        stop.set();
    });
}
