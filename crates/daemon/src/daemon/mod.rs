//! `consort daemon`: one node of a cluster, until it is told to end.

mod incarnation;
pub mod log;
pub mod options;
pub mod run;

use crate::failure::Outcome;
use std::ffi::OsString;

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
    run::run(&options)
}
