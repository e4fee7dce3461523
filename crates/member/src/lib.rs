//! What every membership shares, whatever it forms: who hears whom ([`HearingTable`]), who should be in and who out ([`Sets`]),
//! who is kept out for a while ([`Quarantine`]), which view is primary ([`Policy`]), and numbers that are never used twice
//! ([`ViewNumbers`]). A node among others is a [`Presence`]; members agree on the next view in a [`Gathering`]. Policies with
//! few verbs; none sends, none keeps time of its own.
//!
//! On them stand the ring's own membership (in `consort-ring`, for it lives on the ring's token) and the view-synchronous
//! one for engines without a token: [`vs`].

mod distance;
mod gathering;
mod hearing;
mod meeting;
mod numbers;
pub mod packet;
mod presence;
mod primary;
mod quarantine;
mod sets;
pub mod vs;

#[cfg(test)]
mod tests;

pub use distance::{Clocks, DELAY_LEAST, DELAY_MOST, Distances};
pub use gathering::{Gathering, JoinEffect, Overdue};
pub use hearing::{Hearing, HearingTable};
pub use meeting::{Encounter, Summons, stranger_wants};
pub use numbers::{Reservation, ViewNumbers};
pub use packet::{ANNOTATION_MAX, Beacon, Proposal};
pub use presence::{CeilingRecord, Presence};
pub use primary::{Policy, PolicyError};
pub use quarantine::Quarantine;
pub use sets::{Hearsay, Reason, Sets, Why};
