//! What can go wrong, and what to do about it.
use crate::ListenAddress;
pub use crate::sys::Interface;
use consort_journal::{OpenError, room_hint};
use consort_types::NodeId;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketRole {
    /// Tokens, and control packets to this node alone.
    Token,
    /// Data to this node alone; also what data to all is sent from.
    Data,
    /// Data to all.
    Multicast,
    /// Reliable links to other nodes.
    Links,
    /// Clients over TCP.
    Clients,
}

impl fmt::Display for SocketRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token => "token",
            Self::Data => "data",
            Self::Multicast => "multicast",
            Self::Links => "link",
            Self::Clients => "client",
        })
    }
}

/// Why the sockets could not be bound. Nothing stays bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// This node's own addresses are not in the list of peers.
    #[error("node {me} has no entry among the {peers} peers; add its token and data addresses")]
    NotConfigured {
        /// This node.
        me: NodeId,
        /// How many peers there are.
        peers: usize,
    },
    /// Two nodes are said to have the same node index, or two sockets the same address.
    #[error("{what} is given twice among the peers")]
    Twice {
        /// The node or address.
        what: String,
    },
    /// Somebody else has the address.
    #[error("{role} address {address} is in use; is another daemon running here? choose another port, or stop it")]
    InUse {
        /// What the socket is for.
        role: SocketRole,
        /// Which address.
        address: SocketAddr,
    },
    /// This machine has no such address.
    #[error("{role} address {address} is not one of this machine's; it has {}", list(usable))]
    NotLocal {
        /// What the socket is for.
        role: SocketRole,
        /// Which address.
        address: IpAddr,
        /// What could be used.
        usable: Vec<Interface>,
    },
    /// The group cannot be joined on that interface.
    #[error("cannot use multicast on interface {interface}: {source}; this machine has {}", list(usable))]
    Interface {
        /// The interface's address.
        interface: Ipv4Addr,
        /// What could be used.
        usable: Vec<Interface>,
        /// What the kernel said.
        source: io::Error,
    },
    /// The group's address is not a multicast address.
    #[error("{group} is not a multicast address; use one in 239.0.0.0/8, or unicast fan-out")]
    NotMulticast {
        /// The address.
        group: SocketAddrV4,
    },
    /// Multicast was demanded, but it does not work here.
    #[error("multicast does not work here: {why}; use unicast fan-out, or `auto`")]
    NoMulticast {
        /// What was seen.
        why: String,
    },
    /// The process may not use this address.
    #[error("no permission to use {role} address {address}; use a port of 1024 or above")]
    Permission {
        /// What the socket is for.
        role: SocketRole,
        /// Which address.
        address: SocketAddr,
    },
    /// A daemon answers on this socket file.
    #[error("a daemon answers on {}; stop it, or choose another path or port", path.display())]
    Answered {
        /// The file.
        path: PathBuf,
    },
    /// Something that is not a socket is in the way.
    #[error("{} exists and is not a socket; it was left alone, choose another socket path", path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// The kernel takes no such long names for sockets.
    #[error("socket path {} has {len} bytes, at most {max} are possible; choose a shorter one", path.display())]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        len: usize,
        /// The longest that is possible.
        max: usize,
    },
    /// The listener could not be opened for another reason.
    #[error("cannot accept clients at {}: {source}", place(address))]
    Listener {
        /// Which.
        address: ListenAddress,
        /// What the kernel said.
        source: io::Error,
    },
    /// The engine's records cannot be used.
    #[error(transparent)]
    Journal(#[from] OpenError),
    /// Something else.
    #[error("cannot {doing}: {source}")]
    Other {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Why the loop ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The kernel's event queue failed.
    #[error("cannot wait for events: {0}")]
    Wait(#[source] io::Error),
    /// A durable record could not be written. Going on would break a promise.
    #[error("cannot write to the records in {}: {source}{}", path.display(), disk_hint(source))]
    Persist {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The node cannot go on in this incarnation. Whoever runs it starts it anew, in a later one, with these records.
    #[error("the node must start anew: {cause}")]
    Restart {
        /// What happened.
        cause: String,
        /// For [`Sockets::carry`](crate::Sockets::carry).
        records: Vec<bytes::Bytes>,
        /// The later incarnation must have a larger number than this one of the same node, which others know.
        exceed: Option<consort_types::Incarnation>,
    },
    /// Real time was asked for and is not permitted.
    #[error(
        "cannot run in real time: {0}; permit it (LimitRTPRIO=1 in the unit file, `ulimit -r 1`, or the capability \
         CAP_SYS_NICE), or set scheduling = \"auto\""
    )]
    RealTime(#[source] io::Error),
    /// No datagram can be sealed any more.
    #[error("cannot seal: {0}; start the daemon again, which draws a new salt")]
    Exhausted(#[from] consort_seal::Exhausted),
    /// The engine keeps durable records, but there is no place for them.
    #[error("this protocol keeps durable records; configure a directory for them")]
    NoRecords,
    /// The engine sends through reliable links, but there are none.
    #[error("this protocol needs reliable links; bind the sockets with `links`")]
    NoLinks,
}

fn list(usable: &[Interface]) -> String {
    if usable.is_empty() {
        return "no usable interface".to_owned();
    }
    let names: Vec<_> = usable.iter().map(|i| format!("{} ({})", i.address, i.name)).collect();
    names.join(", ")
}

fn place(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Unix(path) => path.display().to_string(),
        ListenAddress::Tcp(address) => address.to_string(),
    }
}

fn disk_hint(source: &io::Error) -> &'static str {
    room_hint(source).unwrap_or(
        "; the kernel's log says more of the disk: once it takes writes, start again with the same directory, because \
         what it kept counts",
    )
}

/// Translates what the kernel says about an address.
pub(crate) fn refused(role: SocketRole, address: SocketAddr, source: io::Error) -> BindError {
    match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { role, address },
        io::ErrorKind::AddrNotAvailable => {
            BindError::NotLocal { role, address: address.ip(), usable: crate::sys::interfaces() }
        }
        io::ErrorKind::PermissionDenied => BindError::Permission { role, address },
        _ => BindError::Other { doing: "bind a socket", source },
    }
}
