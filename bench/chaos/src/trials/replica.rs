//! Replicas of registers that are cut off from their daemons, stopped and killed, while daemons are parted, stopped and
//! killed: all that callers are told is linearizable, and all go on once nothing is wrong.
use std::time::{Duration, Instant};

use consort::Service;
use consort_sim::fault::{Disk, Fault, FaultScope, Lanes, NodeSet};
use consort_sim::link::LinkModel;
use consort_types::{NodeId, Rng};

use super::keepers::{KEEPERS, Keepers};
use super::outcome::Figures;
use super::relay::Relay;
use super::sessions::{relay, remembers};
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::watch::Beat;
use crate::chaos::registers;
use crate::chaos::trouble::{Trouble, Weather};

const BEAT: Beat = Beat { node: 2, every: Duration::from_millis(20), service: Service::Agreed };
const ALL: [usize; 3] = [0, 1, 2];
/// Between two faults at most, and how long parts are apart or a daemon is stopped at most, in milliseconds.
const APART: u64 = 1_000;
const LONG: u64 = 2_500;

pub fn ring(site: &Site<'_>) -> Result<Figures, String> {
    keep(site, "ring")
}

pub fn toto(site: &Site<'_>) -> Result<Figures, String> {
    keep(site, "toto")
}

pub fn plato(site: &Site<'_>) -> Result<Figures, String> {
    keep(site, "plato")
}

pub fn paxos(site: &Site<'_>) -> Result<Figures, String> {
    keep(site, "paxos")
}

/// How often what was done.
#[derive(Debug, Default)]
struct Done {
    /// Of connections, and of replicas.
    cuts: u32,
    stops: u32,
    ends: u32,
    /// Of the network, and of daemons.
    parts: u32,
    pauses: u32,
    kills: u32,
}

fn keep(site: &Site<'_>, protocol: &'static str) -> Result<Figures, String> {
    let setup = Setup { hosts: Hosts::Apart { empty: 0 }, nodes: ALL.len(), first: &ALL, beat: BEAT, protocol };
    with(site, &setup, |stage| {
        let relays = ALL.iter().map(|node| relay(stage, *node)).collect::<Result<Vec<_>, _>>()?;
        let mut keepers = Keepers::start(&relays, stage.directory, site.reads)?;
        // While a group is young the loss of one may lose what it alone has answered.
        keepers.settle(stage)?;
        let done = trouble(site, stage, &relays, &mut keepers)?;
        keepers.finish(stage)?;
        // What went wrong on purpose accounts for all views.
        let mut figures = stage.figures(&[2], usize::MAX);
        let judged = registers::judge(&keepers.operations());
        if let Err(contradiction) = &judged {
            figures.wants(false, || contradiction.clone());
        }
        let Done { cuts, stops, ends, parts, pauses, kills } = done;
        let least = (site.lengths.network.as_secs() / 30) as u32;
        figures.wants(ends >= least && kills + parts >= least, || format!("too little went wrong: {done:?}"));
        let work = judged.unwrap_or_default();
        figures.notes.push(format!(
            "{} calls at {KEEPERS} replicas, {} of unknown outcome; {cuts} cuts, {stops} stops and {ends} ends of replicas, \
             {parts} parts of the network, {pauses} stops and {kills} ends of daemons",
            work.calls, work.unknown
        ));
        Ok(figures)
    })
}

/// What goes wrong next.
#[derive(Clone, Copy, Debug)]
enum Next {
    Cut,
    Stop,
    End,
    Part,
    Pause,
    Kill,
}

/// How often each comes among so many: in a short trial, too, each has its turn.
const HAND: [Next; 12] = {
    use Next::{Cut, End, Kill, Part, Pause, Stop};
    [Cut, Cut, Stop, Stop, Stop, End, End, Part, Part, Part, Pause, Kill]
};

fn trouble(site: &Site<'_>, stage: &mut Stage<'_>, relays: &[Relay], keepers: &mut Keepers) -> Result<Done, String> {
    let (mut rng, mut done, mut hand) = (Rng::new(24), Done::default(), Vec::new());
    let end = Instant::now() + site.lengths.network;
    while Instant::now() < end {
        stage.pass(Duration::from_millis(rng.between(50, APART)))?;
        keepers.wake(false)?;
        keepers.hear();
        if hand.is_empty() {
            hand.extend(HAND);
        }
        match hand.swap_remove(rng.below(hand.len() as u64) as usize) {
            Next::Cut => {
                relays[rng.below(3) as usize].cut();
                done.cuts += 1;
            }
            Next::Stop => {
                keepers.stop(&mut rng)?;
                done.stops += 1;
            }
            Next::End => {
                keepers.kill(stage, &mut rng)?;
                done.ends += 1;
            }
            Next::Part => {
                part(stage, keepers, &mut rng)?;
                done.parts += 1;
            }
            Next::Pause => {
                let node = rng.below(3) as usize;
                stage.fleet.stop(node, true);
                let passed = stage.pass(Duration::from_millis(rng.below(LONG)));
                stage.fleet.stop(node, false);
                passed.and_then(|()| stage.together(&ALL))?;
                done.pauses += 1;
            }
            Next::Kill => {
                kill(stage, keepers, &mut rng)?;
                done.kills += 1;
            }
        }
    }
    Ok(done)
}

/// The network parts, or one daemon hears or is heard no more; a replica may be stopped meanwhile, or another part be cut off
/// as soon as this one is back.
fn part(stage: &mut Stage<'_>, keepers: &mut Keepers, rng: &mut Rng) -> Result<(), String> {
    for _ in 0..=rng.below(2) {
        let node = NodeId(rng.between(1, 3) as u16);
        let fault = match rng.below(4) {
            0 => Fault::Cut { scope: FaultScope::From(node), lanes: Lanes::Both },
            1 => Fault::Cut { scope: FaultScope::To(node), lanes: Lanes::Both },
            _ => Fault::Partition { part: NodeSet(1 << node.0) },
        };
        let mut weather = Weather::default();
        weather.begin(None, Trouble::Link(fault));
        for ((from, to), model) in weather.links(0, &ALL) {
            stage.network.set(from, to, &model).map_err(text)?;
        }
        stage.pass(Duration::from_millis(rng.below(LONG)))?;
        if rng.chance(0.3) {
            keepers.stop(rng)?;
        }
        stage.pass(Duration::from_millis(rng.below(LONG)))?;
        keepers.wake(false)?;
        stage.network.set_all(&LinkModel::default()).map_err(text)?;
    }
    stage.together(&ALL)
}

fn kill(stage: &mut Stage<'_>, keepers: &mut Keepers, rng: &mut Rng) -> Result<(), String> {
    // The third has the clients that measure.
    let node = rng.below(2) as usize;
    stage.fleet.kill(node, Disk::Kept).map_err(text)?;
    stage.pass(Duration::from_millis(rng.below(LONG)))?;
    keepers.wake(false)?;
    stage.fleet.start(node).map_err(text)?;
    stage.together(&ALL)?;
    remembers(stage)
}
