//! Finds out that nothing is heard any more from a daemon that promised to say something now and then.
use std::time::{Duration, Instant};

/// So many parts of the bound are waited for and looked at one by one.
const STEPS: u32 = 8;
/// So often in the time of a bound a daemon is to say that it is at work.
const BEATS: u32 = 4;

/// How long nothing was heard.
///
/// Only looks count. Bytes wait in the socket for a program that does something else for long, so the next look finds
/// them; and a pause of this program, however long, counts as one step, for what was sent meanwhile may be still on its
/// way.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    bound: Option<Duration>,
    /// The daemon has shown that it tells heartbeats.
    armed: bool,
    silent: Duration,
    /// When it was looked last, if nothing was heard since.
    looked: Option<Instant>,
}

impl Silence {
    pub(crate) fn new(bound: Option<Duration>) -> Self {
        Self { bound, ..Self::default() }
    }

    /// How often a daemon is to tell that it is at work for this bound.
    pub(crate) fn interval(bound: Duration) -> Duration {
        bound / BEATS
    }

    /// How long one may wait without looking; for ever where silence means nothing.
    pub(crate) fn step(&self) -> Option<Duration> {
        self.bound.filter(|_| self.armed).map(|bound| bound / STEPS)
    }

    /// The same, where one would wait for that long.
    pub(crate) fn within(&self, within: Option<Duration>) -> Option<Duration> {
        within.into_iter().chain(self.step()).min()
    }

    /// Something came.
    pub(crate) const fn on_bytes(&mut self) {
        (self.silent, self.looked) = (Duration::ZERO, None);
    }

    /// The daemon says that it is at work: it will say so again.
    pub(crate) const fn on_heartbeat(&mut self) {
        self.armed = true;
    }

    /// A look has found nothing. The bound, if it has been silent for so long.
    pub(crate) fn on_nothing(&mut self, now: Instant) -> Option<Duration> {
        let step = self.step()?;
        let since = self.looked.replace(now).map_or(Duration::ZERO, |looked| now.saturating_duration_since(looked));
        self.silent += since.min(step);
        // The first look that found nothing had waited already.
        self.bound.filter(|bound| self.silent + step >= *bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Duration = Duration::from_secs(2);

    fn armed() -> Silence {
        let mut silence = Silence::new(Some(BOUND));
        silence.on_heartbeat();
        silence
    }

    /// After how many looks, each a step apart, it is over.
    fn looks(silence: &mut Silence, from: Instant, step: Duration) -> Option<u32> {
        (1..100).find(|look| silence.on_nothing(from + step * *look).is_some())
    }

    #[test]
    fn it_is_over_within_the_bound_and_not_after_half_a_second_and_a_pause_of_one() {
        let now = Instant::now();
        let mut silence = armed();
        let step = silence.step().unwrap();
        let over = step * looks(&mut silence, now, step).unwrap();
        assert!(over <= BOUND && over > Silence::interval(BOUND) + Duration::from_secs(1), "{over:?}");
    }

    #[test]
    fn what_comes_begins_it_anew() {
        let now = Instant::now();
        let mut silence = armed();
        let step = silence.step().unwrap();
        for round in 0..10 {
            (0..6).for_each(|look| assert_eq!(silence.on_nothing(now + step * (round * 6 + look)), None));
            silence.on_bytes();
        }
    }

    #[test]
    fn a_pause_of_ones_own_counts_as_one_step() {
        let now = Instant::now();
        let mut silence = armed();
        assert_eq!(silence.on_nothing(now), None);
        assert_eq!(silence.on_nothing(now + Duration::from_secs(3_600)), None);
        let step = silence.step().unwrap();
        assert_eq!(looks(&mut silence, now + Duration::from_secs(3_600), step), Some(6));
    }

    #[test]
    fn it_means_nothing_where_nobody_promised_to_speak_or_nobody_minds() {
        let now = Instant::now();
        let mut unarmed = Silence::new(Some(BOUND));
        assert_eq!((unarmed.step(), looks(&mut unarmed, now, BOUND)), (None, None));
        let mut unbounded = Silence::new(None);
        unbounded.on_heartbeat();
        assert_eq!((unbounded.step(), looks(&mut unbounded, now, BOUND)), (None, None));
        assert_eq!(unbounded.within(Some(BOUND)), Some(BOUND));
        assert_eq!(armed().within(None), armed().step());
        assert_eq!(armed().within(Some(Duration::ZERO)), Some(Duration::ZERO));
    }
}
