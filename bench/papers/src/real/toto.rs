//! ToTo against all-ack, with real daemons.
use super::World;
use super::fleet::{Fleet, SILENCE};
use super::limits::Limits;
use super::stage::{Part, Stage};
use crate::net::{Heard, Told};
use crate::samples::Samples;
use crate::toto::{COUNTERS, DELAY, LEN, Measured, PAPER, PAPER_NODES, columns, row};
use crate::traffic::{Pace, Traffic};
use consort::ConnectOptions;
use consort_sim::link::LinkModel;
use consort_types::{Duration, Instant, Rng};
use std::ops::Range;
use std::path::PathBuf;

/// How large the laboratory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    /// How many daemons.
    pub nodes: u64,
    /// How long each protocol is measured under each load, in seconds.
    pub seconds: u64,
    /// After how many mean gaps of a sender an acknowledgement is sent alone.
    pub ack_gaps: u64,
    /// Only this load.
    pub only: Option<u64>,
    /// The program; built for release where none is named.
    pub program: Option<PathBuf>,
}

impl Default for Lab {
    fn default() -> Self {
        Self { nodes: 8, seconds: 10, ack_gaps: 20, only: None, program: None }
    }
}

/// Both protocols, as the configuration file names them.
const PROTOCOLS: [&str; 2] = ["half", "all"];
/// How long senders keep the phases that they drew; many of these make a line.
const ROUND: Duration = Duration::from_secs(2);
/// After so many rounds more all that was measured must be delivered.
const PATIENCE: u64 = 5;

/// The whole table.
///
/// # Errors
/// What kept a run from its end.
pub fn table(seed: u64, lab: &Lab) -> Result<String, String> {
    let world = World::new(seed, lab.nodes as usize, lab.program.as_ref(), link)?;
    let mut limits = Limits::measure(&world)?;
    let (mut late, mut rows) = (Samples::default(), Vec::new());
    for load in loads().filter(|load| lab.only.is_none_or(|only| only == *load)) {
        let [mut toto, mut all_ack] = [Vec::new(), Vec::new()];
        for (phi, measured) in PROTOCOLS.iter().zip([&mut toto, &mut all_ack]) {
            let mut fleet = start(&world, lab, load, phi)?;
            limits.ask(&fleet)?;
            let clients: Vec<_> = (0..lab.nodes as usize).map(|member| (member, Part::Listen)).collect();
            let mut stage = Stage::new(&world, &fleet, &clients, &ConnectOptions::default())?;
            for pace in PACES {
                measured.push(line(&mut fleet, &mut stage, lab, (pace, load), seed)?);
            }
            late.extend([std::mem::take(&mut stage.late)]);
            drop(stage);
            fleet.end()?;
        }
        rows.extend(PACES.into_iter().zip(toto.into_iter().zip(all_ack)).map(|(pace, both)| (pace, load, both)));
    }
    rows.sort_by_key(|(pace, load, _)| (*pace == Pace::Poisson, *load));
    let lines =
        rows.iter().map(|(pace, load, (toto, all_ack))| row(*pace, *load, toto, all_ack, paper(lab, *pace, *load)));
    Ok(head(lab) + &lines.collect::<String>() + &limits.report(&world, &late)?)
}

const PACES: [Pace; 2] = [Pace::Periodic, Pace::Poisson];

/// The paper's loads, in messages a second.
pub fn loads() -> impl Iterator<Item = u64> {
    PAPER.into_iter().filter(|(pace, ..)| *pace == Pace::Periodic).map(|(_, load, ..)| load)
}

fn paper(lab: &Lab, pace: Pace, load: u64) -> Option<(f64, f64)> {
    let line = PAPER.into_iter().find(|line| (line.0, line.1) == (pace, load));
    line.filter(|_| lab.nodes == PAPER_NODES).map(|(.., toto, all_ack)| (toto, all_ack))
}

fn head(lab: &Lab) -> String {
    let Lab { nodes, seconds, ack_gaps, .. } = lab;
    format!(
        "ToTo (Phi = n/2) against all-ack (Phi = n): {nodes} daemons in namespaces, {seconds} s each, phases drawn anew \
         every {} s,\nacknowledgements alone after {ack_gaps} gaps; {}",
        ROUND.as_secs(),
        columns()
    )
}

fn link(_: usize, _: usize) -> LinkModel {
    LinkModel { delay: DELAY.0, tail: DELAY.1, ..LinkModel::default() }
}

fn start<'a>(world: &'a World, lab: &Lab, load: u64, phi: &str) -> Result<Fleet<'a>, String> {
    let ack = lab.ack_gaps * lab.nodes * 1_000 / load;
    let toto = format!(
        "\n[toto]\nphi = \"{phi}\"\nack = \"{ack}ms\"\nack_every = 1_000_000\nwindow = 256\nsilence = \"{SILENCE}\"\n"
    );
    Fleet::start(world, "protocol = \"toto\"\n".into(), toto)
}

/// One protocol under one load.
fn line(
    fleet: &mut Fleet<'_>,
    stage: &mut Stage,
    lab: &Lab,
    (pace, load): (Pace, u64),
    seed: u64,
) -> Result<Measured, String> {
    let before = fleet.sums(COUNTERS)?;
    let mut line = Line {
        members: lab.nodes as usize,
        pace,
        load,
        rng: Rng::new(seed).fork(load << 1 | u64::from(pace == Pace::Poisson)),
        heard: Vec::new(),
    };
    let rounds = lab.seconds.div_ceil(ROUND.as_secs());
    let from = stage.now();
    // Those before find an empty net.
    let first = stage.sent.len() + 4 * line.members;
    (0..rounds).try_for_each(|round| line.round(fleet, stage, from + ROUND * round as u32, None))?;
    let counts = first..stage.sent.len();
    for round in rounds..rounds + PATIENCE {
        line.round(fleet, stage, from + ROUND * round as u32, Some(&counts))?;
    }
    let after = fleet.sums(COUNTERS)?;
    let sums = std::array::from_fn(|at| after[at] - before[at]);
    line.latencies(stage, &counts).map(|latency| Measured::of(latency, sums))
}

/// What is sent and heard of a line.
struct Line {
    members: usize,
    pace: Pace,
    load: u64,
    rng: Rng,
    /// When the sender of each message heard it.
    heard: Vec<Option<Instant>>,
}

impl Line {
    /// All send for a while; less long where it is only waited for the delivery of these.
    fn round(
        &mut self,
        fleet: &mut Fleet<'_>,
        stage: &mut Stage,
        from: Instant,
        awaited: Option<&Range<usize>>,
    ) -> Result<(), String> {
        fleet.watch()?;
        let mut traffic = Traffic::new(self.rng.fork(1));
        let rate = self.load as f64 / self.members as f64;
        (0..self.members).for_each(|member| traffic.add(member, self.pace, rate, from, Some(from + ROUND)));
        while let Some((at, member)) = traffic.next() {
            if awaited.is_some_and(|counts| self.missing(counts) == 0) {
                break;
            }
            stage.send(at, member, LEN)?;
            let told = stage.take_told()?;
            told.into_iter().for_each(|told| self.note(stage, told));
        }
        Ok(())
    }

    fn note(&mut self, stage: &Stage, told: Told) {
        let Heard::Delivered(message) = told.heard else { return };
        let message = message as usize;
        if stage.sent.get(message).is_some_and(|(member, _)| *member == told.member) {
            self.heard.resize(self.heard.len().max(message + 1), None);
            self.heard[message] = Some(told.at);
        }
    }

    fn missing(&self, counts: &Range<usize>) -> usize {
        counts.clone().filter(|message| self.heard.get(*message).copied().flatten().is_none()).count()
    }

    fn latencies(&self, stage: &Stage, counts: &Range<usize>) -> Result<Samples, String> {
        let missing = self.missing(counts);
        if missing > 0 {
            return Err(format!("at {} messages a second {missing} of {} were not delivered", self.load, counts.len()));
        }
        let mut latency = Samples::default();
        for message in counts.clone() {
            if let (Some((_, sent)), Some(Some(heard))) = (stage.sent.get(message), self.heard.get(message)) {
                latency.add(heard.since(*sent));
            }
        }
        Ok(latency)
    }
}
