//! The listener for existing Spread clients: a daemon's end of the session protocol of Spread 5.0.1, without I/O.
//! `docs/protocols/spread.md` states the rules (S01 and on) that the code cites.
//!
//! | module | what |
//! |---|---|
//! | [`hello`] | versions, names, authentication, reject codes |
//! | [`kind`] | the bits of a message's type |
//! | [`header`] | the 48 bytes before every message, in either byte order |
//! | [`request`] | what clients say after that |
//! | [`messages`] | what daemons say: messages, group views, signals, rejects |
//! | [`multicast_note`] | what travels with a message for receivers that are Spread clients, too |
//! | [`session`] | [`SpreadSession`], a daemon's end of one connection |
//!
//! A Spread client is a client like any other: its groups are the daemon's groups, its messages stand in the same order,
//! and it is `#user#daemon` to everybody. What Spread knows and the order does not, a client's own 16 bits with each
//! message and the exact level it asked for, rides along as a [`MulticastNote`].

pub mod header;
pub mod hello;
mod input;
pub mod kind;
pub mod messages;
pub mod multicast_note;
pub mod name_field;
pub mod request;
pub mod session;
#[cfg(test)]
mod tests;

pub use consort_group::spread_limits::{MESSAGE_MAX, NAMES_MAX as GROUPS_MAX};
pub use hello::Reject;
pub use multicast_note::MulticastNote;
pub use session::{SpreadRequest, SpreadSession};

/// The port on which Spread's clients look for a daemon.
pub const PORT: u16 = 4803;
