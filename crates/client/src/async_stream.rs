//! A connection of either kind, on tokio.
use crate::stream::ring;
use crate::tls::TlsProblem;
use crate::transport::{answered, check_there};
use crate::{Address, ConnectOptions, host_timeout};
use consort_shm::{MemoryOffer, RingReader, RingWriter};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

#[derive(Debug)]
pub(crate) enum AsyncStream {
    Unix(Arc<UnixStream>, AsyncTransport),
    Tcp(Arc<TcpStream>),
}

/// How bytes go where there is a Unix socket.
#[derive(Debug)]
pub(crate) enum AsyncTransport {
    Socket,
    /// The daemon has not said yet whether it takes the offer.
    Offered(MemoryOffer),
    Memory(SharedMemory),
}

#[derive(Debug)]
pub(crate) struct SharedMemory {
    writer: RingWriter,
    reader: RingReader,
    has_ended: bool,
    /// How often something was written since the daemon has read everything.
    stuck: u32,
}

impl AsyncStream {
    pub(crate) async fn connect(address: &Address, options: &ConnectOptions) -> io::Result<(Self, TlsProblem)> {
        let (host, port) = match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                return Ok((Self::Unix(Arc::new(stream), AsyncTransport::Socket), TlsProblem::default()));
            }
            Address::Tcp { host, port } => (host.as_str(), *port),
        };
        let stream = TcpStream::connect((host, port)).await?;
        // Frames are collected before they are written; waiting once more only costs time.
        stream.set_nodelay(true)?;
        host_timeout::give_up_after(&stream, options.host_timeout)?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &options.tls {
            let (stream, problem) = crate::tls::wrap_async(stream, tls, host, options).await?;
            return Ok((Self::Unix(Arc::new(stream), AsyncTransport::Socket), problem));
        }
        Ok((Self::Tcp(Arc::new(stream)), TlsProblem::default()))
    }

    /// Writes a hello, the first bytes of all, and with it the offer if there is one.
    pub(crate) async fn introduce(&mut self, hello: &[u8], offer: Option<MemoryOffer>) -> io::Result<()> {
        if let (Self::Unix(stream, transport), Some(offer)) = (&mut *self, offer)
            && consort_shm::send(stream.as_fd(), hello, offer.file()).is_ok()
        {
            *transport = AsyncTransport::Offered(offer);
            return Ok(());
        }
        self.write_all(hello).await
    }

    /// Has the socket kept when this is dropped, in a child of `fork()`: the runtime's list of sockets is the parent's too,
    /// and a socket that is taken out of it is taken out of the parent's.
    pub(crate) fn leave_registered(&self) {
        match self {
            Self::Unix(stream, _) => std::mem::forget(Arc::clone(stream)),
            Self::Tcp(stream) => std::mem::forget(Arc::clone(stream)),
        }
    }

    /// The connection's descriptor.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream, _) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }

    /// Waits until something can be read, or also until something can be written.
    pub(crate) async fn ready(&mut self, writes: bool) -> io::Result<()> {
        poll_fn(|cx| self.poll_ready(cx, writes)).await
    }

    /// The same for whoever polls. The latest one is woken.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>, writes: bool) -> Poll<io::Result<()>> {
        let polled = match self {
            Self::Unix(stream, AsyncTransport::Memory(memory)) => return memory.poll_ready(cx, stream, writes),
            Self::Unix(stream, _) => stream.poll_read_ready(cx),
            Self::Tcp(stream) => stream.poll_read_ready(cx),
        };
        match (polled, self) {
            (Poll::Pending, Self::Unix(stream, _)) if writes => stream.poll_write_ready(cx),
            (Poll::Pending, Self::Tcp(stream)) if writes => stream.poll_write_ready(cx),
            (polled, _) => polled,
        }
    }

    /// Reads what there is; `None` if there is nothing.
    pub(crate) fn try_read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Unix(stream, AsyncTransport::Memory(memory)) => memory.read(stream, into),
            Self::Unix(stream, AsyncTransport::Socket) => unless_it_blocks(stream.try_read(into)),
            Self::Unix(stream, transport) => read_first(stream, transport, into),
            Self::Tcp(stream) => unless_it_blocks(stream.try_read(into)),
        }
    }

    /// Writes some of `bytes`; `None` if nothing can be written now.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Unix(stream, AsyncTransport::Memory(memory)) => {
                memory.write(stream, &[IoSlice::new(bytes)]).map(|n| Some(n).filter(|n| *n > 0))
            }
            Self::Unix(stream, _) => unless_it_blocks(stream.try_write(bytes)),
            Self::Tcp(stream) => unless_it_blocks(stream.try_write(bytes)),
        }
    }

    /// Writes to the memory that the daemon shares what there is room for; to a socket nothing.
    pub(crate) fn write_now(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream, AsyncTransport::Memory(memory)) => memory.write(stream, pieces),
            _ => Ok(0),
        }
    }

    async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.ready(true).await?;
            bytes = &bytes[self.try_write(bytes)?.unwrap_or(0)..];
        }
        Ok(())
    }
}

/// Reads the daemon's first bytes, which answer the offer.
fn read_first(stream: &UnixStream, transport: &mut AsyncTransport, into: &mut [u8]) -> io::Result<Option<usize>> {
    let read = stream.try_io(Interest::READABLE, || consort_shm::receive(stream.as_fd(), into));
    let Some((n, file)) = unless_it_blocks(read)? else { return Ok(None) };
    let AsyncTransport::Offered(offer) = std::mem::replace(transport, AsyncTransport::Socket) else {
        return Ok(Some(n));
    };
    let Some((writer, reader)) = answered(offer, &into[..n], file)? else { return Ok(Some(n)) };
    *transport = AsyncTransport::Memory(SharedMemory { writer, reader, has_ended: false, stuck: 0 });
    Ok(None)
}

impl SharedMemory {
    /// Waits for the bell, unless there is something already.
    fn poll_ready(&mut self, cx: &mut Context<'_>, stream: &UnixStream, writes: bool) -> Poll<io::Result<()>> {
        // A socket that always has something would let other tasks run, too.
        let coop = ready!(tokio::task::coop::poll_proceed(cx));
        while !self.has_ended && self.reader.begin_sleep()? && (!writes || self.writer.begin_sleep()?) {
            ready!(stream.poll_read_ready(cx))?;
            self.hear(stream);
        }
        self.reader.end_sleep();
        self.writer.end_sleep();
        coop.made_progress();
        Poll::Ready(Ok(()))
    }

    fn hear(&mut self, stream: &UnixStream) {
        self.reader.end_sleep();
        self.writer.end_sleep();
        match unless_it_blocks(stream.try_read(&mut [0; 64])) {
            Ok(Some(0)) | Err(_) => self.has_ended = true,
            Ok(_) => {}
        }
    }

    fn read(&mut self, stream: &UnixStream, into: &mut [u8]) -> io::Result<Option<usize>> {
        // What the daemon wrote before its end stands before it.
        let has_ended = self.has_ended;
        let n = self.reader.read(into)?;
        if self.reader.wakes_writer() {
            ring(stream.as_fd());
        }
        Ok(Some(n).filter(|n| *n > 0 || has_ended))
    }

    fn write(&mut self, stream: &UnixStream, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        check_there(&self.writer, &mut self.stuck, || !self.has_ended)?;
        let n = self.writer.write(pieces)?;
        if self.writer.wakes_reader() {
            ring(stream.as_fd());
        }
        Ok(n)
    }
}

fn unless_it_blocks<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        done => done.map(Some),
    }
}
