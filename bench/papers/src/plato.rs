//! PLATO against a fixed sequencer, as in the paper's evaluation: what counts is how long a receiver waits for messages of
//! others.
//!
//! Both are measured in one run, for they put the same packets on the network: the sequencer's latency is that of the
//! place, PLATO's that of the offer which stood. An offer counts once it may no more be taken back without harm, which is
//! when an application uses it that never wants to undo anything, or with its place if that comes sooner.
use super::net::{self, Delay, Heard, Net, Told};
use super::samples::Samples;
use super::traffic::{Pace, Traffic, random};
use consort_plato::{AdaptationPace, Plato, PlatoConfig, Prediction, Sequencing};
use consort_types::{Duration, Incarnation, Instant, OfferId, Rng};
use std::collections::BTreeMap;
use std::ops::Range;

/// How large the laboratory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lab {
    /// How many seconds a line lasts; of the spike, each of its three parts.
    pub seconds: u64,
    /// How close packets must come to be suspected; adapted to mistakes where there is none.
    pub delta: Option<Duration>,
    /// How fast an adaptive one follows mistakes.
    pub pace: AdaptationPace,
}

impl Default for Lab {
    fn default() -> Self {
        Self { seconds: 60, delta: Some(Duration::from_micros(128)), pace: AdaptationPace::Calm }
    }
}

/// Packets a second, of both senders together, after how many the sequencer tells places, and what the paper says of the
/// ratio: its headline, or that PLATO was always faster, or nothing.
pub const CELLS: [(u64, u32, &str); 6] =
    [(400, 1, "-"), (400, 10, "> 2"), (400, 25, "> 1"), (1_600, 1, "-"), (1_600, 10, "> 1"), (1_600, 25, "> 1")];
/// The spike: so many packets a second, and so many more of two further senders.
pub const SPIKE: (u64, u64, u32) = (400, 1_500, 10);
/// Means of so many seconds show what is more than chance.
const LONG: u64 = 10;

/// What a packet needs within one switch, how much more between two, and what comes to that on average.
pub const DELAY: (Duration, Duration, Duration) =
    (Duration::from_micros(200), Duration::from_micros(25), Duration::from_micros(15));
/// The members: the sequencer, four senders in turn near it and far from it, and the receiver that is measured.
pub const MEMBERS: usize = 6;
pub const SENDERS: [usize; 4] = [1, 2, 3, 4];
pub const RECEIVER: usize = 5;
/// How large messages are, in bytes.
pub const LEN: usize = 100;

/// What was measured of one run.
#[derive(Debug)]
pub struct Measured {
    /// When each message was sent.
    pub sent: Vec<Instant>,
    /// When the receiver was offered it, might use the offer, and knew its place.
    heard: Vec<Option<Times>>,
    /// Offers that are open: when they were made, and when they may be used.
    open: BTreeMap<OfferId, (Instant, Instant)>,
    /// Packets at the receiver, and of those whose offers were taken back too late.
    pub packets: u64,
    /// As said.
    pub late: u64,
    /// The receiver's delta in microseconds, by the tenth of a second.
    pub deltas: Vec<f64>,
    began: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    offered: Instant,
    usable: Instant,
    placed: Instant,
}

/// Means and quantiles of some messages.
#[derive(Debug, Default)]
pub struct Part {
    /// Until offers that stood were made.
    pub offered: Samples,
    /// Until they might be used.
    pub plato: Samples,
    /// Until the place was known.
    pub fixed: Samples,
}

/// The whole table.
///
/// # Errors
/// What kept a run from its end.
pub fn table(seed: u64, lab: &Lab) -> Result<String, String> {
    let mut text = head(lab);
    for (rate, every, paper) in CELLS {
        text += &format!("{} | {paper}\n", line(seed, lab, rate, every)?);
    }
    Ok(text + &spike(seed, lab)?)
}

fn head(lab: &Lab) -> String {
    let delta = delta_text(lab.delta);
    format!("PLATO (delta {delta}) against a fixed sequencer: {} s a line, Poisson; {}", lab.seconds, columns())
}

/// A delta as a table names it.
pub fn delta_text(delta: Option<Duration>) -> String {
    delta.map_or("adaptive".into(), |delta| format!("{} us", delta.as_micros()))
}

/// What stands above the lines.
pub fn columns() -> String {
    format!(
        "a packet takes 200 us + exp(15 us), and \
         25 us more\nbetween two switches. Latency at a receiver in ms; an offer counts once it is free of late \
         revokes (`offer`: the mean of\nwhen it is made). Late: packets taken back after that, in %. Formula: \
         (k - 1) / 2 rate + two hops.\n\n\
         {:>6} {:>3} | {:^34} {:>6} | {:^26} {:>8} | {:>5} | paper:\n\
         {:>6} {:>3} | {:>7}{COLUMNS} {:>6} |{COLUMNS} {:>8} | {:>5} | ratio\n",
        "", "", "PLATO", "", "fixed sequencer", "", "", "pkt/s", "k", "offer", "late", "formula", "ratio"
    )
}

const COLUMNS: &str = "     mean      p50      p99";

fn line(seed: u64, lab: &Lab, rate: u64, every: u32) -> Result<String, String> {
    Ok(row(rate, every, &run(seed, lab, every, rate, lab.seconds, None)?))
}

/// One line, of what was measured.
pub fn row(rate: u64, every: u32, measured: &Measured) -> String {
    let part = measured.part(0..u64::MAX);
    let (offered, plato, fixed) = (part.offered.summary().mean, part.plato.summary(), part.fixed.summary());
    let hops = 2.0 * (DELAY.0 + DELAY.2).as_secs_f64() + 1.5 * DELAY.1.as_secs_f64();
    let formula = 1e3 * (f64::from(every - 1) / (2.0 * rate as f64) + hops);
    let (late, ratio) = (measured.late_percent(), fixed.mean / plato.mean);
    format!("{rate:>6} {every:>3} | {offered:>7.2} {plato} {late:>6.2} | {fixed} {formula:>8.2} | {ratio:>5.2}")
}

/// One third at a low rate, one at a high, one at the low again.
fn spike(seed: u64, lab: &Lab) -> Result<String, String> {
    let ((low, more, every), third) = (SPIKE, lab.seconds);
    let measured = run(seed, lab, every, low, 3 * third, Some((more, third..2 * third)))?;
    Ok(spike_text(&measured, third))
}

/// What was measured of the spike, each part of which lasted so many seconds.
pub fn spike_text(measured: &Measured, third: u64) -> String {
    let (low, more, every) = SPIKE;
    let mut text = format!("\n{low} -> {} -> {low} packets a second, k = {every}; means in ms:\n", low + more);
    let mut means = Vec::new();
    for (name, part) in [("before", 0..third), ("spike", third..2 * third), ("after", 2 * third..u64::MAX)] {
        let (plato, fixed) = measured.part(part).means();
        means.push((plato, fixed));
        text += &format!("{name:>8}: PLATO {plato:>6.2}, fixed {fixed:>6.2}, ratio {:>5.2}\n", fixed / plato);
    }
    text += &swing_text("of these", &means);
    let of = |spans: Range<u64>, long| -> Vec<_> {
        let starts = spans.step_by(long as usize);
        starts.map(|from| measured.part(from..from + long)).map(|part| part.means()).collect()
    };
    text += &swing_text("of one second", &of(0..3 * third, 1));
    text += &swing_text("of one second before the spike", &of(0..third, 1));
    if third.is_multiple_of(LONG) {
        text += &swing_text(&format!("of {LONG} seconds"), &of(0..3 * third, LONG));
        text += &swing_text(&format!("of {LONG} seconds before the spike"), &of(0..third, LONG));
    }
    text + "paper: PLATO flat, the sequencer swings with the rate\n"
}

fn swing_text(of: &str, means: &[(f64, f64)]) -> String {
    let (plato, fixed) = (swing(means.iter().map(|mean| mean.0)), swing(means.iter().map(|mean| mean.1)));
    format!("largest by smallest mean {of}: PLATO {plato:.2}, fixed {fixed:.2}\n")
}

/// The largest by the smallest of those that are numbers.
fn swing(means: impl Iterator<Item = f64>) -> f64 {
    let means = means.filter(|mean| mean.is_finite());
    let (least, most) = means.fold((f64::INFINITY, 0.0_f64), |(least, most), mean| (mean.min(least), mean.max(most)));
    most / least
}

/// A run under virtual time. Two senders share the rate; in between, two more share what is added.
pub fn run(
    seed: u64,
    lab: &Lab,
    every: u32,
    rate: u64,
    seconds: u64,
    more: Option<(u64, Range<u64>)>,
) -> Result<Measured, String> {
    let mut rng = Rng::new(seed).fork(rate << 8 | u64::from(every));
    let traffic_rng = rng.fork(1);
    let mut net = Net::start(engines(lab, every)?, delay(), rng.fork(2))?;
    let began = net.now();
    let mut traffic = traffic(traffic_rng, rate, began, more);
    let mut measured = Measured::begin(began);
    let packets = net.counter(RECEIVER, "packets_taken_in");
    // Places of the last ones are told only once more follow.
    let (end, last) = (began + Duration::from_secs(seconds), began + Duration::from_secs(seconds + 1));
    while let Some((at, member)) = traffic.next().filter(|(at, _)| *at < last) {
        net.run_until(at);
        net.submit(member, measured.sent.len() as u64, LEN)?;
        measured.sent.push(at);
        net.take_told().for_each(|told| measured.note(told));
        let tenth = (at.since(began).as_secs_f64() * 10.0) as usize;
        if at < end && measured.deltas.len() <= tenth {
            measured.deltas.resize(tenth + 1, net.counter(RECEIVER, "delta_ns") as f64 / 1e3);
        }
    }
    measured.packets = net.counter(RECEIVER, "packets_taken_in") - packets;
    measured.late = net.counter(RECEIVER, "late_revokes");
    measured.end(end)?;
    Ok(measured)
}

/// Two senders share the rate from `began` on; within some seconds two more share what is added.
pub fn traffic(rng: Rng, rate: u64, began: Instant, more: Option<(u64, Range<u64>)>) -> Traffic {
    let mut traffic = Traffic::new(rng);
    let after = |seconds| began + Duration::from_secs(seconds);
    let each = |rate: u64| rate as f64 / 2.0;
    SENDERS[..2].iter().for_each(|member| traffic.add(*member, Pace::Poisson, each(rate), began, None));
    if let Some((rate, when)) = more {
        let (from, until) = (after(when.start), Some(after(when.end)));
        SENDERS[2..].iter().for_each(|member| traffic.add(*member, Pace::Poisson, each(rate), from, until));
    }
    traffic
}

pub fn engines(lab: &Lab, every: u32) -> Result<Vec<Plato>, String> {
    let nodes = net::nodes(MEMBERS);
    let make = |me: &_| {
        let mut config = PlatoConfig::new(*me, nodes.clone());
        config.sequencing = Sequencing { every, within: Some(Duration::from_secs(1_000)) }; // the paper knows no such limit
        config.prediction = match (lab.delta, lab.pace) {
            (Some(delta), _) => Prediction::Fixed(delta),
            (None, AdaptationPace::Calm) => Prediction::default(),
            (None, AdaptationPace::Paper) => Prediction::paper(),
        };
        Plato::new(config, Incarnation(1)).map_err(|error| error.to_string())
    };
    nodes.iter().map(make).collect()
}

pub fn delay() -> Delay<'static> {
    Box::new(move |from, to, rng| fixed(from, to) + random(DELAY.2, rng))
}

/// What every packet takes. Members with even numbers are at the sequencer's switch, the others at another.
pub fn fixed(from: usize, to: usize) -> Duration {
    DELAY.0 + if from % 2 == to % 2 { Duration::ZERO } else { DELAY.1 }
}

impl Part {
    /// PLATO's mean and the sequencer's, in milliseconds.
    fn means(&self) -> (f64, f64) {
        (self.plato.summary().mean, self.fixed.summary().mean)
    }
}

impl Measured {
    /// Of a run that begins now.
    pub const fn begin(began: Instant) -> Self {
        Self {
            sent: Vec::new(),
            heard: Vec::new(),
            open: BTreeMap::new(),
            packets: 0,
            late: 0,
            deltas: Vec::new(),
            began,
        }
    }

    /// Only what was sent before the end counts.
    ///
    /// # Errors
    /// That some of those messages have no place.
    pub fn end(&mut self, end: Instant) -> Result<(), String> {
        let counts = self.sent.partition_point(|at| *at < end);
        self.sent.truncate(counts);
        self.heard.truncate(counts);
        let missing =
            self.heard.iter().filter(|times| times.is_none()).count() + counts.saturating_sub(self.heard.len());
        if missing > 0 { Err(format!("{missing} of {counts} messages have no place")) } else { Ok(()) }
    }

    /// Notes what was heard; messages go by their place among those that were sent.
    pub fn note(&mut self, told: Told) {
        let placed = told.at;
        let (message, (offered, free)) = match told.heard {
            _ if told.member != RECEIVER => return,
            Heard::Offered { offer, free_until, .. } => {
                self.open.insert(offer, (told.at, free_until));
                return;
            }
            Heard::Confirmed { offer, message } => (message, self.open.remove(&offer).unwrap_or((placed, placed))),
            Heard::Delivered(message) => (message, (placed, placed)),
        };
        let message = message as usize;
        self.heard.resize(self.heard.len().max(message + 1), None);
        self.heard[message] = Some(Times { offered, usable: free.max(offered).min(placed), placed });
    }

    /// The messages sent within these seconds.
    pub fn part(&self, seconds: Range<u64>) -> Part {
        let mut part = Part::default();
        for (sent, times) in self.sent.iter().zip(&self.heard) {
            let Some(times) = times.filter(|_| seconds.contains(&sent.since(self.began).as_secs())) else { continue };
            part.offered.add(times.offered.since(*sent));
            part.plato.add(times.usable.since(*sent));
            part.fixed.add(times.placed.since(*sent));
        }
        part
    }

    /// Packets whose offers were taken back too late, in %.
    pub fn late_percent(&self) -> f64 {
        100.0 * self.late as f64 / self.packets as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: Lab = Lab { seconds: 2, delta: Some(Duration::from_micros(128)), pace: AdaptationPace::Calm };

    #[test]
    fn the_same_seed_prints_the_same_lines_and_another_seed_others() {
        let tiny = |seed| line(seed, &TINY, 400, 10).unwrap() + &spike(seed, &Lab { seconds: 1, ..TINY }).unwrap();
        let one = tiny(1);
        assert_eq!(one, tiny(1));
        assert_ne!(one, tiny(2));
    }

    #[test]
    fn plato_waits_for_a_hop_and_little_more_the_sequencer_for_nine_more_packets() {
        let part = run(1, &TINY, 10, 400, 2, None).unwrap().part(0..2);
        let [offered, plato, fixed] = [part.offered, part.plato, part.fixed].map(|samples| samples.summary());
        assert!(offered.p50 < 0.3 && offered.mean <= plato.mean, "{offered:?} {plato:?}");
        assert!((9.0..15.0).contains(&fixed.mean) && plato.mean < fixed.mean / 2.0, "{plato:?} {fixed:?}");
    }

    #[test]
    fn by_the_rule_of_the_paper_delta_falls_every_tenth_of_a_second_and_by_the_daemons_every_second() {
        let deltas = |delta, pace| run(1, &Lab { delta, pace, ..TINY }, 1, 400, 2, None).unwrap().deltas;
        let paper = deltas(None, AdaptationPace::Paper);
        assert!((18..=20).contains(&paper.len()), "{paper:?}");
        assert!(paper[3] < paper[0] * 0.8 && paper[0] <= 128.0, "{paper:?}");
        let calm = deltas(None, AdaptationPace::Calm);
        assert!((3..=9).all(|tenth| calm[tenth] >= paper[tenth]), "{calm:?}");
        assert!(deltas(TINY.delta, AdaptationPace::Paper).iter().all(|us| *us == 128.0), "a fixed one stays");
    }

    #[test]
    fn a_spike_moves_the_sequencer_and_hardly_plato() {
        let measured = run(1, &TINY, 10, 400, 6, Some((1_500, 2..4))).unwrap();
        let means = [0..2, 2..4, 4..6].map(|part| measured.part(part).fixed.summary().mean);
        assert!(means[0] > 3.0 * means[1] && means[2] > 3.0 * means[1], "{means:?}");
    }

    #[test]
    fn all_is_suspected_under_a_delta_longer_than_any_gap_and_nothing_under_none() {
        let means = |delta| {
            let part = run(1, &Lab { delta, ..TINY }, 10, 400, 2, None).unwrap().part(0..2);
            (part.offered.summary(), part.fixed.summary())
        };
        let (offered, fixed) = means(Some(Duration::from_secs(100)));
        assert!(offered.mean > fixed.mean * 0.9, "{offered:?} {fixed:?}");
        assert!(means(Some(Duration::ZERO)).0.p50 < 0.3);
    }
}
