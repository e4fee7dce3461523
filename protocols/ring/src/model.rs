//! What the bounded search needs of a node beside the contract: all that decides what it will do next, as text, and timers
//! that come due when the search says so. In the search time stands still; only the order of things counts.
use crate::engine::Ring;
use crate::engine::RingState;
use crate::timer::Timer;
use consort_types::{Duration, Instant, NodeId};
use std::fmt::{self, Write};

/// A timer that is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Armed {
    timer: Timer,
    /// It comes due before anything else can happen.
    pub prompt: bool,
}

impl Armed {
    /// When a node calls its ring, its peers, or its recovery lost.
    pub const fn is_expiry(self) -> bool {
        matches!(self.timer, Timer::TokenLoss | Timer::Consensus | Timer::RecoveryMax | Timer::Leave)
    }

    /// When a node fails those that said nothing.
    pub const fn is_consensus(self) -> bool {
        matches!(self.timer, Timer::Consensus)
    }

    /// When a parked token goes round although nobody asked for it.
    pub const fn is_hold(self) -> bool {
        matches!(self.timer, Timer::IdleHold)
    }

    /// When a question is asked that was asked before.
    pub const fn is_repetition(self) -> bool {
        matches!(self.timer, Timer::Question)
    }

    /// When a node tells where it is.
    pub const fn is_beacon(self) -> bool {
        matches!(self.timer, Timer::Beacon)
    }
}

/// Nothing on a network is faster.
const PROMPT: Duration = Duration::from_millis(2);

impl Ring {
    /// The timers that are armed.
    pub fn armed(&self, now: Instant) -> impl Iterator<Item = Armed> {
        let armed = self.io().timers.iter();
        armed.map(move |(timer, at)| Armed { timer, prompt: at.since(now) <= PROMPT })
    }

    /// Lets an armed timer come due now. Whoever misses the token has asked where it is, and `living` have answered.
    pub fn fire(&mut self, now: Instant, armed: Armed, living: &[NodeId]) {
        if let (RingState::Operational(state), Timer::TokenLoss) = (&mut self.state, armed.timer) {
            state.have_answered(living);
        }
        self.come_due(now, armed.timer);
    }

    /// Enough time passes that a node that was not heard counts as not heard.
    pub fn forget(&mut self, node: NodeId, now: Instant) {
        let heard = self.io().presence.heard.get(node, now).cloned();
        if let Some(hearing) = heard {
            self.io_mut().presence.heard.note(consort_member::Hearing { at: Instant::ZERO, ..hearing });
        }
    }

    /// Writes down all that decides what this node will do. Counters, chance and settings do not.
    ///
    /// # Errors
    /// What `out` answers.
    pub fn write_state(&self, now: Instant, out: &mut impl Write) -> fmt::Result {
        let (io, known) = (self.io(), &self.io().presence);
        write!(out, "{:?} {:?} {:?}", self.state, io.queue, known.heard)?;
        write!(out, "{:?} {:?} {:?} {:?}", known.quarantine, io.grant_backoff, known.numbers, known.episode)?;
        write!(out, "{:?} {:?} {:?}", io.attempt, io.installed_number, known.wants)?;
        write!(out, "{:?}", io.suspicion)?;
        self.armed(now).try_for_each(|armed| write!(out, "{armed:?}"))?;
        write!(out, "{:?} {:?}", io.leaving, known.episodes)
    }
}
