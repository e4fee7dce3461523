//! Where clients come in.
use crate::error::refused;
use crate::error::{BindError, SocketRole};
use crate::options::{Dialect, ListenAddress, TlsListen};
use crate::rings::{Declined, Rings};
use crate::sys::{self, PeerProcess};
use consort_node::{ClientIdentity, Transport};
use consort_shm::MemoryFile;
use consort_tls::{Arrival, TlsListener};
use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Who may connect to a socket file: the daemon's user and group.
const MODE: u32 = 0o660;
/// Who may where Spread is spoken, or where users are listed: everybody on this machine.
const OPEN_MODE: u32 = 0o666;
/// The longest path that fits a Unix socket's address, with its final zero.
const PATH_MAX: usize = 107;

/// A bound socket that accepts clients.
#[derive(Debug)]
pub(crate) enum Listener {
    Unix(UnixListener, SocketFile),
    Tcp(TcpListener),
    /// A thread that opens what is sealed.
    Tls(TlsListener),
}

/// A client's connection.
#[derive(Debug)]
pub(crate) enum ClientStream {
    Unix(UnixStream),
    /// A Unix socket whose client's bytes go through shared memory.
    Shared(UnixStream, Box<Rings>),
    Tcp(TcpStream),
    /// What a client over TLS says and is told, opened by a thread.
    Tls(UnixStream, Box<TlsPeer>),
}

/// Who is at the other end of TLS.
#[derive(Debug)]
pub(crate) struct TlsPeer {
    address: SocketAddr,
    certificate: Option<String>,
}

impl Listener {
    pub(crate) fn open(address: &ListenAddress, dialect: Dialect) -> Result<Self, BindError> {
        match address {
            ListenAddress::Unix(path) => {
                make_way(path)?;
                let failed = |source| BindError::Listener { address: address.clone(), source };
                let listener = UnixListener::bind(path).map_err(failed)?;
                let mode = if dialect == Dialect::Spread { OPEN_MODE } else { MODE };
                Ok(Self::Unix(listener, SocketFile::at(path, mode).map_err(failed)?))
            }
            ListenAddress::Tcp(address) => {
                TcpListener::bind(*address).map(Self::Tcp).map_err(|e| refused(SocketRole::Clients, *address, e))
            }
        }
    }

    /// Opens the addresses where TLS is spoken.
    pub(crate) fn open_tls(listen: &TlsListen) -> Result<Self, BindError> {
        let first = listen.addresses.first().copied().unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
        let listener = TlsListener::open(&listen.addresses, &listen.tls, listen.most);
        listener.map(Self::Tls).map_err(|error| refused(SocketRole::Clients, first, error))
    }

    /// Lets every user of this machine connect, for it to be checked afterwards who that is.
    pub(crate) fn admit_all(&mut self) -> Result<(), BindError> {
        let address = self.address();
        let Self::Unix(_, file) = self else { return Ok(()) };
        file.admit(OPEN_MODE).map_err(|source| BindError::Listener { address, source })
    }

    /// Makes a socket file again that was removed, with its directory: clients could not find it any more. `None`
    /// where it is still there, or another one.
    pub(crate) fn restored(&self) -> Option<io::Result<Self>> {
        let Self::Unix(_, SocketFile { path, mode, .. }) = self else { return None };
        if !inode(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return None;
        }
        let restore = || {
            let directory = path.parent().unwrap_or(Path::new("/"));
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            Ok(Self::Unix(UnixListener::bind(path)?, SocketFile::at(path, *mode)?))
        };
        Some(restore())
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> ListenAddress {
        match self {
            Self::Unix(_, file) => ListenAddress::Unix(file.path.clone()),
            Self::Tls(listener) => {
                ListenAddress::Tcp(listener.addresses().first().copied().unwrap_or_else(|| ([0, 0, 0, 0], 0).into()))
            }
            Self::Tcp(listener) => {
                ListenAddress::Tcp(listener.local_addr().unwrap_or_else(|_| ([0, 0, 0, 0], 0).into()))
            }
        }
    }

    /// The next connection that waits.
    pub(crate) fn accept(&self) -> io::Result<ClientStream> {
        match self {
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| ClientStream::Unix(stream)),
            Self::Tls(listener) => {
                let Arrival { stream, peer, certificate } = listener.next_arrival().ok_or(ErrorKind::WouldBlock)?;
                Ok(ClientStream::Tls(UnixStream::from_std(stream), Box::new(TlsPeer { address: peer, certificate })))
            }
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(ClientStream::Tcp(stream))
            }
        }
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Unix(listener, _) => listener.register(registry, token, Interest::READABLE),
            Self::Tcp(listener) => listener.register(registry, token, Interest::READABLE),
            Self::Tls(listener) => {
                SourceFd(&listener.descriptor().as_raw_fd()).register(registry, token, Interest::READABLE)
            }
        }
    }
}

macro_rules! either {
    ($stream:expr, $name:ident => $call:expr) => {
        match $stream {
            Self::Unix($name) | Self::Shared($name, _) | Self::Tls($name, _) => $call,
            Self::Tcp($name) => $call,
        }
    };
}

impl ClientStream {
    /// Receives into the front of `room`.
    pub(crate) fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Shared(socket, rings) => rings.read(socket, room),
            Self::Unix(stream) | Self::Tls(stream, _) => stream.read(room),
            Self::Tcp(stream) => stream.read(room),
        }
    }

    /// The same for the first bytes, with which a client at a Unix socket may offer memory.
    pub(crate) fn read_first(&mut self, room: &mut [u8]) -> io::Result<(usize, Option<MemoryFile>)> {
        match self {
            Self::Unix(stream) => consort_shm::receive(stream.as_fd(), room),
            other => other.read(room).map(|n| (n, None)),
        }
    }

    /// Takes a client's offer: all that follows goes through shared memory.
    pub(crate) fn share(self, offered: MemoryFile) -> (Self, Result<(), Declined>) {
        match self {
            Self::Unix(socket) => match Rings::open(&socket, offered) {
                Ok(rings) => (Self::Shared(socket, Box::new(rings)), Ok(())),
                Err(declined) => (Self::Unix(socket), Err(declined)),
            },
            other => (other, Ok(())),
        }
    }

    /// Something happened at its socket.
    pub(crate) fn event(&mut self, has_ended: bool) {
        if let Self::Shared(socket, rings) = self {
            rings.event(socket, has_ended);
        }
    }

    /// The rings, if its bytes go through shared memory.
    pub(crate) fn rings(&mut self) -> Option<&mut Rings> {
        if let Self::Shared(_, rings) = self { Some(rings) } else { None }
    }

    /// Sends the front of `bytes`.
    pub(crate) fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Shared(socket, rings) => rings.write(socket, pieces),
            Self::Unix(stream) | Self::Tls(stream, _) => stream.write_vectored(pieces),
            Self::Tcp(stream) => stream.write_vectored(pieces),
        }
    }

    /// Tells the other end that nothing more will come.
    pub(crate) fn end(&self) -> io::Result<()> {
        either!(self, stream => stream.shutdown(Shutdown::Write))
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        either!(self, stream => stream.register(registry, token, Interest::READABLE))
    }

    /// Has the kernel ask a client's machine whether it is there when nothing was heard of it for half of `bound`, and give it
    /// up when it has not answered by then.
    pub(crate) fn probe_host(&self, bound: Duration) -> io::Result<()> {
        let Self::Tcp(stream) = self else { return Ok(()) };
        let idle = Duration::from_secs((bound.as_secs() / 2).max(1));
        let between = Duration::from_secs((bound.as_secs() / 6).max(1));
        let retries = (bound.saturating_sub(idle).as_secs() / between.as_secs()).max(1);
        let probes = TcpKeepalive::new().with_time(idle).with_interval(between);
        SockRef::from(stream).set_tcp_keepalive(&probes.with_retries(u32::try_from(retries).unwrap_or(u32::MAX)))
    }

    /// For how long a client's machine has not answered what it was sent, or asked; `None` where nothing waits for an answer,
    /// and for clients of this machine.
    pub(crate) fn unanswered_for(&self) -> io::Result<Option<Duration>> {
        if let Self::Tcp(stream) = self { sys::unanswered_for(stream.as_fd()) } else { Ok(None) }
    }

    /// Changes whether events tell of room for writing too.
    pub(crate) fn watch_room(&mut self, registry: &Registry, token: Token, room: bool) -> io::Result<()> {
        let interest = if room { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        either!(self, stream => stream.reregister(registry, token, interest))
    }

    /// What it is.
    pub(crate) const fn transport(&self) -> Transport {
        match self {
            Self::Unix(_) | Self::Shared(..) => Transport::Unix,
            Self::Tcp(_) | Self::Tls(..) => Transport::Tcp,
        }
    }

    /// Who is at the other end of a Unix socket; `None` with TCP.
    pub(crate) fn peer(&self) -> Option<io::Result<PeerProcess>> {
        match self {
            Self::Unix(stream) | Self::Shared(stream, _) => Some(sys::peer_process(stream.as_fd())),
            Self::Tcp(_) | Self::Tls(..) => None,
        }
    }

    /// What is known of who is at the other end.
    pub(crate) fn identity(&self) -> ClientIdentity {
        let known = match self {
            Self::Unix(stream) | Self::Shared(stream, _) => {
                sys::peer_process(stream.as_fd()).map(|peer| ClientIdentity::of_user(peer.user, peer.group))
            }
            Self::Tcp(stream) => stream.peer_addr().map(|address| ClientIdentity::at(address.ip())),
            Self::Tls(_, peer) => {
                let known = ClientIdentity::at(peer.address.ip());
                Ok(peer.certificate.as_ref().map_or_else(|| known.clone(), |name| known.clone().with_certificate(name)))
            }
        };
        known.unwrap_or(ClientIdentity::UNKNOWN)
    }

    /// The user of the process at the other end, as the kernel tells it; `None` where it tells none.
    pub(crate) fn user(&self) -> Option<u32> {
        match self {
            Self::Unix(stream) | Self::Shared(stream, _) => {
                sys::peer_process(stream.as_fd()).ok().map(|peer| peer.user)
            }
            Self::Tcp(_) | Self::Tls(..) => None,
        }
    }

    /// Who is at the other end, for the log.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Unix(stream) | Self::Shared(stream, _) => sys::peer_process(stream.as_fd())
                .map_or_else(|_| "a Unix client".to_owned(), |p| format!("process {} of user {}", p.process, p.user)),
            Self::Tls(_, peer) => match &peer.certificate {
                Some(name) => format!("{} with the certificate of {name}", peer.address),
                None => format!("{} over TLS", peer.address),
            },
            Self::Tcp(stream) => {
                stream.peer_addr().map_or_else(|_| "a TCP client".to_owned(), |address| address.to_string())
            }
        }
    }
}

/// A socket file that is removed with its listener, unless somebody else has put another one there.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
    mode: u32,
}

impl SocketFile {
    /// The file of a socket that was just bound there, for those that the mode admits.
    fn at(path: &Path, mode: u32) -> io::Result<Self> {
        let mut file = Self { path: path.to_owned(), inode: inode(path)?, mode };
        file.admit(mode)?;
        Ok(file)
    }

    fn admit(&mut self, mode: u32) -> io::Result<()> {
        self.mode = mode;
        fs::set_permissions(&self.path, Permissions::from_mode(mode))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|now| now == self.inode)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket file");
        }
    }
}

fn inode(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Removes a socket file that nobody answers on.
fn make_way(path: &Path) -> Result<(), BindError> {
    let len = path.as_os_str().len();
    if len > PATH_MAX {
        return Err(BindError::PathTooLong { path: path.to_owned(), len, max: PATH_MAX });
    }
    let failed = |source| BindError::Listener { address: ListenAddress::Unix(path.to_owned()), source };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(file) if !file.file_type().is_socket() => return Err(BindError::NotASocket { path: path.to_owned() }),
        Ok(_) => {}
    }
    if is_answered(path).map_err(failed)? {
        return Err(BindError::Answered { path: path.to_owned() });
    }
    tracing::info!(path = %path.display(), "replacing the socket file of a daemon that is gone");
    fs::remove_file(path).map_err(failed)
}

/// Whether somebody listens, be it with a full queue.
fn is_answered(path: &Path) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
        Ok(()) | Err(_) => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(path: &Path) -> Result<Listener, BindError> {
        Listener::open(&ListenAddress::Unix(path.to_owned()), Dialect::Native)
    }

    #[test]
    fn the_socket_file_is_for_user_and_group_and_goes_with_the_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("consort.sock");
        let listener = unix(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert_eq!(listener.address(), ListenAddress::Unix(path.clone()));
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_file_that_was_removed_is_made_again_with_its_directory_for_the_same_users() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/consort.sock");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut listener = unix(&path).unwrap();
        listener.admit_all().unwrap();
        assert!(listener.restored().is_none(), "it is there");
        fs::remove_dir_all(folder.path().join("a")).unwrap();
        let restored = listener.restored().unwrap().unwrap();
        drop(listener);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        std::os::unix::net::UnixStream::connect(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another file").unwrap();
        assert!(restored.restored().is_none());
    }

    #[test]
    fn where_users_are_listed_everybody_may_knock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("consort.sock");
        let mut listener = unix(&path).unwrap();
        listener.admit_all().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    }

    #[test]
    fn the_socket_file_for_spread_is_for_everybody() {
        //= S42 test
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("4803");
        let _listener = Listener::open(&ListenAddress::Unix(path.clone()), Dialect::Spread).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    }

    #[test]
    fn an_answered_file_is_kept_and_a_stale_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("consort.sock");
        let first = unix(&path).unwrap();
        assert!(matches!(unix(&path), Err(BindError::Answered { path: p }) if p == path));
        std::mem::forget(match first {
            Listener::Unix(listener, file) => {
                drop(listener);
                file
            }
            Listener::Tcp(_) | Listener::Tls(_) => unreachable!(),
        });
        assert!(path.exists());
        unix(&path).unwrap();
    }

    #[test]
    fn a_file_that_somebody_else_made_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("consort.sock");
        let listener = unix(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "other").unwrap();
        drop(listener);
        assert_eq!(fs::read(&path).unwrap(), b"other");
        assert!(matches!(unix(&path), Err(BindError::NotASocket { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"other");
    }

    #[test]
    fn a_path_too_long_is_refused_with_its_length() {
        let path = PathBuf::from(format!("/tmp/{}", "x".repeat(200)));
        let error = unix(&path).unwrap_err();
        assert!(matches!(error, BindError::PathTooLong { len: 205, max: 107, .. }));
        assert!(error.to_string().contains("205 bytes"));
    }

    #[test]
    fn a_folder_that_does_not_exist_is_named() {
        let error = unix(Path::new("/nonexistent/consort.sock")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/consort.sock"), "{error}");
    }

    #[test]
    fn a_used_tcp_port_is_named() {
        let open = |address: &ListenAddress| Listener::open(address, Dialect::Native);
        let ListenAddress::Tcp(address) =
            open(&ListenAddress::Tcp(([127, 0, 0, 1], 0).into())).map(|l| l.address()).unwrap()
        else {
            unreachable!()
        };
        let _holder = std::net::TcpListener::bind(address).unwrap();
        let error = open(&ListenAddress::Tcp(address)).unwrap_err();
        assert!(matches!(error, BindError::InUse { role: SocketRole::Clients, address: a } if a == address));
    }
}
