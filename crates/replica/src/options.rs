//! How a replica takes part, and what goes wrong.
use crate::machine::{Parted, Position};
use consort::{Address, SessionOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

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
    /// in the same history, the furthest goes on. It counts once, until this replica is up to date. Durable replicas go on so
    /// though a majority of the directories is lost, once all copies are there; the best log of theirs counts.
    pub force: bool,
    /// What becomes of commands meanwhile.
    pub outside: Outside,
    /// Bytes of commands that are kept for replicas which were away; 64 MiB.
    pub log_bytes: usize,
    /// Bytes a second that a replica sends to one that lacks them; 4 MiB. Less leaves more to the commands meanwhile.
    pub transfer_rate: u64,
    /// Where checkpoints are kept, if any: a directory of this replica's own.
    pub checkpoints: Option<PathBuf>,
    /// A checkpoint is made behind this number of commands; 10,000. Where the order lasts one is also due behind 16 MiB of commands,
    /// after five minutes, and when the log is filled by a sixteenth of its budget.
    pub checkpoint_every: u64,
    /// Where the order forgets: a command is answered once a majority of [`Self::copies`] has synced it, so that what was
    /// answered outlives the loss of every process. Each replica has a directory then.
    pub durable: bool,
    /// Where the order lasts, or replicas are durable: how many copies of the state there are. The first replica of a group decides it for ever; 0 for
    /// as many as there are daemons that vote. The log lets nothing go that a majority of the copies lacks.
    pub copies: u16,
    /// Where the order lasts: this replica is to be the copy that has this number, also if another one was. For
    /// the operator who knows that the directory of the one before is lost, or is not used any more. Durable replicas have the
    /// number of their daemon's node without it.
    pub copy: Option<u16>,
    /// Where the order lasts: where other replicas fetch checkpoints; a free port of 127.0.0.1. Who can connect there can
    /// read the state.
    pub transfer_at: Option<SocketAddr>,
    /// Where the order lasts: a directory that all replicas of the group share. Each new checkpoint is copied there if none is
    /// later, and a replica that lacks one looks there first.
    pub shared: Option<PathBuf>,
    /// Where the order lasts: what the replica is called in status and errors; the name of its machine and the path of its
    /// directory. One that begins with an empty directory becomes the copy that was called so.
    pub server: Option<String>,
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
            durable: false,
            copies: 0,
            copy: None,
            transfer_at: None,
            shared: None,
            server: None,
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

    /// Answers a command once a majority of this number of copies has synced it, where the order forgets; see
    /// [`Self::durable`].
    #[must_use]
    pub fn durable(self, copies: u16) -> Self {
        Self { durable: true, copies, ..self }
    }

    /// How many copies of the state there are, where the order lasts.
    #[must_use]
    pub fn copies(self, copies: u16) -> Self {
        Self { copies, ..self }
    }

    /// Which copy it is to be, where the order lasts; see [`Self::copy`].
    #[must_use]
    pub fn copy(self, number: impl Into<Option<u16>>) -> Self {
        Self { copy: number.into(), ..self }
    }

    /// Where others fetch checkpoints, where the order lasts.
    #[must_use]
    pub fn transfer_at(self, address: impl Into<Option<SocketAddr>>) -> Self {
        Self { transfer_at: address.into(), ..self }
    }

    /// A directory that all replicas share, where the order lasts; see [`Self::shared`].
    #[must_use]
    pub fn shared(self, directory: impl Into<Option<PathBuf>>) -> Self {
        Self { shared: directory.into(), ..self }
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
    /// The daemons' order lasts, or replicas are durable, and this replica has no directory.
    #[error(
        "replicas whose answers outlive the loss of every process have a directory each; give this one a directory \
         (`Options::checkpoints`, `--state`)"
    )]
    NoDirectory,
    /// Replicas cannot be durable as was asked.
    #[error("durable replicas: {0}")]
    Durable(&'static str),
    /// The command was not sent: this replica is not up to date, or nothing is ordered here.
    #[error("the command was not sent: {0}")]
    Outside(String),
    /// The command is not ordered, and never will be.
    #[error("the daemons refused the command: {0}")]
    Refused(String),
    /// The command was applied once; its response is not known here, as this replica took its effect with a snapshot.
    #[error("the command was applied, but its response was lost while this replica was away")]
    Unseen,
    /// It is not known whether the command was applied, because the log has it no more.
    #[error("whether the command was applied is not known: this replica took the state of another one meanwhile")]
    Unknown,
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

impl Error {
    pub(crate) fn directory(directory: &Path, error: &std::io::Error) -> Self {
        Self::Checkpoints { directory: directory.to_owned(), why: with_remedy(error) }
    }
}

/// The system names no remedy; what is said here does.
pub(crate) fn with_remedy(error: &std::io::Error) -> String {
    let remedy = if error.raw_os_error().is_some() { ". Make the directory usable, then start again" } else { "" };
    format!("{error}{remedy}")
}

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Where the command stands.
    pub at: Position,
    /// What the machine returned.
    pub bytes: Vec<u8>,
}
