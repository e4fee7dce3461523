//! The very engine that daemons run, two or three of it, taken through *every* order of events within bounds: which of the
//! packets under way arrives next, which is lost, doubled or overtaken, which timer comes due, who crashes and comes back.
//! After each step all promises of Extended Virtual Synchrony are checked, and the engine's own assertions.
//!
//! Chance finds what is frequent; this finds what is rare but short. What it leaves out:
//!
//! - Time stands still. A timer may come due whenever nothing is under way, in any order among all nodes; while packets
//!   are under way only as often as [`Budget::hurries`] allows. Rules that measure time (M52, M53, M54) are the simulator's.
//! - Whoever misses a token has asked all that live, and was answered (M57): questions that get lost are the simulator's.
//! - Two worlds count as the same if all that decides what their nodes will do is the same, and all that they were told.
//! - Budgets end a path: so many losses, so many times that a token or a peer is missed.
//!
//! | module | what |
//! |---|---|
//! | [`world`] | nodes, what is under way between them, and what may happen next |
//! | [`mod@search`] | breadth first, each world once; the shortest way to a broken promise: of any world |
//! | [`start`] | where searches begin: forming, merging, recovering |
//! | [`suite`] | the searches that are run as a matter of course |
//! | [`fair`] | what becomes of a world if nothing goes wrong any more |
//! | [`program`] | what programs of searches share |

pub mod digest;
pub mod fair;
pub mod program;
pub mod search;
mod searched;
pub mod start;
pub mod suite;
pub mod world;

pub use search::{Found, Report, SearchWorld, search};
pub use searched::ViewSizes;
pub use start::Start;
pub use world::{Action, Budget, World};
