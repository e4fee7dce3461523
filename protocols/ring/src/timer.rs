//! The ring's timers, each named by what it is for.
use crate::config::RingTimeouts;
use crate::state_name::RingStateName;
use consort_types::{Duration, Instant};

/// What a wake-up is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Timer {
    /// When to send the copy of the token again, because nothing shows that it moved on.
    TokenRetransmit,
    /// When to miss the token; then, when to call the ring broken, because it did not come.
    TokenLoss,
    /// When to ask the others again where the token is.
    Question,
    /// When the representative lets a parked token go.
    IdleHold,
    /// When to ask again for a token that may be parked.
    TokenRequest,
    /// When to send JOIN again.
    Join,
    /// When to fail those that have not agreed, or to ask again for a commit token.
    Consensus,
    /// When to give recovery up and gather again.
    RecoveryMax,
    /// When to tell where we are and whom we hear.
    Beacon,
    /// When to leave although not everything is known to be delivered.
    Leave,
}

impl Timer {
    const ALL: [Self; 10] = [
        Self::TokenRetransmit,
        Self::TokenLoss,
        Self::Question,
        Self::IdleHold,
        Self::TokenRequest,
        Self::Join,
        Self::Consensus,
        Self::RecoveryMax,
        Self::Beacon,
        Self::Leave,
    ];
}

/// How long something is waited for, by the name of what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    TokenLoss,
    Question,
    Consensus,
}

impl Span {
    fn of(self, timeouts: &RingTimeouts) -> Duration {
        match self {
            Self::TokenLoss => timeouts.token_loss,
            Self::Question => timeouts.question(),
            Self::Consensus => timeouts.consensus,
        }
    }
}

/// Which timers are armed, and for when.
#[derive(Clone, Debug, Default)]
pub(crate) struct RingTimers {
    at: [Option<Instant>; Timer::ALL.len()],
    /// How often each was postponed since it was armed.
    postponed: [u8; Timer::ALL.len()],
    /// For how long, where that follows the distances.
    spans: [Option<Span>; Timer::ALL.len()],
}

/// So often a timer is postponed at most: whoever is paused again and again must notice a crash all the same.
const POSTPONED_MOST: u8 = 3;

/// The timers that have come due with one input. One that is armed anew for the present comes due with the next: what it
/// has led to is drained first.
#[derive(Debug, Default)]
pub(crate) struct Fired([bool; Timer::ALL.len()]);

impl RingTimers {
    pub const fn arm(&mut self, timer: Timer, at: Instant) {
        self.at[timer as usize] = Some(at);
        self.postponed[timer as usize] = 0;
        self.spans[timer as usize] = None;
    }

    /// Arms a timer for a span that may become another while it is waited for.
    pub fn arm_for(&mut self, timer: Timer, now: Instant, span: Span, timeouts: &RingTimeouts) {
        //= M60
        self.arm(timer, now + span.of(timeouts));
        self.spans[timer as usize] = Some(span);
    }

    /// The spans were these, and are those: what is armed has begun when it had.
    pub fn follow(&mut self, were: &RingTimeouts, are: &RingTimeouts) {
        //= M60
        for (at, span) in self.at.iter_mut().zip(&self.spans) {
            if let (Some(at), Some(span)) = (at, span) {
                let begun = Instant(at.0.saturating_sub(span.of(were).as_nanos() as u64));
                *at = begun + span.of(are);
            }
        }
    }

    pub const fn disarm(&mut self, timer: Timer) {
        self.at[timer as usize] = None;
    }

    /// Disarms all others.
    pub fn disarm_all_but(&mut self, kept: &[Timer]) {
        for timer in Timer::ALL.into_iter().filter(|timer| !kept.contains(timer)) {
            self.disarm(timer);
        }
    }

    /// Lets an armed timer come due no earlier than this. False if it is not armed, or was postponed too often.
    pub fn postpone(&mut self, timer: Timer, at: Instant) -> bool {
        //= M54
        let (due, times) = (&mut self.at[timer as usize], &mut self.postponed[timer as usize]);
        if due.is_none() || *times >= POSTPONED_MOST {
            return false;
        }
        (*due, *times) = ((*due).max(Some(at)), *times + 1);
        true
    }

    pub const fn is_armed(&self, timer: Timer) -> bool {
        self.at[timer as usize].is_some()
    }

    /// Whether exactly those are armed that a state must or may have.
    pub fn armed_as(&self, state: RingStateName) -> bool {
        use Timer::{
            Beacon, Consensus, IdleHold, Join, Leave, Question, RecoveryMax, TokenLoss, TokenRequest, TokenRetransmit,
        };
        let (must, may): (&[Timer], &[Timer]) = match state {
            RingStateName::Still | RingStateName::Left => (&[], &[]),
            RingStateName::Gather => (&[Beacon, Join, Consensus], &[Leave]),
            RingStateName::Commit => (&[Beacon, TokenLoss, TokenRetransmit], &[Leave]),
            RingStateName::Recovery => (&[Beacon, TokenLoss, RecoveryMax], &[Leave, TokenRetransmit]),
            RingStateName::Operational => {
                (&[Beacon], &[Leave, TokenLoss, Question, TokenRetransmit, IdleHold, TokenRequest])
            }
        };
        Timer::ALL.into_iter().all(|timer| match self.is_armed(timer) {
            true => must.contains(&timer) || may.contains(&timer),
            false => !must.contains(&timer),
        })
    }

    /// Those that are armed, with their times.
    #[cfg(feature = "model")]
    pub fn iter(&self) -> impl Iterator<Item = (Timer, Instant)> {
        Timer::ALL.into_iter().filter_map(|timer| Some((timer, self.at[timer as usize]?)))
    }

    /// The earliest of all.
    pub fn next(&self) -> Option<Instant> {
        self.at.iter().flatten().min().copied()
    }

    /// Disarms and returns the earliest timer whose time has come, of those that are not in `fired`, and puts it there.
    pub fn take_due(&mut self, now: Instant, fired: &mut Fired) -> Option<Timer> {
        let waiting = Timer::ALL.into_iter().filter(|timer| !fired.0[*timer as usize]);
        let due = waiting.filter_map(|timer| Some((self.at[timer as usize]?, timer)));
        let (at, timer) = due.min_by_key(|(at, _)| *at)?;
        (at <= now).then(|| self.disarm(timer))?;
        fired.0[timer as usize] = true;
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_due_one_by_one_in_the_order_of_their_times() {
        let mut timers = RingTimers::default();
        timers.arm(Timer::TokenLoss, Instant(30));
        timers.arm(Timer::IdleHold, Instant(10));
        timers.arm(Timer::Join, Instant(20));
        assert_eq!(timers.next(), Some(Instant(10)));
        let mut fired = Fired::default();
        assert_eq!(timers.take_due(Instant(25), &mut fired), Some(Timer::IdleHold));
        timers.arm(Timer::IdleHold, Instant(25));
        assert_eq!(timers.take_due(Instant(25), &mut fired), Some(Timer::Join));
        assert_eq!(timers.take_due(Instant(25), &mut fired), None);
        assert_eq!(timers.take_due(Instant(25), &mut Fired::default()), Some(Timer::IdleHold));
        assert!(timers.is_armed(Timer::TokenLoss));
    }

    #[test]
    fn a_timer_is_postponed_a_few_times_each_time_it_is_armed() {
        //= M54 test
        let mut timers = RingTimers::default();
        assert!(!timers.postpone(Timer::TokenLoss, Instant(9)) && timers.next().is_none(), "it is not armed");
        for begun in [100, 200] {
            timers.arm(Timer::TokenLoss, Instant(begun));
            let done = (1..9).filter(|n| timers.postpone(Timer::TokenLoss, Instant(begun + n))).count();
            let last = u64::from(POSTPONED_MOST);
            assert_eq!((done as u64, timers.next()), (last, Some(Instant(begun + last))));
        }
    }
}
