//! The membership's timers, each named by what it is for.
use consort_types::Instant;

/// What a wake-up is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Timer {
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

const ALL: [Timer; 8] = [
    Timer::Beacon,
    Timer::Heartbeat,
    Timer::Silence,
    Timer::Join,
    Timer::Consensus,
    Timer::Repeat,
    Timer::AttemptMax,
    Timer::Leave,
];

/// Which timers are armed, and for when.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers([Option<Instant>; ALL.len()]);

impl Timers {
    pub const fn arm(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = Some(at);
    }

    pub const fn disarm(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    /// Disarms what belongs to one state: all but beacon and leave.
    pub fn disarm_state(&mut self) {
        for timer in ALL.into_iter().filter(|timer| !matches!(timer, Timer::Beacon | Timer::Leave)) {
            self.disarm(timer);
        }
    }

    pub const fn clear(&mut self) {
        self.0 = [None; ALL.len()];
    }

    /// Lets an armed timer come due no earlier than this.
    pub fn postpone(&mut self, timer: Timer, at: Instant) {
        if let Some(armed) = &mut self.0[timer as usize] {
            *armed = at.max(*armed);
        }
    }

    /// The earliest of all.
    pub fn next(&self) -> Option<Instant> {
        self.0.iter().flatten().min().copied()
    }

    /// Disarms and returns the earliest timer whose time has come.
    pub fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let due = ALL.into_iter().filter_map(|timer| Some((self.0[timer as usize]?, timer)));
        let (_, timer) = due.filter(|(at, _)| *at <= now).min_by_key(|(at, _)| *at)?;
        self.disarm(timer);
        Some(timer)
    }
}
