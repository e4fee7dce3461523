//! Clocks that run at rates of their own: what a host takes for a second may be a little more or less.
use consort_types::Instant;

/// The clock of each host: by how many millionths it runs fast, or slow if below zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks(Vec<i32>);

const MILLION: i128 = 1_000_000;

impl Clocks {
    /// Clocks at these rates; those of hosts that are not named run true.
    pub const fn new(rates: Vec<i32>) -> Self {
        Self(rates)
    }

    fn rate(&self, host: u16) -> i128 {
        self.0.get(usize::from(host)).map_or(0, |rate| i128::from(*rate))
    }

    /// What a host's clock shows at a time.
    pub fn read(&self, host: u16, at: Instant) -> Instant {
        match self.rate(host) {
            0 => at,
            rate => Instant((i128::from(at.0) * (MILLION + rate) / MILLION) as u64),
        }
    }

    /// When a host's clock shows that, or has just passed it.
    pub fn when(&self, host: u16, shown: Instant) -> Instant {
        match self.rate(host) {
            0 => shown,
            rate => {
                let scaled = i128::from(shown.0) * MILLION + (MILLION + rate) - 1;
                Instant((scaled / (MILLION + rate)) as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_wakes_when_its_own_clock_shows_the_time_and_no_later() {
        let clocks = Clocks::new(vec![0, 50_000, -50_000, 137]);
        for shown in [0, 1, 999, 1_000_001, 7_123_456_789, 1 << 50] {
            for host in 0..5 {
                let at = clocks.when(host, Instant(shown));
                assert!(clocks.read(host, at) >= Instant(shown), "{host} {shown}");
                assert!(at.0 == 0 || clocks.read(host, Instant(at.0 - 1)) < Instant(shown), "{host} {shown}");
            }
        }
        assert_eq!(clocks.read(1, Instant(1_000_000)), Instant(1_050_000));
        assert_eq!(clocks.read(4, Instant(77)), Instant(77), "not named: it runs true");
    }
}
