//! Somebody without a key reads all that daemons say, and sends them what he makes of it.
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use consort::Service;
use consort_sim::fault::Disk;
use consort_testbed::network::port::INTERFACE;
use consort_testbed::network::{Network, directory};

use super::capture::capture;
use super::flood::{Flood, KEPT, Sent};
use super::outcome::Figures;
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::watch::Beat;

const BEAT: Beat = Beat { node: 0, every: Duration::from_millis(20), service: Service::Safe };
const ALL: [usize; 3] = [0, 1, 2];
/// Who restarts.
const LAST: usize = 2;
/// An address that is no node's.
const FOREIGN: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 200);
/// How long the daemons are listened to before their restart, and behind it.
const LISTEN: Duration = Duration::from_secs(1);
/// Datagrams a second.
const RATE: u32 = 200_000;
/// Causes for which daemons must have dropped some: else the flood did not reach them.
const CAUSES: [&str; 4] = ["unopened_plain", "unopened_forged", "unopened_replayed", "unopened_misdirected"];
/// What full sockets have dropped.
const OVERFLOW: &str = "net_receive_overflow";

/// Nothing changes.
pub fn steady(site: &Site<'_>) -> Result<Figures, String> {
    attacked(site, 0, |stage| stage.pass(site.lengths.network))
}

/// A daemon that crashes and comes back finds the others.
pub fn restart(site: &Site<'_>) -> Result<Figures, String> {
    attacked(site, 2, |stage| {
        stage.pass(site.lengths.network / 2)?;
        stage.fleet.kill(LAST, Disk::Kept).map_err(text)?;
        stage.pass(Duration::from_secs(2))?;
        stage.fleet.start(LAST).map_err(text)?;
        stage.together(&ALL)?;
        stage.pass(site.lengths.network / 2)
    })
}

fn attacked(
    site: &Site<'_>,
    needed: usize,
    meanwhile: impl FnOnce(&mut Stage<'_>) -> Result<(), String>,
) -> Result<Figures, String> {
    let place = directory("consort-trials-key-").map_err(|error| format!("cannot make a directory: {error}"))?;
    let key = place.path().join("key");
    make_key(site.file, &key)?;
    let settings = format!("{}[security]\nkey = {:?}\n", site.settings, key.display().to_string());
    let setup = Setup { hosts: Hosts::Together, nodes: ALL.len(), first: &ALL, beat: BEAT, protocol: "ring" };
    with(&Site { settings: &settings, ..*site }, &setup, |stage| {
        let mut flood = prepare(stage, site.lengths.senders)?;
        stage.mark(&ALL);
        let sent = beside(stage, &mut flood, meanwhile)?;
        // Who restarted is told of its own start, too.
        let observers = if needed == 0 { &ALL[..] } else { &ALL[..LAST] };
        let figures = stage.figures(observers, needed);
        Ok(judged(stage, figures, sent))
    })
}

pub fn make_key(program: &Path, key: &Path) -> Result<(), String> {
    let made = Command::new(program).arg("keygen").arg(key).stdout(Stdio::null()).status();
    match made {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`consort keygen` ended with {status}")),
        Err(error) => Err(format!("cannot run {}: {error}", program.display())),
    }
}

/// Captures what is said before and behind a restart, so that an earlier incarnation speaks, too.
fn prepare(stage: &mut Stage<'_>, senders: u32) -> Result<Flood, String> {
    let host = stage.network.namespace(0);
    host.configure(&format!("address add {FOREIGN}/24 dev {INTERFACE}\n")).map_err(text)?;
    let listen = || host.enter(|| capture(LISTEN, KEPT)).map_err(text)?.map_err(text);
    let mut old = listen()?;
    stage.fleet.kill(LAST, Disk::Kept).map_err(text)?;
    stage.pass(Duration::from_secs(1))?;
    stage.fleet.start(LAST).map_err(text)?;
    stage.together(&ALL)?;
    old.extend(listen()?);
    stage.pass(Duration::from_secs(2))?;
    let nodes = ALL.map(Network::address).to_vec();
    host.enter(|| Flood::open(nodes, FOREIGN, old, RATE, senders)).map_err(text)?.map_err(text)
}

/// Floods while something else goes on.
fn beside(
    stage: &mut Stage<'_>,
    flood: &mut Flood,
    meanwhile: impl FnOnce(&mut Stage<'_>) -> Result<(), String>,
) -> Result<Sent, String> {
    let stop = AtomicBool::new(false);
    let host = stage.network.namespace(0);
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| host.enter(|| flood.run(&stop)));
        let passed = meanwhile(stage);
        stop.store(true, Ordering::Relaxed);
        let sent = flooding.join().map_err(|_| "the flood has panicked".to_owned())?.map_err(text)?;
        passed.and_then(|()| sent.map_err(|error| format!("the flood has ended: {error}")))
    })
}

fn judged(stage: &Stage<'_>, mut figures: Figures, sent: Sent) -> Figures {
    let unexpected: usize = ALL.iter().map(|node| stage.watch.unexpected(*node)).sum();
    figures.wants(unexpected == 0, || format!("{unexpected} messages came that nobody sent then"));
    let per_second = sent.datagrams as f64 / sent.time.as_secs_f64().max(0.001);
    figures.notes.push(format!("{} datagrams, {:.0} a second", sent.datagrams, per_second));
    for name in CAUSES.into_iter().chain(["datagrams_filtered"]) {
        let count: u64 = ALL.iter().map(|node| stage.counter(*node, name)).sum();
        figures.notes.push(format!("{name} {count}"));
        figures.wants(count > 0, || format!("no daemon counted {name}: the flood did not reach it"));
    }
    // A full socket drops its part of a flood before the daemon reads it.
    let lost: u64 = ALL.iter().map(|node| stage.counter(*node, OVERFLOW)).sum();
    figures.notes.push(format!("{OVERFLOW} {lost}"));
    figures
}
