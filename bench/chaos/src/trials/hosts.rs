//! What hosts do to daemons: daemons without a processor, killed daemons, and programs that compete.
use std::time::{Duration, Instant};

use consort::Service;
use consort_sim::fault::Disk;

use super::outcome::Figures;
use super::site::Site;
use super::stage::{Hosts, Setup, Stage, text, with};
use super::stress::Stress;
use super::watch::Beat;

const BEAT: Beat = Beat { node: 0, every: Duration::from_millis(20), service: Service::Agreed };
/// How far apart stops and kills are.
const APART: Duration = Duration::from_millis(1_500);
/// How long others may take to be told of a crash at all.
const TOLD: Duration = Duration::from_secs(20);

fn on_one_host(
    site: &Site<'_>,
    nodes: usize,
    run: impl FnOnce(&mut Stage<'_>, &[usize]) -> Result<Figures, String>,
) -> Result<Figures, String> {
    let all: Vec<usize> = (0..nodes).collect();
    with(site, &Setup { hosts: Hosts::Together, nodes, first: &all, beat: BEAT, protocol: "ring" }, |stage| {
        run(stage, &all)
    })
}

/// Twelve stalls that are longer than the loss of a token, and shorter than a crash may take to be told.
pub fn stops_250(site: &Site<'_>) -> Result<Figures, String> {
    stops(site, &[2], Duration::from_millis(250), 0)
}

/// Stalls that cannot be told from a crash: gone and back.
pub fn stops_500(site: &Site<'_>) -> Result<Figures, String> {
    stops(site, &[2], Duration::from_millis(500), 2)
}

/// As when a virtual machine is paused: nobody has missed anything.
pub fn stops_all(site: &Site<'_>) -> Result<Figures, String> {
    stops(site, &[0, 1, 2], Duration::from_secs(1), 0)
}

fn stops(site: &Site<'_>, who: &[usize], span: Duration, each: usize) -> Result<Figures, String> {
    on_one_host(site, 3, |stage, all| {
        for _ in 0..site.lengths.stops {
            who.iter().for_each(|node| stage.fleet.stop(*node, true));
            let stopped = stage.pass(span);
            who.iter().for_each(|node| stage.fleet.stop(*node, false));
            stopped?;
            stage.pass(APART)?;
        }
        stage.together(all)?;
        Ok(stage.figures(&[0, 1], each * site.lengths.stops as usize))
    })
}

/// Idle daemons beside programs that want all cores, memory and disk.
pub fn storm(site: &Site<'_>) -> Result<Figures, String> {
    on_one_host(site, 3, |stage, all| {
        let stress = Stress::start(stage.network, stage.directory, site.lengths.storm)?;
        stage.pass(site.lengths.storm)?;
        let mut figures = stage.figures(all, 0);
        figures.notes.push(format!("{} programs", stress.len()));
        Ok(figures)
    })
}

/// On a quiet host.
pub fn crash(site: &Site<'_>) -> Result<Figures, String> {
    on_one_host(site, 3, |stage, all| crashes(site, stage, all, Duration::from_millis(500)))
}

/// The same with more members.
pub fn crash_16(site: &Site<'_>) -> Result<Figures, String> {
    on_one_host(site, 16, |stage, all| crashes(site, stage, all, Duration::from_millis(500)))
}

/// Beside programs that compete; what they cost in views is another trial's.
pub fn crash_storm(site: &Site<'_>) -> Result<Figures, String> {
    on_one_host(site, 3, |stage, all| {
        let most = Duration::from_secs(10) * site.lengths.crashes + TOLD;
        let _stress = Stress::start(stage.network, stage.directory, most)?;
        stage.pass(APART)?;
        crashes(site, stage, all, Duration::from_secs(2))
    })
}

/// One daemon after the other is killed and comes back: two views each.
fn crashes(site: &Site<'_>, stage: &mut Stage<'_>, all: &[usize], goal: Duration) -> Result<Figures, String> {
    let mut took = Vec::new();
    stage.mark(all);
    for number in 0..site.lengths.crashes as usize {
        // The first is not killed: what it was told is counted.
        let victim = 1 + number % (all.len() - 1);
        took.push(killed(stage, all, victim)?);
        stage.fleet.start(victim).map_err(text)?;
        stage.together(all)?;
        stage.pass(APART)?;
    }
    took.sort();
    let told = took.iter().flatten().copied().collect::<Vec<_>>();
    let mut figures = stage.figures(&[0], 2 * took.len());
    let (p50, most) = (told.get(told.len() / 2), told.last());
    let shown = |time: Option<&Duration>| time.map_or("-".into(), |time| format!("{} ms", time.as_millis()));
    figures.notes.push(format!("told after p50 {}, max {} of {}", shown(p50), shown(most), took.len()));
    figures.wants(told.len() == took.len(), || format!("{} not told within {TOLD:?}", took.len() - told.len()));
    figures.wants(most.is_none_or(|most| *most <= goal), || format!("told later than {goal:?}"));
    Ok(figures)
}

/// How long it took until all others were told; `None` where they were not.
fn killed(stage: &mut Stage<'_>, all: &[usize], victim: usize) -> Result<Option<Duration>, String> {
    let others: Vec<usize> = all.iter().copied().filter(|node| *node != victim).collect();
    let at = Instant::now();
    stage.fleet.kill(victim, Disk::Kept).map_err(text)?;
    let gone = victim as u16 + 1;
    let first = |watch: &super::watch::Watch, node: usize| {
        watch.views(node).into_iter().find(|seen| seen.at > at && !seen.nodes.contains(&gone)).map(|seen| seen.at - at)
    };
    let told = stage.until(TOLD, |watch| others.iter().all(|node| first(watch, *node).is_some()))?;
    let slowest = others.iter().filter_map(|node| first(stage.watch, *node)).max();
    Ok(slowest.filter(|_| told))
}
