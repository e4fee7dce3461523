//! PLATO, Predictive Latency-Aware Total Ordering (Balakrishnan, Birman, Phanishayee), on a fixed sequencer.
//!
//! Every member multicasts its messages at once, in a stream of its own. The lowest member of the view is the sequencer:
//! messages stand in the order in which they arrive there, and it tells the others that order, some places at a time. That
//! costs few packets, and much waiting. So receivers do not wait: on a switched network messages arrive everywhere in
//! nearly the same order, and those that do not have come close together. A message that comes alone is *offered* at
//! once; one that comes close behind another is withheld, and the one before it taken back. When the places come, offers
//! are *confirmed*, or *revoked* where the guess was wrong.
//!
//! ```text
//! packet      what travels                       streams     numbered packets, requests, who holds what
//! sequencer   gives places                       pipeline    what is believed before places are known
//! delta       how close is too close             loopback    when an own packet counts as arrived
//! receiver    packets to messages, in order      engine      all of it, and the views around it
//! ```
//!
//! Rules: `docs/protocols/plato.md`. Views come from the view-synchronous membership of `consort-member`.

mod config;
mod counters;
mod delta;
mod engine;
mod loopback;
#[cfg(feature = "mutants")]
mod mutant;
mod packet;
mod pipeline;
mod receiver;
mod sequencer;
mod streams;
#[cfg(test)]
mod tests;

pub use config::{AdaptationPace, LinkTimers, PlatoConfig, PlatoConfigError, Prediction, Sequencing, Window};
pub use engine::Plato;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use packet::{PlatoPacket, RetransmitRequest, StreamContent, StreamPacket, StreamStatus};
pub use pipeline::{PacketKey, Pipeline, PipelineStep};

pub(crate) use consort_types::mutated;
