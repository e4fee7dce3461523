//! `consort adopt`: votes that were copied are the newest that their node has.
use crate::failure::{Outcome, heard_or_not};
use consort_daemon::{options, votes};
use std::ffi::OsString;
use std::io::{self, Write as _};

/// What `consort adopt --help` prints.
pub const HELP: &str = "\
Usage: consort adopt [--yes] [options]

With `protocol = \"paxos\"` an acceptor notices if the directory of its votes was
copied, for example to another disk or from a backup. It votes again once a
majority of the other acceptors says that it has not voted since. Where too few
of them are left to say so, you can: run this, and start the daemon.

Do it only if this copy holds all that the node ever voted for, because the
daemon was stopped, the directory was copied, and no daemon used the original
since. With an older copy messages are lost that were acknowledged.

The node's daemon must not run. Without --yes it says which votes it would
adopt, and changes nothing. Votes that are no copy are refused: they count.

  --yes              adopt them

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
    let done = votes::adopt(options.settings()?, options.node, yes)?;
    let (node, directory) = (done.node, done.directory.display());
    let said = if yes {
        format!("node {node} votes with what is in {directory} from its next start on")
    } else {
        format!("would adopt the votes of node {node} in {directory}; --yes does it")
    };
    heard_or_not(writeln!(io::stdout(), "{said}"))
}
