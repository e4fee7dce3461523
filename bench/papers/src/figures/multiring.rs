//! Multi-Ring Paxos's sections III-D, F and G: many rings at one learner, and many learners of one ring, on local networks.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::fit::{Line, Sorted};
use super::lab::Lab;
use super::scale::Scale;
use crate::parallel;
use crate::streams::{Given, Load, Plan, Process, Site, Streams};
use consort_multiring_paxos::Config;
use consort_types::Duration;

/// Servers on 10 Gbit/s. The paper states what interfaces carry, 8.75 Gbit/s, and a round trip of 0.1 ms. A ring's core is busy
/// with packets for 14 us a message, so that eight rings order 570,000 messages of 200 bytes a second, and with bytes for as long
/// as makes nine rings of 32 KB carry 8.41 Gbit/s. The core that hands out is busy for as long as those 570,000 take it.
pub const TEN_GIGABIT: Site = Site {
    rate: 8_750_000_000,
    packet: Duration::from_nanos(1_600),
    picos_per_byte: 4_000,
    message: Duration::from_nanos(1_754),
    unread: 256 << 10,
    ahead: Duration::from_millis(1),
};

/// Of the servers on 1 Gbit/s the paper states no number to set them by: they are the same.
const GIGABIT: Site = Site { rate: 940_000_000, ..TEN_GIGABIT };

/// Half a round trip.
const HOP: Duration = Duration::from_micros(50);

/// How many clients each ring has.
const CLIENTS: usize = 20;
/// Small messages, in bytes.
pub const SMALL: usize = 200;
/// Large ones.
pub const LARGE: usize = 32 << 10;
/// The numbers of rings.
const RINGS: [usize; 10] = [10, 9, 8, 7, 6, 5, 4, 3, 2, 1];

fn adjust(config: &mut Config) {
    // All that its clients have under way may be under way at once.
    config.paxos.credit = 4 << 20;
}

/// A proposer that votes and two other voters of each ring, on three servers; the learner on the fourth reads all rings.
fn four_servers(rings: usize, len: usize) -> Plan {
    let numbers: Vec<u8> = (1..=rings as u8).collect();
    let mut processes = Vec::new();
    for server in 0..3 {
        processes.extend(numbers.iter().map(|ring| Process::quiet(server, vec![*ring])));
    }
    for (process, ring) in processes.iter_mut().zip(&numbers) {
        process.load = Load::Clients(CLIENTS, *ring);
    }
    processes.push(Process::quiet(3, numbers.clone()));
    let voters = |ring: &u8| (*ring, (0..3).map(|server| server * rings + usize::from(*ring) - 1).collect());
    let acceptors = numbers.iter().map(voters).collect();
    Plan { site: TEN_GIGABIT, delay: |_, _| HOP, processes, acceptors, len, adjust }
}

/// What a learner was given.
struct Learnt {
    rings: usize,
    /// All messages in a second, and those of each ring on average.
    rate: f64,
    /// In milliseconds.
    took: Sorted,
}

impl Learnt {
    fn mbits(&self, len: usize) -> f64 {
        self.rate * (len * 8) as f64 / 1e6
    }
}

fn learn(scale: Scale, rings: usize, len: usize) -> Result<Learnt, String> {
    let plan = four_servers(rings, len);
    let span = Duration::from_millis(scale.scaled(200));
    let given = measured(scale, &plan, plan.processes.len() - 1, Duration::from_millis(100), span)?;
    if let Some(missing) = (1..=rings as u8).find(|ring| given.iter().all(|given| given.ring != *ring)) {
        return Err(format!("nothing of ring {missing} is handed out"));
    }
    let took = given.iter().map(|given| given.took.as_secs_f64() * 1e3);
    Ok(Learnt { rings, rate: given.len() as f64 / span.as_secs_f64(), took: Sorted::of(took) })
}

/// What a process is given in a time, once clients have sent for another.
fn measured(scale: Scale, plan: &Plan, at: usize, before: Duration, span: Duration) -> Result<Vec<Given>, String> {
    let mut streams = Streams::start(plan, scale.seed, &[at])?;
    streams.begin();
    streams.run(before)?;
    streams.take_given();
    let from = streams.now();
    streams.run(span)?;
    let given: Vec<_> = streams.take_given().into_iter().filter(|given| given.at > from).collect();
    if given.is_empty() {
        return Err(format!("process {at} is given nothing"));
    }
    match streams.sum("merged_void") {
        0 => Ok(given),
        void => Err(format!("{void} messages do not count: rings have different views")),
    }
}

fn throughput_setting(scale: Scale, len: usize) -> String {
    format!(
        "Four servers, {HOP:?} apart, whose interfaces carry 8.75 Gbit/s. {CLIENTS} clients of each ring, with a message of {len} \
         bytes under way each, at its proposer on the first server; three acceptors on three servers; the learner is the fourth. \
         A process has a core for each ring, which takes {:?} to read or to write a packet and 4 ns a byte, and one that hands a \
         message out in {:?}. {} ms a point.",
        TEN_GIGABIT.packet,
        TEN_GIGABIT.message,
        scale.scaled(200)
    )
}

fn best(runs: &[Learnt]) -> Result<&Learnt, String> {
    runs.iter().max_by(|one, other| one.rate.total_cmp(&other.rate)).ok_or_else(|| "nothing was run".to_owned())
}

/// The runs, and what they show; the paper states so many Mbit/s of so many rings.
fn throughput(scale: Scale, len: usize, stated: (f64, f64)) -> Result<(Vec<Learnt>, Vec<Chart>), String> {
    let mut runs = parallel::map(&RINGS, |rings| learn(scale, *rings, len))?;
    runs.sort_by_key(|run| run.rings);
    let points = |of: &dyn Fn(&Learnt) -> f64| runs.iter().map(|run| (run.rings as f64, of(run))).collect::<Vec<_>>();
    let aggregate = Chart {
        title: "Throughput at the learner".into(),
        x: Axis::linear("rings"),
        y: Axis::linear("Mbit/s"),
        curves: vec![
            Curve::line("all rings", points(&|run| run.mbits(len))),
            Curve::line("one ring", points(&|run| run.mbits(len) / run.rings as f64)),
            Curve::paper("all rings, paper", vec![stated]),
        ],
    };
    let peak = best(&runs)?;
    let latency = Chart {
        title: format!("Latency at the learner, {} rings", peak.rings),
        x: Axis::linear("latency, ms"),
        y: Axis::linear("messages that took no longer, %"),
        curves: vec![Curve::line("runs", peak.took.shares((0..=20).map(f64::from)))],
    };
    Ok((runs, vec![aggregate, latency]))
}

/// Large messages fill the links.
pub fn figure_2(lab: &Lab) -> Result<Outcome, String> {
    let (runs, charts) = throughput(lab.scale, LARGE, (9.0, 8_410.0))?;
    let peak = best(&runs)?;
    let rising = runs.windows(2).filter(|pair| pair[1].rings <= peak.rings);
    let step = rising.map(|pair| pair[1].rate / pair[0].rate).fold(f64::INFINITY, f64::min);
    let share = peak.mbits(LARGE) * 1e6 / TEN_GIGABIT.rate as f64;
    let claims = vec![
        Claim::at_least("peak by what a link carries", "8.41 of 8.75 Gbit/s", share, 0.9, "times"),
        Claim::at_least("least step to the next ring, up to the peak", "rises", step, 1.0, "times"),
    ];
    Ok(Outcome { setting: throughput_setting(lab.scale, LARGE), charts, claims })
}

/// Small messages fill the processors.
pub fn figure_3(lab: &Lab) -> Result<Outcome, String> {
    let (runs, charts) = throughput(lab.scale, SMALL, (8.0, 912.0))?;
    let peak = best(&runs)?;
    let took = peak.took.percentile(90);
    let claims = vec![Claim::at_most("90 of a hundred messages take, at the peak", "less than 5 ms", took, 5.0, "ms")];
    Ok(Outcome { setting: throughput_setting(lab.scale, SMALL), charts, claims })
}

/// A learner with one client reads many rings, of which one is busy. Up to eight rings each voter has a server of its own.
fn one_learner(rings: usize) -> Plan {
    let servers = (3 * rings).min(24);
    let numbers: Vec<u8> = (1..=rings as u8).collect();
    let voter = |at: usize| Process::quiet(at % servers, vec![numbers[at / 3]]);
    let mut processes: Vec<_> = (0..3 * rings).map(voter).collect();
    processes.push(Process { server: servers, rings: numbers.clone(), load: Load::Clients(1, 1) });
    let acceptors = numbers.iter().map(|ring| (*ring, (0..3).map(|at| 3 * (usize::from(*ring) - 1) + at).collect()));
    let acceptors = acceptors.collect();
    let adjust = |config: &mut Config| (config.delta_t, config.skips_unasked) = (DELTA_T, true);
    Plan { site: GIGABIT, delay: |_, _| HOP, processes, acceptors, len: SMALL, adjust }
}

/// The paper's delta_t.
const DELTA_T: Duration = Duration::from_millis(5);
/// Seeds: each begins at another phase of the rings' ticks.
const PHASES: u64 = 3;

/// Rings that were waited for while they formed skip for a second.
const SKIPPED: Duration = Duration::from_millis(1_200);

/// Mean latency in milliseconds of the only client, once rings have run for that long, over phases.
fn alone(lab: &Lab, plan: &Plan, at: usize, before: Duration) -> Result<f64, String> {
    let of = |phase: u64| {
        let scale = Scale { seed: lab.scale.seed * 100 + phase, ..lab.scale };
        let given = measured(scale, plan, at, before, Duration::from_millis(lab.scaled(300)))?;
        Ok::<_, String>(Sorted::of(given.iter().map(|given| given.took.as_secs_f64() * 1e3)).mean())
    };
    let sum = (0..PHASES).try_fold(0.0, |sum, phase| Ok::<_, String>(sum + of(phase)?))?;
    Ok(sum / PHASES as f64)
}

fn alone_setting(what: &str) -> String {
    format!(
        "{what}; one client, with a message of {SMALL} bytes under way. Servers are {HOP:?} apart; interfaces carry 940 Mbit/s; \
         a packet takes {:?} and 4 ns a byte on either side. Means of {PHASES} runs that begin at random phases.",
        GIGABIT.packet
    )
}

/// Latency, and the throughput that follows from it.
fn alone_charts(x: &'static str, points: &[(f64, f64)]) -> Vec<Chart> {
    let rates = points.iter().map(|(place, ms)| (*place, 1e3 / ms)).collect();
    let chart = |title: &str, y: &'static str, points| Chart {
        title: title.into(),
        x: Axis::linear(x),
        y: Axis::linear(y),
        curves: vec![Curve::line("runs", points)],
    };
    vec![chart("Latency", "mean latency, ms", points.to_vec()), chart("Throughput", "messages a second", rates)]
}

/// Many rings at one learner: those that are idle skip.
pub fn figure_5(lab: &Lab) -> Result<Outcome, String> {
    let rings = [32, 24, 16, 8, 4, 2, 1];
    let of = |rings: &usize| Ok((*rings as f64, alone(lab, &one_learner(*rings), 3 * rings, SKIPPED)?));
    let mut points = parallel::map(&rings, of)?;
    points.reverse();
    let delta_t = DELTA_T.as_secs_f64() * 1e3;
    let step = points[1].1 - points[0].1;
    let line = Line::through(&points[1..]);
    let claims = vec![
        Claim::at_least("the second ring adds", "most visible", step, 0.0, "ms"),
        Claim::at_most("the second ring adds", "up to delta_t", step, delta_t, "ms"),
        Claim::near_to("the second ring adds", "half of delta_t", delta_t / 2.0, step, 20.0, "ms"),
        Claim::at_least("r2 of a straight line from two rings on", "linear", line.r2, 0.95, ""),
    ];
    let setting = alone_setting("Rings of three acceptors and the same learner, of which one is busy, delta_t 5 ms");
    Ok(Outcome { setting, charts: alone_charts("rings", &points), claims })
}

/// One ring of three acceptors and many learners; the client is at the second acceptor.
fn many_learners(learners: usize) -> Plan {
    let mut processes: Vec<_> = (0..3 + learners).map(|server| Process::quiet(server, vec![1])).collect();
    processes[1].load = Load::Clients(1, 1);
    let acceptors = [(1, vec![0, 1, 2])].into();
    Plan { site: GIGABIT, delay: |_, _| HOP, processes, acceptors, len: SMALL, adjust: |_| () }
}

/// What goes with a small message in its packet, in bytes.
const HEAD: usize = 110;

/// Many learners of one ring: each is one hop more.
pub fn figure_6(lab: &Lab) -> Result<Outcome, String> {
    let learners = [32, 24, 16, 8, 4, 2, 1];
    let of = |learners: &usize| Ok((*learners as f64, alone(lab, &many_learners(*learners), 1, Duration::ZERO)?));
    let mut points = parallel::map(&learners, of)?;
    points.reverse();
    let line = Line::through(&points);
    let wire = (SMALL + HEAD) as f64 * 8.0 / GIGABIT.rate as f64;
    let hop = HOP.as_secs_f64() + 2.0 * (GIGABIT.cost(SMALL + HEAD).as_secs_f64() + wire);
    let claims = vec![
        Claim::near_to("a learner adds", "one hop", hop * 1e6, line.slope * 1e3, 10.0, "us"),
        Claim::at_least("r2 of a straight line", "linear", line.r2, 0.95, ""),
    ];
    let setting = alone_setting("A ring of three acceptors and learners");
    Ok(Outcome { setting, charts: alone_charts("learners", &points), claims })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rings_carry_more_than_one_and_a_learner_hands_out_both() {
        let scale = Scale { seed: 1, quick: true };
        let (one, two) = (learn(scale, 1, LARGE).unwrap(), learn(scale, 2, LARGE).unwrap());
        assert!(two.rate > 1.5 * one.rate, "{} and {}", one.rate, two.rate);
    }

    #[test]
    fn a_learner_more_takes_longer() {
        let lab = Lab::new(1, true);
        let of = |learners| alone(&lab, &many_learners(learners), 1, Duration::ZERO).unwrap();
        let (one, four) = (of(1), of(4));
        assert!(four > one + 0.1, "{one} and {four}");
    }
}
