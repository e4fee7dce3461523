//! The states of a member, by name.
use std::fmt;

/// The states by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RingStateName {
    Still,
    Gather,
    Commit,
    Recovery,
    Operational,
    Left,
}

impl RingStateName {
    /// As `status` and the page write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Still => "still",
            Self::Gather => "gather",
            Self::Commit => "commit",
            Self::Recovery => "recovery",
            Self::Operational => "operational",
            Self::Left => "left",
        }
    }
}

impl fmt::Display for RingStateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
