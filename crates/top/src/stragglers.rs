//! Who holds the others back: slow members, ways that do not pass, clients that do not read.
use crate::figures::bytes;
use crate::look::{DaemonLook, Look, Told};
use crate::peers::{self, PeerStatus};
use consort_session::SlowPolicy;
use consort_session::listing::Connection;
use serde::Serialize;

/// A client for whom more waits is behind: daemons begin to wait for it.
const BEHIND: u64 = 256 << 10;
/// A node that says where it is five times a second, and was not heard for so long, is silent.
const SILENT_MS: u64 = 1_000;

/// Somebody that others wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldBack {
    /// `daemon`, `member`, `way`, `membership`, `quorum` or `client`.
    pub kind: &'static str,
    /// A node (`n3`), or a client's private name (`#bob#n1`).
    pub who: String,
    /// What is seen of it.
    pub why: String,
}

/// All that is seen in a look, the worst first.
pub fn of(look: &Look) -> Vec<HeldBack> {
    let answers = || look.daemons.iter().filter_map(|daemon| Some((daemon.node, daemon.told.as_ref().ok()?)));
    let mut found: Vec<HeldBack> = look.daemons.iter().filter_map(gone).collect();
    found.extend(answers().filter_map(|(node, told)| waits(node, told)));
    found.extend(answers().flat_map(|(node, told)| ways(node, told)));
    let mut clients: Vec<(u64, HeldBack)> = answers().flat_map(|(node, told)| clients(node, told)).collect();
    clients.sort_by_key(|(waiting, _)| std::cmp::Reverse(*waiting));
    found.extend(clients.into_iter().map(|(_, client)| client));
    found
}

fn gone(daemon: &DaemonLook) -> Option<HeldBack> {
    let why = daemon.told.as_ref().err()?.clone();
    Some(HeldBack { kind: "daemon", who: format!("n{}", daemon.node), why })
}

fn waits(node: u16, told: &Told) -> Option<HeldBack> {
    let cause = told.status.get("requests_wait_for")?;
    if let Some(slow) = cause.strip_prefix("slow:") {
        let why = format!("requests at n{node} wait for it: it lacks what was sent before");
        return Some(HeldBack { kind: "member", who: slow.into(), why });
    }
    if let Some(slow) = cause.strip_prefix("slow_client:") {
        let why = format!("requests at n{node} wait for it: it does not read, and its groups wait until it does");
        return Some(HeldBack { kind: "client", who: slow.into(), why });
    }
    if cause == "quorum" {
        let why = told.status.get("ready").map_or("too few acceptors run and vote", String::as_str);
        return Some(HeldBack { kind: "quorum", who: format!("n{node}"), why: why.to_owned() });
    }
    if let Some(ring) = cause.strip_prefix("ring:") {
        let trouble = told.status.get("trouble").map_or("it has no majority of its acceptors", String::as_str);
        let why = format!("requests at n{node} wait for it: {trouble}");
        return Some(HeldBack { kind: "ring", who: ring.into(), why });
    }
    if cause == "retention" {
        let full = told.status.get("log_full").map_or("the log is full", String::as_str);
        return Some(HeldBack { kind: "log", who: format!("n{node}"), why: full.to_owned() });
    }
    let why = "requests wait until the daemons agree on who is there".to_owned();
    (cause == "membership").then(|| HeldBack { kind: "membership", who: format!("n{node}"), why })
}

/// A node that does not run holds nobody back: who is not heard counts only as long as it is in the view.
fn ways(node: u16, told: &Told) -> Vec<HeldBack> {
    let members = told.members();
    let bad = |peer: PeerStatus| {
        let why = if let Some(why) = peer.dropped {
            format!("n{node} drops what it says: {why}")
        } else if peer.kept_out {
            format!("n{node} keeps it out for a while")
        } else {
            match peer.heard_ms_ago {
                None if members.contains(&peer.node) => format!("n{node} never heard it"),
                Some(ms) if ms > SILENT_MS && members.contains(&peer.node) => {
                    format!("n{node} has not heard it for {ms} ms")
                }
                Some(0..=SILENT_MS) if !peer.hears_us => format!("it does not hear n{node}"),
                _ => return None,
            }
        };
        Some(HeldBack { kind: "way", who: format!("n{}", peer.node), why })
    };
    peers::of(&told.status).into_iter().filter_map(bad).collect()
}

fn clients(node: u16, told: &Told) -> impl Iterator<Item = (u64, HeldBack)> {
    let behind = move |client: &Connection| {
        let name = client.name.as_ref().map_or_else(|| client.client.to_string(), ToString::to_string);
        let done = match client.slow {
            SlowPolicy::Disconnect => String::new(),
            SlowPolicy::Spool => format!(", {} of them on disk", bytes(client.spooled)),
            SlowPolicy::Demote => ", and it leaves its groups if they are too many".to_owned(),
            SlowPolicy::Block => ", and its groups wait if they are too many".to_owned(),
        };
        let why = format!("{} wait for it to read them{done}", bytes(client.waiting));
        (client.waiting > BEHIND)
            .then(|| (client.waiting, HeldBack { kind: "client", who: format!("#{name}#n{node}"), why }))
    };
    told.clients.0.iter().filter_map(behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{client, look};

    #[test]
    fn nobody_is_named_where_all_is_well() {
        assert_eq!(of(&look(0)), []);
    }

    #[test]
    fn the_slow_the_silent_and_those_that_do_not_read_are_named_with_what_is_seen() {
        let mut look = look(0);
        look.daemons[1].told = Err("no answer within 5 s".into());
        let told = look.daemons[0].told.as_mut().unwrap();
        told.status.insert("requests_wait_for".into(), "slow:n3".into());
        told.status.insert("peer_n2".into(), "heard 4200 ms ago, hears us".into());
        told.status.insert("peer_n3".into(), "heard 3 ms ago, does not hear us, kept out for a while".into());
        told.clients.0 = vec![client("ann", 300 << 10), client("bob", 5 << 20), client("eve", 256 << 10)];
        let named: Vec<_> =
            of(&look).into_iter().map(|held| format!("{} {}: {}", held.kind, held.who, held.why)).collect();
        assert_eq!(
            named,
            [
                "daemon n2: no answer within 5 s",
                "member n3: requests at n1 wait for it: it lacks what was sent before",
                "way n2: n1 has not heard it for 4200 ms",
                "way n3: n1 keeps it out for a while",
                "client #bob#n1: 5.0 MiB wait for it to read them",
                "client #ann#n1: 300.0 KiB wait for it to read them",
            ]
        );
    }

    #[test]
    fn a_client_is_named_with_what_is_done_about_it() {
        let mut look = look(0);
        let told = look.daemons[0].told.as_mut().unwrap();
        told.status.insert("requests_wait_for".into(), "slow_client:c7@n3".into());
        let spooled = Connection { slow: SlowPolicy::Spool, spooled: 3 << 20, ..client("bob", 5 << 20) };
        told.clients.0 = vec![spooled, Connection { slow: SlowPolicy::Block, ..client("ann", 1 << 20) }];
        let named: Vec<_> = of(&look).into_iter().map(|held| format!("{}: {}", held.who, held.why)).collect();
        assert_eq!(
            named,
            [
                "c7@n3: requests at n1 wait for it: it does not read, and its groups wait until it does",
                "#bob#n1: 5.0 MiB wait for it to read them, 3.0 MiB of them on disk",
                "#ann#n1: 1.0 MiB wait for it to read them, and its groups wait if they are too many",
            ]
        );
    }

    #[test]
    fn a_ring_without_a_majority_is_named_with_what_it_lacks() {
        let mut look = look(0);
        let told = look.daemons[0].told.as_mut().unwrap();
        told.status.insert("requests_wait_for".into(), "ring:3".into());
        told.status.insert(
            "trouble".into(),
            "ring 3: 2 of 3 acceptors must run and vote, and 1 does: n4 n5 do not answer".into(),
        );
        let held = &of(&look)[0];
        let why =
            "requests at n1 wait for it: ring 3: 2 of 3 acceptors must run and vote, and 1 does: n4 n5 do not answer";
        assert_eq!((held.kind, &*held.who, &*held.why), ("ring", "3", why));
    }

    #[test]
    fn a_node_that_does_not_run_holds_nobody_back() {
        let mut look = look(0);
        let told = look.daemons[0].told.as_mut().unwrap();
        told.status.insert("members".into(), "n1.17 n2.17".into());
        for said in ["never heard", "heard 90000 ms ago, does not hear us", "heard 90000 ms ago, hears us"] {
            look.daemons[0].told.as_mut().unwrap().status.insert("peer_n3".into(), said.into());
            assert_eq!(of(&look), [], "{said}");
        }
        look.daemons[0]
            .told
            .as_mut()
            .unwrap()
            .status
            .insert("peer_n3".into(), "heard 9 ms ago, does not hear us".into());
        assert_eq!(of(&look)[0].why, "it does not hear n1");
    }

    #[test]
    fn requests_that_wait_for_their_turn_name_nobody() {
        let mut look = look(0);
        let told = look.daemons[0].told.as_mut().unwrap();
        told.status.insert("requests_wait_for".into(), "window".into());
        assert_eq!(of(&look), []);
        let told = look.daemons[0].told.as_mut().unwrap();
        told.status.insert("requests_wait_for".into(), "membership".into());
        assert_eq!(of(&look)[0].kind, "membership");
        let told = look.daemons[0].told.as_mut().unwrap();
        let ready = "2 of 3 acceptors must run and vote, and 1 does: n2 n3 do not answer";
        told.status.extend([("requests_wait_for", "quorum"), ("ready", ready)].map(|(k, v)| (k.into(), v.into())));
        assert_eq!((of(&look)[0].kind, of(&look)[0].why.as_str()), ("quorum", ready));
    }
}
