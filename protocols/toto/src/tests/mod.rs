//! Tests, by theme.
mod cluster;
mod packets;
mod votes;

use crate::TotoConfig;

/// `cargo xtask mutants` asks which scenario notices a broken rule.
fn break_a_rule(config: TotoConfig) -> TotoConfig {
    #[cfg(feature = "mutants")]
    if let Ok(name) = std::env::var("CONSORT_TOTO_MUTANT") {
        let mutant = crate::Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name);
        return TotoConfig { mutant, ..config };
    }
    config
}
