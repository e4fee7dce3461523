//! `consort status`: how the daemons on this machine are doing.
use crate::args::Args;
use crate::columns;
use crate::connect::Wanted;
use crate::failure::{Failure, Outcome};
use crate::figures::bytes;
use crate::inquiry;
use crate::metrics;
use crate::peers;
use crate::runtime_dir::Card;
use crate::usage;
use crate::words::{standing, without_incarnations};
use consort::Address;
use consort_inquiry::story;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};

/// What `consort status --help` prints.
pub const HELP: &str = "\
Usage: consort status [options]

Asks every daemon on this machine how it is doing, and whom it hears.

  --cluster NAME   only the daemons of this cluster
  --node ID        only this node
  --daemon ADDR    only the daemon at this socket path or ADDRESS:PORT
  --all            every counter, one a line
  --json           print one JSON array, every counter in it as a number

VIEW is the ring: its number and the node that formed it. MEMBERS counts the
daemons in it, which order together; DELIVERED the messages handed to clients,
SENT AGAIN the packets that were retransmitted; MEMORY is what the daemon's
process has resident. `consort explain` tells why the view changed.
";

#[derive(Debug, Default)]
struct Options {
    wanted: Wanted,
    json: bool,
    all: bool,
}

/// One daemon.
#[derive(Debug, Serialize)]
struct DaemonStatus {
    cluster: String,
    node: u16,
    pid: Option<u32>,
    resident_bytes: Option<u64>,
    settings: String,
    address: String,
    listen: Vec<String>,
    /// What it tells itself; empty if it does not answer.
    #[serde(serialize_with = "with_numbers")]
    status: BTreeMap<String, String>,
    problem: Option<String>,
}

/// What is counted or measured as numbers, all else as it was told.
fn with_numbers<S: Serializer>(status: &BTreeMap<String, String>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(status.iter().map(|(key, told)| {
        let number = if metrics::is_number(key) { told.parse::<u64>().ok() } else { None };
        (key, number.map_or_else(|| Value::from(told.as_str()), Value::from))
    }))
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let options = read(words)?;
    let answers = ask(&options.wanted)?;
    print(&answers, &options)?;
    match answers.iter().find_map(|answer| answer.problem.clone()) {
        Some(problem) => Err(Failure::new(problem)),
        None => Ok(()),
    }
}

fn read(words: Vec<OsString>) -> Outcome<Options> {
    let mut options = Options::default();
    Args::only_options(words, HELP, |option, args| {
        match option {
            "--json" => options.json = true,
            "--all" => options.all = true,
            _ => return options.wanted.take(option, args),
        }
        Ok(true)
    })?;
    Ok(options)
}

fn ask(wanted: &Wanted) -> Outcome<Vec<DaemonStatus>> {
    match wanted.given() {
        Some(address) => Ok(vec![answer_of_stranger(address)?]),
        None => Ok(wanted.candidates()?.into_iter().map(answer).collect()),
    }
}

fn answer(card: Card) -> DaemonStatus {
    let (status, problem) = match inquiry::status(&Address::Unix(card.socket.clone())) {
        Ok(pairs) => (pairs.into_iter().collect(), None),
        Err(failure) => (BTreeMap::new(), Some(failure.message)),
    };
    DaemonStatus {
        cluster: card.cluster,
        node: card.node,
        pid: Some(card.pid),
        resident_bytes: usage::resident(card.pid),
        settings: card.summary,
        address: card.socket.display().to_string(),
        listen: card.listen,
        status,
        problem,
    }
}

/// A daemon known only by its address, perhaps on another machine.
fn answer_of_stranger(address: &Address) -> Outcome<DaemonStatus> {
    let status: BTreeMap<String, String> = inquiry::status(address)?.into_iter().collect();
    let text = |key: &str| status.get(key).cloned().unwrap_or_default();
    Ok(DaemonStatus {
        cluster: text("cluster"),
        node: text("node").trim_start_matches('n').parse().unwrap_or(0),
        pid: None,
        resident_bytes: None,
        settings: String::new(),
        address: address.to_string(),
        listen: Vec::new(),
        status,
        problem: None,
    })
}

fn print(answers: &[DaemonStatus], options: &Options) -> Outcome {
    let mut out = io::stdout();
    if options.json {
        writeln!(out, "{}", serde_json::to_string(answers).unwrap_or_default())?;
        return Ok(());
    }
    let remarks = [
        hearing(answers),
        rings(answers),
        registries(answers),
        plain_talk(answers),
        lacking_keys(answers),
        troubles(answers),
    ]
    .concat();
    for line in table(answers).iter().chain(&remarks) {
        writeln!(out, "{line}")?;
    }
    for answer in answers.iter().filter(|_| options.all) {
        writeln!(out, "\n{} node {}: {}", answer.cluster, answer.node, answer.settings)?;
        for (key, value) in &answer.status {
            writeln!(out, "  {key:<28} {value}")?;
        }
    }
    Ok(())
}

fn table(answers: &[DaemonStatus]) -> Vec<String> {
    let head = ["CLUSTER", "NODE", "PID", "VIEW", "MEMBERS", "CLIENTS", "DELIVERED", "SENT AGAIN", "MEMORY", "STATE"];
    columns::table(head, answers.iter().map(row))
}

fn row(answer: &DaemonStatus) -> [String; 10] {
    let text = |key: &str| answer.status.get(key).cloned().unwrap_or_else(|| "-".into());
    let members = answer.status.get("members").map_or(0, |members| members.split_whitespace().count());
    // Programs that read the order by position are clients, too.
    let counts = ["messages_delivered", "messages_read"].map(|key| answer.status.get(key)?.parse::<u64>().ok());
    let delivered = counts.into_iter().flatten().reduce(|one, other| one + other);
    let ready = answer.status.get("ready").map_or("", String::as_str);
    let state = answer.problem.clone().unwrap_or_else(|| standing(ready, &text("state")));
    [
        answer.cluster.clone(),
        answer.node.to_string(),
        answer.pid.map_or_else(|| "-".into(), |pid| pid.to_string()),
        without_incarnations(&text("view")),
        members.to_string(),
        text("clients"),
        delivered.map_or_else(|| "-".into(), |messages| messages.to_string()),
        text("retransmissions_sent"),
        answer.resident_bytes.map_or_else(|| "-".into(), bytes),
        state,
    ]
}

/// What keeps a daemon from taking part until a person does something, and what its disk does not take.
fn troubles(answers: &[DaemonStatus]) -> Vec<String> {
    let of = |answer: &DaemonStatus| {
        let (cluster, node) = (answer.cluster.clone(), answer.node);
        let said = ["trouble", "disk"].into_iter().filter_map(|key| answer.status.get(key).cloned());
        said.map(|said| format!("{cluster} node {node}: {said}")).collect::<Vec<_>>()
    };
    answers.iter().flat_map(of).collect()
}

/// Whom each daemon hears, a line each, behind an empty one. Nothing where there is nobody else.
fn hearing(answers: &[DaemonStatus]) -> Vec<String> {
    let heard = |answer: &DaemonStatus| {
        let peers = peers::of(&answer.status);
        let line = format!("{} node {} {}", answer.cluster, answer.node, peers::sentence(&peers));
        (!peers.is_empty()).then_some(line)
    };
    let lines: Vec<String> = answers.iter().filter_map(heard).collect();
    if lines.is_empty() { lines } else { [vec![String::new()], lines].concat() }
}

/// How each ring stands at each daemon, where there are many.
fn rings(answers: &[DaemonStatus]) -> Vec<String> {
    let row = |answer: &DaemonStatus| {
        let (cluster, node) = (answer.cluster.clone(), answer.node);
        let rows = story::rings(&answer.status).into_iter();
        rows.map(move |(ring, state)| format!("{cluster} node {node} ring {ring}: {state}"))
    };
    answers.iter().flat_map(row).collect()
}

/// How the registry is, where there is one, and what it advises of each ring.
fn registries(answers: &[DaemonStatus]) -> Vec<String> {
    let told = |answer: &DaemonStatus| {
        let front = format!("{} node {} registry:", answer.cluster, answer.node);
        let state = answer.status.get("registry").map(|state| format!("{front} {state}"));
        let advice = answer.status.iter().filter_map(|(key, what)| Some((key.strip_prefix("advice_")?, what)));
        let lines = advice.filter(|(_, what)| *what != "nothing");
        let lines = lines.map(|(ring, what)| format!("{front} of ring {ring}: {what}"));
        state.into_iter().chain(lines).collect::<Vec<_>>()
    };
    answers.iter().flat_map(told).collect()
}

/// Which daemons say everything in plain text over a network.
fn plain_talk(answers: &[DaemonStatus]) -> Vec<String> {
    let plain = |answer: &DaemonStatus| {
        let how = answer.status.get("security").filter(|how| how.starts_with("plain: "))?;
        Some(format!("{} node {}: datagrams between daemons travel {how}", answer.cluster, answer.node))
    };
    answers.iter().filter_map(plain).collect()
}

/// Who lacks a key, as far as each daemon knows.
fn lacking_keys(answers: &[DaemonStatus]) -> Vec<String> {
    let told = |answer: &DaemonStatus| {
        let lines = ["keys_lacking", "keys_apart"].into_iter().filter_map(|key| answer.status.get(key));
        lines.map(|who| format!("{} node {}: {who}", answer.cluster, answer.node)).collect::<Vec<_>>()
    };
    answers.iter().flat_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: &[(&str, &str)]) -> DaemonStatus {
        DaemonStatus {
            cluster: "default".into(),
            node: 1,
            pid: Some(4711),
            resident_bytes: Some(5 << 20),
            settings: String::new(),
            address: String::new(),
            listen: Vec::new(),
            status: status.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            problem: None,
        }
    }

    #[test]
    fn the_table_lines_up() {
        let answer = answer(&[
            ("members", "n1.5 n2.6"),
            ("messages_delivered", "7"),
            ("messages_read", "5"),
            ("clients", "4"),
            ("retransmissions_sent", "0"),
            ("view", "13@n1.5"),
            ("state", "operational: ring 13@n1.5 of 2, rotation 80µs"),
        ]);
        assert_eq!(
            table(&[answer]),
            [
                "CLUSTER  NODE  PID   VIEW   MEMBERS  CLIENTS  DELIVERED  SENT AGAIN  MEMORY   STATE",
                "default  1     4711  13@n1  2        4        12         0           5.0 MiB  operational"
            ]
        );
    }

    #[test]
    fn json_has_numbers_where_there_is_something_to_count() {
        let told = [("messages_delivered", "12"), ("cluster", "7"), ("sessions_ended_left", "3"), ("view", "13@n1.5")];
        let json = serde_json::to_value(answer(&told)).unwrap();
        let wanted =
            serde_json::json!({"cluster": "7", "messages_delivered": 12, "sessions_ended_left": 3, "view": "13@n1.5"});
        assert_eq!(json["status"], wanted);
    }

    #[test]
    fn while_a_ring_forms_the_state_says_what_it_waits_for() {
        let told = "gathering (token lost after 151 ms): waiting for n2 to agree";
        assert_eq!(row(&answer(&[("state", told)]))[9], told);
    }

    #[test]
    fn whom_a_daemon_hears_is_told_below_the_table() {
        let all = [answer(&[("peer_n2", "heard 3 ms ago, hears us"), ("peer_n3", "never heard")]), answer(&[])];
        assert_eq!(hearing(&all), ["", "default node 1 hears both ways n2; never heard n3"]);
        assert!(hearing(&all[1..]).is_empty());
    }

    #[test]
    fn each_ring_has_a_line() {
        let all = [answer(&[("ring_2", "merged 3 of 9, nothing waits"), ("ring_wait_us_2", "0")]), answer(&[])];
        assert_eq!(rings(&all), ["default node 1 ring 2: merged 3 of 9, nothing waits"]);
    }

    #[test]
    fn who_talks_plainly_over_a_network_is_told_so() {
        let all = ["plain: no key is configured", "plain, on this machine alone", "sealed with AES-256-GCM"];
        let all = all.map(|how| answer(&[("security", how)]));
        let told = "default node 1: datagrams between daemons travel plain: no key is configured";
        assert_eq!((plain_talk(&all), plain_talk(&[answer(&[])])), (vec![told.to_owned()], vec![]));
    }

    #[test]
    fn who_lacks_a_key_is_told() {
        let all =
            [answer(&[("keys_lacking", "n3 lacks the key of epoch 2")]), answer(&[("keys_apart", "n2 uses epoch 1")])];
        assert_eq!(
            lacking_keys(&all),
            ["default node 1: n3 lacks the key of epoch 2", "default node 1: n2 uses epoch 1"]
        );
        assert!(lacking_keys(&[answer(&[])]).is_empty());
    }

    #[test]
    fn every_option_that_help_shows_is_known() {
        assert_eq!(crate::args::shown_but_unknown(HELP, read), [""; 0]);
    }
}
