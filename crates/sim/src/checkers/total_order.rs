//! TO1: one total order. Take "delivered directly before" at every process, and all processes together: there is no
//! cycle. Looks at which messages were delivered, never at a position that the protocol gave them. Where parts close a view
//! each in an order of its own, what is delivered while a view is closed is left to VS.
use super::process_views::Stands;
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::message::{Mark, Process};
use crate::trace::{Occurrence, PerMessage, PerProcess, TraceEvent};
use std::collections::BTreeMap;

/// Keeps for every message a rank that agrees with all orders seen. A delivery that steps down in rank costs a new
/// ranking; where there is none, there is a cycle.
#[derive(Debug, Default)]
pub(super) struct TotalOrder {
    ranks: PerMessage<u64>,
    highest: u64,
    delivered: PerProcess<Vec<Mark>>,
    stands: Stands,
    promised: PromisedOrder,
}

impl Checker for TotalOrder {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "TO1", name: "total order" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        self.stands.see(event);
        let Occurrence::Deliver(delivered) = &event.what else { return Ok(()) };
        let Some(mark) = delivered.mark else { return Ok(()) };
        let apart = self.promised.per_component && self.stands.is_closing(event.process);
        if apart || !self.promised.is_ordered(delivered) {
            return Ok(());
        }
        let rank = self.ranks.of(mark);
        if *rank == 0 {
            self.highest += 1;
            *rank = self.highest;
        }
        let rank = *rank;
        let order = self.delivered.of(event.process);
        let before = order.last().copied();
        let stepped_down = before.is_some_and(|before| *self.ranks.of(before) >= rank);
        if stepped_down && order.contains(&mark) {
            return Ok(()); // a duplicate, which is another checker's
        }
        order.push(mark);
        match before {
            Some(before) if stepped_down => self.rank_anew(event.process, before, mark),
            _ => Ok(()),
        }
    }
}

impl TotalOrder {
    /// Judges what the engine promises to stand in one order.
    pub(super) fn new(promised: PromisedOrder) -> Self {
        Self { promised, ..Self::default() }
    }

    /// Ranks all messages anew, so that every order seen goes upwards.
    fn rank_anew(&mut self, process: Process, before: Mark, mark: Mark) -> Verdict {
        let mut graph = Graph::default();
        self.delivered.iter().for_each(|(_, order)| graph.add(order));
        let total = graph.before.len();
        let sorted = graph.sort();
        for (mark, rank) in sorted.iter().zip(1..) {
            *self.ranks.of(*mark) = rank;
        }
        self.highest = self.highest.max(sorted.len() as u64);
        if sorted.len() == total { Ok(()) } else { Err(self.explain(process, before, mark)) }
    }

    fn explain(&self, process: Process, before: Mark, mark: Mark) -> String {
        let place = |order: &[Mark], mark| order.iter().position(|other| *other == mark);
        let other = self.delivered.iter().find(|(other, order)| {
            *other != process && place(order, mark).zip(place(order, before)).is_some_and(|(a, b)| a < b)
        });
        match other {
            Some((other, _)) => format!("{before} then {mark} here, {mark} then {before} at {other}"),
            None => format!("{before} then {mark} here closes a cycle with the orders of the others"),
        }
    }
}

/// What was delivered directly after what, and how many stand directly before each.
#[derive(Default)]
struct Graph {
    after: BTreeMap<Mark, Vec<Mark>>,
    before: BTreeMap<Mark, usize>,
}

impl Graph {
    fn add(&mut self, order: &[Mark]) {
        for mark in order {
            self.before.entry(*mark).or_default();
        }
        for pair in order.windows(2) {
            self.after.entry(pair[0]).or_default().push(pair[1]);
            *self.before.entry(pair[1]).or_default() += 1;
        }
    }

    /// All that lies on no cycle and after none, each after all that stand before it.
    fn sort(mut self) -> Vec<Mark> {
        let first = self.before.iter().filter(|(_, n)| **n == 0);
        let mut sorted: Vec<_> = first.map(|(mark, _)| *mark).collect();
        let mut at = 0;
        while let Some(mark) = sorted.get(at).copied() {
            at += 1;
            for next in self.after.remove(&mark).unwrap_or_default() {
                let n = self.before.entry(next).or_default();
                *n -= 1;
                if *n == 0 {
                    sorted.push(next);
                }
            }
        }
        sorted
    }
}
