//! What a server has on its disk: whose directory it is, and two checkpoints.
use crate::digest::TraceDigest;
use crate::trace::REGISTERS;
use bytes::Bytes;
use consort_replica::simulated::forgetting::{Line, Others, ReplicaId, Seen};
use consort_replica::simulated::lasting::{Identity, Progress};
use std::collections::VecDeque;

/// The number of checkpoints that are kept.
const KEPT: usize = 2;

/// The registers and how far they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoint {
    pub order: u64,
    pub serial: u64,
    pub progress: Progress,
    pub registers: [u64; REGISTERS],
    /// Its checksum is wrong.
    pub damaged: bool,
}

/// The same of a replica on an order that forgets.
#[derive(Clone, Debug)]
pub(super) struct ReplicaCheckpoint {
    pub id: ReplicaId,
    pub line: Line,
    pub seen: Seen,
    pub registers: [u64; REGISTERS],
    /// Its checksum is wrong.
    pub damaged: bool,
}

/// A directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    pub identity: Option<Identity>,
    /// What its copies do not share with it.
    pub mark: u128,
    /// Oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// Of a replica on an order that forgets, oldest first.
    pub of_replica: Vec<ReplicaCheckpoint>,
    /// Of such a replica: those that may go on without it.
    pub others: Option<Others>,
    /// The log of a durable copy: its records, of which files it is, and the start that found them to be copies.
    pub journal: VecDeque<Bytes>,
    pub files: Option<u128>,
    pub copied: u64,
}

impl Directory {
    /// A checkpoint is synced, and takes its name.
    pub fn keep(&mut self, checkpoint: Checkpoint) {
        self.checkpoints.push(checkpoint);
        if self.checkpoints.len() > KEPT {
            self.checkpoints.remove(0);
        }
    }

    /// The same of a replica on an order that forgets.
    pub fn keep_replica(&mut self, checkpoint: ReplicaCheckpoint) {
        self.of_replica.push(checkpoint);
        if self.of_replica.len() > KEPT {
            self.of_replica.remove(0);
        }
    }

    /// The newest of those that is whole.
    pub fn newest_of_replica(&self) -> Option<&ReplicaCheckpoint> {
        self.of_replica.iter().rfind(|checkpoint| !checkpoint.damaged)
    }

    /// Whether it is the one that was bound, and no copy of it.
    pub fn is_own(&self) -> bool {
        self.identity.as_ref().is_none_or(|identity| identity.mark == self.mark)
    }

    /// The start that found the log to be a copy of what another wrote, which may be this one; 0 for none.
    pub fn copied(&mut self, start: u64) -> u64 {
        if self.files.replace(self.mark).is_some_and(|files| files != self.mark) {
            self.copied = start;
        }
        self.copied
    }

    /// Those that are whole, oldest first.
    pub fn whole(&self) -> impl DoubleEndedIterator<Item = &Checkpoint> {
        self.checkpoints.iter().filter(|checkpoint| !checkpoint.damaged)
    }

    /// The newest checkpoint cannot be read any more, if there is another one.
    pub fn damage(&mut self) {
        if self.whole().count() == KEPT {
            self.checkpoints.last_mut().into_iter().for_each(|newest| newest.damaged = true);
        }
        if self.of_replica.iter().filter(|checkpoint| !checkpoint.damaged).count() == KEPT {
            self.of_replica.last_mut().into_iter().for_each(|newest| newest.damaged = true);
        }
    }
}

/// A state as bytes.
pub(super) fn bytes_of(registers: &[u64; REGISTERS]) -> Vec<u8> {
    registers.iter().flat_map(|register| register.to_be_bytes()).collect()
}

/// Reads it back.
pub(super) fn registers_of(bytes: &[u8]) -> [u64; REGISTERS] {
    let mut registers = [0; REGISTERS];
    for (register, bytes) in registers.iter_mut().zip(bytes.chunks_exact(8)) {
        *register = bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    }
    registers
}

/// A sum of a state.
pub(super) fn sum_of(registers: &[u64; REGISTERS]) -> u64 {
    let mut sum = TraceDigest::default();
    registers.iter().for_each(|register| sum.add(*register));
    sum.0
}
