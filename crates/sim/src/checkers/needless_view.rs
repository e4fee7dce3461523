//! NV: no needless views. A network in which nothing is wrong is one ring soon, and a ring of all stays as long as
//! nothing is wrong that it would have to change for. Where something is wrong all the time, all settle down with it.
use super::process_views::Stands;
use super::{Calmness, Checker, PromiseRule, Verdict};
use crate::message::Process;
use crate::trace::{InstallRecord, Occurrence, PerProcess, TraceEvent};
use consort_types::Instant;

#[derive(Clone, Debug, Default)]
struct InstalledView {
    whole: bool,
    changes: u32,
}

/// See the module. What to expect of a run is said before it.
#[derive(Debug)]
pub(super) struct NeedlessViews {
    expected: Calmness,
    stands: Stands,
    seen: PerProcess<InstalledView>,
    calm: bool,
}

impl NeedlessViews {
    pub(super) fn new(expected: Calmness) -> Self {
        Self { expected, stands: Stands::default(), seen: PerProcess::default(), calm: false }
    }
}

impl Checker for NeedlessViews {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "NV", name: "no needless views" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let change = self.stands.see(event);
        match &event.what {
            Occurrence::Calm => self.calm = true,
            Occurrence::View(view) if change.is_some() => return self.on_view(event.process, event.at, view),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        let in_time = |process| self.seen.get(process).is_some_and(|seen| seen.whole);
        match (self.expected.whole_by, self.stands.live().find(|(process, _)| !in_time(*process))) {
            (Some(by), Some((process, _))) if self.calm => {
                Err(format!("{process} was not in a ring of all by {by} ms"))
            }
            _ => Ok(()),
        }
    }
}

impl NeedlessViews {
    fn on_view(&mut self, process: Process, at: Instant, view: &InstallRecord) -> Verdict {
        let Calmness { nodes, whole_by, steady, constant_from, most } = self.expected;
        let late = self.stands.get(process).is_some_and(|stand| stand.late);
        let seen = self.seen.of(process);
        if seen.whole && steady {
            return Err(format!("view {} replaces one of all {nodes}, although nothing forced it", view.id));
        }
        let is_whole = view.members.len() == usize::from(nodes);
        seen.whole |= is_whole && (late || whole_by.is_none_or(|by| at <= by));
        if constant_from.is_some_and(|from| at >= from) && !self.calm {
            seen.changes += 1;
            if seen.changes > most {
                return Err(format!("its {}th view since anything changed in the network", seen.changes));
            }
        }
        Ok(())
    }
}
