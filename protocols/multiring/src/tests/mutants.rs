//! Every rule that is broken on purpose is noticed, and by which promise.
use super::seeds::play;
use crate::Mutant;

/// Each rule, and the promises that its loss may break first. `A` is an assertion of the engine itself, `R` that nothing is held
/// at rest.
const NOTICED: &[(Mutant, &[&str])] = &[
    (Mutant::HorizonsIgnored, &["TO", "TO1", "TO2", "VS", "A"]),
    (Mutant::ClocksIgnored, &["TO", "TO1", "TO2", "VS", "SD", "A"]),
    (Mutant::TellsEarly, &["TO", "TO1", "TO2", "VS", "SD", "A"]),
    (Mutant::SafeByReach, &["SF1", "SF2"]),
    (Mutant::SafeAtHome, &["SF1", "SF2"]),
    (Mutant::EndIgnored, &["TO1", "TO2", "TO3", "VS", "SD", "D1", "SF1"]),
    (Mutant::TellsUnclosed, &["TO1", "TO2", "TO3", "VS", "SD", "D1", "SF1", "A"]),
    (Mutant::BeginsUnasked, &["TO1", "TO2", "TO3", "VS", "SD", "D1", "SF1", "SF2", "A"]),
    (Mutant::BeginsAnywhere, &["TO1", "TO2", "TO3", "VS", "SD", "D1", "SF1", "SF2", "A"]),
    (Mutant::ClosingCounts, &["TO1", "TO2", "TO3", "VS", "SD", "D1", "SF1", "A"]),
    (Mutant::OwnVoided, &["TO1", "TO2", "TO3", "VS", "SD", "D1", "A"]),
    (Mutant::ForwardsNothing, &["SD", "R"]),
    (Mutant::EdgesIgnored, &["VS", "A"]),
    (Mutant::ReleasedEarly, &["VS", "SD", "TO1", "TO2", "A", "W5"]),
    (Mutant::VoidLost, &["SD", "A"]),
];

thread_local! {
    static BROKEN: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// The rule that is broken in all engines of this thread.
pub fn broken() -> Option<Mutant> {
    BROKEN.get()
}

/// In how many schedules a rule is looked for.
const SEEDS: u64 = 400;

#[test]
fn every_rule_that_is_broken_on_purpose_is_noticed_by_a_promise_that_needs_it() {
    assert!(NOTICED.iter().map(|(mutant, _)| mutant).eq(Mutant::ALL), "each mutant has its line, in their order");
    let only = std::env::var("MUTANT").ok();
    let mut missed = Vec::new();
    for (mutant, promises) in
        NOTICED.iter().filter(|(mutant, _)| only.as_deref().is_none_or(|name| name == mutant.name()))
    {
        let found = (1..=SEEDS).find_map(|seed| {
            BROKEN.set(Some(*mutant));
            let played = std::panic::catch_unwind(|| play(seed));
            BROKEN.set(None);
            let said = played.unwrap_or_else(|_| Err("A: it panicked".into())).err()?;
            Some((seed, said))
        });
        match found {
            Some((seed, said)) => {
                let promise = said.split_once(':').map_or(&*said, |(name, _)| name);
                println!("{}: seed {seed}, {promise}", mutant.name());
                assert!(promises.contains(&promise), "{}: {said}", mutant.name());
            }
            None => missed.push(mutant.name()),
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
