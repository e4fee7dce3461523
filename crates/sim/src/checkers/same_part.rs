//! W4: who moves together agrees on it. The transitional view between two regular ones lists members of both. Two
//! processes that go from one view to the same next one list the same, and each other; processes that come to a view from
//! different ones do not list each other. The new view names the same members as having moved together.
use super::process_views::{LeftBehind, Stands, names};
use super::{Checker, PromiseRule, Verdict};
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{InstallRecord, Occurrence, TraceEvent};
use consort_types::ViewId;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct ViewMove {
    process: Process,
    from: ViewId,
    together: Vec<ProcessIncarnation>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Together {
    stands: Stands,
    moves: BTreeMap<ViewId, Vec<ViewMove>>,
}

impl Checker for Together {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "W4", name: "who moves together agrees" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let change = self.stands.see(event);
        match (&event.what, change) {
            (Occurrence::View(view), Some(change)) => self.on_change(event.process, view, &change),
            _ => Ok(()),
        }
    }
}

impl Together {
    fn on_change(&mut self, process: Process, view: &InstallRecord, change: &LeftBehind) -> Verdict {
        let LeftBehind { from: Some(from), together: Some(together), .. } = change else { return Ok(()) };
        let together = &together.members;
        if let Some(stranger) = together
            .iter()
            .find(|incarnation| !from.members.contains(incarnation) || !view.members.contains(incarnation))
        {
            return Err(format!("{stranger} moved along from {} to {}, but is not in both", from.id, view.id));
        }
        if view.together != *together {
            let (named, seen) = (names(&view.together), names(together));
            return Err(format!("view {} says that {named} moved together, the transitional view {seen}", view.id));
        }
        let this = ViewMove { process, from: from.id, together: together.clone() };
        let moves = self.moves.entry(view.id).or_default();
        let verdict = moves.iter().try_for_each(|other| agree(&this, other, view.id));
        moves.push(this);
        verdict
    }
}

fn agree(this: &ViewMove, other: &ViewMove, to: ViewId) -> Verdict {
    let q = other.process;
    if this.from == other.from {
        if this.together == other.together {
            return Ok(());
        }
        let (here, there) = (names(&this.together), names(&other.together));
        return Err(format!("from {} to {to} moved {here} together, but {there} at {q}", this.from));
    }
    if this.together.contains(&q.incarnation()) || other.together.contains(&this.process.incarnation()) {
        return Err(format!("it came to {to} from {}, {q} from {}, but one lists the other", this.from, other.from));
    }
    Ok(())
}
