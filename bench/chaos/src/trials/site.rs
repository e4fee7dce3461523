//! What a trial runs with.
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::chaos::registers::Reads;

/// How long, and how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lengths {
    /// Of faults of networks and troubles of leaders and replicas, and how long a receiver reads nothing.
    pub network: Duration,
    /// Of storms of processes.
    pub storm: Duration,
    pub crashes: u32,
    pub stops: u32,
    /// Of sessions.
    pub cuts: u32,
    /// Bytes of a state that a replica lacks, and how many of them it is sent a second; `None` for what is so by default.
    pub state: u64,
    pub transfer: Option<u64>,
    /// How many send datagrams of nobody at once.
    pub senders: u32,
    /// The first of these times, where it was asked for: a trial of many attempts then makes those that fit.
    pub asked: Option<Duration>,
    /// Which these are follows from this number, where one was given.
    pub seed: Option<u64>,
}

/// What a trial runs with.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    pub lengths: Lengths,
    /// How replicated registers are read.
    pub reads: Reads,
    /// The program.
    pub file: &'a Path,
    /// Lines that stand in the file of each daemon, behind its own.
    pub settings: &'a str,
    pub stop: &'a Arc<AtomicBool>,
}

impl Site<'_> {
    /// Whether somebody wants this to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
