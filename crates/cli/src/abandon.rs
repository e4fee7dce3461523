//! `consort abandon`: an acceptor begins without the votes that its disk holds.
use crate::failure::{Outcome, heard_or_not};
use consort_daemon::{options, votes};
use std::ffi::OsString;
use std::io::{self, Write as _};

/// What `consort abandon --help` prints.
pub const HELP: &str = "\
Usage: consort abandon [--yes] [options]

With `protocol = \"paxos\"` a majority of the acceptors must have kept its disks.
If it has not, nothing is ordered any more. To begin another order, end all
daemons, run this for each acceptor, and start them again. What the earlier
order holds and no program has read is lost, and positions count from 1 again.

Where only this acceptor's records are damaged, run it here alone: the others
tell it what it must know.

Moves the directory of the node's votes aside; the node's daemon must not run.
Without --yes it says what it would move, and moves nothing.

  --yes              move it

  --config FILE      the cluster's settings, as the daemon has them
  --cluster NAME     without a file: which cluster [default]
  --nodes N          without a file: how many nodes it may have [8]
  --node ID          which node [the one at home here, if it is alone]
  --state-dir DIR    where the daemon keeps its files
                     [~/.local/state/consort]
";

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let (options, yes) = options::of_abandon(words, HELP)?;
    let done = votes::abandon(options.settings()?, options.node, yes)?;
    let (node, from, to) = (done.node, done.from.display(), done.to.display());
    let said = if yes {
        format!("node {node} begins without its votes; they stand in {to}")
    } else {
        format!("would move the votes of node {node} from {from} to {to}; --yes does it")
    };
    heard_or_not(writeln!(io::stdout(), "{said}"))
}
