//! Process groups: who is in which group, changed only by what stands in the one order.
//!
//! A join *is* an ordered message, so every daemon's table changes at the same place in the stream and no daemon ever
//! asks another. This crate turns ordered payloads and views into *changes* and *recipients*; it cannot tell a token
//! ring from anything else that orders.
//!
//! Groups are open: whoever is not a member may send. A client that is in several of a message's groups gets it once.
//!
//! | module | what |
//! |---|---|
//! | [`targets`] | the list of group names that a multicast carries |
//! | [`ordered`] | the payloads that travel in the order |
//! | [`table`] | [`Groups`], the state machine |

mod member;
pub mod ordered;
mod recent;
pub mod table;
pub mod targets;
#[cfg(test)]
mod tests;

pub use member::{Cause, ClientName, GroupViewId, Member};
pub use table::{Change, Delivered, Groups, Ignored};
pub use targets::Targets;
