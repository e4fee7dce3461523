//! Rules to break on purpose, one at a time. Each must be caught by a named checker: `cargo xtask mutants`.

#[cfg(feature = "mutants")]
consort_types::mutants!(
    CrowdAtOnce "tells a message to all of its receivers in one slice, however many",
    CopiedForEach "keeps what many clients read once for each of them",
    SharedUncounted "does not count what clients share when it looks who must go",
    ReadSkips "does not tell a reader the last of the messages that it has looked at together",
    SeamRepeated "tells a reader the newest message twice where it has caught up",
    SettledUnstable "tells that a producer's message is ordered as soon as it is delivered",
    OpenedUnstable "tells that a producer is open as soon as that is delivered",
    NumberingGoesOn "goes on numbering in the next view",
    OpenedFromTable "answers an opening from its own table where it knows the producer",
    TrimmedUntold "has a reader go on behind what is trimmed, and does not say so",
    GapUntold "has a reader go on behind what is not kept any more, and does not say so",
    TrimUnmarked "lets go of messages, and does not know from where on it keeps all",
    KeptOverBudget "keeps messages however many bytes they have",
    KeptForEver "keeps messages however old they are",
    ClosingUntold "does not tell readers how their view is being closed",
    ReadsUntold "does not tell newcomers which groups are read",
    KeptFromEarliest "takes what is kept of one of a reader's groups for what is kept of all",
    PartedGoesOn "has a reader go on with what is kept where its history has parted",
    BatchFromStart "tells a batch from its start to one who had read a part of it",
    JoinsUnread "has a client join before all that stands behind that comes here",
    UnreadAtLeave "reads a group no longer once a client asks to leave it",
    StreamsAtOnce "has a client send to another stream before what it sent has its place",
);

#[cfg(feature = "mutants")]
impl Mutant {
    /// Whether it breaks what is promised to readers by position: only orders that last have those.
    pub const fn is_of_reading(self) -> bool {
        matches!(self, Self::ReadSkips | Self::SeamRepeated | Self::TrimmedUntold)
    }

    /// Whether it breaks what is promised to readers whose positions belong to views.
    pub const fn is_of_readers(self) -> bool {
        matches!(
            self,
            Self::GapUntold
                | Self::TrimUnmarked
                | Self::KeptOverBudget
                | Self::KeptForEver
                | Self::ClosingUntold
                | Self::ReadsUntold
                | Self::KeptFromEarliest
                | Self::PartedGoesOn
                | Self::BatchFromStart
        )
    }

    /// Whether it breaks what is promised where nodes are spared what they do not read.
    pub const fn is_of_topics(self) -> bool {
        matches!(self, Self::JoinsUnread | Self::UnreadAtLeave | Self::StreamsAtOnce)
    }

    /// Whether it breaks what is promised to producers.
    pub const fn is_of_producers(self) -> bool {
        matches!(self, Self::SettledUnstable | Self::OpenedUnstable | Self::NumberingGoesOn | Self::OpenedFromTable)
    }
}

/// Whether something breaks this rule on purpose. Always false in a build without mutants.
macro_rules! mutated {
    ($holder:expr, $mutant:ident) => {{
        #[cfg(feature = "mutants")]
        let broken = $holder.mutant == Some($crate::mutant::Mutant::$mutant);
        #[cfg(not(feature = "mutants"))]
        let broken = false;
        broken
    }};
}
pub(crate) use mutated;
