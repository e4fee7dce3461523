//! What a program replicates.
use std::io::{self, Read, Write};

/// Where a command stands: its number in the history of its group, from 1, without a gap and equal at every replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// A deterministic state machine: the same commands in the same order give the same state and the same responses. So it
/// reads no clock, no random numbers and nothing else outside itself.
///
/// A machine of a replica that begins must equal that of every other: all are made the same way.
pub trait StateMachine: Send + Sync + 'static {
    /// The state as it was at one place, to be written while the machine goes on: made quickly, by sharing (`Arc`) or by
    /// structures that copy when they are written to. A clone of the machine serves where it is small.
    type Snapshot: Send + 'static;

    /// Takes the next command; what it returns is the response to whoever called. It must not panic whatever the bytes
    /// are: every replica would.
    fn apply(&mut self, at: Position, command: &[u8]) -> Vec<u8>;

    /// The state as it is. All other work of this replica waits for it.
    fn snapshot(&self) -> Self::Snapshot;

    /// Writes a snapshot; runs in a thread of its own.
    ///
    /// # Errors
    /// Those of `out`: the reader is gone, or the disk is full.
    fn write(snapshot: Self::Snapshot, out: &mut dyn Write) -> io::Result<()>;

    /// Takes the state that [`Self::write`] wrote, in place of its own.
    ///
    /// # Errors
    /// What it reads is no such state. The replica ends then, and keeps no checkpoint of what was taken in part.
    fn restore(&mut self, state: &mut dyn Read) -> io::Result<()>;

    /// The history that counts does not have what this machine has applied. Where it is the same history, because one was
    /// forced to go on without the others ([`Options::force`](crate::Options::force)), the default is that it wins:
    /// [`Merge::Restore`]. Where a new history was begun the default is [`Merge::Stop`], so that a state on disk is not
    /// lost because others have lost theirs. An own rule may save what it has here.
    fn on_parted(&mut self, parted: Parted) -> Merge {
        if parted.is_other_history { Merge::Stop } else { Merge::Restore }
    }
}

/// How a machine parted from the history that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parted {
    /// How far this machine is.
    pub own: Position,
    /// How far the history that counts is.
    pub counts: Position,
    /// It was begun anew, by replicas that knew nothing of this one's.
    pub is_other_history: bool,
}

/// What becomes of a machine that parted from the history that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// It takes the state that counts. What only it had is lost.
    Restore,
    /// The replica ends.
    Stop,
}
