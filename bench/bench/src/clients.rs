//! `consort bench clients`: what becomes of throughput and latency as the number of clients grows.
use super::floor::{self, Floor};
use super::page::{self, Chart, Page, Scale, Series, Table, exact, short};
use super::sample::{Figures, Work, within};
use super::setup::{self, CLIENTS_MAX, Setup, shared_help};
use crate::args::Args;
use crate::failure::{Failure, Outcome};
use crate::figures::thousands;
use consort_testbed::Testbed;
use consort_testbed::job::Pace;
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Write};

/// What `consort bench clients --help` prints.
pub const HELP: &str = concat!(
    "\
Usage: consort bench clients [options]

Measures daemons with 1, 2, 4 and more clients in one group, spread over them. A
client is a process that sends and one that receives all. For each number: all
send as fast as they may, many messages a write; the same, one message a write;
and all together at a given rate, for latency.

  --clients N        the most clients, 1 to 256 [16]
  --rate R           messages a second over all senders, for latency [1000]
",
    shared_help!(),
    "
ordered/s    messages delivered to the slowest receiver, in a second
delivered/s  the same for all receivers together
"
);

/// The three things that are done with each number of clients.
const WORKS: [&str; 3] = ["batched", "unbatched", "at_rate"];

#[derive(Clone, Debug)]
struct Plan {
    setup: Setup,
    clients: u16,
    rate: f64,
}

/// The JSON object.
#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    protocol: &'static str,
    nodes: u16,
    size: usize,
    service: &'static str,
    idling: &'static str,
    embedded: bool,
    rate: f64,
    runs: u32,
    seconds: f64,
    floor: Floor,
    steps: Vec<Step>,
}

/// One number of clients; medians of all runs.
#[derive(Debug, Serialize)]
struct Step {
    clients: u16,
    batched: Figures,
    unbatched: Figures,
    at_rate: Figures,
}

/// All runs of one number of clients.
struct Row {
    clients: u16,
    runs: [Vec<Figures>; 3],
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let plan = read(words)?;
    let floor = floor::measure(&plan.setup)?;
    let mut testbed = plan.setup.testbed()?;
    let mut rows: Vec<Row> =
        plan.steps().into_iter().map(|clients| Row { clients, runs: Default::default() }).collect();
    for run in 0..plan.setup.runs {
        for row in &mut rows {
            row.measure(&plan, run, floor, &mut testbed)?;
        }
        rows.reverse();
    }
    testbed.stop();
    rows.sort_by_key(|row| row.clients);
    let report = Report::new(&plan, floor, &rows)?;
    page::publish(&plan.setup.outlet, &report, &report.page(&plan.setup))
}

fn read(words: Vec<OsString>) -> Outcome<Plan> {
    let mut args = Args::new(words, HELP);
    let mut plan = Plan { setup: Setup::default(), clients: 16, rate: 1_000.0 };
    while let Some(option) = args.next()? {
        match option.as_str() {
            "--clients" => plan.clients = args.number(1..=u64::from(CLIENTS_MAX))? as u16,
            "--rate" => plan.rate = setup::rate(&mut args)?,
            option if plan.setup.take(option, &mut args)? => {}
            _ => return Err(args.unknown()),
        }
    }
    args.no_words()?;
    plan.setup.compares_by_itself()?;
    Ok(plan)
}

impl Plan {
    /// Doubling, up to the most.
    fn steps(&self) -> Vec<u16> {
        let doubling = std::iter::successors(Some(1), |n: &u16| n.checked_mul(2)).take_while(|n| *n < self.clients);
        doubling.chain([self.clients]).collect()
    }
}

impl Row {
    fn measure(&mut self, plan: &Plan, run: u32, floor: Floor, testbed: &mut Testbed) -> Outcome {
        for (place, name) in WORKS.into_iter().enumerate() {
            let clients = Some(self.clients);
            let senders = plan.setup.senders.or(clients);
            let setup = Setup { senders, unbatched: name == "unbatched", ..plan.setup.clone() };
            let pace = if name == "at_rate" { Pace::Poisson(plan.rate) } else { Pace::Max };
            let work = Work { pace, cut: false, receivers: clients };
            let sample = within(testbed, &setup, work, floor, &format!("{name}-{}-{run}", self.clients))?;
            if !sample.figures.agreed {
                return Err(Failure::new("the receivers did not see the same complete sequence; please report this"));
            }
            self.runs[place].push(sample.figures);
        }
        if plan.setup.outlet.json { Ok(()) } else { self.tell() }
    }

    fn tell(&self) -> Outcome {
        let rate = |place: usize| self.runs[place].last().map_or(0.0, |one| one.ordered_per_s);
        let [batched, unbatched] = [0, 1].map(|place| thousands(rate(place) as u64));
        let mut out = io::stdout();
        writeln!(out, "  {:>4} clients   {batched:>12}/s batched   {unbatched:>12}/s unbatched", self.clients)?;
        Ok(out.flush()?)
    }

    fn median(&self) -> Outcome<Step> {
        let of = |place: usize| {
            let all: Vec<&Figures> = self.runs[place].iter().collect();
            Figures::median(&all).ok_or_else(|| Failure::new("nothing was measured"))
        };
        Ok(Step { clients: self.clients, batched: of(0)?, unbatched: of(1)?, at_rate: of(2)? })
    }
}

impl Report {
    fn new(plan: &Plan, floor: Floor, rows: &[Row]) -> Outcome<Self> {
        let setup = &plan.setup;
        Ok(Self {
            bench: "clients",
            protocol: setup.order_name(),
            nodes: setup.nodes,
            size: setup.size,
            service: setup.service.name(),
            idling: setup.idling.name(),
            embedded: setup.embedded,
            rate: plan.rate,
            runs: setup.runs,
            seconds: setup.seconds.as_secs_f64(),
            floor,
            steps: rows.iter().map(Row::median).collect::<Outcome<_>>()?,
        })
    }

    fn page(&self, setup: &Setup) -> Page {
        let rate = format!("latency at {} messages/s in all, at random times", thousands(self.rate as u64));
        Page {
            title: "Many clients".into(),
            facts: [setup.line(), rate].into_iter().chain(setup.remark()).collect(),
            tables: vec![
                self.rates("As fast as possible, many messages a write", |step| &step.batched),
                self.rates("As fast as possible, one message a write", |step| &step.unbatched),
                self.latencies(),
            ],
            charts: vec![self.throughput(), self.latency()],
        }
    }

    fn rates(&self, title: &str, pick: fn(&Step) -> &Figures) -> Table {
        let head = ["clients", "ordered/s", "delivered/s", "p50 us", "p99 us", "daemons us", "clients us", "memory"];
        Table::new(title, head).rows(self.steps.iter().map(move |step| {
            let one = pick(step);
            let rates = [one.ordered_per_s, one.delivered_per_s].map(|rate| thousands(rate as u64));
            let times = [one.latency_us.p50, one.latency_us.p99].map(short);
            let cpu = one.cpu_us_per_delivery;
            let memory = one.daemon_peak_bytes.map_or("-".into(), crate::figures::bytes);
            let rest = vec![exact(cpu.daemon), exact(cpu.client), memory];
            [vec![step.clients.to_string()], rates.into(), times.into(), rest].concat()
        }))
    }

    fn latencies(&self) -> Table {
        let head = ["clients", "p50", "p90", "p99", "p99.9", "max", "daemons cores", "clients cores"];
        Table::new("Latency at the given rate, us", head).rows(self.steps.iter().map(|step| {
            let (us, cores) = (page::percentiles(&step.at_rate.latency_us), step.at_rate.cores);
            [vec![step.clients.to_string()], us, vec![exact(cores.daemon), exact(cores.client)]].concat()
        }))
    }

    fn series(&self, name: &str, pick: impl Fn(&Step) -> f64) -> Series {
        let points = self.steps.iter().map(|step| (f64::from(step.clients), pick(step))).collect();
        Series { name: name.into(), points }
    }

    fn throughput(&self) -> Chart {
        let series = vec![
            self.series("batched", |step| step.batched.ordered_per_s),
            self.series("unbatched", |step| step.unbatched.ordered_per_s),
        ];
        Chart::plain("Throughput", ["clients", "ordered/s"], [Scale::Linear; 2], series)
    }

    fn latency(&self) -> Chart {
        let series = vec![
            self.series("p50", |step| step.at_rate.latency_us.p50),
            self.series("p99", |step| step.at_rate.latency_us.p99),
        ];
        Chart::plain("Latency at the given rate", ["clients", "us"], [Scale::Linear, Scale::Logarithm], series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Outcome<Plan> {
        read(line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn clients_double_up_to_the_most() {
        assert_eq!(plan("").unwrap().steps(), [1, 2, 4, 8, 16]);
        assert_eq!(plan("--clients 5 --nodes 1").unwrap().steps(), [1, 2, 4, 5]);
        assert_eq!(plan("--clients 1").unwrap().steps(), [1]);
    }

    #[test]
    fn wrong_plans_are_refused_with_what_would_fit() {
        let problem = |line: &str| plan(line).unwrap_err().message;
        assert_eq!(problem("--clients 0"), "--clients: `0` does not fit; give a number from 1 to 256");
        assert_eq!(problem("--embedded --compare hosts"), "--compare has no meaning here; leave it out");
        assert_eq!(problem("--compare writes"), "--compare has no meaning here; leave it out");
        assert_eq!(problem("--unbatched"), "both kinds of writes are measured anyway; leave --unbatched out");
        assert_eq!(problem("--client 3"), "--client: there is no such option; did you mean --clients?");
        for option in crate::args::options_of(HELP) {
            assert!(!plan(&format!("{option} 1")).is_err_and(|failure| failure.message.contains("no such option")));
        }
    }
}
