//! The sockets of links, and what the kernel is told of them.
use crate::error::{BindError, SocketRole, refused};
use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

/// After what time without an answer the kernel gives a connection up. Bytes that are sent are acknowledged by the other
/// kernel, however busy its processes are.
const USER_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for a connection on which nothing is sent.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(1)).with_interval(Duration::from_secs(1)).with_retries(2);
/// How many may wait to be accepted.
const BACKLOG: i32 = 128;

/// Listens where other nodes dial.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, BindError> {
    let open = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from_std(socket.into()))
    };
    open().map_err(|error: io::Error| refused(SocketRole::Links, address, error))
}

/// Begins to connect, from the address at which the other end expects this node.
pub(super) fn connect(own: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if !own.ip().is_unspecified() && own.is_ipv4() == to.is_ipv4() {
        socket.bind(&SocketAddr::new(own.ip(), 0).into())?;
    }
    set(&SockRef::from(&socket))?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}

/// Prepares a connection that was accepted.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    set(&SockRef::from(&stream.as_fd()))
}

fn set(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    socket.set_tcp_keepalive(&KEEPALIVE)
}
