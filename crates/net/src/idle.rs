//! What to do when there is nothing to do.
//!
//! `balanced` polls once more, at once, where the iteration worked; else it sleeps until a packet comes. It never yields, so CPU-bound processes cannot take its processor meanwhile.
use crate::IdleProfile;
use consort_types::Instant;
use std::time::Duration;

/// Whoever yields to a CPU-bound process waits for as long as that may keep the processor, some milliseconds. Daemons and
/// clients give it back sooner, as a rule.
const LONG_YIELD: Duration = Duration::from_millis(2);
/// A yield of that length counts as much as so many shorter ones.
const LONG_YIELD_SCORE: u8 = 4;
/// Almost so many of them, less what shorter ones between them take away, are contention. Of a hundred yields beside CPU-bound
/// processes 16 to 39 are so long, of a hundred of daemons at their limit one or two, and now and then a host takes the
/// processor away.
const CONTENTION_YIELDS: u8 = 4;
/// For how long nobody yields then, at first; twice as long each time that it was too early, and how long at most.
const BACKOFF: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// How the loop waits before its next iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Goes on at once.
    None,
    /// Lets others run, then looks again; `latency` alone.
    Yield,
    /// Sleeps until the kernel wakes it.
    Sleep,
}

/// One iteration of the loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Iteration {
    /// It did something.
    pub worked: bool,
    /// More is known to be there to do.
    pub busy: bool,
}

#[derive(Debug)]
pub(crate) struct Idle {
    profile: IdleProfile,
    contention: Contention,
}

/// Contention by CPU-bound processes: a process that sleeps then gets a processor sooner than one that yields.
#[derive(Debug)]
struct Contention {
    /// What long yields count, less what shorter ones do.
    score: u8,
    /// It is there until then, as far as is known.
    until: Instant,
    /// How long it is taken for granted when it is met next.
    backoff: Duration,
}

impl Contention {
    const fn new() -> Self {
        Self { score: 0, until: Instant::ZERO, backoff: BACKOFF }
    }

    /// A yield that is over now took so long.
    fn note(&mut self, now: Instant, lasted: Duration) {
        if lasted < LONG_YIELD {
            self.score = self.score.saturating_sub(1);
            if self.score == 0 {
                self.backoff = BACKOFF;
            }
            return;
        }
        self.score = (self.score + LONG_YIELD_SCORE).min(CONTENTION_YIELDS * LONG_YIELD_SCORE);
        if self.score > (CONTENTION_YIELDS - 1) * LONG_YIELD_SCORE {
            self.until = now + self.backoff;
            self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        }
    }

    fn is_there(&self, now: Instant) -> bool {
        now < self.until
    }
}

impl Idle {
    pub(crate) const fn new(profile: IdleProfile) -> Self {
        Self { profile, contention: Contention::new() }
    }

    /// A [`Wait::Yield`] is over now and took so long.
    pub(crate) fn yielded(&mut self, now: Instant, lasted: Duration) {
        self.contention.note(now, lasted);
    }

    /// To be asked after every iteration.
    pub(crate) fn wait(&self, now: Instant, iteration: Iteration) -> Wait {
        match self.profile {
            _ if iteration.busy => Wait::None,
            IdleProfile::Latency | IdleProfile::Balanced if iteration.worked => Wait::None,
            IdleProfile::Latency if !self.contention.is_there(now) => Wait::Yield,
            // Who must neither spin nor yield is frugal.
            IdleProfile::Latency | IdleProfile::Balanced | IdleProfile::Frugal => Wait::Sleep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_micros(3);

    /// Yields to somebody who keeps the processor for so long; returns whether it would have slept instead.
    fn sleeps(idle: &mut Idle, now: Instant, others: Duration) -> bool {
        let wait = idle.wait(now, Iteration::default());
        if wait == Wait::Yield {
            idle.yielded(now + others, others);
        }
        wait == Wait::Sleep
    }

    #[test]
    fn latency_sleeps_for_a_while_after_yields_to_cpu_bound_processes() {
        let mut idle = Idle::new(IdleProfile::Latency);
        let at = |millis: u64| Instant(1_000_000_000 + millis * 1_000_000);
        let mut asked = |millis| sleeps(&mut idle, at(millis), Duration::from_millis(4));
        assert!((0..CONTENTION_YIELDS).all(|n| !asked(4 * u64::from(n))), "a few may be the machine's");
        let aloof: Vec<_> = (17..=400).filter(|millis| !asked(*millis)).collect();
        assert_eq!(aloof, [116, 320], "it tries once more, and then stays away for twice as long");
        let longest = (400..60_000).filter(|millis| !asked(*millis)).collect::<Vec<_>>();
        assert!(longest.windows(2).last().is_some_and(|pair| pair[1] - pair[0] == 2_004), "{longest:?}");
    }

    #[test]
    fn a_long_yield_now_and_then_changes_nothing_and_short_ones_are_forgiven() {
        let mut idle = Idle::new(IdleProfile::Latency);
        let mut now = Instant(1_000_000_000);
        for n in 0..10_000 {
            let others = if n % 6 == 0 { Duration::from_millis(4) } else { LOOK };
            assert!(!sleeps(&mut idle, now, others), "yield {n}");
            now += others;
        }
        let slice = Duration::from_millis(4);
        let mut stay_away = |now: &mut Instant| {
            while !sleeps(&mut idle, *now, slice) {
                *now += slice;
            }
            let began = *now;
            while sleeps(&mut idle, *now, LOOK) {
                *now += slice / 4;
            }
            now.since(began)
        };
        let (first, second) = (stay_away(&mut now), stay_away(&mut now));
        assert!(first < second && second < BACKOFF * 3, "{first:?} {second:?}");
        for _ in 0..CONTENTION_YIELDS * LONG_YIELD_SCORE {
            assert!(!sleeps(&mut idle, now, LOOK));
        }
        let mut again = 0;
        while !sleeps(&mut idle, now, slice) {
            (again, now) = (again + 1, now + slice);
        }
        assert_eq!(again, CONTENTION_YIELDS, "as if it had never met one");
    }

    #[test]
    fn nobody_rests_while_more_is_known_to_be_there() {
        for profile in IdleProfile::ALL {
            let idle = Idle::new(profile);
            let iteration = |ms| Iteration { worked: ms % 2 == 0, busy: true };
            assert!((0..1_000).all(|ms| idle.wait(Instant(ms * 1_000_000), iteration(ms)) == Wait::None));
        }
    }

    #[test]
    fn each_profile_has_a_way_to_wait_after_work_and_without() {
        for (profile, waits) in [
            (IdleProfile::Latency, [Wait::None, Wait::Yield]),
            (IdleProfile::Balanced, [Wait::None, Wait::Sleep]),
            (IdleProfile::Frugal, [Wait::Sleep, Wait::Sleep]),
        ] {
            let idle = Idle::new(profile);
            let asked = [true, false].map(|worked| idle.wait(Instant::ZERO, Iteration { worked, busy: false }));
            assert_eq!(asked, waits, "{profile:?}");
        }
    }
}
