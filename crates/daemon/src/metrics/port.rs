//! The port, and what comes through it: plain, or by TLS, which a thread of its own takes off.
use consort_tls::{ServerTls, TlsListener};
use mio::net::{TcpListener, UnixStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;

/// How many connections there may be; the oldest makes room for another, by TLS once it has had two seconds to shake hands.
pub const CONNECTIONS: usize = 256;

/// Where it is asked.
pub enum MetricsPort {
    /// Whoever reaches it reads along.
    Plain(TcpListener),
    /// By TLS.
    Sealed(TlsListener),
}

impl MetricsPort {
    /// Binds it.
    ///
    /// # Errors
    /// Those of binding, and of beginning a thread for TLS.
    pub fn open(address: SocketAddr, tls: Option<&ServerTls>) -> io::Result<Self> {
        match tls {
            Some(tls) => TlsListener::open(&[address], tls, CONNECTIONS).map(Self::Sealed),
            None => TcpListener::bind(address).map(Self::Plain),
        }
    }

    /// Where it is.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Plain(listener) => listener.local_addr().ok(),
            Self::Sealed(listener) => listener.addresses().first().copied(),
        }
    }

    /// Has a poll tell of those who come.
    ///
    /// # Errors
    /// What the operating system says about watching it.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Plain(listener) => registry.register(listener, token, Interest::READABLE),
            Self::Sealed(listener) => {
                let descriptor = listener.descriptor().as_raw_fd();
                registry.register(&mut SourceFd(&descriptor), token, Interest::READABLE)
            }
        }
    }

    /// The next who has come. A socket is a socket: those of TCP are read, written and shut in the same way.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] where nobody has, and what the operating system says.
    pub fn accept(&self) -> io::Result<UnixStream> {
        let stream = match self {
            Self::Plain(listener) => StdUnixStream::from(OwnedFd::from(listener.accept()?.0)),
            Self::Sealed(listener) => listener.next_arrival().ok_or(ErrorKind::WouldBlock)?.stream,
        };
        Ok(UnixStream::from_std(stream))
    }
}
