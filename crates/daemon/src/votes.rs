//! The directory in which an acceptor keeps its votes, and how an operator has it begin without them.
use crate::config::{Protocol, Settings};
use crate::failure::{Failure, Outcome, Trying};
use crate::incarnation;
use crate::runtime_dir::{self, RuntimeDir};
use crate::seat::only_one_at_home;
use consort_types::NodeId;
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
/// Another protocol than `paxos`, several nodes to choose from, a node whose daemon runs, no votes, or a directory that cannot
/// be moved.
pub fn abandon(mut settings: Settings, node: Option<u16>, really: bool) -> Outcome<Abandoned> {
    //= X59
    if settings.protocol != Protocol::Paxos {
        let protocol = settings.protocol.name();
        return Err(Failure::usage(format!(
            "protocol = \"{protocol}\" keeps no votes: only acceptors of paxos have any"
        )));
    }
    let node = node.map_or_else(|| only_one_at_home(&settings), Ok)?;
    let dir = RuntimeDir::open(&runtime_dir::runtime_directory(), &settings.cluster)?;
    settings.choose(NodeId(node));
    settings.mine()?;
    let _seat = dir.claim(node)?.ok_or_else(|| dir.taken(&[node], "name another node"))?;
    let home = incarnation::usual_home(settings.state.as_deref(), &settings.cluster);
    let home = home.ok_or_else(|| Failure::usage("there is no place for files: name it with --state-dir"))?;
    let from = directory(&home, node);
    if !from.exists() {
        let (cluster, from) = (&settings.cluster, from.display());
        return Err(Failure::new(format!(
            "node {node} of cluster `{cluster}` has no votes in {from}; is --state-dir right?"
        )));
    }
    not_in_use(&from)?;
    let to = free_name(&from);
    if really {
        move_away(&home, &from, &to)?;
    }
    Ok(Abandoned { node, from, to })
}

/// A daemon that was started with another runtime directory has another lock, but the same files.
fn not_in_use(directory: &Path) -> Outcome {
    match who_has_open(directory) {
        Some(process) => {
            Err(Failure::new(format!("process {process} has {} open: end that daemon first", directory.display())))
        }
        None => Ok(()),
    }
}

/// A process that has a file below this directory open, as far as this one may see.
fn who_has_open(directory: &Path) -> Option<u32> {
    let directory = directory.canonicalize().ok()?;
    let has_open = |process: &Path| {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| file.starts_with(&directory))
    };
    let named = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().parse::<u32>().ok();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.filter(|entry| has_open(&entry.path())).find_map(|entry| named(&entry))
}

fn move_away(home: &Path, from: &Path, to: &Path) -> Outcome {
    let (old, new) = (from.display(), to.display());
    fs::rename(from, to).trying(|| format!("cannot move {old} to {new}; make room or rights there"))?;
    let synced = File::open(home).and_then(|home| home.sync_all());
    synced.trying(|| format!("moved {old} to {new}, but a crash of the machine may undo it; the disk does not sync"))
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

    #[test]
    fn votes_that_somebody_has_open_stay() {
        let home = tempfile::tempdir().unwrap();
        let votes = directory(home.path(), 1);
        fs::create_dir(&votes).unwrap();
        not_in_use(&votes).unwrap();
        let segment = File::create(votes.join("1.segment")).unwrap();
        let said = not_in_use(&votes).unwrap_err().message;
        assert!(
            said.contains(&format!("process {} has", std::process::id())) && said.contains("end that daemon"),
            "{said}"
        );
        drop(segment);
        not_in_use(&votes).unwrap();
    }

    #[test]
    fn only_acceptors_have_votes_and_one_of_several_nodes_is_named() {
        let mut settings = Settings::local("abandon-test", 3);
        let said = abandon(settings.clone(), Some(1), true).unwrap_err();
        assert!(said.message.contains("protocol = \"ring\" keeps no votes"), "{}", said.message);
        settings.protocol = Protocol::Paxos;
        let said = abandon(settings, None, true).unwrap_err();
        assert!(said.message.contains("--node") && said.message.contains("1, 2, 3"), "{}", said.message);
    }
}
