//! The states of a ring. Each file holds data that exists only in its state, what the state does on each input, and why
//! it leaves.

mod forming;
mod idle;
mod operational;
mod visit;

pub(crate) use forming::Forming;
pub(crate) use operational::Operational;
