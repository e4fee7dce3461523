//! What to do when there is nothing to do.
use crate::Idling;
use consort_types::Instant;
use std::time::Duration;

/// `balanced` looks again before it sleeps for as long as it has worked since it slept last beyond [`WORTH`], at most this, if that
/// has paid lately: under load a wake-up costs more than looking, and never more is spent on looking than on work.
const SPIN_MAX: Duration = Duration::from_micros(500);
/// A few times what a wake-up costs. Whoever has less to do each time is better asleep meanwhile.
const WORTH: Duration = Duration::from_micros(150);
/// `balanced` also looks again for so long after each turn while the engine expects something at any moment: about twice what
/// it takes others to be woken and to answer, and what a sleep and a wake-up of our own would take of both processors.
const ANSWER: Duration = Duration::from_micros(60);
/// What looking once takes; what passes beyond that, others had.
const LOOK: Duration = Duration::from_micros(3);
/// How much a pause longer than [`WORTH`] counts against a shorter one when it is decided whether looking pays: it costs all
/// the time that is spent on looking, and a wake-up that is spared saves less.
const VAIN: i8 = 2;
/// So many short pauses are remembered, and half as many long ones.
const MEMORY: i8 = 8;
/// A sleep that is over so soon was none: something was there already, and what was done before it and after it is one piece
/// of work.
const AT_ONCE: Duration = Duration::from_micros(10);

/// Whoever yields to a program that computes waits for as long as that may keep the processor, some milliseconds. Daemons and
/// clients give it back sooner, as a rule.
const STRETCH: Duration = Duration::from_millis(2);
/// A yield of that length counts as much as so many shorter ones.
const HIT: u8 = 4;
/// Almost so many of them, less what shorter ones between them take away, are a crowd. Of a hundred yields beside programs
/// that compute 16 to 39 are so long, of a hundred of daemons at their limit one or two, and now and then a host takes the
/// processor away.
const CROWD: u8 = 4;
/// For how long nobody yields then, at first; twice as long each time that it was too early, and how long at most.
const ALOOF: Duration = Duration::from_millis(100);
const ALOOF_MAX: Duration = Duration::from_secs(2);

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

/// What a turn of the loop was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// It did something.
    pub worked: bool,
    /// More is known to be there to do.
    pub busy: bool,
    /// The engine expects something at any moment.
    pub expects: bool,
}

#[derive(Debug)]
pub(crate) struct Idle {
    profile: Idling,
    /// When it was asked last.
    asked: Instant,
    /// Whether it slept since then.
    slept: bool,
    /// How long it has worked since it slept.
    worked: Duration,
    /// How long it may look again for that.
    left: Duration,
    /// How long it may look for what the engine expects.
    answer: Duration,
    /// How long nothing has been done.
    pause: Duration,
    /// It had worked for long enough before.
    was_worth: bool,
    /// Whether looking has paid lately, or would have: below zero it has not.
    paid: i8,
    crowd: Crowd,
}

/// Whether programs that compute want the processors, too. Then who sleeps is given one sooner than who yields.
#[derive(Debug)]
struct Crowd {
    /// What long yields count, less what shorter ones do.
    hits: u8,
    /// It is there until then, as far as is known.
    until: Instant,
    /// How long it is taken for granted when it is met next.
    aloof: Duration,
}

impl Crowd {
    const fn new() -> Self {
        Self { hits: 0, until: Instant::ZERO, aloof: ALOOF }
    }

    /// A yield that is over now took so long.
    fn note(&mut self, now: Instant, lasted: Duration) {
        if lasted < STRETCH {
            self.hits = self.hits.saturating_sub(1);
            if self.hits == 0 {
                self.aloof = ALOOF;
            }
            return;
        }
        self.hits = (self.hits + HIT).min(CROWD * HIT);
        if self.hits > (CROWD - 1) * HIT {
            self.until = now + self.aloof;
            self.aloof = (self.aloof * 2).min(ALOOF_MAX);
        }
    }

    fn is_there(&self, now: Instant) -> bool {
        now < self.until
    }
}

impl Idle {
    pub(crate) const fn new(profile: Idling) -> Self {
        let none = Duration::ZERO;
        let (asked, slept) = (Instant::ZERO, true);
        Self {
            profile,
            asked,
            slept,
            worked: none,
            left: none,
            answer: none,
            pause: none,
            was_worth: false,
            paid: 0,
            crowd: Crowd::new(),
        }
    }

    /// A [`Rest::Sleep`] took so long.
    pub(crate) fn slept(&mut self, lasted: Duration) {
        self.slept = lasted > AT_ONCE;
        self.pause += lasted;
    }

    /// A [`Rest::Yield`] is over now and took so long.
    pub(crate) fn yielded(&mut self, now: Instant, lasted: Duration) {
        self.crowd.note(now, lasted);
    }

    /// To be asked after every turn.
    pub(crate) fn rest(&mut self, now: Instant, turn: Turn) -> Rest {
        let passed = now.since(std::mem::replace(&mut self.asked, now));
        let slept = std::mem::take(&mut self.slept);
        if turn.worked {
            self.judge();
            // What passed asleep was not spent on work.
            self.worked = if slept { Duration::ZERO } else { self.worked + passed };
            self.left = self.worked.saturating_sub(WORTH).min(SPIN_MAX);
            self.was_worth = !self.left.is_zero();
            self.answer = ANSWER;
        } else if !slept {
            // What passed asleep was told before.
            self.pause += passed;
        }
        let looks = match self.profile {
            Idling::Latency => true,
            Idling::Balanced => self.may_look() || turn.expects,
            Idling::Frugal => false,
        };
        if turn.busy || turn.worked && looks {
            return Rest::None;
        }
        let yields = match self.profile {
            Idling::Latency => true,
            Idling::Balanced => self.looks_again(passed, slept, turn.expects),
            Idling::Frugal => false,
        };
        if yields && !self.crowd.is_there(now) {
            return Rest::Yield;
        }
        self.slept = true;
        Rest::Sleep
    }

    /// Remembers whether looking was worth it, or would have been, in the pause that is over.
    fn judge(&mut self) {
        let pause = std::mem::take(&mut self.pause);
        if self.was_worth && !pause.is_zero() {
            let change = if pause < WORTH { 1 } else { -VAIN };
            self.paid = (self.paid + change).clamp(-MEMORY, MEMORY);
        }
    }

    fn may_look(&self) -> bool {
        !self.left.is_zero() && self.paid >= 0
    }

    /// Whether `balanced` looks again; counts the look that took `passed`.
    fn looks_again(&mut self, passed: Duration, slept: bool, expects: bool) -> bool {
        let look = passed.min(LOOK);
        if !slept && self.may_look() {
            (self.worked, self.left) = (self.worked.saturating_sub(look), self.left.saturating_sub(look));
            self.answer = self.answer.saturating_sub(look);
            return true;
        }
        let looks = expects && !self.answer.is_zero();
        if looks {
            self.answer = self.answer.saturating_sub(look);
        }
        looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a turn that did something and left nothing, and where more has come meanwhile.
    fn work(idle: &mut Idle, now: Instant) -> Rest {
        let rest = idle.rest(now, Turn { worked: true, ..Turn::default() });
        if rest == Rest::Sleep {
            idle.slept(Duration::from_micros(1));
        }
        rest
    }

    /// How many times in a row it looks again.
    fn looks(idle: &mut Idle, mut now: Instant) -> usize {
        std::iter::from_fn(|| {
            now += LOOK;
            Some(idle.rest(now, Turn::default()))
        })
        .take_while(|rest| *rest == Rest::Yield)
        .count()
    }

    #[test]
    fn balanced_looks_again_for_as_long_as_it_has_worked() {
        let mut idle = Idle::new(Idling::Balanced);
        let at = |micros: u64| Instant(micros * 1_000);
        let rests: Vec<_> = (0..=10).map(|turn| work(&mut idle, at(1_000 + 30 * turn))).collect();
        assert_eq!(rests, [&[Rest::Sleep; 6][..], &[Rest::None; 5]].concat());
        assert_eq!(looks(&mut idle, at(1_300)), (300 - 150_usize).div_ceil(3));
        for turn in 0..1_000 {
            work(&mut idle, at(10_000 + 30 * turn));
        }
        assert_eq!(looks(&mut idle, at(39_970)), 500_usize.div_ceil(3), "at most");
        idle.slept(Duration::from_millis(1));
        assert_eq!(work(&mut idle, at(50_000)), Rest::Sleep, "it has slept since");
    }

    #[test]
    fn time_that_others_had_between_two_looks_is_not_counted() {
        let mut idle = Idle::new(Idling::Balanced);
        let at = |micros: u64| Instant(micros * 1_000);
        for turn in 0..=10 {
            work(&mut idle, at(30 * turn));
        }
        assert!((1..=50).all(|look| idle.rest(at(300 + 4_000 * look), Turn::default()) == Rest::Yield));
    }

    #[test]
    fn balanced_sleeps_at_once_where_there_is_little_to_do() {
        let mut idle = Idle::new(Idling::Balanced);
        // An idle token is sent round each 25 ms, comes back, and a timer finds nothing to do.
        for sent in [0, 25_000, 50_000].map(|micros| Instant(micros * 1_000)) {
            for (after, worked) in [(0, true), (30, true), (6_000, false)] {
                let rest = idle.rest(sent + Duration::from_micros(after), Turn { worked, ..Turn::default() });
                assert_eq!(rest, Rest::Sleep, "{after} us later");
                idle.slept(Duration::from_micros(20));
            }
        }
    }

    #[test]
    fn balanced_looks_for_what_is_expected_but_not_for_long() {
        let mut idle = Idle::new(Idling::Balanced);
        let expecting = |worked| Turn { worked, busy: false, expects: true };
        for began in [1_000, 2_000].map(|micros| Instant(micros * 1_000)) {
            assert_eq!(idle.rest(began, expecting(true)), Rest::None, "the first look is at once");
            assert_eq!(idle.rest(began, expecting(false)), Rest::Yield);
            let looks = (1..=100).take_while(|n| idle.rest(began + LOOK * *n, expecting(false)) == Rest::Yield).count();
            assert_eq!(looks, 60_usize.div_ceil(3));
            idle.slept(Duration::from_millis(1));
            let woken = began + Duration::from_micros(600);
            assert_eq!(idle.rest(woken, expecting(false)), Rest::Sleep, "woken for nothing");
        }
        assert_eq!(idle.rest(Instant(3_000_000), expecting(true)), Rest::None);
        assert_eq!(idle.rest(Instant(3_003_000), Turn::default()), Rest::Sleep, "expected no more");
    }

    #[test]
    fn balanced_does_not_look_where_work_comes_in_bursts_with_long_pauses_between() {
        let mut idle = Idle::new(Idling::Balanced);
        let mut burst = |began: u64, pause: u64| {
            idle.slept(Duration::from_micros(pause));
            (0..=7).for_each(|turn| assert_ne!(work(&mut idle, Instant((began + 30 * turn) * 1_000)), Rest::Yield));
            looks(&mut idle, Instant((began + 210) * 1_000))
        };
        assert!(burst(1_000, 700) > 0, "it does not know better yet");
        let later: Vec<_> = (2..10).map(|ms| burst(ms * 1_000, 700)).collect();
        assert_eq!(later[1..], [0; 7]);
        assert!((0..8).any(|n| burst(20_000 + n * 260, 50) > 0), "they have come closer together");
    }

    /// Yields to somebody who keeps the processor for so long; returns whether it would have slept instead.
    fn sleeps(idle: &mut Idle, now: Instant, others: Duration) -> bool {
        let rest = idle.rest(now, Turn { expects: true, ..Turn::default() });
        if rest == Rest::Yield {
            idle.yielded(now + others, others);
        }
        rest == Rest::Sleep
    }

    #[test]
    fn who_has_yielded_to_programs_that_compute_sleeps_for_a_while() {
        for profile in [Idling::Latency, Idling::Balanced] {
            let mut idle = Idle::new(profile);
            let at = |millis: u64| Instant(1_000_000_000 + millis * 1_000_000);
            let slice = Duration::from_millis(4);
            let mut asked = |millis| {
                idle.rest(at(millis), Turn { worked: true, expects: true, ..Turn::default() });
                sleeps(&mut idle, at(millis), slice)
            };
            assert!((0..CROWD).all(|n| !asked(4 * u64::from(n))), "a few may be the machine's");
            let aloof: Vec<_> = (17..=400).filter(|millis| !asked(*millis)).collect();
            assert_eq!(aloof, [116, 320], "{profile:?}: it tries once more, and then stays away for twice as long");
            let longest = (400..60_000).filter(|millis| !asked(*millis)).collect::<Vec<_>>();
            assert!(longest.windows(2).last().is_some_and(|pair| pair[1] - pair[0] == 2_004), "{longest:?}");
        }
    }

    #[test]
    fn a_long_yield_now_and_then_changes_nothing_and_short_ones_are_forgiven() {
        let mut idle = Idle::new(Idling::Latency);
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
        assert!(first < second && second < ALOOF * 3, "{first:?} {second:?}");
        for _ in 0..CROWD * HIT {
            assert!(!sleeps(&mut idle, now, LOOK));
        }
        let mut again = 0;
        while !sleeps(&mut idle, now, slice) {
            (again, now) = (again + 1, now + slice);
        }
        assert_eq!(again, CROWD, "as if it had never met one");
    }

    #[test]
    fn nobody_rests_while_more_is_known_to_be_there() {
        for profile in Idling::ALL {
            let mut idle = Idle::new(profile);
            let turn = |ms| Turn { worked: ms % 2 == 0, busy: true, expects: ms % 3 == 0 };
            assert!((0..1_000).all(|ms| idle.rest(Instant(ms * 1_000_000), turn(ms)) == Rest::None));
        }
    }

    #[test]
    fn the_other_profiles_never_change_their_mind() {
        for (profile, rest) in [(Idling::Latency, Rest::Yield), (Idling::Frugal, Rest::Sleep)] {
            let mut idle = Idle::new(profile);
            let turn = |ms| Turn { expects: ms % 2 == 0, ..Turn::default() };
            assert!((0..1_000).all(|ms| idle.rest(Instant(ms * 1_000_000), turn(ms)) == rest));
        }
        assert_eq!(work(&mut Idle::new(Idling::Latency), Instant::ZERO), Rest::None);
        assert_eq!(work(&mut Idle::new(Idling::Frugal), Instant::ZERO), Rest::Sleep);
    }
}
