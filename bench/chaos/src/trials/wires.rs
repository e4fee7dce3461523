//! What happens to interfaces, addresses and switches, and how soon all is well again without a restart.
use std::time::{Duration, Instant};

use consort::{Client, ConnectOptions, GroupName, Service};
use consort_sim::fault::Disk;
use consort_sim::link::LinkModel;
use consort_testbed::Stalls;
use consort_testbed::network::Network;
use consort_testbed::network::port::INTERFACE;

use super::outcome::Figures;
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with, with_rings};
use super::watch::Beat;
use crate::chaos::fleet::address;

const BEAT: Beat = Beat { node: 0, every: Duration::from_millis(50), service: Service::Agreed };
const ALL: [usize; 3] = [0, 1, 2];
/// Whose interface it is.
const HURT: usize = 1;
/// How long a fault lasts whose end is waited for.
const FAULT: Duration = Duration::from_secs(3);
/// How long it may take until all are in one view and messages reach all.
const GOAL: Duration = Duration::from_secs(10);
/// How long a switch does without multicast after all has healed, to see that it stays so.
const AFTER: Duration = Duration::from_secs(2);
/// How many messages show whether the kernel is handed super-packets, and of how many bytes.
const BURST: (usize, usize) = (3_000, 1_000);
const PATIENCE: Duration = Duration::from_secs(20);

pub fn ring(site: &Site<'_>) -> Result<Figures, String> {
    of(site, "ring")
}

pub fn toto(site: &Site<'_>) -> Result<Figures, String> {
    of(site, "toto")
}

pub fn plato(site: &Site<'_>) -> Result<Figures, String> {
    of(site, "plato")
}

pub fn paxos(site: &Site<'_>) -> Result<Figures, String> {
    of(site, "paxos")
}

pub fn multiring_paxos(site: &Site<'_>) -> Result<Figures, String> {
    let settings = format!("{}ring = [{{ id = 1, global = true }}, {{ id = 2 }}]\n", site.settings);
    of(&Site { settings: &settings, ..*site }, "multiring-paxos")
}

/// The node in the middle stands in both networks.
pub fn multiring(site: &Site<'_>) -> Result<Figures, String> {
    with_rings(site, &[&ALL[..2], &ALL[1..]], BEAT, mended)
}

fn of(site: &Site<'_>, protocol: &'static str) -> Result<Figures, String> {
    let hosts = Hosts::Apart { empty: 0 };
    with(site, &Setup { hosts, nodes: ALL.len(), first: &ALL, beat: BEAT, protocol }, mended)
}

/// One fault after the other.
fn mended(stage: &mut Stage<'_>) -> Result<Figures, String> {
    let stalls = Stalls::watch();
    // Ring Paxos may send each message by itself.
    let usual = super_packets(stage)?;
    let mut took = Vec::new();
    let mut tried = |name, healed| took.push((name, healed));
    tried("interface made again", interface(stage)?);
    tried("address away", address_away(stage)?);
    tried("address late", address_late(stage)?);
    tried("MTU down and up", mtu(stage)?);
    tried("one direction cut", one_direction(stage)?);
    tried("sends refused", refused(stage)?);
    let is_named = stage.fleet.has_said(HURT, "the kernel refuses datagrams to other nodes");
    tried("multicast kept from one", multicast(stage, &[HURT])?);
    tried("multicast kept from all", multicast(stage, &ALL)?);
    let batches = super_packets(stage)?;
    let mut figures = stage.figures(&ALL, usize::MAX);
    figures.needed = figures.views;
    for (name, healed) in &took {
        figures.wants(healed.is_some(), || format!("{name}: not healed within {GOAL:?}"));
    }
    figures.wants(is_named, || "sends that the kernel refuses are not named in the log".into());
    figures.wants(batches > 0 || usual == 0, || "no super-packets any more".into());
    figures.wants(stage.fleet.times_started_anew() == 0, || "a daemon started again by itself".into());
    let shown =
        |(name, healed): &(&str, Option<Duration>)| healed.map(|time| format!("{name} {:.1} s", time.as_secs_f64()));
    figures.notes.extend(took.iter().filter_map(shown));
    figures.notes.push(format!("super-packets of a burst before {usual}, after {batches}"));
    figures.notes.push(format!("a sleeper was late by {} ms at most", stalls.longest().as_millis()));
    Ok(figures)
}

/// How long it takes from now until all are in one view and receive what is sent from now on.
fn healed(stage: &mut Stage<'_>) -> Result<Option<Duration>, String> {
    let from = Instant::now();
    let is_well = stage
        .until(GOAL, |watch| watch.is_one_view(&ALL) && ALL.iter().all(|node| watch.receives_since(*node, from)))?;
    Ok(is_well.then(|| from.elapsed()))
}

fn interface(stage: &mut Stage<'_>) -> Result<Option<Duration>, String> {
    stage.network.unplug(HURT).map_err(text)?;
    stage.pass(FAULT)?;
    stage.network.plug(HURT).map_err(text)?;
    healed(stage)
}

fn configure(stage: &Stage<'_>, batch: &str) -> Result<(), String> {
    stage.network.namespace(HURT).configure(batch).map_err(text)
}

/// The address of an interface, with the route of multicast, taken away or given.
fn give_address(stage: &Stage<'_>, gives: bool) -> Result<(), String> {
    let (address, change) = (Network::address(HURT), if gives { "add" } else { "del" });
    let address = format!("address {change} {address}/24 dev {INTERFACE}\n");
    let route = "route replace 224.0.0.0/4 dev eth0 metric 1\n";
    configure(stage, &if gives { address + route } else { address })
}

fn address_away(stage: &mut Stage<'_>) -> Result<Option<Duration>, String> {
    give_address(stage, false)?;
    stage.pass(FAULT)?;
    give_address(stage, true)?;
    healed(stage)
}

/// A daemon is started before its machine has the address, as at boot.
fn address_late(stage: &mut Stage<'_>) -> Result<Option<Duration>, String> {
    stage.fleet.kill(HURT, Disk::Kept).map_err(text)?;
    give_address(stage, false)?;
    stage.fleet.start(HURT).map_err(text)?;
    stage.pass(FAULT)?;
    give_address(stage, true)?;
    healed(stage)
}

fn mtu(stage: &mut Stage<'_>) -> Result<Option<Duration>, String> {
    configure(stage, &format!("link set {INTERFACE} mtu 1300\n"))?;
    burst(stage)?;
    stage.pass(FAULT)?;
    configure(stage, &format!("link set {INTERFACE} mtu 1500\n"))?;
    healed(stage)
}

fn cut(stage: &Stage<'_>, cut: bool) -> Result<(), String> {
    let model = LinkModel { cut, ..LinkModel::default() };
    let others = ALL.iter().filter(|node| **node != HURT);
    others.into_iter().try_for_each(|node| stage.network.set(HURT, *node, &model)).map_err(text)
}

/// What the node sends is lost; what is sent to it arrives.
fn one_direction(stage: &mut Stage<'_>) -> Result<Option<Duration>, String> {
    cut(stage, true)?;
    stage.pass(FAULT)?;
    cut(stage, false)?;
    healed(stage)
}

/// The kernel refuses what the node sends, as a rule of routes or of a packet filter would have it.
fn refused(stage: &mut Stage<'_>) -> Result<Option<Duration>, String> {
    let rules = |change: &str| {
        let others = ALL.iter().filter(|node| **node != HURT).map(|node| format!("{}/32", Network::address(*node)));
        let all = others.chain(["224.0.0.0/4".to_owned()]);
        all.map(|to| format!("route {change} prohibit {to} metric 0\n")).collect::<String>()
    };
    configure(stage, &rules("add"))?;
    stage.pass(FAULT)?;
    configure(stage, &rules("del"))?;
    healed(stage)
}

/// The switch does not forward multicast to some: it has to heal while that is so. How long that took from the fault on.
fn multicast(stage: &mut Stage<'_>, to: &[usize]) -> Result<Option<Duration>, String> {
    let forward = |stage: &Stage<'_>, forwards| {
        to.iter().try_for_each(|node| stage.network.forward_multicast(*node, forwards)).map_err(text)
    };
    let began = Instant::now();
    forward(stage, false)?;
    // What was under way still arrives: the fault must be noticed first.
    stage.pass(FAULT)?;
    let healed_meanwhile = healed(stage)?.map(|_| began.elapsed());
    stage.pass(AFTER)?;
    let still = healed(stage)?;
    forward(stage, true)?;
    let afterwards = healed(stage)?;
    Ok(healed_meanwhile.filter(|_| still.is_some() && afterwards.is_some()))
}

/// Many messages at once.
fn burst(stage: &mut Stage<'_>) -> Result<(), String> {
    let group = GroupName::new("burst").map_err(text)?;
    let daemon = address(stage.directory, HURT);
    let mut client = Client::connect(&daemon, &ConnectOptions::default()).map_err(text)?;
    let (count, bytes) = BURST;
    for _ in 0..count {
        client
            .multicast_within(Service::Agreed, std::slice::from_ref(&group), &vec![7; bytes], PATIENCE)
            .map_err(text)?;
    }
    client.flush().map_err(text)
}

/// How many super-packets a burst leaves in, wherever data is sent from.
fn super_packets(stage: &mut Stage<'_>) -> Result<u64, String> {
    let count = |stage: &Stage<'_>| ALL.iter().map(|node| stage.counter(*node, "net_gso_batches")).sum::<u64>();
    let before = count(stage);
    burst(stage)?;
    stage.pass(AFTER)?;
    Ok(count(stage).saturating_sub(before))
}
