//! The library programs use to talk to a Consort daemon.
//!
//! ```no_run
//! use consort::{Address, Client, ConnectOptions, Event, GroupName, Service};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let address: Address = "127.0.0.1:4840".parse()?;
//! let mut client = Client::connect(&address, &ConnectOptions::default())?;
//! let orders = GroupName::new("orders")?;
//! client.join(&orders)?;
//! client.multicast(Service::Agreed, &[orders], b"hello")?;
//! while let Some(event) = client.receive(None)? {
//!     if let Event::Message(message) = event {
//!         println!("{:?}", message.payload());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Four chapters tell the rest: [concepts](docs::concepts), [sending](docs::sending), [receiving](docs::receiving) and
//! [failing](docs::failing).
//!
//! A [`Client`] serves one thread and ends with its daemon; [`Client::split`] makes a [`Sender`] and a [`Receiver`] for two
//! threads. A [`Session`] goes on at another daemon: each of its sends is ordered once, or it is told why not.
//!
//! | feature | what it adds |
//! |---|---|
//! | `tokio` | `AsyncClient` and `AsyncSession`: streams of events, sinks of `Draft`s, halves for several tasks |
//! | `serde` | messages that are values, in postcard's form: `Typed`, `Decode`, `Session::send_typed` |
//! | `tracing` | spans: connecting, and a session's way from daemon to daemon |
//! | `embedded` | a program that is a node itself: module `embedded` |

// This crate talks to the machine: its business is sockets, and waiting for them.
#![allow(clippy::disallowed_methods)]

mod address;
#[cfg(feature = "tokio")]
mod async_client;
#[cfg(feature = "tokio")]
mod async_halves;
#[cfg(feature = "tokio")]
mod async_stream;
#[cfg(feature = "tokio")]
mod async_timer;
mod chunks;
mod client;
pub mod docs;
#[cfg(feature = "tokio")]
mod draft;
#[cfg(feature = "embedded")]
pub mod embedded;
mod error;
mod event;
mod host_timeout;
mod inbox;
mod options;
mod origin;
mod outbox;
mod owner;
mod reading;
mod receiver;
mod sender;
mod session;
mod shared;
#[cfg(feature = "tokio")]
mod shared_poll;
mod silence;
mod status;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod trace;
mod transport;
#[cfg(feature = "serde")]
mod typed;
mod wait_cause;

pub use address::{Address, AddressError};
#[cfg(feature = "tokio")]
pub use async_client::AsyncClient;
#[cfg(feature = "tokio")]
pub use async_halves::{AsyncReceiver, AsyncSender};
pub use bytes::Bytes;
pub use client::Client;
pub use consort_session::{
    Addressee, BindRefusal, BindRefusalCause, BorrowedMessage, Bound, ChangeCause, ClientName, ClientNameError,
    DeclareRefusal, DeclareRefusalCause, DeclareStatus, Disconnect, DisconnectReason, GroupSignal, GroupView,
    GroupViewId, HistoryPlace, Member, Message, NetworkView, Offer, OpenRefusal, OpenRefusalCause, OpeningWait, Place,
    PlaceError, Placement, PrivateName, PrivateNameError, ProducerId, ProducerStatus, Progress, ReadingEnd,
    ReadingEndCause, ReadingStatus, Refusal, RefusalCause, RotationRefusal, RotationRefusalCause, RotationStatus,
    SlowPolicy, SlowRequest, Target, Undo, ViewClosing, ViewPlace, ViewTrail, Welcome,
};
#[cfg(feature = "tls")]
pub use consort_tls::{ClientTls, TlsError, TlsFileError};
pub use consort_types::{
    Binding, ClientId, Copies, GroupName, Holder, HolderError, MemberId, NameError, NodeId, Position, Primary, Seat,
    Service, ViewId, ViewKind,
};
#[cfg(feature = "tokio")]
pub use draft::Draft;
pub use error::{Error, OptionError};
pub use event::{Event, Shown};
pub use options::ConnectOptions;
pub use origin::Origin;
pub use owner::{check_peer, owner_of};
pub use reading::{Bookmark, ReadFrom};
pub use receiver::Receiver;
pub use sender::Sender;
#[cfg(feature = "tokio")]
pub use session::{AsyncSession, AsyncSessionReceiver, AsyncSessionSender};
pub use session::{Fate, Session, SessionEvent, SessionOptions};
pub use status::Status;
#[cfg(feature = "serde")]
pub use typed::{Decode, Typed, TypedError};
pub use wait_cause::WaitCause;
