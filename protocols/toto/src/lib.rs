//! Every message says which messages it follows. From that alone, and without any message more, all members compute one
//! order: each message is a vote of its sender for the messages that it follows, and what more than Phi machines approve
//! of, and no other can overtake any more, is delivered. That is *ToTo* (Dolev, Kramer, Malki 1993); with Phi = n it is
//! *all-ack*, which waits for everybody.
//!
//! The rules are in `docs/protocols/toto.md`, those of the membership in `docs/protocols/vs.md`; `//= A12` in the code says
//! where each is kept, `//= A12 test` where it is tried.
//!
//! | module | what |
//! |---|---|
//! | [`config`] | every knob, with advice and the paper's values |
//! | [`packet`] | messages with their acknowledgements, requests for lost ones, and what a member holds |
//! | `dag` | what is held: who follows whom, what all hold, what may go |
//! | `votes` | candidates, votes, and the criterion: the heart |
//! | `delivery` | what was released becomes deliveries |
//! | `repair` | asking for what is lost, and answering |
//! | [`engine`] | all of it together with the membership, as an engine |

pub mod config;
mod dag;
mod delivery;
pub mod engine;
#[cfg(feature = "mutants")]
pub mod mutant;
pub mod packet;
mod repair;
mod votes;

#[cfg(test)]
mod tests;

pub use config::{Early, Phi, TotoConfig, TotoConfigError};
pub use consort_member::{Policy, vs};
pub use engine::Toto;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;

pub use votes::{CandidateStanding, CandidateVote};

pub(crate) use consort_types::mutated;
