//! W3: views are numbered upwards. Each regular view of a process has a larger number than the one before, so that none
//! is ever installed twice. Where disks forget nothing, a restarted node goes on above all views that its earlier
//! incarnations formed with others or alone; the one that each incarnation begins with is no such view.
use super::{Checker, PromiseRule, Verdict};
use crate::trace::{Occurrence, PerProcess, TraceEvent};
use consort_types::{NodeId, ViewId};
use std::collections::BTreeMap;

/// See the module. Whether disks forget is said before the run.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    disks_last: bool,
    last: PerProcess<Option<ViewId>>,
    /// Of each node: the incarnation that formed the last view, and the highest number of that incarnation and of all
    /// before it.
    formed: BTreeMap<NodeId, FormedViews>,
}

#[derive(Clone, Copy, Debug, Default)]
struct FormedViews {
    incarnation: u16,
    highest: u64,
    before: u64,
}

impl Checker for Numbers {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "W3", name: "views are numbered upwards" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let Occurrence::View(view) = &event.what else { return Ok(()) };
        if view.transitional {
            return Ok(());
        }
        let (process, id) = (event.process, view.id);
        let formed = self.formed.entry(process.node).or_default();
        if formed.incarnation < process.incarnation {
            (formed.incarnation, formed.before) = (process.incarnation, formed.highest);
        }
        let last = self.last.of(process).replace(id);
        if last.is_some() {
            formed.highest = formed.highest.max(id.number);
        }
        if self.disks_last && formed.incarnation == process.incarnation && id.number <= formed.before {
            return Err(format!("view {id}, but an earlier incarnation had number {}", formed.before));
        }
        match last {
            Some(last) if last.number >= id.number => Err(format!("view {id} after view {last}")),
            _ => Ok(()),
        }
    }
}

impl Numbers {
    pub(super) fn new(disks_last: bool) -> Self {
        Self { disks_last, ..Self::default() }
    }
}
