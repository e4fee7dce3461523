//! Replicated state machines: programs that hold the same state, and go on when one of them, or its daemon, is lost.
//!
//! A program says what its state is and how a command changes it: [`StateMachine`]. A [`Replica`] of it takes commands of
//! all replicas in one order. Each command is applied once at each replica, at the same [`Position`] with the same
//! response, which comes back to whoever called.
//!
//! ```no_run
//! use consort_replica::{Options, Position, Replica, StateMachine};
//! use std::io::{self, Read, Write};
//!
//! #[derive(Default)]
//! struct Counter(u64);
//!
//! impl StateMachine for Counter {
//!     type Snapshot = u64;
//!
//!     fn apply(&mut self, _at: Position, _command: &[u8]) -> Vec<u8> {
//!         self.0 += 1;
//!         self.0.to_be_bytes().into()
//!     }
//!
//!     fn snapshot(&self) -> u64 {
//!         self.0
//!     }
//!
//!     fn write(snapshot: u64, out: &mut dyn Write) -> io::Result<()> {
//!         out.write_all(&snapshot.to_be_bytes())
//!     }
//!
//!     fn restore(&mut self, state: &mut dyn Read) -> io::Result<()> {
//!         let mut bytes = [0; 8];
//!         state.read_exact(&mut bytes)?;
//!         self.0 = u64::from_be_bytes(bytes);
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let daemons = ["10.0.0.1:4840".parse()?, "10.0.0.2:4840".parse()?];
//! let counter = Replica::start(Counter::default(), &consort::GroupName::new("counter")?, Options::at(&daemons))?;
//! let response = counter.call("one more")?;
//! println!("{:?} at {:?}", response.bytes, response.at);
//! println!("{}", counter.read_latest(|counter| counter.0)?);
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! - **Once.** A command is applied once, also where its daemon, its connection or the network is lost meanwhile.
//! - **Not undone.** A machine never goes back. Where the network parts, the part that the daemons' policy names goes on,
//!   if a majority of the replicas that were up to date is in it. What a replica received without knowing that it counts
//!   is held back from its machine.
//! - **Not lost.** What was answered is known to all that were up to date, or their daemons have it. It is lost only with
//!   most of them: where those that may know more are missing, the others wait and say for which ones ([`Replica::waits_for`]). What
//!   only the daemons of the others have yet is lost if the replica that answered ends, and most others lose their daemons.
//!   Where the order lasts, or replicas are durable ([`Options::durable`]), it outlives the loss of all of them, too.
//!   While a group's first replicas have not all been up to date once, the loss of one may lose what it alone answered.
//! - **Linearizable.** [`Replica::call`] and [`Replica::read_latest`] are; [`Replica::read`] may be late, and never goes
//!   back. [`Replica::cut`] looks at machines of several groups at one place of the order.
//!
//! With the feature `serde` a state that serde can write and read is a machine once it says how a command changes it: `State`.
//!
//! The daemons need a policy for the primary part (`primary = "majority"`, or `protocol = "paxos"`). Where there is none
//! a replica ends with an error that says so: it could promise nothing of this.
//!
//! # Joining and coming back
//!
//! A replica that lacks something says how far it is, in the order. The lowest replica that is up to date sends the
//! commands behind that, if it still has them ([`Options::log_bytes`]), or a snapshot; should it be lost, the next one
//! does. Snapshots are written in a thread of their own, and sent in private messages of 128 KiB, one under way, at
//! [`Options::transfer_rate`]. With [`Options::checkpoints`] a replica that restarts needs only what it missed.

// This crate runs threads, and keeps checkpoints.
#![allow(clippy::disallowed_methods)]

mod checkpoint;
mod codec;
mod cut;
mod donation;
mod driver;
mod durable;
mod engine;
mod frame;
mod gift;
mod lasting;
mod line;
mod machine;
mod options;
mod pending;
mod replica;
mod saved;
mod shared;
#[doc(hidden)]
pub mod simulated;
#[cfg(feature = "serde")]
mod state;
#[cfg(test)]
mod tests;

pub use cut::Cut;
pub use machine::{Merge, Parted, Position, StateMachine};
pub use options::{Error, Options, Outside, Response};
pub use pending::Pending;
pub use replica::Replica;
pub use saved::{SavedState, read_checkpoint};
#[cfg(feature = "serde")]
pub use state::State;
