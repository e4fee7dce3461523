//! TLS with a daemon at a TCP address.
use crate::{Address, ConnectOptions, Error};
use std::error::Error as StdError;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::os::fd::OwnedFd;

/// Why no TLS came about over a connection; with the question that helps.
#[derive(Debug)]
pub(crate) struct NoTls(String);

impl Display for NoTls {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for NoTls {}

impl NoTls {
    /// Whether this is why there is no connection.
    pub(crate) fn is_why(source: &io::Error) -> bool {
        source.get_ref().is_some_and(<dyn StdError + Send + Sync>::is::<Self>)
    }

    #[cfg(feature = "tls")]
    fn because(error: &io::Error) -> io::Error {
        let question = if consort_tls::is_no_tls(error) { "; is TLS spoken there?" } else { "" };
        io::Error::new(error.kind(), Self(format!("{error}{question}")))
    }
}

/// Why TLS broke a connection, once it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsProblem(#[cfg(feature = "tls")] Option<consort_tls::Problem>);

impl TlsProblem {
    /// The error that says so, in place of one that says only that the connection ended.
    pub(crate) fn explain(&self, address: &Address, error: Error) -> Error {
        #[cfg(feature = "tls")]
        if let Some(text) = self.0.as_ref().and_then(consort_tls::Problem::text) {
            return Error::Connect { address: address.clone(), source: io::Error::other(NoTls(text.to_owned())) };
        }
        let _ = address;
        error
    }
}

/// Speaks TLS over a new connection, if that is wanted.
#[cfg(feature = "tls")]
pub(crate) fn wrap(socket: OwnedFd, address: &Address, options: &ConnectOptions) -> io::Result<(OwnedFd, TlsProblem)> {
    let (Address::Tcp { host, .. }, Some(tls)) = (address, &options.tls) else {
        return Ok((socket, TlsProblem::default()));
    };
    let bridge = tls.bridge(socket.into(), host, options.connect_within).map_err(|error| NoTls::because(&error))?;
    Ok((bridge.stream.into(), TlsProblem(Some(bridge.problem))))
}

/// This library was built without TLS.
#[cfg(not(feature = "tls"))]
pub(crate) fn wrap(socket: OwnedFd, _: &Address, _: &ConnectOptions) -> io::Result<(OwnedFd, TlsProblem)> {
    Ok((socket, TlsProblem::default()))
}

/// The same for a client that runs on tokio: a thread shakes hands, and goes on to speak TLS.
#[cfg(all(feature = "tls", feature = "tokio"))]
pub(crate) async fn wrap_async(
    socket: tokio::net::TcpStream,
    tls: &consort_tls::ClientTls,
    host: &str,
    options: &ConnectOptions,
) -> io::Result<(tokio::net::UnixStream, TlsProblem)> {
    let (tls, socket, host, within) = (tls.clone(), socket.into_std()?, host.to_owned(), options.connect_within);
    let bridge = tokio::task::spawn_blocking(move || tls.bridge(socket, &host, within)).await?;
    let bridge = bridge.map_err(|error| NoTls::because(&error))?;
    bridge.stream.set_nonblocking(true)?;
    Ok((tokio::net::UnixStream::from_std(bridge.stream)?, TlsProblem(Some(bridge.problem))))
}
