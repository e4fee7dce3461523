//! What two looks say. Its fields are those of `consort top --once --json`: docs/top.md.
use crate::look::{DaemonLook, Look, Told};
use crate::peers::{self, PeerStatus};
use crate::rates::Rates;
use crate::stragglers::{self, HeldBack};
use crate::words::{state, without_incarnations};
use consort_inquiry::story::{Story, ToldChange};
use consort_session::listing::{Connection, GroupEntry};
use serde::Serialize;
use std::collections::BTreeSet;

/// The version of the fields: a field that is there keeps its name and meaning as long as this number stays.
const VERSION: u32 = 1;

/// All of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Model {
    pub version: u32,
    pub cluster: String,
    /// Between the two looks; absent after one.
    pub interval_ms: Option<u64>,
    /// Those that were asked, by node.
    pub daemons: Vec<DaemonRow>,
    /// Nodes that are known by what others say only.
    pub others: Vec<OtherRow>,
    pub groups_total: u32,
    /// The first thousand by name.
    pub groups: Vec<GroupRow>,
    pub clients_total: u32,
    /// The first thousand of each daemon.
    pub clients: Vec<ClientRow>,
    /// The worst first.
    pub held_back_by: Vec<HeldBack>,
    /// As the daemon with the lowest node was told them, oldest first.
    pub changes: Vec<ToldChange>,
}

/// A daemon that was asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DaemonRow {
    pub node: u16,
    pub address: String,
    pub pid: Option<u32>,
    /// Why it does not answer; absent if it does, and all that follows is meant then.
    pub problem: Option<String>,
    pub protocol: String,
    pub state: String,
    /// `yes`, or why it does not take part in full.
    pub ready: String,
    pub view: String,
    /// `yes`, `pending`, `no` or `no policy`.
    pub primary: String,
    /// Its view's members (`n1`).
    pub members: Vec<String>,
    /// What requests of clients wait for, if they do for long: `window`, `membership` or `slow:nN`.
    pub requests_wait_for: Option<String>,
    pub clients: u32,
    pub groups: u64,
    pub rates: Option<Rates>,
    /// Of the token's last rotation, where a ring orders.
    pub rotation_us: Option<u64>,
    /// Of messages that wait for their place.
    pub queued_bytes: Option<u64>,
    /// That wait for clients to read them.
    pub unread_bytes: u64,
    pub resident_bytes: Option<u64>,
    pub peers: Vec<PeerStatus>,
}

/// A node of which others tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherRow {
    pub node: u16,
    /// Whether it is in the view of some daemon that was asked.
    pub in_view: bool,
    /// By whom it is heard.
    pub heard_by: Vec<u16>,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupRow {
    pub group: String,
    pub members: u32,
    pub closed: bool,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientRow {
    pub node: u16,
    pub client: u32,
    pub name: Option<String>,
    /// `native` or `spread`.
    pub listener: &'static str,
    pub transport: &'static str,
    pub state: &'static str,
    pub groups: u32,
    pub unread_bytes: u64,
    pub under_way_bytes: u32,
    pub credit_bytes: u32,
}

impl Model {
    /// What a look says, and what it says beside the one before.
    pub fn new(before: Option<&Look>, now: &Look) -> Self {
        let seconds = before.map(|before| now.at_ns.saturating_sub(before.at_ns) as f64 / 1e9);
        let told = || now.daemons.iter().filter_map(|daemon| daemon.told.as_ref().ok());
        let (groups, groups_total) = told().find_map(|told| told.groups.clone()).unwrap_or_default();
        let earlier = |daemon: &DaemonLook| {
            let same = |other: &&DaemonLook| other.address == daemon.address;
            before?.daemons.iter().find(same)?.told.as_ref().ok()
        };
        Self {
            version: VERSION,
            cluster: now.cluster.clone(),
            interval_ms: seconds.map(|seconds| (seconds * 1e3).round() as u64),
            daemons: now.daemons.iter().map(|daemon| row(daemon, earlier(daemon), seconds)).collect(),
            others: others(now),
            groups_total,
            groups: groups.iter().map(group).collect(),
            clients_total: told().map(|told| told.clients.1).sum(),
            clients: now.daemons.iter().flat_map(clients).collect(),
            held_back_by: stragglers::of(now),
            changes: changes(now),
        }
    }

    /// The sums of all daemons that tell rates; what is ordered is the same everywhere, so that is the most of all.
    pub fn rates(&self) -> Option<Rates> {
        self.daemons.iter().filter_map(|daemon| daemon.rates).reduce(|all, one| Rates {
            ordered_messages_per_s: all.ordered_messages_per_s.max(one.ordered_messages_per_s),
            ordered_bytes_per_s: all.ordered_bytes_per_s.max(one.ordered_bytes_per_s),
            taken_requests_per_s: all.taken_requests_per_s + one.taken_requests_per_s,
            delivered_messages_per_s: all.delivered_messages_per_s + one.delivered_messages_per_s,
            delivered_bytes_per_s: all.delivered_bytes_per_s + one.delivered_bytes_per_s,
            resent_packets_per_s: all.resent_packets_per_s + one.resent_packets_per_s,
        })
    }

    /// The first daemon that answers.
    pub fn speaker(&self) -> Option<&DaemonRow> {
        self.daemons.iter().find(|daemon| daemon.problem.is_none())
    }
}

fn row(daemon: &DaemonLook, before: Option<&Told>, seconds: Option<f64>) -> DaemonRow {
    let known = DaemonRow {
        node: daemon.node,
        address: daemon.address.clone(),
        pid: daemon.pid,
        resident_bytes: daemon.resident,
        ..DaemonRow::default()
    };
    let told = match &daemon.told {
        Ok(told) => told,
        Err(problem) => return DaemonRow { problem: Some(problem.clone()), ..known },
    };
    let text = |key: &str| told.status.get(key).cloned().unwrap_or_default();
    let number = |key: &str| told.status.get(key).and_then(|value| value.parse().ok());
    DaemonRow {
        protocol: text("protocol"),
        state: state(&text("state")),
        ready: text("ready"),
        view: without_incarnations(&text("view")),
        primary: text("primary"),
        members: text("members").split_whitespace().map(without_incarnations).collect(),
        requests_wait_for: told.status.get("requests_wait_for").cloned(),
        clients: told.clients.1,
        groups: number("groups").unwrap_or(0),
        rates: before.zip(seconds).and_then(|(before, seconds)| Rates::between(before, told, seconds)),
        rotation_us: number("rotation_us"),
        queued_bytes: number("queued_bytes"),
        unread_bytes: number("client_output_bytes").unwrap_or(0),
        peers: peers::of(&told.status),
        ..known
    }
}

/// Nodes that were not asked, but are members or peers of those that were.
fn others(look: &Look) -> Vec<OtherRow> {
    let asked: BTreeSet<u16> = look.daemons.iter().map(|daemon| daemon.node).collect();
    let told: Vec<(u16, &Told)> =
        look.daemons.iter().filter_map(|daemon| Some((daemon.node, daemon.told.as_ref().ok()?))).collect();
    let members: BTreeSet<u16> = told.iter().flat_map(|(_, told)| told.members()).collect();
    let peers = |told: &Told| peers::of(&told.status).into_iter();
    let known: BTreeSet<u16> = told.iter().flat_map(|(_, told)| peers(told).map(|peer| peer.node)).collect();
    let heard_by = |node: u16| {
        let hears = |told: &Told| peers(told).any(|peer| peer.node == node && peer.is_near());
        told.iter().filter(|(_, told)| hears(told)).map(|(by, _)| *by).collect()
    };
    let unasked = members.union(&known).filter(|node| !asked.contains(node));
    unasked.map(|node| OtherRow { node: *node, in_view: members.contains(node), heard_by: heard_by(*node) }).collect()
}

fn group(entry: &GroupEntry) -> GroupRow {
    GroupRow { group: entry.name.to_string(), members: entry.members, closed: entry.closed }
}

fn clients(daemon: &DaemonLook) -> impl Iterator<Item = ClientRow> {
    let node = daemon.node;
    let clients = daemon.told.iter().flat_map(|told| &told.clients.0);
    clients.map(move |connection| client(node, connection))
}

fn client(node: u16, connection: &Connection) -> ClientRow {
    ClientRow {
        node,
        client: connection.client.0,
        name: connection.name.as_ref().map(ToString::to_string),
        listener: if connection.client.speaks_spread() { "spread" } else { "native" },
        transport: connection.transport.name(),
        state: connection.stage.name(),
        groups: connection.groups,
        unread_bytes: connection.waiting,
        under_way_bytes: connection.under_way,
        credit_bytes: connection.credit,
    }
}

fn changes(look: &Look) -> Vec<ToldChange> {
    let told = look.daemons.iter().find_map(|daemon| daemon.told.as_ref().ok());
    let story = told.and_then(|told| Story::read(None, told.status.clone().into_iter().collect()));
    story.map_or_else(Vec::new, |story| story.changes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{look, model};

    #[test]
    fn rates_stand_beside_what_each_daemon_says() {
        let model = model();
        let rates: Vec<_> = model.daemons.iter().map(|daemon| daemon.rates.unwrap().ordered_messages_per_s).collect();
        assert_eq!(rates, [621_000.0; 2]);
        let all = model.rates().unwrap();
        assert_eq!((all.ordered_messages_per_s, all.taken_requests_per_s), (621_000.0, 414_000.0));
        assert_eq!(Model::new(None, &look(0)).rates(), None);
    }

    #[test]
    fn members_that_were_not_asked_are_told_of_by_the_others() {
        let others = model().others;
        assert_eq!(others, [OtherRow { node: 3, in_view: true, heard_by: vec![1, 2] }]);
    }

    #[test]
    fn a_daemon_that_went_away_keeps_its_row_with_the_reason() {
        let mut now = look(1);
        now.daemons[1].told = Err("cannot connect".into());
        let model = Model::new(Some(&look(0)), &now);
        assert_eq!(model.daemons[1].problem.as_deref(), Some("cannot connect"));
        assert_eq!((model.daemons[1].node, model.daemons[1].rates), (2, None));
        assert!(model.daemons[0].rates.is_some());
    }

    #[test]
    fn the_fields_for_programs_are_these() {
        let json = serde_json::to_value(model()).unwrap();
        let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(
            keys(&json),
            "changes clients clients_total cluster daemons groups groups_total held_back_by interval_ms others version"
        );
        assert_eq!(
            keys(&json["daemons"][0]),
            "address clients groups members node peers pid primary problem protocol queued_bytes rates ready \
             requests_wait_for resident_bytes rotation_us state unread_bytes view"
        );
        assert_eq!(
            keys(&json["daemons"][0]["rates"]),
            "delivered_bytes_per_s delivered_messages_per_s ordered_bytes_per_s ordered_messages_per_s \
             resent_packets_per_s taken_requests_per_s"
        );
        assert_eq!(keys(&json["others"][0]), "heard_by in_view node");
        assert_eq!(keys(&json["groups"][0]), "closed group members");
        assert_eq!(
            keys(&json["clients"][0]),
            "client credit_bytes groups listener name node state transport under_way_bytes unread_bytes"
        );
        assert_eq!(keys(&json["held_back_by"][0]), "kind who why");
        assert_eq!(keys(&json["changes"][0]), "came gone members ms_ago primary restarted view what why");
        assert_eq!(json["version"], 1);
    }
}
