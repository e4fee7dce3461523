//! Who sends when.
use consort_types::{Duration, Instant, Rng};

/// How the messages of one sender follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At equal intervals, from a point in the first one that the seed chooses.
    Periodic,
    /// At random intervals.
    Poisson,
}

impl Pace {
    /// As a table names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Periodic => "periodic",
            Self::Poisson => "Poisson",
        }
    }
}

/// One sender.
#[derive(Clone, Debug)]
struct Sender {
    member: usize,
    pace: Pace,
    gap: Duration,
    next: Instant,
    until: Option<Instant>,
    rng: Rng,
}

impl Sender {
    fn pass(&mut self) {
        let gap = match self.pace {
            Pace::Periodic => self.gap,
            Pace::Poisson => random(self.gap, &mut self.rng),
        };
        self.next += gap;
    }
}

/// All senders together.
#[derive(Clone, Debug)]
pub struct Traffic {
    senders: Vec<Sender>,
    rng: Rng,
}

impl Traffic {
    /// Nobody sends yet.
    pub const fn new(rng: Rng) -> Self {
        Self { senders: Vec::new(), rng }
    }

    /// This member sends so many messages a second, from a time on, and up to another if that is given.
    pub fn add(&mut self, member: usize, pace: Pace, rate: f64, from: Instant, until: Option<Instant>) {
        let gap = Duration::from_secs_f64(1.0 / rate);
        let mut rng = self.rng.fork(member as u64);
        let next = match pace {
            Pace::Periodic => from + gap.mul_f64(rng.unit()),
            Pace::Poisson => from + random(gap, &mut rng),
        };
        self.senders.push(Sender { member, pace, gap, next, until, rng });
    }

    /// Who sends next, and when; the first added of those that send at the same time. None once all are done.
    pub fn next(&mut self) -> Option<(Instant, usize)> {
        let goes_on = |sender: &&mut Sender| sender.until.is_none_or(|until| sender.next < until);
        let sender = self.senders.iter_mut().filter(goes_on).min_by_key(|sender| sender.next)?;
        let next = (sender.next, sender.member);
        sender.pass();
        Some(next)
    }
}

/// An exponentially distributed time of this mean.
pub fn random(mean: Duration, rng: &mut Rng) -> Duration {
    Duration::from_nanos(rng.exponential(mean.as_nanos() as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_take_turns_at_their_rates_and_stop_at_their_end() {
        let end = Instant(10_000_000_000);
        let mut traffic = Traffic::new(Rng::new(5));
        traffic.add(3, Pace::Periodic, 100.0, Instant::ZERO, Some(end));
        traffic.add(4, Pace::Poisson, 400.0, Instant(5_000_000_000), Some(end));
        let sent: Vec<_> = std::iter::from_fn(|| traffic.next()).collect();
        assert!(sent.is_sorted_by_key(|(at, _)| *at) && sent.iter().all(|(at, _)| *at < end));
        let of = |member| sent.iter().filter(|(_, sender)| *sender == member).count();
        assert_eq!(of(3), 1_000);
        assert!((1_850..2_150).contains(&of(4)), "{}", of(4));
    }
}
