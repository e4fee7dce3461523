//! A connection of either kind, on tokio.
use crate::Address;
use std::io;
use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};

#[derive(Debug)]
pub(crate) enum AsyncStream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl AsyncStream {
    pub(crate) async fn connect(address: &Address) -> io::Result<Self> {
        Ok(match address {
            Address::Unix(path) => Self::Unix(UnixStream::connect(path).await?),
            Address::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                // Frames are collected before they are written; waiting once more only costs time.
                stream.set_nodelay(true)?;
                Self::Tcp(stream)
            }
        })
    }

    /// Waits until something can be read, or also until something can be written.
    pub(crate) async fn ready(&self, writes: bool) -> io::Result<Ready> {
        let interest = if writes { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        match self {
            Self::Unix(stream) => stream.ready(interest).await,
            Self::Tcp(stream) => stream.ready(interest).await,
        }
    }

    /// Reads what there is; `None` if there is nothing.
    pub(crate) fn try_read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        unless_it_blocks(match self {
            Self::Unix(stream) => stream.try_read(into),
            Self::Tcp(stream) => stream.try_read(into),
        })
    }

    /// Writes some of `bytes`; `None` if nothing can be written now.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        unless_it_blocks(match self {
            Self::Unix(stream) => stream.try_write(bytes),
            Self::Tcp(stream) => stream.try_write(bytes),
        })
    }

    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.ready(true).await?;
            bytes = &bytes[self.try_write(bytes)?.unwrap_or(0)..];
        }
        Ok(())
    }
}

fn unless_it_blocks(done: io::Result<usize>) -> io::Result<Option<usize>> {
    match done {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        done => done.map(Some),
    }
}
