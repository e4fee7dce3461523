//! The kernel's calls that no safe crate offers. All `unsafe` of this crate stands here; every function is safe to
//! call.
#![allow(unsafe_code)]

mod arena;
mod interfaces;
mod options;
mod receive;
mod scheduling;
mod send;
mod snmp;
mod timer;

pub(crate) use arena::Arena;
pub(crate) use interfaces::mtu;
pub use interfaces::{Interface, interfaces};
pub(crate) use options::{
    PeerProcess, coalesce, count_overflow, force_buffer, own_user, peer_process, stamp_arrivals, unanswered_for,
};
pub(crate) use receive::{ReceivedBuffer, Receiving};
pub(crate) use scheduling::run_in_real_time;
pub(crate) use send::{SegmentedBatch, Sending};
pub(crate) use snmp::udp_overflows;
pub(crate) use timer::TimerFd;

use bytes::BytesMut;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What the kernel answers: -1 stands for the thread's last error.
fn checked(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// Makes the first `size` bytes of a reclaimed chunk accessible again.
fn all_of(mut chunk: BytesMut, size: usize) -> BytesMut {
    assert!(chunk.is_empty() && chunk.capacity() >= size, "a chunk is reclaimed whole");
    // SAFETY: the capacity was checked, and a chunk's bytes were all initialised when it was made
    // (`BytesMut::zeroed`); reclaiming moves the window over them, it does not make new ones.
    unsafe { chunk.set_len(size) };
    chunk
}

/// Waits until the socket takes more, or for that many milliseconds; returns whether it does.
pub(crate) fn wait_writable(socket: BorrowedFd<'_>, milliseconds: i32) -> io::Result<bool> {
    wait(socket, libc::POLLOUT, milliseconds)
}

/// Waits until the socket has something, or for that many milliseconds; returns whether it has.
pub(crate) fn wait_readable(socket: BorrowedFd<'_>, milliseconds: i32) -> io::Result<bool> {
    wait(socket, libc::POLLIN, milliseconds)
}

fn wait(socket: BorrowedFd<'_>, events: i16, milliseconds: i32) -> io::Result<bool> {
    let mut wanted = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    // SAFETY: `wanted` is one valid pollfd for the time of the call.
    checked(unsafe { libc::poll(&raw mut wanted, 1, milliseconds) }).map(|n| n > 0)
}
