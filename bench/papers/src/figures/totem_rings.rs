//! Totem's rings that are joined by gateways, on the workstations of its single ring. Of the messages that come to a gateway a
//! share has readers behind it.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::lab::Lab;
use super::totem::{BEST, HEAD, HOST, LEN, SITE};
use crate::gateways::{Gateways, Measured, Plan};
use crate::parallel;
use crate::windows::fixed;
use crate::wires::Load;
use consort_multiring::Config;
use consort_multiring::carrier::{HEADER, TOPICS_LEN};
use consort_multiring::packet::RING_LEN;
use consort_ring::packet::STAMP_LEN;
use consort_ring::{Acceleration, RingTimeouts, Windows};
use consort_types::{Duration, Service};
use consort_wire::DatagramSize;

/// The nodes of each ring.
type Rings = Vec<Vec<u16>>;

/// Rings, and what they carry.
struct Case {
    rings: Rings,
    window: u32,
    load: Load,
    /// Own messages under way of each node, where the load is full.
    ahead: usize,
    service: Service,
    /// The share that each gateway sends on.
    read_behind: f64,
}

impl Case {
    fn run(&self, lab: &Lab, millis: u64) -> Result<Measured, String> {
        let datagram = DatagramSize::new(LEN + HEAD + HEADER + TOPICS_LEN + RING_LEN + STAMP_LEN)?;
        let members = self.rings.iter().map(Vec::len).max().unwrap_or_default();
        let adjust = |config: &mut Config| {
            config.ring.datagram = datagram;
            config.ring.windows = Windows { accelerated_from: 1, ..fixed(self.window, 0, members as u64) };
            config.ring.acceleration = Acceleration::Original;
            // The paper's token never rests, and its hosts are slow.
            config.ring.idling.linger = Duration::from_secs(1_000);
            config.tell = Duration::from_millis(250);
            config.timers = Some(RingTimeouts {
                token_retransmit: Duration::from_millis(200),
                token_loss: Duration::from_secs(1),
                consensus: Duration::from_millis(1_300),
                ..RingTimeouts::lan(members)
            });
        };
        let (rings, load, ahead, service) = (self.rings.clone(), self.load, self.ahead, self.service);
        let read_behind = self.read_behind;
        let plan = Plan { site: &SITE, rings, load, ahead, service, len: LEN, read_behind, adjust: &adjust };
        let span = Duration::from_millis(lab.scaled(millis));
        Gateways::start(&plan, lab.scale.seed)?.measure(Duration::from_millis(500), span)
    }
}

/// So many rings in a row with the same number of nodes that send, and a gateway between each and the next.
fn chain(rings: u16, senders: u16) -> Rings {
    let ring = |at: u16| {
        let own = at * senders..(at + 1) * senders;
        let gateways = (at.saturating_sub(1)..at + 1).filter(|gateway| *gateway + 1 < rings);
        own.chain(gateways.map(|gateway| rings * senders + gateway)).collect()
    };
    (0..rings).map(ring).collect()
}

/// The same in a loop: the last ring shares a gateway with the first, too.
fn looped(rings: u16, senders: u16) -> Rings {
    let mut joined = chain(rings, senders);
    let last = rings * senders + rings - 1;
    for ring in [0, usize::from(rings) - 1] {
        joined[ring].push(last);
    }
    joined
}

fn setting(load: &str) -> String {
    format!(
        "Nodes of one ring that send and receive, and gateways between two rings that send messages on where somebody reads \
         them, and of the others their places. All are workstations that take {:?} to send or to receive a packet, and 45 ns a byte. Each ring is a network of 100 Mbit/s, \
         with a switch in place of the shared cable; original ring, messages of {LEN} bytes, one a packet, no losses. {load}",
        HOST.send
    )
}

/// Windows, and messages under way of each node, of which the best is chosen where gateways have to keep up.
const TRIED: [(u32, usize); 5] = [(BEST, 8), (BEST, 16), (BEST, 32), (40, 16), (40, 64)];
/// How long each cell of figure 8 is measured, in milliseconds.
const MILLIS: u64 = 2_000;

/// Shares of the messages that have readers behind a gateway.
const SHARES: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 1.0];

/// The best that a topology carries where so many messages are sent on.
struct Best {
    rings: usize,
    share: f64,
    run: Measured,
}

fn bests(lab: &Lab) -> Result<Vec<Best>, String> {
    let one = std::iter::once((chain(1, 9), 1.0, (BEST, 32)));
    let several = [chain(2, 4), chain(3, 3)].into_iter().flat_map(|rings| {
        SHARES.into_iter().flat_map(move |share| {
            let rings = rings.clone();
            TRIED.map(move |tried| (rings.clone(), share, tried))
        })
    });
    let plans: Vec<_> = one.chain(several).collect();
    let runs = parallel::map(&plans, |(rings, read_behind, (window, ahead))| {
        let (rings, load, service) = (rings.clone(), Load::Full, Service::Agreed);
        let case = Case { rings, window: *window, load, ahead: *ahead, service, read_behind: *read_behind };
        Ok(Best { rings: case.rings.len(), share: *read_behind, run: case.run(lab, MILLIS)? })
    })?;
    let mut bests: Vec<Best> = Vec::new();
    for run in runs {
        match bests.iter_mut().find(|best| best.rings == run.rings && best.share == run.share) {
            Some(best) if best.run.rate >= run.run.rate => {}
            Some(best) => *best = run,
            None => bests.push(run),
        }
    }
    Ok(bests)
}

/// Where a curve falls below a height, going from each point to the next in a straight line; none where it never does.
fn crossing(curve: &[(f64, f64)], height: f64) -> Option<f64> {
    let pair = curve.windows(2).find(|pair| pair[0].1 >= height && pair[1].1 < height)?;
    let [(from, above), (to, below)] = [pair[0], pair[1]];
    Some(from + (to - from) * (above - height) / (above - below))
}

/// Throughput over the forwarding probability.
pub fn figure_8(lab: &Lab) -> Result<Outcome, String> {
    let bests = bests(lab)?;
    let of = |rings: usize| bests.iter().filter(move |best| best.rings == rings);
    let curve = |rings: usize| of(rings).map(|best| (best.share, best.run.rate)).collect::<Vec<_>>();
    let one = of(1).map(|best| best.run.rate).next().unwrap_or_default();
    let (two, three) = (curve(2), curve(3));
    let at = |curve: &[(f64, f64)], share: f64| {
        curve.iter().find(|(of, _)| *of == share).map(|(_, rate)| *rate).unwrap_or_default()
    };
    let claims = vec![
        Claim::near("one ring", 5_364.0, one, 7.0, "messages/s"),
        Claim::near("two rings, a tenth sent on", 7_993.0, at(&two, 0.1), 15.0, "messages/s"),
        Claim::near("three rings, a tenth sent on", 10_086.0, at(&three, 0.1), 15.0, "messages/s"),
        Claim::near("two rings carry less than one from here on", 0.5, crossing(&two, one).unwrap_or(1.0), 40.0, ""),
        Claim::at_most("two rings by one, all sent on", "less", at(&two, 1.0) / one, 1.0, "times"),
    ];
    let curves = vec![
        Curve::line("one ring", vec![(0.0, one), (1.0, one)]),
        Curve::line("two rings", two),
        Curve::line("three rings", three),
        Curve::paper("paper: one", vec![(0.0, 5_364.0), (1.0, 5_364.0)]),
        Curve::paper("paper: two", vec![(0.1, 7_993.0)]),
        Curve::paper("paper: three", vec![(0.1, 10_086.0)]),
    ];
    let (x, y) = (Axis::linear("forwarding probability"), Axis::linear("messages a second"));
    let chart = Chart { title: "Throughput by the share that is sent on".into(), x, y, curves };
    let busy = |rings: usize, share: f64| {
        let best = of(rings).find(|best| best.share == share);
        best.and_then(|best| best.run.busiest_gateway).unwrap_or_default()
    };
    let load = format!(
        "All nodes but gateways always have more to send: nine in one ring, twice four, three times three. Of several windows, \
         and numbers of messages under way, the best. Gateways are busy for {:.0} and {:.0} % of the time where a tenth is \
         sent on, for {:.0} and {:.0} % where all is.",
        busy(2, 0.1),
        busy(3, 0.1),
        busy(2, 1.0),
        busy(3, 1.0)
    );
    Ok(Outcome { setting: setting(&load), charts: vec![chart], claims })
}

/// Messages a second of all nodes, where latency is measured over that.
const RATES: [f64; 4] = [500.0, 1_500.0, 3_000.0, 4_500.0];

/// Mean latency over throughput for one, two and three rings, where a tenth is sent on.
fn latencies(lab: &Lab, service: Service) -> Result<Outcome, String> {
    let topologies = [("one ring", chain(1, 9)), ("two rings", chain(2, 4)), ("three rings", chain(3, 3))];
    let plans: Vec<_> = topologies
        .iter()
        .flat_map(|(name, rings)| RATES.map(|rate| SpreadPlan { name, rings: rings.clone(), rate, read_behind: 0.1 }))
        .collect();
    let means = parallel::map(&plans, |plan| Ok(Spread::run(lab, service, plan)?.mean()))?;
    let curves: Vec<Vec<(f64, f64)>> =
        means.chunks(RATES.len()).map(|means| RATES.into_iter().zip(means.iter().copied()).collect()).collect();
    let [one, two, three] = &curves[..] else { return Err("a topology has no result".into()) };
    let by_one = |of: &[(f64, f64)], at: usize| of[at].1 / one[at].1;
    let (some, most) = (1, RATES.len() - 1);
    let higher = |of: &[(f64, f64)]| by_one(of, most) / by_one(of, some);
    let claims = vec![
        Claim::at_most("two rings by one, 4500 a second", "less", by_one(two, most), 1.0, "times"),
        Claim::at_most("three rings by one, 4500 a second", "less", by_one(three, most), 1.0, "times"),
        Claim::at_most("two by one, 4500 by 1500 a second", "more is gained at higher load", higher(two), 1.0, "times"),
        Claim::at_most("three by one, 4500 by 1500 a second", "more is gained", higher(three), 1.0, "times"),
    ];
    let named = topologies.iter().zip(&curves).map(|((name, _), curve)| Curve::line(*name, curve.clone()));
    let chart = Chart {
        title: "Latency of three topologies".into(),
        x: Axis::linear("messages a second"),
        y: Axis::linear("mean latency, ms"),
        curves: named.collect(),
    };
    let load =
        "Messages at random times; nine nodes send in one ring, twice four, and three times three. A tenth is sent on.";
    Ok(Outcome { setting: setting(load), charts: vec![chart], claims })
}

/// Agreed latency over throughput.
pub fn figure_9(lab: &Lab) -> Result<Outcome, String> {
    latencies(lab, Service::Agreed)
}

/// Safe latency over throughput.
pub fn figure_10(lab: &Lab) -> Result<Outcome, String> {
    latencies(lab, Service::Safe)
}

/// Messages a second in all.
const RATE: f64 = 2_000.0;
/// The share that is sent on.
const SHARE: f64 = 0.6;
/// How long each distribution is measured, in milliseconds.
const POISSON_MILLIS: u64 = 4_000;

/// Rings, how many messages they carry in a second, and which share of them each gateway sends on.
#[derive(Clone)]
struct SpreadPlan {
    name: &'static str,
    rings: Rings,
    rate: f64,
    read_behind: f64,
}

/// Latencies, in milliseconds.
struct Spread {
    name: &'static str,
    took: Vec<f64>,
}

impl Spread {
    fn run(lab: &Lab, service: Service, plan: &SpreadPlan) -> Result<Self, String> {
        // The window and the store hold all that comes in a rotation.
        let SpreadPlan { name, rings, rate, read_behind } = plan.clone();
        let case = Case { rings, window: BEST, load: Load::Rate(rate), ahead: 0, service, read_behind };
        let run = case.run(lab, POISSON_MILLIS)?;
        if (run.rate / rate - 1.0).abs() > 0.1 {
            return Err(format!("{name}: of {rate} messages a second {:.0} are handed out", run.rate));
        }
        Ok(Self { name, took: run.took.iter().map(|took| took.as_secs_f64() * 1e3).collect() })
    }

    fn mean(&self) -> f64 {
        self.took.iter().sum::<f64>() / self.took.len() as f64
    }

    /// The standard deviation.
    fn deviation(&self) -> f64 {
        let mean = self.mean();
        (self.took.iter().map(|took| (took - mean).powi(2)).sum::<f64>() / self.took.len() as f64).sqrt()
    }

    /// How many of a hundred messages took about so long, for each millisecond, by bins of so many milliseconds.
    fn density(&self, bin: f64) -> Vec<(f64, f64)> {
        let mut counts = std::collections::BTreeMap::<u64, usize>::new();
        self.took.iter().for_each(|took| *counts.entry((took / bin) as u64).or_default() += 1);
        let share = |count: usize| 100.0 * count as f64 / self.took.len() as f64 / bin;
        counts.into_iter().map(|(at, count)| ((at as f64 + 0.5) * bin, share(count))).collect()
    }
}

fn spreads(lab: &Lab, service: Service, bin: f64) -> Result<Outcome, String> {
    let plan = |name, rings, read_behind| SpreadPlan { name, rings, rate: RATE, read_behind };
    let plans = [
        plan("one ring", chain(1, 40), 1.0),
        plan("two rings", chain(2, 20), SHARE),
        plan("two rings, all sent on", chain(2, 20), 1.0),
        plan("four rings in a loop", looped(4, 10), SHARE),
    ];
    let runs = parallel::map(&plans, |plan| Spread::run(lab, service, plan))?;
    let [one, two, _, four] = &runs[..] else { return Err("a topology has no result".into()) };
    let by_one = |rings: &str, run: &Spread, what: &str, of: &dyn Fn(&Spread) -> f64| {
        Claim::at_most(&format!("{rings} by one, 0.6 sent on: {what}"), "less", of(run) / of(one), 1.0, "times")
    };
    let claims = vec![
        by_one("two rings", two, "mean", &Spread::mean),
        by_one("two rings", two, "standard deviation", &Spread::deviation),
        by_one("four rings in a loop", four, "mean", &Spread::mean),
        by_one("four rings in a loop", four, "standard deviation", &Spread::deviation),
    ];
    let chart = Chart {
        title: "Latency of 40 nodes".into(),
        x: Axis::linear("latency, ms"),
        y: Axis::linear("% of messages a millisecond"),
        curves: runs.iter().map(|run| Curve::line(run.name, run.density(bin))).collect(),
    };
    let told = |run: &Spread| format!("{} {:.1} and {:.1}", run.name, run.mean(), run.deviation());
    let load = format!(
        "{RATE} messages a second of 40 nodes, at random times, of which each gateway sends {SHARE} on. Mean and standard \
         deviation in ms: {}.",
        runs.iter().map(told).collect::<Vec<_>>().join("; ")
    );
    Ok(Outcome { setting: setting(&load), charts: vec![chart], claims })
}

/// How agreed latency is distributed.
pub fn figure_11(lab: &Lab) -> Result<Outcome, String> {
    spreads(lab, Service::Agreed, 2.0)
}

/// How safe latency is distributed.
pub fn figure_12(lab: &Lab) -> Result<Outcome, String> {
    spreads(lab, Service::Safe, 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_in_a_row_share_a_gateway_with_the_next() {
        assert_eq!(chain(1, 3), [vec![0, 1, 2]]);
        assert_eq!(chain(2, 2), [vec![0, 1, 4], vec![2, 3, 4]]);
        assert_eq!(chain(3, 1), [vec![0, 3], vec![1, 3, 4], vec![2, 4]]);
        assert_eq!(looped(3, 1), [vec![0, 3, 5], vec![1, 3, 4], vec![2, 4, 5]]);
    }

    #[test]
    fn a_gateway_that_sends_all_on_costs_throughput() {
        let lab = Lab::new(1, true);
        let run = |rings, read_behind| {
            let (load, service) = (Load::Full, Service::Agreed);
            let case = Case { rings, window: BEST, load, ahead: 16, service, read_behind };
            case.run(&lab, MILLIS).unwrap()
        };
        let (one, two) = (run(chain(1, 4), 1.0), run(chain(2, 2), 1.0));
        assert!(one.busiest_gateway.is_none() && two.busiest_gateway.unwrap() > 50.0, "{:?}", two.busiest_gateway);
        assert!(two.rate < one.rate && two.rate > 1_000.0, "{} {}", two.rate, one.rate);
        // It still reads every message of both rings, so that two rings do not carry twice as much.
        let apart = run(chain(2, 2), 0.0);
        assert!(apart.rate > 1.2 * two.rate, "{} {}", apart.rate, two.rate);
    }

    #[test]
    fn a_curve_crosses_a_height_on_the_line_between_two_points() {
        let curve = [(0.1, 8.0), (0.5, 6.0), (1.0, 3.0)];
        assert_eq!(crossing(&curve, 4.5), Some(0.75));
        assert_eq!((crossing(&curve, 9.0), crossing(&curve, 2.0)), (None, None));
    }

    #[test]
    fn what_is_spread_has_a_mean_a_deviation_and_a_density() {
        let spread = Spread { name: "x", took: vec![1.0, 1.5, 3.0, 6.5] };
        assert_eq!(spread.mean(), 3.0);
        assert!((spread.deviation() - 4.625_f64.sqrt()).abs() < 1e-9, "{}", spread.deviation());
        assert_eq!(spread.density(2.0), [(1.0, 25.0), (3.0, 12.5), (7.0, 12.5)]);
    }

    #[test]
    fn more_messages_than_a_gateway_takes_are_an_error() {
        let lab = Lab::new(1, true);
        let plan = SpreadPlan { name: "two", rings: chain(2, 2), rate: 20_000.0, read_behind: 1.0 };
        let error = Spread::run(&lab, Service::Agreed, &plan).err().unwrap();
        assert!(error.contains("of 20000 messages a second"), "{error}");
    }
}
