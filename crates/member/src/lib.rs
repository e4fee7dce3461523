//! What every membership shares, whatever it forms: who hears whom ([`Heard`]), who is kept out for a while
//! ([`Quarantine`]), which view is primary ([`Policy`]), and numbers that are never used twice ([`Numbers`]).
//!
//! Small policies with few verbs; none sends, none keeps time of its own.

mod heard;
mod numbers;
mod primary;
mod quarantine;

pub use heard::{Heard, Hearing};
pub use numbers::{Numbers, Reservation};
pub use primary::{Policy, PolicyError};
pub use quarantine::Quarantine;
