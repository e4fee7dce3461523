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
//! Joins, leaves and multicasts are *sends*: they are numbered from 1 and go into the one order. Multicasts are collected
//! in a buffer that is written when it holds 64 KiB, with a payload of 16 KiB or more where the daemon shares memory, at
//! [`Client::flush`], with the next join or leave, and whenever this library waits for anything; with
//! [`ConnectOptions::unbatched`] each is written at once, as joins and leaves always are.
//! A send waits while too many bytes are under way (the daemon's credit), or says so: [`Client::try_multicast`].
//!
//! How long a send may wait is said once for all, [`ConnectOptions::send_within`], or for one:
//! [`Client::multicast_within`]. [`Error::WouldBlock`] and [`Error::TimedOut`] name the [`WaitCause`].
//!
//! A client connected with [`ConnectOptions::optimistic`] does not wait for the order: it is offered messages as soon as
//! their place is likely, and told later which offers hold and which are revoked.
//!
//! Where the daemons keep an order that lasts (`protocol = "paxos"`), [`Client::read`] tells what groups were sent from a
//! position on, and then what comes, without joining them. A [`Bookmark`] says where to read on, at any daemon.
//!
//! If the daemon dies, [`Error::ConnectionLost`] says which sends are of unknown fate.
//!
//! A [`Client`] serves one thread. [`Client::split`] makes a [`Sender`] and a [`Receiver`] for two; the receiver must be
//! read, because that is where the news of free credit comes in.
//!
//! A daemon on this machine, reached at its Unix socket, is offered to exchange bytes through shared memory, which costs less
//! than the socket; it may decline. [`ConnectOptions::without_shared_memory`] offers nothing.
//!
//! Large messages need not be copied out of that memory: [`Client::receive_borrowed`] shows them where they lie.
//!
//! With the feature `tokio` there is an `AsyncClient`, which does the same for one task of a tokio runtime. With the
//! feature `embedded` a program is a node itself: module `embedded`.

// This crate talks to the machine: its business is sockets, and waiting for them.
#![allow(clippy::disallowed_methods)]

mod address;
#[cfg(feature = "tokio")]
mod async_client;
#[cfg(feature = "tokio")]
mod async_stream;
mod chunks;
mod client;
#[cfg(feature = "embedded")]
pub mod embedded;
mod error;
mod event;
mod host_timeout;
mod inbox;
mod options;
mod outbox;
mod reading;
mod receiver;
mod sender;
mod shared;
mod status;
mod stream;
#[cfg(test)]
mod tests;
mod transport;
mod wait_cause;

pub use address::{Address, AddressError};
#[cfg(feature = "tokio")]
pub use async_client::AsyncClient;
pub use bytes::Bytes;
pub use client::Client;
pub use consort_session::{
    Addressee, BorrowedMessage, ChangeCause, ClientName, Disconnect, DisconnectReason, GroupSignal, GroupView,
    GroupViewId, Member, Message, NetworkView, Offer, Place, PlaceError, Placement, PrivateName, Progress, ReadingEnd,
    ReadingEndCause, ReadingStatus, Refusal, RefusalCause, Target, Undo, Welcome,
};
pub use consort_types::{ClientId, GroupName, MemberId, NameError, NodeId, Primary, Service, ViewId, ViewKind};
pub use error::{ClientNameError, Error};
pub use event::{Event, Shown};
pub use options::ConnectOptions;
pub use reading::{Bookmark, ReadFrom};
pub use receiver::Receiver;
pub use sender::Sender;
pub use status::Status;
pub use wait_cause::WaitCause;
