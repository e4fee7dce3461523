//! Clients that do not read what they are sent.
use std::time::{Duration, Instant};

use consort::{Client, ConnectOptions, Event, GroupName, Service, Status};

use super::outcome::{AT_REST, Figures};
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::watch::Beat;
use crate::chaos::fleet::address;
use consort_testbed::network::memory::mib;

/// How large a message is.
const LEN: usize = 16 << 10;
/// How long clients may take to be in the group, and messages to be sent.
const JOIN: Duration = Duration::from_secs(120);
const SEND: Duration = Duration::from_secs(60);
/// How long is watched after all was sent.
const AFTER: Duration = Duration::from_secs(5);

const BEAT: Beat = Beat { node: 1, every: Duration::from_millis(20), service: Service::Agreed };

pub fn three_hundred(site: &Site<'_>) -> Result<Figures, String> {
    deaf(site, 300, 60 << 20)
}

pub fn thousand(site: &Site<'_>) -> Result<Figures, String> {
    deaf(site, 1_000, 40 << 20)
}

/// So many clients of the first daemon are in a group to which a client of the second sends so many bytes.
fn deaf(site: &Site<'_>, count: usize, bytes: usize) -> Result<Figures, String> {
    let all = [0, 1, 2];
    with(site, &Setup { hosts: Hosts::Together, nodes: 3, first: &all, beat: BEAT, protocol: "ring" }, |stage| {
        let group = GroupName::new(b"deaf").map_err(text)?;
        let mut clients = connected(stage, count, &group)?;
        let began = Instant::now();
        let joined = read_until_joined(stage, &mut clients)?;
        let join = began.elapsed();
        stage.pass(Duration::from_secs(2))?;
        let before = stage.figures(&all, 0);
        stage.mark(&all);
        let sent = send(stage, &group, bytes / LEN)?;
        stage.pass(AFTER)?;
        let mut figures = stage.figures(&all, 0);
        let settings = stage.settings()?;
        figures.budget = (settings.limits.outputs_max + settings.shared_memory) as u64 + AT_REST;
        println!(
            "\n{count} clients of daemon 1 read nothing of {} MiB.\n{}",
            bytes >> 20,
            table(stage, figures.budget)?
        );
        let waits = status(stage, 0)?.counter("client_output_bytes").unwrap_or(0);
        figures.wants(waits >= (count * bytes / 2) as u64, || format!("{} MiB wait for them: they read", mib(waits)));
        figures.notes.push(format!("{joined} joined in {:.1} s, {} MiB sent", join.as_secs_f64(), (sent * LEN) >> 20));
        let (views, losses) = (before.views, before.losses + figures.losses);
        figures.wants(joined == count, || format!("{joined} of {count} in the group"));
        figures.wants(sent == bytes / LEN, || format!("{sent} messages sent within {SEND:?}"));
        figures.wants(views == 0, || format!("{views} views while they joined"));
        figures.wants(losses == 0, || format!("{losses} lost tokens"));
        Ok(figures)
    })
}

fn status(stage: &Stage<'_>, node: usize) -> Result<Status, String> {
    stage.fleet.status(node).map_err(text)
}

/// What each daemon has resident, and what it says that waits for its clients: counted for each, and in memory.
fn table(stage: &Stage<'_>, budget: u64) -> Result<String, String> {
    let head = ["MiB before", "after", "most", "budget", "waits", "in memory"];
    let line = |name: String, cells: [String; 6]| {
        cells.iter().fold(format!("{name:<8}"), |line, cell| format!("{line} {cell:>10}"))
    };
    let mut all = line("daemon".into(), head.map(String::from));
    for (node, [before, after, most]) in stage.memory().into_iter().enumerate() {
        let status = status(stage, node)?;
        let counter = |name| status.counter(name).unwrap_or(0);
        let [waits, memory] = ["client_output_bytes", "client_output_memory_bytes"].map(counter);
        let cells = [before, after, most, budget, waits, memory].map(|bytes| mib(bytes).to_string());
        all = format!("{all}\n{}", line((node + 1).to_string(), cells));
    }
    Ok(all)
}

fn connected(stage: &mut Stage<'_>, count: usize, group: &GroupName) -> Result<Vec<Client>, String> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = Client::connect(&address(stage.directory, 0), &ConnectOptions::default()).map_err(text)?;
        client.join(group).and_then(|_| client.flush()).map_err(text)?;
        clients.push(client);
        if clients.len() % 32 == 0 {
            drain(&mut clients)?;
        }
    }
    Ok(clients)
}

/// Reads until the last client has seen all; what is told while many join is much, and not what is tried here.
fn read_until_joined(stage: &mut Stage<'_>, clients: &mut [Client]) -> Result<usize, String> {
    let (deadline, count) = (Instant::now() + JOIN, clients.len());
    let mut most = 0;
    while most < count && Instant::now() < deadline {
        most = most.max(drain(clients)?);
        stage.pass(Duration::from_millis(10))?;
    }
    // The last group view goes to all: it is read by all.
    drain(clients)?;
    Ok(most)
}

/// Reads what has come; returns the members of the largest group that was seen.
fn drain(clients: &mut [Client]) -> Result<usize, String> {
    let mut most = 0;
    for client in clients {
        while let Some(event) = client.receive(Duration::ZERO).map_err(text)? {
            if let Event::GroupView(view) = event {
                most = most.max(view.members.len());
            }
        }
    }
    Ok(most)
}

/// Sends so many messages, or as many as time allows.
fn send(stage: &mut Stage<'_>, group: &GroupName, count: usize) -> Result<usize, String> {
    let options = ConnectOptions::default().send_within(Duration::from_secs(5));
    let mut client = Client::connect(&address(stage.directory, 1), &options).map_err(text)?;
    let (payload, deadline) = (vec![7; LEN], Instant::now() + SEND);
    for sent in 0..count {
        if Instant::now() > deadline {
            return Ok(sent);
        }
        client.multicast(Service::Agreed, std::slice::from_ref(group), &payload).map_err(text)?;
    }
    client.wait_ordered(SEND).map_err(text)?;
    Ok(count)
}
