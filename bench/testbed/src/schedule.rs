//! When a sender's messages are due.
use super::job::{Go, Job, Pace};
use consort_types::Rng;

/// The times of one sender's messages. They depend on nothing that happens: a message that cannot be sent in time is
/// late, and the next one is due when it always was.
#[derive(Debug)]
pub struct Schedule {
    pace: Pace,
    go: Go,
    cut: bool,
    rng: Rng,
    /// When the next is due, in nanoseconds behind the start.
    next: f64,
    stopped: bool,
}

impl Schedule {
    /// Of the sender with this job. Senders of an even pace take turns.
    pub fn new(job: &Job, go: Go) -> Self {
        let share = f64::from(job.index) / f64::from(job.senders.max(1));
        let mut schedule = Self {
            pace: job.pace,
            go,
            cut: job.cut,
            rng: Rng::new(u64::from(job.index) + 1),
            next: 0.0,
            stopped: false,
        };
        schedule.next = match job.pace {
            Pace::Max => 0.0,
            Pace::Even(rate) => share * 1e9 / rate,
            Pace::Poisson(_) => schedule.gap(),
        };
        schedule
    }

    /// When the next message is due; `None` once there is none any more.
    pub fn next(&mut self, now: u64) -> Option<u64> {
        let late = now >= self.go.until;
        let due = if self.pace == Pace::Max { now.max(self.go.start) } else { self.due() };
        self.stopped = due >= self.go.until || (self.cut && late);
        if self.stopped {
            return None;
        }
        self.next += self.gap();
        Some(due)
    }

    /// How many were due in time but were not asked for, because time was up.
    pub fn unsent(mut self) -> u64 {
        let mut count = 0;
        while self.pace != Pace::Max && self.cut && self.due() < self.go.until {
            self.next += self.gap();
            count += 1;
        }
        count
    }

    fn due(&self) -> u64 {
        self.go.start + self.next as u64
    }

    fn gap(&mut self) -> f64 {
        match self.pace {
            Pace::Max => 0.0,
            Pace::Even(rate) => 1e9 / rate,
            Pace::Poisson(rate) => self.rng.exponential(1e9 / rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ClientAddress;
    use crate::job::{Load, Role};

    const GO: Go = Go { start: 1_000, from: 1_000, until: 1_000_001_000 };

    fn schedule(pace: Pace, cut: bool) -> Schedule {
        let job = Job {
            role: Role::Sender,
            address: ClientAddress::Native("".into()),
            index: 1,
            senders: 2,
            receivers: 1,
            group: "g".into(),
            service: "agreed".into(),
            load: Load::Made(100),
            pace,
            cut,
            unbatched: false,
            sockets: false,
            digest: false,
        };
        Schedule::new(&job, GO)
    }

    #[test]
    fn an_even_pace_is_kept_however_late_one_asks() {
        let mut even = schedule(Pace::Even(1_000.0), false);
        assert_eq!([even.next(0), even.next(900_000_000), even.next(0)], [501_000, 1_501_000, 2_501_000].map(Some));
        assert_eq!(std::iter::from_fn(|| even.next(u64::MAX)).count(), 997);
        assert_eq!(even.unsent(), 0);
    }

    #[test]
    fn messages_at_random_times_come_at_the_asked_rate() {
        let mut poisson = schedule(Pace::Poisson(10_000.0), false);
        let times: Vec<u64> = std::iter::from_fn(|| poisson.next(0)).collect();
        assert!((9_700..10_300).contains(&times.len()), "{}", times.len());
        let long = times.windows(2).filter(|pair| pair[1] - pair[0] > 100_000).count() as f64 / times.len() as f64;
        assert!((long - (-1.0f64).exp()).abs() < 0.03, "{long}");
    }

    #[test]
    fn what_is_cut_is_counted() {
        let mut even = schedule(Pace::Even(1_000.0), true);
        assert!(even.next(0).is_some());
        assert_eq!(even.next(GO.until), None);
        assert_eq!(even.unsent(), 999);
    }

    #[test]
    fn as_fast_as_possible_is_due_now() {
        let mut max = schedule(Pace::Max, false);
        assert_eq!([max.next(5), max.next(7_000), max.next(GO.until)], [Some(1_000), Some(7_000), None]);
        assert_eq!(max.unsent(), 0);
    }
}
