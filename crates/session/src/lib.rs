//! The client protocol, both ends, without I/O: frames, requests, events, credit. `docs/session-protocol.md` describes
//! it to the byte.
//!
//! | module | what |
//! |---|---|
//! | [`frame`] | bytes cut into frames, without copying what came in one piece |
//! | [`request`] | what clients say |
//! | [`event`] | what daemons say |
//! | [`reading`] | reading by position |
//! | [`numbering`] | producers, whose sends are numbered across connections |
//! | [`listing`] | questions about groups and connections, and their answers, a page at a time |
//! | [`server`] | [`DaemonEnd`], a daemon's end of one connection |
//! | [`client`] | [`ClientEnd`], the other end, and its two halves for programs with two threads |
//!
//! *Numbered requests* are those that go into the order: joins, leaves and multicasts. Both ends count them from 1.
//! *Credit* is counted in bytes of whole frames: each numbered request takes its frame's length and gives it back when
//! it stands in the order or is refused, so what one client can have waiting is bounded and nothing of it is ever
//! dropped silently.
//!
//! *Optimistic* sessions are offered messages before their place is final, and told later which offers hold: [`Undo`].
//!
//! The crate knows the nouns of `consort-group`, because the protocol speaks of members, group views and targets.

pub mod client;
pub mod copies;
pub mod declaring;
pub mod event;
pub mod frame;
pub mod inquirer;
pub mod keys;
mod ledger;
mod limits;
pub mod listing;
pub mod numbering;
mod offers;
mod output;
mod pool;
mod progress;
pub mod reading;
mod reason;
pub mod request;
pub mod server;
mod slow;
#[cfg(test)]
mod tests;
mod text;
mod watch;

pub use client::ClientEnd;
pub use consort_group::OpenRequest;
pub use consort_group::ordered::MulticastLayout;
pub use consort_group::{
    Addressee, ChangeCause, ClientName, ClientNameError, GroupViewId, HistoryPlace, Member, Numbered, PrivateName,
    PrivateNameError, ProducerId, Target, Targets, ViewClosing, ViewPlace, ViewTrail,
};
pub use consort_wire::append;
pub use copies::{BindRefusal, Bound};
pub use declaring::{DeclareRefusal, DeclareRequest, DeclareStatus};
pub use event::{
    BorrowedMessage, DaemonEvent, GroupSignal, GroupView, Message, NetworkView, Offer, Placement, Progress, WaitNotice,
    Welcome,
};
pub use inquirer::{Inquirer, Reply};
pub use keys::{RotationRefusal, RotationStatus};
pub use limits::Limits;
pub use listing::{ListQuery, Listing};
pub use numbering::{OpenRefusal, OpeningWait, ProducerStatus};
pub use offers::{PendingOffer, Undo};
pub use output::{FrameQueue, OUTPUT_PIECES, SHARED};
pub use pool::Pool;
pub use progress::{ReachedPlace, ReadingProgress};
pub use reading::{Place, PlaceError, ReadRequest, ReadingEnd, ReadingStatus};
pub use reason::{
    BindRefusalCause, DeclareRefusalCause, Disconnect, DisconnectReason, OpenRefusalCause, ReadingEndCause, Refusal,
    RefusalCause, RotationRefusalCause,
};
pub use request::{Hello, TOKEN_MAX};
pub use server::{Ask, DaemonEnd};
pub use slow::{SlowLimits, SlowPolicies, SlowPolicy, SlowRequest, SlowRule};
pub use watch::Waits;

/// The first four bytes of every hello.
pub const MAGIC: u32 = 0xc04e_c11e;
/// The version of the client protocol.
pub const VERSION: u16 = 2;
