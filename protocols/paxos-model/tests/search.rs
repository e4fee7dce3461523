//! The short searches, and that a search notices what is broken.
use consort_paxos_model::suite::{SHORT, WITHOUT_LOG, name, run, run_without_log};

#[test]
fn no_order_of_events_within_the_bounds_breaks_a_promise() {
    for budget in SHORT {
        let report = run(budget).unwrap_or_else(|found| panic!("{}: {found}", name(budget)));
        assert!(report.complete, "{}: {report}", name(budget));
        assert!(report.states > 1_000 && report.continued > 0, "a search through next to nothing: {report}");
        assert!(budget.stands < 2 || report.tally.0 > 100, "no two ballots ever met: {report}");
    }
}

#[test]
fn no_order_of_events_breaks_a_promise_where_one_acceptor_was_not_told_of_its_log() {
    //= X58 test
    for budget in WITHOUT_LOG {
        let report = run_without_log(budget).unwrap_or_else(|found| panic!("{}: {found}", name(budget)));
        assert!(report.complete, "{}: {report}", name(budget));
        assert!(report.states > 1_000 && report.continued > 0, "a search through next to nothing: {report}");
    }
}

#[cfg(feature = "mutants")]
#[test]
fn a_broken_rule_is_found_with_the_way_to_it() {
    //= X04 test
    use consort_paxos::Mutant;
    use consort_paxos_model::{Budget, World};
    use consort_ring_model::search;
    let broken = [
        (Mutant::SmallQuorum, "quorum"),
        (Mutant::AcceptedIgnored, "one value"),
        (Mutant::VotesUnkept, "quorum"),
        (Mutant::AcceptsBelow, "one value"),
    ];
    for (mutant, promise) in broken {
        let mut world = World::new(|config| config.mutant = Some(mutant));
        world.budget = Budget { stands: 2, instances: 1, ..Budget::default() };
        let found = search(&world, 2_000_000, 0).expect_err(mutant.name());
        assert!(found.broken.starts_with(promise) && !found.way.is_empty(), "{}: {found}", mutant.name());
    }
}
