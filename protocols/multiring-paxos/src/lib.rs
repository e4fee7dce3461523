//! Many rings, each with an order of its own, merged into one: Multi-Ring Paxos. Whoever reads some of the rings hands out what
//! they decide in the order of its positions. So any two readers agree on the order of what both hand out, whichever rings each
//! reads.
//!
//! The rules are in `docs/protocols/multiring-paxos.md`; `//= MP12` in the code says where each is kept, `//= MP12 test` where
//! it is tried.
//!
//! | module | what |
//! |---|---|
//! | [`slot`] | slots, which pass like time, and positions in the order of all rings |
//! | [`log`] | what the merge must know of a ring's log |
//! | [`input`] | one ring at a reader |
//! | [`subscription`] | changes of what is subscribed, as ordered commands |
//! | [`merge`] | the rings together, and checkpoints |
//! | [`cache`] | what is decided while a reader that comes back waits for a checkpoint |
//! | [`ring_log`] | the log of a ring of Ring Paxos, as the merge reads it |
//! | [`pace`] | when a ring's coordinator skips, and how far |
//! | [`outgoing`] | own messages until they are handed out |
//! | [`turns`] | messages of each daemon in the order in which it sent them |
//! | [`config`], [`packet`] | every knob of the engine, and what it puts on the network |
//! | [`engine`] | a Ring Paxos for each ring, and the merge of what they decide, as an engine |

pub mod cache;
pub mod config;
pub mod engine;
pub mod input;
pub mod log;
pub mod merge;
#[cfg(feature = "mutants")]
pub mod mutant;
pub mod outgoing;
pub mod pace;
pub mod packet;
pub mod ring_log;
pub mod slot;
pub mod subscription;
pub mod turns;

#[cfg(test)]
mod tests;

pub use cache::Cache;
pub use config::{Config, ConfigError, Reads, Ring};
pub use engine::MultiRingPaxos;
pub use log::LogState;
pub use merge::{Checkpoint, Merge, Merged, NotTaken};
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use slot::{RingId, Slot};
pub use subscription::{Change, SubscriberId, Wish};

pub(crate) use consort_types::mutated;
