//! SF4: safe means held. At the moment a message is delivered as safe in a regular view, and whenever a position is
//! called stable, every member of the view has received it.
use super::{Checker, PromiseRule, Verdict};
use crate::trace::{Occurrence, TraceEvent};
use consort_types::{NodeId, Service};

/// See the module. The run itself says who does not hold a message: it can look into every member.
#[derive(Debug, Default)]
pub(super) struct SafePossession;

impl Checker for SafePossession {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "SF4", name: "safe is held by all" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let names = |nodes: &[NodeId]| nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ");
        match &event.what {
            Occurrence::Deliver(delivered) if delivered.service == Service::Safe && !delivered.missing.is_empty() => {
                let mark = delivered.mark.map_or("a message".into(), |mark| mark.to_string());
                Err(format!("{mark} is delivered as safe, but not held by {}", names(&delivered.missing)))
            }
            Occurrence::Stable { stream, up_to, missing } if !missing.is_empty() => {
                Err(format!("{stream} is called stable up to {up_to}, but that is not held by {}", names(missing)))
            }
            _ => Ok(()),
        }
    }
}
