//! The measured figures, for machines and for people.
use super::Plan;
use super::floor::Floor;
use crate::lab::RoundResult;
use crate::lab::figures::{Quantiles, bytes, micros, thousands};
use serde::Serialize;
use std::fmt;

/// The JSON object.
#[derive(Debug, Serialize)]
pub struct Report {
    pub protocol: &'static str,
    pub nodes: u16,
    pub size: usize,
    /// Messages a second over all senders; `null` for as many as possible.
    pub rate: Option<f64>,
    pub service: &'static str,
    pub unbatched: bool,
    pub idling: &'static str,
    pub datagram: usize,
    pub seconds: f64,
    pub ordered_per_s: f64,
    pub latency_us: Quantiles,
    pub cpu_us_per_delivery: Cpu,
    /// The most memory that any daemon had resident.
    pub daemon_peak_bytes: Option<u64>,
    pub floor: Floor,
    pub ratio: Ratio,
    /// Whether all receivers saw the same complete sequence.
    pub agreed: bool,
}

/// CPU time per delivery, in microseconds.
#[derive(Debug, Serialize)]
pub struct Cpu {
    pub daemon: Option<f64>,
    pub client: Option<f64>,
}

/// Against the floor.
#[derive(Debug, Serialize)]
pub struct Ratio {
    /// Ordered payload bytes a second, against raw multicast's.
    pub throughput: f64,
    /// The median latency, against one hop.
    pub latency: f64,
}

impl Report {
    /// What a round and a floor come to.
    pub fn new(plan: &Plan, result: &RoundResult, floor: Floor) -> Self {
        let slowest = result.received.iter().map(|one| one.in_span).min().unwrap_or(0);
        let deliveries: u64 = result.received.iter().map(|one| one.in_span).sum();
        let ordered_per_s = slowest as f64 / result.seconds;
        let latency_us = result.times.quantiles();
        let per = |spent: Option<std::time::Duration>| {
            spent.map(|spent| spent.as_secs_f64() * 1e6 / deliveries.max(1) as f64)
        };
        let ratio = Ratio {
            throughput: ordered_per_s * plan.size as f64 / (floor.multicast_pps * floor.packet_bytes as f64).max(1.0),
            latency: latency_us.p50 / floor.hop_us_p50.max(0.001),
        };
        Self {
            protocol: plan.order_name(),
            nodes: plan.nodes,
            size: plan.size,
            rate: plan.rate,
            service: plan.service.name(),
            unbatched: plan.unbatched,
            idling: plan.idling.name(),
            datagram: plan.datagram.get(),
            seconds: result.seconds,
            ordered_per_s,
            latency_us,
            cpu_us_per_delivery: Cpu { daemon: per(result.daemon_cpu), client: per(result.client_cpu) },
            daemon_peak_bytes: result.daemon_peak,
            floor,
            ratio,
            agreed: agreed(result),
        }
    }
}

fn agreed(result: &RoundResult) -> bool {
    let sent: u64 = result.sent.iter().map(|sent| sent.messages).sum();
    let first = result.received.first();
    result.received.iter().all(|one| {
        let same = first.is_some_and(|first| first.digest == one.digest);
        one.complete && one.wrong == 0 && one.messages == sent && same
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pace = self
            .rate
            .map_or("as fast as possible".into(), |rate| format!("{} messages/s in all", thousands(rate as u64)));
        let batched = if self.unbatched { "unbatched" } else { "batched" };
        writeln!(
            f,
            "{}, {} daemons, {}, {} B messages, {pace}, {batched} senders, idling {}, datagrams of {} B, {:.1} s\n",
            self.protocol,
            self.nodes,
            self.service,
            thousands(self.size as u64),
            self.idling,
            self.datagram,
            self.seconds
        )?;
        let bits = self.ordered_per_s * self.size as f64 * 8.0;
        writeln!(
            f,
            "  ordered   {:>12} messages/s at the slowest receiver, {:.2} Gbit/s",
            thousands(self.ordered_per_s as u64),
            bits / 1e9
        )?;
        let [p50, p99, p999] = [self.latency_us.p50, self.latency_us.p99, self.latency_us.p999].map(micros);
        writeln!(f, "  latency   p50 {p50}, p99 {p99}, p99.9 {p999}")?;
        let cpu = |us: Option<f64>| us.map_or("unknown".into(), |us| format!("{us:.3} us"));
        let (daemon, client) = (cpu(self.cpu_us_per_delivery.daemon), cpu(self.cpu_us_per_delivery.client));
        writeln!(f, "  CPU       {daemon} per delivery in the daemons, {client} in the clients")?;
        writeln!(f, "  memory    {} at most in a daemon", self.daemon_peak_bytes.map_or("unknown".into(), bytes))?;
        let floor = &self.floor;
        writeln!(
            f,
            "  floor     hop {:.1} us, raw multicast {} packets/s of {} B",
            floor.hop_us_p50,
            thousands(floor.multicast_pps as u64),
            floor.packet_bytes
        )?;
        writeln!(
            f,
            "  ratio     {:.2} of the raw multicast's bytes, {:.1} hops of latency",
            self.ratio.throughput, self.ratio.latency
        )
    }
}
