//! One order that a majority keeps: Ring Paxos. A coordinator proposes an item for each numbered instance of a log, acceptors
//! vote, and what a majority of them has voted for stands for ever. Payloads travel round a ring of all nodes, so that each
//! link carries each once; what is proposed and decided are their names.
//!
//! The rules are in `docs/protocols/paxos.md`; `//= X12` in the code says where each is kept, `//= X12 test` where it is tried.
//!
//! | module | what |
//! |---|---|
//! | [`config`] | every knob, with advice |
//! | [`packet`], [`record`] | what nodes say to each other, and what acceptors write down |
//! | [`ballot`] | names that are never used twice, and sets of votes |
//! | [`acceptor`], `engine::acceptor_role` | promises and votes, and that each is kept before it is said |
//! | [`coordinator`] | terms of leading, open instances, leases |
//! | [`learner`] | the log, and what follows from it: messages, views, and what does not count |
//! | [`checkpoints`] | what programs keep by themselves |
//! | [`proposer`] | messages packed into values, kept until they have their place |
//! | [`engine`] | all of it together, as an engine |

pub mod acceptor;
pub mod ballot;
pub mod checkpoints;
pub mod config;
pub mod coordinator;
pub mod engine;
pub mod learner;
#[cfg(feature = "mutants")]
pub mod mutant;
pub mod packet;
pub mod proposer;
pub mod record;

#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, OnBudget, Storage};
pub use engine::Paxos;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;

pub(crate) use consort_types::mutated;
