//! Many token rings, joined by nodes that stand in several of them, with one order over all: Totem's multiple rings.
//!
//! Every ring orders by itself what is sent on it, and stamps it with clocks that rise with what nodes have seen. A gateway sends
//! on in each of its rings what came in the others. All nodes hand out messages by their stamps, each once no ring can bring
//! anything before it. The rules are in `docs/protocols/multiring.md`; `//= TM12` in the code says where each is kept,
//! `//= TM12 test` where it is tried.
//!
//! | module | what |
//! |---|---|
//! | [`key`] | places in the order of all rings |
//! | [`config`], [`layout`] | every knob, and which nodes and rings lie behind which ring |
//! | [`packet`], [`carrier`] | what travels between nodes, and what travels within the order of a ring |
//! | [`horizon`] | up to where nothing more comes from each ring, and what the nodes of each ring hold |
//! | [`tree`] | the rings of one view, and who carries messages from one into another |
//! | `heard` | which of a node's packets came already |
//! | `store` | the messages of one view until all members hold them |
//! | `port` | one ring at this node |
//! | `journal` | the records of several engines in one list |
//! | [`engine`] | the rings, the membership of the whole network, and the order, as an engine |

pub mod carrier;
pub mod config;
pub mod engine;
mod heard;
pub mod horizon;
mod journal;
pub mod key;
pub mod layout;
#[cfg(feature = "mutants")]
pub mod mutant;
pub mod packet;
mod port;
mod store;
pub mod tree;

#[cfg(test)]
mod tests;

pub use config::{Config, ConfigError, DELAY_MOST};
pub use engine::MultiRing;
pub use key::{Key, RingNumber};
pub use layout::RingNodes;
#[cfg(feature = "mutants")]
pub use mutant::Mutant;

pub(crate) use consort_types::mutated;
