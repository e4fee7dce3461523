//! Candidates that are cut off, stopped and killed while daemons are stopped and killed: never two lead at a time.
use std::time::{Duration, Instant};

use consort::Service;
use consort_leader::Fence;
use consort_sim::fault::Disk;
use consort_types::Rng;
use rustix::process::Signal;

use super::outcome::Figures;
use super::relay::Relay;
use super::sessions::{relay, remembers};
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::watch::Beat;
use crate::candidate::{Candidate, LEASE, Look};

const BEAT: Beat = Beat { node: 2, every: Duration::from_millis(20), service: Service::Agreed };
/// How many candidates there are at a time.
const CANDIDATES: usize = 5;
/// A stop lasts so long at most: three leases.
const STOP: Duration = Duration::from_millis(3_000);
const _: () = assert!(STOP.as_millis() > 2 * LEASE.as_millis(), "stops last longer than leases");
/// Between two faults at most, in milliseconds.
const APART: u64 = 1_500;

pub fn ring(site: &Site<'_>) -> Result<Figures, String> {
    lead(site, "ring")
}

pub fn toto(site: &Site<'_>) -> Result<Figures, String> {
    lead(site, "toto")
}

pub fn plato(site: &Site<'_>) -> Result<Figures, String> {
    lead(site, "plato")
}

pub fn paxos(site: &Site<'_>) -> Result<Figures, String> {
    lead(site, "paxos")
}

/// The candidates, and what they have seen.
struct Candidates {
    addresses: Vec<String>,
    running: Vec<Candidate>,
    /// Until when each is stopped.
    stopped: Vec<Option<Instant>>,
    started: u64,
    looks: Vec<Look>,
}

/// How often what was done.
#[derive(Debug, Default)]
struct Done {
    cuts: u32,
    stops: u32,
    ends: u32,
    pauses: u32,
    kills: u32,
}

/// What the looks come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    pub changes: usize,
    pub wrong: Vec<String>,
    /// The longest time without a leader, in nanoseconds.
    pub gap: u64,
}

fn lead(site: &Site<'_>, protocol: &'static str) -> Result<Figures, String> {
    let all = [0, 1, 2];
    with(site, &Setup { hosts: Hosts::Together, nodes: 3, first: &all, beat: BEAT, protocol }, |stage| {
        let relays = (0..3).map(|node| relay(stage, node)).collect::<Result<Vec<_>, _>>()?;
        let mut candidates = Candidates::start(&relays)?;
        let done = trouble(site, stage, &relays, &mut candidates)?;
        candidates.look();
        // What went wrong on purpose accounts for all views.
        let mut figures = stage.figures(&[2], usize::MAX);
        candidates.looks.sort_unstable();
        let Judgement { changes, wrong, gap } = judge(&candidates.looks);
        let first = wrong.first().cloned().unwrap_or_default();
        figures.wants(wrong.is_empty(), || format!("{} times two led or a fence fell: {first}", wrong.len()));
        let least = (site.lengths.network.as_secs() / 30) as usize;
        figures.wants(changes >= least, || format!("the leader changed {changes} times only"));
        let Done { cuts, stops, ends, pauses, kills } = done;
        figures.notes.push(format!(
            "{changes} leaders behind the first in {} looks, at most {} ms without one; {cuts} cuts, {stops} stops and {ends} \
             ends of candidates, {pauses} stops and {kills} ends of daemons",
            candidates.looks.len(),
            gap / 1_000_000
        ));
        Ok(figures)
    })
}

fn trouble(
    site: &Site<'_>,
    stage: &mut Stage<'_>,
    relays: &[Relay],
    candidates: &mut Candidates,
) -> Result<Done, String> {
    let (mut rng, mut done) = (Rng::new(58), Done::default());
    let end = Instant::now() + site.lengths.network;
    while Instant::now() < end {
        stage.pass(Duration::from_millis(rng.between(50, APART)))?;
        candidates.wake()?;
        candidates.look();
        match rng.below(10) {
            0..=2 => {
                relays[rng.below(3) as usize].cut();
                done.cuts += 1;
            }
            3..=5 => {
                candidates.stop(&mut rng)?;
                done.stops += 1;
            }
            6 | 7 => {
                candidates.replace(&mut rng)?;
                done.ends += 1;
            }
            8 => {
                let node = rng.below(3) as usize;
                stage.fleet.stop(node, true);
                stage.pass(Duration::from_millis(rng.below(2_500)))?;
                stage.fleet.stop(node, false);
                stage.together(&[0, 1, 2])?;
                done.pauses += 1;
            }
            _ => {
                kill(stage, candidates, &mut rng)?;
                done.kills += 1;
            }
        }
    }
    Ok(done)
}

fn kill(stage: &mut Stage<'_>, candidates: &mut Candidates, rng: &mut Rng) -> Result<(), String> {
    // The third has the clients that measure.
    let node = rng.below(2) as usize;
    stage.fleet.kill(node, Disk::Kept).map_err(text)?;
    stage.pass(Duration::from_millis(rng.below(2_500)))?;
    candidates.wake()?;
    stage.fleet.start(node).map_err(text)?;
    stage.together(&[0, 1, 2])?;
    remembers(stage)
}

impl Candidates {
    fn start(relays: &[Relay]) -> Result<Self, String> {
        let addresses = relays.iter().map(|relay| relay.path().display().to_string()).collect();
        let mut candidates =
            Self { addresses, running: Vec::new(), stopped: vec![None; CANDIDATES], started: 0, looks: Vec::new() };
        for _ in 0..CANDIDATES {
            let candidate = candidates.next()?;
            candidates.running.push(candidate);
        }
        Ok(candidates)
    }

    fn next(&mut self) -> Result<Candidate, String> {
        self.started += 1;
        let mut addresses = self.addresses.clone();
        addresses.rotate_left(self.started as usize % self.addresses.len());
        Candidate::start(&addresses, self.started).map_err(text)
    }

    fn look(&mut self) {
        self.looks.extend(self.running.iter().flat_map(Candidate::looks));
    }

    /// Which one something is done to: the leader, half the time.
    fn pick(&mut self, rng: &mut Rng) -> usize {
        self.look();
        let last = self.looks.iter().max().map(|look| look.candidate);
        let leader = self.running.iter().position(|candidate| Some(candidate.number()) == last);
        leader.filter(|_| rng.chance(0.5)).unwrap_or_else(|| rng.below(CANDIDATES as u64) as usize)
    }

    fn stop(&mut self, rng: &mut Rng) -> Result<(), String> {
        let at = self.pick(rng);
        self.running[at].signal(Signal::STOP)?;
        self.stopped[at] = Some(Instant::now() + STOP.mul_f64(rng.unit()));
        Ok(())
    }

    /// Those that were stopped for long enough go on.
    fn wake(&mut self) -> Result<(), String> {
        for at in 0..CANDIDATES {
            if self.stopped[at].take_if(|until| Instant::now() >= *until).is_some() {
                self.running[at].signal(Signal::CONT)?;
            }
            if !self.running[at].incarnations() {
                return Err("a candidate has ended by itself".into());
            }
        }
        Ok(())
    }

    /// One is killed, and another one starts.
    fn replace(&mut self, rng: &mut Rng) -> Result<(), String> {
        let at = self.pick(rng);
        self.running[at] = self.next()?;
        self.stopped[at] = None;
        Ok(())
    }
}

/// Each lease had ended by the time that the next leader looked at its own, and fences rise.
pub fn judge(looks: &[Look]) -> Judgement {
    let mut judgement = Judgement::default();
    let (mut ends, mut highest): (u64, Option<Fence>) = (0, None);
    for pair in looks.windows(2) {
        let [before, after] = [pair[0], pair[1]];
        judgement.gap = judgement.gap.max(after.read - before.read);
        ends = ends.max(before.until);
        highest = highest.max(Some(before.fence));
        if before.fence == after.fence && before.candidate == after.candidate {
            continue;
        }
        judgement.changes += 1;
        if Some(after.fence) <= highest || after.read < ends {
            judgement.wrong.push(format!("{before:?}, then {after:?}"));
        }
    }
    judgement
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(read: u64, fence: u64, until: u64, candidate: u64) -> Look {
        Look { read, fence: Fence::new(1, fence.into()), until, candidate }
    }

    #[test]
    fn two_that_lead_at_a_time_and_fences_that_fall_are_noticed() {
        let well = [look(1, 5, 9, 1), look(8, 5, 12, 1), look(12, 7, 20, 2)];
        assert_eq!(judge(&well), Judgement { changes: 1, wrong: Vec::new(), gap: 7 });
        assert_eq!(judge(&[look(1, 5, 9, 1), look(8, 7, 20, 2)]).wrong.len(), 1, "the first lease has not ended");
        assert_eq!(judge(&[look(1, 5, 2, 1), look(8, 4, 20, 2)]).wrong.len(), 1, "the fence falls");
        assert_eq!(judge(&[look(1, 5, 2, 1), look(8, 5, 20, 2)]).wrong.len(), 1, "the fence is another's");
    }
}
