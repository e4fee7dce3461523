//! The directory in which an acceptor keeps its votes, and how an operator has it begin without them.
use crate::config::{Protocol, Settings};
use crate::failure::{Failure, Outcome, Trying};
use crate::incarnation;
use crate::runtime_dir::{self, RuntimeDir};
use crate::seat::take_seat;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What was, or would be, moved away.
#[derive(Debug, PartialEq, Eq)]
pub struct Abandoned {
    /// Whose votes they are.
    pub node: u16,
    /// Where they stand.
    pub from: PathBuf,
    /// Where they stand then.
    pub to: PathBuf,
}

/// Where this node's votes stand, if they stand anywhere.
pub(crate) fn directory(home: &Path, node: u16) -> PathBuf {
    home.join(format!("node-{node}.votes"))
}

/// Moves the votes of a node away whose daemon does not run: it starts then as an acceptor that forgot. Where `really` is
/// false, only says what it would move.
///
/// # Errors
/// Another protocol than `paxos`, a node whose daemon runs, no votes, or a directory that cannot be moved.
pub fn abandon(mut settings: Settings, node: Option<u16>, really: bool) -> Outcome<Abandoned> {
    //= X59
    if settings.protocol != Protocol::Paxos {
        let protocol = settings.protocol.name();
        return Err(Failure::usage(format!(
            "protocol = \"{protocol}\" keeps no votes; with --config FILE or --protocol paxos there may be some"
        )));
    }
    let dir = RuntimeDir::open(&runtime_dir::runtime_directory(), &settings.cluster)?;
    let _seat = take_seat(&dir, &mut settings, node)?;
    let node = settings.ring.me.0;
    let nothing = |place: String| {
        Failure::new(format!(
            "node {node} of cluster `{}` has no votes {place}; is --state-dir right?",
            settings.cluster
        ))
    };
    let home = incarnation::home(settings.state.as_deref(), &settings.cluster, node);
    let home = home.ok_or_else(|| nothing("on this machine".into()))?;
    let from = directory(&home, node);
    if !from.is_dir() {
        return Err(nothing(format!("in {}", from.display())));
    }
    let to = free_name(&from);
    if really {
        let what = || format!("cannot move {} to {}", from.display(), to.display());
        fs::rename(&from, &to).trying(what)?;
        File::open(&home).and_then(|home| home.sync_all()).trying(what)?;
    }
    Ok(Abandoned { node, from, to })
}

/// The first name behind the directory's own that nothing has.
fn free_name(directory: &Path) -> PathBuf {
    let name = |number: u32| directory.with_extension(format!("votes.abandoned-{number}"));
    (1..).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_abandoned_before_is_not_written_over() {
        let home = tempfile::tempdir().unwrap();
        let votes = directory(home.path(), 3);
        let first = free_name(&votes);
        assert_eq!(first.file_name().unwrap(), "node-3.votes.abandoned-1");
        fs::create_dir(&first).unwrap();
        assert_eq!(free_name(&votes).file_name().unwrap(), "node-3.votes.abandoned-2");
    }
}
