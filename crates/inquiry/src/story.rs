//! What a daemon remembers, read from its status and told in sentences.
use crate::peers::{self, PeerStatus};
use crate::words::{self, state, without_incarnations};
use consort::{MemberId, NodeId, Primary, ViewId};
use consort_node::NetworkChange;
use serde::Serialize;
use std::collections::BTreeMap;

/// What one daemon tells of the network.
#[derive(Debug, Serialize)]
pub struct Story {
    /// The cluster's name, or its id where only that is known.
    pub cluster: String,
    /// The daemon's node.
    pub node: u16,
    /// What it does.
    pub state: String,
    /// Its view.
    pub view: String,
    /// `yes`, `pending`, `no` or `no policy`.
    pub primary: String,
    /// The view's members, with their incarnations.
    pub members: Vec<String>,
    /// Oldest first.
    pub changes: Vec<ToldChange>,
    /// Whom it hears.
    pub peers: Vec<PeerStatus>,
    /// Each ring, where there are many: its number, and how it stands.
    pub rings: Vec<(u16, String)>,
    /// Why the node is not ready, if it is not.
    pub unready: Option<String>,
    /// What keeps the node from taking part until a person does something, if anything does.
    pub trouble: Option<String>,
    /// That its disk takes no records, or hangs.
    pub disk: Option<String>,
    /// What clients' requests wait for, if they do.
    pub requests_wait_for: Option<String>,
    /// Whose messages wait because the log is full, if it is.
    pub log_full: Option<String>,
    /// How many bytes of the log are held, and how many may be for copies of programs, if there are any.
    pub log_held: Option<(u64, u64)>,
    /// Each program with copies, and how they are.
    pub copies: Vec<(String, String)>,
    /// Its clients that do not read, and what is done about them.
    pub slow_clients: Option<String>,
}

/// One change.
#[derive(Clone, Debug, Serialize)]
pub struct ToldChange {
    /// How long ago, in milliseconds.
    pub ms_ago: u64,
    /// `view`, `leaving` or `primary`.
    pub what: &'static str,
    /// Which view.
    pub view: String,
    /// Its members, with their incarnations.
    pub members: Vec<String>,
    /// `yes`, `pending`, `no` or `no policy`, where the change says it.
    pub primary: Option<&'static str>,
    /// Nodes that are in it and were not in the regular view before.
    pub came: Vec<u16>,
    /// Nodes that were in that and are not in it.
    pub gone: Vec<u16>,
    /// Nodes that are in both, in different incarnations.
    pub restarted: Vec<u16>,
    /// Why it came, where that is told.
    pub why: Option<String>,
    #[serde(skip)]
    change: NetworkChange,
    /// It is the oldest view that is remembered: what it replaced is not known.
    #[serde(skip)]
    oldest: bool,
}

impl Story {
    /// Reads a daemon's status; `None` if it does not tell of changes.
    pub fn read(cluster: Option<&str>, status: Vec<(String, String)>) -> Option<Self> {
        let changes = changes(&status);
        let status: BTreeMap<String, String> = status.into_iter().collect();
        let text = |key: &str| status.get(key).cloned().unwrap_or_default();
        (!changes.is_empty()).then(|| Self {
            cluster: cluster.map_or_else(|| text("cluster"), str::to_owned),
            node: text("node").trim_start_matches('n').parse().unwrap_or(0),
            state: text("state"),
            view: text("view"),
            primary: text("primary"),
            members: text("members").split_whitespace().map(str::to_owned).collect(),
            changes,
            peers: peers::of(&status),
            rings: rings(&status),
            unready: status.get("ready").filter(|ready| *ready != "yes").cloned(),
            trouble: status.get("trouble").cloned(),
            disk: status.get("disk").cloned(),
            requests_wait_for: status.get("requests_wait_for").cloned(),
            log_full: status.get("log_full").cloned(),
            log_held: log_held(&status),
            copies: copies(&status),
            slow_clients: status.get("slow_clients").cloned(),
        })
    }

    /// For people: the last changes in aligned lines, then how it stands now.
    pub fn lines(&self, last: usize) -> Vec<String> {
        let mut lines =
            vec![format!("Node {} of cluster {}, oldest change first:", self.node, self.cluster), "".into()];
        let told: Vec<[String; 3]> = self.changes.iter().filter_map(ToldChange::row).collect();
        let shown = &told[told.len().saturating_sub(last)..];
        let width = |column: usize| shown.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (when, view) = (width(0), width(1));
        for [ago, id, text] in shown {
            let mut texts = text.lines();
            lines.push(format!("  {ago:>when$}  {id:<view$}  {}", texts.next().unwrap_or_default()));
            lines.extend(texts.map(|text| format!("  {:when$}  {:view$}  {text}", "", "")));
        }
        lines.push(String::new());
        let now = Primary::from_word(&self.primary).map_or("", primary);
        lines.push(format!("Now {}; view {}{}.", state(&self.state), self.current(), now));
        lines.push(format!("Node {} {}.", self.node, peers::sentence(&self.peers)));
        lines.extend(self.rings.iter().map(|(ring, state)| format!("Ring {ring}: {state}.")));
        lines.extend(self.unready.iter().map(|why| format!("Not ready: {why}.")));
        lines.extend(self.trouble.iter().map(|trouble| format!("Trouble: {trouble}.")));
        lines.extend(self.disk.iter().map(|disk| format!("Disk: {disk}.")));
        lines.extend(self.requests_wait_for.iter().map(|cause| format!("Requests of its clients wait: {cause}.")));
        lines.extend(self.log_full.iter().map(|whose| format!("The log is full up to its budget: {whose}.")));
        lines.extend(self.log_held.iter().filter(|_| !self.copies.is_empty()).map(|(held, budget)| {
            format!("The log holds {held} bytes; its budget for copies of programs is {budget}.")
        }));
        lines.extend(self.copies.iter().map(|(program, state)| format!("Copies of {program}: {state}.")));
        lines.extend(self.slow_clients.iter().map(|slow| format!("Slow clients: {slow}.")));
        lines
    }

    fn current(&self) -> String {
        without_incarnations(&format!("{} of {}", self.view, self.members.join(" ")))
    }
}

impl ToldChange {
    /// When, which view, and what happened; a second line says why. Nothing for the closing of a view: the next one says
    /// who went on.
    fn row(&self) -> Option<[String; 3]> {
        let ago = format!("{} ago", span(self.ms_ago));
        match &self.change {
            NetworkChange::Leaving { .. } => None,
            NetworkChange::Primary { id } => {
                let text = "is primary now: all its members have installed it".to_owned();
                Some([ago, name(*id), text])
            }
            NetworkChange::View { id, members, primary: is, why } => {
                let nodes = words::nodes(members.iter().map(|member| member.node.0));
                let text = format!("{}: {}{}\nbecause {why}", self.news(), nodes, primary(*is));
                Some([ago, name(*id), text])
            }
        }
    }

    /// Who came and who went, in a few words.
    pub fn news(&self) -> String {
        let list = |nodes: &[u16]| nodes.iter().map(|node| format!("n{node}")).collect::<Vec<_>>().join(", ");
        let parts = [(&self.came, "came"), (&self.gone, "gone"), (&self.restarted, "back in a new incarnation")];
        let told: Vec<String> = parts
            .iter()
            .filter(|(nodes, _)| !nodes.is_empty())
            .map(|(nodes, how)| format!("{} {how}", list(nodes)))
            .collect();
        match told.is_empty() {
            true if self.oldest && self.why.as_deref() == Some("started") => "starts alone".into(),
            true if self.oldest => "the oldest it remembers".into(),
            true => "the same members".into(),
            false => told.join("; "),
        }
    }
}

/// The rows of rings in a status, by number.
pub fn rings(status: &BTreeMap<String, String>) -> Vec<(u16, String)> {
    let row = |(key, state): (&String, &String)| {
        let ring = key.strip_prefix("ring_")?.parse().ok()?;
        let sent_on = status.get(&format!("sends_on_{ring}"));
        let sent_on = sent_on.map_or_else(String::new, |what| format!("; sends on into it {what}"));
        Some((ring, format!("{state}{sent_on}")))
    };
    let mut rows: Vec<_> = status.iter().filter_map(row).collect();
    rows.sort_unstable();
    rows
}

/// The rows of programs with copies in a status, by name.
fn copies(status: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let row = |(key, state): (&String, &String)| Some((key.strip_prefix("copies_of_")?.to_owned(), state.clone()));
    status.iter().filter_map(row).collect()
}

fn log_held(status: &BTreeMap<String, String>) -> Option<(u64, u64)> {
    let count = |key: &str| status.get(key)?.parse().ok();
    Some((count("retained_bytes")?, count("retention_budget_bytes")?))
}

/// The changes in a status, in their order.
fn changes(status: &[(String, String)]) -> Vec<ToldChange> {
    let numbered = |(key, value): &(String, String)| {
        let number: usize = key.strip_prefix("change_")?.parse().ok()?;
        let (ms, text) = value.split_once(" ms ago: ")?;
        Some((number, ms.parse().ok()?, text.parse().ok()?))
    };
    let mut lines: Vec<(usize, u64, NetworkChange)> = status.iter().filter_map(numbered).collect();
    lines.sort_by_key(|(number, ..)| *number);
    let mut before: Option<Vec<MemberId>> = None;
    lines.into_iter().map(|(_, ms_ago, change)| told(ms_ago, change, &mut before)).collect()
}

/// Compares a change with the regular view before it. Of the oldest that is remembered that one is not known: then
/// nobody is said to have come.
fn told(ms_ago: u64, change: NetworkChange, before: &mut Option<Vec<MemberId>>) -> ToldChange {
    let (what, id, members, primary, why) = match &change {
        NetworkChange::View { id, members, primary, why } => {
            ("view", *id, members.clone(), Some(primary.word()), Some(why.clone()))
        }
        NetworkChange::Leaving { id, members } => ("leaving", *id, members.clone(), None, None),
        NetworkChange::Primary { id } => ("primary", *id, Vec::new(), Some(Primary::Yes.word()), None),
    };
    let mut told = ToldChange {
        ms_ago,
        what,
        view: id.to_string(),
        members: members.iter().map(ToString::to_string).collect(),
        primary,
        came: Vec::new(),
        gone: Vec::new(),
        restarted: Vec::new(),
        why,
        change,
        oldest: before.is_none(),
    };
    if what == "view" {
        if let Some(before) = before {
            told.compare(before, &members);
        }
        *before = Some(members);
    }
    told
}

impl ToldChange {
    fn compare(&mut self, before: &[MemberId], now: &[MemberId]) {
        let incarnation_in = |view: &[MemberId], node: NodeId| view.iter().copied().find(|member| member.node == node);
        for member in now {
            match incarnation_in(before, member.node) {
                None => self.came.push(member.node.0),
                Some(earlier) if earlier != *member => self.restarted.push(member.node.0),
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|member| incarnation_in(now, member.node).is_none());
        self.gone = gone.map(|member| member.node.0).collect();
    }
}

/// What is told of it behind the members; nothing where no policy asks.
const fn primary(is: Primary) -> &'static str {
    match is {
        Primary::Yes => "; primary",
        Primary::Pending => "; to be primary once all its members have installed it",
        Primary::No => "; not primary",
        Primary::NoPolicy => "",
    }
}

fn name(id: ViewId) -> String {
    format!("view {}@{}", id.number, id.representative.node)
}

/// A span in the two units that matter.
pub fn span(ms: u64) -> String {
    let (s, min, h) = (ms / 1_000, ms / 60_000, ms / 3_600_000);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", s, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{min} min {} s", s % 60),
        3_600_000..86_400_000 => format!("{h} h {} min", min % 60),
        _ => format!("{} d {} h", h / 24, h % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story() -> Story {
        let lines = [
            "72000 ms ago: view 1@n1.7 of n1.7, primary no (started)",
            "71900 ms ago: leaving view 1@n1.7 with n1.7",
            "71900 ms ago: view 5@n1.7 of n1.7 n2.8 n3.9, primary pending (started; n2, n3 joined)",
            "71899 ms ago: view 5@n1.7 is primary: all its members have installed it",
            "9040 ms ago: leaving view 5@n1.7 with n1.7 n3.9",
            "9040 ms ago: view 9@n1.7 of n1.7 n3.9, primary pending (token lost after 151 ms; n2 silent for 369 ms)",
            "810 ms ago: view 13@n1.7 of n1.7 n2.20 n3.10, primary no (n2 joined)",
        ];
        let mut status: Vec<(String, String)> =
            lines.iter().enumerate().map(|(at, line)| (format!("change_{at}"), (*line).to_owned())).collect();
        // Status is a list for programs; its order says nothing.
        status.reverse();
        let more = [
            ("node", "n1"),
            ("state", "operational: ring 13@n1.7 of 3, rotation 80µs"),
            ("view", "13@n1.7"),
            ("primary", "no"),
            ("members", "n1.7 n2.20 n3.10"),
            ("peer_n2", "heard 12 ms ago, hears us"),
            ("peer_n3", "never heard"),
        ];
        status.extend(more.map(|(key, value)| (key.to_owned(), value.to_owned())));
        Story::read(Some("prod"), status).unwrap()
    }

    #[test]
    fn the_changes_are_told_in_aligned_lines() {
        let wanted = "\
Node 1 of cluster prod, oldest change first:

  1 min 12 s ago  view 1@n1   starts alone: n1; not primary
                              because started
  1 min 11 s ago  view 5@n1   n2, n3 came: n1-n3; to be primary once all its members have installed it
                              because started; n2, n3 joined
  1 min 11 s ago  view 5@n1   is primary now: all its members have installed it
       9.0 s ago  view 9@n1   n2 gone: n1 n3; to be primary once all its members have installed it
                              because token lost after 151 ms; n2 silent for 369 ms
      810 ms ago  view 13@n1  n2 came; n3 back in a new incarnation: n1-n3; not primary
                              because n2 joined

Now operational; view 13@n1 of n1 n2 n3; not primary.
Node 1 hears both ways n2; never heard n3.";
        assert_eq!(story().lines(10).join("\n"), wanted);
        let last = story().lines(1);
        assert_eq!(last.len(), 7, "{last:?}");
        assert!(last[2].starts_with("  810 ms ago  view 13@n1  n2 came"), "{last:?}");
    }

    #[test]
    fn clients_that_do_not_read_are_named() {
        let mut told = story();
        let before = told.lines(10).len();
        told.slow_clients = Some("#bob#n1 has its groups wait for 300 ms, policy block: 70000 bytes wait".into());
        told.requests_wait_for = Some("slow_client:c2@n1".into());
        let lines = told.lines(10);
        assert_eq!(lines[before], "Requests of its clients wait: slow_client:c2@n1.");
        assert!(lines[before + 1].starts_with("Slow clients: #bob#n1 has its groups wait for 300 ms"), "{lines:?}");
    }

    #[test]
    fn copies_are_named_and_how_full_the_log_is() {
        let rows = [
            ("copies_of_kv.main.1", "kv.main.1/1 (s1) lacks 7 messages from 3 on"),
            ("copies_bound", "1"),
            ("retained_bytes", "4000"),
            ("retention_budget_bytes", "4096"),
        ];
        let status: BTreeMap<_, _> = rows.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let mut told = story();
        (told.copies, told.log_held) = (copies(&status), log_held(&status));
        let lines = told.lines(10);
        assert_eq!(
            lines[lines.len() - 2..],
            [
                "The log holds 4000 bytes; its budget for copies of programs is 4096.",
                "Copies of kv.main.1: kv.main.1/1 (s1) lacks 7 messages from 3 on."
            ]
        );
    }

    #[test]
    fn rings_are_told_by_number_and_their_counts_are_not() {
        let rows = [
            ("ring_10", "merged 1 of 1"),
            ("ring_2", "merged 3 of 9"),
            ("ring_wait_us_2", "7"),
            ("sends_on_10", "everything"),
        ];
        let status: BTreeMap<_, _> = rows.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let mut told = story();
        told.rings = rings(&status);
        let lines = told.lines(10);
        assert_eq!(
            lines[lines.len() - 2..],
            ["Ring 2: merged 3 of 9.", "Ring 10: merged 1 of 1; sends on into it everything."]
        );
    }

    #[test]
    fn without_a_policy_no_word_is_said_of_primary() {
        let status = [
            ("node", "n1"),
            ("primary", "no policy"),
            ("view", "1@n1.7"),
            ("change_0", "72 ms ago: view 1@n1.7 of n1.7, primary no policy (started)"),
        ];
        let told = Story::read(None, status.map(|(key, value)| (key.to_owned(), value.to_owned())).into()).unwrap();
        let lines = told.lines(10).join("\n");
        assert!(lines.contains("starts alone: n1\n") && !lines.contains("primary"), "{lines}");
        assert_eq!(serde_json::to_value(told).unwrap()["changes"][0]["primary"], "no policy");
    }

    #[test]
    fn programs_get_it_all() {
        let json = serde_json::to_value(story()).unwrap();
        assert_eq!(json["changes"].as_array().unwrap().len(), 7);
        assert_eq!((&json["changes"][5]["what"], &json["changes"][5]["gone"]), (&"view".into(), &vec![2].into()));
        assert_eq!(json["changes"][5]["primary"], "pending");
        assert_eq!(json["changes"][6]["members"][1], "n2.20");
        assert_eq!((&json["changes"][4]["what"], &json["changes"][4]["why"]), (&"leaving".into(), &().into()));
        assert_eq!(json["peers"][1]["heard_ms_ago"], serde_json::Value::Null);
    }

    #[test]
    fn a_status_without_changes_is_no_story() {
        let status =
            |value: &str| vec![("node".to_owned(), "n1".to_owned()), ("change_0".to_owned(), value.to_owned())];
        for value in ["", "soon", "7 ms ago: something else", "x ms ago: leaving view 1@n1.7 with n1.7"] {
            assert!(Story::read(None, status(value)).is_none(), "{value}");
        }
    }

    #[test]
    fn spans_read_well() {
        let spans = [9, 1_250, 59_999, 61_000, 3_600_000, 90_000_000].map(span);
        assert_eq!(spans, ["9 ms", "1.2 s", "59.9 s", "1 min 1 s", "1 h 0 min", "1 d 1 h"]);
    }
}
