//! The accelerated against the original ring at equal windows, with real daemons on an Ethernet.
//!
//! ```text
//! clients   who sends when, who hears what      report   both rings side by side
//! ```
mod clients;
mod report;

use super::World;
use super::fleet::Fleet;
use super::limits::{share, worked};
use clients::{Cast, LEN, Load, Round};
use consort::Service;
use consort_testbed::network::ethernet::Ethernet;
use consort_types::{Duration, Instant};
use report::{Cell, Figures, Machine};
use serde_json::{Value, json};
use std::path::PathBuf;

/// How large the laboratory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    /// How many daemons.
    pub nodes: u64,
    /// Personal and accelerated windows, in packets; those of all daemons together are the global one.
    pub windows: Vec<(u32, u32)>,
    /// From how many packets in a visit on some follow the token.
    pub from: u64,
    /// The cables and the switch.
    pub ethernet: Ethernet,
    /// The service of all messages.
    pub service: Service,
    /// What daemons do while nothing happens.
    pub idling: String,
    /// Loads at which latency is measured, in percent of what a cable carries.
    pub loads: Vec<u64>,
    /// How often; medians are told.
    pub runs: u64,
    /// How long each load is measured.
    pub millis: u64,
    /// Prints JSON.
    pub json: bool,
    /// The program; built for release where none is named.
    pub program: Option<PathBuf>,
}

impl Default for Lab {
    fn default() -> Self {
        Self {
            nodes: 3,
            windows: vec![(20, 15)],
            from: 2,
            ethernet: Ethernet { rate: 100_000_000, latency: Duration::from_micros(50), queue: 256_000 },
            service: Service::Agreed,
            idling: "balanced".into(),
            loads: vec![20, 50, 80],
            runs: 3,
            millis: 1_000,
            json: false,
            program: None,
        }
    }
}

/// Both rings, as the configuration file names them.
const RINGS: [&str; 2] = ["original", "accelerated"];
/// How long all send before they are measured.
const WARM_UP: Duration = Duration::from_millis(300);
/// Until senders begin.
const SOON: Duration = Duration::from_millis(30);
/// What daemons are asked for before and after.
const COUNTERS: [&str; 4] = ["visits", "packets_sent", "packets_sent_after_token", "retransmissions_sent"];

/// The whole table, or the same as JSON.
///
/// # Errors
/// What kept a run from its end.
pub fn table(seed: u64, lab: &Lab) -> Result<String, String> {
    let world = World::on_ethernet(seed, lab.nodes as usize, lab.program.as_ref(), lab.ethernet.clone())?;
    let mut cells = lab.cells();
    for run in 0..lab.runs {
        for windows in &lab.windows {
            // To, and fro: what else the machine does meets both alike.
            for turn in 0..RINGS.len() {
                let ring = (turn + run as usize) % RINGS.len();
                let measured = lab.measure(&world, *windows, ring, seed.wrapping_add(run))?;
                let of_these = cells.iter_mut().filter(|cell| cell.windows == *windows);
                of_these.zip(measured).for_each(|(cell, figures)| cell.runs[ring].push(figures));
            }
        }
    }
    let machine = Machine::of(&world)?;
    Ok(if lab.json { report::json(lab, &cells, &machine) } else { report::table(lab, &cells, &machine) })
}

impl Lab {
    /// What is measured, without figures yet: for all windows first as much as goes, then the loads.
    fn cells(&self) -> Vec<Cell> {
        let of = |windows: &(u32, u32)| {
            let windows = *windows;
            self.all_loads().map(move |load| Cell { windows, load, runs: [Vec::new(), Vec::new()] }).collect::<Vec<_>>()
        };
        self.windows.iter().flat_map(of).collect()
    }

    fn all_loads(&self) -> impl Iterator<Item = Option<u64>> {
        std::iter::once(None).chain(self.loads.iter().copied().map(Some))
    }

    /// One ring under all loads.
    fn measure(&self, world: &World, windows: (u32, u32), ring: usize, seed: u64) -> Result<Vec<Figures>, String> {
        let mut fleet = Fleet::start(world, format!("idling = \"{}\"\n", self.idling), self.section(windows, ring))?;
        let mut cast = Cast::new(world.clock, &fleet, self.nodes as usize)?;
        let mut all = Vec::new();
        for load in self.all_loads() {
            fleet.watch()?;
            let figures = self.round(world, &fleet, &mut cast, load, seed)?;
            let (personal, accelerated) = windows;
            let Figures { mbits, p50_us, p99_us, .. } = figures;
            let load = load.map_or_else(|| "full".into(), |load| format!("{load} %"));
            eprintln!(
                "{} {personal}/{accelerated} {load}: {mbits:.1} Mbit/s, p50 {p50_us:.0} us, p99 {p99_us:.0} us",
                RINGS[ring]
            );
            all.push(figures);
        }
        drop(cast);
        fleet.end()?;
        Ok(all)
    }

    /// The part of the configuration file about the ring.
    fn section(&self, (personal, accelerated): (u32, u32), ring: usize) -> String {
        let global = personal * self.nodes as u32;
        format!(
            "\n[ring]\nprotocol = \"{}\"\npersonal_window = {personal}\naccelerated_window = {accelerated}\n\
             accelerated_from = {}\nglobal_window = {global}\nstore_window = {}\npersonal_bytes = {BYTES}\nglobal_bytes = {BYTES}\n",
            RINGS[ring],
            self.from,
            (4 * global).max(4_096)
        )
    }

    fn round(
        &self,
        world: &World,
        fleet: &Fleet<'_>,
        cast: &mut Cast,
        load: Option<u64>,
        seed: u64,
    ) -> Result<Figures, String> {
        let start = world.clock.now() + SOON;
        let (from, span) = (start + WARM_UP, Duration::from_millis(self.millis));
        let rate = |percent: u64| Load::Rate(self.ethernet.rate as f64 * percent as f64 / 100.0 / (LEN * 8) as f64);
        let load = load.map_or(Load::Full, rate);
        let round = Round { service: self.service, load, seed, start, from, until: from + span };
        let (heard, [before, after]) = cast.round(&round, || {
            let before = Reading::take(world, fleet, round.from)?;
            Ok([before, Reading::take(world, fleet, round.until)?])
        })?;
        let quantile = |q| heard.latency.value_at_quantile(q) as f64 / 1e3;
        Ok(Figures {
            mbits: heard.bytes as f64 * 8.0 / span.as_secs_f64() / 1e6,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            ..self.between(&before, &after)
        })
    }

    /// What daemons and machine did between two readings.
    fn between(&self, before: &Reading, after: &Reading) -> Figures {
        let [visits, sent, behind, again] = std::array::from_fn(|at| (after.counters[at] - before.counters[at]) as f64);
        let cores = std::thread::available_parallelism().map_or(f64::NAN, |cores| usize::from(cores) as f64);
        Figures {
            rotation_us: after.at.since(before.at).as_secs_f64() * 1e6 * self.nodes as f64 / visits,
            packets_a_visit: sent / visits,
            behind_token: 100.0 * behind / sent,
            again: 100.0 * again / sent,
            cores: cores * before.worked.zip(after.worked).map_or(f64::NAN, |(from, to)| share(from, to)),
            ..Figures::default()
        }
    }

    /// A line about all that is not told elsewhere.
    fn line(&self) -> String {
        let Ethernet { rate, latency, queue } = &self.ethernet;
        format!(
            "{} daemons, cables of {} Mbit/s, a switch of {latency:?} with {queue} bytes a port; {LEN} bytes a message, {}, \
             idling {},\naccelerated from {} packets a visit; medians of {} runs of {} ms; times in us, loads of a cable's rate",
            self.nodes,
            *rate as f64 / 1e6,
            self.service.name(),
            self.idling,
            self.from,
            self.runs,
            self.millis
        )
    }

    fn json(&self) -> Value {
        let Ethernet { rate, latency, queue } = &self.ethernet;
        json!({
            "nodes": self.nodes, "rate": rate, "latency_us": latency.as_micros() as u64, "queue": queue, "size": LEN,
            "service": self.service.name(), "idling": self.idling, "accelerated_from": self.from, "runs": self.runs,
            "millis": self.millis,
        })
    }
}

/// More than any window holds: windows are counted in packets.
const BYTES: u32 = 1 << 30;

/// What daemons and machine have done so far.
struct Reading {
    at: Instant,
    counters: [u64; COUNTERS.len()],
    worked: Option<(u64, u64)>,
}

impl Reading {
    fn take(world: &World, fleet: &Fleet<'_>, at: Instant) -> Result<Self, String> {
        std::thread::sleep(at.since(world.clock.now()));
        Ok(Self { at: world.clock.now(), worked: worked(), counters: fleet.sums(COUNTERS)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_rings_have_the_same_windows() {
        let lab = Lab { nodes: 8, from: 1, ..Lab::default() };
        let [old, new] = [0, 1].map(|ring| lab.section((50, 40), ring));
        assert_eq!(old.replace("original", "accelerated"), new);
        assert!(
            new.contains("personal_window = 50\naccelerated_window = 40\naccelerated_from = 1\nglobal_window = 400")
        );
    }

    #[test]
    fn counters_become_figures() {
        let lab = Lab::default();
        let reading = |at, counters| Reading { at: Instant(at), counters, worked: Some((at / 2, at)) };
        let (before, after) = (reading(0, [10, 100, 0, 0]), reading(1_000_000, [16, 200, 40, 1]));
        let figures = lab.between(&before, &after);
        assert_eq!((figures.rotation_us, figures.behind_token, figures.again), (500.0, 40.0, 1.0));
        assert!((figures.packets_a_visit - 100.0 / 6.0).abs() < 1e-9 && figures.cores > 0.0);
    }
}
