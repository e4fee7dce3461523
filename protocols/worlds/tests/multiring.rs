//! Totem's multiple rings in the simulator: all checkers, over trees of rings and faults drawn by seeds.
#![allow(clippy::unwrap_used, reason = "tests")]
use consort_multiring::MultiRing;
use consort_sim::fault::Kinds;
use consort_worlds::run;

/// Parts that came out of order were dropped when a view was closed; and all asked for all that they lacked at once, until
/// nothing came through any more. They asked again faster than the one who held it could answer, in 155. In 293 some held ever
/// more, as they could hand out nothing before a busy gateway told them to, and senders went by what all held. In 635 sixteen
/// lacked the same when a view was closed, and each was given it alone. In 781 a node alone works off a long queue.
const REPLAYED: [u64; 7] = [15, 155, 185, 249, 293, 635, 781];

#[test]
fn rings_joined_by_gateways_keep_all_promises_whatever_goes_wrong() {
    let read = |name: &str, other| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let first: u64 = read("FIRST_SEED", 1);
    for seed in (first..first + read("SEEDS", 4)).chain(REPLAYED) {
        let outcome = run::<MultiRing>(seed, &Kinds::all(), &|_| {}, false).unwrap();
        let broken: Vec<_> = outcome.violations.iter().map(ToString::to_string).collect();
        assert!(broken.is_empty(), "seed {seed}: {}", broken.join("\n"));
    }
}
