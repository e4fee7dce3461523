//! The kernel's event queue, and a timer finer than its own.
use crate::sys::TimerFd;
use consort_types::Instant;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// At most that many events at once; more wait in the kernel.
const EVENTS: usize = 256;

/// The timer is not set anew for something that is later by less than this, or by less than a quarter of the time until
/// then: setting it costs a system call, and to go off for nothing costs a turn.
const EARLY: Duration = Duration::from_millis(1);

/// Nor is it for anything later while the loop sleeps more often than that before it goes off: by then it is to be set anyway.
/// (A rotation wants it 8 ms from now, the next message 40, and so on.)
const MANY: u32 = 4;
/// Naps further apart than this count as so far apart.
const SELDOM: Duration = Duration::from_millis(100);

/// Waits for sockets and for one point in time.
#[derive(Debug)]
pub(crate) struct Wake {
    poll: Poll,
    events: Events,
    timer: TimerFd,
    /// When the timer goes off, if it was set.
    set_for: Option<Instant>,
    naps: Naps,
}

/// How often the loop sleeps.
#[derive(Clone, Copy, Debug, Default)]
struct Naps {
    last: Instant,
    /// The time from one to the next, smoothed.
    apart: Duration,
}

impl Naps {
    /// One more begins.
    fn note(&mut self, now: Instant) {
        let apart = now.since(self.last).min(SELDOM);
        self.apart = (self.apart * 7 + apart) / 8;
        self.last = now;
    }

    /// Whether many of them are to be expected before that time has passed.
    fn are_many_in(&self, time: Duration) -> bool {
        time > self.apart * MANY
    }
}

impl Wake {
    pub(crate) fn new(timer: Token) -> io::Result<Self> {
        let wake = Self {
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS),
            timer: TimerFd::new()?,
            set_for: None,
            naps: Naps::default(),
        };
        wake.watch(wake.timer.as_raw_fd(), timer)?;
        Ok(wake)
    }

    /// Watches a descriptor for something to read.
    pub(crate) fn watch(&self, descriptor: RawFd, token: Token) -> io::Result<()> {
        self.poll.registry().register(&mut SourceFd(&descriptor), token, Interest::READABLE)
    }

    pub(crate) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// What another thread wakes the loop with.
    pub(crate) fn waker(&self, token: Token) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), token)
    }

    /// Sees what has happened, without waiting.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        self.poll(Some(Duration::ZERO))
    }

    /// Waits until something happens or the time has come.
    pub(crate) fn sleep(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()> {
        if let Some(until) = until {
            if until <= now {
                return self.look();
            }
            self.naps.note(now);
            if !self.set_for.is_some_and(|set| serves(set, now, until, self.naps)) {
                self.timer.set(until.since(now))?;
                self.set_for = Some(until);
            }
        }
        self.poll(None)
    }

    /// What has happened.
    pub(crate) fn events(&self) -> impl Iterator<Item = &mio::event::Event> {
        self.events.iter()
    }

    fn poll(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.events.clear();
                Ok(())
            }
            result => result,
        }
    }
}

/// Whether a timer that is set wakes a sleeper neither too late nor much too early for `until`.
fn serves(set: Instant, now: Instant, until: Instant, naps: Naps) -> bool {
    let early = || until.since(set) < EARLY.max(until.since(now) / 4);
    now < set && set <= until && (early() || naps.are_many_in(set.since(now)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn the_timer_wakes_a_sleeper_again_and_again() {
        let clock = Clock::new();
        let mut wake = Wake::new(Token(7)).unwrap();
        for _ in 0..5 {
            let until = clock.now() + Duration::from_micros(300);
            wake.sleep(clock.now(), Some(until)).unwrap();
            assert!(wake.events().all(|event| event.token() == Token(7)));
            assert!(clock.now() >= until);
        }
    }

    #[test]
    fn an_earlier_time_replaces_a_later_one() {
        let clock = Clock::new();
        let mut wake = Wake::new(Token(7)).unwrap();
        wake.timer.set(Duration::from_secs(3_600)).unwrap();
        wake.set_for = Some(clock.now() + Duration::from_secs(3_600));
        wake.sleep(clock.now(), Some(clock.now() + Duration::from_millis(1))).unwrap();
    }

    #[test]
    fn a_later_time_moves_the_timer_only_if_that_is_worth_a_call() {
        let now = Instant(1_000_000_000);
        let serves =
            |set: Duration, until: Duration| serves(now + set, now, now + until, Naps { last: now, apart: SELDOM });
        let ms = Duration::from_millis;
        assert!(serves(ms(2), ms(2)) && serves(ms(2), ms(2) + EARLY / 2));
        assert!(!serves(ms(2), ms(2) + EARLY), "a quarter is less");
        assert!(serves(ms(31), ms(40)));
        assert!(!serves(ms(30), ms(40)), "a quarter too early");
        assert!(!serves(ms(2), ms(2) - EARLY / 2), "too late");
        assert!(!serves(ms(0), ms(40)), "it has gone off");
    }

    #[test]
    fn a_timer_that_goes_off_many_naps_from_now_stays_for_whatever_is_later() {
        let now = Instant(1_000_000_000);
        let ms = Duration::from_millis;
        let naps = Naps { last: now, apart: ms(1) };
        let serves = |set: Duration, until: Duration| serves(now + set, now, now + until, naps);
        assert!(serves(ms(5), ms(40)) && serves(ms(5), ms(4_000)));
        assert!(!serves(ms(4), ms(40)), "too few naps");
        assert!(!serves(ms(5), ms(4)), "too late");
    }

    #[test]
    fn naps_apart_are_a_mean_that_forgets_a_pause() {
        let (mut naps, mut now) = (Naps::default(), Instant(1_000_000_000));
        naps.note(now + Duration::from_secs(60));
        assert_eq!(naps.apart, SELDOM / 8, "a long one counts as a tenth of a second");
        now = naps.last;
        for _ in 0..60 {
            now += Duration::from_millis(1);
            naps.note(now);
        }
        assert!(naps.are_many_in(Duration::from_millis(6)) && !naps.are_many_in(Duration::from_millis(4)), "{naps:?}");
    }

    #[test]
    fn a_sleeper_whose_timer_serves_leaves_it_as_it_is() {
        let clock = Clock::new();
        let mut wake = Wake::new(Token(7)).unwrap();
        let waker = wake.waker(Token(8)).unwrap();
        let (start, ms) = (clock.now(), Duration::from_millis);
        let mut set_for = |now, until| {
            waker.wake().unwrap();
            wake.sleep(start + ms(now), Some(start + ms(until))).unwrap();
            wake.set_for.unwrap().since(start)
        };
        assert_eq!(set_for(0, 60_000), ms(60_000));
        assert_eq!(set_for(100, 90_000), ms(60_000), "many naps before that");
        assert_eq!(set_for(59_950, 60_001), ms(60_000), "hardly too early");
        assert_eq!(set_for(59_960, 90_000), ms(90_000), "much too early, and soon");
        assert_eq!(set_for(59_970, 60_001), ms(60_001), "earlier");
    }

    #[test]
    fn a_time_that_has_passed_is_not_waited_for() {
        let clock = Clock::new();
        let mut wake = Wake::new(Token(7)).unwrap();
        wake.sleep(clock.now(), Some(Instant::ZERO)).unwrap();
        assert_eq!(wake.events().count(), 0);
    }
}
