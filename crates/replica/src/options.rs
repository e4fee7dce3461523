//! How a replica takes part, and what goes wrong.
use crate::machine::{Parted, Position};
use consort::{Address, SessionOptions};
use std::path::PathBuf;

/// What becomes of a command while it cannot be ordered or applied here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outside {
    /// It waits; [`Replica::waits_for`](crate::Replica::waits_for) tells for what.
    #[default]
    Waits,
    /// It is refused at once with [`Error::Outside`], unless it was sent already.
    Refused,
}

/// How a replica takes part.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The daemons, in the order in which they are tried.
    pub daemons: Vec<Address>,
    /// How the session is made.
    pub session: SessionOptions,
    /// So many replicas begin the history together; 1. Where all replicas may stop at a time, and keep checkpoints, say a
    /// majority of them: one that lost its disk then begins nothing by itself.
    pub founders: usize,
    /// This replica goes on with what it has, though others that may know more are missing. For the operator who knows
    /// that they never come back: what only they had is lost. It makes up for the missing alone: of those that are there
    /// in the same history, the furthest goes on. It counts once, until this replica is up to date.
    pub force: bool,
    /// What becomes of commands meanwhile.
    pub outside: Outside,
    /// Bytes of commands that are kept for replicas which were away; 64 MiB.
    pub log_bytes: usize,
    /// Bytes a second that a replica sends to one that lacks them; 4 MiB. Less leaves more to the commands meanwhile.
    pub transfer_rate: u64,
    /// Where checkpoints are kept, if any: a directory of this replica's own.
    pub checkpoints: Option<PathBuf>,
    /// A checkpoint is made behind so many commands; 10,000.
    pub checkpoint_every: u64,
}

impl Options {
    /// The defaults, at these daemons.
    pub fn at(daemons: &[Address]) -> Self {
        Self {
            daemons: daemons.to_vec(),
            session: SessionOptions::default(),
            founders: 1,
            force: false,
            outside: Outside::Waits,
            log_bytes: 64 << 20,
            transfer_rate: 4 << 20,
            checkpoints: None,
            checkpoint_every: 10_000,
        }
    }

    /// How the session is made.
    #[must_use]
    pub fn session(self, session: SessionOptions) -> Self {
        Self { session, ..self }
    }

    /// How many replicas begin the history.
    #[must_use]
    pub fn founders(self, founders: usize) -> Self {
        Self { founders, ..self }
    }

    /// Goes on without those that are missing; see [`Self::force`].
    #[must_use]
    pub fn forced(self) -> Self {
        Self { force: true, ..self }
    }

    /// What becomes of commands that cannot be ordered or applied.
    #[must_use]
    pub fn outside(self, outside: Outside) -> Self {
        Self { outside, ..self }
    }

    /// How many bytes of commands are kept.
    #[must_use]
    pub fn log_bytes(self, bytes: usize) -> Self {
        Self { log_bytes: bytes, ..self }
    }

    /// How many bytes a second are sent to one that lacks them.
    #[must_use]
    pub fn transfer_rate(self, bytes: u64) -> Self {
        Self { transfer_rate: bytes.max(1), ..self }
    }

    /// Keeps checkpoints in a directory, which is made if need be.
    #[must_use]
    pub fn checkpoints(self, directory: impl Into<PathBuf>) -> Self {
        Self { checkpoints: Some(directory.into()), ..self }
    }

    /// Makes a checkpoint behind so many commands.
    #[must_use]
    pub fn checkpoint_every(self, commands: u64) -> Self {
        Self { checkpoint_every: commands.max(1), ..self }
    }
}

/// Why a call failed, or a replica ended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The session with the daemons is over.
    #[error("the replica's session is over: {0}")]
    Session(String),
    /// The directory of checkpoints cannot be used.
    #[error("checkpoints in {}: {why}", .directory.display())]
    Checkpoints {
        /// Which directory.
        directory: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The command was not sent: this replica is not up to date, or nothing is ordered here.
    #[error("the command was not sent: {0}")]
    Outside(String),
    /// The command is not ordered, and never will be.
    #[error("the daemons refused the command: {0}")]
    Refused(String),
    /// The command was applied once; its response is not known here, as this replica took its effect with a snapshot.
    #[error("the command was applied, but its response was lost while this replica was away")]
    Unseen,
    /// This replica has applied what the history that counts does not have.
    #[error(
        "this replica is at command {} of a history that counts no more; that which counts is at {}. Move its checkpoints \
         away to take the other state, or stop the other replicas to keep this one", .0.own.0, .0.counts.0
    )]
    Parted(Parted),
    /// A snapshot could not be read.
    #[error("the state that was sent cannot be restored: {0}")]
    Restore(String),
    /// The replica was stopped.
    #[error("the replica was stopped")]
    Stopped,
}

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Where the command stands.
    pub at: Position,
    /// What the machine returned.
    pub bytes: Vec<u8>,
}
