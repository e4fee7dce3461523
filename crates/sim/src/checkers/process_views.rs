//! Where a process stands: in which view, whether it came into it late, and whether its trace is over.
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{InstallRecord, Occurrence, PerProcess, TraceEvent};
use consort_types::ViewId;
use std::rc::Rc;

/// Of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Stand {
    pub started: bool,
    /// The node crashed or left: nothing more comes from it.
    pub over: bool,
    /// The last regular view.
    pub regular: Option<Rc<InstallRecord>>,
    /// The transitional view that closes it.
    pub closing: Option<Rc<InstallRecord>>,
    /// It came into the regular view when that was under way, and missed what was delivered before.
    pub partial: bool,
    /// It belongs to those that come into views late.
    pub late: bool,
    /// The first view it was in.
    pub first: Option<ViewId>,
}

impl Stand {
    /// The regular view, or the one that is being closed.
    pub fn id(&self) -> Option<ViewId> {
        self.regular.as_ref().or(self.closing.as_ref()).map(|view| view.id)
    }

    pub const fn is_live(&self) -> bool {
        self.started && !self.over
    }
}

/// Of all.
#[derive(Clone, Debug, Default)]
pub(super) struct Stands(PerProcess<Stand>);

/// What a process leaves behind when it installs a regular view.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftBehind {
    /// The regular view before, if it had one.
    pub from: Option<Rc<InstallRecord>>,
    /// Those that moved together.
    pub together: Option<Rc<InstallRecord>>,
    /// It missed the beginning of the view before.
    pub partial: bool,
}

impl Stands {
    /// Takes note of an event; answers with what a new regular view replaces.
    pub fn see(&mut self, event: &TraceEvent) -> Option<LeftBehind> {
        match &event.what {
            Occurrence::Start { late } => {
                *self.0.of(event.process) = Stand { started: true, late: *late, ..Stand::default() };
            }
            Occurrence::Crash | Occurrence::Left => self.0.of(event.process).over = true,
            Occurrence::View(view) => return self.on_view(event.process, view),
            _ => {}
        }
        None
    }

    fn on_view(&mut self, process: Process, view: &InstallRecord) -> Option<LeftBehind> {
        let stand = self.0.of(process);
        let is_first = stand.id().is_none();
        stand.first.get_or_insert(view.id);
        if view.transitional {
            stand.partial |= is_first && stand.late;
            stand.closing = Some(Rc::new(view.clone()));
            return None;
        }
        let from = stand.regular.replace(Rc::new(view.clone()));
        let change = LeftBehind { from, together: stand.closing.take(), partial: stand.partial };
        stand.partial = is_first && stand.late;
        Some(change)
    }

    pub fn get(&self, process: Process) -> Option<&Stand> {
        self.0.get(process)
    }

    /// The view whose messages the process is given now.
    pub fn id(&self, process: Process) -> Option<ViewId> {
        self.0.get(process)?.id()
    }

    /// Whether what the process is given now belongs to a view that is being closed.
    pub fn is_closing(&self, process: Process) -> bool {
        self.0.get(process).is_some_and(|stand| stand.closing.is_some())
    }

    /// Whether it missed the beginning of its view.
    pub fn is_partial(&self, process: Process) -> bool {
        self.0.get(process).is_some_and(|stand| stand.partial)
    }

    /// All that take part and whose traces are not over.
    pub fn live(&self) -> impl Iterator<Item = (Process, &Stand)> {
        self.0.iter().filter(|(_, stand)| stand.is_live())
    }

    /// Whether all are in one regular view, which nobody is closing.
    pub fn share_a_view(&self) -> bool {
        let mut views = self.live().map(|(_, stand)| stand.regular.as_ref().filter(|_| stand.closing.is_none()));
        views.next().flatten().is_some_and(|first| views.all(|view| view.is_some_and(|view| view.id == first.id)))
    }

    /// The processes of an incarnation.
    pub fn of_incarnation(&self, incarnation: ProcessIncarnation) -> impl Iterator<Item = (Process, &Stand)> {
        self.0.of_incarnation(incarnation).filter(|(_, stand)| stand.started)
    }
}

/// Names of incarnations, for sentences.
pub(super) fn names(incarnations: &[ProcessIncarnation]) -> String {
    incarnations.iter().map(ProcessIncarnation::to_string).collect::<Vec<_>>().join(" ")
}
