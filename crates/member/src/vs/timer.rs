//! The membership's timers, each named by what it is for.
use super::MembershipTimeouts;
use consort_types::{Duration, Instant};

/// What a wake-up is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum MembershipTimer {
    /// When to tell where we are and whom we hear.
    Beacon,
    /// When to speak, because nothing was multicast.
    Heartbeat,
    /// When to look for members that were not heard.
    Silence,
    /// When to send JOIN again.
    Join,
    /// When to fail those that have not agreed, or to ask again for a proposal.
    Consensus,
    /// When to say again what an attempt waits for.
    Repeat,
    /// When to give an attempt up.
    AttemptMax,
    /// When to leave although not everything is known to be delivered.
    Leave,
}

const ALL: [MembershipTimer; 8] = [
    MembershipTimer::Beacon,
    MembershipTimer::Heartbeat,
    MembershipTimer::Silence,
    MembershipTimer::Join,
    MembershipTimer::Consensus,
    MembershipTimer::Repeat,
    MembershipTimer::AttemptMax,
    MembershipTimer::Leave,
];

/// How long something is waited for, by the name of what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    Silence,
    Consensus,
    AttemptMax,
}

impl Span {
    const fn of(self, timeouts: &MembershipTimeouts) -> Duration {
        match self {
            Self::Silence => timeouts.silence,
            Self::Consensus => timeouts.consensus,
            Self::AttemptMax => timeouts.attempt_max,
        }
    }
}

/// A timer that is armed.
#[derive(Clone, Copy, Debug)]
struct Armed {
    at: Instant,
    /// For how long, where that follows the distances.
    span: Option<Span>,
}

/// Which timers are armed, and for when.
#[derive(Clone, Debug, Default)]
pub(super) struct ArmedTimers([Option<Armed>; ALL.len()]);

impl ArmedTimers {
    pub const fn arm(&mut self, timer: MembershipTimer, at: Instant) {
        self.0[timer as usize] = Some(Armed { at, span: None });
    }

    /// Arms a timer for a span that may become another while it is waited for.
    pub fn arm_for(&mut self, timer: MembershipTimer, now: Instant, span: Span, timeouts: &MembershipTimeouts) {
        //= M60
        self.0[timer as usize] = Some(Armed { at: now + span.of(timeouts), span: Some(span) });
    }

    /// The spans were these, and are those: what is armed has begun when it had.
    pub fn follow(&mut self, were: &MembershipTimeouts, are: &MembershipTimeouts) {
        //= M60
        for armed in self.0.iter_mut().flatten() {
            if let Some(span) = armed.span {
                let begun = Instant(armed.at.0.saturating_sub(span.of(were).as_nanos() as u64));
                armed.at = begun + span.of(are);
            }
        }
    }

    pub const fn disarm(&mut self, timer: MembershipTimer) {
        self.0[timer as usize] = None;
    }

    /// Disarms what belongs to one state: all but beacon and leave.
    pub fn disarm_state(&mut self) {
        for timer in ALL.into_iter().filter(|timer| !matches!(timer, MembershipTimer::Beacon | MembershipTimer::Leave))
        {
            self.disarm(timer);
        }
    }

    pub const fn clear(&mut self) {
        self.0 = [None; ALL.len()];
    }

    /// Lets an armed timer come due no earlier than this.
    pub fn postpone(&mut self, timer: MembershipTimer, at: Instant) {
        if let Some(armed) = &mut self.0[timer as usize] {
            armed.at = at.max(armed.at);
        }
    }

    /// The earliest of all.
    pub fn next(&self) -> Option<Instant> {
        self.0.iter().flatten().map(|armed| armed.at).min()
    }

    /// Disarms and returns the earliest timer whose time has come.
    pub fn take_due(&mut self, now: Instant) -> Option<MembershipTimer> {
        let due = ALL.into_iter().filter_map(|timer| Some((self.0[timer as usize]?.at, timer)));
        let (_, timer) = due.filter(|(at, _)| *at <= now).min_by_key(|(at, _)| *at)?;
        self.disarm(timer);
        Some(timer)
    }
}
