//! What is said between a measurement and its clients: a job on the command line, one `Go` on standard input, reports
//! on standard output; all as JSON, one object a line.
use super::figures::Packed;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What one client process has to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub role: Role,
    /// The socket of its daemon.
    pub door: PathBuf,
    /// Which of the clients in this role it is, from 0.
    pub index: u16,
    /// How many there are in each role.
    pub clients: u16,
    pub group: String,
    /// The service level's name.
    pub service: String,
    pub load: Load,
    /// Messages each sender sends in a second, evenly spaced; as many as possible where none is given.
    pub rate: Option<f64>,
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
