//! What is said between a measurement and its clients: a job on the command line, one `Go` on standard input, reports
//! on standard output; all as JSON, one object a line.
use super::times::Packed;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Where a client connects, and how it speaks there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ClientAddress {
    /// The socket of a daemon of this program.
    Native(PathBuf),
    /// A daemon of another system, by the name of the system, and where it is in that system's words.
    Other { system: String, at: String },
}

impl ClientAddress {
    /// A daemon of another system.
    pub fn other(system: &str, at: impl ToString) -> Self {
        Self::Other { system: system.to_owned(), at: at.to_string() }
    }
}

/// What one client process has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub role: Role,
    /// Its daemon.
    pub address: ClientAddress,
    /// Which of the clients in this role it is, from 0.
    pub index: u16,
    /// How many there are in each role.
    pub senders: u16,
    pub receivers: u16,
    pub group: String,
    /// The service level's name.
    pub service: String,
    pub load: Load,
    /// How one sender sends.
    pub pace: Pace,
    /// Sends nothing once the measured span is over, whatever is due by then.
    pub cut: bool,
    /// Writes one message at a time.
    pub unbatched: bool,
    /// Uses its socket, not shared memory.
    pub sockets: bool,
    /// Hashes all bytes that are delivered, not only who sent them.
    pub digest: bool,
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Sender,
    Receiver,
}

/// What is sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Load {
    /// The lines of a file, once.
    Lines(PathBuf),
    /// Messages of so many bytes, until time is up.
    Made(usize),
}

/// When messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pace {
    /// As soon as they can be.
    Max,
    /// So many a second, evenly spaced.
    Even(f64),
    /// So many a second, at times that know nothing of each other.
    Poisson(f64),
}

impl Pace {
    /// Messages a second; `None` for as many as possible.
    pub const fn rate(self) -> Option<f64> {
        match self {
            Self::Max => None,
            Self::Even(rate) | Self::Poisson(rate) => Some(rate),
        }
    }

    /// The same times another number of messages a second.
    pub fn times(self, factor: f64) -> Self {
        match self {
            Self::Max => Self::Max,
            Self::Even(rate) => Self::Even(rate * factor),
            Self::Poisson(rate) => Self::Poisson(rate * factor),
        }
    }
}

/// When to start, and which span is measured; in nanoseconds of the clock that all processes share.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Go {
    pub start: u64,
    pub from: u64,
    pub until: u64,
}

/// What a client process tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    /// It is connected, and a receiver is in the group with all others.
    Ready,
    /// How many messages were delivered so far.
    Progress(u64),
    /// A sender is through: everything was ordered.
    Sent(Sent),
    /// A receiver is through.
    Received(Received),
    /// It cannot go on.
    Failed(String),
}

/// What a sender did.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Sent {
    /// Messages, without the one that marks the end.
    pub messages: u64,
    /// How many of them were due but could not be sent before time was up.
    pub unsent: u64,
}

/// What a receiver saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Received {
    /// Messages, without those that mark the end.
    pub messages: u64,
    /// Those that were delivered in the measured span.
    pub in_span: u64,
    /// The payload bytes of those.
    pub bytes_in_span: u64,
    /// When the first and the last message was delivered.
    pub first: u64,
    pub last: u64,
    /// Messages that came out of their sender's order, or not at all.
    pub wrong: u64,
    /// Whether every sender's end was seen.
    pub complete: bool,
    /// A hash of the sequence.
    pub digest: String,
    /// From submission to delivery, of messages submitted in the measured span.
    pub times: Packed,
}
