//! A token circulates a ring of members. Whoever holds it numbers its waiting messages, so that every message has one
//! place in one order; the token also carries what is missing, what all members hold, and how much was sent lately.
//!
//! The *original* ring (Totem) passes the token on when everything is sent. The *accelerated* ring passes it on as soon
//! as everything is *numbered*, and goes on sending while the next member works. That is the whole idea; what it costs
//! is told by rules R12 and R15: a number on the token may belong to a message that is still on its way.
//!
//! The rules are in `docs/protocols/ring.md`; `//= R12` in the code says where each is kept, `//= R12 test` where it is
//! tried. Words: *aru* is "all received up to"; *stable* is what every member is known to hold; *round* counts visits of
//! the token.
//!
//! | module | what |
//! |---|---|
//! | [`config`] | every setting, with advice and the papers' values |
//! | [`packet`] | token, data and membership packets, token requests, acknowledgements |
//! | [`engine`] | which state handles which packet: the table |
//! | `state` | data and rules that exist only in one state: operational, gather, commit, recovery |
//! | `token` | the circulation of one ring's token, which operational and recovery share: `state` where it is, `arrival` a visit, `rest` and `grant` a token at rest, `acks` acknowledgements |
//! | `installation` | the installed ring: what is delivered from it and what is owed |
//! | `tuning` | how the windows follow what the ring can take |
//! | `io`, `counters`, `state_name` | what all states share, what happened so far, the states by name |
//! | `store`, `flow`, `load`, `requests`, `grant_backoff`, `holdings`, `delivery`, `timer` | small policies with few verbs |
//!
//! Membership is Totem's, with the corrections of `docs/protocols/membership.md`: members gather until they agree on a
//! set, commit to it, recover what some of them lack, and install the new view in one step.

pub mod config;
mod counters;
mod delivery;
pub mod engine;
#[cfg(any(test, feature = "model"))]
pub mod evs;
mod flow;
mod grant_backoff;
pub mod holdings;
mod installation;
mod io;
pub mod load;
#[cfg(feature = "model")]
pub mod model;
#[cfg(feature = "mutants")]
pub mod mutant;
pub mod packet;
mod requests;
mod state;
mod state_name;
mod store;
mod timer;
mod token;
mod tuning;

#[cfg(test)]
mod tests;

pub use config::{Acceleration, IdleHold, Priority, RingConfig, RingConfigError, RingTimeouts, WindowTuning, Windows};
pub use consort_member::Policy;
pub use engine::Ring;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;

/// Places end here: a position keeps 16 bits for the message within its packet.
pub const SEQ_END: u64 = 1 << 48;

/// Stamps end here, which no rate of messages ever reaches: whoever merges orders has room beside them in a position.
pub const STAMP_END: u64 = 1 << 56;

/// The ring's name for a view: the number of the ring and its representative.
pub type RingId = consort_types::ViewId;

pub(crate) use consort_types::mutated;
