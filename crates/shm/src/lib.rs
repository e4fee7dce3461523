//! Two rings of bytes in shared memory, for two processes that trust each other with nothing but reading.
//!
//! Each end makes an [`MemoryOffer`]: an *area* of its own in a memory file, which it alone can write and nobody can resize, and
//! gives it to the other end through their Unix socket. With the other's area it becomes a [`RingWriter`] and a [`RingReader`]:
//! each end writes bytes and its own counters into its own area, and reads the other's.
//!
//! The socket stays: its end is the connection's end, and one byte on it is the *bell* that wakes a sleeper. Whoever has
//! written or read asks [`RingWriter::wakes_reader`] or [`RingReader::wakes_writer`] whether somebody sleeps; a bell is rung at most
//! once for each sleep.
//!
//! | bytes of an area | what |
//! |---|---|
//! | 0-7 | magic |
//! | 64-67 | how many bytes its owner has written into it, modulo 2^32 |
//! | 128-131 | how many bytes its owner has read of the other area, likewise |
//! | 192-195 | whether the owner sleeps for want of bytes, and how often it did |
//! | 256-259 | the same for want of room |
//! | 4096- | the ring: as many bytes as the file has from here on, a power of two |
//!
//! Counters are in the machine's own byte order. A word about sleep has in its lowest two bits 0 awake, 1 to be woken by
//! the bell, 2 by a futex at the other end's count of what it has read; above them, a number that is new for each sleep.
//!
//! # Trust
//!
//! The other end may be hostile: it may write anything into its area at any time. So every counter of it is read once and
//! checked ([`Broken`] if it cannot be true), and bytes are copied out before anybody looks at them. One exception:
//! [`RingReader::view`] shows bytes where they lie, but only those of a process that runs as our own user or as root
//! ([`receive`] asks the kernel), and so could write all our memory whatever we do. Its file is taken
//! only if it can neither shrink nor change hands to another writer ([`MemoryOffer::accept`]).
//!
//! # Model
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p consort-shm --lib --release` takes two threads through every order that memory may
//! show them, within bounds. `ring` and `area` are the modules that ship; loom's atomics and a map of its own lie below.
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![cfg_attr(loom, allow(dead_code))] // the tests are the model's only users

mod area;
mod counter;
mod ring;

#[cfg(loom)]
mod model;
#[cfg(loom)]
use model::{map, sync};

#[cfg(not(loom))]
mod map;
#[cfg(not(loom))]
mod offer;
#[cfg(not(loom))]
mod pass;
#[cfg(not(loom))]
mod process;
#[cfg(not(loom))]
use std::sync::atomic as sync;

#[cfg(not(loom))]
pub use map::memory_of;
#[cfg(not(loom))]
pub use offer::{InvalidMemory, MemoryOffer, RING_MAX, RING_MIN};
#[cfg(not(loom))]
pub use pass::{MemoryFile, receive, send};
#[cfg(not(loom))]
pub use process::Process;
pub use ring::{Broken, RingReader, RingWriter};
