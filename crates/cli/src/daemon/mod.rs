//! `consort daemon`: one node of a cluster, until it is told to end.

pub mod options;

use crate::connect;
use crate::failure::{Outcome, Trying, heard_or_not};
use crate::place::Card;
use consort::Address;
use consort_daemon::{log, run};
use consort_net::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;

/// What `consort daemon --help` prints.
pub const HELP: &str = "\
Usage: consort daemon [options]

Runs one node of a cluster. Without a file, all nodes live on this machine: each
daemon takes the lowest free place, and those that run find each other.

  consort daemon                      useful at once; start it again for a
                                      second node, up to eight
  consort daemon --config prod.toml   several machines: the same file on each
  consort daemon --example            shows such a file, with every setting

On one machine:
  --cluster NAME     which cluster [default]
  --nodes N          how many nodes it may have, 1 to 64; the same for all [8]
  --protocol NAME    ring, toto or plato: what orders the messages [ring]
  --ring KIND        accelerated or original [accelerated]
  --datagram SIZE    bytes of one datagram, 576 to 65000 [1472]

With a file:
  --config FILE      the cluster's settings (TOML)

Always:
  --node ID          which node this is [the lowest free one at home here]
  --idling PROFILE   latency, balanced or frugal: how much CPU a quick answer
                     is worth [balanced]
  --scheduling CLASS normal, auto (real time where permitted) or realtime, which
                     runs before all of ordinary priority [normal]
  --listen ADDR      serve clients at this TCP address too, not encrypted;
                     may be given several times
  --spread [PORT]    serve existing Spread clients at this port of this machine
                     and at /tmp/PORT, not encrypted [4803]
  --client-output SIZE  how much may wait for a client before it is sent away as
                     slow, 64KiB to 4GiB [64MiB]
  --client-credit SIZE  how much of one client's requests may be under way, 4KiB
                     to 1GiB [256KiB]
  --metrics ADDR     tell Prometheus at this TCP address (127.0.0.1:9464), page
                     /metrics; /ready answers 200 when the node takes part
  --state-dir DIR    where the number of this node's lives is kept
                     [~/.local/state/consort]
  --log FILTER       error, warn, info, debug or trace, for all or a part of the
                     program: info,consort_net=debug [info]; also CONSORT_LOG
  --log-format FORM  text, or json: one object a line [text]
  --while-stdin-open end when the standard input is closed

Memory: about 5 MiB at rest. Under load at most 16 MiB of packets, 32 MiB of
messages that wait for their place, and what waits for clients come on top.
SIGTERM and Ctrl-C end it cleanly; SIGUSR1 has it log all that debug tells for a
minute. Sockets for clients of this machine live in
$XDG_RUNTIME_DIR/consort, without that in consort-UID below $TMPDIR or /tmp, or
where CONSORT_RUNTIME_DIR says. Lock files stay there when a daemon ends; they
are of no account then.
";

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
    connect::status(&Address::Unix(door.into())).map_err(|failure| failure.message)
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
