//! The result of measuring a cluster in one or several cases, for machines and for people.
use super::page::{Chart, Page, Series, Table, exact, percentiles, short};
use super::sample::Figures;
use super::setup::Setup;
use super::trial::Tried;
use crate::failure::Outcome;
use crate::figures::{bytes, thousands};
use consort_testbed::job::Pace;
use serde::Serialize;

/// The JSON object. The figures beside the settings are those of the first case.
#[derive(Debug, Serialize)]
pub struct Report {
    bench: &'static str,
    #[serde(flatten)]
    settings: Settings,
    runs: u32,
    #[serde(flatten)]
    figures: Figures,
    cases: Vec<CaseReport>,
}

/// What was asked for.
#[derive(Debug, Serialize)]
pub struct Settings {
    protocol: &'static str,
    nodes: u16,
    size: usize,
    /// Messages a second over all senders; `null` for as many as possible.
    rate: Option<f64>,
    /// At random times, not evenly spaced.
    poisson: bool,
    service: &'static str,
    senders: u16,
    unbatched: bool,
    sockets: bool,
    /// The nodes were threads of their clients' processes.
    embedded: bool,
    idling: &'static str,
    datagram: usize,
    seconds: f64,
    /// Whether processors were kept from sleeping.
    no_idle_states: bool,
}

/// One of the cases.
#[derive(Debug, Serialize)]
pub struct CaseReport {
    name: String,
    #[serde(flatten)]
    settings: Settings,
    median: Figures,
    runs: Vec<Figures>,
    /// Shares of the messages, with the microseconds that they took at most.
    curve: Vec<(f64, f64)>,
}

impl Settings {
    fn new(tried: &Tried) -> Self {
        let (setup, pace) = (&tried.case.setup, tried.case.work.pace);
        Self {
            protocol: setup.order_name(),
            nodes: setup.nodes,
            size: setup.size,
            rate: pace.rate(),
            poisson: matches!(pace, Pace::Poisson(_)),
            service: setup.service.name(),
            senders: setup.senders.unwrap_or(setup.nodes),
            unbatched: setup.unbatched,
            sockets: setup.sockets,
            embedded: setup.embedded,
            idling: setup.idling.name(),
            datagram: setup.datagram.get(),
            seconds: setup.seconds.as_secs_f64(),
            no_idle_states: tried.case.awake,
        }
    }
}

impl CaseReport {
    fn new(tried: &Tried) -> Outcome<Self> {
        Ok(Self {
            name: tried.case.name.clone(),
            settings: Settings::new(tried),
            median: tried.median()?,
            runs: tried.samples.iter().map(|sample| sample.figures.clone()).collect(),
            curve: tried.curve()?,
        })
    }
}

impl Report {
    /// What all cases came to; `setup` and `first` are those of the one that was asked for.
    pub fn new(bench: &'static str, setup: &Setup, first: &Tried, all: &[Tried]) -> Outcome<Self> {
        Ok(Self {
            bench,
            settings: Settings::new(first),
            runs: setup.runs,
            figures: first.median()?,
            cases: all.iter().map(CaseReport::new).collect::<Outcome<_>>()?,
        })
    }

    /// The same for people.
    pub fn page(&self, title: &str, setup: &Setup) -> Page {
        let pace = match self.settings.rate {
            None => "as fast as possible".to_owned(),
            Some(rate) => {
                let how = if self.settings.poisson { "at random times" } else { "evenly spaced" };
                format!("{} messages/s in all, {how}", thousands(rate as u64))
            }
        };
        let runs = if self.runs > 1 { format!("; medians of {} runs", self.runs) } else { String::new() };
        Page {
            title: title.into(),
            facts: [format!("{}; {pace}{runs}", setup.line())].into_iter().chain(setup.remark()).collect(),
            tables: vec![self.rates(), self.latencies(), self.costs(), self.floors()],
            charts: vec![Chart::latency("Latency, from when a message was due", self.curves())],
        }
    }

    fn rows(&self, row: impl Fn(&Figures) -> Vec<String>) -> impl Iterator<Item = Vec<String>> {
        self.cases.iter().map(move |case| [vec![case.name.clone()], row(&case.median)].concat())
    }

    fn rates(&self) -> Table {
        let head = ["case", "ordered/s", "Gbit/s", "delivered/s", "of raw multicast's bytes"];
        Table::new("Throughput, at the slowest receiver", head).rows(self.rows(|one| {
            let bits = one.ordered_per_s * self.settings.size as f64 * 8.0;
            vec![
                thousands(one.ordered_per_s as u64),
                format!("{:.2}", bits / 1e9),
                thousands(one.delivered_per_s as u64),
                format!("{:.2}", one.ratio.throughput),
            ]
        }))
    }

    fn latencies(&self) -> Table {
        let head = ["case", "p50", "p90", "p99", "p99.9", "max", "p50 in hops"];
        Table::new("Latency, us", head)
            .rows(self.rows(|one| [percentiles(&one.latency_us), vec![short(one.ratio.latency)]].concat()))
    }

    fn costs(&self) -> Table {
        let head = ["case", "daemons us", "clients us", "daemons cores", "clients cores", "a daemon's memory"];
        Table::new("CPU time a delivery, cores, memory at most", head).rows(self.rows(|one| {
            let (each, cores) = (one.cpu_us_per_delivery, one.cores);
            let memory = one.daemon_peak_bytes.map_or("-".into(), bytes);
            vec![exact(each.daemon), exact(each.client), exact(cores.daemon), exact(cores.client), memory]
        }))
    }

    fn floors(&self) -> Table {
        let head = ["case", "hop blocking", "hop spinning", "token hop", "token in hops", "multicast pps"];
        let processes = self.figures.floor.hop_processes;
        let title = format!("Floor: p50 us of a hop in a raw ring of {processes} processes, raw multicast");
        Table::new(&title, head).rows(self.rows(|one| {
            let or_none = |value: Option<f64>| value.map_or("-".into(), short);
            let floor = &one.floor;
            vec![
                short(floor.hop_blocking_us.p50),
                short(floor.hop_spinning_us.p50),
                or_none(one.token_hop_us),
                or_none(one.ratio.token),
                thousands(floor.multicast_pps as u64),
            ]
        }))
    }

    fn curves(&self) -> Vec<Series> {
        self.cases.iter().map(|case| Series { name: case.name.clone(), points: case.curve.clone() }).collect()
    }
}
