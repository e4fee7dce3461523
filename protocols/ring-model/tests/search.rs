//! The short searches, and that a search notices what is broken.
use consort_ring_model::suite::SHORT;

#[test]
fn no_order_of_events_within_the_bounds_breaks_a_promise() {
    for plan in SHORT {
        let report = plan.run().unwrap_or_else(|found| panic!("{plan}: {found}"));
        assert!(report.complete, "{plan}: {report}");
        let all = usize::from(plan.nodes);
        assert!(report.tally.0.contains(&all), "{plan}: no ring of all was ever formed: {report}");
        assert!(report.states > 1_000, "{plan}: a search through next to nothing: {report}");
    }
}

#[cfg(feature = "mutants")]
#[test]
fn a_broken_rule_is_found_with_the_way_to_it() {
    use consort_ring_model::{Budget, Start, search};
    for mutant in [consort_ring::Mutant::CommitForOthers, consort_ring::Mutant::NumberReused] {
        let mut world = Start::Forming.world_of(3, |config| config.mutant = Some(mutant));
        world.budget = Budget { losses: 1, expiries: 2, ..Budget::default() };
        let found = search(&world, 500_000, 0).expect_err("noticed");
        assert!(!found.way.is_empty(), "{found}");
    }
}
