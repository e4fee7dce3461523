//! Rules to break on purpose, one at a time. Each must be caught by a named checker: `cargo xtask mutants`.

#[cfg(feature = "mutants")]
consort_types::mutants!(
    CrowdAtOnce "tells a message to all of its receivers in one slice, however many",
    CopiedForEach "keeps what many clients read once for each of them",
    SharedUncounted "does not count what clients share when it looks who must go",
);

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
