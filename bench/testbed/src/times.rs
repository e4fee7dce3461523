//! Times: histograms and their quantiles.
use consort_daemon::failure::{Failure, Outcome};
use consort_daemon::figures::micros;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest time that is told apart, in nanoseconds: ten minutes.
const LONGEST: u64 = 600_000_000_000;

/// Times in nanoseconds, to three digits.
#[derive(Clone, Debug)]
pub struct Times(Histogram<u64>);

/// The quantiles that are reported, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// What share of all lies below the points of a curve.
const CURVE: [f64; 14] = [0.0, 0.1, 0.25, 0.5, 0.6, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995, 0.9999];

/// A histogram on its way between processes: pairs of value and count.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Packed(Vec<(u64, u64)>);

impl Times {
    /// No times yet.
    pub fn new() -> Outcome<Self> {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3);
        histogram.map(Self).map_err(|error| Failure::new(format!("cannot make a histogram: {error}")))
    }

    /// Counts a time in nanoseconds.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds another process's times.
    pub fn add(&mut self, packed: &Packed) {
        for (value, count) in &packed.0 {
            self.0.saturating_record_n(*value, *count);
        }
    }

    /// For sending to another process.
    pub fn pack(&self) -> Packed {
        Packed(self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect())
    }

    /// The reported quantiles.
    pub fn quantiles(&self) -> Quantiles {
        let at = |quantile: f64| self.0.value_at_quantile(quantile) as f64 / 1_000.0;
        let max = self.0.max() as f64 / 1_000.0;
        Quantiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max }
    }

    /// Points of share and microseconds, for drawing, up to the longest of all. None that so few times cannot tell from
    /// it.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let count = self.0.len() as f64;
        let told = |share: &f64| (1.0 - share) * count >= 1.0;
        let at = |share: f64| (share, self.0.value_at_quantile(share) as f64 / 1_000.0);
        let longest = (1.0 - 1.0 / (count + 1.0), self.quantiles().max);
        CURVE.into_iter().filter(told).map(at).chain([longest]).collect()
    }

    /// A picture in text: a line for each doubling of the time, with a bar for the share.
    pub fn picture(&self) -> Vec<String> {
        let mut bars: Vec<(u64, u64)> = Vec::new();
        for step in self.0.iter_recorded() {
            let below = (step.value_iterated_to() / 1_000 + 1).next_power_of_two();
            match bars.last_mut() {
                Some((last, count)) if *last == below => *count += step.count_at_value(),
                _ => bars.push((below, step.count_at_value())),
            }
        }
        bars.iter().map(|(below, count)| self.bar(*below, *count)).collect()
    }

    fn bar(&self, below: u64, count: u64) -> String {
        let share = count as f64 / self.0.len().max(1) as f64;
        let stars = "#".repeat((share * 40.0).ceil() as usize);
        format!("up to {:>8}  {stars:<40} {:>5.1} %", micros(below as f64), share * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(values: impl IntoIterator<Item = u64>) -> Times {
        let mut times = Times::new().unwrap();
        values.into_iter().for_each(|ns| times.record(ns));
        times
    }

    #[test]
    fn quantiles_survive_the_way_between_processes() {
        let one = times((1..=1000).map(|us| us * 1_000));
        let mut all = times([]);
        all.add(&one.pack());
        all.add(&one.pack());
        assert_eq!(all.0.len(), 2_000);
        let [a, b] = [one.quantiles(), all.quantiles()];
        assert!((a.p50 - 500.0).abs() < 2.0 && (a.p99 - 990.0).abs() < 2.0, "{a:?}");
        assert!((a.p50 - b.p50).abs() < 1.0 && (a.p999 - b.p999).abs() < 1.0, "{a:?} {b:?}");
        assert!((a.p90 - 900.0).abs() < 2.0 && (a.max - 1_000.0).abs() < 2.0, "{a:?}");
        let curve = all.curve();
        assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{curve:?}");
        // Two thousand times have no ten-thousandth.
        assert!(curve.iter().all(|(share, _)| *share < 0.9999) && curve.last().unwrap().1 == b.max, "{curve:?}");
    }

    #[test]
    fn the_picture_has_a_bar_for_each_doubling() {
        let picture = times([50_000, 60_000, 100_000, 3_000_000]).picture();
        assert_eq!(picture.len(), 3);
        assert!(picture[0].starts_with("up to    64 us  ####################  "), "{picture:?}");
        assert!(picture[0].ends_with(" 50.0 %") && picture[2].starts_with("up to   4.1 ms"), "{picture:?}");
    }
}
