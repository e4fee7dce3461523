//! The door for existing Spread clients: a daemon's end of the session protocol of Spread 5.0.1, without I/O.
//! `docs/protocols/spread.md` states the rules (S01 and on) that the code cites.
//!
//! | module | what |
//! |---|---|
//! | [`hello`] | versions, names, authentication, reject codes |
//! | [`kind`] | the bits of a message's type |
//! | [`header`] | the 48 bytes before every message, in either byte order |
//! | [`request`] | what clients say after that |
//! | [`told`] | what daemons say: messages, group views, signals, rejects |
//! | [`note`] | what travels with a message for receivers at doors like this one |
//! | [`session`] | [`Session`], a daemon's end of one connection |
//!
//! A Spread client is a client like any other: its groups are the daemon's groups, its messages stand in the same order,
//! and it is `#user#daemon` to everybody. What Spread knows and the order does not, a client's own 16 bits with each
//! message and the exact level it asked for, rides along as a [`Note`].

pub mod header;
pub mod hello;
mod input;
pub mod kind;
pub mod note;
pub mod request;
pub mod session;
pub mod slot;
#[cfg(test)]
mod tests;
pub mod told;

pub use hello::Reject;
pub use note::Note;
pub use session::{Ask, Session};

/// The port on which Spread's clients look for a daemon.
pub const PORT: u16 = 4803;
/// How many names one message may carry.
pub const GROUPS_MAX: usize = 100;
/// The most bytes that a message takes: its header, its names and its data. Spread's daemons carry no more.
pub const MESSAGE_MAX: usize = 143_200;

//= S21
/// Why a message cannot be told to Spread clients; `None` if it can. Whoever sends it is refused if such a client is
/// among those who would get it.
pub fn misfit(names: usize, longest_name: usize, data: usize) -> Option<String> {
    let taken = header::LEN + names * slot::LEN + data;
    if names > GROUPS_MAX {
        Some(format!("a message to {names} groups; Spread clients take {GROUPS_MAX}"))
    } else if longest_name > slot::MAX {
        Some(format!("a group's name of {longest_name} bytes; Spread clients take {}", slot::MAX))
    } else if taken > MESSAGE_MAX {
        Some(format!("a message of {taken} bytes with header and groups; Spread clients take {MESSAGE_MAX}"))
    } else {
        None
    }
}
