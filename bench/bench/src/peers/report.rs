//! Several systems side by side.
use super::{Skipped, Tried, WORKS};
use crate::failure::{Failure, Outcome};
use crate::figures::{bytes, thousands};
use crate::floor::Floor;
use crate::page::{Page, Table, exact, percentiles};
use crate::sample::Figures;
use crate::setup::Setup;
use consort_peers::Tuning;
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
    tuning: Tuning,
    floor: Floor,
    works: Vec<WorkReport>,
    skipped: Vec<Skipped>,
}

/// One work, done by all; medians of all runs.
#[derive(Debug, Serialize)]
struct WorkReport {
    work: &'static str,
    systems: Vec<SystemReport>,
    /// Our throughput against the best of the others'; `null` where none was measured, or the rate is given.
    throughput_to_best: Option<f64>,
    /// Our median latency against the best of the others'.
    latency_to_best: Option<f64>,
}

#[derive(Debug, Serialize)]
struct SystemReport {
    name: &'static str,
    /// Of the runs in which it ordered anything; `null` where it never did.
    median: Option<Figures>,
    runs: Vec<Figures>,
}

impl Report {
    /// What all came to; ours stands first.
    pub fn new(
        setup: &Setup,
        rate: f64,
        tuning: Tuning,
        floor: Floor,
        tried: &[Tried],
        skipped: Vec<Skipped>,
    ) -> Outcome<Self> {
        Ok(Self {
            bench: "peers",
            nodes: setup.nodes,
            size: setup.size,
            service: setup.service.name(),
            rate,
            runs: setup.runs,
            seconds: setup.seconds.as_secs_f64(),
            tuning,
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
            facts: [setup.line(), runs, self.tuning.line()].into_iter().chain(left_out).chain(compared).collect(),
            tables: self.works.iter().map(WorkReport::table).collect(),
            charts: Vec::new(),
        }
    }
}

impl WorkReport {
    fn new(place: usize, tried: &[Tried]) -> Outcome<Self> {
        let systems: Vec<_> = tried.iter().map(|one| SystemReport::new(place, one)).collect();
        let work = WORKS[place];
        let (ours, others) = systems.split_first().ok_or_else(|| Failure::new("nothing was measured"))?;
        let best = |pick: fn(&Figures) -> f64, better: fn(f64, f64) -> f64| {
            let best = others.iter().filter_map(|one| one.median.as_ref().map(pick)).reduce(better)?;
            Some(pick(ours.median.as_ref()?) / best)
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
            "small" => "As fast as possible, many messages of 100 bytes a write",
            _ => "At the given rate",
        };
        Table::new(title, head).rows(self.systems.iter().map(SystemReport::row))
    }
}

impl SystemReport {
    fn new(place: usize, tried: &Tried) -> Self {
        let runs = tried.runs[place].clone();
        let measured: Vec<_> = runs.iter().filter(|run| run.is_measured()).collect();
        Self { name: tried.name, median: Figures::median(&measured), runs }
    }

    fn row(&self) -> Vec<String> {
        let Some(one) = &self.median else {
            let blank = ["-"; 9].map(String::from);
            return [self.name.to_owned(), "not measured".into()].into_iter().chain(blank).collect();
        };
        let cpu = one.cpu_us_per_delivery;
        let memory = one.daemon_peak_bytes.map_or("-".into(), bytes);
        let costs = vec![exact(cpu.daemon), exact(cpu.client), exact(one.cores.daemon), memory];
        let front = vec![self.name.to_owned(), thousands(one.ordered_per_s as u64)];
        [front, percentiles(&one.latency_us), costs].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Cpu, Ratio};
    use consort_testbed::Quantiles;

    fn figures(ordered: f64) -> Figures {
        Figures {
            ordered_per_s: ordered,
            delivered_per_s: 3.0 * ordered,
            unsent_per_s: 0.0,
            latency_us: Quantiles { p50: if ordered > 0.0 { 1e6 / ordered } else { 0.0 }, ..Quantiles::default() },
            cpu_us_per_delivery: Cpu { daemon: None, client: None },
            cores: Cpu { daemon: None, client: None },
            daemon_peak_bytes: None,
            token_hop_us: None,
            floor: Floor::default(),
            ratio: Ratio { throughput: 0.0, latency: 0.0, token: None },
            agreed: true,
        }
    }

    fn work(systems: &[(&'static str, &[f64])]) -> WorkReport {
        let tried = |(name, rates): &(&'static str, &[f64])| {
            let runs: Vec<_> = rates.iter().copied().map(figures).collect();
            Tried { name, runs: std::array::from_fn(|_| runs.clone()) }
        };
        WorkReport::new(0, &systems.iter().map(tried).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn one_that_ordered_nothing_is_not_measured_and_nobody_is_compared_with_it() {
        let none = work(&[("Consort", &[400.0]), ("JGroups", &[0.0, 0.0])]);
        assert_eq!((none.throughput_to_best, none.latency_to_best, none.compared()), (None, None, None));
        let row = none.systems[1].row();
        assert_eq!((row.len(), &row[1][..], &row[2][..]), (11, "not measured", "-"));
        let json = serde_json::to_value(&none).unwrap();
        assert!(json["systems"][1]["median"].is_null() && json["systems"][1]["runs"][0]["ordered_per_s"] == 0.0);
        let other = work(&[("Consort", &[400.0]), ("JGroups", &[0.0]), ("Spread", &[100.0])]);
        assert_eq!((other.throughput_to_best, other.latency_to_best), (Some(4.0), Some(0.25)));
    }

    #[test]
    fn runs_in_which_nothing_was_ordered_do_not_count() {
        let some = work(&[("Consort", &[400.0]), ("JGroups", &[0.0, 200.0, 100.0])]);
        assert_eq!(some.systems[1].median.as_ref().unwrap().ordered_per_s, 150.0);
        let ours = work(&[("Consort", &[0.0]), ("Spread", &[100.0])]);
        assert_eq!((ours.throughput_to_best, ours.compared()), (None, None));
    }
}
