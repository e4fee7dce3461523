//! Sessions that outlive their daemons, with the token ring: seeds that once broke a promise.
#![allow(clippy::unwrap_used, reason = "tests")]
use consort_ring::Ring;
use consort_sim::fault::Kinds;
use consort_sim::world::Totals;
use consort_worlds::{SessionsDrawn, run_sessions};

/// A daemon crashed amid what a reader was told, who knew all of it, and its trace did not.
const READERS: [u64; 5] = [694, 1300, 1864, 2534, 3384];

/// One node alone went back to an old disk, and numbered its views anew. Tokens of a node were lost for good, and copies kept
/// it in a ring with one of two that hear each other. One of two nodes crashed, the other one went on telling what was ordered,
/// and that was forgotten where the next view counted. A node was kept out for two seconds when the network was well again.
const CANDIDATES: [u64; 4] = [41, 61, 292, 757];

fn keep_all_promises(seeds: &[u64], sessions: &SessionsDrawn) -> Vec<Totals> {
    let run = |seed: &u64| {
        let outcome = run_sessions::<Ring>(*seed, &Kinds::all(), (&|_| {}, &|_| {}), sessions, false).unwrap();
        let broken: Vec<_> = outcome.violations.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "seed {seed}: {}", broken.join("\n"));
        outcome.totals
    };
    seeds.iter().map(run).collect()
}

#[test]
fn readers_go_on_where_they_were_whatever_goes_wrong() {
    //= E21 test
    let totals = keep_all_promises(&READERS, &SessionsDrawn::ByChance);
    assert!(totals.iter().all(|totals| totals.resumed > 0), "each run has readers: {totals:?}");
}

#[test]
fn candidates_lead_one_at_a_time_whatever_goes_wrong() {
    //= L09 test
    let totals = keep_all_promises(&CANDIDATES, &SessionsDrawn::Candidates(None));
    assert!(totals.iter().any(|totals| totals.elections > 0), "somebody is elected: {totals:?}");
}
