//! Several systems side by side.
use super::{Skipped, Tried, WORKS};
use crate::bench::floor::Floor;
use crate::bench::page::{Page, Table, exact, percentiles};
use crate::bench::sample::Figures;
use crate::bench::setup::Setup;
use crate::failure::{Failure, Outcome};
use crate::lab::figures::{bytes, thousands};
use serde::Serialize;

/// The JSON object.
#[derive(Debug, Serialize)]
pub struct Report {
    bench: &'static str,
    nodes: u16,
    size: usize,
    service: &'static str,
    rate: f64,
    runs: u32,
    seconds: f64,
    floor: Floor,
    works: Vec<WorkReport>,
    skipped: Vec<Skipped>,
}

/// One work, done by all; medians of all runs.
#[derive(Debug, Serialize)]
struct WorkReport {
    work: &'static str,
    systems: Vec<SystemReport>,
    /// Our throughput against the best of the others'; `null` where there are none, or the rate is given.
    throughput_to_best: Option<f64>,
    /// Our median latency against the best of the others'.
    latency_to_best: Option<f64>,
}

#[derive(Debug, Serialize)]
struct SystemReport {
    name: &'static str,
    median: Figures,
    runs: Vec<Figures>,
}

impl Report {
    /// What all came to; ours stands first.
    pub fn new(setup: &Setup, rate: f64, floor: Floor, tried: &[Tried], skipped: Vec<Skipped>) -> Outcome<Self> {
        Ok(Self {
            bench: "peers",
            nodes: setup.nodes,
            size: setup.size,
            service: setup.service.name(),
            rate,
            runs: setup.runs,
            seconds: setup.seconds.as_secs_f64(),
            floor,
            works: (0..WORKS.len()).map(|place| WorkReport::new(place, tried)).collect::<Outcome<_>>()?,
            skipped,
        })
    }

    /// The same for people.
    pub fn page(&self, setup: &Setup) -> Page {
        let medians = if self.runs > 1 { format!("medians of {} runs; ", self.runs) } else { String::new() };
        let runs = format!("{medians}latency at {} messages/s", thousands(self.rate as u64));
        let left_out = self.skipped.iter().map(|one| format!("{} is left out: {}", one.name, one.reason));
        let compared = self.works.iter().filter_map(WorkReport::compared);
        Page {
            title: "Consort beside others".into(),
            facts: [setup.line(), runs].into_iter().chain(left_out).chain(compared).collect(),
            tables: self.works.iter().map(WorkReport::table).collect(),
            charts: Vec::new(),
        }
    }
}

impl WorkReport {
    fn new(place: usize, tried: &[Tried]) -> Outcome<Self> {
        let systems = tried.iter().map(|one| SystemReport::new(place, one)).collect::<Outcome<Vec<_>>>()?;
        let work = WORKS[place];
        let (ours, others) = systems.split_first().ok_or_else(|| Failure::new("nothing was measured"))?;
        let best = |pick: fn(&Figures) -> f64, better: fn(f64, f64) -> f64| {
            let best = others.iter().map(|one| pick(&one.median)).reduce(better)?;
            Some(pick(&ours.median) / best.max(f64::MIN_POSITIVE))
        };
        let throughput = best(|one| one.ordered_per_s, f64::max).filter(|_| work != "at rate");
        let latency = best(|one| one.latency_us.p50, f64::min);
        Ok(Self { work, throughput_to_best: throughput, latency_to_best: latency, systems })
    }

    fn compared(&self) -> Option<String> {
        let latency = self.latency_to_best?;
        let rate = self.throughput_to_best.map(|ratio| format!("{ratio:.2} x the throughput, "));
        Some(format!("{}: {}{latency:.2} x the median latency of the best other", self.work, rate.unwrap_or_default()))
    }

    fn table(&self) -> Table {
        let head = [
            "system",
            "ordered/s",
            "p50 us",
            "p90",
            "p99",
            "p99.9",
            "max",
            "daemons us",
            "clients us",
            "daemons cores",
            "memory",
        ];
        let title = match self.work {
            "batched" => "As fast as possible, many messages a write",
            "unbatched" => "As fast as possible, one message a write",
            _ => "At the given rate",
        };
        Table::new(title, head).rows(self.systems.iter().map(SystemReport::row))
    }
}

impl SystemReport {
    fn new(place: usize, tried: &Tried) -> Outcome<Self> {
        let runs = tried.runs[place].clone();
        let median = Figures::median(&runs.iter().collect::<Vec<_>>());
        Ok(Self { name: tried.name, median: median.ok_or_else(|| Failure::new("nothing was measured"))?, runs })
    }

    fn row(&self) -> Vec<String> {
        let one = &self.median;
        let cpu = one.cpu_us_per_delivery;
        let memory = one.daemon_peak_bytes.map_or("-".into(), bytes);
        let costs = vec![exact(cpu.daemon), exact(cpu.client), exact(one.cores.daemon), memory];
        let front = vec![self.name.to_owned(), thousands(one.ordered_per_s as u64)];
        [front, percentiles(&one.latency_us), costs].concat()
    }
}
