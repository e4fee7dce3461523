//! One leader of a group, with a lease and a fencing number that never repeats or falls.
//!
//! ```no_run
//! use consort::GroupName;
//! use consort_leader::{Leadership, LeadershipOptions};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let daemons = ["10.0.0.1:4840".parse()?, "10.0.0.2:4840".parse()?];
//! let leadership = Leadership::join(&daemons, &GroupName::new("primary")?, LeadershipOptions::default())?;
//! loop {
//!     if let Some(lease) = leadership.lease() {
//!         println!("I lead under {} for {:?}", lease.fence, lease.left());
//!     }
//!     leadership.receive(Duration::from_millis(100))?;
//! }
//! # }
//! ```
//!
//! [`Leadership`] is a candidate of a group: at most one leads at a time, by the clock of whoever asks. A [`Lock`] is held by
//! whoever leads, a [`Barrier`] and a [`WorkQueue`] keep their tables at the leader. All stand on [`consort::Session`], and
//! need a policy that says which part of a parted network goes on.
//!
//! `docs/leadership.md` is the tutorial; `docs/protocols/leadership.md` states the rules. [`Election`] is the part without
//! clock and connection, for simulators and other drivers.

// It reads the clock and has a thread: its business is leases.
#![allow(clippy::disallowed_methods)]

mod clock;
mod command;
mod driver;
mod election;
mod error;
mod event;
mod fence;
mod leadership;
mod recipes;
mod shared;
#[cfg(test)]
mod tests;
mod timing;

pub use command::{Act, CandidateId, Command};
#[cfg(any(test, feature = "mutants"))]
pub use election::Mutant;
pub use election::{Effect, Election, LostCause, Notice};
pub use error::Error;
pub use event::LeadershipEvent;
pub use fence::{Fence, FenceError, place};
pub use leadership::{Leadership, LeadershipOptions, Lease};
pub use recipes::barrier::{Barrier, Round};
pub use recipes::lock::{Lock, LockGuard};
pub use recipes::work_queue::{Job, JobId, WorkQueue};
pub use timing::{Timing, TimingError};
