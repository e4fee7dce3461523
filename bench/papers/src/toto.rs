//! ToTo against all-ack, as in the paper's section on performance: each member sends an equal part of the load, and what
//! counts is how long a sender waits for the delivery of its own message.
use super::model::{self, Joint};
use super::net::{self, Delay, Heard, Net};
use super::samples::{Samples, Summary};
use super::traffic::{Pace, Traffic, random};
use consort_toto::{Phi, Toto, TotoConfig};
use consort_types::{Duration, Incarnation, Instant, Rng};
use std::fmt::Write;

/// How large the laboratory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    /// How many members.
    pub nodes: u64,
    /// How many messages a run measures.
    pub messages: u64,
    /// How many runs make one line.
    pub runs: u64,
    /// After how many mean gaps of a sender an acknowledgement is sent alone.
    pub ack_gaps: u64,
    /// How long packets take.
    pub way: Way,
}

/// How long packets take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As on the paper's Ethernet.
    Ethernet,
    /// As long from each member to each other, and as on the Ethernet at random more.
    Distance(Duration),
    /// Those of the last member take so much more than on the Ethernet.
    Straggler(Duration),
}

impl Default for Lab {
    fn default() -> Self {
        Self { nodes: 8, messages: 500, runs: 40, ack_gaps: 20, way: Way::Ethernet }
    }
}

/// What the paper measured with 8 machines: ToTo's and all-ack's latency, in milliseconds.
pub const PAPER: [(Pace, u64, f64, f64); 8] = [
    (Pace::Periodic, 50, 76.68, 135.02),
    (Pace::Periodic, 100, 42.31, 68.78),
    (Pace::Periodic, 150, 29.17, 45.59),
    (Pace::Periodic, 200, 23.80, 43.71),
    (Pace::Poisson, 50, 114.10, 385.25),
    (Pace::Poisson, 100, 60.98, 188.06),
    (Pace::Poisson, 150, 44.10, 133.09),
    (Pace::Poisson, 200, 39.37, 102.33),
];
/// How many machines the paper had.
pub const PAPER_NODES: u64 = 8;
/// What every packet needs, and what comes to that on average: an Ethernet of those days with its hosts.
pub const DELAY: (Duration, Duration) = (Duration::from_micros(1_500), Duration::from_micros(500));
/// How large messages are, in bytes.
pub const LEN: usize = 1_000;

/// One line's half: one protocol under one load.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// When each sends.
    pub pace: Pace,
    /// All messages of a second.
    pub load: u64,
    /// Which of both.
    pub phi: Phi,
}

/// What was measured of it.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// From submit to delivery at the sender.
    pub latency: Samples,
    released: u64,
    tau: u64,
    ordered: u64,
    omega: u64,
    packets: u64,
    nulls: u64,
    /// How many had which tau and omega.
    joint: Joint,
}

/// The whole table.
///
/// # Errors
/// What kept a run from its end.
pub fn table(seed: u64, lab: &Lab) -> Result<String, String> {
    let mut text = head(lab);
    let mut predicted = model::head();
    for (pace, load, toto, all_ack) in PAPER {
        let paper = (lab.nodes == PAPER_NODES).then_some((toto, all_ack));
        let both = [Phi::Half, Phi::All].map(|phi| cell(seed, lab, Cell { pace, load, phi }));
        let [toto, all_ack] = both;
        let (toto, all_ack) = (toto?, all_ack?);
        text += &row(pace, load, &toto, &all_ack, paper);
        let gap = lab.nodes as f64 / load as f64;
        let halves =
            [&toto, &all_ack].map(|half| (half.summary().mean, model::latency(pace, lab.nodes, gap, &half.joint)));
        predicted += &model::row(pace, load, halves);
    }
    Ok(text + &predicted)
}

fn head(lab: &Lab) -> String {
    let Lab { nodes, messages, runs, ack_gaps, .. } = lab;
    format!(
        "ToTo (Phi = n/2) against all-ack (Phi = n): {nodes} members, {runs} runs of {messages} messages each, \
         acknowledgements alone after {ack_gaps} gaps;\n{}",
        columns()
    )
}

/// What stands above the lines.
pub fn columns() -> String {
    format!(
        "a packet takes 1.5 ms + exp(0.5 ms). Latency at the sender in ms; tau and omega as the paper defines them; nulls in \
         % of packets.\n\n\
         {:>4} {:<8} | {:^42} | {:^42} | {:>5} | paper:\n\
         {:>4} {:<8} |{} |{} | {:>5} | {:>6} {:>7} {:>5}\n",
        "", "", "ToTo", "all-ack", "", "load", "", COLUMNS, COLUMNS, "ratio", "ToTo", "all-ack", "ratio"
    )
}

const COLUMNS: &str = "    mean      p50      p99   tau omega nulls";

/// One line, of what was measured of both; and the paper's, where it has one.
pub fn row(pace: Pace, load: u64, toto: &Measured, all_ack: &Measured, paper: Option<(f64, f64)>) -> String {
    let ratio = all_ack.latency.summary().mean / toto.latency.summary().mean;
    let mut line = format!("{load:>4} {:<8} |{} |{} | {ratio:>5.2} |", pace.name(), toto.text(), all_ack.text());
    if let Some((toto, all_ack)) = paper {
        // Writing to a string does not fail.
        let _ = write!(line, " {toto:>6.2} {all_ack:>7.2} {:>5.2}", all_ack / toto);
    }
    line + "\n"
}

/// All runs of a cell. Both protocols meet the same traffic.
///
/// # Errors
/// What kept a run from its end.
pub fn cell(seed: u64, lab: &Lab, cell: Cell) -> Result<Measured, String> {
    let mut all = Measured::default();
    for run in 0..lab.runs {
        let mut rng = Rng::new(seed).fork(run << 32 | cell.load << 1 | u64::from(cell.pace == Pace::Poisson));
        all.add(measure(lab, cell, &mut rng)?);
    }
    Ok(all)
}

/// One run.
fn measure(lab: &Lab, cell: Cell, rng: &mut Rng) -> Result<Measured, String> {
    let members = lab.nodes as usize;
    let mut traffic = Traffic::new(rng.fork(1));
    let mut net = Net::start(engines(lab, cell)?, delay(lab), rng.fork(2))?;
    let from = net.now();
    let rate = cell.load as f64 / lab.nodes as f64;
    (0..members).for_each(|member| traffic.add(member, cell.pace, rate, from, None));
    let (mut sent, mut latency) = (Vec::new(), Samples::default());
    let first = 4 * members; // those before find an empty net
    let last = first + lab.messages as usize;
    while latency.len() < lab.messages as usize {
        let Some((at, member)) = traffic.next() else { break };
        if sent.len() > 2 * last + 100_000 {
            return Err(format!("at {} messages a second some are never delivered", cell.load));
        }
        net.run_until(at);
        net.submit(member, sent.len() as u64, LEN)?;
        sent.push((member, at));
        note(&mut net, &sent, first..last, &mut latency);
    }
    let mut measured = Measured::of(latency, COUNTERS.map(|name| net.sum(name)));
    net.engines()
        .iter()
        .flat_map(Toto::indices)
        .for_each(|(of, count)| *measured.joint.entry(of).or_default() += count);
    Ok(measured)
}

/// Notes what senders heard of their own messages.
fn note(net: &mut Net<'_, Toto>, sent: &[(usize, Instant)], counts: std::ops::Range<usize>, latency: &mut Samples) {
    for told in net.take_told() {
        let Heard::Delivered(message) = told.heard else { continue };
        let message = message as usize;
        if let Some((_, at)) =
            sent.get(message).filter(|(member, _)| *member == told.member && counts.contains(&message))
        {
            latency.add(told.at.since(*at));
        }
    }
}

pub fn engines(lab: &Lab, cell: Cell) -> Result<Vec<Toto>, String> {
    let nodes = net::nodes(lab.nodes as usize);
    let make = |me: &_| {
        let mut config = TotoConfig::new(*me, nodes.clone());
        config.phi = cell.phi;
        config.ack = Some(Duration::from_secs_f64((lab.ack_gaps * lab.nodes) as f64 / cell.load as f64));
        config.ack_every = u64::MAX; // the paper knows no such limit
        Toto::new(config, Incarnation(1)).map_err(|error| error.to_string())
    };
    nodes.iter().map(make).collect()
}

pub fn delay(lab: &Lab) -> Delay<'static> {
    let (way, last) = (lab.way, lab.nodes as usize - 1);
    Box::new(move |from, _, rng| {
        let least = match way {
            Way::Distance(least) => least,
            Way::Straggler(more) if from == last => DELAY.0 + more,
            Way::Ethernet | Way::Straggler(_) => DELAY.0,
        };
        least + random(DELAY.1, rng)
    })
}

/// The counters that a table is made of.
pub const COUNTERS: [&str; 6] =
    ["released", "latency_index_sum", "ordered_messages", "concurrency_sum", "messages_sent", "nulls_sent"];

impl Measured {
    /// From latencies, and the sums of [`COUNTERS`] over all members.
    pub const fn of(latency: Samples, sums: [u64; COUNTERS.len()]) -> Self {
        let [released, tau, ordered, omega, packets, nulls] = sums;
        Self { latency, released, tau, ordered, omega, packets, nulls, joint: Joint::new() }
    }

    fn add(&mut self, run: Self) {
        self.latency.extend([run.latency]);
        self.released += run.released;
        self.tau += run.tau;
        self.ordered += run.ordered;
        self.omega += run.omega;
        self.packets += run.packets;
        self.nulls += run.nulls;
        run.joint.into_iter().for_each(|(of, count)| *self.joint.entry(of).or_default() += count);
    }

    /// How many had which tau and omega.
    pub const fn joint(&self) -> &Joint {
        &self.joint
    }

    /// How many members were waited for on average.
    pub fn mean_tau(&self) -> f64 {
        self.tau as f64 / self.released as f64
    }

    fn summary(&self) -> Summary {
        self.latency.summary()
    }

    fn text(&self) -> String {
        let per = |sum: u64, count: u64| sum as f64 / count as f64;
        let (tau, omega) = (per(self.tau, self.released), per(self.omega, self.ordered));
        format!("{} {tau:>5.2} {omega:>5.2} {:>5.1}", self.summary(), per(100 * self.nulls, self.packets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: Lab = Lab { nodes: 3, messages: 20, runs: 1, ack_gaps: 20, way: Way::Ethernet };

    #[test]
    fn the_same_seed_prints_the_same_table_and_another_seed_another() {
        let tiny = |seed| table(seed, &TINY).unwrap();
        let one = tiny(1);
        assert_eq!(one, tiny(1));
        assert_ne!(one, tiny(2));
        assert_eq!(one.lines().count(), 10 + 2 * PAPER.len());
    }

    #[test]
    fn all_ack_waits_for_all_and_toto_for_half() {
        let lab = Lab { messages: 400, runs: 1, ..Lab::default() };
        let measured = |phi| cell(3, &lab, Cell { pace: Pace::Periodic, load: 100, phi }).unwrap();
        let (toto, all_ack) = (measured(Phi::Half), measured(Phi::All));
        assert_eq!((toto.latency.len(), all_ack.latency.len()), (400, 400));
        let tau = |measured: &Measured| measured.tau as f64 / measured.released as f64;
        assert!((5.0..6.5).contains(&tau(&toto)) && tau(&all_ack) > 7.5, "{} {}", tau(&toto), tau(&all_ack));
        // A gap of one sender is 80 ms: half of the others, or all of them, must send first.
        assert!((30.0..55.0).contains(&toto.summary().mean), "{:?}", toto.summary());
        assert!((60.0..90.0).contains(&all_ack.summary().mean), "{:?}", all_ack.summary());
        assert_eq!(toto.nulls, 0);
    }
}
