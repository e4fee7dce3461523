//! Rules of the election, broken on purpose.
use super::Election;

consort_types::mutants!(
    LeaseFromReceipt "a lease is counted from the receipt of what began it",
    NoWait "a successor does not wait",
    WaitOfOneLease "a successor waits for one lease on its own clock",
    WaitGoesOn "a successor goes on waiting where another view begins",
    ClosingCounts "what is received while a view is closing begins a lease",
    AnyViewCounts "a message has its effect in any view",
    HolesIgnored "a connection goes on where the one before ended",
    AnchorIgnored "a claim has its effect whatever happened behind its anchor",
    UnsureIsVoid "a claim of which the start was missed is void",
    FenceFromView "a fence is a view's number alone",
);

impl Election {
    /// Breaks a rule.
    #[must_use]
    pub fn with_mutant(self, broken: impl Into<Option<Mutant>>) -> Self {
        Self { broken: broken.into(), ..self }
    }
}
