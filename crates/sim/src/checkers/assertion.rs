//! AF: the protocol's own assertions hold. Engines count what must never happen under `assertion_failures`.
use super::{Checker, PromiseRule, Verdict};
use crate::trace::{Occurrence, TraceEvent};

/// The gauge in which engines count what must never happen.
pub(super) const GAUGE: &str = "assertion_failures";

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Assertions;

impl Checker for Assertions {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "AF", name: "assertions" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match &event.what {
            Occurrence::Gauge { name, value } if name == GAUGE && *value > 0 => {
                Err(format!("{value} assertions of the protocol failed"))
            }
            _ => Ok(()),
        }
    }
}
