//! What every membership shares, whatever it forms: who hears whom ([`HearingTable`]), who should be in and who out ([`Sets`]),
//! who is kept out for a while ([`Quarantine`]), which view is primary ([`Policy`]), and numbers that are never used twice
//! ([`ViewNumbers`]). Small policies with few verbs; none sends, none keeps time of its own.
//!
//! On them stand the ring's own membership (in `consort-ring`, for it lives on the ring's token) and the view-synchronous
//! one for engines without a token: [`vs`].

mod hearing;
mod numbers;
mod primary;
mod quarantine;
mod sets;
pub mod vs;

pub use hearing::{Hearing, HearingTable};
pub use numbers::{Reservation, ViewNumbers};
pub use primary::{Policy, PolicyError};
pub use quarantine::Quarantine;
pub use sets::{Hearsay, Reason, Sets, Why};
