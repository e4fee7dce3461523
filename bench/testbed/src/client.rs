//! A client of a measurement, whichever end of whichever system.
use super::job::{ClientAddress, Job, Report, Role};
use super::system::System;
use super::watch::{Starter, tell};
use super::{ends, receiver, sender};
use consort_daemon::failure::Outcome;

/// Is a client until it is not wanted any more.
pub fn be_client(job: &Job, starter: &dyn Starter, systems: &[&dyn System]) -> Outcome {
    if let ClientAddress::Other { system, at } = &job.address
        && let Some(failure) = ends::named(systems, system)?.become_client(job, at)
    {
        tell(&Report::Failed(format!("the client of {system} at node {}: {}", job.index + 1, failure.message)))?;
        return Err(failure);
    }
    match job.role {
        Role::Sender => sender::run(job, starter, systems),
        Role::Receiver => receiver::run(job, starter, systems),
    }
}
