//! Multi-Ring Paxos in the simulator: all checkers, over rings and faults drawn by seeds.
#![allow(clippy::unwrap_used, reason = "tests")]
use consort_multiring_paxos::MultiRingPaxos;
use consort_sim::fault::Kinds;
use consort_worlds::run;

/// A reading began with a group that all were about to forget, and the word that it is read stood in an order that stood
/// still, in 380. In 125 a node that had been cut off waited four seconds for answers that its links had lost. It was let in
/// meanwhile, and then installed six views in a row.
const REPLAYED: [u64; 2] = [125, 380];

#[test]
fn seeds_that_once_broke_a_promise_keep_all() {
    for seed in REPLAYED {
        let outcome = run::<MultiRingPaxos>(seed, &Kinds::all(), &|_| {}, false).unwrap();
        let broken: Vec<_> = outcome.violations.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "seed {seed}: {}", broken.join("\n"));
        assert!(seed != 380 || outcome.totals.resumed > 0, "it has readers");
    }
}

#[test]
fn many_rings_keep_all_promises_whatever_goes_wrong() {
    let read = |name: &str, other| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let first: u64 = read("FIRST_SEED", 1);
    for seed in first..first + read("SEEDS", 4) {
        let outcome = run::<MultiRingPaxos>(seed, &Kinds::all(), &|_| {}, false).unwrap();
        let broken: Vec<_> = outcome.violations.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "seed {seed}: {}", broken.join("\n"));
    }
}
