//! What happens to sends under producers.
use std::fmt;

/// A step of a session that sends under a producer. What a step has no use for is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedRecord {
    /// Which.
    pub step: NumberedStep,
    /// Which of the run's producers.
    pub producer: u16,
    /// Which of the session's sends.
    pub send: u64,
    /// Which of its attempts: a send that goes again is another.
    pub attempt: u64,
    /// The number that it has, or the last one that is ordered; of a table, the view that it is of.
    pub number: u64,
    /// Of an opening that is asked for: it was opened before. Of one: all was forgotten. Of a send: it is none of the
    /// session's, which has left the connection. Of a refusal: it is final. Of a table: the view counts.
    pub flag: bool,
    /// The view of the place that is told.
    pub view: u64,
    /// The position in it; of a refusal, 1 where the session has left the connection, and does not hear of it.
    pub at: u64,
    /// Of a table, a sum of what it says; of a refusal, its cause.
    pub sum: u64,
}

/// What is said of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberedStep {
    /// The session wants it sent.
    Made,
    /// The producer is to be opened.
    Asked,
    /// It was opened.
    Opened,
    /// The send went under way.
    Sent,
    /// All up to a number is ordered.
    Settled,
    /// A send was refused.
    Refused,
    /// A client was given it.
    Given,
    /// A node's table of producers.
    Table,
}

impl NumberedRecord {
    /// A step of which nothing is said.
    pub const fn of(step: NumberedStep) -> Self {
        Self { step, producer: 0, send: 0, attempt: 0, number: 0, flag: false, view: 0, at: 0, sum: 0 }
    }
}

impl fmt::Display for NumberedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, producer, send, attempt, number, flag, view, at, sum } = self;
        write!(f, "step={} producer={producer} send={send} attempt={attempt}", step.name())?;
        write!(f, " number={number} flag={flag} view={view} at={at} sum={sum}")
    }
}

impl NumberedStep {
    /// All of them, with the words for them.
    const ALL: [(Self, &'static str); 8] = [
        (Self::Made, "made"),
        (Self::Asked, "asked"),
        (Self::Opened, "opened"),
        (Self::Sent, "sent"),
        (Self::Settled, "settled"),
        (Self::Refused, "refused"),
        (Self::Given, "given"),
        (Self::Table, "table"),
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
