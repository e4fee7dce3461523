//! Totem's rings that are joined by gateways, on the workstations of its single ring. The engine's gateways send every message
//! on; those of the paper send on a share of them.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::lab::Lab;
use super::totem::{BEST, HEAD, HOST, LEN, SITE};
use crate::gateways::{Gateways, Measured, Plan};
use crate::parallel;
use crate::windows::fixed;
use crate::wires::Load;
use consort_multiring::Config;
use consort_multiring::carrier::HEADER;
use consort_multiring::packet::RING_LEN;
use consort_ring::packet::STAMP_LEN;
use consort_ring::{Acceleration, RingTimeouts, Windows};
use consort_types::{Duration, Service};
use consort_wire::DatagramSize;

/// The nodes of each ring.
type Rings = Vec<Vec<u16>>;

/// Why a statement about a share of the messages has no result.
const ALL_SENT_ON: &str = "gateways send every message on: they know no groups";
/// Why one about rings in a ring has none.
const NO_LOOP: &str = "rings and gateways must form a tree: a loop is refused";

/// What stands before the bytes of a message that is for all: that it has no topics.
const NO_TOPICS: usize = 1;

/// Rings, and what they carry.
struct Case {
    rings: Rings,
    window: u32,
    load: Load,
    /// Own messages under way of each node, where the load is full.
    ahead: usize,
    service: Service,
}

impl Case {
    fn run(&self, lab: &Lab, millis: u64) -> Result<Measured, String> {
        let datagram = DatagramSize::new(LEN + HEAD + HEADER + NO_TOPICS + RING_LEN + STAMP_LEN)?;
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
        let plan = Plan { site: &SITE, rings, load, ahead, service, len: LEN, adjust: &adjust };
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

fn setting(load: &str) -> String {
    format!(
        "Nodes of one ring that send and receive, and gateways between two rings that send every message on. All are \
         workstations that take {:?} to send or to receive a packet, and 45 ns a byte. Each ring is a network of 100 Mbit/s, \
         with a switch in place of the shared cable; original ring, messages of {LEN} bytes, one a packet, no losses. {load}",
        HOST.send
    )
}

/// Windows, and messages under way of each node, of which the best is chosen where gateways have to keep up.
const TRIED: [(u32, usize); 5] = [(BEST, 8), (BEST, 16), (BEST, 32), (40, 16), (40, 64)];
/// How long each cell of figure 8 is measured, in milliseconds.
const MILLIS: u64 = 2_000;

/// Throughput over the forwarding probability: the engine's is 1.
pub fn figure_8(lab: &Lab) -> Result<Outcome, String> {
    let one = std::iter::once((chain(1, 9), (BEST, 32)));
    let several = [chain(2, 4), chain(3, 3)].into_iter().flat_map(|rings| TRIED.map(|tried| (rings.clone(), tried)));
    let runs = parallel::map(&one.chain(several).collect::<Vec<_>>(), |(rings, (window, ahead))| {
        let (rings, load, service) = (rings.clone(), Load::Full, Service::Agreed);
        let case = Case { rings, window: *window, load, ahead: *ahead, service };
        Ok((case.rings.len(), case.run(lab, MILLIS)?))
    })?;
    let best = |rings: usize| {
        let of = runs.iter().filter(|(of, _)| *of == rings).map(|(_, run)| run);
        of.max_by(|one, other| one.rate.total_cmp(&other.rate)).cloned().unwrap_or_default()
    };
    let (one, two, three) = (best(1), best(2), best(3));
    let claims = vec![
        Claim::near("one ring", 5_364.0, one.rate, 7.0, "messages/s"),
        Claim::at_most("two rings by one, all sent on", "less, from one half on", two.rate / one.rate, 1.0, "times"),
        Claim::missing("two rings, a tenth sent on", "7993 messages/s", ALL_SENT_ON),
        Claim::missing("three rings, a tenth sent on", "10086 messages/s", ALL_SENT_ON),
    ];
    let curves = vec![
        Curve::line("one ring", vec![(0.0, one.rate), (1.0, one.rate)]),
        Curve::line("two rings", vec![(1.0, two.rate)]),
        Curve::line("three rings", vec![(1.0, three.rate)]),
        Curve::paper("paper: one", vec![(0.0, 5_364.0), (1.0, 5_364.0)]),
        Curve::paper("paper: two", vec![(0.1, 7_993.0)]),
        Curve::paper("paper: three", vec![(0.1, 10_086.0)]),
    ];
    let (x, y) = (Axis::linear("forwarding probability"), Axis::linear("messages a second"));
    let chart = Chart { title: "Throughput by the share that is sent on".into(), x, y, curves };
    let busy = |run: &Measured| run.busiest_gateway.unwrap_or_default();
    let load = format!(
        "All nodes but gateways always have more to send: nine in one ring, twice four, three times three. Of several windows, \
         and numbers of messages under way, the best. Gateways are busy for {:.0} and {:.0} % of the time.",
        busy(&two),
        busy(&three)
    );
    Ok(Outcome { setting: setting(&load), charts: vec![chart], claims })
}

/// Messages a second in all.
const RATE: f64 = 2_000.0;
/// What each of two rings carries in a second where 0.6 of that is sent on.
const CARRIED: f64 = RATE / 2.0 * 1.6;
/// How long each distribution is measured, in milliseconds.
const POISSON_MILLIS: u64 = 4_000;

/// Latencies of 40 nodes, in milliseconds.
struct Spread {
    name: &'static str,
    took: Vec<f64>,
}

impl Spread {
    fn run(lab: &Lab, service: Service, (name, rings, rate): &(&'static str, Rings, f64)) -> Result<Self, String> {
        // The window and the store hold all that comes in a rotation.
        let (rings, load) = (rings.clone(), Load::Rate(*rate));
        let run = Case { rings, window: BEST, load, ahead: 0, service }.run(lab, POISSON_MILLIS)?;
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
    let plans = [
        ("one ring", chain(1, 40), RATE),
        ("two rings", chain(2, 20), RATE),
        ("two rings, 1600/s", chain(2, 20), CARRIED),
        ("four in a row", chain(4, 10), RATE),
    ];
    let runs = parallel::map(&plans, |plan| Spread::run(lab, service, plan))?;
    let [one, two, less, _] = &runs[..] else { return Err("a topology has no result".into()) };
    let paper = "less, with 0.6 sent on";
    let by_one = |what: &str, of: &dyn Fn(&Spread) -> f64| {
        Claim::at_most(&format!("two rings by one, all sent on: {what}"), paper, of(two) / of(one), 1.0, "times")
    };
    let claims = vec![
        by_one("mean", &Spread::mean),
        by_one("standard deviation", &Spread::deviation),
        Claim::missing("two rings, 0.6 sent on", "less than one ring", ALL_SENT_ON),
        Claim::missing("four rings in a ring", "less than one ring", NO_LOOP),
    ];
    let chart = Chart {
        title: "Latency of 40 nodes".into(),
        x: Axis::linear("latency, ms"),
        y: Axis::linear("% of messages a millisecond"),
        curves: runs.iter().map(|run| Curve::line(run.name, run.density(bin))).collect(),
    };
    let told = |run: &Spread| format!("{} {:.1} and {:.1}", run.name, run.mean(), run.deviation());
    let load = format!(
        "{RATE} messages a second of 40 nodes, at random times. With {CARRIED} each of two rings carries as much as where 0.6 of \
         {RATE} are sent on ({:.2} times one ring's mean). Mean and standard deviation in ms: {}.",
        less.mean() / one.mean(),
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
    }

    #[test]
    fn a_gateway_that_sends_all_on_costs_throughput() {
        let lab = Lab::new(1, true);
        let run = |rings| {
            let case = Case { rings, window: BEST, load: Load::Full, ahead: 16, service: Service::Agreed };
            case.run(&lab, MILLIS).unwrap()
        };
        let (one, two) = (run(chain(1, 4)), run(chain(2, 2)));
        assert!(one.busiest_gateway.is_none() && two.busiest_gateway.unwrap() > 50.0, "{:?}", two.busiest_gateway);
        assert!(two.rate < one.rate && two.rate > 1_000.0, "{} {}", two.rate, one.rate);
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
        let error = Spread::run(&lab, Service::Agreed, &("two", chain(2, 2), 20_000.0)).err().unwrap();
        assert!(error.contains("of 20000 messages a second"), "{error}");
    }
}
