//! Rules to break on purpose, one at a time. Each must be caught by a named checker: `cargo xtask mutants`.

#[cfg(feature = "mutants")]
consort_types::mutants!(
    CrowdAtOnce "tells a message to all of its receivers in one slice, however many",
    CopiedForEach "keeps what many clients read once for each of them",
    SharedUncounted "does not count what clients share when it looks who must go",
    ReadSkips "does not tell a reader the last of the messages that it has looked at together",
    SeamRepeated "tells a reader the newest message twice where it has caught up",
    TrimmedUntold "has a reader go on behind what is trimmed, and does not say so",
);

#[cfg(feature = "mutants")]
impl Mutant {
    /// Whether it breaks what is promised to readers by position: only orders that last have those.
    pub const fn is_of_reading(self) -> bool {
        matches!(self, Self::ReadSkips | Self::SeamRepeated | Self::TrimmedUntold)
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
