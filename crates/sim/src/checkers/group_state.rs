//! GH: daemons of one view have the same groups. They compare hashes of their tables themselves and count what must never
//! happen; this looks at the counts.
use super::{Checker, PromiseRule, Verdict};
use crate::trace::{Occurrence, TraceEvent};

/// What daemons count that must never happen.
pub(super) const GAUGES: [&str; 5] = [
    "group_hash_mismatches",
    "group_early_messages",
    "group_parts_broken",
    "group_digests_malformed",
    "ordered_malformed",
];

/// See the module.
#[derive(Debug, Default)]
pub(super) struct GroupState;

impl Checker for GroupState {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "GH", name: "the same groups everywhere" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match &event.what {
            Occurrence::Gauge { name, value } if GAUGES.contains(&name.as_ref()) && *value > 0 => {
                Err(format!("{name} is {value}"))
            }
            _ => Ok(()),
        }
    }
}
