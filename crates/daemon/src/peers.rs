//! Whom a daemon hears, and who hears it: read from what it tells in its status.
use crate::words;
use serde::Serialize;
use std::collections::BTreeMap;

/// A node that says where it is five times a second, and was not heard for so long, is silent.
const SILENT_MS: u64 = 1_000;

/// What a daemon knows of the way to and from another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerStatus {
    /// Its number.
    pub node: u16,
    /// How long ago it was heard last; absent if never.
    pub heard_ms_ago: Option<u64>,
    /// Whether it says that it hears this daemon.
    pub hears_us: bool,
    /// Whether it is kept out for a while, because it broke rings.
    pub kept_out: bool,
    /// Why it is not heard although it speaks.
    pub dropped: Option<String>,
    /// The longest datagram that gets to it from this daemon, in bytes; absent while not known.
    pub passes_bytes: Option<u64>,
    /// The longest that the daemon sends.
    pub datagram_bytes: Option<u64>,
}

impl PeerStatus {
    /// Whether something came from it within the last second.
    pub fn is_near(&self) -> bool {
        self.heard_ms_ago.is_some_and(|ms| ms <= SILENT_MS)
    }
}

/// The peers that a status tells of, by node.
pub fn of(status: &BTreeMap<String, String>) -> Vec<PeerStatus> {
    let peer = |(key, value): (&String, &String)| read(key.strip_prefix("peer_n")?.parse().ok()?, value);
    let mut peers: Vec<PeerStatus> = status.iter().filter_map(peer).collect();
    for peer in &mut peers {
        let path = status.get(&format!("path_n{}", peer.node)).and_then(|text| read_path(text));
        (peer.passes_bytes, peer.datagram_bytes) = path.unzip();
        if let Some(what) = status.get(&format!("settings_n{}", peer.node)) {
            peer.dropped = Some(format!("its settings differ ({what}); make the files alike"));
        }
    }
    peers.sort_by_key(|peer| peer.node);
    peers
}

/// Reads `heard 12 ms ago, hears us`, `heard 12 ms ago, does not hear us, kept out for a while`, `never heard`, and
/// `heard, but dropped: ` with the reason.
fn read(node: u16, text: &str) -> Option<PeerStatus> {
    let never = PeerStatus {
        node,
        heard_ms_ago: None,
        hears_us: false,
        kept_out: false,
        dropped: None,
        passes_bytes: None,
        datagram_bytes: None,
    };
    if text == "never heard" {
        return Some(never);
    }
    if let Some(why) = text.strip_prefix("heard, but dropped: ") {
        return Some(PeerStatus { dropped: Some(why.into()), ..never });
    }
    let (ms, rest) = text.strip_prefix("heard ")?.split_once(" ms ago, ")?;
    let kept_out = rest.ends_with("kept out for a while");
    Some(PeerStatus { heard_ms_ago: Some(ms.parse().ok()?), hears_us: rest.starts_with("hears us"), kept_out, ..never })
}

/// Reads `datagrams up to 972 of 1472 bytes pass`.
fn read_path(text: &str) -> Option<(u64, u64)> {
    let (passes, all) = text.strip_prefix("datagrams up to ")?.strip_suffix(" bytes pass")?.split_once(" of ")?;
    Some((passes.parse().ok()?, all.parse().ok()?))
}

/// Which nodes do not get all datagrams, a text for each size: `gets only datagrams up to 972 of 1472 bytes through to n2`.
fn narrow(peers: &[PeerStatus]) -> Vec<String> {
    let mut nodes: BTreeMap<(u64, u64), Vec<u16>> = BTreeMap::new();
    for peer in peers {
        if let Some(sizes) = peer.passes_bytes.zip(peer.datagram_bytes).filter(|(passes, all)| passes < all) {
            nodes.entry(sizes).or_default().push(peer.node);
        }
    }
    let told = |((passes, all), nodes): (_, Vec<u16>)| {
        format!("gets only datagrams up to {passes} of {all} bytes through to {}", words::nodes(nodes.into_iter()))
    };
    nodes.into_iter().map(told).collect()
}

/// All in one line: `hears n2 n3 both ways; n5 does not hear it; never heard n4, n6-n8`.
pub fn sentence(peers: &[PeerStatus]) -> String {
    let silent = |peer: &PeerStatus| peer.heard_ms_ago.is_some() && !peer.is_near();
    let list =
        |fits: &dyn Fn(&PeerStatus) -> bool| words::nodes(peers.iter().filter(|peer| fits(peer)).map(|peer| peer.node));
    let parts = [
        ("hears both ways", list(&|peer| peer.is_near() && peer.hears_us)),
        ("is not heard by", list(&|peer| peer.is_near() && !peer.hears_us)),
        ("heard nothing for a second or longer of", list(&silent)),
        ("never heard", list(&|peer| peer.heard_ms_ago.is_none() && peer.dropped.is_none())),
        ("keeps out for a while", list(&|peer| peer.kept_out)),
    ];
    let told = parts.iter().filter(|(_, nodes)| !nodes.is_empty()).map(|(what, nodes)| format!("{what} {nodes}"));
    let dropped = peers.iter().filter_map(|peer| Some((peer.node, peer.dropped.as_ref()?)));
    let dropped = dropped.map(|(node, why)| format!("heard n{node}, but dropped what it said: {why}"));
    let told: Vec<String> = told.chain(dropped).chain(narrow(peers)).collect();
    if told.is_empty() { "knows of no other node".into() } else { told.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(peers: &[(&str, &str)]) -> BTreeMap<String, String> {
        peers.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn peers_are_read_in_the_order_of_their_numbers() {
        let status = status(&[
            ("peer_n10", "never heard"),
            ("peer_n2", "heard 12 ms ago, hears us"),
            ("peer_n3", "heard 2000 ms ago, does not hear us, kept out for a while"),
            ("peer_nx", "never heard"),
            ("peer_n4", "in some other words"),
            ("peers", "never heard"),
        ]);
        let (passes_bytes, datagram_bytes) = (None, None);
        let peer = |node, heard_ms_ago, hears_us, kept_out| PeerStatus {
            node,
            heard_ms_ago,
            hears_us,
            kept_out,
            dropped: None,
            passes_bytes,
            datagram_bytes,
        };
        let wanted = [peer(2, Some(12), true, false), peer(3, Some(2000), false, true), peer(10, None, false, false)];
        assert_eq!(of(&status), wanted);
    }

    #[test]
    fn the_sentence_sorts_peers_by_how_they_are_heard() {
        let mut lines = vec![("peer_n2", "heard 1 ms ago, hears us"), ("peer_n3", "heard 9 ms ago, does not hear us")];
        lines.extend(["peer_n4", "peer_n6", "peer_n7", "peer_n8"].map(|key| (key, "never heard")));
        lines.push(("peer_n5", "heard 1500 ms ago, does not hear us, kept out for a while"));
        assert_eq!(
            sentence(&of(&status(&lines))),
            "hears both ways n2; is not heard by n3; heard nothing for a second or longer of n5; \
             never heard n4 n6-n8; keeps out for a while n5"
        );
        assert_eq!(sentence(&[]), "knows of no other node");
        let other = status(&[("peer_n2", "never heard"), ("settings_n2", "datagram is 1000 there and 1472 here")]);
        let told = "heard n2, but dropped what it said: its settings differ (datagram is 1000 there and 1472 here); \
                    make the files alike";
        assert_eq!(sentence(&of(&other)), told);
        let dropped = status(&[("peer_n2", "heard, but dropped: incarnation 7 is older than 9")]);
        assert_eq!(sentence(&of(&dropped)), "heard n2, but dropped what it said: incarnation 7 is older than 9");
    }

    #[test]
    fn who_does_not_get_large_datagrams_is_told_with_what_passes() {
        let hears = |n: u16| (format!("peer_n{n}"), "heard 1 ms ago, hears us".to_owned());
        let mut status: BTreeMap<String, String> = (2..=6).map(hears).collect();
        for (node, path) in [
            (2, "datagrams up to 8900 of 8900 bytes pass"),
            (3, "datagrams up to 1472 of 8900 bytes pass"),
            (4, "datagrams up to 1472 of 8900 bytes pass"),
            (5, "datagrams up to 972 of 8900 bytes pass"),
            (6, "in some other words"),
        ] {
            status.insert(format!("path_n{node}"), path.into());
        }
        assert_eq!(
            sentence(&of(&status)),
            "hears both ways n2-n6; gets only datagrams up to 972 of 8900 bytes through to n5; \
             gets only datagrams up to 1472 of 8900 bytes through to n3 n4"
        );
        let peers = of(&status);
        assert_eq!(
            (peers[3].passes_bytes, peers[3].datagram_bytes, peers[4].passes_bytes),
            (Some(972), Some(8900), None)
        );
    }
}
