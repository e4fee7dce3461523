//! Socket options.
use super::checked;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

fn set(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is a c_int that lives through the call, and its length is told.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len) }).map(drop)
}

/// Asks for a receive buffer (or a send buffer) of that many bytes, above the system's limit where we may.
pub(crate) fn force_buffer(socket: BorrowedFd<'_>, bytes: usize, receive: bool) -> io::Result<()> {
    let (forced, usual) =
        if receive { (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF) } else { (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF) };
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX / 2).min(i32::MAX / 2);
    set(socket, libc::SOL_SOCKET, forced, bytes).or_else(|_| set(socket, libc::SOL_SOCKET, usual, bytes))
}

/// Lets the kernel hand over several equal datagrams of one sender in one buffer (GRO).
pub(crate) fn coalesce(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, 1)
}

/// For how long the other end of a TCP connection has not answered what it was sent: bytes, or the question whether it is
/// there. `None` where nothing waits for an answer.
pub(crate) fn unanswered_for(socket: BorrowedFd<'_>) -> io::Result<Option<Duration>> {
    // SAFETY: `tcp_info` is plain integers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    let fd = socket.as_raw_fd();
    // SAFETY: `info` has room for the `len` bytes that the kernel may write; both live through the call.
    let told = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut len) };
    checked(told)?;
    let waits = info.tcpi_retransmits > 0 || info.tcpi_probes > 0;
    Ok(waits.then(|| Duration::from_millis(u64::from(info.tcpi_last_ack_recv))))
}

/// Asks to be told how many datagrams were dropped for want of room.
pub(crate) fn count_overflow(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1)
}

/// Asks for the time of arrival of each datagram.
pub(crate) fn stamp_arrivals(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
}

/// The user as whom this process runs.
pub(crate) fn own_user() -> u32 {
    // SAFETY: the call has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

/// Who is at the other end of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerProcess {
    pub(crate) process: i32,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// Reads the other end's credentials as they were when it connected.
pub(crate) fn peer_process(socket: BorrowedFd<'_>) -> io::Result<PeerProcess> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let fd = socket.as_raw_fd();
    // SAFETY: `peer` has room for the `len` bytes that the kernel may write; both live through the call.
    let answer =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &raw mut len) };
    checked(answer)?;
    Ok(PeerProcess { process: peer.pid, user: peer.uid, group: peer.gid })
}
