//! What to do when there is nothing to do.
use crate::Idling;
use consort_types::Instant;
use std::time::Duration;

/// How long `balanced` looks again before it sleeps: about what a wake-up costs.
const SPIN: Duration = Duration::from_micros(40);

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
    since: Option<Instant>,
}

impl Idle {
    pub(crate) const fn new(profile: Idling) -> Self {
        Self { profile, since: None }
    }

    /// To be asked after every turn.
    pub(crate) fn rest(&mut self, now: Instant, worked: bool) -> Rest {
        if worked {
            self.since = None;
            return Rest::None;
        }
        match self.profile {
            Idling::Latency => Rest::Yield,
            Idling::Frugal => Rest::Sleep,
            Idling::Balanced if now.since(*self.since.get_or_insert(now)) < SPIN => Rest::Yield,
            Idling::Balanced => Rest::Sleep,
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
        assert_eq!(at(0, true), Rest::None);
        assert_eq!(at(10, false), Rest::Yield);
        assert_eq!(at(49, false), Rest::Yield);
        assert_eq!(at(50, false), Rest::Sleep);
        assert_eq!(at(900, true), Rest::None);
        assert_eq!(at(901, false), Rest::Yield);
    }

    #[test]
    fn the_other_profiles_never_change_their_mind() {
        for (profile, rest) in [(Idling::Latency, Rest::Yield), (Idling::Frugal, Rest::Sleep)] {
            let mut idle = Idle::new(profile);
            assert!((0..1_000).all(|ms| idle.rest(Instant(ms * 1_000_000), false) == rest));
        }
    }
}
