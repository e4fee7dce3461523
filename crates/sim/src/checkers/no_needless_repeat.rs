//! NR: nothing is repeated needlessly. In a run in which the network loses, reorders and delays nothing, nothing is
//! asked for or sent a second time.
use super::{Checker, PromiseRule, Verdict};
use crate::trace::{Occurrence, TraceEvent};
use std::collections::BTreeSet;

/// See the module. Which gauges count repetitions, and whether they must stay at zero, is said before the run.
#[derive(Debug)]
pub(super) struct Needless(pub(super) BTreeSet<&'static str>);

impl Checker for Needless {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "NR", name: "no needless repetition" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match &event.what {
            Occurrence::Gauge { name, value } if *value > 0 && self.0.contains(name.as_ref()) => {
                Err(format!("{name} is {value} although nothing was lost"))
            }
            _ => Ok(()),
        }
    }
}
