//! What one round came to, and the middle of several.
use super::floor::Floor;
use super::median::{median, quantiles};
use super::setup::Setup;
use crate::failure::Outcome;
use consort_testbed::job::{Load, Pace};
use consort_testbed::{Quantiles, Times};
use consort_testbed::{Rotations, Round, RoundResult, Testbed};
use serde::Serialize;
use std::time::Duration;

/// What the clients of a round do.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// How all senders together send.
    pub pace: Pace,
    /// Sends nothing once the span is over, whatever is due by then.
    pub cut: bool,
    /// How many receive; one at each node where none is given.
    pub receivers: Option<u16>,
}

/// The figures of one round, or the medians of several.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Messages delivered in the measured time at the slowest receiver, in a second.
    pub ordered_per_s: f64,
    /// Messages delivered to all receivers together, in a second.
    pub delivered_per_s: f64,
    /// Messages that were due in time and were not sent, a second.
    pub unsent_per_s: f64,
    pub latency_us: Quantiles,
    pub cpu_us_per_delivery: Cpu,
    /// How many cores are busy.
    pub cores: Cpu,
    /// The most memory that any daemon had resident.
    pub daemon_peak_bytes: Option<u64>,
    /// A rotation of the token through the number of nodes; `null` where no token goes round.
    pub token_hop_us: Option<f64>,
    pub floor: Floor,
    pub ratio: Ratio,
    /// Whether all receivers saw the same complete sequence.
    pub agreed: bool,
}

/// What daemons and clients take, apart; `null` where the kernel does not tell.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cpu {
    pub daemon: Option<f64>,
    pub client: Option<f64>,
}

/// Against the floor.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratio {
    /// Ordered payload bytes a second, against raw multicast's.
    pub throughput: f64,
    /// The median latency, against one hop of the kind that goes with the idling profile.
    pub latency: f64,
    /// A token's hop, against the same.
    pub token: Option<f64>,
}

/// One round.
#[derive(Debug)]
pub struct Sample {
    pub figures: Figures,
    pub times: Times,
}

/// Runs one round with nodes of its own.
pub fn alone(setup: &Setup, work: Work, floor: Floor) -> Outcome<Sample> {
    let mut testbed = setup.testbed()?;
    let sample = within(&mut testbed, setup, work, floor, "bench");
    testbed.stop();
    sample
}

/// Runs one round among daemons that run already. Each round has a group of its own.
pub fn within(testbed: &mut Testbed, setup: &Setup, work: Work, floor: Floor, group: &str) -> Outcome<Sample> {
    let rotations = testbed.watch_rotations()?;
    let result = round(setup, work, group).run(testbed, &mut |_| {})?;
    Ok(Sample::new(setup, result, floor, rotations))
}

/// What one round does.
pub fn round(setup: &Setup, work: Work, group: &str) -> Round {
    Round {
        group: group.into(),
        service: setup.service.name().into(),
        load: Load::Made(setup.size),
        pace: work.pace,
        cut: work.cut,
        senders: setup.senders,
        receivers: work.receivers,
        unbatched: setup.unbatched,
        sockets: setup.sockets,
        digest: false,
        warm_up: setup.warm_up,
        span: setup.seconds,
    }
}

impl Sample {
    fn new(setup: &Setup, result: RoundResult, floor: Floor, rotations: Rotations) -> Self {
        let slowest = result.received.iter().map(|one| one.in_span).min().unwrap_or(0);
        let deliveries: u64 = result.received.iter().map(|one| one.in_span).sum();
        let unsent: u64 = result.sent.iter().map(|sent| sent.unsent).sum();
        let ordered_per_s = slowest as f64 / result.seconds;
        let latency_us = result.times.quantiles();
        let cpu =
            |factor: f64| Cpu { daemon: scaled(result.daemon_cpu, factor), client: scaled(result.client_cpu, factor) };
        let token_hop_us = rotations.median_us(result.go).map(|rotation| rotation / f64::from(setup.nodes));
        let figures = Figures {
            ordered_per_s,
            delivered_per_s: deliveries as f64 / result.seconds,
            unsent_per_s: unsent as f64 / result.seconds,
            latency_us,
            cpu_us_per_delivery: cpu(1e6 / deliveries.max(1) as f64),
            cores: cpu(1.0 / result.seconds),
            daemon_peak_bytes: result.daemon_peak,
            token_hop_us,
            ratio: Ratio::new(setup, ordered_per_s, latency_us, token_hop_us, &floor),
            floor,
            agreed: result.agreed(),
        };
        Self { figures, times: result.times }
    }
}

fn scaled(spent: Option<Duration>, factor: f64) -> Option<f64> {
    spent.map(|spent| spent.as_secs_f64() * factor)
}

impl Ratio {
    fn new(setup: &Setup, ordered_per_s: f64, latency: Quantiles, token: Option<f64>, floor: &Floor) -> Self {
        let hop = floor.hop_us_p50.max(0.001);
        Self {
            throughput: ordered_per_s * setup.size as f64 / (floor.multicast_pps * floor.packet_bytes as f64).max(1.0),
            latency: latency.p50 / hop,
            token: token.map(|token| token / hop),
        }
    }
}

impl Figures {
    /// Whether anything was ordered in the measured time: else no figure says anything.
    pub fn is_measured(&self) -> bool {
        self.ordered_per_s > 0.0
    }

    /// The medians of several rounds, each figure by itself; `None` of none. All must have agreed.
    pub fn median(all: &[&Self]) -> Option<Self> {
        let first = *all.first()?;
        let of = |pick: &dyn Fn(&Self) -> f64| median(all.iter().map(|one| pick(one)));
        let may = |pick: &dyn Fn(&Self) -> Option<f64>| {
            let some: Vec<f64> = all.iter().filter_map(|one| pick(one)).collect();
            (!some.is_empty()).then(|| median(some))
        };
        let cpu = |pick: &dyn Fn(&Self) -> Cpu| Cpu {
            daemon: may(&|one| pick(one).daemon),
            client: may(&|one| pick(one).client),
        };
        let floors: Vec<&Floor> = all.iter().map(|one| &one.floor).collect();
        Some(Self {
            ordered_per_s: of(&|one| one.ordered_per_s),
            delivered_per_s: of(&|one| one.delivered_per_s),
            unsent_per_s: of(&|one| one.unsent_per_s),
            latency_us: quantiles(all.iter().map(|one| one.latency_us)),
            cpu_us_per_delivery: cpu(&|one| one.cpu_us_per_delivery),
            cores: cpu(&|one| one.cores),
            daemon_peak_bytes: all.iter().filter_map(|one| one.daemon_peak_bytes).max(),
            token_hop_us: may(&|one| one.token_hop_us),
            floor: Floor::median(&floors).unwrap_or(first.floor),
            ratio: Ratio {
                throughput: of(&|one| one.ratio.throughput),
                latency: of(&|one| one.ratio.latency),
                token: may(&|one| one.ratio.token),
            },
            agreed: all.iter().all(|one| one.agreed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_taken_figure_by_figure_and_one_that_disagreed_is_not_outvoted() {
        let figures = |ordered: f64, p99: f64, agreed: bool| Figures {
            ordered_per_s: ordered,
            delivered_per_s: 3.0 * ordered,
            unsent_per_s: 0.0,
            latency_us: Quantiles { p99, ..Quantiles::default() },
            cpu_us_per_delivery: Cpu { daemon: Some(ordered), client: None },
            cores: Cpu { daemon: None, client: None },
            daemon_peak_bytes: Some(ordered as u64),
            token_hop_us: None,
            floor: Floor::default(),
            ratio: Ratio { throughput: 0.1, latency: 2.0, token: None },
            agreed,
        };
        let all = [figures(10.0, 7.0, true), figures(30.0, 5.0, true), figures(20.0, 6.0, false)];
        let median = Figures::median(&all.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!((median.ordered_per_s, median.latency_us.p99, median.daemon_peak_bytes), (20.0, 6.0, Some(30)));
        assert_eq!((median.cpu_us_per_delivery.daemon, median.token_hop_us, median.agreed), (Some(20.0), None, false));
        assert!(Figures::median(&[]).is_none());
    }
}
