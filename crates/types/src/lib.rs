//! The nouns every layer shares. Imports nothing, reads no clock, draws no unseeded chance.
//!
//! Words are the field's own; `docs/glossary.md` spells them out.

mod copies;
mod holder;
mod id;
mod mutant;
mod name;
mod order_wait;
mod rng;
mod service;
mod time;
mod view;

pub use copies::{Binding, Copies, Seat};
pub use holder::{Holder, HolderError};
pub use id::{
    ClientId, ClusterId, ConfigHash, Incarnation, MemberId, MessageId, NodeId, OfferId, OrderStream, Position, Seq,
    Ticket,
};
pub use name::{GroupName, NameError};
pub use order_wait::OrderWait;
pub use rng::Rng;
pub use service::{Class, Service};
pub use time::Instant;
pub use view::{Primary, View, ViewCause, ViewId, ViewKind};

pub use std::time::Duration;
