//! The two ends of a client, to whatever kind of daemon it speaks.
use super::job::{ClientAddress, Job};
use super::native;
use super::system::{Listener, Speaker, System};
use consort_daemon::failure::{Failure, Outcome};

/// Connects a sender.
pub fn speak<'j>(job: &'j Job, systems: &[&dyn System]) -> Outcome<Box<dyn Speaker + 'j>> {
    match &job.address {
        ClientAddress::Native(path) => Ok(Box::new(native::Native::connect(job, path)?)),
        ClientAddress::Other { system, at } => named(systems, system)?.speak(job, at),
    }
}

/// Connects a receiver, and waits until all receivers are in the group.
pub fn listen(job: &Job, systems: &[&dyn System]) -> Outcome<Box<dyn Listener>> {
    match &job.address {
        ClientAddress::Native(path) => Ok(Box::new(native::Ear::join(job, path)?)),
        ClientAddress::Other { system, at } => named(systems, system)?.listen(job, at),
    }
}

/// The system of this name.
pub fn named<'s>(systems: &[&'s dyn System], name: &str) -> Outcome<&'s dyn System> {
    let found = systems.iter().find(|system| system.name() == name);
    found.copied().ok_or_else(|| Failure::new(format!("this program knows no system `{name}`")))
}
