//! The networks of Totem's multiple rings, `[[network]]`: each has a token ring, and nodes that stand in several join them.
use super::addresses;
use super::reader::Section;
use super::{NodeAddress, Protocol, Settings, list};
use crate::local::LocalCluster;
use consort_multiring::{Config as MultiRingConfig, DELAY_MOST, RingNodes, RingNumber};
use consort_ring::{RingConfig, RingTimeouts};
use consort_types::{Duration, NodeId};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::RangeInclusive;

/// One network, with a token ring on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSettings {
    /// Its number, from 1: that of its ring, too.
    pub id: u8,
    /// Who stands in it, with their addresses there.
    pub nodes: Vec<NodeAddress>,
    /// `None` sends to each node there by itself.
    pub multicast: Option<SocketAddrV4>,
    /// How long packets are under way there at most, one way: zero in a LAN.
    pub delay: Duration,
}

impl NetworkSettings {
    /// Whether a node stands in it.
    pub fn has(&self, node: NodeId) -> bool {
        self.nodes.iter().any(|other| other.id == node)
    }

    /// This machine's part of a cluster that lives there: these nodes, at addresses that follow from a name.
    fn local(id: u8, name: &str, among: u16, nodes: RangeInclusive<u16>) -> Self {
        let addresses = LocalCluster::new(name, among);
        let node = |id: u16| NodeAddress {
            id: NodeId(id),
            token: addresses.token(id),
            data: addresses.data(id),
            interface: Ipv4Addr::LOCALHOST,
        };
        let (nodes, multicast) = (nodes.map(node).collect(), Some(addresses.multicast()));
        Self { id, nodes, multicast, delay: Duration::ZERO }
    }
}

/// The nodes that join the two networks of a cluster without a file: two of four and more, of which the second stands by.
pub fn local_gateways(nodes: u16) -> RangeInclusive<u16> {
    let first = nodes.div_ceil(2);
    first..=first + u16::from(nodes > 3)
}

/// A command that starts a cluster without a file gives it two networks with nodes in both; one to fewer than three nodes.
fn without_a_file(cluster: &str, nodes: u16) -> Vec<NetworkSettings> {
    let gateways = local_gateways(nodes);
    if nodes < 3 {
        return vec![NetworkSettings::local(1, cluster, nodes, 1..=nodes)];
    }
    let other = format!("{cluster}, network 2");
    let first = NetworkSettings::local(1, cluster, nodes, 1..=*gateways.end());
    vec![first, NetworkSettings::local(2, &other, nodes, *gateways.start()..=nodes)]
}

/// Reads every `[[network]]`.
pub fn read(root: &mut Section<'_, '_>, cluster: &str) -> Vec<NetworkSettings> {
    let mut networks = Vec::new();
    if !root.is_list("network") {
        return networks;
    }
    if root.is_list("node") {
        root.wrong("node", "where there are networks each node stands below its own: write [[network.node]]");
    }
    if root.text("multicast", |_| Ok(())).is_some() {
        root.wrong("multicast", "where there are networks each has a group of its own: set it below [[network]]");
    }
    root.each("network", |section| {
        let network = network(section, cluster, &networks);
        networks.extend(network);
    });
    if let Some((first, apart)) = apart(&networks) {
        let text = format!(
            "network {apart} is apart from network {first}: no node leads from one to the other; let one stand in both"
        );
        root.wrong("network", text);
    }
    networks
}

/// Says where the protocol wants networks and there are none, or the other way round.
pub fn check(root: &mut Section<'_, '_>, protocol: Protocol) {
    match (protocol, root.is_list("network")) {
        (Protocol::MultiRing, false) => root.wrong(
            "network",
            "protocol = \"multiring\" needs its networks; describe each: [[network]] and below it id = 1, and \
             [[network.node]] for each node",
        ),
        (Protocol::MultiRing, true) | (_, false) => {}
        (_, true) => root.wrong("network", "[[network]] goes with protocol = \"multiring\" only; list each [[node]]"),
    }
}

/// The nodes of all networks, each with its address in the first of its own.
pub fn nodes(networks: &[NetworkSettings]) -> Vec<NodeAddress> {
    let mut seen = BTreeSet::new();
    networks.iter().flat_map(|network| &network.nodes).filter(|node| seen.insert(node.id)).copied().collect()
}

fn network(section: &mut Section<'_, '_>, cluster: &str, before: &[NetworkSettings]) -> Option<NetworkSettings> {
    let id = section.number("id", 1..=u8::MAX);
    let id = section.require("id", id, "give the network a number of its own: id = 1");
    let taken = id.filter(|id| before.iter().any(|other| other.id == *id));
    if let Some(id) = taken {
        section.wrong("id", format!("{id} is taken by an earlier [[network]]; give each its own"));
    }
    let (nodes, delay) = (Vec::new(), section.duration_in("delay", Duration::ZERO..=DELAY_MOST).unwrap_or_default());
    let mut own = NetworkSettings { id: id.unwrap_or_default(), nodes, multicast: None, delay };
    section.each("node", |section| {
        let Some(node) = addresses::node(section) else { return };
        let refusal = refusal(&node, &own, before);
        // Where a node stands is clear though its address is not.
        if refusal.as_ref().is_none_or(|(key, _)| *key == "address") {
            own.nodes.push(node);
        }
        if let Some((key, text)) = refusal {
            section.wrong(key, text);
        }
    });
    let found = (!own.nodes.is_empty()).then_some(());
    let remedy = "list who stands there: [[network.node]] with id = 1 and address = \"192.0.2.11\" below it";
    section.require("node", found, remedy);
    own.multicast = addresses::multicast(section, &format!("{cluster}, network {}", own.id), &own.nodes);
    let same = |other: &&NetworkSettings| own.multicast.is_some() && other.multicast == own.multicast;
    if let Some(other) = before.iter().find(same) {
        section.wrong("multicast", format!("network {} has this group and port; give each its own", other.id));
    }
    (id.is_some() && taken.is_none()).then_some(own)
}

/// Why a node cannot stand in a network besides those that were described before it: about which key, and what to do.
fn refusal(node: &NodeAddress, own: &NetworkSettings, before: &[NetworkSettings]) -> Option<(&'static str, String)> {
    let (id, here) = (node.id.0, own.id);
    if own.has(node.id) {
        return Some(("id", format!("node {id} stands in network {here} already; describe it there once")));
    }
    let all: Vec<&NetworkSettings> = before.iter().chain([own]).collect();
    let places = all.iter().flat_map(|network| network.nodes.iter().map(|other| (network.id, other)));
    if let Some((network, other)) = places.into_iter().find(|(_, other)| addresses::meet(other, node)) {
        let text = match other.id == node.id {
            true => format!("node {id} is there in network {network} too; it has an address of its own in each"),
            false => {
                format!(
                    "shares a port with node {} of network {network}; each takes its own and the next one",
                    other.id.0
                )
            }
        };
        return Some(("address", text));
    }
    None
}

/// The first network, and one to which no nodes lead from there.
fn apart(networks: &[NetworkSettings]) -> Option<(u8, u8)> {
    let first = networks.first()?;
    let (mut reached, mut nodes) = (BTreeSet::from([first.id]), BTreeSet::<NodeId>::new());
    loop {
        let before = reached.len();
        for network in networks {
            if reached.contains(&network.id) || network.nodes.iter().any(|node| nodes.contains(&node.id)) {
                reached.insert(network.id);
                nodes.extend(network.nodes.iter().map(|node| node.id));
            }
        }
        if reached.len() == before {
            return networks.iter().find(|network| !reached.contains(&network.id)).map(|apart| (first.id, apart.id));
        }
    }
}

impl Settings {
    /// The networks, with what follows where nothing is said of them; none where the protocol has one only.
    pub fn all_networks(&self) -> Vec<NetworkSettings> {
        match self.protocol {
            Protocol::MultiRing if self.networks.is_empty() => {
                without_a_file(&self.cluster, u16::try_from(self.nodes.len()).unwrap_or(u16::MAX))
            }
            Protocol::MultiRing => self.networks.clone(),
            _ => Vec::new(),
        }
    }

    /// The settings of Totem's multiple rings: what rings have in common is set in one place.
    pub fn multiring_config(&self) -> MultiRingConfig {
        let ring = |network: &NetworkSettings| RingNodes {
            id: RingNumber(network.id),
            nodes: network.nodes.iter().map(|node| node.id).collect(),
            delay: network.delay,
        };
        let mut config = MultiRingConfig::new(self.ring.me, self.all_networks().iter().map(ring).collect());
        config.ring = RingConfig { stamped: true, ..self.ring.clone() };
        // Those that nobody has set follow from the size of each ring.
        let set = self.ring.timers != RingTimeouts::lan(self.ring.members.len());
        config.timers = set.then_some(self.ring.timers);
        config
    }

    /// The nodes that stand in several networks.
    fn gateways(networks: &[NetworkSettings]) -> Vec<NodeId> {
        let count = |node: &NodeAddress| networks.iter().filter(|network| network.has(node.id)).count();
        nodes(networks).iter().filter(|node| count(node) > 1).map(|node| node.id).collect()
    }

    /// Where nodes are in each network, which all nodes must share.
    pub(super) fn shared_networks(&self) -> Vec<(String, String)> {
        let mut networks = self.all_networks();
        networks.sort_unstable_by_key(|network| network.id);
        let mut shared = Vec::new();
        for NetworkSettings { id, mut nodes, multicast, delay } in networks {
            nodes.sort_unstable_by_key(|node| node.id);
            let multicast = multicast.map_or_else(|| "off".into(), |group| group.to_string());
            shared.push((format!("multicast of network {id}"), multicast));
            if !delay.is_zero() {
                shared.push((format!("delay of network {id}"), format!("{delay:?}")));
            }
            let address =
                |node: &NodeAddress| (format!("address of node {} in network {id}", node.id.0), node.token.to_string());
            shared.extend(nodes.iter().map(address));
        }
        shared
    }

    pub(super) fn summary_of_networks(&self) -> String {
        let networks = self.all_networks();
        let gateways = Self::gateways(&networks);
        let joined = if gateways.is_empty() { String::new() } else { format!(" joined by {}", list(&gateways)) };
        let noun = if networks.len() == 1 { "ring" } else { "rings" };
        format!("multiring with {} {noun}{joined}", networks.len())
    }

    pub(super) fn validate_networks(&self) -> Result<(), (&'static str, String)> {
        let config = self.for_engines().multiring_config();
        config.validate().map_err(|error| match error.setting {
            "ring.id" | "ring.nodes" | "ring.delay" | "node" => ("network", error.problem),
            other => (other, error.problem),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    /// Two networks of two nodes, which node 3 joins.
    const GOOD: &str = "\
[[network]]
id = 1
[[network.node]]
id = 1
address = \"192.0.2.1\"
[[network.node]]
id = 2
address = \"192.0.2.2\"
[[network.node]]
id = 3
address = \"192.0.2.3\"
[[network]]
id = 2
multicast = \"239.192.9.9:6000\"
[[network.node]]
id = 3
address = \"198.51.100.3:5000\"
interface = \"198.51.100.33\"
[[network.node]]
id = 4
address = \"198.51.100.4:5000\"
[[network.node]]
id = 5
address = \"198.51.100.5:5000\"
";

    fn read(networks: &str) -> Result<Settings, String> {
        let text = format!("cluster = \"c\"\nprotocol = \"multiring\"\n{networks}");
        file::parse("f", &text).map_err(|failure| failure.message.replace("\n         ", "\n"))
    }

    fn node(id: u16, address: &str) -> String {
        format!("[[network.node]]\nid = {id}\naddress = \"{address}\"\n")
    }

    #[test]
    fn networks_are_read_with_their_nodes_and_addresses() {
        let settings = read(GOOD).unwrap();
        let config = settings.multiring_config();
        let nodes: Vec<_> = config.rings.iter().map(|ring| (ring.id.0, list(&ring.nodes))).collect();
        assert_eq!(nodes, [(1, "1 2 3".to_owned()), (2, "3 4 5".to_owned())]);
        assert_eq!((list(&config.ring.members).as_str(), config.timers), ("1 2 3 4 5", None));
        let [first, second] = &settings.networks[..] else { panic!("there are two") };
        assert_eq!((first.multicast.unwrap().port(), second.multicast), (4843, "239.192.9.9:6000".parse().ok()));
        let gateway = second.nodes[0];
        assert_eq!((gateway.token, gateway.data.port()), ("198.51.100.3:5000".parse().unwrap(), 5001));
        assert_eq!((gateway.interface, settings.nodes.len()), ([198, 51, 100, 33].into(), 5));
        assert_eq!(settings.nodes[2].token.ip(), std::net::IpAddr::from([192, 0, 2, 3]), "its first address");
        let summary = settings.summary();
        assert!(summary.starts_with("5 nodes, multiring with 2 rings joined by 3, multicast 239."), "{summary}");
        assert!(summary.contains(" and 239.192.9.9:6000, datagrams of"), "{summary}");
        assert!(settings.is_exposed() && settings.validate().is_ok());
    }

    #[test]
    fn what_is_set_of_a_token_ring_holds_for_each() {
        let config =
            read(&format!("{GOOD}[ring]\ntoken_loss = \"1s\"\nglobal_window = 999\n")).unwrap().multiring_config();
        let ring = config.of_ring(&config.rings[0]);
        assert_eq!((ring.timers.token_loss.as_millis(), ring.windows.global), (1_000, 999));
        let plain = read(GOOD).unwrap().multiring_config();
        assert_eq!(plain.of_ring(&plain.rings[0]).timers, RingTimeouts::lan(3));
    }

    #[test]
    fn a_network_whose_nodes_are_far_apart_has_longer_timers_and_others_have_not() {
        //= TM06 test
        let far = GOOD.replace("id = 2\nmulticast", "id = 2\ndelay = \"50ms\"\nmulticast");
        let settings = read(&far).unwrap();
        settings.validate().unwrap();
        let config = settings.multiring_config();
        let begun = |ring: usize| config.of_ring(&config.rings[ring]).timeouts(3, Duration::ZERO);
        assert_eq!(begun(0), RingTimeouts::lan(3));
        let timers = begun(1);
        assert_eq!(timers, RingTimeouts::lan(3).far(3, Duration::from_millis(50)));
        assert!(timers.token_loss > Duration::from_millis(3 * 3 * 50));
        assert_ne!(settings.hash(), read(GOOD).unwrap().hash(), "all must say the same");
        for most in ["1s", "0s", "250ms"] {
            read(&far.replace("50ms", most)).unwrap().validate().unwrap();
        }
        let wrong = |delay: &str| read(&far.replace("\"50ms\"", delay)).unwrap_err();
        assert!(wrong("\"2s\"").contains(": network.delay: "), "{}", wrong("\"2s\""));
        assert!(wrong("50").contains(": network.delay: "), "{}", wrong("50"));
    }

    #[test]
    fn where_nodes_are_is_shared_and_the_order_of_networks_is_not() {
        let hash = |networks: &str| read(networks).unwrap().hash();
        let (front, back) = GOOD.split_at(GOOD.find("[[network]]\nid = 2").unwrap());
        assert_eq!(hash(GOOD), hash(&format!("{back}{front}")));
        for (from, to) in [
            ("198.51.100.4:5000", "198.51.100.4:5010"),
            ("239.192.9.9:6000", "off"),
            ("192.0.2.2", "192.0.2.22"),
            ("id = 5", "id = 6"),
        ] {
            assert_ne!(hash(GOOD), hash(&GOOD.replace(from, to)), "{from}");
        }
        assert_eq!(hash(GOOD), hash(&GOOD.replace("198.51.100.33", "198.51.100.34")), "that is its own affair");
    }

    #[test]
    fn without_a_file_two_networks_have_nodes_in_both() {
        let rings = |nodes| {
            let mut settings = Settings::local("test", nodes);
            settings.protocol = Protocol::MultiRing;
            settings.validate().unwrap();
            let rings = settings.multiring_config().rings;
            rings.iter().map(|ring| list(&ring.nodes)).collect::<Vec<_>>()
        };
        assert_eq!((rings(1), rings(2)), (vec!["1".to_owned()], vec!["1 2".to_owned()]));
        assert_eq!((rings(3), rings(5)), (vec!["1 2".into(), "2 3".into()], vec!["1 2 3 4".into(), "3 4 5".into()]));
        assert_eq!(rings(4), ["1 2 3", "2 3 4"]);
        let networks = without_a_file("test", 5);
        let hosts: BTreeSet<_> = networks.iter().map(|network| network.nodes[0].token.ip()).collect();
        assert!(hosts.len() == 2 && hosts.iter().all(std::net::IpAddr::is_loopback));
        assert_ne!(networks[0].multicast, networks[1].multicast);
    }

    #[test]
    fn there_may_be_several_ways_from_one_network_to_another() {
        //= TM01 test
        let twice = read(&format!("{GOOD}{}", node(1, "198.51.100.1"))).unwrap();
        assert!(twice.summary().starts_with("5 nodes, multiring with 2 rings joined by 1 3, "), "{}", twice.summary());
        let third = format!("{GOOD}[[network]]\nid = 7\n{}{}", node(5, "203.0.113.5"), node(2, "203.0.113.2"));
        assert!(read(&third).unwrap().validate().is_ok());
    }

    #[test]
    fn what_is_wrong_with_a_network_is_told_with_line_and_remedy() {
        let problem = |networks: &str| read(networks).unwrap_err();
        let with = |lines: &str| problem(&format!("{GOOD}{lines}"));
        assert_eq!(
            with(&format!("[[network]]\nid = 2\n{}", node(6, "203.0.113.6"))),
            "f:28: network.id: 2 is taken by an earlier [[network]]; give each its own"
        );
        assert_eq!(
            with(&format!("[[network]]\nid = 3\n{}", node(6, "203.0.113.6"))),
            "f:27: network: network 3 is apart from network 1: no node leads from one to the other; let one stand in both"
        );
        assert_eq!(
            with(&node(4, "198.51.100.44")),
            "f:28: network.node.id: node 4 stands in network 2 already; describe it there once"
        );
        assert_eq!(
            problem(&GOOD.replace("198.51.100.3:5000", "192.0.2.3")),
            "f:19: network.node.address: node 3 is there in network 1 too; it has an address of its own in each"
        );
        assert!(
            problem(&GOOD.replace("198.51.100.4:5000", "192.0.2.1"))
                .starts_with("f:23: network.node.address: shares a port with node 1 of network 1; each takes")
        );
        let twice = format!("multicast = \"239.192.9.9:6000\"\n{}{}", node(5, "203.0.113.5"), node(6, "203.0.113.6"));
        assert!(
            with(&format!("[[network]]\nid = 3\n{twice}"))
                .contains("network.multicast: network 2 has this group and port; give each its own")
        );
        assert!(problem("[[network]]\nid = 1\n").contains("network.node: is missing; list who stands there"));
        assert!(problem("[[network]]\nid = 0\n").contains("network.id: 0 is out of range; give a whole number from 1"));
        assert!(problem("[[network]]\n").contains("network.id: is missing; give the network a number of its own"));
        assert!(
            with("[[network]]\nid = 3\nnods = 1\n").contains("network.nods: there is no such key; did you mean node")
        );
        assert!(with("[[network.node]]\nid = 6\n").contains("network.node.address: is missing; say where the node is"));
        assert!(with("[[network.node]]\nid = 6\naddress = \"x\"\n").contains("\"x\" is not an IPv4 address"));
        assert!(with("[[node]]\nid = 9\naddress = \"192.0.2.9\"\n").contains("each node stands below its own: write"));
        assert!(problem(&format!("multicast = \"off\"\n{GOOD}")).contains("multicast: where there are networks each"));
        assert!(with("[[ring]]\nid = 1\n").contains("ring: [[ring]] goes with protocol = \"multiring-paxos\""));
        assert!(with("[limits]\nmessage = 1_000_000_000\n").contains("message"));
        let nodes = "[[node]]\nid = 1\naddress = \"192.0.2.1\"\n";
        assert!(problem(nodes).starts_with("f:1: network: protocol = \"multiring\" needs its networks; describe each"));
        let ring = read(GOOD).map(drop).and(read(&format!("[ring]\nprotocol = \"original\"\n{GOOD}")).map(drop));
        assert_eq!(ring, Ok(()));
        let other = file::parse("f", &format!("cluster = \"c\"\n{GOOD}")).unwrap_err().message;
        assert!(other.contains("network: [[network]] goes with protocol = \"multiring\" only"), "{other}");
    }
}
