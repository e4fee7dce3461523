//! Addresses that nobody has to choose: loopback address, ports and multicast group of a cluster that lives on one
//! machine follow from its name, so that its daemons agree without a file. A loopback network has 16 million addresses:
//! two clusters, or a cluster and another program, hardly ever meet.
use consort_types::ClusterId;
use sha2::{Digest, Sha256};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// The most daemons of one cluster on one machine.
pub const NODES_MAX: u16 = 64;
/// How many there may be unless it is said: those that run find each other, and those that do not cost nothing.
pub const NODES: u16 = 8;
/// Below the range from which systems hand out ports by themselves, above that of well-known services.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// The addresses of a cluster that lives on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalCluster {
    base: u16,
    host: Ipv4Addr,
    group: Ipv4Addr,
    nodes: u16,
}

/// The cluster id that goes with a name.
pub fn cluster_id(name: &str) -> ClusterId {
    ClusterId(hash("cluster", name))
}

/// The multicast group that goes with a name, in the range reserved for use inside an organisation.
pub fn multicast_group(name: &str) -> Ipv4Addr {
    let [a, b, c, ..] = hash("multicast", name).to_be_bytes();
    Ipv4Addr::new(239, 192 + (a & 3), b, c)
}

/// The loopback address that goes with a name.
fn host(name: &str) -> Ipv4Addr {
    let [a, b, c, ..] = hash("host", name).to_be_bytes();
    // Neither 127.0.0.x, where everybody else is, nor the network's broadcast address.
    Ipv4Addr::new(127, 1 + a % 254, b, c)
}

impl LocalCluster {
    /// The addresses that follow from a cluster's name and size.
    pub fn new(name: &str, nodes: u16) -> Self {
        let block = Self::ports(nodes);
        let blocks = u64::from((PORTS.end - PORTS.start) / block);
        let chosen = u16::try_from(hash("ports", name) % blocks).unwrap_or_default();
        let base = PORTS.start + chosen * block;
        Self { base, host: host(name), group: multicast_group(name), nodes }
    }

    /// Where a node receives tokens.
    pub fn token(self, node: u16) -> SocketAddr {
        SocketAddr::from((self.host, self.base + 2 * (node - 1)))
    }

    /// Where a node receives data that is not multicast.
    pub fn data(self, node: u16) -> SocketAddr {
        SocketAddr::from((self.host, self.base + 2 * (node - 1) + 1))
    }

    /// Where all nodes receive multicast data.
    pub fn multicast(self) -> SocketAddrV4 {
        SocketAddrV4::new(self.group, self.base + 2 * self.nodes)
    }

    /// Two ports for each node, one for all.
    const fn ports(nodes: u16) -> u16 {
        2 * nodes + 1
    }
}

/// The first eight bytes of a hash that is the same on every machine, for ever.
fn hash(purpose: &str, name: &str) -> u64 {
    let digest = Sha256::new().chain_update(purpose).chain_update([0]).chain_update(name).finalize();
    digest.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_sockets_of_a_cluster_share_a_port() {
        for nodes in [1, 3, NODES_MAX] {
            let cluster = LocalCluster::new("test", nodes);
            let mut ports: BTreeSet<u16> = BTreeSet::from([cluster.multicast().port()]);
            for node in 1..=nodes {
                ports.extend([cluster.token(node).port(), cluster.data(node).port()]);
            }
            assert_eq!(ports.len(), usize::from(2 * nodes + 1));
            assert!(ports.iter().all(|port| PORTS.contains(port)));
        }
    }

    #[test]
    fn addresses_follow_from_the_name_alone() {
        assert_eq!(LocalCluster::new("a", 3), LocalCluster::new("a", 3));
        assert_ne!(LocalCluster::new("a", 3), LocalCluster::new("b", 3));
        assert_ne!(cluster_id("a"), cluster_id("b"));
        // A change here would split clusters whose daemons are upgraded one by one.
        assert_eq!(cluster_id("default").to_string(), "db03b618792e8be8");
    }

    #[test]
    fn clusters_live_at_loopback_addresses_of_their_own() {
        let hosts: BTreeSet<_> = (0..1000).map(|n| LocalCluster::new(&n.to_string(), 3).token(1).ip()).collect();
        assert!(hosts.len() > 990 && hosts.iter().all(|host| host.is_loopback()), "{}", hosts.len());
    }

    #[test]
    fn multicast_groups_stay_inside_the_organisation() {
        for name in ["a", "b", "c", "default", "prod"] {
            let [first, second, ..] = multicast_group(name).octets();
            assert!(first == 239 && (192..=195).contains(&second));
        }
    }
}
