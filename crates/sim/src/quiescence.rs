//! Whether a run has come to rest: one view of all that live, and nothing owed to anybody.
use crate::message::{Mark, Process, ProcessIncarnation};
use crate::trace::{
    DeliveryRecord, InstallRecord, Occurrence, PerProcess, ReplicaRecord, ReplicaStep, Submitted, TraceEvent,
};
use consort_types::ViewId;
use std::collections::{BTreeMap, BTreeSet};

/// What is still to come.
#[derive(Debug, Default)]
pub(crate) struct QuiescenceCheck {
    live: BTreeSet<Process>,
    owed: PerProcess<Owed>,
    servers: BTreeMap<u16, OwedServer>,
}

/// What a server owes.
#[derive(Debug, Default)]
struct OwedServer {
    serves: bool,
    calls: BTreeSet<u64>,
    at: u64,
}

#[derive(Clone, Debug, Default)]
struct Owed {
    /// Its accepted messages that it was not given back.
    own: u64,
    waits: bool,
    leaving: bool,
    view: Option<(ViewId, Vec<ProcessIncarnation>)>,
    /// What it was given last in this view.
    last: Option<Mark>,
}

impl QuiescenceCheck {
    /// Takes note of an event.
    pub fn see(&mut self, event: &TraceEvent) {
        let process = event.process;
        match &event.what {
            Occurrence::Start { .. } => drop(self.live.insert(process)),
            Occurrence::Crash | Occurrence::Left => drop(self.live.remove(&process)),
            Occurrence::Leave => self.owed.of(process).leaving = true,
            Occurrence::View(view) => self.on_view(process, view),
            Occurrence::Submit(Submitted { .. }) => self.owed.of(process).own += 1,
            Occurrence::Wait => self.owed.of(process).waits = true,
            Occurrence::Room => self.owed.of(process).waits = false,
            Occurrence::Deliver(delivered) => self.on_deliver(process, delivered),
            Occurrence::Replica(step) => self.servers.entry(step.server).or_default().see(step),
            _ => {}
        }
    }

    fn on_view(&mut self, process: Process, view: &InstallRecord) {
        let owed = self.owed.of(process);
        owed.view = (!view.transitional).then(|| (view.id, view.members.clone()));
        owed.last = None;
    }

    fn on_deliver(&mut self, process: Process, delivered: &DeliveryRecord) {
        let Some(mark) = delivered.mark else { return };
        self.owed.of(process).last = Some(mark);
        let served = process == mark.origin || !self.live.contains(&mark.origin);
        if served && process.incarnation() == mark.origin.incarnation() {
            let own = &mut self.owed.of(mark.origin).own;
            *own = own.saturating_sub(1);
        }
    }

    /// Whether nothing more is to come.
    pub fn is_come(&self) -> bool {
        let incarnations: BTreeSet<_> = self.live.iter().map(|process| process.incarnation()).collect();
        let all: Vec<_> =
            self.owed.iter().filter(|(process, _)| incarnations.contains(&process.incarnation())).collect();
        let at = self.servers.values().next().map(|server| server.at);
        if self.servers.values().any(|server| !server.serves || !server.calls.is_empty() || Some(server.at) != at) {
            return false;
        }
        if all.iter().any(|(_, owed)| owed.own > 0 || owed.waits || owed.leaving) {
            return false;
        }
        let mut members = self.live.iter().map(|process| self.owed.get(*process));
        let Some(first) = self.live.first().and_then(|process| self.owed.get(*process)) else { return true };
        let Some((_, listed)) = &first.view else { return false };
        let last = self.live.iter().find_map(|process| self.owed.get(*process)?.last);
        let agrees = |owed: &Owed| {
            owed.view == first.view && owed.last.is_none_or(|mine| last.is_none_or(|other| mine == other))
        };
        listed.iter().copied().eq(incarnations) && members.all(|owed| owed.is_some_and(agrees))
    }
}

impl OwedServer {
    fn see(&mut self, step: &ReplicaRecord) {
        match step.step {
            ReplicaStep::Starts => (self.serves, self.at) = (false, step.at),
            ReplicaStep::Ends => {
                self.serves = false;
                self.calls.clear();
            }
            ReplicaStep::Serves => self.serves = true,
            ReplicaStep::Called | ReplicaStep::Reads => drop(self.calls.insert(step.call)),
            ReplicaStep::Answered | ReplicaStep::Lost | ReplicaStep::Read => drop(self.calls.remove(&step.call)),
            ReplicaStep::Applied | ReplicaStep::Restored => self.at = step.at,
            ReplicaStep::Refused => {}
        }
    }
}
