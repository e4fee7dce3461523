//! The directory in which an acceptor keeps its votes, and how an operator has it begin without them.
use crate::config::{Protocol, Settings};
use crate::failure::{Failure, Outcome, Trying};
use crate::incarnation;
use crate::runtime_dir::{self, RuntimeDir, Seat};
use crate::seat::only_one_at_home;
use crate::state_lock::{self, NotLocked, StateLock};
use consort_net::{Keep, Records};
use consort_paxos::Storage;
use consort_types::{Incarnation, NodeId};
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

/// What is said, or would be said, to be the newest.
#[derive(Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Whose votes they are.
    pub node: u16,
    /// Where they are.
    pub directory: PathBuf,
}

/// The votes of a node whose daemon does not run, and will not while this is held.
struct StoppedVotes {
    node: u16,
    settings: Settings,
    home: PathBuf,
    directory: PathBuf,
    _held: (Seat, StateLock),
}

impl StoppedVotes {
    fn take(mut settings: Settings, node: Option<u16>) -> Outcome<Self> {
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
        let seat = dir.claim(node)?.ok_or_else(|| dir.taken(&[node], "name another node"))?;
        let home = incarnation::usual_home(settings.state.as_deref(), &settings.cluster);
        let home = home.ok_or_else(|| Failure::usage("there is no directory for files: name one with --state-dir"))?;
        let directory = directory(&home, node);
        if !directory.exists() {
            let (cluster, votes) = (&settings.cluster, directory.display());
            return Err(Failure::new(format!(
                "node {node} of cluster `{cluster}` has no votes in {votes}; is --state-dir right?"
            )));
        }
        let lock = state_lock::claim(&home, node).map_err(|why| match why {
            NotLocked::InUse(failure) | NotLocked::Unusable(failure) => failure,
        })?;
        Ok(Self { node, settings, home, directory, _held: (seat, lock) })
    }
}

/// Moves the votes of a node away whose daemon does not run: it starts then as an acceptor that forgot. Where `really` is
/// false, only says what it would move.
///
/// # Errors
/// Another protocol than `paxos`, several nodes to choose from, a node whose daemon runs, no votes, or a directory that cannot
/// be moved.
pub fn abandon(settings: Settings, node: Option<u16>, really: bool) -> Outcome<Abandoned> {
    //= X59
    let votes = StoppedVotes::take(settings, node)?;
    let to = free_name(&votes.directory);
    if really {
        move_away(&votes.home, &votes.directory, &to)?;
    }
    Ok(Abandoned { node: votes.node, from: votes.directory, to })
}

/// Notes that the votes of a node whose daemon does not run are the newest that it has, although they were copied. Where
/// `really` is false, only says of which votes.
///
/// # Errors
/// As for [`abandon`], and votes of another node, or that are no copy.
pub fn adopt(settings: Settings, node: Option<u16>, really: bool) -> Outcome<Adopted> {
    //= X36
    let StoppedVotes { node, settings, directory, _held, .. } = StoppedVotes::take(settings, node)?;
    let records = records(&settings, node, Incarnation(0))?;
    let adopted = records.map(|records| consort_net::adopt(&records, really)).transpose();
    if adopted.map_err(|error| Failure::new(error.to_string()))? == Some(true) {
        return Ok(Adopted { node, directory });
    }
    Err(Failure::new(format!(
        "there is nothing to adopt: the votes of node {node} in {} are no copy, and count as they are; where nothing is \
         ordered, `consort status` says whose votes are missing, and the runbook docs/runbooks/no-majority.md what to do",
        directory.display()
    )))
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

/// No more bytes of records than that are right for protocols that keep a number.
const NUMBERS_MOST: u64 = 64 << 20;

/// Where the node's protocol keeps its records. Votes stand in a directory of their own.
pub(crate) fn records(settings: &Settings, node: u16, incarnation: Incarnation) -> Outcome<Option<Records>> {
    let Some(home) = incarnation::home(settings.state.as_deref(), &settings.cluster, node) else { return Ok(None) };
    let cluster = settings.cluster.clone();
    let records = |directory, keep, most| Records { directory, keep, most, cluster, node, incarnation };
    // Many rings keep their votes in memory.
    if settings.protocol == Protocol::MultiRingPaxos {
        return Ok(None);
    }
    if settings.protocol != Protocol::Paxos {
        let directory = home.join(format!("node-{node}.records"));
        return Ok(Some(records(directory, Keep::Synced, NUMBERS_MOST)));
    }
    let (votes, config) = (directory(&home, node), settings.paxos_config());
    let keep = match config.storage {
        Storage::Memory if votes.exists() => {
            return Err(Failure::usage(format!(
                "storage = \"memory\" would forget the votes in {}; set it to what they were kept with, or give \
                 them up with `consort abandon`",
                votes.display()
            )));
        }
        Storage::Memory => return Ok(None),
        Storage::Async => Keep::UntilReboot,
        Storage::Sync => Keep::Synced,
    };
    if !votes.exists() {
        tracing::info!(
            "this node keeps no votes in {} yet: it has never voted, or has lost its directory",
            votes.display()
        );
    }
    // While members are slow four times as much is retained, and records may be written twice.
    Ok(Some(records(votes, keep, (config.retain as u64).saturating_mul(16))))
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
    fn only_acceptors_have_votes_and_one_of_several_nodes_is_named() {
        let mut settings = Settings::local("abandon-test", 3);
        let said = abandon(settings.clone(), Some(1), true).unwrap_err();
        assert!(said.message.contains("protocol = \"ring\" keeps no votes"), "{}", said.message);
        settings.protocol = Protocol::Paxos;
        let said = abandon(settings, None, true).unwrap_err();
        assert!(said.message.contains("--node") && said.message.contains("1, 2, 3"), "{}", said.message);
    }
}
