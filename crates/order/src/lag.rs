//! What drivers say of packets that lay in their sockets while they were not run. All drivers say it by this one rule, so
//! that the simulator tries what daemons do.
use consort_types::{Duration, Instant};

/// Whoever is woken later than this was not run meanwhile.
const LATE: Duration = Duration::from_millis(10);
/// After that, timers are looked at again even if the sockets were never seen empty.
const CATCH_UP: Duration = Duration::from_millis(50);

/// Whether a driver is behind: it was not run for a while, and has yet to read what came meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lag {
    /// When it had asked to be woken, before it fell behind last.
    asked: Instant,
    /// Until when at the latest it is behind.
    until: Option<Instant>,
}

impl Lag {
    /// The driver runs at `now` and had asked to be woken at `asked`. Returns whether it has just fallen behind: it is to
    /// read all its sockets before it looks at timers.
    pub fn note(&mut self, now: Instant, asked: Option<Instant>) -> bool {
        self.until = self.until.filter(|until| now < *until);
        let Some(asked) = asked.filter(|asked| *asked != self.asked && now.since(*asked) > LATE) else { return false };
        if self.until.is_some() {
            return false;
        }
        *self = Self { asked, until: Some(now + CATCH_UP) };
        true
    }

    /// All sockets were seen empty.
    pub const fn catch_up(&mut self) {
        self.until = None;
    }

    /// Whether packets are to be read before timers are looked at.
    pub const fn is_behind(&self) -> bool {
        self.until.is_some()
    }

    /// When a packet arrived that is read now: nobody knows, but the driver would have read it when it had asked to run.
    pub fn arrival(&self, now: Instant) -> Instant {
        if self.is_behind() { self.asked.min(now) } else { now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn what_is_read_after_a_pause_came_when_the_driver_had_wanted_to_run() {
        let mut lag = Lag::default();
        assert!(!lag.note(at(110), Some(at(100))) && !lag.note(at(500), None), "a little late, or nothing was asked");
        assert_eq!(lag.arrival(at(110)), at(110));
        assert!(lag.note(at(400), Some(at(150))) && lag.is_behind());
        assert!(!lag.note(at(401), Some(at(120))), "it is behind already");
        assert_eq!(lag.arrival(at(401)), at(150));
        lag.catch_up();
        assert_eq!(lag.arrival(at(402)), at(402));
        assert!(!lag.note(at(403), Some(at(150))), "that pause is over, though its timers have yet to be looked at");
        assert!(lag.note(at(700), Some(at(600))));
    }

    #[test]
    fn a_flood_does_not_keep_timers_from_being_looked_at() {
        let mut lag = Lag::default();
        assert!(lag.note(at(400), Some(at(150))));
        assert!(!lag.note(at(449), Some(at(150))) && lag.is_behind());
        assert!(!lag.note(at(450), Some(at(150))) && !lag.is_behind());
    }
}
