//! What happens to candidates of an election.
use consort_types::Instant;
use std::fmt;

/// A step of a candidate that wants to lead its group. What a step has no use for is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedRecord {
    /// Which.
    pub step: LedStep,
    /// Which of the run's candidates.
    pub candidate: u16,
    /// Of a message that it sends, or that its lease rests on: which.
    pub serial: u64,
    /// Under which fence it leads.
    pub fence: u128,
    /// When its lease ends, in true time, unless it is renewed.
    pub until: Instant,
    /// How long a lease lasts at most, in true time.
    pub lease: u64,
}

/// What is said of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedStep {
    /// It sends a message.
    Sent,
    /// It was elected, or has renewed its lease.
    Leads,
    /// It leads no more, and knows it.
    Stops,
    /// It acts as the leader.
    Acts,
    /// It has lost its connection: what follows does not follow what was told before.
    Hole,
}

impl LedRecord {
    /// A step of which nothing is said.
    pub const fn of(step: LedStep) -> Self {
        Self { step, candidate: 0, serial: 0, fence: 0, until: Instant::ZERO, lease: 0 }
    }
}

impl fmt::Display for LedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, candidate, serial, fence, until, lease } = self;
        write!(f, "step={} candidate={candidate} serial={serial} fence={fence}", step.name())?;
        write!(f, " until={} lease={lease}", until.0)
    }
}

impl LedStep {
    /// All of them, with the words for them.
    const ALL: [(Self, &'static str); 5] = [
        (Self::Sent, "sent"),
        (Self::Leads, "leads"),
        (Self::Stops, "stops"),
        (Self::Acts, "acts"),
        (Self::Hole, "hole"),
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(step, _)| *step == self).map_or("", |(_, name)| name)
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(step, _)| *step)
    }
}
