//! Process groups: who is in which group, changed only by what stands in the one order.
//!
//! A join *is* an ordered message, so every daemon's table changes at the same place in the stream and no daemon ever
//! asks another. This crate turns ordered payloads and views into *changes* and *recipients*; it cannot tell a token
//! ring from anything else that orders.
//!
//! `docs/protocols/groups.md` states the rules; `//= G07` in the code says where one is kept.
//!
//! | module | what |
//! |---|---|
//! | [`targets`] | the list of names that a multicast carries |
//! | [`ordered`] | the payloads that travel in the order |
//! | [`part`] | those of them that daemons exchange when they meet |
//! | [`groups`] | [`Groups`], the state machine |
//! | [`history`] | the views a daemon was in, and whether a reader of another may go on here |
//! | [`producers`] | how far each producer's messages are ordered |
//! | [`groups::apply`] | what follows from a payload or a view, step by step |

pub mod batch;
mod digest_check;
mod exchange;
pub mod groups;
pub mod history;
pub mod keys;
mod member;
#[cfg(feature = "mutants")]
mod mutant;
pub mod ordered;
pub mod part;
mod private;
pub mod producers;
mod recent;
mod set_hash;
pub mod spread_limits;
mod table;
pub mod targets;
#[cfg(test)]
mod tests;

pub use digest_check::Mismatch;
pub use groups::apply::{GroupChange, GroupStep, TransitionalSignal};
pub use groups::{Asked, GroupDelivery, Groups, Ignored};
pub use history::{Histories, Resumption, ViewClosing, ViewPlace, ViewTrail};
pub use keys::{KeyAnswer, KeyMessage, KeyName, ProposalId};
pub use member::{ChangeCause, ClientName, ClientNameError, GroupViewId, Member};
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use private::{PrivateName, PrivateNameError};
pub use producers::{
    CountsWhen, HistoryPlace, NumberRefused, Numbered, OpenRefused, OpenRequest, Opened, ProducerId, ProducerRecord,
    Producers,
};
pub use spread_limits::NotRepresentable;
pub use targets::{Addressee, Target, Targets};

/// Whether something breaks this rule on purpose. Always false in a build without mutants.
macro_rules! mutated {
    ($holder:expr, $mutant:ident) => {{
        #[cfg(feature = "mutants")]
        let broken = $holder.mutant == Some($crate::mutant::Mutant::$mutant);
        #[cfg(not(feature = "mutants"))]
        let broken = false;
        broken
    }};
}
pub(crate) use mutated;
