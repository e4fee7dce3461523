//! What a cluster carries when more is asked of it than it can carry.
use crate::args::Args;
use crate::failure::{Failure, Outcome};
use crate::figures::thousands;
use crate::median::median;
use crate::page::{self, Chart, Page, Scale, Series, Table, exact, percentiles};
use crate::sample::{Figures, Sample, Work, within};
use crate::setup::Setup;
use crate::{floor, floor::Floor};
use consort_testbed::Testbed;
use consort_testbed::job::Pace;
use serde::Serialize;
use std::io::{self, Write};

/// The percentages that are tried, where they lie in what was asked for.
const STEPS: [u32; 11] = [10, 25, 50, 75, 90, 100, 125, 150, 200, 250, 300];
/// What of the peak must be left at the highest load.
const KEPT: f64 = 0.9;

/// Loads in percent of the capacity, rising.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered(Vec<u32>);

/// The JSON object.
#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    offered: bool,
    protocol: &'static str,
    nodes: u16,
    size: usize,
    service: &'static str,
    embedded: bool,
    runs: u32,
    seconds: f64,
    /// Messages a second with senders that send as fast as they may.
    capacity_per_s: f64,
    steps: Vec<Step>,
    /// The highest goodput of all steps.
    peak_per_s: f64,
    /// The goodput at the highest load, of the peak.
    kept: f64,
    /// What it must be at least.
    target: f64,
    met: bool,
}

/// One load.
#[derive(Debug, Serialize)]
struct Step {
    percent: u32,
    offered_per_s: f64,
    median: Figures,
    runs: Vec<Figures>,
}

impl Offered {
    /// Reads `10%..300%`.
    pub fn read(args: &mut Args) -> Outcome<Self> {
        let text = args.text()?;
        let wanted = "two loads in percent, from 1 to 1000, such as 10%..300%";
        Self::parse(&text).ok_or_else(|| args.wrong(&text, wanted))
    }

    fn parse(text: &str) -> Option<Self> {
        let (low, high) = text.split_once("..")?;
        let percent = |text: &str| text.strip_suffix('%')?.parse().ok().filter(|number| (1..=1_000).contains(number));
        let (low, high): (u32, u32) = (percent(low)?, percent(high)?);
        let mut all: Vec<u32> =
            STEPS.into_iter().filter(|step| (low..=high).contains(step)).chain([low, high]).collect();
        all.sort_unstable();
        all.dedup();
        (low <= high).then_some(Self(all))
    }
}

/// Measures the capacity, then each load; every other run from the highest load down.
pub fn run(setup: &Setup, offered: &Offered) -> Outcome {
    let floor = floor::measure(setup)?;
    let mut testbed = setup.testbed()?;
    let mut sweep = Sweep { setup, floor, rounds: 0, testbed: &mut testbed };
    let mut capacities = Vec::new();
    let mut all: Vec<(u32, f64, Vec<Figures>)> = offered.0.iter().map(|step| (*step, 0.0, Vec::new())).collect();
    for run in 0..setup.runs {
        let capacity = sweep.round(Pace::Max)?.figures.ordered_per_s;
        capacities.push(capacity);
        let places: Vec<usize> = (0..all.len()).collect();
        let places = if run.is_multiple_of(2) { places } else { places.into_iter().rev().collect() };
        for place in places {
            let Some((percent, rate, figures)) = all.get_mut(place) else { continue };
            *rate = (capacity * f64::from(*percent) / 100.0).max(1.0);
            figures.push(sweep.round(Pace::Even(*rate))?.figures);
            sweep.tell(*percent, figures)?;
        }
    }
    testbed.stop();
    let report = Report::new(setup, median(capacities), all)?;
    page::publish(&setup.outlet, &report, &report.page(setup))
}

struct Sweep<'s> {
    setup: &'s Setup,
    floor: Floor,
    rounds: u32,
    testbed: &'s mut Testbed,
}

impl Sweep<'_> {
    fn round(&mut self, pace: Pace) -> Outcome<Sample> {
        self.rounds += 1;
        let work = Work { pace, cut: pace != Pace::Max, receivers: None };
        let sample = within(self.testbed, self.setup, work, self.floor, &format!("load-{}", self.rounds))?;
        match sample.figures.agreed {
            true => Ok(sample),
            false => Err(Failure::new("the receivers did not see the same complete sequence; please report this")),
        }
    }

    fn tell(&self, percent: u32, figures: &[Figures]) -> Outcome {
        let (false, Some(last)) = (self.setup.outlet.json, figures.last()) else { return Ok(()) };
        let mut out = io::stdout();
        writeln!(out, "  offered {percent:>4} %   goodput {:>12}/s", thousands(last.ordered_per_s as u64))?;
        Ok(out.flush()?)
    }
}

impl Report {
    fn new(setup: &Setup, capacity_per_s: f64, all: Vec<(u32, f64, Vec<Figures>)>) -> Outcome<Self> {
        let step = |(percent, _, runs): (u32, f64, Vec<Figures>)| {
            let median = Figures::median(&runs.iter().collect::<Vec<_>>());
            let median = median.ok_or_else(|| Failure::new("nothing was measured"))?;
            Ok(Step { percent, offered_per_s: capacity_per_s * f64::from(percent) / 100.0, median, runs })
        };
        let steps = all.into_iter().map(step).collect::<Outcome<Vec<Step>>>()?;
        let peak_per_s = steps.iter().map(|step| step.median.ordered_per_s).fold(0.0, f64::max);
        let last = steps.last().map_or(0.0, |step| step.median.ordered_per_s);
        let kept = last / peak_per_s.max(1.0);
        Ok(Self {
            bench: "ring",
            offered: true,
            protocol: setup.order_name(),
            nodes: setup.nodes,
            size: setup.size,
            service: setup.service.name(),
            embedded: setup.embedded,
            runs: setup.runs,
            seconds: setup.seconds.as_secs_f64(),
            capacity_per_s,
            steps,
            peak_per_s,
            kept,
            target: KEPT,
            met: kept >= KEPT,
        })
    }

    fn page(&self, setup: &Setup) -> Page {
        let head =
            ["offered", "offered/s", "goodput/s", "unsent/s", "p50 us", "p90", "p99", "p99.9", "max", "daemons cores"];
        let last = self.steps.last().map_or(0, |step| step.percent);
        let verdict = if self.met { "met" } else { "NOT met" };
        let kept = format!(
            "goodput at {last} %: {:.0} % of the peak; at least {:.0} % is promised: {verdict}",
            self.kept * 100.0,
            self.target * 100.0
        );
        let capacity = format!("capacity {} messages/s", thousands(self.capacity_per_s as u64));
        Page {
            title: "Goodput at any load".into(),
            facts: [setup.line(), capacity, kept].into_iter().chain(setup.remark()).collect(),
            tables: vec![Table::new("Loads", head).rows(self.steps.iter().map(Step::row))],
            charts: vec![self.chart()],
        }
    }

    fn chart(&self) -> Chart {
        let points =
            |pick: &dyn Fn(&Step) -> f64| self.steps.iter().map(|step| (f64::from(step.percent), pick(step))).collect();
        let named = |name: &str, points| Series { name: name.into(), points };
        let series = vec![
            named("goodput/s", points(&|step| step.median.ordered_per_s)),
            named("offered/s", points(&|step| step.offered_per_s)),
        ];
        Chart::plain("Goodput", ["offered, % of the capacity", "messages/s"], [Scale::Linear; 2], series)
    }
}

impl Step {
    fn row(&self) -> Vec<String> {
        let one = &self.median;
        let rates = [self.offered_per_s, one.ordered_per_s, one.unsent_per_s].map(|rate| thousands(rate as u64));
        let cells = [vec![format!("{} %", self.percent)], rates.into(), percentiles(&one.latency_us)].concat();
        [cells, vec![exact(one.cores.daemon)]].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn loads_are_read_with_their_ends() {
        assert_eq!(Offered::parse("10%..300%"), Some(Offered(STEPS.into())));
        assert_eq!(Offered::parse("80%..120%"), Some(Offered(vec![80, 90, 100, 120])));
        assert_eq!(Offered::parse("50%..50%"), Some(Offered(vec![50])));
        for wrong in ["", "10..300", "300%..10%", "0%..10%", "10%..1001%", "10%", "a%..b%"] {
            assert_eq!(Offered::parse(wrong), None, "{wrong}");
        }
        let mut args = Args::new(["--offered", "much"].map(OsString::from), "");
        args.next().unwrap();
        let problem = Offered::read(&mut args).unwrap_err().message;
        assert_eq!(
            problem,
            "--offered: `much` does not fit; give two loads in percent, from 1 to 1000, such as 10%..300%"
        );
    }
}
