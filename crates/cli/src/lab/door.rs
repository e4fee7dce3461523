//! The two ends of a client, to whatever kind of daemon it speaks.
use super::job::Job;
use super::{corosync, jgroups, native, nats, spread};
use crate::failure::{Failure, Outcome};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a client connects, and how it speaks there.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Door {
    /// The socket of a daemon of this program.
    Native(PathBuf),
    /// The socket of a daemon of Spread.
    Spread(PathBuf),
    /// A NATS server's port.
    Nats(SocketAddr),
    /// A JGroups node's port for those who measure it.
    JGroups(SocketAddr),
    /// The file with the process number of a daemon of Corosync. Its clients are a program of their own.
    Corosync(PathBuf),
}

impl Door {
    /// Whether only members of a group may send to it: there, one process of a node both sends and receives.
    pub const fn is_for_members(&self) -> bool {
        matches!(self, Self::Corosync(_))
    }
}

/// A client that sends to the job's group.
pub trait Speaker {
    /// Sends a message, at once or together with those that follow.
    fn multicast(&mut self, message: &[u8]) -> Outcome;

    /// Writes all that was collected.
    fn flush(&mut self) -> Outcome;

    /// Writes all that was collected and, where a daemon tells, waits until it is ordered.
    fn finish(&mut self) -> Outcome;
}

/// What a listener gives each message to, with the time at which it came.
pub type Take<'t> = &'t mut dyn FnMut(u64, &[u8]) -> Outcome;

/// A client that is in the job's group with all other receivers.
pub trait Listener {
    /// Waits for messages and hands over all that came together.
    fn receive(&mut self, take: Take<'_>) -> Outcome;
}

/// Connects a sender.
pub fn speak(job: &Job) -> Outcome<Box<dyn Speaker>> {
    Ok(match &job.door {
        Door::Native(path) => Box::new(native::Native::connect(job, path)?),
        Door::Spread(path) => Box::new(spread::SpreadSpeaker::connect(job, path)?),
        Door::Nats(address) => Box::new(nats::NatsSpeaker::connect(job, *address)?),
        Door::Corosync(_) => return Err(corosync::apart()),
        Door::JGroups(_) => return Err(Failure::new("a JGroups node sends by itself")),
    })
}

/// Connects a receiver, and waits until all receivers are in the group.
pub fn listen(job: &Job) -> Outcome<Box<dyn Listener>> {
    Ok(match &job.door {
        Door::Native(path) => Box::new(native::Ear::join(job, path)?),
        Door::Spread(path) => Box::new(spread::SpreadListener::join(job, path)?),
        Door::Nats(address) => Box::new(nats::NatsListener::join(job, *address)?),
        Door::Corosync(_) => return Err(corosync::apart()),
        Door::JGroups(address) => Box::new(jgroups::JGroupsListener::join(job, *address)?),
    })
}
