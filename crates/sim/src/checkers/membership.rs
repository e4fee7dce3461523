//! W2: views mean the same everywhere. A process belongs to every view it installs; a regular view's name stands for the
//! same members at all; and no view holds two incarnations of one node.
use super::process_views::names;
use super::{Checker, PromiseRule, Verdict};
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{InstallRecord, Occurrence, TraceEvent};
use consort_types::ViewId;
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Members {
    known: BTreeMap<ViewId, Vec<ProcessIncarnation>>,
}

impl Checker for Members {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "W2", name: "views mean the same" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        match &event.what {
            Occurrence::View(view) => self.on_view(event.process, view),
            _ => Ok(()),
        }
    }
}

impl Members {
    fn on_view(&mut self, process: Process, view: &InstallRecord) -> Verdict {
        let InstallRecord { id, members, transitional, .. } = view;
        if !members.contains(&process.incarnation()) {
            return Err(format!("view {id} of {} does not have it as a member", names(members)));
        }
        if !members.windows(2).all(|pair| pair[0].node < pair[1].node) {
            return Err(format!("view {id} of {} does not list each node once, ascending", names(members)));
        }
        if *transitional {
            return Ok(());
        }
        let known = self.known.entry(*id).or_insert_with(|| members.clone());
        if known == members {
            Ok(())
        } else {
            Err(format!("view {id} is of {} here, of {} elsewhere", names(members), names(known)))
        }
    }
}
