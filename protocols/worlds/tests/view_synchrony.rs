//! ToTo and PLATO in the simulator: seeds that once broke a promise.
#![allow(clippy::unwrap_used, reason = "tests")]
use consort_plato::Plato;
use consort_sim::fault::Kinds;
use consort_toto::Toto;
use consort_worlds::{Simulated, run};

/// Two pairs do not hear each other, and views end before the second is noticed, for timers are three times as long.
const TWO_PAIRS: u64 = 142;

/// At rest a node says that a group is read, and ten others acknowledge it.
const MANY_ACKNOWLEDGE: u64 = 1672;

fn keeps_all_promises<E: Simulated>(seed: u64) {
    let outcome = run::<E>(seed, &Kinds::all(), &|_| {}, false).unwrap();
    let broken: Vec<_> = outcome.violations.iter().map(ToString::to_string).collect();
    assert!(broken.is_empty() && outcome.totals.views > 2, "seed {seed}: {}", broken.join("\n"));
}

#[test]
fn seeds_that_once_broke_a_promise_keep_all() {
    keeps_all_promises::<Toto>(TWO_PAIRS);
    keeps_all_promises::<Plato>(TWO_PAIRS);
    keeps_all_promises::<Toto>(MANY_ACKNOWLEDGE);
}
