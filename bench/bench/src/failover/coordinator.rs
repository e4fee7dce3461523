//! `consort bench failover --victim coordinator`: how soon messages are ordered again once the coordinator is killed.
use super::drill::Drill;
use super::report::{Change, Span, stalled};
use super::{Plan, tell};
use crate::clock;
use crate::failure::Outcome;
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

/// The JSON object.
#[derive(Debug, Serialize)]
pub struct Report {
    pub nodes: u16,
    pub runs: u32,
    pub rate: f64,
    /// The coordinators that were killed, in this order.
    pub killed: Vec<u16>,
    pub orders_ms: Span,
    pub crash_ms: Span,
    pub seconds: f64,
}

/// Kills one coordinator after the other.
pub fn measure(plan: Plan) -> Outcome {
    let began = clock::now_ns();
    let mut drill = Drill::start(plan)?;
    let (mut orders, mut told) = (Vec::new(), Vec::new());
    tell(plan, || format!("{} daemons, {:.0} messages/s, {} runs, times in ms\n", plan.nodes, plan.rate, plan.runs))?;
    for run in 1..=plan.runs {
        let (again, view) = drill.kill_coordinator(run)?;
        tell(plan, || {
            let (node, orders, told) = (again.node, again.ms, view.ms);
            format!("  {run:>4}  coordinator node {node:<3} killed: orders again {orders:>7.1}   told {told:>7.1}")
        })?;
        orders.push(again);
        told.push(view);
    }
    drill.stop();
    let report = Report::new(plan, &orders, &told, clock::now_ns() - began);
    let mut out = io::stdout();
    match plan.json {
        true => writeln!(out, "{}", serde_json::to_string(&report).unwrap_or_default())?,
        false => write!(out, "\n{report}")?,
    }
    Ok(())
}

impl Report {
    fn new(plan: Plan, orders: &[Change], told: &[Change], ns: u64) -> Self {
        let Plan { nodes, runs, rate, .. } = plan;
        let killed = orders.iter().map(|change| change.node).collect();
        let (orders_ms, crash_ms) = (Span::of(orders), Span::of(told));
        Self { nodes, runs, rate, killed, orders_ms, crash_ms, seconds: ns as f64 / 1e9 }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  coordinator killed      p50 ms   max ms   slowest")?;
        for (what, span) in [("orders again", &self.orders_ms), ("told", &self.crash_ms)] {
            let slowest =
                span.slowest.as_ref().map_or_else(String::new, |Change { node, by, why, stall_ms, .. }| {
                    format!("node {node}, last at node {by}: {why}{}", stalled(*stall_ms))
                });
            writeln!(f, "    {what:<20} {:>8.1} {:>8.1}   {slowest}", span.p50, span.max)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Protocol;
    use crate::failover::Victim;

    #[test]
    fn the_middle_and_the_worst_are_told_and_who_was_killed() {
        let change = |(node, ms)| Change { node, by: 2, ms, stall_ms: 12.0, why: "messages are ordered again".into() };
        let orders = [(1, 90.0), (3, 250.5), (1, 80.0)].map(change);
        let (protocol, victim) = (Protocol::Paxos, Victim::Coordinator);
        let plan = Plan { nodes: 3, protocol, victim, runs: 3, rate: 1_000.0, json: false };
        let report = Report::new(plan, &orders, &orders[..1], 1);
        assert_eq!((report.killed.as_slice(), report.orders_ms.p50), (&[1, 3, 1][..], 90.0));
        let text = report.to_string();
        let slowest =
            "orders again             90.0    250.5   node 3, last at node 2: messages are ordered again (meanwhile";
        assert!(text.contains(slowest), "{text}");
    }
}
