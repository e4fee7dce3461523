//! Somebody with the cluster's key speaks in its members' names. What that may cost, and what must be well once it ends, is
//! the row of SECURITY.md's threats.
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use consort::{Client, ConnectOptions, Event, GroupName, Service};
use consort_seal::{KeyRing, key_file};
use consort_testbed::network::{Network, directory};
use consort_types::NodeId;

use super::attack::make_key;
use super::impostor::Impostor;
use super::lies::{LIES, Liar, Lie};
use super::outcome::Figures;
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::watch::Beat;
use crate::chaos::fleet::address;

const BEAT: Beat = Beat { node: 0, every: Duration::from_millis(20), service: Service::Safe };
/// Those whose daemons run. The insider has the place of one node more.
const MEMBERS: [usize; 4] = [0, 1, 2, 3];
const NODES: usize = 5;
/// Who is kept out by counters far ahead, and the others.
const KEPT_OUT: NodeId = NodeId(4);
const OTHERS: [usize; 3] = [0, 1, 2];
/// Whose later start the insider makes up.
const TWIN: NodeId = NodeId(2);
/// How many lies it tells each time that it has listened.
const LIES_A_TURN: usize = 3;
/// How long all must have been well to count as well, and within which time that must be.
const CALM: Duration = Duration::from_secs(5);
const WELL: Duration = Duration::from_secs(180);
/// How long one may take to be out, and the daemons to have read a key.
const TOLD: Duration = Duration::from_secs(30);
/// How many messages each client sends when all is well again, and how long they may take.
const MESSAGES: u64 = 500;
const PATIENCE: Duration = Duration::from_secs(20);
/// For which causes daemons must have dropped some.
const CAUSES: [&str; 2] = ["unopened_stranger", "datagrams_rejected_malformed"];

/// How many lies of each kind were told.
type Told = BTreeMap<Lie, u64>;

/// With the ring.
pub fn ring(site: &Site<'_>) -> Result<Figures, String> {
    let place = directory("consort-trials-key-").map_err(|error| format!("cannot make a directory: {error}"))?;
    let key = place.path().join("key");
    make_key(site.file, &key)?;
    let keys = std::fs::read_to_string(&key).map_err(|error| format!("cannot read {}: {error}", key.display()))?;
    let keys = key_file::parse(&keys).map_err(text)?;
    let settings = format!("{}[security]\nkey = {:?}\n", site.settings, key.display().to_string());
    let setup = Setup { hosts: Hosts::Together, nodes: NODES, first: &MEMBERS, beat: BEAT, protocol: "ring" };
    with(&Site { settings: &settings, ..*site }, &setup, |stage| {
        stage.mark(&MEMBERS);
        let (mut impostor, told) = beside(stage, keys, site.lengths.network)?;
        let mut figures = stage.figures(&MEMBERS, usize::MAX);
        let in_names = sum(stage, |stage, node| stage.watch.unexpected(node) as u64);
        figures.notes.push(format!("{in_names} messages in members' names"));
        recovers(stage, &mut figures)?;
        judged(stage, &mut figures, &told);
        let changed = next_key(stage, &mut impostor, site.file, &key)?;
        figures.notes.push(format!("one kept out came back {} ms after the key had changed", changed.as_millis()));
        let ordered = orders(stage);
        figures.wants(ordered.is_ok(), || format!("with the next key: {}", ordered.err().unwrap_or_default()));
        Ok(figures)
    })
}

/// All must come together without help. True datagrams with counters that the insider has used are dropped, until their
/// senders have come past them; so messages flow before it is judged how they do.
fn recovers(stage: &mut Stage<'_>, figures: &mut Figures) -> Result<(), String> {
    let dropped = |stage: &Stage<'_>| sum(stage, |stage, node| stage.counter(node, "unopened_replayed"));
    let before = dropped(stage);
    let again = well_again(stage)?;
    stage.mark(&MEMBERS);
    let first = orders(stage).err().map_or("in one order".to_owned(), |problem| format!("not so: {problem}"));
    let (views, lost) = (stage.figures(&MEMBERS, usize::MAX).views, dropped(stage).saturating_sub(before));
    figures.notes.push(format!(
        "once it had stopped: in one view after {} ms, the first messages {first}, {views} views more, {lost} true datagrams dropped",
        again.as_millis()
    ));
    well_again(stage)?;
    let ordered = orders(stage);
    figures.wants(ordered.is_ok(), || format!("once it had stopped: {}", ordered.err().unwrap_or_default()));
    let late = sum(stage, |stage, node| stage.watch.unexpected(node) as u64);
    figures.wants(late == 0, || format!("{late} messages came that nobody sent, once it had stopped"));
    Ok(())
}

/// Of all daemons together.
fn sum(stage: &Stage<'_>, of: impl Fn(&Stage<'_>, usize) -> u64) -> u64 {
    MEMBERS.iter().map(|node| of(stage, *node)).sum()
}

/// The insider speaks for so long; daemons may do what they like, but must not end.
fn beside(stage: &mut Stage<'_>, keys: KeyRing, span: Duration) -> Result<(Impostor, Told), String> {
    let (stop, addresses) = (AtomicBool::new(false), (0..NODES).map(Network::address).collect::<Vec<_>>());
    let host = stage.network.namespace(0);
    std::thread::scope(|scope| {
        let speaking = scope.spawn(|| host.enter(|| speak(keys, &addresses, span, &stop)));
        let passed = stage.pass(span);
        stop.store(passed.is_err(), Ordering::Relaxed);
        let told = speaking.join().map_err(|_| "the insider has panicked".to_owned())?.map_err(text)?;
        passed.and_then(|()| told.map_err(|error| format!("the insider has ended: {error}")))
    })
}

/// First only garbage and messages in members' names, so that the ring goes on; then all.
fn speak(keys: KeyRing, addresses: &[Ipv4Addr], span: Duration, stop: &AtomicBool) -> io::Result<(Impostor, Told)> {
    let mut impostor = Impostor::open(keys, addresses)?;
    let members = MEMBERS.iter().map(|node| NodeId(*node as u16 + 1)).collect();
    let (began, mut told, mut liar) = (Instant::now(), Told::new(), Liar::new(impostor.seed(), members));
    let mut turn = |impostor: &mut Impostor, lies: &[Lie]| -> io::Result<()> {
        impostor.listen()?;
        for _ in 0..LIES_A_TURN {
            let lie = lies[liar.chance(lies.len())];
            let Some(saying) = liar.tell(lie, impostor.heard()) else { continue };
            *told.entry(lie).or_default() += u64::from(impostor.say(&saying)?);
        }
        Ok(())
    };
    let is_due = |until: Duration| began.elapsed() < until && !stop.load(Ordering::Relaxed);
    while is_due(span / 3) {
        turn(&mut impostor, &LIES[..3])?;
    }
    while is_due(span * 2 / 3) {
        turn(&mut impostor, &LIES)?;
    }
    impostor.begin(TWIN)?;
    while is_due(span) {
        turn(&mut impostor, &LIES)?;
    }
    Ok((impostor, told))
}

/// Waits until all are in one view that stays. Returns how long that took, without the time that it was seen to stay.
fn well_again(stage: &mut Stage<'_>) -> Result<Duration, String> {
    let stopped = Instant::now();
    loop {
        let left = WELL.saturating_sub(stopped.elapsed());
        if !stage.until(left, |watch| watch.is_one_view(&MEMBERS))? {
            return Err(format!("the daemons are not in one view {WELL:?} after the insider has stopped"));
        }
        let took = stopped.elapsed();
        stage.mark(&MEMBERS);
        stage.pass(CALM)?;
        let views: usize = MEMBERS.iter().map(|node| stage.watch.views(*node).len()).sum();
        let pause = MEMBERS.iter().map(|node| stage.watch.pause(*node)).max().unwrap_or_default();
        if views == 0 && pause < CALM / 2 {
            return Ok(took);
        }
    }
}

/// The insider keeps a member out, for good. Then the key changes, as SECURITY.md advises. Returns how long it takes from
/// there on until all are in one view.
fn next_key(stage: &mut Stage<'_>, impostor: &mut Impostor, program: &Path, key: &Path) -> Result<Duration, String> {
    let host = stage.network.namespace(0);
    host.enter(|| impostor.keep_out(KEPT_OUT)).map_err(text)?.map_err(text)?;
    for _ in 0..2 {
        if !stage.until(TOLD, |watch| watch.is_one_view(&OTHERS))? {
            return Err(format!("counters far ahead in its name do not keep {KEPT_OUT} out"));
        }
        stage.pass(CALM)?;
    }
    run(stage, program, &["key", "next", &key.display().to_string()])?;
    MEMBERS.iter().for_each(|node| stage.fleet.reload(*node));
    let (began, holds) = (Instant::now(), |stage: &Stage<'_>, node: usize| {
        let status = stage.fleet.status(node).unwrap_or_default();
        status.get("key_epochs").is_some_and(|epochs| epochs.contains("2 next"))
    });
    while !MEMBERS.iter().all(|node| holds(stage, *node)) {
        if began.elapsed() > TOLD {
            return Err(format!("not all daemons hold the next key {TOLD:?} after SIGHUP"));
        }
        stage.pass(CALM / 50)?;
    }
    run(stage, program, &["key", "rotate", "--node", "1", "--timeout", "30s"])?;
    let rotated = Instant::now();
    stage.together(&MEMBERS)?;
    Ok(rotated.elapsed())
}

/// Runs a command of the program where the first daemon is found.
fn run(stage: &Stage<'_>, program: &Path, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(words).env("CONSORT_RUNTIME_DIR", stage.directory.join("node-1"));
    let ran = command.output().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    if ran.status.success() { Ok(()) } else { Err(format!("`consort {}`: {}", words.join(" "), said.trim())) }
}

/// A client at each daemon sends numbers: each of them hears all, in one order.
fn orders(stage: &Stage<'_>) -> Result<(), String> {
    let group = GroupName::new("after").map_err(text)?;
    let mut clients = MEMBERS.iter().map(|node| joined(stage, *node, &group)).collect::<Result<Vec<_>, _>>()?;
    for client in &mut clients {
        while members(client)? < MEMBERS.len() {}
    }
    for number in 0..MESSAGES {
        for (which, client) in clients.iter_mut().enumerate() {
            let service = if number % 2 == 0 { Service::Safe } else { Service::Agreed };
            let payload = [which as u64, number].map(u64::to_be_bytes).concat();
            client.multicast(service, std::slice::from_ref(&group), &payload).map_err(text)?;
            client.flush().map_err(text)?;
        }
    }
    let heard = clients.iter_mut().map(all).collect::<Result<Vec<_>, _>>()?;
    if heard.iter().any(|order| *order != heard[0]) {
        return Err("clients heard different orders".into());
    }
    for which in 0..MEMBERS.len() as u64 {
        let own = heard[0].iter().filter(|(sender, _)| *sender == which).map(|(_, number)| *number);
        if !own.eq(0..MESSAGES) {
            return Err(format!("of client {which} not all came in its order"));
        }
    }
    Ok(())
}

fn joined(stage: &Stage<'_>, node: usize, group: &GroupName) -> Result<Client, String> {
    let mut client = Client::connect(&address(stage.directory, node), &ConnectOptions::default()).map_err(text)?;
    client.join(group).map_err(text)?;
    Ok(client)
}

/// How many are in the group, as the client is told next.
fn members(client: &mut Client) -> Result<usize, String> {
    loop {
        match client.receive(PATIENCE).map_err(text)? {
            Some(Event::GroupView(view)) => return Ok(view.members.len()),
            Some(_) => {}
            None => return Err(format!("no client saw all {} join within {PATIENCE:?}", MEMBERS.len())),
        }
    }
}

/// Who sent which number, in the order that a client hears.
fn all(client: &mut Client) -> Result<Vec<(u64, u64)>, String> {
    let (mut heard, wanted) = (Vec::new(), MEMBERS.len() * MESSAGES as usize);
    while heard.len() < wanted {
        let event = client.receive(PATIENCE).map_err(text)?;
        let Some(event) = event else {
            return Err(format!("{} of {wanted} messages came, and nothing more for {PATIENCE:?}", heard.len()));
        };
        let Event::Message(message) = event else { continue };
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (which, number) =
            message.payload().split_at_checked(8).map(|(a, b)| (number(a), number(b))).unwrap_or_default();
        heard.push((which, number));
    }
    Ok(heard)
}

fn judged(stage: &Stage<'_>, figures: &mut Figures, told: &Told) {
    let lies: Vec<_> = told.iter().map(|(lie, count)| format!("{count} {}", lie.name())).collect();
    figures.notes.push(format!("told {}", lies.join(", ")));
    for lie in LIES {
        figures.wants(told.contains_key(&lie), || format!("the insider told no lie of {}", lie.name()));
    }
    for name in CAUSES {
        let count = sum(stage, |stage, node| stage.counter(node, name));
        figures.notes.push(format!("{name} {count}"));
        figures.wants(count > 0, || format!("no daemon counted {name}: the insider did not reach it"));
    }
    for name in ["implausible", "ordered_malformed", "assertion_failures"] {
        let count = sum(stage, |stage, node| stage.counter(node, name));
        figures.notes.push(format!("{name} {count}"));
    }
    for node in MEMBERS {
        figures.wants(!stage.fleet.has_said(node, "panicked at"), || format!("the daemon of n{} panicked", node + 1));
    }
}
