//! Registers that clients keep by the order alone: each applies all calls in the order in which they stand, and answers its
//! own when they come by. What callers were told must be as if each call had happened at once, at one moment between its
//! begin and its answer: it must be linearizable.
//!
//! ```text
//! operation  what is done to a register     caller   a client: calls, replays, answers, starts again
//! linear     the verdict on a history
//! ```
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use consort::Bookmark;

use super::board::held;
use operation::{Answer, Call, KEYS, Operation, Value};

pub mod caller;
mod linear;
pub mod operation;

/// The group that calls are sent to.
pub const GROUP: &str = "registers";

/// How registers are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// As a call like any other, which has its place in the order.
    #[default]
    Ordered,
    /// From the caller's own copy, at once: what it has not heard of yet is missing. A history of such reads must be red.
    Local,
}

/// All registers, as they are after a part of the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers([Value; KEYS]);

impl Registers {
    /// With these values.
    pub const fn of(values: [Value; KEYS]) -> Self {
        Self(values)
    }

    /// The next call of the order takes effect; returns what its caller is told.
    pub fn apply(&mut self, call: &Call) -> Answer {
        let value = &mut self.0[call.key];
        let answer = call.request.answer(*value);
        *value = call.request.applied_to(*value);
        answer
    }

    /// What one of them holds.
    pub const fn value(&self, key: usize) -> Value {
        self.0[key]
    }
}

/// A copy of the registers, with its place in the order.
#[derive(Clone, Debug)]
struct Copied {
    at: Bookmark,
    registers: Registers,
}

/// What callers share beside the order: what they did, and a copy for those who missed a part of the order.
#[derive(Debug, Default)]
pub struct History {
    operations: Mutex<Vec<Operation>>,
    wrong: Mutex<Vec<String>>,
    copied: Mutex<Option<Copied>>,
}

/// How much was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Calls.
    pub calls: usize,
    /// Those of them that nobody knows the outcome of.
    pub unknown: usize,
}

impl History {
    /// An operation is over, or its outcome will never be known.
    fn add(&self, operation: Operation) {
        held(&self.operations).push(operation);
    }

    /// A promise was broken before a caller's eyes.
    fn broken(&self, what: String) {
        held(&self.wrong).push(what);
    }

    /// Keeps a copy, if it is the latest.
    fn keep(&self, copied: Copied) {
        let mut kept = held(&self.copied);
        if kept.as_ref().is_none_or(|kept| kept.at.next < copied.at.next) {
            *kept = Some(copied);
        }
    }

    fn copied(&self) -> Option<Copied> {
        held(&self.copied).clone()
    }

    /// Judges all that was done.
    ///
    /// # Errors
    /// What cannot be.
    pub fn judge(&self) -> Result<Work, String> {
        if let Some(first) = held(&self.wrong).first() {
            return Err(first.clone());
        }
        judge(&held(&self.operations))
    }

    /// Writes all down for whoever judges it again.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        let mut out = BufWriter::new(File::create(file(directory))?);
        held(&self.operations).iter().try_for_each(|operation| writeln!(out, "{operation}"))?;
        out.flush()
    }
}

/// Judges operations.
///
/// # Errors
/// What cannot be.
pub fn judge(operations: &[Operation]) -> Result<Work, String> {
    linear::judge(operations).map_err(|contradiction| contradiction.to_string())?;
    let unknown = operations.iter().filter(|operation| operation.outcome.is_none()).count();
    Ok(Work { calls: operations.len(), unknown })
}

/// Judges what a run has kept.
///
/// # Errors
/// The system's; or which line cannot be read. The verdict is the inner result.
pub fn again(directory: &Path) -> io::Result<Result<Work, String>> {
    let mut operations = Vec::new();
    for (line, number) in BufReader::new(File::open(file(directory))?).lines().zip(1..) {
        operations.push(line?.parse().map_err(|wrong| io::Error::other(format!("line {number}: {wrong}")))?);
    }
    Ok(judge(&operations))
}

/// The file with all that was done.
pub fn file(directory: &Path) -> PathBuf {
    directory.join("registers.txt")
}

#[cfg(test)]
mod tests;
