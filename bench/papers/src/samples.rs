//! Latencies, and what a table shows of them.
use consort_types::Duration;

/// Latencies of one cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples(Vec<Duration>);

/// What a table shows of them, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// Half are not above this.
    pub p50: f64,
    /// 99 of a hundred are not above this.
    pub p99: f64,
}

impl Samples {
    /// One more.
    pub fn add(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// All NaN where there are none.
    pub fn summary(&self) -> Summary {
        let mut sorted: Vec<_> = self.0.iter().map(|latency| latency.as_secs_f64() * 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |q: f64| sorted.get((sorted.len() as f64 * q).ceil() as usize - usize::from(q > 0.0));
        let quantile = |q| at(q).copied().unwrap_or(f64::NAN);
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        if sorted.is_empty() {
            return Summary { mean: f64::NAN, p50: f64::NAN, p99: f64::NAN };
        }
        Summary { mean, p50: quantile(0.5), p99: quantile(0.99) }
    }
}

impl Extend<Self> for Samples {
    fn extend<T: IntoIterator<Item = Self>>(&mut self, parts: T) {
        parts.into_iter().for_each(|part| self.0.extend(part.0));
    }
}

impl std::fmt::Display for Summary {
    /// Mean, p50, p99, in columns.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { mean, p50, p99 } = self;
        write!(f, "{mean:>8.2} {p50:>8.2} {p99:>8.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let mut samples = Samples::default();
        (1..=200).rev().for_each(|ms| samples.add(Duration::from_millis(ms)));
        assert_eq!(samples.summary(), Summary { mean: 100.5, p50: 100.0, p99: 198.0 });
        assert_eq!(samples.len(), 200);
        let mut one = Samples::default();
        one.add(Duration::from_millis(7));
        assert_eq!(one.summary(), Summary { mean: 7.0, p50: 7.0, p99: 7.0 });
        assert!(Samples::default().summary().mean.is_nan());
    }
}
