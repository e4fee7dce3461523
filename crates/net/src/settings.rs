//! Nodes whose settings differ ignore each other: here they tell each other in what. Pure: time is handed in.
use bytes::Bytes;
use consort_types::{ConfigHash, Duration, Instant, NodeId};
use consort_wire::Identity;
use consort_wire::path_mtu::{self, SettingsNotice};
use std::collections::BTreeMap;

/// So long what a node told is remembered.
const REMEMBERED: Duration = Duration::from_secs(5);
/// So long differences are gathered before people are told, since not all fit into one packet.
const GATHERING: Duration = Duration::from_secs(3);
/// People are told no more often of one node.
const PAUSE: Duration = Duration::from_secs(60);
/// So many nodes, and differences of each, are kept: anybody may make them up.
const MOST: usize = 16;

/// This node's shared settings, and what others said of theirs.
#[derive(Debug)]
pub(crate) struct SharedSettings {
    lines: Vec<(String, String)>,
    next: usize,
    /// Datagrams of other settings that had come when they were counted last.
    foreign: u64,
    strangers: BTreeMap<NodeId, Stranger>,
    /// When people were told of a node last.
    told: BTreeMap<NodeId, Instant>,
}

#[derive(Debug)]
struct Stranger {
    config: ConfigHash,
    since: Instant,
    heard: Instant,
    /// What it has where this node has something else.
    differ: BTreeMap<String, String>,
}

impl SharedSettings {
    pub(crate) fn new(lines: Vec<(String, String)>) -> Self {
        Self { lines, next: 0, foreign: 0, strangers: BTreeMap::new(), told: BTreeMap::new() }
    }

    /// The next packet that tells of this node's settings; none if nothing is known of them.
    //= W12
    pub(crate) fn packet(&mut self, identity: &Identity) -> Option<Bytes> {
        let (packet, taken) = path_mtu::seal_settings(identity, self.lines.get(self.next..)?);
        self.next = if self.next + taken < self.lines.len() { self.next + taken } else { 0 };
        (taken > 0).then_some(packet)
    }

    /// A node told some of its settings.
    pub(crate) fn take(&mut self, now: Instant, mine: ConfigHash, node: NodeId, told: SettingsNotice) {
        //= W13
        self.strangers.retain(|_, stranger| now.since(stranger.heard) < REMEMBERED);
        if told.config == mine {
            self.strangers.remove(&node);
            return;
        }
        if self.strangers.len() >= MOST && !self.strangers.contains_key(&node) {
            return;
        }
        let new = || Stranger { config: told.config, since: now, heard: now, differ: BTreeMap::new() };
        let stranger = self.strangers.entry(node).or_insert_with(new);
        if stranger.config != told.config {
            *stranger = new();
        }
        stranger.heard = now;
        for (key, value) in told.lines {
            let mine = self.lines.iter().find(|(name, _)| *name == key);
            if mine.is_none_or(|(_, mine)| path_mtu::shortened(mine) != value) && stranger.differ.len() < MOST {
                stranger.differ.insert(key, value);
            }
        }
    }

    /// Whether a node of other settings was heard lately; `foreign` datagrams of such have come so far.
    pub(crate) fn hears_stranger(&mut self, now: Instant, foreign: u64) -> bool {
        let more = foreign > std::mem::replace(&mut self.foreign, foreign);
        more || self.differences(now).next().is_some()
    }

    /// In what the settings of those differ that were heard lately.
    pub(crate) fn differences(&self, now: Instant) -> impl Iterator<Item = (NodeId, String)> {
        let lately = self.strangers.iter().filter(move |(_, stranger)| now.since(stranger.heard) < REMEMBERED);
        lately.map(|(node, stranger)| (*node, self.words(stranger)))
    }

    /// What is to be told to people.
    pub(crate) fn news(&mut self, now: Instant) -> Vec<(NodeId, String)> {
        let due = |node: &NodeId| {
            let gathered = self.strangers.get(node).is_some_and(|stranger| now.since(stranger.since) >= GATHERING);
            gathered && self.told.get(node).is_none_or(|at| now.since(*at) >= PAUSE)
        };
        let news: Vec<_> = self.differences(now).filter(|(node, _)| due(node)).collect();
        self.told.retain(|_, at| now.since(*at) < PAUSE);
        self.told.extend(news.iter().map(|(node, _)| (*node, now)));
        news
    }

    fn words(&self, stranger: &Stranger) -> String {
        let mine = |key: &str| self.lines.iter().find(|(name, _)| name == key);
        let told = stranger.differ.iter().map(|(key, theirs)| match mine(key) {
            Some((_, mine)) => format!("{key} is {theirs} there and {mine} here"),
            None => format!("{key} is {theirs} there and unknown here"),
        });
        let told: Vec<_> = told.collect();
        match told.is_empty() {
            true => "its settings are not all known here".into(),
            false => told.join("; "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver_packets::tests::identity;
    use consort_wire::path_mtu::DriverPacket;

    fn lines(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Hands over what one node says of its settings, until it begins again.
    fn hand_over(from: &mut SharedSettings, config: u64, to: &mut SharedSettings, now: Instant) {
        let other = Identity { config: ConfigHash(config), ..identity(2) };
        for _ in 0..=from.lines.len() {
            let packet = from.packet(&other).unwrap();
            let (member, DriverPacket::Settings(told)) = path_mtu::open(&identity(0), &packet).unwrap() else {
                panic!("it tells of settings")
            };
            to.take(now, identity(0).config, member.node, told);
            if from.next == 0 {
                return;
            }
        }
        panic!("it never begins again");
    }

    #[test]
    fn what_differs_is_told_with_both_values_however_many_settings_there_are() {
        //= W12 test
        //= W13 test
        let node = |n: u16, port| (format!("node {n}"), format!("192.0.2.{n}:{port}"));
        let all: Vec<_> = (1..=200).map(|n| node(n, 4841)).chain(lines(&[("limits.message", "1000")])).collect();
        let mut others = all.clone();
        others[1] = node(2, 4851);
        others[200].1 = "2000".into();
        let (mut here, mut there) = (SharedSettings::new(all), SharedSettings::new(others));
        hand_over(&mut there, 9, &mut here, at(0));
        let text = "limits.message is 2000 there and 1000 here; node 2 is 192.0.2.2:4851 there and 192.0.2.2:4841 here";
        assert_eq!(here.differences(at(1)).collect::<Vec<_>>(), [(NodeId(2), text.to_owned())]);
        assert_eq!(here.news(at(2_999)), [], "more may come");
        assert_eq!(here.news(at(3_000)).len(), 1);
        hand_over(&mut there, 9, &mut here, at(30_000));
        assert_eq!(here.news(at(34_000)), [], "people were told");
        hand_over(&mut there, 9, &mut here, at(58_000));
        hand_over(&mut there, 9, &mut here, at(62_000));
        assert_eq!((here.news(at(63_000)).len(), here.differences(at(67_000)).count()), (1, 0));
    }

    #[test]
    fn who_has_the_same_settings_is_no_stranger_and_unknown_ones_are_named() {
        //= W13 test
        let mut here = SharedSettings::new(lines(&[("datagram", "1472")]));
        let mut there = SharedSettings::new(lines(&[("datagram", "1472"), ("shards", "3")]));
        hand_over(&mut there, 9, &mut here, at(0));
        let told: Vec<_> = here.differences(at(0)).collect();
        assert_eq!(told, [(NodeId(2), "shards is 3 there and unknown here".to_owned())]);
        hand_over(&mut there, 2, &mut here, at(1));
        assert_eq!(here.differences(at(1)).count(), 0);
        assert_eq!(SharedSettings::new(Vec::new()).packet(&identity(0)), None);
    }

    #[test]
    fn a_stranger_is_heard_by_what_it_tells_or_by_any_datagram_of_it() {
        //= W12 test
        let mut here = SharedSettings::new(lines(&[("datagram", "1472")]));
        assert!(!here.hears_stranger(at(0), 0));
        assert!(here.hears_stranger(at(100), 3) && !here.hears_stranger(at(200), 3));
        let mut there = SharedSettings::new(lines(&[("datagram", "1000")]));
        hand_over(&mut there, 9, &mut here, at(300));
        assert!(here.hears_stranger(at(5_299), 3) && !here.hears_stranger(at(5_300), 3));
    }

    #[test]
    fn what_somebody_makes_up_takes_no_room() {
        let mut here = SharedSettings::new(lines(&[("datagram", "1472")]));
        for n in 0..2_000_u16 {
            let lines = (0..50).map(|k| (format!("key {n} {k}"), "x".repeat(100))).collect();
            let told = SettingsNotice { config: ConfigHash(u64::from(n) + 9), lines };
            here.take(at(u64::from(n)), identity(0).config, NodeId(n % 300), told);
        }
        assert!(here.strangers.len() <= MOST && here.strangers.values().all(|stranger| stranger.differ.len() <= MOST));
        assert!(here.news(at(9_000)).len() <= MOST);
    }
}
