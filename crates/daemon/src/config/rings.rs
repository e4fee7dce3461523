//! The rings of Multi-Ring Paxos, `[[ring]]`, and which groups live on which.
use super::protocol::{ON_BUDGET_UNUSED, STORAGES};
use super::reader::Section;
use super::{NodeAddress, Protocol, Settings, Storage, list};
use consort_multiring_paxos::{Config as MultiRingPaxosConfig, Reads, Ring, RingId};
use consort_node::streams::{GroupStreams, StreamGroups, overlap};
use consort_ring::Policy;
use consort_types::{GroupName, NodeId, OrderStream};

/// What is set of one ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingSettings {
    /// Its number, from 1.
    pub id: u8,
    /// Who votes in it; where nothing is said the first up to seven nodes, an odd number of them.
    pub acceptors: Option<Vec<NodeId>>,
    /// The groups that live there, by name or by the beginning of names and a `*`. Without any it takes its share of those
    /// that no ring names.
    pub groups: Vec<String>,
    /// Whether it takes messages to groups of several rings.
    pub global: bool,
}

/// A command that starts a cluster without a file gives it these: two that share all groups, and a global one.
fn without_a_file() -> Vec<RingSettings> {
    let ring = |id| RingSettings { id, global: id == 1, ..RingSettings::default() };
    (1..=3).map(ring).collect()
}

/// Reads every `[[ring]]`, and says where the protocol wants them and there is none, or the other way round.
pub fn read(root: &mut Section<'_, '_>, protocol: Protocol, nodes: &[NodeAddress]) -> Vec<RingSettings> {
    let mut rings: Vec<RingSettings> = Vec::new();
    let is_list = root.is_list("ring");
    match (protocol, is_list) {
        (Protocol::MultiRingPaxos, false) => root.wrong(
            "ring",
            "protocol = \"multiring-paxos\" needs its rings; describe each: [[ring]] and below it id = 1",
        ),
        (Protocol::MultiRingPaxos, true) => {
            root.each("ring", |section| {
                let ring = ring(section, &rings, nodes);
                rings.extend(ring);
            });
            if !rings.is_empty() && !streams(&rings).take_all() {
                let text =
                    "none takes groups that no ring names; leave `groups` out below one, or make one global = true";
                root.wrong("ring", text);
            }
        }
        (Protocol::MultiRing, true) => root.wrong(
            "ring",
            "[[ring]] goes with protocol = \"multiring-paxos\"; the rings of \"multiring\" are described by [[network]]",
        ),
        (_, true) => root.wrong(
            "ring",
            "[[ring]] goes with protocol = \"multiring-paxos\"; what is set of a token ring stands below [ring]",
        ),
        (_, false) => {}
    }
    rings
}

fn ring(section: &mut Section<'_, '_>, before: &[RingSettings], nodes: &[NodeAddress]) -> Option<RingSettings> {
    let id = section.number("id", 1..=u8::MAX);
    let id = section.require("id", id, "give the ring a number of its own: id = 1");
    if let Some(id) = id.filter(|id| before.iter().any(|other| other.id == *id)) {
        section.wrong("id", format!("{id} is taken by an earlier [[ring]]; give each its own"));
    }
    let acceptors = acceptors(section, nodes);
    storage(section);
    let groups = section.texts("groups", pattern);
    if groups.as_ref().is_some_and(Vec::is_empty) {
        section.wrong("groups", "names none; leave it out for a share of all groups that no ring names");
    }
    let groups = groups.unwrap_or_default();
    if let Some((own, other, theirs)) = overlapping(&groups, before) {
        section.wrong("groups", format!("\"{own}\" overlaps \"{theirs}\" of ring {other}; a group lives on one ring"));
    }
    let global = section.switch("global").unwrap_or(false);
    if let Some(other) = before.iter().find(|other| global && other.global) {
        section.wrong("global", format!("ring {} is global already; only one can be", other.id));
    }
    Some(RingSettings { id: id?, acceptors, groups, global })
}

fn acceptors(section: &mut Section<'_, '_>, nodes: &[NodeAddress]) -> Option<Vec<NodeId>> {
    let given: Vec<_> = section.numbers("acceptors", 1..=u16::MAX)?.into_iter().map(NodeId).collect();
    let twice = given.iter().enumerate().find(|(at, node)| given[..*at].contains(node));
    let stranger = given.iter().find(|node| nodes.iter().all(|other| other.id != **node));
    if ![1, 3, 5, 7].contains(&given.len()) {
        section.wrong("acceptors", format!("{} of them; use 1, 3, 5 or 7", given.len()));
    } else if let Some((_, node)) = twice {
        section.wrong("acceptors", format!("node {} is named twice; name each once", node.0));
    } else if let Some(node) = stranger {
        let known: Vec<_> = nodes.iter().map(|node| node.id).collect();
        section.wrong("acceptors", format!("{} is no node; name configured ones: {}", node.0, list(&known)));
    }
    Some(given)
}

fn storage(section: &mut Section<'_, '_>) {
    if let Some(storage) = section.choice("storage", &STORAGES).filter(|storage| *storage != Storage::Memory) {
        section.wrong("storage", only_memory(storage));
    }
}

fn only_memory(storage: Storage) -> String {
    let name = storage.name();
    format!("\"{name}\" is not possible with many rings yet; write \"memory\", or take protocol = \"paxos\"")
}

fn pattern(text: &str) -> Result<String, String> {
    let front = text.strip_suffix('*').unwrap_or(text);
    let is_name = text == "*" || GroupName::new(front.as_bytes()).is_ok();
    if is_name && !front.contains('*') {
        return Ok(text.to_owned());
    }
    Err(format!("\"{text}\" is no group's name, nor the beginning of one and a * behind it"))
}

/// A pattern of these that overlaps one of another ring: that ring, and its pattern.
fn overlapping<'a>(groups: &'a [String], before: &'a [RingSettings]) -> Option<(&'a str, u8, &'a str)> {
    let theirs = || before.iter().flat_map(|ring| ring.groups.iter().map(|pattern| (ring.id, pattern)));
    groups.iter().find_map(|own| {
        let (id, other) = theirs().find(|(_, other)| overlap(own, other))?;
        Some((own.as_str(), id, other.as_str()))
    })
}

fn streams(rings: &[RingSettings]) -> GroupStreams {
    let stream = |ring: &RingSettings| StreamGroups {
        stream: OrderStream(ring.id.into()),
        name: format!("ring {}", ring.id),
        patterns: ring.groups.clone(),
        global: ring.global,
    };
    GroupStreams::new(rings.iter().map(stream).collect())
}

impl Settings {
    /// The rings, with what follows where nothing is said of them.
    fn all_rings(&self) -> Vec<RingSettings> {
        if self.rings.is_empty() { without_a_file() } else { self.rings.clone() }
    }

    /// Which groups live on which ring; on none where the protocol has one order only.
    pub fn group_streams(&self) -> GroupStreams {
        match self.protocol {
            Protocol::MultiRingPaxos => streams(&self.all_rings()),
            _ => GroupStreams::default(),
        }
    }

    /// Multi-Ring Paxos' settings: what it shares with Ring Paxos is set in one place.
    pub fn multiring_paxos_config(&self) -> MultiRingPaxosConfig {
        let (paxos, rings) = (self.paxos_config(), self.all_rings());
        let ring = |ring: &RingSettings| Ring {
            id: RingId(ring.id),
            acceptors: ring.acceptors.clone().unwrap_or_else(|| paxos.acceptors.clone()),
        };
        let mut config = MultiRingPaxosConfig::new(paxos.me, paxos.members.clone(), rings.iter().map(ring).collect());
        let home = rings.iter().find(|ring| ring.global).or_else(|| rings.iter().min_by_key(|ring| ring.id));
        config.global = home.map_or(config.global, |ring| RingId(ring.id));
        config.reads = self.paxos.reads.unwrap_or_default();
        if let Some(retain) = self.paxos.retain {
            config.paxos.retain = (retain / rings.len().max(1)).max(config.paxos.value);
        }
        config.paxos.retain_for = paxos.retain_for;
        config.paxos.message_max = paxos.message_max;
        config.paxos.queue_bytes = paxos.queue_bytes;
        config
    }

    /// What of the rings all nodes must share beside what the engine says.
    pub(super) fn shared_rings(&self) -> Vec<(String, String)> {
        let streams = self.group_streams();
        let told = streams.iter().map(|stream| {
            let groups = match (stream.patterns.as_slice(), stream.global) {
                ([], true) => "of several rings".into(),
                ([], false) => "a share".into(),
                (patterns, true) => format!("{}, and of several rings", patterns.join(" ")),
                (patterns, false) => patterns.join(" "),
            };
            (format!("groups of {}", stream.name), groups)
        });
        told.collect()
    }

    pub(super) fn summary_of_rings(&self) -> String {
        let rings = self.all_rings();
        let global = rings
            .iter()
            .find(|ring| ring.global)
            .map_or("none global".into(), |ring| format!("ring {} global", ring.id));
        let (bytes, keep) = self.sessions_retain;
        let reads = match self.paxos.reads.unwrap_or_default() {
            Reads::Groups if bytes == 0 || keep.is_zero() => "reads those of its groups",
            Reads::All | Reads::Groups => "reads all",
        };
        format!("multiring-paxos with {} rings, {global}, {reads}, storage memory", rings.len())
    }

    pub(super) fn validate_rings(&self) -> Result<(), (&'static str, String)> {
        if self.from_file && self.ring.primary != Policy::Majority {
            let remedy = "with protocol = \"multiring-paxos\" the majority of the acceptors is primary; leave it out";
            return Err(("primary", remedy.into()));
        }
        if let Some(storage) = self.paxos.storage.filter(|storage| *storage != Storage::Memory) {
            return Err(("paxos.storage", only_memory(storage)));
        }
        if self.paxos.on_budget.is_some() {
            return Err(("paxos.on_budget", ON_BUDGET_UNUSED.into()));
        }
        let config = self.multiring_paxos_config();
        let most = consort_net::LINK_MESSAGE_MAX - consort_multiring_paxos::packet::HEADER;
        if self.ring.message_max > most {
            let (given, most) = (self.limits.message_max, most >> 20);
            let problem = format!("{given} bytes; with protocol = \"multiring-paxos\" use less than {most} MiB");
            return Err(("limits.message", problem));
        }
        config.validate().map_err(|error| (error.setting, error.problem))
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn text(rings: &str) -> String {
        let node = |id: u16| format!("[[node]]\nid = {id}\naddress = \"192.0.2.{id}\"\n");
        let nodes: String = (1..=3).map(node).collect();
        format!("cluster = \"c\"\nprotocol = \"multiring-paxos\"\n{nodes}{rings}")
    }

    fn read(rings: &str) -> Result<Settings, String> {
        file::parse("f", &text(rings)).map_err(|failure| failure.message.replace("\n         ", "\n"))
    }

    const GOOD: &str = "[[ring]]\nid = 1\nglobal = true\n[[ring]]\nid = 2\nacceptors = [1]\ngroups = [\"eu.*\", \"stock\"]\n\
                        [[ring]]\nid = 3\nacceptors = [3, 1, 2]\nstorage = \"memory\"\n[[ring]]\nid = 4\n";

    fn ring_of(settings: &Settings, group: &str) -> u16 {
        settings.group_streams().of(group.as_bytes()).0
    }

    #[test]
    fn rings_are_read_with_their_acceptors_and_groups() {
        let settings = read(GOOD).unwrap();
        let config = settings.multiring_paxos_config();
        assert_eq!((settings.protocol, config.global, config.rings.len()), (Protocol::MultiRingPaxos, RingId(1), 4));
        let acceptors: Vec<_> = config.rings.iter().map(|ring| list(&ring.acceptors)).collect();
        assert_eq!(acceptors, ["1 2 3", "1", "3 1 2", "1 2 3"]);
        assert_eq!((ring_of(&settings, "eu.orders"), ring_of(&settings, "stock")), (2, 2));
        let shared: std::collections::BTreeSet<_> =
            (0..50).map(|at| ring_of(&settings, &format!("group {at}").replace(' ', "-"))).collect();
        assert_eq!(shared, [3, 4].into(), "those that name none share the rest");
        assert_eq!(settings.summary().split(", ").nth(1), Some("multiring-paxos with 4 rings"));
        assert_eq!(config.paxos.storage, Storage::Memory);
    }

    #[test]
    fn where_groups_live_is_shared_and_its_order_is_not() {
        let hash = |rings: &str| read(rings).unwrap().hash();
        let other = GOOD.replace("eu.*", "us.*");
        assert_ne!(hash(GOOD), hash(&other));
        let (front, back) = GOOD.split_at(GOOD.find("[[ring]]\nid = 3").unwrap());
        assert_eq!(hash(GOOD), hash(&format!("{back}{front}")));
        assert_ne!(hash(GOOD), hash(&GOOD.replace("acceptors = [1]\n", "")));
    }

    #[test]
    fn what_the_nodes_retain_is_shared_by_the_rings() {
        let config = read(&format!("{GOOD}[paxos]\nretain = 8_388_608\n")).unwrap().multiring_paxos_config();
        assert_eq!(config.paxos.retain, 2 << 20);
    }

    #[test]
    fn daemons_read_all_rings_or_those_of_their_groups() {
        let all = read(GOOD).unwrap();
        let apart = read(&format!("{GOOD}[paxos]\nreads = \"groups\"\n")).unwrap();
        let spared = read(&format!("{GOOD}[paxos]\nreads = \"groups\"\n[sessions]\nretain = 0\n")).unwrap();
        let reads = |settings: &Settings| settings.multiring_paxos_config().reads;
        assert_eq!([&all, &apart, &spared].map(reads), [Reads::All, Reads::Groups, Reads::Groups]);
        assert_eq!(all.hash(), read(&format!("{GOOD}[paxos]\nreads = \"all\"\n")).unwrap().hash());
        assert_ne!(all.hash(), apart.hash(), "who sees to the order of senders is for all to know");
        assert_eq!(apart.hash(), spared.hash(), "what a daemon retains is its own");
        let told = |settings: &Settings| settings.summary().split(", ").nth(3).unwrap_or_default().to_owned();
        assert_eq!([&all, &apart, &spared].map(told), ["reads all", "reads all", "reads those of its groups"]);
        let problem = read(&format!("{GOOD}[paxos]\nreads = \"some\"\n")).unwrap_err();
        assert!(problem.contains("paxos.reads: \"some\" is not known; choose all or groups"), "{problem}");
        let text = text("[paxos]\nreads = \"groups\"\n").replace("multiring-paxos", "paxos");
        let one = file::parse("f", &text).unwrap_err().message;
        assert!(one.contains("paxos.reads: there is one ring; leave it out"), "{one}");
    }

    #[test]
    fn rings_without_a_global_one_have_their_views_on_the_first() {
        let settings = read("[[ring]]\nid = 7\n[[ring]]\nid = 5\ngroups = [\"a*\"]\n").unwrap();
        assert_eq!(settings.multiring_paxos_config().global, RingId(5));
        assert_eq!((ring_of(&settings, "a1"), ring_of(&settings, "b1")), (5, 7));
    }

    #[test]
    fn what_is_wrong_with_a_ring_is_told_with_line_and_remedy() {
        let problem = |rings: &str| read(rings).unwrap_err();
        let first = "[[ring]]\nid = 1\nglobal = true\n[[ring]]\nid = 2\ngroups = [\"ab*\"]\n";
        let third = |lines: &str| problem(&format!("{first}[[ring]]\nid = 3\n{lines}\n"));
        assert_eq!(
            problem(&format!("{first}[[ring]]\nid = 2\n")),
            "f:19: ring.id: 2 is taken by an earlier [[ring]]; give each its own"
        );
        assert_eq!(
            third("groups = [\"a*\"]"),
            "f:20: ring.groups: \"a*\" overlaps \"ab*\" of ring 2; a group lives on one ring"
        );
        assert!(third("groups = [\"abc\"]").contains("\"abc\" overlaps \"ab*\" of ring 2"));
        assert_eq!(third("global = true"), "f:20: ring.global: ring 1 is global already; only one can be");
        assert_eq!(third("acceptors = [1, 2]"), "f:20: ring.acceptors: 2 of them; use 1, 3, 5 or 7");
        assert!(third("acceptors = []").contains("ring.acceptors: 0 of them"));
        assert!(third("acceptors = [1, 2, 2]").contains("node 2 is named twice; name each once"));
        assert_eq!(third("acceptors = [1, 2, 9]"), "f:20: ring.acceptors: 9 is no node; name configured ones: 1 2 3");
        assert_eq!(
            third("storage = \"sync\""),
            "f:20: ring.storage: \"sync\" is not possible with many rings yet; write \"memory\", or take protocol = \"paxos\""
        );
        assert!(
            third("storage = \"disk\"").contains("f:20: ring.storage: \"disk\" is not known; choose memory, async")
        );
        assert!(
            third("groups = [\"a b\"]").contains("f:20: ring.groups: \"a b\" is no group's name, nor the beginning")
        );
        assert!(third("groups = [\"a*b\"]").contains("\"a*b\" is no group's name"));
        assert!(third("groups = []").contains("f:20: ring.groups: names none; leave it out"));
        assert!(third("group = \"a\"").contains("f:20: ring.group: there is no such key; did you mean groups?"));
        assert!(problem("[[ring]]\n").contains("ring.id: is missing; give the ring a number of its own: id = 1"));
        assert!(problem("[[ring]]\nid = 256\n").contains("ring.id: 256 is out of range"));
        assert!(
            problem("[[ring]]\nid = 1\n[paxos]\nstorage = \"async\"\n").contains("paxos.storage: \"async\" is not")
        );
    }

    #[test]
    fn a_group_without_a_ring_and_rings_without_their_protocol_are_told() {
        let unnamed = read("[[ring]]\nid = 1\ngroups = [\"a*\"]\n[[ring]]\nid = 2\ngroups = [\"b*\"]\n").unwrap_err();
        assert_eq!(
            unnamed,
            "f:15: ring: none takes groups that no ring names; leave `groups` out below one, or make one global = true"
        );
        assert!(read("[[ring]]\nid = 1\ngroups = [\"*\"]\n").is_ok());
        let none = read("").unwrap_err();
        assert!(
            none.contains("ring: protocol = \"multiring-paxos\" needs its rings; describe each: [[ring]]"),
            "{none}"
        );
        let token = read("[ring]\nhold = \"10ms\"\n").unwrap_err();
        assert!(token.starts_with("f:12: ring: protocol = \"multiring-paxos\" needs its rings"), "{token}");
        let text = text(GOOD).replace("multiring-paxos", "paxos");
        let other = file::parse("f", &text).unwrap_err().message;
        assert!(other.contains("ring: [[ring]] goes with protocol = \"multiring-paxos\""), "{other}");
        let policy = text.replace("\"paxos\"", "\"multiring-paxos\"\nprimary = \"node 2\"");
        let policy = file::parse("f", &policy).unwrap_err().message;
        assert!(policy.contains("primary: with protocol = \"multiring-paxos\" the majority"), "{policy}");
    }

    #[test]
    fn a_cluster_without_a_file_has_two_rings_and_a_global_one() {
        let mut settings = Settings::local("test", 3);
        settings.protocol = Protocol::MultiRingPaxos;
        assert_eq!(settings.validate(), Ok(()));
        assert!(settings.summary().contains("multiring-paxos with 3 rings, ring 1 global, reads all, storage memory"));
        settings.paxos.storage = Some(Storage::Sync);
        let (setting, problem) = settings.validate().unwrap_err();
        assert_eq!(
            (setting, problem.contains("not possible with many rings yet")),
            ("paxos.storage", true),
            "{problem}"
        );
    }
}
