//! Which rule is broken on purpose in all engines of these tests: `CONSORT_MULTIRING_MUTANT` names it.
use crate::Mutant;

/// That rule, if one is named.
pub fn broken() -> Option<Mutant> {
    let name = std::env::var("CONSORT_MULTIRING_MUTANT").ok()?;
    Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name)
}
