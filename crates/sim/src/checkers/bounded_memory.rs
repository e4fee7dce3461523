//! BM: bounded memory. While the run lasts no gauge exceeds its limit; once it has come to rest, what was kept for
//! others is given back.
use super::{Checker, IdleWaits, KEPT_OUT, PromiseRule, PromisedOrder, Retained, Verdict};
use crate::fault::NodeSet;
use crate::trace::{Occurrence, TraceEvent};
use consort_types::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// What gauges may show. The names are those of `observe`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// What the engine promises of its order.
    pub promised: PromisedOrder,
    /// At any time.
    pub running: BTreeMap<&'static str, u64>,
    /// Once the run has come to rest.
    pub quiet: BTreeMap<&'static str, u64>,
    /// Those that count repetitions, in a run in which none is needed: they stay at zero.
    pub needless: BTreeSet<&'static str>,
    /// When views may change.
    pub views: Calmness,
    /// How long waits may be in an idle run; `None` where nothing is said of that.
    pub waits: Option<IdleWaits>,
    /// No disk forgets anything: a node's views are numbered upwards across its incarnations.
    pub disks_last: bool,
    /// Within what time a good-bye is heard by all.
    pub goodbye: Option<Duration>,
    /// How much daemons keep for readers, and for how long, where they do.
    pub retained: Option<Retained>,
    /// The ids of promises that the run shows nothing of: they are not said to be judged.
    pub unseen: BTreeSet<&'static str>,
}

/// What is to be expected of the views of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calmness {
    /// How many nodes there are.
    pub nodes: u16,
    /// By when all are in one view.
    pub whole_by: Option<Instant>,
    /// How many views may follow one of all, at each process; `None` where that is not limited.
    pub changes: Option<u32>,
    /// The times in which nothing changes on the network and its hosts, by ascending time.
    pub spans: Vec<ConstantSpan>,
    /// How long members that hear each other may order nothing, in such a time; `None` where nothing is demanded.
    pub standstill: Option<Duration>,
}

/// A time in which nothing changes on the network and its hosts, though things may be wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConstantSpan {
    /// When it begins.
    pub from: Instant,
    /// When it ends.
    pub until: Instant,
    /// How many things are wrong that somebody has to part for.
    pub faults: u32,
    /// Of each part of the network, the nodes that hear each other both ways, without those that most others do not get on
    /// with.
    pub cores: Vec<Core>,
}

/// Nodes that hear each other both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Which.
    pub nodes: NodeSet,
    /// Nobody else hears any of them both ways, so that nobody has a reason to draw some of them away from the others.
    pub united: bool,
}

impl Bounds {
    /// Whether there is a limit of that name.
    pub fn watch(&self, name: &str) -> bool {
        self.running.contains_key(name)
            || self.quiet.contains_key(name)
            || self.needless.contains(name)
            || self.views.standstill.is_some() && name == KEPT_OUT
            || self.waits.as_ref().and_then(|waits| waits.counter).is_some_and(|(counter, _)| counter == name)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Memory {
    bounds: Bounds,
    quiet: bool,
}

impl Memory {
    pub(super) const fn new(bounds: Bounds) -> Self {
        Self { bounds, quiet: false }
    }
}

impl Checker for Memory {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "BM", name: "bounded memory" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match &event.what {
            Occurrence::Quiet => self.quiet = true,
            Occurrence::Gauge { name, value } => {
                let quiet = self.bounds.quiet.get(name.as_ref()).filter(|_| self.quiet);
                let limit = quiet.or_else(|| self.bounds.running.get(name.as_ref()));
                if let Some(limit) = limit.filter(|limit| value > limit) {
                    let when = if self.quiet { " at rest" } else { "" };
                    return Err(format!("{name} is {value}{when}, {limit} allowed"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
