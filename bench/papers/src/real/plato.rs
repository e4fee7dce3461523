//! PLATO against a fixed sequencer, with real daemons.
use super::World;
use super::fleet::{Fleet, SILENCE};
use super::limits::Limits;
use super::stage::{Part, Stage};
use crate::net::{Heard, Told};
use crate::plato::{
    CELLS, DELAY, LEN, MEMBERS, Measured, RECEIVER, SENDERS, SPIKE, columns, delta_text, fixed, row, spike_text,
    traffic,
};
use crate::samples::Samples;
use consort::{ConnectOptions, Undo};
use consort_sim::link::LinkModel;
use consort_types::{Duration, Rng};
use std::ops::Range;
use std::path::PathBuf;

/// How large the laboratory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    /// How many seconds a line lasts; of the spike, each of its three parts.
    pub seconds: u64,
    /// How close packets must come to be suspected; adapted to mistakes where there is none.
    pub delta: Option<Duration>,
    /// Only this part.
    pub only: Option<Only>,
    /// The program; built for release where none is named.
    pub program: Option<PathBuf>,
}

/// A part of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// The lines of this k.
    Every(u32),
    /// The spike.
    Spike,
}

impl Default for Lab {
    fn default() -> Self {
        Self { seconds: 10, delta: Some(Duration::from_micros(128)), only: None, program: None }
    }
}

/// After how long places are told though there are fewer than k: the paper knows no such limit, but joining needs a place.
const WITHIN: &str = "1s";
/// How long packets go on behind those that count.
const TAIL: Duration = Duration::from_secs(1);
/// How often it is seen that all daemons run.
const WATCH: Duration = Duration::from_secs(1);

/// The whole table.
///
/// # Errors
/// What kept a run from its end.
pub fn table(seed: u64, lab: &Lab) -> Result<String, String> {
    let world = World::new(seed, MEMBERS, lab.program.as_ref(), link)?;
    let mut limits = Limits::measure(&world)?;
    let (mut late, mut rows, mut spike) = (Samples::default(), Vec::new(), String::new());
    for (every, rates) in parts(lab) {
        let mut fleet = start(&world, lab, every)?;
        limits.ask(&fleet)?;
        let how = ConnectOptions::default().optimistic(Undo::Any);
        let clients: Vec<_> =
            SENDERS.map(|sender| (sender, Part::Speak)).into_iter().chain([(RECEIVER, Part::Listen)]).collect();
        let mut stage = Stage::new(&world, &fleet, &clients, &how)?;
        let mut run = |rate, seconds, more| {
            let rng = Rng::new(seed).fork(rate << 8 | u64::from(every));
            play(&mut fleet, &mut stage, (rate, more), seconds, rng)
        };
        for rate in rates {
            rows.push((rate, every, row(rate, every, &run(rate, lab.seconds, None)?)));
        }
        let third = lab.seconds;
        if every == SPIKE.2 && lab.only != Some(Only::Every(every)) {
            let measured = run(SPIKE.0, 3 * third, Some((SPIKE.1, third..2 * third)))?;
            spike = spike_text(&measured, third) + &format!("late: {:.2} %\n", measured.late_percent());
        }
        late.extend([std::mem::take(&mut stage.late)]);
        drop(stage);
        fleet.end()?;
    }
    rows.sort_by_key(|(rate, every, _)| (*rate, *every));
    let lines = rows.iter().map(|(rate, every, row)| format!("{row} | {}\n", paper(*rate, *every)));
    Ok(head(lab) + &lines.collect::<String>() + &spike + &limits.report(&world, &late)?)
}

/// The fleets that are needed: k, and the rates of its lines.
fn parts(lab: &Lab) -> Vec<(u32, Vec<u64>)> {
    let rates = |every| CELLS.into_iter().filter(move |cell| cell.1 == every).map(|cell| cell.0).collect::<Vec<_>>();
    match lab.only {
        Some(Only::Spike) => vec![(SPIKE.2, Vec::new())],
        Some(Only::Every(every)) => vec![(every, rates(every))],
        None => everies().map(|every| (every, rates(every))).collect(),
    }
}

/// Each k of the table, once.
pub fn everies() -> impl Iterator<Item = u32> {
    CELLS.into_iter().filter(|cell| cell.0 == CELLS[0].0).map(|cell| cell.1)
}

fn paper(rate: u64, every: u32) -> &'static str {
    CELLS.into_iter().find(|cell| (cell.0, cell.1) == (rate, every)).map_or("-", |cell| cell.2)
}

fn head(lab: &Lab) -> String {
    format!(
        "PLATO (delta {}) against a fixed sequencer: {MEMBERS} daemons in namespaces, {} s a line, Poisson; {}",
        delta_text(lab.delta),
        lab.seconds,
        columns()
    )
}

fn link(from: usize, to: usize) -> LinkModel {
    LinkModel { delay: fixed(from, to), tail: DELAY.2, ..LinkModel::default() }
}

fn start<'a>(world: &'a World, lab: &Lab, every: u32) -> Result<Fleet<'a>, String> {
    let delta = lab.delta.map_or_else(String::new, |delta| format!("delta = \"{}us\"\n", delta.as_micros()));
    let plato = format!("\n[plato]\nevery = {every}\nwithin = \"{WITHIN}\"\n{delta}silence = \"{SILENCE}\"\n");
    Fleet::start(world, "protocol = \"plato\"\n".into(), plato)
}

/// So many packets a second, and for some seconds more.
fn play(
    fleet: &mut Fleet<'_>,
    stage: &mut Stage,
    (rate, more): (u64, Option<(u64, Range<u64>)>),
    seconds: u64,
    rng: Rng,
) -> Result<Measured, String> {
    const COUNTERS: [&str; 2] = ["packets_taken_in", "late_revokes"];
    let count = |fleet: &Fleet<'_>| {
        Ok::<_, String>((fleet.counter(RECEIVER, COUNTERS[0])?, fleet.counter(RECEIVER, COUNTERS[1])?))
    };
    let (packets, late) = count(fleet)?;
    let (began, first) = (stage.now(), stage.sent.len());
    let mut traffic = traffic(rng, rate, began, more);
    let mut measured = Measured::begin(began);
    // Places of the last ones are told only once more follow.
    let (end, mut watched) = (began + Duration::from_secs(seconds), began);
    while let Some((at, member)) = traffic.next().filter(|(at, _)| *at < end + TAIL) {
        if at > watched + WATCH {
            fleet.watch()?;
            watched = at;
        }
        stage.send(at, member, LEN)?;
        note(stage, first, &mut measured)?;
    }
    note(stage, first, &mut measured)?;
    let (packets_after, late_after) = count(fleet)?;
    (measured.packets, measured.late) = (packets_after - packets, late_after - late);
    measured.sent = stage.sent[first..].iter().map(|(_, at)| *at).collect();
    measured.end(end).map(|()| measured)
}

/// Notes what was heard of this run's messages.
fn note(stage: &mut Stage, first: usize, measured: &mut Measured) -> Result<(), String> {
    for told in stage.take_told()? {
        let of = |message: u64| message.checked_sub(first as u64);
        let heard = match told.heard {
            Heard::Offered { offer, message, free_until } => {
                of(message).map(|message| Heard::Offered { offer, message, free_until })
            }
            Heard::Confirmed { offer, message } => of(message).map(|message| Heard::Confirmed { offer, message }),
            Heard::Delivered(message) => of(message).map(Heard::Delivered),
        };
        heard.into_iter().for_each(|heard| measured.note(Told { heard, ..told }));
    }
    Ok(())
}
