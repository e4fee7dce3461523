//! Each flaw of the sequencer is noticed, by the checker that is there for it.
use super::sequencer::Flaw;
use super::{plan, run};
use crate::plan::RunPlan;
use consort_types::Service;

/// The ids of the rules that a run broke.
fn broken(plan: &RunPlan, flaw: Flaw) -> Vec<&'static str> {
    let mut rules: Vec<_> = run(plan, flaw).violations.iter().map(|violation| violation.rule.id).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

/// Runs seeds with a flaw until one turns red; the rules it broke. Without `safe` nobody asks for safe delivery, which
/// would be what breaks first.
fn first_broken(flaw: Flaw, faults: &str, safe: bool) -> Vec<&'static str> {
    let plans = (1..60).map(|seed| {
        let mut plan = plan(seed, faults);
        plan.senders.iter_mut().filter(|_| !safe).for_each(|sender| sender.services = vec![Service::Agreed]);
        plan
    });
    let plans = plans.filter(|plan| plan.nodes >= 3);
    plans.map(|plan| broken(&plan, flaw)).find(|rules| !rules.is_empty()).unwrap_or_default()
}

#[test]
fn a_right_sequencer_breaks_nothing() {
    for seed in 1..=20 {
        for faults in ["steady", "none"] {
            let outcome = run(&plan(seed, faults), Flaw::None);
            let first = outcome.violations.first().map(ToString::to_string);
            assert_eq!(first, None, "seed {seed}, faults {faults}");
            assert!(outcome.totals.delivered > 0 && outcome.simulated.as_secs() >= 10);
        }
    }
}

#[test]
fn each_flaw_wakes_its_checker() {
    for (flaw, faults, rule) in [
        (Flaw::Swaps, "data-loss", "TO1"),
        (Flaw::PastHoles, "data-loss", "TO2"),
        (Flaw::Twice, "duplicate", "ND"),
        (Flaw::Cut, "none", "NC"),
        (Flaw::WrongSender, "none", "NC"),
        (Flaw::Overtaking, "data-loss", "FIFO"),
        (Flaw::SafeEarly, "none", "SF4"),
        (Flaw::Stuck, "none", "SF1"),
        (Flaw::Stuck, "none", "SD"),
        (Flaw::Stuck, "none", "LV"),
        (Flaw::OwnPositions, "none", "TO1p"),
        (Flaw::NoId, "none", "SD"),
        (Flaw::OutsideView, "none", "W2"),
        (Flaw::Hoards, "none", "BM"),
        (Flaw::AsksTwice, "none", "NR"),
        (Flaw::Asserts, "none", "AF"),
        (Flaw::Spins, "none", "LV"),
        (Flaw::Refuses, "none", "LV"),
    ] {
        let rules = first_broken(flaw, faults, rule.starts_with("SF"));
        assert!(rules.contains(&rule), "{flaw:?} breaks {rules:?}, not {rule}");
    }
}

#[test]
fn a_sender_that_is_never_told_of_room_is_noticed() {
    let mut plan = plan(3, "none");
    for sender in &mut plan.senders {
        sender.pace = crate::workload::SendPace::Burst { every: consort_types::Duration::from_millis(500), most: 300 };
    }
    assert_eq!(broken(&plan, Flaw::None), [""; 0]);
    assert!(broken(&plan, Flaw::NoRoom).contains(&"LV"));
}
