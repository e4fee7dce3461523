//! `consort bench latency --join`: one-way latency between machines without clocks that agree, by Totem's two methods.
//!
//! ```text
//! plan     what is asked for            packet  what members send to each other
//! meeting  members meet, send, compare
//! ```
mod meeting;
mod packet;
mod plan;

use super::page::{self, Page, Table, short};
use crate::failure::{Failure, Outcome};
use consort::ConnectOptions;
use consort_testbed::clocks::{Pair, Reading, ahead, by_exchanges, by_sums};
use consort_testbed::{Quantiles, Times};
use meeting::Found;
use plan::Plan;
use serde::Serialize;
use std::ffi::OsString;

/// The JSON object.
#[derive(Debug, Serialize)]
struct Report {
    bench: &'static str,
    group: String,
    members: Vec<String>,
    rate: f64,
    size: usize,
    service: String,
    seconds: f64,
    pairs: Vec<Between>,
}

/// What lies between two members.
#[derive(Debug, Serialize)]
struct Between {
    members: [String; 2],
    messages: usize,
    by_sums_us: f64,
    by_exchanges_us: f64,
    there_us: Quantiles,
    back_us: Quantiles,
}

/// Runs the command.
pub fn main(words: Vec<OsString>) -> Outcome {
    let plan = plan::read(words)?;
    let client = consort_inquiry::connect::connect(&plan.address, &ConnectOptions::default())?;
    let report = Report::new(&plan, &meeting::measure(&plan, client)?)?;
    page::publish(&plan.outlet, &report, &report.page())
}

impl Report {
    fn new(plan: &Plan, found: &Found) -> Outcome<Self> {
        let readings = &found.readings;
        let (sums, exchanges, ahead) = (by_sums(readings), by_exchanges(readings), ahead(readings));
        let between = |(pair, by_sums_us): (&Pair, &f64)| {
            let (Some(by_exchanges_us), Some(ahead)) = (exchanges.get(pair), ahead.get(pair)) else { return Ok(None) };
            Ok(Some(Between {
                members: [pair.0, pair.1].map(|member| found.names[member].clone()),
                messages: readings.iter().filter(|one| (one.from.min(one.to), one.from.max(one.to)) == *pair).count(),
                by_sums_us: *by_sums_us,
                by_exchanges_us: *by_exchanges_us,
                there_us: way(readings, *pair, *ahead)?,
                back_us: way(readings, (pair.1, pair.0), -ahead)?,
            }))
        };
        let pairs: Outcome<Vec<Option<Between>>> = sums.iter().map(between).collect();
        let pairs: Vec<_> = pairs?.into_iter().flatten().collect();
        if pairs.is_empty() {
            return Err(Failure::new("no two members received of each other; give more --rate or --seconds"));
        }
        Ok(Self {
            bench: "latency between machines",
            group: plan.group.to_string(),
            members: found.names.clone(),
            rate: plan.rate,
            size: plan.size,
            service: plan.service.to_string(),
            seconds: plan.seconds.as_secs_f64(),
            pairs,
        })
    }

    fn page(&self) -> Page {
        let Self { group, rate, size, service, seconds, members, .. } = self;
        let facts = vec![format!(
            "{} members of {group} for {seconds} s: {rate} messages of {size} bytes a second over all, {service}",
            members.len()
        )];
        let head = ["between", "messages", "sums us", "exchanges us", "there p50", "p99", "back p50", "p99"];
        let row = |pair: &Between| {
            let [one, other] = &pair.members;
            let times = [pair.by_sums_us, pair.by_exchanges_us, pair.there_us.p50, pair.there_us.p99];
            let times = times.into_iter().chain([pair.back_us.p50, pair.back_us.p99]).map(short);
            [format!("{one}, {other}"), pair.messages.to_string()].into_iter().chain(times).collect()
        };
        let table = Table::new("One way, by clocks that need not agree", head).rows(self.pairs.iter().map(row));
        Page { title: "Latency between machines".into(), facts, tables: vec![table], charts: vec![] }
    }
}

/// How long messages took one way, if the receiver's clock is ahead by this.
fn way(readings: &[Reading], (from, to): Pair, ahead: f64) -> Outcome<Quantiles> {
    let mut times = Times::new()?;
    for reading in readings.iter().filter(|one| (one.from, one.to) == (from, to)) {
        times.record(((reading.received - reading.sent - ahead) * 1e3).max(0.0) as u64);
    }
    Ok(times.quantiles())
}
