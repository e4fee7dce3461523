//! Totem's methodology: latency by clocks that do not agree, on the ring of its figures, against the simulator's own time.
use super::figure::{Axis, Chart, Claim, Curve, Outcome};
use super::lab::Lab;
use super::totem;
use crate::wires::Given;
use consort_testbed::clocks::{Reading, by_exchanges, by_sums};
use consort_types::{Duration, Instant, Rng};
use std::collections::BTreeMap;

/// How long the ring is watched.
const MILLIS: u64 = 10_000;
/// How much the clocks differ at first, in seconds.
const OFFSET: f64 = 1.0;
/// By how much the rates of clocks of quartz differ, in parts in a million: twice this.
const QUARTZ: f64 = 50.0;

/// The clock of a machine: how far it is ahead at each tenth of a second, in microseconds. It is read in whole ones.
struct Clock(Vec<f64>);

impl Clock {
    /// It gains or loses up to so many parts in a million; if it wanders, others in each tenth of a second.
    fn new(gains: f64, wanders: bool, tenths: u64, rng: &mut Rng) -> Self {
        let mut part = |most: f64| (2.0 * rng.unit() - 1.0) * most;
        let mut ahead = vec![part(OFFSET * 1e6)];
        let mut rate = part(gains);
        for _ in 0..=tenths {
            let last = ahead.last().copied().unwrap_or_default();
            ahead.push(last + rate / 10.0);
            rate = if wanders { part(gains) } else { rate };
        }
        Self(ahead)
    }

    fn read(&self, at: Instant) -> f64 {
        let us = at.0 as f64 / 1e3;
        let tenth = ((us / 1e5) as usize).min(self.0.len() - 2);
        let within = us / 1e5 - tenth as f64;
        (us + self.0[tenth] + (self.0[tenth + 1] - self.0[tenth]) * within).floor()
    }
}

/// How far both methods are off, in microseconds: the largest of all pairs of machines.
type Off = (f64, f64);

/// How far both methods are off with such clocks.
fn errors(given: &[Given], gains: f64, wanders: bool, seed: u64) -> Off {
    let mut rng = Rng::new(seed).fork(gains as u64);
    let machines = given.iter().map(|message| message.from.max(message.to) + 1).max().unwrap_or_default();
    let tenths = given.last().map_or(0, |message| message.received.0 / 100_000_000);
    let clocks: Vec<_> = (0..machines).map(|_| Clock::new(gains, wanders, tenths, &mut rng)).collect();
    let read = |read: &dyn Fn(usize, Instant) -> f64| -> Vec<_> {
        let reading = |of: &Given| {
            let (sent, received) = (read(of.from, of.sent), read(of.to, of.received));
            Reading { from: of.from, to: of.to, sent, received }
        };
        given.iter().map(reading).collect()
    };
    let truth = by_sums(&read(&|_, at| at.0 as f64 / 1e3));
    let by_clocks = read(&|machine, at| clocks[machine].read(at));
    let off = |found: &BTreeMap<(usize, usize), f64>| {
        let off = truth.iter().map(|(pair, true_us)| found.get(pair).map_or(f64::INFINITY, |us| (us - true_us).abs()));
        off.reduce(f64::max).unwrap_or(f64::NAN)
    };
    (off(&by_sums(&by_clocks)), off(&by_exchanges(&by_clocks)))
}

/// Both methods, with clocks of quartz and with ones that wander.
pub fn latency_methods(lab: &Lab) -> Result<Outcome, String> {
    const GAINS: [f64; 6] = [0.0, 10.0, 50.0, 100.0, 200.0, 500.0];
    let given = totem::given(Duration::from_millis(lab.scaled(MILLIS)))?;
    let of = |gains, wanders| errors(&given, gains, wanders, lab.scale.seed);
    let (quartz, wandering) = (of(QUARTZ, false), of(4.0 * QUARTZ, true));
    let claims = vec![
        Claim::at_most("first method, steady clocks: off by", "less than 10 us", quartz.0, 10.0, "us"),
        Claim::at_most("second method, steady clocks: off by", "less than 15 us", quartz.1, 15.0, "us"),
        Claim::at_most("second method, clocks that wander: off by", "less than 15 us", wandering.1, 15.0, "us"),
    ];
    let runs = GAINS.map(|gains| (gains, of(gains, false), of(gains, true)));
    let curve = |name: &str, value: &dyn Fn(&(f64, Off, Off)) -> f64| {
        Curve::line(name, runs.iter().map(|run| (run.0, value(run))).collect())
    };
    let chart = Chart {
        title: "How far off the mean latency of two machines is, at most".into(),
        x: Axis::linear("rates of clocks, parts in a million"),
        y: Axis::linear("off by, us"),
        curves: vec![
            curve("first method", &|run| run.1.0),
            curve("second method", &|run| run.1.1),
            curve("first method, wandering", &|run| run.2.0),
            curve("second method, wandering", &|run| run.2.1),
        ],
    };
    let setting = format!(
        "{} Window 1, {} messages that others received. Clocks differ by up to {OFFSET} s at first and count whole microseconds. \
         Steady ones gain or lose up to {QUARTZ} parts in a million each, wandering ones up to four times as much, other each \
         tenth of a second.",
        totem::setting(),
        given.len()
    );
    Ok(Outcome { setting, charts: vec![chart], claims })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_gains_steadily_or_wanders() {
        let at = |tenth: u64| Instant(tenth * 100_000_000);
        let ahead = |clock: &Clock, tenth: u64| clock.read(at(tenth)) - tenth as f64 * 1e5;
        let steady = Clock::new(100.0, false, 20, &mut Rng::new(1));
        let gains = |clock: &Clock, tenth| ahead(clock, tenth + 1) - ahead(clock, tenth);
        assert!((0..20).all(|tenth| (gains(&steady, tenth) - gains(&steady, 0)).abs() <= 1.0));
        let wandering = Clock::new(100.0, true, 20, &mut Rng::new(1));
        assert!((0..20).any(|tenth| (gains(&wandering, tenth) - gains(&wandering, 0)).abs() > 3.0));
        assert!((0..20).all(|tenth| gains(&wandering, tenth).abs() <= 11.0));
    }

    #[test]
    fn both_methods_are_within_the_papers_errors_and_clocks_do_differ() {
        let outcome = latency_methods(&Lab::new(1, true)).unwrap();
        assert_eq!(outcome.claims.len(), 3);
        assert!(outcome.charts[0].curves.iter().all(|curve| curve.points.len() == 6), "{outcome:?}");
        assert!(outcome.charts[0].curves[0].points.iter().all(|(_, us)| us.is_finite()), "{outcome:?}");
    }

    #[test]
    fn machines_that_never_answer_have_no_latency() {
        let one = Given { from: 0, to: 1, sent: Instant(1_000), received: Instant(2_000) };
        assert!(errors(&[one], 0.0, false, 1).0.is_nan());
        assert!(errors(&[], 0.0, false, 1).1.is_nan());
    }
}
