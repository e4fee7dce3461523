//! What to do when there is nothing to do.
use crate::Idling;
use consort_types::Instant;
use std::time::Duration;

/// How long `balanced` looks again before it sleeps: about what a wake-up costs.
const SPIN: Duration = Duration::from_micros(40);
/// What comes after sleeps this long is rare: to look again for [`SPIN`] would not find the next.
const LULL: Duration = Duration::from_millis(1);
/// `balanced` looks again after so many shorter sleeps in a row. One is not enough: an idle token that is sent round once
/// comes back soon, and then rests.
const BRISK: u8 = 2;

/// What the loop does before its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Goes on at once.
    None,
    /// Lets others run, then looks again.
    Yield,
    /// Sleeps until the kernel wakes it.
    Sleep,
}

#[derive(Debug)]
pub(crate) struct Idle {
    profile: Idling,
    /// When work ended.
    since: Option<Instant>,
    /// When it went to sleep, until it works again.
    asleep: Option<Instant>,
    /// How many of its last sleeps were short ones.
    brisk: u8,
}

impl Idle {
    pub(crate) const fn new(profile: Idling) -> Self {
        Self { profile, since: None, asleep: None, brisk: 0 }
    }

    /// To be asked after every turn.
    pub(crate) fn rest(&mut self, now: Instant, worked: bool) -> Rest {
        if worked {
            self.since = None;
            if let Some(asleep) = self.asleep.take() {
                self.brisk = if now.since(asleep) < LULL { self.brisk.saturating_add(1) } else { 0 };
            }
            return Rest::None;
        }
        match self.profile {
            Idling::Latency => Rest::Yield,
            Idling::Frugal => Rest::Sleep,
            Idling::Balanced if self.brisk >= BRISK && now.since(*self.since.get_or_insert(now)) < SPIN => Rest::Yield,
            Idling::Balanced => {
                self.asleep.get_or_insert(now);
                Rest::Sleep
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balanced_spins_a_while_then_sleeps_and_work_starts_it_anew() {
        let mut idle = Idle::new(Idling::Balanced);
        let mut at = |micros: u64, worked| idle.rest(Instant(micros * 1_000), worked);
        for short in [0, 2, 4] {
            assert_eq!(
                [at(short, true), at(short + 1, false)],
                [Rest::None, if short < 4 { Rest::Sleep } else { Rest::Yield }]
            );
        }
        assert_eq!(at(9, true), Rest::None);
        assert_eq!(at(10, false), Rest::Yield);
        assert_eq!(at(49, false), Rest::Yield);
        assert_eq!(at(50, false), Rest::Sleep);
        assert_eq!(at(900, true), Rest::None);
        assert_eq!(at(901, false), Rest::Yield);
    }

    #[test]
    fn balanced_does_not_spin_for_what_comes_rarely() {
        let mut idle = Idle::new(Idling::Balanced);
        let mut at = |micros: u64, worked| idle.rest(Instant(micros * 1_000), worked);
        // An idle token is sent round each 25 ms, comes back, and a timer finds nothing to do.
        for sent in [0, 25_000, 50_000] {
            assert_eq!([at(sent, true), at(sent + 1, false)], [Rest::None, Rest::Sleep]);
            assert_eq!([at(sent + 200, true), at(sent + 201, false)], [Rest::None, Rest::Sleep]);
            assert_eq!(at(sent + 6_000, false), Rest::Sleep);
        }
        // Traffic: what comes first is slept for, then the next is looked for.
        for (came, rest) in [(54_000, Rest::Sleep), (54_100, Rest::Sleep), (54_200, Rest::Yield), (54_300, Rest::Yield)]
        {
            assert_eq!([at(came, true), at(came + 10, false)], [Rest::None, rest]);
        }
    }

    #[test]
    fn the_other_profiles_never_change_their_mind() {
        for (profile, rest) in [(Idling::Latency, Rest::Yield), (Idling::Frugal, Rest::Sleep)] {
            let mut idle = Idle::new(profile);
            assert!((0..1_000).all(|ms| idle.rest(Instant(ms * 1_000_000), false) == rest));
        }
    }
}
