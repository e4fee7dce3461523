//! What a driver is told: addresses, how to fan out, how to wait.
use crate::advisor::Advisor;
use crate::reload::Reload;
use consort_journal::Records;
use consort_seal::{KeyRing, Salt};
use consort_tls::ServerTls;
use consort_types::NodeId;
use consort_wire::DatagramSize;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;

/// The receive buffer wanted for data, in bytes, where nobody says otherwise: more than any ring's window of packets.
pub const RECEIVE_BUFFER: usize = 16 << 20;

/// How much memory may be shared with clients where nobody says otherwise, in bytes: enough for 500 of them.
pub const SHARED_MEMORY: usize = 256 << 20;

/// For how long a client's machine may answer nothing where nobody says otherwise.
pub const CLIENT_HOST_TIMEOUT: Duration = Duration::from_secs(5);

/// Where one node is reached. The list of peers has an entry for this node too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Which node.
    pub node: NodeId,
    /// Its socket for tokens, and for control packets to it alone.
    pub token: SocketAddr,
    /// Its socket for data to it alone; data to all leaves from here.
    pub data: SocketAddr,
}

/// One network that this node stands in. Most protocols have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkOptions {
    /// Its number, by which packets are for it; 0 where there is only one.
    pub number: u8,
    /// All nodes there, this one too.
    pub peers: Vec<Peer>,
    /// The multicast group and port for data to all.
    pub multicast: SocketAddrV4,
    /// The address of the interface on which the group is joined and sent to.
    pub interface: Ipv4Addr,
    /// How data reaches all nodes.
    pub fanout: Fanout,
}

/// How data reaches all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fanout {
    /// By multicast if a datagram of our own comes back to us through the group, by unicast else. See
    /// [`Sockets`](crate::Sockets) for what that proves.
    #[default]
    Auto,
    /// By multicast, or not at all.
    Multicast,
    /// One datagram for each peer.
    Unicast,
}

/// What the loop does when there is nothing to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleProfile {
    /// Looks again at once: lowest latency, one core always busy (it yields to
    /// whoever wants to run, and sleeps while CPU-bound processes hold the processors).
    Latency,
    /// Sleeps until the kernel wakes it, but looks once more at once after a turn that did something.
    #[default]
    Balanced,
    /// Sleeps at once: least CPU time.
    Frugal,
}

impl IdleProfile {
    /// All profiles, busiest first.
    pub const ALL: [Self; 3] = [Self::Latency, Self::Balanced, Self::Frugal];

    /// The profile's name in configuration and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Balanced => "balanced",
            Self::Frugal => "frugal",
        }
    }
}

/// In which scheduling class the loop's thread runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// Like every other process.
    #[default]
    Normal,
    /// In real time where this is permitted and the loop never yields, else like every other process.
    Auto,
    /// In real time (`SCHED_RR` 1): before every process of ordinary priority, however many there are.
    RealTime,
}

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A socket file. The daemon's own dialect is spoken to the daemon's user, root and [`Options::users`] alone, whom
    /// the kernel names; the file's mode is 0660, and 0666 where users are listed. A file that nobody answers on any
    /// more is replaced.
    Unix(PathBuf),
    /// A TCP port. Everybody who reaches it may speak.
    Tcp(SocketAddr),
}

/// What is spoken at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// This project's own client protocol.
    Native,
    /// The session protocol of Spread. Its socket file is for everybody (mode 0666), as its clients expect.
    Spread,
}

/// Where clients speak TLS.
#[derive(Clone, Debug)]
pub struct TlsListen {
    /// The TCP addresses.
    pub addresses: Vec<SocketAddr>,
    /// What the daemon shows there, and whom it believes.
    pub tls: ServerTls,
    /// How many clients may be there at a time.
    pub most: usize,
}

/// With what datagrams are sealed.
#[derive(Clone, Debug)]
pub struct Security {
    /// The cluster's keys.
    pub keys: KeyRing,
    /// Drawn anew from the system's generator for each start: no two starts of a node may have the same.
    pub salt: Salt,
}

/// Everything a driver needs to know to bind its sockets.
#[derive(Clone, Debug)]
pub struct Options {
    /// This node.
    pub me: NodeId,
    /// The networks that it stands in, at least one. No two nodes meet in more than one of them.
    pub networks: Vec<NetworkOptions>,
    /// Whether there are reliable links, of TCP at the nodes' token addresses in the first network; needed only for engines
    /// that use them.
    pub links: bool,
    /// Where clients connect; may be none.
    pub listeners: Vec<ListenAddress>,
    /// Where native clients speak TLS; may be nowhere.
    pub tls: Option<TlsListen>,
    /// The numbers of the users, beside the daemon's own and root, that may connect to the socket files in `listeners`.
    pub users: Vec<u32>,
    /// Where clients of Spread connect; may be none. Their socket file is for every user of this machine.
    pub spread_listeners: Vec<ListenAddress>,
    /// How much memory may be shared with clients at Unix sockets, in bytes: those for whom there is none left use their
    /// sockets, as do all with 0.
    pub shared_memory: usize,
    /// For how long a client's machine may answer nothing, at a TCP port, before its connection is closed.
    pub client_host_timeout: Duration,
    /// What holds for clients, where that may change while the loop runs; the node is given what holds at first.
    pub reload: Option<Reload>,
    /// What a registry advises, where there is one.
    pub advisor: Option<Advisor>,
    /// Whether the kernel drops datagrams from addresses that are no node's. Not where an address of a node is translated on
    /// the way.
    pub filter_sources: bool,
    /// The largest datagram that any node sends.
    pub datagram: DatagramSize,
    /// With what datagrams to and from other nodes are sealed; `None` for not at all.
    pub security: Option<Security>,
    /// Whether to find out which size of datagram reaches which node, and to send in fragments what would not arrive whole.
    pub probe_paths: bool,
    /// The settings that all nodes must share, by name and for people: nodes whose configuration hash is another are told
    /// what differs. Only while paths are probed.
    pub shared: Vec<(String, String)>,
    /// What to do when there is nothing to do.
    pub idling: IdleProfile,
    /// In which scheduling class the loop's thread runs.
    pub scheduling: Scheduling,
    /// How large the kernel's receive buffer for data should be, in bytes.
    pub receive_buffer: usize,
    /// Where the engine's durable records are kept, and how; needed only for engines that are durable.
    pub records: Option<Records>,
    /// The file that keeps which key epoch was adopted last; `None`, and a start begins with what its options say.
    pub key_epoch: Option<PathBuf>,
    /// The directory for what clients that are spooled for have yet to read; `None`, and they are sent away instead.
    pub spool: Option<PathBuf>,
}

impl Options {
    /// Options with the usual choices for everything that can be chosen, for a node of one network.
    pub fn new(me: NodeId, peers: Vec<Peer>, multicast: SocketAddrV4, interface: Ipv4Addr) -> Self {
        let fanout = Fanout::default();
        Self {
            me,
            networks: vec![NetworkOptions { number: 0, peers, multicast, interface, fanout }],
            links: false,
            listeners: Vec::new(),
            tls: None,
            users: Vec::new(),
            spread_listeners: Vec::new(),
            shared_memory: SHARED_MEMORY,
            client_host_timeout: CLIENT_HOST_TIMEOUT,
            reload: None,
            advisor: None,
            filter_sources: true,
            datagram: DatagramSize::DEFAULT,
            security: None,
            probe_paths: true,
            shared: Vec::new(),
            idling: IdleProfile::default(),
            scheduling: Scheduling::default(),
            receive_buffer: RECEIVE_BUFFER,
            records: None,
            key_epoch: None,
            spool: None,
        }
    }

    /// Where this node is in the first network.
    pub(crate) fn own(&self) -> Option<Peer> {
        self.met().into_iter().find(|peer| peer.node == self.me)
    }

    /// All nodes that are met in some network, and this one, each once.
    pub(crate) fn met(&self) -> Vec<Peer> {
        let mut seen = BTreeSet::new();
        let peers = self.networks.iter().flat_map(|network| &network.peers);
        peers.filter(|peer| seen.insert(peer.node)).copied().collect()
    }
}
