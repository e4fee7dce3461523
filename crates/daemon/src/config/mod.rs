//! The settings of a daemon: from one short TOML file that all machines share, or, on one machine, from nothing.

mod addresses;
mod file;
mod networks;
mod protocol;
mod reader;
mod registry;
pub(crate) mod rights;
mod rings;
mod slow;
mod spread;

use crate::failure::{Failure, Outcome};
use crate::local::{self, LocalCluster};
use consort_net::IdleProfile as Waiting;
use consort_node::{Limits, SlowPolicy, SlowRule};
use consort_rights::Rule;
use consort_ring::{Acceleration, IdleHold as Parking, RingConfig};
use consort_seal::OVERHEAD;
use consort_types::{ConfigHash, NodeId};
use consort_wire::DatagramSize;
use sha2::{Digest, Sha256};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::Duration;

pub use consort_net::Scheduling;
pub use consort_paxos::Storage;
pub use file::read;
pub use networks::{NetworkSettings, local_gateways};
pub use protocol::{PROTOCOLS, Paxos, Plato, Protocol, STORAGES, Toto};
pub use registry::RegistrySettings;
pub use rings::RingSettings;
pub use spread::SpreadListener;

/// How much CPU is spent on answering quickly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Spins and keeps the token going: the lowest latency, a core per daemon while there is traffic, unless
    /// other programs want it.
    Latency,
    /// Keeps the token going while there is traffic, sleeps else.
    Balanced,
    /// Sleeps whenever nothing is to be done.
    Frugal,
}

/// One node's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    /// Its number, the same for all.
    pub id: NodeId,
    /// Where it receives tokens.
    pub token: SocketAddr,
    /// Where it receives data that is not multicast.
    pub data: SocketAddr,
    /// The address of the interface that it multicasts on.
    pub interface: Ipv4Addr,
}

/// Everything a daemon needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether they come from a file; else they follow from the command line.
    pub from_file: bool,
    /// The cluster's name.
    pub cluster: String,
    /// All nodes of the cluster.
    pub nodes: Vec<NodeAddress>,
    /// `None` sends to each node by itself.
    pub multicast: Option<SocketAddrV4>,
    /// Which protocol orders the messages.
    pub protocol: Protocol,
    /// ToTo's own settings, where that is the protocol.
    pub toto: Toto,
    /// PLATO's, where that is it.
    pub plato: Plato,
    /// Ring Paxos', where that is it, and what many rings share.
    pub paxos: Paxos,
    /// The rings of Multi-Ring Paxos, where that is it; without a file none, and it has some of its own.
    pub rings: Vec<RingSettings>,
    /// The registry that advises who leads, where there is one.
    pub registry: Option<RegistrySettings>,
    /// The networks of Totem's multiple rings, where those are it; without a file none, and there are some all the same.
    pub networks: Vec<NetworkSettings>,
    /// The ring's own settings, and those that all protocols share; its `me` is set by [`Settings::choose`].
    pub ring: RingConfig,
    /// How much CPU a quick answer is worth.
    pub profile: Profile,
    /// In which scheduling class the daemon runs.
    pub scheduling: Scheduling,
    /// What clients may ask for and have waiting.
    pub limits: Limits,
    /// What is done about members of some groups that do not read.
    pub slow_rules: Vec<SlowRule>,
    /// Where clients may connect besides the local socket.
    pub listen: Vec<SocketAddr>,
    /// Users, beside the daemon's own and root, that may connect to its Unix socket.
    pub users: Vec<u32>,
    /// Where Spread clients may connect; `None` for nowhere.
    pub spread: Option<SpreadListener>,
    /// Where metrics are told; `None` for nowhere.
    pub metrics: Option<SocketAddr>,
    /// Whether that is by TLS, with the daemon's certificate.
    pub metrics_tls: bool,
    /// Where the incarnation is kept; `None` for the user's own state directory.
    pub state: Option<PathBuf>,
    /// How many bytes of received datagrams the kernel shall hold.
    pub receive_buffer: usize,
    /// How many bytes of memory may be shared with clients.
    pub shared_memory: usize,
    /// Whether the kernel drops datagrams from addresses that are no node's.
    pub filter_sources: bool,
    /// For how long the machine of a client at a TCP port may answer nothing.
    pub client_host_timeout: Duration,
    /// How many bytes are retained of what clients read, and for how long, where the protocol retains nothing itself.
    pub sessions_retain: (usize, Duration),
    /// How long a producer is known of which nothing is ordered.
    pub producers_for: Duration,
    /// Whether to find out which size of datagram reaches which node.
    pub probe_paths: bool,
    /// What clients may do; without any everything.
    pub rights: Vec<Rule>,
    /// A file with more of that.
    pub rights_file: Option<PathBuf>,
    /// Where clients may connect by TLS.
    pub listen_tls: Vec<SocketAddr>,
    /// The files with the daemon's certificate and its key, and that of the authority of clients' certificates.
    pub certificate: Option<PathBuf>,
    /// See there.
    pub certificate_key: Option<PathBuf>,
    /// See there; without one clients need no certificates.
    pub client_authority: Option<PathBuf>,
    /// The file of tokens; `None` for no tokens.
    pub tokens: Option<PathBuf>,
    /// Whether clients at TCP ports are let in only if they prove who they are; if there are tokens, where nothing is said.
    pub tcp_proves: Option<bool>,
    /// The file with the cluster's key; `None` for datagrams that travel plain.
    pub key: Option<PathBuf>,
}

/// A file with every default spelled out.
pub const EXAMPLE: &str = include_str!("../../consort.toml");

/// How the kinds of ring are named.
pub const RINGS: [(&str, Acceleration); 2] =
    [("accelerated", Acceleration::Accelerated), ("original", Acceleration::Original)];
/// How the profiles are named.
pub const PROFILES: [(&str, Profile); 3] =
    [("latency", Profile::Latency), ("balanced", Profile::Balanced), ("frugal", Profile::Frugal)];

/// How the policies for clients that do not read are named.
pub const SLOW_POLICIES: [(&str, SlowPolicy); 4] = [
    ("disconnect", SlowPolicy::Disconnect),
    ("spool", SlowPolicy::Spool),
    ("block", SlowPolicy::Block),
    ("demote", SlowPolicy::Demote),
];

/// How the scheduling classes are named.
pub const SCHEDULINGS: [(&str, Scheduling); 3] =
    [("normal", Scheduling::Normal), ("auto", Scheduling::Auto), ("realtime", Scheduling::RealTime)];

impl Profile {
    /// The profile's name.
    pub fn name(self) -> &'static str {
        PROFILES.iter().find(|(_, profile)| *profile == self).map_or("", |(name, _)| name)
    }

    /// How the event loop waits.
    pub const fn waiting(self) -> Waiting {
        match self {
            Self::Latency => Waiting::Latency,
            Self::Balanced => Waiting::Balanced,
            Self::Frugal => Waiting::Frugal,
        }
    }

    /// What the ring does with an idle token.
    pub const fn parking(self) -> Parking {
        match self {
            Self::Latency => Parking::CIRCULATE,
            Self::Balanced | Self::Frugal => Parking::PARK,
        }
    }
}

impl Settings {
    /// Hands on what other settings follow from: to be called when all are as they should be.
    pub fn hand_on(&mut self) {
        self.ring.idling = self.profile.parking();
        self.limits.spread_messages = self.spread.as_ref().and_then(|listener| listener.messages);
    }

    /// The settings of a cluster whose `nodes` nodes all live on this machine.
    pub fn local(cluster: &str, nodes: u16) -> Self {
        let addresses = LocalCluster::new(cluster, nodes);
        let node = |id: u16| NodeAddress {
            id: NodeId(id),
            token: addresses.token(id),
            data: addresses.data(id),
            interface: Ipv4Addr::LOCALHOST,
        };
        let nodes: Vec<_> = (1..=nodes).map(node).collect();
        Self::new(cluster.into(), nodes, Some(addresses.multicast()))
    }

    fn new(cluster: String, nodes: Vec<NodeAddress>, multicast: Option<SocketAddrV4>) -> Self {
        let members = nodes.iter().map(|node| node.id).collect();
        let mut settings = Self {
            from_file: false,
            cluster,
            ring: RingConfig::new(nodes.first().map_or(NodeId(0), |node| node.id), members),
            protocol: Protocol::Ring,
            toto: Toto::default(),
            plato: Plato::default(),
            paxos: Paxos::default(),
            rings: Vec::new(),
            registry: None,
            networks: Vec::new(),
            nodes,
            multicast,
            profile: Profile::Balanced,
            scheduling: Scheduling::Normal,
            limits: Limits::default(),
            slow_rules: Vec::new(),
            listen: Vec::new(),
            users: Vec::new(),
            spread: None,
            metrics: None,
            metrics_tls: false,
            state: None,
            receive_buffer: consort_net::RECEIVE_BUFFER,
            shared_memory: consort_net::SHARED_MEMORY,
            filter_sources: true,
            client_host_timeout: consort_net::CLIENT_HOST_TIMEOUT,
            sessions_retain: (16 << 20, Duration::from_secs(60)),
            producers_for: Duration::from_secs(3_600),
            probe_paths: true,
            rights: Vec::new(),
            rights_file: None,
            listen_tls: Vec::new(),
            certificate: None,
            certificate_key: None,
            client_authority: None,
            tokens: None,
            tcp_proves: None,
            key: None,
        };
        settings.allow(settings.limits.message_max);
        settings
    }

    /// Lets clients send messages of so many bytes.
    pub fn allow(&mut self, message_max: usize) {
        self.limits.message_max = message_max;
        // What is ordered is a client's whole frame: the list of groups goes with the message.
        self.ring.message_max = self.limits.frame_max();
    }

    /// Makes this daemon the given node.
    pub fn choose(&mut self, me: NodeId) {
        self.ring.me = me;
    }

    /// What engines are told: seals take some bytes of each datagram.
    pub fn for_engines(&self) -> Self {
        let mut settings = self.clone();
        if self.key.is_some() {
            let room = DatagramSize::new(self.ring.datagram.get().saturating_sub(OVERHEAD));
            settings.ring.datagram = room.unwrap_or(self.ring.datagram);
        }
        settings
    }

    /// Whether other machines than this one carry the daemons' datagrams.
    pub fn is_exposed(&self) -> bool {
        let elsewhere = self.networks.iter().flat_map(|network| &network.nodes);
        self.nodes.iter().chain(elsewhere).any(|node| !node.token.ip().is_loopback())
    }

    /// This node's own addresses.
    pub fn mine(&self) -> Outcome<NodeAddress> {
        let found = self.nodes.iter().find(|node| node.id == self.ring.me).copied();
        found.ok_or_else(|| {
            let ids: Vec<_> = self.nodes.iter().map(|node| node.id.0.to_string()).collect();
            let (me, cluster) = (self.ring.me.0, &self.cluster);
            Failure::usage(format!("node {me}: cluster `{cluster}` has no such node; it has {}", ids.join(", ")))
        })
    }

    /// All that members must share, by the names of the file: where each node is, too, for one whose address is another
    /// elsewhere would be heard and never reached.
    pub fn shared(&self) -> Vec<(String, String)> {
        let engine = match self.protocol {
            Protocol::Ring => self.ring.shared_settings(),
            Protocol::Toto => self.toto_config().shared_settings(),
            Protocol::Plato => self.plato_config().shared_settings(),
            Protocol::Paxos => self.paxos_config().shared_settings(),
            Protocol::MultiRingPaxos => self.multiring_paxos_config().shared_settings(),
            Protocol::MultiRing => self.multiring_config().shared_settings(),
        };
        let mut nodes = self.nodes.clone();
        nodes.sort_unstable_by_key(|node| node.id);
        let multicast = self.multicast.map_or_else(|| "off".into(), |group| group.to_string());
        let mut shared: Vec<_> = engine.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        shared.extend(self.shared_rings());
        shared.extend(self.shared_networks());
        if self.protocol == Protocol::MultiRing {
            shared.push(("limits.message".into(), self.limits.message_max.to_string()));
            return shared;
        }
        shared.push(("multicast".into(), multicast));
        shared.push(("limits.message".into(), self.limits.message_max.to_string()));
        shared.extend(nodes.iter().map(|node| (format!("address of node {}", node.id.0), node.token.to_string())));
        shared
    }

    /// The hash of all that members must share; members that differ never talk.
    pub fn hash(&self) -> ConfigHash {
        let digest = Sha256::digest(format!("{:?}", self.shared()));
        ConfigHash(digest.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    /// The shared settings for people, in a line.
    pub fn summary(&self) -> String {
        let ring = RINGS.iter().find(|(_, kind)| *kind == self.ring.acceleration).map_or("", |(name, _)| name);
        let protocol = match self.protocol {
            Protocol::Ring => format!("{ring} ring"),
            Protocol::Toto => format!("toto with phi {}%", self.toto.phi.percent()),
            Protocol::Plato => "plato".to_owned(),
            Protocol::Paxos => {
                let paxos = self.paxos_config();
                format!("paxos with acceptors {}, storage {}", list(&paxos.acceptors), paxos.storage.name())
            }
            Protocol::MultiRingPaxos => self.summary_of_rings(),
            Protocol::MultiRing => self.summary_of_networks(),
        };
        let nodes = self.nodes.len();
        let data = self.summary_of_data();
        let noun = if nodes == 1 { "node" } else { "nodes" };
        let sealed = if self.key.is_some() { ", sealed" } else { "" };
        format!("{nodes} {noun}, {protocol}, {data}, datagrams of {} bytes{sealed}", self.ring.datagram.get())
    }

    /// How data reaches all nodes, in each network.
    fn summary_of_data(&self) -> String {
        let networks = self.all_networks();
        let groups: Vec<_> = match networks.is_empty() {
            true => self.multicast.into_iter().collect(),
            false => networks.iter().filter_map(|network| network.multicast).collect(),
        };
        let groups: Vec<_> = groups.iter().map(ToString::to_string).collect();
        if groups.is_empty() { "unicast".into() } else { format!("multicast {}", groups.join(" and ")) }
    }

    /// The cluster's id on the wire.
    pub fn cluster_id(&self) -> consort_types::ClusterId {
        local::cluster_id(&self.cluster)
    }
}

fn list(nodes: &[NodeId]) -> String {
    nodes.iter().map(|node| node.0.to_string()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_members_share_moves_the_hash_and_nothing_else_does() {
        let hash = |change: &dyn Fn(&mut Settings)| {
            let mut settings = Settings::local("test", 3);
            change(&mut settings);
            settings.hash()
        };
        let plain = hash(&|_| {});
        assert_eq!(plain, hash(&|s| s.choose(NodeId(3))));
        assert_eq!(plain, hash(&|s| s.profile = Profile::Frugal));
        assert_eq!(plain, hash(&|s| s.key = Some("key".into())), "who lacks the key is told so in another way");
        assert_eq!(plain, hash(&|s| s.listen = vec!["127.0.0.1:1".parse().unwrap()]));
        let (servers, session) = (vec!["zoo1:2181".to_owned()], Duration::from_secs(3));
        let registry = RegistrySettings { servers, prefix: "/ringpaxos".into(), session };
        assert_eq!(plain, hash(&|s| s.registry = Some(registry.clone())), "each node asks where it can");
        assert_ne!(plain, hash(&|s| s.ring.acceleration = Acceleration::Original));
        assert_ne!(plain, hash(&|s| s.ring.windows.personal = 20));
        assert_ne!(plain, hash(&|s| s.multicast = None));
        assert_ne!(plain, hash(&|s| s.protocol = Protocol::Toto));
        assert_ne!(plain, hash(&|s| s.protocol = Protocol::Plato));
        let toto = |phi| hash(&|s| (s.protocol, s.toto.phi) = (Protocol::Toto, phi));
        assert_ne!(toto(consort_toto::Phi::Half), toto(consort_toto::Phi::All));
        let toto = |adjust: &dyn Fn(&mut Toto)| {
            hash(&|s| {
                s.protocol = Protocol::Toto;
                adjust(&mut s.toto);
            })
        };
        assert_ne!(toto(&|_| {}), toto(&|own| own.early = true));
        assert_ne!(toto(&|_| {}), toto(&|own| own.ack_floor = true));
        assert_eq!(toto(&|_| {}), toto(&|own| own.ack = Some(Duration::from_millis(2))));
        let paxos = |acceptors: Option<Vec<NodeId>>| {
            hash(&|s| {
                s.protocol = Protocol::Paxos;
                s.paxos.acceptors.clone_from(&acceptors);
            })
        };
        assert_eq!(paxos(None), paxos(Some(vec![NodeId(3), NodeId(1), NodeId(2)])), "the first three of three");
        assert!(plain != paxos(None) && paxos(None) != paxos(Some(vec![NodeId(2)])));
        assert_ne!(plain, Settings::local("test", 4).hash());
        assert_ne!(plain, hash(&|s| s.allow(10)));
        assert_ne!(plain, hash(&|s| s.nodes[1].token.set_port(4851)));
        assert_ne!(plain, hash(&|s| s.nodes[2].token.set_ip([192, 0, 2, 1].into())));
        assert_eq!(plain, hash(&|s| s.nodes.reverse()));
        assert_eq!(plain, hash(&|s| s.nodes[0].interface = [192, 0, 2, 1].into()), "that is its own affair");
    }

    #[test]
    fn the_largest_message_fits_into_the_order_with_its_groups() {
        let mut settings = Settings::local("test", 1);
        assert!(settings.ring.message_max > settings.limits.message_max + 64 * 1_000);
        settings.allow(10);
        assert_eq!(settings.limits.message_max, 10);
        assert!(settings.ring.message_max > 64 * 1_000 && settings.ring.validate().is_ok());
    }

    #[test]
    fn seals_take_their_bytes_from_engines_and_change_nothing_that_is_shared() {
        let mut settings = Settings::local("test", 3);
        assert_eq!(settings.for_engines().ring.datagram.get(), 1_472);
        settings.key = Some("key".into());
        assert_eq!(settings.for_engines().ring.datagram.get(), 1_472 - OVERHEAD);
        assert_eq!(settings.for_engines().toto_config().datagram.get(), 1_472 - OVERHEAD);
        assert_eq!((settings.ring.datagram.get(), settings.validate()), (1_472, Ok(())));
        settings.ring.datagram = DatagramSize::new(DatagramSize::MIN + OVERHEAD - 1).unwrap();
        let (setting, problem) = settings.validate().unwrap_err();
        assert_eq!((setting, problem.contains("use at least 600")), ("datagram", true), "{problem}");
    }

    #[test]
    fn a_node_that_does_not_exist_is_named_with_those_that_do() {
        let mut settings = Settings::local("test", 3);
        settings.choose(NodeId(4));
        assert_eq!(settings.mine().unwrap_err().message, "node 4: cluster `test` has no such node; it has 1, 2, 3");
    }
}
