//! A connection, of either kind.
use crate::Address;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The shortest time a socket can be told to wait.
const SHORTEST: Duration = Duration::from_micros(1);

#[derive(Debug)]
enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// A blocking connection that remembers how long it was told to wait.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: Socket,
    read_within: Option<Duration>,
    write_within: Option<Duration>,
}

impl Stream {
    pub(crate) fn connect(address: &Address, within: Duration) -> io::Result<Self> {
        let socket = match address {
            Address::Unix(path) => Socket::Unix(UnixStream::connect(path)?),
            Address::Tcp { host, port } => Socket::Tcp(connect_tcp(host, *port, within)?),
        };
        Ok(Self { socket, read_within: None, write_within: None })
    }

    /// The same connection for another thread.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let socket = match &self.socket {
            Socket::Unix(socket) => Socket::Unix(socket.try_clone()?),
            Socket::Tcp(socket) => Socket::Tcp(socket.try_clone()?),
        };
        Ok(Self { socket, read_within: self.read_within, write_within: self.write_within })
    }

    /// Reads what there is; `None` if nothing came in time. Times are rounded up to the kernel's tick.
    pub(crate) fn read(&mut self, into: &mut [u8], within: Option<Duration>) -> io::Result<Option<usize>> {
        let within = within.map(|within| within.max(SHORTEST));
        if within != self.read_within {
            match &self.socket {
                Socket::Unix(socket) => socket.set_read_timeout(within)?,
                Socket::Tcp(socket) => socket.set_read_timeout(within)?,
            }
            self.read_within = within;
        }
        in_time(|| match &mut self.socket {
            Socket::Unix(socket) => socket.read(into),
            Socket::Tcp(socket) => socket.read(into),
        })
    }

    /// Writes some of `bytes`; `None` if nothing could be written in time.
    pub(crate) fn write(&mut self, bytes: &[u8], within: Option<Duration>) -> io::Result<Option<usize>> {
        let within = within.map(|within| within.max(SHORTEST));
        if within != self.write_within {
            match &self.socket {
                Socket::Unix(socket) => socket.set_write_timeout(within)?,
                Socket::Tcp(socket) => socket.set_write_timeout(within)?,
            }
            self.write_within = within;
        }
        in_time(|| match &mut self.socket {
            Socket::Unix(socket) => socket.write(bytes),
            Socket::Tcp(socket) => socket.write(bytes),
        })
    }
}

fn connect_tcp(host: &str, port: u16, within: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, within.max(SHORTEST)) {
            Ok(stream) => {
                // Frames are collected before they are written; waiting once more only costs time.
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn in_time(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match call() {
            Ok(n) => return Ok(Some(n)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
}
