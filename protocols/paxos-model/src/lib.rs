//! The very engine that daemons run, three acceptors of it, taken through *every* order of events within bounds: which of the
//! packets under way arrives next, which is lost or overtaken, when a disk has written, who stands, crashes, forgets and
//! comes back. After each step one value for an instance, a quorum of disks before a decision, and promises that outlast a
//! restart are checked, and the engine's own assertions.
//!
//! Chance finds what is frequent; this finds what is rare but short. What it leaves out:
//!
//! - Time stands still: whoever may stand does so at any time, whatever lease there is. Safety needs no lease.
//! - No beats, no ring and no payloads: packets go directly, and what is proposed means nothing.
//! - Two worlds count as the same if all that decides what their nodes will do is the same.
//!
//! `consort_ring_model` searches: breadth first, each world once.
//!
//! | module | what |
//! |---|---|
//! | [`world`] | nodes, their disks, what is under way, and what may happen next |
//! | [`judge`] | what must hold in each world |
//! | [`fair`] | what becomes of a world if nothing goes wrong any more |
//! | [`suite`] | the searches that are run as a matter of course |

pub mod fair;
pub mod judge;
mod searched;
pub mod suite;
pub mod world;

pub use searched::Contested;
pub use world::{Action, Budget, World};

/// How many nodes there are; all are acceptors.
pub const NODES: usize = 3;
