//! A connection, of either kind.
use crate::tls::{self, TlsProblem};
use crate::{Address, ConnectOptions, host_timeout};
use consort_shm::{MemoryFile, MemoryOffer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// A daemon that reads as fast as it is written to keeps one call of the kernel busy for as long as there are bytes.
const WRITTEN_AT_ONCE: usize = 1 << 20;

/// The shortest time that connecting can be told to take.
const SHORTEST: Duration = Duration::from_micros(1);

/// A connection, of either kind, to be shared by two threads: one reads, one writes.
#[derive(Debug)]
pub(crate) struct DaemonStream(OwnedFd);

impl DaemonStream {
    pub(crate) fn connect(address: &Address, options: &ConnectOptions) -> io::Result<(Self, TlsProblem)> {
        let socket = address.dial(options.connect_within)?;
        if matches!(address, Address::Tcp { .. }) {
            host_timeout::give_up_after(&socket, options.host_timeout)?;
        }
        let (socket, problem) = tls::wrap(socket, address, options)?;
        Ok((Self(socket), problem))
    }

    /// Writes a hello, the first bytes of all, and with it the offer if there is one.
    pub(crate) fn introduce(&mut self, hello: &[u8], offer: Option<&MemoryOffer>, within: Duration) -> io::Result<()> {
        // A hello is smaller than any socket's buffer.
        if offer.is_some_and(|offer| consort_shm::send(self.0.as_fd(), hello, offer.file()).is_ok()) {
            return Ok(());
        }
        self.write(hello, Some(within)).map(drop)
    }

    /// The same connection for another thread.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Reads what there is; `None` if nothing came in time. With no time at all it only looks.
    pub(crate) fn read(&mut self, into: &mut [u8], within: Option<Duration>) -> io::Result<Option<usize>> {
        let mut read = || recv(&self.0, &mut *into, RecvFlags::DONTWAIT).map(|(read, _)| read);
        in_time(&self.0, PollFlags::IN, within, &mut read)
    }

    /// As [`Self::read`], with the memory that came along, if any did.
    pub(crate) fn read_first(
        &mut self,
        into: &mut [u8],
        within: Option<Duration>,
    ) -> io::Result<Option<(usize, Option<MemoryFile>)>> {
        let mut memory = None;
        let mut read = || {
            let (n, file) = consort_shm::receive(self.0.as_fd(), into)
                .map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
            memory = file;
            Ok(n)
        };
        Ok(in_time(&self.0, PollFlags::IN, within, &mut read)?.map(|n| (n, memory)))
    }

    /// Rings the bell of the other end.
    pub(crate) fn ring(&self) {
        ring(self.0.as_fd());
    }

    /// Waits for the bell. False at the end of the connection, and none if neither came in time.
    pub(crate) fn hear(&self, within: Option<Duration>) -> io::Result<Option<bool>> {
        let mut bells = [0; 64];
        let flags = if within.is_some() { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        let mut hear = || match recv(&self.0, &mut bells[..], flags) {
            // It died before it read our last bell.
            Err(Errno::CONNRESET) => Ok(0),
            other => other.map(|(n, _)| n),
        };
        Ok(in_time(&self.0, PollFlags::IN, within, &mut hear)?.map(|n| n > 0))
    }

    /// The connection's descriptor, to wait at.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Whether the other end is there still, as far as it is known.
    pub(crate) fn is_open(&self) -> bool {
        let mut watched = [PollFd::new(&self.0, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !matches!(poll(&mut watched, Some(&now)), Ok(n) if n > 0)
    }

    /// Writes some of `bytes`; `None` if nothing could be written in time.
    pub(crate) fn write(&mut self, bytes: &[u8], within: Option<Duration>) -> io::Result<Option<usize>> {
        let bytes = &bytes[..bytes.len().min(WRITTEN_AT_ONCE)];
        let mut write = || send(&self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        in_time(&self.0, PollFlags::OUT, within, &mut write)
    }

    /// Waits until something can be read or written. False if neither came in time.
    pub(crate) fn await_either(&self, within: Option<Duration>) -> io::Result<bool> {
        await_ready(&self.0, PollFlags::IN | PollFlags::OUT, within)
    }
}

/// Rings the bell of the other end. Where the socket takes no more, bells enough wait for it.
pub(crate) fn ring(socket: BorrowedFd<'_>) {
    let _ = send(socket, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

impl Address {
    /// A connection to it, for those who speak the daemon's protocol themselves.
    ///
    /// # Errors
    /// What the operating system says; [`TimedOut`](io::ErrorKind::TimedOut) where it was not let in in time.
    pub fn dial(&self, within: Duration) -> io::Result<OwnedFd> {
        match self {
            Self::Unix(path) => connect_unix(path, within),
            Self::Tcp { host, port } => connect_tcp(host, *port, within),
        }
    }
}

/// While too many wait to be let in the kernel makes the next one wait as long as it may for room to send.
fn connect_unix(path: &Path, within: Duration) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(within.max(SHORTEST)))?;
    let address = SocketAddrUnix::new(path)?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "too many wait to be let in, and nobody was in time",
                ));
            }
            Err(error) => return Err(error.into()),
        }
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket)
}

fn connect_tcp(host: &str, port: u16, within: Duration) -> io::Result<OwnedFd> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, within.max(SHORTEST)) {
            Ok(stream) => {
                // Frames are collected before they are written; waiting once more only costs time.
                stream.set_nodelay(true)?;
                return Ok(stream.into());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// When the time is over; never, if that is further away than can be told.
pub(crate) fn until(within: Option<Duration>) -> Option<Instant> {
    within.and_then(|within| Instant::now().checked_add(within))
}

/// How much time is left; `None` without a deadline.
pub(crate) fn time_left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}

/// Whether a time that was left is over; without a deadline it never is.
pub(crate) fn is_over(left: Option<Duration>) -> bool {
    left.is_some_and(|left| left.is_zero())
}

/// Calls until something is done; waits in between, for no longer than it may. The socket's own timeouts would do, but
/// they are counted in ticks of the kernel: looking whether there is something would take milliseconds.
fn in_time(
    socket: &OwnedFd,
    ready: PollFlags,
    within: Option<Duration>,
    call: &mut dyn FnMut() -> rustix::io::Result<usize>,
) -> io::Result<Option<usize>> {
    let deadline = until(within);
    loop {
        match call() {
            Ok(n) => return Ok(Some(n)),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let left = time_left(deadline);
                if is_over(left) {
                    return Ok(None);
                }
                await_ready(socket, ready, left)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits once; false if the time was over.
fn await_ready(socket: &OwnedFd, ready: PollFlags, within: Option<Duration>) -> io::Result<bool> {
    // A longer time than can be told is as good as none.
    let within = within.and_then(|within| Timespec::try_from(within).ok());
    let in_time = match poll(&mut [PollFd::new(socket, ready)], within.as_ref()) {
        Ok(n) => n > 0,
        Err(Errno::INTR) => true,
        Err(error) => return Err(error.into()),
    };
    #[cfg(test)]
    vain::note(in_time);
    Ok(in_time)
}

/// Waits of this thread that only the clock ended.
#[cfg(test)]
pub(crate) mod vain {
    use std::cell::Cell;

    thread_local!(static WAITS: Cell<u32> = const { Cell::new(0) });

    pub(super) fn note(in_time: bool) {
        WAITS.set(WAITS.get() + u32::from(!in_time));
    }

    pub(crate) fn waits() -> u32 {
        WAITS.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn pair() -> (DaemonStream, DaemonStream) {
        let (here, there) = UnixStream::pair().unwrap();
        (DaemonStream(here.into()), DaemonStream(there.into()))
    }

    #[test]
    fn what_is_there_is_read_without_waiting_and_nothing_is_nothing() {
        let (mut here, mut there) = pair();
        let mut bytes = [0; 8];
        assert_eq!(here.read(&mut bytes, Some(Duration::ZERO)).unwrap(), None);
        assert_eq!(here.read(&mut bytes, Some(Duration::from_micros(10))).unwrap(), None);
        assert_eq!(there.write(b"word", None).unwrap(), Some(4));
        assert_eq!(here.read(&mut bytes, Some(Duration::ZERO)).unwrap(), Some(4));
        there.write(b"more", Some(Duration::MAX)).unwrap();
        assert_eq!(here.read(&mut bytes, Some(Duration::MAX)).unwrap(), Some(4));
        drop(there);
        assert_eq!(here.read(&mut bytes, None).unwrap(), Some(0));
    }

    #[test]
    fn a_full_connection_takes_nothing_until_it_is_read() {
        let (mut here, mut there) = pair();
        while here.write(&[7; 4096], Some(Duration::ZERO)).unwrap().is_some() {}
        assert_eq!(here.write(b"x", Some(Duration::from_micros(10))).unwrap(), None);
        let reads = std::thread::spawn(move || {
            let mut bytes = vec![0; 1 << 20];
            there.read(&mut bytes, None).unwrap();
            there
        });
        assert_eq!(here.write(b"x", None).unwrap(), Some(1));
        drop(reads.join().unwrap());
        assert_eq!(here.write(b"x", None).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
