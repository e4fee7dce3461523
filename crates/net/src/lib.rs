//! The real driver of one node: clock, UDP multicast, client sockets, one event loop.
//!
//! [`Sockets::bind`] opens everything that can fail at start, with errors that say what to do; [`run`] then owns the
//! node until [`Stop`] is set. One thread does it all, so that a message crosses no lock and no thread between socket
//! and engine; only durable records are synced on a helper thread.
//!
//! One turn of the loop: packets (a bounded slice, each from the lane that the node wants to read first), timers,
//! clients (a bounded slice, round robin), then what clients are to read, once each. When a turn found nothing to do the
//! loop idles as [`IdleProfile`] says.
//!
//! | module | what |
//! |---|---|
//! | `bind`, `listeners`, `probe` | opening sockets; whether multicast works here |
//! | `membership` | the group of a network, joined again where its interface is made again |
//! | `inbox` | batches of datagrams into shared memory; two lanes, read in the order the node wants |
//! | `outbox` | datagrams out in the order the node emitted them, equal ones as super-packets |
//! | `links` | reliable links: a TCP connection to each other node, for engines that ask for them |
//! | `seals` | sealing what leaves, opening what comes, before anything else looks at it |
//! | `path_mtu` | which size of datagram reaches which node, and whether multicast does, found out by probes |
//! | `driver_packets`, `fragments` | what is for the driver and not for the node; joins what was too long for its way |
//! | `clients`, `rings`, `users` | connections, their bytes in and out, also through shared memory; who may have one |
//! | `driver`, `idle`, `wake` | the loop, and how it waits |
//! | `advisor` | what a registry outside of the order says, taken up by the loop |
//! | [`raw`] | the floor: what these sockets do without any protocol |
//! | `sys` | the kernel's calls that no safe crate offers, and the memory that receives; the only `unsafe` here |
//!
//! Linux only: it uses `recvmmsg`, `sendmmsg`, UDP GSO and GRO, and `timerfd`.
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![allow(clippy::disallowed_methods, reason = "a driver is where clocks, threads and waiting live")]

#[cfg(not(target_os = "linux"))]
compile_error!("consort-net needs Linux: recvmmsg, UDP GSO and GRO, timerfd");

mod advisor;
mod bind;
mod clients;
mod clock;
mod counters;
mod driver;
mod driver_packets;
mod error;
mod fragments;
mod idle;
mod inbox;
mod links;
mod listeners;
mod membership;
mod options;
mod outbox;
mod path_mtu;
mod probe;
pub mod raw;
mod reload;
mod rings;
mod seals;
mod settings;
mod sources;
mod spool;
mod stop;
mod sys;
mod users;
mod wake;

pub use advisor::Advisor;
pub use bind::{FanoutChoice, Sockets};
pub use consort_journal::{Keep, OpenError, Records, adopt};
pub use consort_node::{Advice, ClientPolicy};
pub use consort_tls::{ServerTls, TlsError};
pub use driver::run;
pub use error::{BindError, Interface, RunError, SocketRole};
pub use links::LINK_MESSAGE_MAX;
pub use options::{
    CLIENT_HOST_TIMEOUT, Dialect, Fanout, IdleProfile, ListenAddress, NetworkOptions, Options, Peer, RECEIVE_BUFFER,
    SHARED_MEMORY, Scheduling, Security, TlsListen,
};
pub use reload::Reload;
pub use stop::Stop;
pub use sys::interfaces;
