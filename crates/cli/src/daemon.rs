//! `consort daemon`: one node of a cluster, until it is told to end.

use crate::failure::{Code, Outcome, Trying, heard_or_not};
use crate::inquiry;
use crate::runtime_dir::Card;
use consort::Address;
use consort_daemon::metrics::NoStatus;
use consort_daemon::signals::{self, Caught};
use consort_daemon::{log, options, reload, run};
use consort_net::Stop;
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
    let hangups = hangups(options.reloads()).trying(|| "cannot watch for SIGHUP".into())?;
    if options.while_stdin_open {
        stop_with_stdin(stop.clone());
    }
    run::open_many_files(settings.limits.clients_most);
    run::outlive_file_limit().trying(|| "cannot watch for SIGXFSZ".into())?;
    if !run::await_addresses(&settings, options.node, &stop) {
        return Ok(());
    }
    let ready = run::prepare(settings, options.node, ask)?;
    if let Some(hangups) = hangups {
        let again = move || options.settings();
        reload::on_hangup(hangups, ready.reload(), again).trying(|| "cannot read rules again".into())?;
    }
    announce(&ready.card)?;
    ready.serve(stop)
}

/// The metrics ask like any client.
fn ask(socket: &Path) -> Result<Vec<(String, String)>, NoStatus> {
    inquiry::status(&Address::Unix(socket.into())).map_err(|failure| match failure.code {
        Code::NoDaemon => NoStatus::Silent(failure.message),
        _ => NoStatus::Refused(failure.message),
    })
}

/// Tells whoever started us that clients can connect.
fn announce(card: &Card) -> Outcome {
    let mut out = io::stdout();
    let (node, cluster, socket) = (card.node, &card.cluster, card.socket.display());
    let written = writeln!(out, "ready: node {node} of cluster {cluster} serves clients at {socket}");
    heard_or_not(written.and_then(|()| out.flush()))
}

/// Each signal that ends the process; a second one ends it as it is.
fn stop_on_signals() -> io::Result<Stop> {
    let stop = Stop::new()?;
    let stopped = stop.clone();
    signals::on_stop(move || stopped.set())?;
    Ok(stop)
}

/// Those that have the settings read again, if there is a file. They are caught before it is read for the first time, so
/// that none of them ends the process.
fn hangups(reloads: bool) -> io::Result<Option<Caught>> {
    if reloads {
        return signals::catch_hangups().map(Some);
    }
    signals::ignore_hangups("this daemon has no settings to read again; start it with --config FILE").map(|()| None)
}

fn stop_with_stdin(stop: Stop) {
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        let mut ignored = [0; 256];
        while matches!(input.read(&mut ignored), Ok(n) if n > 0) {}
        stop.set();
    });
}
