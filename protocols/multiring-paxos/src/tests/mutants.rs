//! Every rule that is broken on purpose is noticed, and by which promise.
use super::log::Fold;
use super::schedule::{Setup, Step, draw};
use super::world::Broken;
use super::{as_asked, play, promise, seeds, shortest};
use crate::Mutant;

/// Each rule of the merge, and the promises that its loss may break first.
const NOTICED: &[(Mutant, &[&str])] = &[
    (Mutant::TiesByArrival, &["order", "agreement", "sequence"]),
    (Mutant::WaitsForNobody, &["agreement", "sequence", "liveness"]),
    (Mutant::CursorForgotten, &["agreement", "sequence"]),
    (Mutant::JoinsAtCopyBeside, &["agreement", "sequence"]),
    (Mutant::JoinsAtOwnCopy, &["agreement", "sequence"]),
    (Mutant::JoinsUnasked, &["agreement", "sequence", "liveness"]),
    (Mutant::LeavesAtFirstCopy, &["agreement", "sequence", "liveness"]),
    (Mutant::CopiesCountTwice, &["agreement", "sequence", "liveness"]),
    (Mutant::OldCopiesCount, &["agreement", "sequence", "liveness"]),
    (Mutant::SettledAtOnce, &["agreement", "sequence", "liveness"]),
    (Mutant::ProgressForgotten, &["agreement", "sequence", "liveness"]),
    (Mutant::GapsTaken, &["agreement", "sequence", "liveness"]),
    (Mutant::KnownTakenAgain, &["agreement", "sequence", "liveness"]),
    (Mutant::BudgetIgnored, &["memory"]),
    (Mutant::UncoveredInstalled, &["undisturbed"]),
];

/// Each rule of the engine, and the promises that its loss may break first.
const ENGINE: &[(Mutant, &[&str])] = &[
    (Mutant::AnyViewCounts, &["sender's order", "agreement", "names", "liveness"]),
    (Mutant::NothingTakenBack, &["liveness", "names"]),
    (Mutant::RingsOvertake, &["sender's order", "agreement", "names"]),
    (Mutant::TurnsOutliveViews, &["sender's order", "agreement", "names", "liveness"]),
    (Mutant::PlacesRunOn, &["agreement"]),
    (Mutant::ViewsOfAnyRing, &["agreement", "views", "liveness"]),
    (Mutant::DeadRingsAwaited, &["liveness"]),
    (Mutant::BackBeforePassed, &["views", "liveness"]),
    (Mutant::DeadRingsMerged, &["liveness"]),
    (Mutant::AnyRingEndsAll, &["undisturbed"]),
    (Mutant::ReadTooSoon, &["groups", "liveness"]),
];

thread_local! {
    static BROKEN: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// The rule that is broken in all engines of this thread, or by `cargo xtask mutants` in all.
pub fn broken() -> Option<Mutant> {
    let name = || std::env::var("CONSORT_MULTIRING_PAXOS_MUTANT").unwrap_or_default();
    BROKEN.get().or_else(|| Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name()))
}

/// Each rule of counting slots.
const FOLDS: [Fold; 4] = [Fold::LateSkipLeadsBack, Fold::RepeatsCount, Fold::FilterForgotten, Fold::CreditForgotten];

/// In how many schedules it is looked for.
const SEEDS: u64 = 3_000;

/// What seeds seldom meet. A ring that is joined has not come to where it counts, and the next change stands before that.
fn before_it_counts() -> (Setup, Vec<Step>) {
    let setup = Setup { seed: 24_155, rings: 3, subscribers: 3, readers: 4, budget: 200 };
    let steps = [
        Step::Value { ring: 1, sender: 0, messages: 3 },
        Step::Change { subscriber: 2, ring: 0, beside: 1 },
        Step::Read { reader: 2, ring: 1, entries: 4 },
        Step::Copy { subscriber: 2, beside: false, back: 0 },
        Step::Copy { subscriber: 2, beside: true, back: 0 },
        Step::Read { reader: 2, ring: 0, entries: 9 },
        Step::HandOut { reader: 2, items: 7 },
        Step::Read { reader: 2, ring: 2, entries: 5 },
        Step::Change { subscriber: 2, ring: 0, beside: 1 },
        Step::Copy { subscriber: 2, beside: false, back: 0 },
        Step::Value { ring: 0, sender: 1, messages: 3 },
    ];
    (setup, steps.into())
}

fn noticed(broken: Broken, name: &str, promises: &[&str]) {
    let scene = (broken.rule == Some(Mutant::SettledAtOnce)).then(before_it_counts);
    let played = scene.into_iter().chain((1..=SEEDS).map(draw));
    let found = { played }.find_map(|(setup, steps)| {
        let said = play(setup, &steps, broken).err()?;
        Some((setup, steps, said))
    });
    let (setup, steps, said) = found.unwrap_or_else(|| panic!("{name} is not noticed"));
    if std::env::var("STORY").is_ok() {
        println!("{name}: {}\n", shortest(setup, steps, broken, &said));
    }
    assert!(promises.contains(&promise(&said)), "{name}: {said}");
}

#[test]
fn the_scene_of_a_broken_rule_is_played_well_by_one_that_keeps_it() {
    let (setup, steps) = before_it_counts();
    let said = play(setup, &steps, as_asked()).err();
    assert!(said.is_none(), "{}", said.unwrap_or_default());
}

#[test]
fn every_rule_that_is_broken_on_purpose_is_noticed_by_a_promise_that_needs_it() {
    let all = NOTICED.iter().chain(ENGINE).map(|(mutant, _)| mutant);
    assert!(all.eq(Mutant::ALL), "each mutant has its line, in their order");
    for (mutant, promises) in NOTICED {
        noticed(Broken { rule: Some(*mutant), fold: None }, mutant.name(), promises);
    }
}

#[test]
fn every_rule_of_the_engine_that_is_broken_on_purpose_is_noticed_by_a_promise_that_needs_it() {
    for (mutant, promises) in ENGINE {
        let said = (1..=60).find_map(|seed| {
            BROKEN.set(Some(*mutant));
            let played = std::panic::catch_unwind(|| match mutant {
                Mutant::ReadTooSoon => super::apart::ahead(seed),
                Mutant::DeadRingsAwaited => super::dead_rings::holds_up(seed),
                Mutant::BackBeforePassed => super::dead_rings::holds_up_twice(seed),
                Mutant::DeadRingsMerged => super::dead_rings::is_not_begun(seed),
                Mutant::AnyRingEndsAll => super::dead_rings::loses_the_log(seed),
                _ => drop(seeds::run(seeds::draw(seed))),
            });
            BROKEN.set(None);
            let panic = played.err()?;
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        });
        let said = said.unwrap_or_else(|| panic!("{} is not noticed: it {}", mutant.name(), mutant.what()));
        let name = said.rsplit_once("failed: ").map_or(&*said, |(_, name)| name);
        assert!(promises.contains(&promise(name)), "{}: {said}", mutant.name());
    }
}

#[test]
fn slots_that_are_counted_wrongly_are_noticed() {
    //= MP10 test
    for fold in FOLDS {
        let promises = ["order", "agreement", "sequence", "liveness"];
        noticed(Broken { rule: None, fold: Some(fold) }, &format!("{fold:?}"), &promises);
    }
}
