//! Multi-Ring Paxos's section III-H: five regions of a cloud, a ring in each, and a global ring that all read.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::fit::Sorted;
use super::lab::Lab;
use super::multiring::{LARGE, SMALL, TEN_GIGABIT};
use crate::parallel;
use crate::streams::{Given, Load, Plan, Process, Site, Streams};
use consort_multiring_paxos::Config;
use consort_types::{Duration, Instant};

/// The regions, in the order of the global ring. The first three have an acceptor of it each, and the first one leads.
const REGIONS: [&str; 5] = ["Oregon", "N. California", "Ireland", "Singapore", "Sydney"];

/// Round trips between regions, in milliseconds, averages that were published in 2017. The paper states none.
const ROUND_TRIPS: [[u64; 5]; 5] = [
    [0, 20, 137, 161, 162],
    [20, 0, 153, 174, 158],
    [137, 153, 0, 239, 310],
    [161, 174, 239, 0, 175],
    [162, 158, 310, 175, 0],
];

/// Servers of each region: acceptors of its ring, which read the global one, too.
const SERVERS: usize = 3;
/// Half a round trip within a region.
const NEAR: Duration = Duration::from_micros(250);

/// An instance's interface; the paper states nothing of its hosts: they are those of the local network.
const CLOUD: Site = Site { rate: 500_000_000, unread: 4 << 20, ..TEN_GIGABIT };

/// The global ring.
const GLOBAL: u8 = 6;
/// How often a region sends to it.
const GLOBALLY: Duration = Duration::from_millis(100);
/// How often nodes say that they live.
const BEAT: Duration = Duration::from_millis(100);
/// After so long without a beat a node is left out.
const LEASE: Duration = Duration::from_millis(500);
/// How often idle rings skip.
const DELTA_T: Duration = Duration::from_millis(5);

fn delay(from: usize, to: usize) -> Duration {
    let (here, there) = (from / SERVERS, to / SERVERS);
    if here == there { NEAR } else { Duration::from_micros(ROUND_TRIPS[here][there] * 500) }
}

/// From a region to another.
fn far(here: usize, there: usize) -> Duration {
    delay(here * SERVERS, there * SERVERS)
}

/// Once round the global ring.
fn trip() -> Duration {
    let regions = REGIONS.len();
    (0..regions).map(|region| far(region, (region + 1) % regions)).sum()
}

fn adjust(config: &mut Config) {
    config.delta_t = DELTA_T;
    // Beats and votes cross oceans: who stands next waits until it would have heard of who stood before.
    config.paxos.beat = BEAT;
    config.paxos.lease = LEASE;
    config.paxos.silence = LEASE * 2;
    config.paxos.retry = LEASE;
    config.paxos.credit = 4 << 20;
}

/// Rings skip as the paper's do.
fn unasked(config: &mut Config) {
    adjust(config);
    config.skips_unasked = true;
}

fn uncompensated(config: &mut Config) {
    unasked(config);
    config.compensates = false;
}

/// What of the global ring there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Global {
    None,
    Plain,
    Compensated,
}

/// The regions' rings. So many clients of each are at two of its three servers; the third sends to the global ring.
fn regions(global: Global, clients: usize, len: usize, adjust: fn(&mut Config)) -> Plan {
    let mut processes = Vec::new();
    for server in 0..REGIONS.len() * SERVERS {
        let ring = (server / SERVERS + 1) as u8;
        let rings = if global == Global::None { vec![ring] } else { vec![GLOBAL, ring] };
        let load = match server % SERVERS {
            2 if global == Global::None => Load::None,
            2 => Load::Every(GLOBALLY, GLOBAL),
            _ => Load::Clients(clients / 2, ring),
        };
        processes.push(Process { server, rings, load });
    }
    let local = |region: usize| (region as u8 + 1, (0..SERVERS).map(|at| region * SERVERS + at).collect());
    let mut acceptors: std::collections::BTreeMap<_, _> = (0..REGIONS.len()).map(local).collect();
    acceptors.insert(GLOBAL, (0..3).map(|region| region * SERVERS).collect());
    Plan { site: CLOUD, delay, processes, acceptors, len, adjust }
}

/// The servers with clients.
fn watched() -> Vec<usize> {
    (0..REGIONS.len() * SERVERS).filter(|server| server % SERVERS != 2).collect()
}

/// What the clients of a region were given of their own.
fn own(given: &[Given], region: usize) -> impl Iterator<Item = &Given> {
    given.iter().filter(move |given| given.process / SERVERS == region && given.sender == given.process)
}

/// The least of these and the largest; NaN where one is, which no claim holds for.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
        if value.is_nan() || least.is_nan() { (f64::NAN, f64::NAN) } else { (value.min(least), value.max(most)) }
    })
}

fn setting(clients: usize, len: usize) -> String {
    let sends = GLOBALLY.as_secs_f64();
    format!(
        "Five regions of three servers, with round trips of 20 to 310 ms between them and 0.5 ms within; a ring of each, and a \
         global one with acceptors in {}, {} and {}, which all read. {clients} clients of each region send to its ring, with a \
         message of {len} bytes under way each; one message of each region goes to the global ring each {sends} s. delta_t 5 ms, \
         lease {LEASE:?}; interfaces carry 500 Mbit/s; a packet takes {:?} and 4 ns a byte on either side.",
        REGIONS[0], REGIONS[1], REGIONS[2], CLOUD.packet
    )
}

/// Clients of each region while one is lost.
const FEW: usize = 4;
/// When a region is lost, and for how long the others are looked at then, in milliseconds.
const LOST_AFTER: u64 = 5_000;
const LOOKED_AT: u64 = 5_000;

/// What became of a run in which a region is lost.
struct Loss {
    region: usize,
    lost_at: Instant,
    given: Vec<Given>,
    end: Instant,
}

impl Loss {
    fn run(lab: &Lab, region: usize) -> Result<Self, String> {
        let plan = regions(Global::Compensated, FEW, LARGE, adjust);
        let mut streams = Streams::start(&plan, lab.scale.seed, &watched())?;
        streams.begin();
        streams.run(Duration::from_millis(LOST_AFTER))?;
        let lost_at = streams.now();
        (0..SERVERS).for_each(|at| streams.kill(region * SERVERS + at));
        streams.run(Duration::from_millis(LOOKED_AT))?;
        Ok(Self { region, lost_at, given: streams.take_given(), end: streams.now() })
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        (0..REGIONS.len()).filter(|region| *region != self.region)
    }

    /// The longest time in which a region is given nothing of its own, from the loss on, in milliseconds.
    fn gap(&self, region: usize) -> f64 {
        let at = own(&self.given, region).map(|given| given.at).filter(|at| *at >= self.lost_at);
        let mut at: Vec<_> = at.chain([self.lost_at, self.end]).collect();
        at.sort_unstable();
        at.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap_or_default().as_secs_f64() * 1e3
    }

    /// How much a region is given in the last two seconds by what it was given in the last two before the loss.
    fn again(&self, region: usize) -> f64 {
        let span = Duration::from_secs(2);
        let of = |end: Instant| {
            own(&self.given, region).filter(|given| given.at <= end && end.since(given.at) < span).count()
        };
        of(self.end) as f64 / of(self.lost_at) as f64
    }

    fn claims(&self) -> [Claim; 2] {
        let (_, longest) = ends(self.others().map(|region| self.gap(region)));
        let (least, _) = ends(self.others().map(|region| self.again(region)));
        let bound = (LEASE + trip() * 2).as_secs_f64() * 1e3;
        let lost = REGIONS[self.region];
        [
            Claim::at_most(
                &format!("longest gap of another region, {lost} lost"),
                "short disruption",
                longest,
                bound,
                "ms",
            ),
            Claim::at_least(&format!("their traffic then by before, {lost} lost"), "normal", least, 0.9, "times"),
        ]
    }

    /// Throughput of each region over time.
    fn chart(&self) -> Chart {
        const BIN: u64 = 200;
        let began = self.lost_at.0 - LOST_AFTER * 1_000_000;
        let curve = |(region, name): (usize, &&str)| {
            let mut bins = vec![0_u64; ((LOST_AFTER + LOOKED_AT) / BIN) as usize];
            for given in own(&self.given, region) {
                if let Some(bin) = bins.get_mut(((given.at.0.saturating_sub(began)) / (BIN * 1_000_000)) as usize) {
                    *bin += 1;
                }
            }
            let mbits = |count: u64| count as f64 * (LARGE * 8) as f64 / (BIN as f64 * 1e3);
            let points = bins.into_iter().zip(0_u64..).map(|(count, bin)| ((bin * BIN) as f64 / 1e3, mbits(count)));
            Curve::line(*name, points.collect())
        };
        Chart {
            title: format!(
                "Throughput of each region's clients, {} lost after {} s",
                REGIONS[self.region],
                LOST_AFTER / 1_000
            ),
            x: Axis::linear("time, s"),
            y: Axis::linear("Mbit/s"),
            curves: REGIONS.iter().enumerate().map(curve).collect(),
        }
    }
}

/// A region is lost that has an acceptor of the global ring: one that leads, and one that does not.
pub fn figure_7(lab: &Lab) -> Result<Outcome, String> {
    let losses = parallel::map(&[0, 2], |region| Loss::run(lab, *region))?;
    let claims = losses.iter().flat_map(Loss::claims).collect();
    Ok(Outcome { setting: setting(FEW, LARGE), charts: losses.iter().map(Loss::chart).collect(), claims })
}

/// Clients of each region.
const MANY: usize = 40;
/// How long rings run before they are measured, and how long they are, in milliseconds.
const BEFORE: u64 = 1_500;
const MEASURED: u64 = 800;

/// What the regions were given, in milliseconds from their clients' sending on.
fn latencies(lab: &Lab, global: Global) -> Result<Vec<Sorted>, String> {
    let adjust = if global == Global::Plain { uncompensated } else { unasked };
    let plan = regions(global, MANY, SMALL, adjust);
    let mut streams = Streams::start(&plan, lab.scale.seed, &watched())?;
    streams.begin();
    streams.run(Duration::from_millis(BEFORE))?;
    streams.take_given();
    streams.run(Duration::from_millis(lab.scaled(MEASURED)))?;
    let given = streams.take_given();
    let of = |region| Sorted::of(own(&given, region).map(|given| given.took.as_secs_f64() * 1e3));
    Ok((0..REGIONS.len()).map(of).collect())
}

/// What a global ring costs the regions' own rings, with and without compensation.
pub fn figure_8(lab: &Lab) -> Result<Outcome, String> {
    let cases = [Global::Compensated, Global::None, Global::Plain];
    let runs = parallel::map(&cases, |global| latencies(lab, *global))?;
    let [with, none, plain] = &runs[..] else { return Err("a case is missing".into()) };
    let sum = |run: &[Sorted]| run.iter().map(Sorted::len).sum::<usize>() as f64;
    let halves = |run: &[Sorted]| run.iter().map(|region| region.percentile(50)).collect::<Vec<_>>();
    let by = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one / other).collect::<Vec<_>>();
    let (_, slower) = ends(by(&halves(with), &halves(none)).into_iter());
    let way: Vec<_> = (1..REGIONS.len()).map(|region| far(0, region).as_secs_f64() * 1e3).collect();
    let (waits, _) = ends(by(&halves(plain)[1..], &way).into_iter());
    let claims = vec![
        Claim::at_most("throughput lost by a global ring", "23 %", 100.0 * (1.0 - sum(with) / sum(none)), 30.0, "%"),
        Claim::at_most("median latency with it by without, slowest region", "masked", slower, 2.0, "times"),
        Claim::at_least("median, not compensated, by the way from the leader, least", "steps", waits, 1.0, "times"),
    ];
    Ok(Outcome { setting: setting(MANY, SMALL), charts: charts(lab, [none, with, plain]), claims })
}

fn charts(lab: &Lab, runs: [&Vec<Sorted>; 3]) -> Vec<Chart> {
    const NAMES: [&str; 3] = ["no global ring", "compensated", "not compensated"];
    let bounds = || [0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 400.0, 600.0];
    let seconds = lab.scaled(MEASURED) as f64 / 1e3;
    let shares = |(run, name): (&&Vec<Sorted>, &str)| {
        let all = Sorted::of(run.iter().flat_map(Sorted::iter));
        Curve::line(name, all.shares(bounds().into_iter()))
    };
    let rates = |(run, name): (&&Vec<Sorted>, &str)| {
        let rate = |(at, region): (usize, &Sorted)| (at as f64 + 1.0, region.len() as f64 / seconds);
        Curve::line(name, run.iter().enumerate().map(rate).collect())
    };
    vec![
        Chart {
            title: "Messages of each region's clients".into(),
            x: Axis::linear("region"),
            y: Axis::linear("messages a second"),
            curves: runs.iter().zip(NAMES).map(rates).collect(),
        },
        Chart {
            title: "Latency".into(),
            x: Axis::log("latency, ms"),
            y: Axis::linear("messages that took no longer, %"),
            curves: runs.iter().zip(NAMES).map(shares).collect(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_as_far_from_each_other_both_ways() {
        for (here, row) in ROUND_TRIPS.iter().enumerate() {
            assert!((0..row.len()).all(|there| far(here, there) == far(there, here)), "{}", REGIONS[here]);
        }
        assert_eq!((far(0, 1), delay(3, 5), trip()), (Duration::from_millis(10), NEAR, Duration::from_micros(374_500)));
    }

    #[test]
    fn what_was_not_measured_is_no_end() {
        assert_eq!(ends([2.0, 1.0, 3.0].into_iter()), (1.0, 3.0));
        let (least, most) = ends([2.0, f64::NAN, 3.0].into_iter());
        assert!(least.is_nan() && most.is_nan());
    }

    #[test]
    fn a_region_without_others_does_not_wait_for_them() {
        let lab = Lab::new(1, true);
        let alone = latencies(&lab, Global::None).unwrap();
        assert!(alone.iter().all(|region| region.len() > 100 && region.percentile(50) < 5.0));
    }

    #[test]
    fn a_global_ring_slows_a_region_little() {
        let runs = parallel::map(&[Global::Compensated, Global::None], |global| latencies(&Lab::new(1, true), *global));
        let runs = runs.unwrap();
        for (region, (with, none)) in runs[0].iter().zip(&runs[1]).enumerate() {
            let (with, none) = (with.percentile(50), none.percentile(50));
            assert!(with < 2.0 * none, "{}: half take {with} ms, alone {none}", REGIONS[region]);
        }
    }
}
