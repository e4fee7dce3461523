//! LV: liveness. Once faults have stopped and the run has come to rest, every process that is up is in a view and has
//! delivered as much of it as any other, and nobody waits for room. Who was asked to leave has left. No message that the
//! limits allow is refused for good.
use super::process_views::Stands;
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::message::{Mark, Process};
use crate::trace::{Occurrence, PerProcess, TraceEvent};
use consort_types::ViewId;
use std::collections::BTreeMap;

/// What a process was given in its view so far.
#[derive(Clone, Debug, Default)]
struct ViewProgress {
    count: u64,
    last: Option<Mark>,
    waits: bool,
    leaves: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    stands: Stands,
    progress: PerProcess<ViewProgress>,
    calm: bool,
    promised: PromisedOrder,
}

impl Checker for Liveness {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "LV", name: "liveness" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let change = self.stands.see(event);
        match &event.what {
            Occurrence::Refused(why) => return Err(format!("a message that the limits allow was refused: {why}")),
            Occurrence::Spins => return Err("the process asks for wake-ups in the past, over and over".into()),
            Occurrence::Calm => self.calm = true,
            Occurrence::Wait => self.progress.of(event.process).waits = true,
            Occurrence::Room => self.progress.of(event.process).waits = false,
            Occurrence::Leave => self.progress.of(event.process).leaves = true,
            Occurrence::View(_) if change.is_some() => {
                let progress = self.progress.of(event.process);
                (progress.count, progress.last) = (0, None);
            }
            Occurrence::Deliver(delivered) => {
                let progress = self.progress.of(event.process);
                progress.count += 1;
                if self.promised.is_ordered(delivered) {
                    progress.last = delivered.mark;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        if !self.calm {
            return Ok(());
        }
        if let Some((process, _)) = self.stands.live().find(|(_, stand)| stand.id().is_none()) {
            return Err(format!("{process} never installed a view"));
        }
        let live =
            |process: Process| self.stands.of_incarnation(process.incarnation()).any(|(_, stand)| stand.is_live());
        if let Some((process, _)) = self.progress.iter().find(|(process, progress)| progress.waits && live(*process)) {
            return Err(format!("{process} still waits for room"));
        }
        if let Some((process, _)) = self.progress.iter().find(|(process, progress)| progress.leaves && live(*process)) {
            return Err(format!("{process} was asked to leave and has not left"));
        }
        self.all_are_even()
    }
}

impl Liveness {
    /// Judges by what the engine promises.
    pub(super) fn new(promised: PromisedOrder) -> Self {
        Self { promised, ..Self::default() }
    }

    /// Who came into its view late is judged by the last message alone.
    fn all_are_even(&self) -> Verdict {
        let mut first: BTreeMap<ViewId, (Process, &ViewProgress)> = BTreeMap::new();
        let mut last: BTreeMap<ViewId, (Process, Mark)> = BTreeMap::new();
        for (process, stand) in self.stands.live() {
            let (Some(view), Some(progress)) = (stand.id(), self.progress.get(process)) else { continue };
            if let Some(mark) = progress.last {
                let (other, known) = *last.entry(view).or_insert((process, mark));
                if known != mark {
                    return Err(format!("{process} was last given {mark}, {other} {known}"));
                }
            }
            if stand.partial {
                continue;
            }
            let (other, known) = *first.entry(view).or_insert((process, progress));
            if known.count != progress.count {
                let (mine, theirs) = (progress.count, known.count);
                return Err(format!("{process} delivered {mine} messages of {view}, {other} {theirs}"));
            }
        }
        Ok(())
    }
}
