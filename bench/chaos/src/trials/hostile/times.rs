//! How long what good clients do takes.
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::chaos::board::held;

/// When each thing began, and how long it took.
#[derive(Debug, Default)]
pub struct Times(Mutex<Vec<(Instant, Duration)>>);

impl Times {
    /// What began then is over now.
    pub fn note(&self, begun: Instant) {
        held(&self.0).push((begun, begun.elapsed()));
    }

    /// How long all took that began in this time, the quickest first.
    pub fn between(&self, begun: Instant, ended: Instant) -> Vec<Duration> {
        let all = held(&self.0);
        let began = all.iter().filter(|(at, _)| (begun..ended).contains(at));
        let mut took: Vec<_> = began.map(|(_, took)| *took).collect();
        drop(all);
        took.sort_unstable();
        took
    }
}

pub fn p99(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() * 99 / 100).copied().unwrap_or_default()
}

/// In milliseconds.
pub fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_takes_longer_than_p99() {
        let took: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!((p99(&took), p99(&[])), (Duration::from_millis(199), Duration::ZERO));
        assert_eq!(ms(Duration::from_micros(1_260)), "1.3");
    }
}
