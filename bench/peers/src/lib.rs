//! Other systems that are given the same work as Consort, each in a module of its own: how its daemons are started, and how
//! its clients speak to them.
#![allow(clippy::disallowed_methods, reason = "programs of others are started and waited for")]

mod aeron;
mod corosync;
mod java;
mod jgroups;
mod nats;
mod spread;
mod tools;
mod tuning;

pub use tuning::Tuning;

use consort_daemon::failure::Outcome;
use consort_testbed::{System, Testbed};
use consort_types::Service;
use std::path::Path;
use std::time::Duration;

/// A system that can be measured where a user has installed it.
pub trait Peer: System {
    /// The option that says where its program is, and what stands behind it.
    fn option(&self) -> (&'static str, &'static str);

    /// Why it cannot be measured at this work, if it cannot.
    fn obstacle(&self, program: &Path, work: &Work) -> Option<String>;

    /// Starts its daemons, one a node.
    ///
    /// # Errors
    /// Why they do not run; the text says what they said last.
    fn start(&self, program: &Path, work: &Work, tuning: &Tuning) -> Outcome<Testbed>;
}

/// What all systems are to do alike.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Daemons.
    pub nodes: u16,
    /// Bytes of a message.
    pub size: usize,
    /// How many clients send; one at each node where none is given.
    pub senders: Option<u16>,
    /// The service level of the messages.
    pub service: Service,
    /// Each sender writes one message at a time.
    pub unbatched: bool,
}

/// All that are known.
pub const ALL: [&dyn Peer; 5] = [&spread::Spread, &nats::Nats, &corosync::Corosync, &jgroups::JGroups, &aeron::Aeron];

/// The same, as those whose clients speak.
pub const SYSTEMS: [&dyn System; 5] =
    [&spread::Spread, &nats::Nats, &corosync::Corosync, &jgroups::JGroups, &aeron::Aeron];

/// So long those that must warm up do so.
const WARM_UP: Duration = Duration::from_secs(10);
