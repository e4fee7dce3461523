//! How long members are without a view of those that are there: after a crash, a good-bye, a restart, and at first.
use crate::{bare, ring};
use consort_ring::{Ring, RingConfig};
use consort_sim::fault::{Activation, Disk, Fault};
use consort_sim::message::{Process, ProcessIncarnation};
use consort_sim::plan::RunPlan;
use consort_sim::trace::{Occurrence, Trace, TraceEvent};
use consort_sim::workload::{SendPace, SenderPlan, Sizes};
use consort_sim::world::RunOptions as Keep;
use consort_types::{Class, Duration, Instant, NodeId, Rng, Service};
use std::collections::BTreeMap;

/// What happens in each run.
struct Script {
    crash: (NodeId, Instant),
    restart: Instant,
    leave: (NodeId, Instant),
}

/// For a ring of so many, in ms of virtual time: from the start, a crash, a restart and a good-bye to a view of all that are
/// there then.
///
/// # Errors
/// A promise that was broken, or a view that did not come.
pub fn measure(nodes: u16, run: u64) -> Result<[f64; 4], String> {
    let (plan, script) = plan(nodes, run);
    let settings = |config: &mut RingConfig| *config = ring::defaults(config);
    let keep = Keep { trace: true, ..Keep::default() };
    let outcome = bare::<Ring>(plan, keep, &settings)?.run();
    if let Some(violation) = outcome.violations.first() {
        return Err(violation.to_string());
    }
    let trace = outcome.trace.ok_or("no trace was kept")?;
    let took = |from: Instant, there: usize, by: Instant| {
        let at = whole_at(&trace, from, there, by)
            .ok_or_else(|| format!("no view of {there} between {from:?} and {by:?}"))?;
        Ok::<_, String>(at.since(from).as_secs_f64() * 1e3)
    };
    let (all, fewer) = (usize::from(nodes), usize::from(nodes) - 1);
    Ok([
        took(Instant::ZERO, all, script.crash.1)?,
        took(script.crash.1, fewer, script.restart)?,
        took(script.restart, all, script.leave.1)?,
        took(script.leave.1, fewer, Instant(u64::MAX))?,
    ])
}

/// When so many were in a view of so many for the first time after `from`, and before `by`.
fn whole_at(trace: &Trace, from: Instant, there: usize, by: Instant) -> Option<Instant> {
    let mut views: BTreeMap<Process, usize> = BTreeMap::new();
    for TraceEvent { at, process, what } in &trace.events {
        match what {
            Occurrence::View(view) if !view.transitional => drop(views.insert(*process, view.members.len())),
            Occurrence::Crash | Occurrence::Left => drop(views.remove(process)),
            _ => continue,
        }
        let whole = views.len() == there && views.values().all(|members| *members == there);
        if *at >= by || whole && *at >= from {
            return (*at < by).then_some(*at);
        }
    }
    None
}

/// Runs differ in who goes and when.
fn plan(nodes: u16, run: u64) -> (RunPlan, Script) {
    let mut rng = Rng::new(run).fork(u64::from(nodes));
    let seconds = |from: u64, rng: &mut Rng| Instant(from * 1_000_000_000 + rng.below(500_000_000));
    let mut node = || NodeId(rng.below(u64::from(nodes)) as u16);
    let (crashed, left) = (node(), node());
    let crash = (crashed, seconds(3, &mut rng));
    let restart = seconds(5, &mut rng);
    let leave = (left, seconds(8, &mut rng));
    let sender = |node| SenderPlan {
        process: Process::of(ProcessIncarnation { node: NodeId(node), count: 1 }, 0),
        pace: SendPace::Poisson(Duration::from_millis(10)),
        sizes: Sizes::SMALL,
        services: vec![Service::Agreed],
        class: Class::Client,
    };
    let end = Instant(10_000_000_000);
    let faults = vec![
        Activation {
            from: crash.1,
            until: restart,
            fault: Fault::Crash { node: crashed, disk: Disk::Kept, after: 0, stays: false },
        },
        Activation { from: leave.1, until: end, fault: Fault::Leave { node: left, stays: true } },
    ];
    let senders = (0..nodes.min(3)).map(sender).collect();
    let plan = RunPlan { seed: run, senders, faults, calm: end, end, ..RunPlan::lan(nodes) };
    (plan, Script { crash, restart, leave })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_come_within_the_promised_time() {
        for nodes in [2, 3, 5] {
            let [start, crash, restart, leave] = measure(nodes, 1).unwrap();
            assert!(
                start < 500.0 && crash < 400.0 && restart < 400.0 && leave < 20.0,
                "{start} {crash} {restart} {leave}"
            );
        }
    }
}
