//! VS: virtual synchrony. Two processes that go together from one view to the next delivered the same messages in the same
//! order in the view itself, and the same in the same order while they closed it; and both were told, or both were not,
//! that the view is primary.
use super::process_views::{LeftBehind, Stands};
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::message::{Mark, Process};
use crate::trace::{DeliveryRecord, InstallRecord, Occurrence, PerProcess, TraceEvent};
use consort_types::ViewId;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

/// Something a process was told, as far as another must be told the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SharedEvent {
    Message(Mark),
    /// One too short for its name: it has a length.
    Nameless(u64),
    Primary(ViewId),
}

impl fmt::Display for SharedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(mark) => mark.fmt(f),
            Self::Nameless(len) => write!(f, "a message of {len} bytes"),
            Self::Primary(id) => write!(f, "{id} is primary"),
        }
    }
}

/// What a process was told since its last regular view.
#[derive(Clone, Debug, Default)]
struct ViewSegment {
    regular: Vec<SharedEvent>,
    closing: Vec<SharedEvent>,
    /// What was delivered before the one order, in any order.
    early: BTreeSet<Mark>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct VirtualSynchrony {
    stands: Stands,
    segments: PerProcess<ViewSegment>,
    /// What the first that went from one view to another was told.
    known: BTreeMap<(ViewId, ViewId), (Process, Rc<ViewSegment>)>,
    promised: PromisedOrder,
}

impl Checker for VirtualSynchrony {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "VS", name: "virtual synchrony" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let process = event.process;
        match (&event.what, self.stands.see(event)) {
            (Occurrence::Deliver(delivered), _) if !self.promised.is_ordered(delivered) => {
                self.segments.of(process).early.extend(delivered.mark);
            }
            (Occurrence::Deliver(delivered), _) => self.add(process, told(delivered)),
            (Occurrence::Primary(view), _) => self.add(process, Some(SharedEvent::Primary(*view))),
            (Occurrence::View(view), Some(change)) => return self.on_change(process, view, &change),
            _ => {}
        }
        Ok(())
    }
}

fn told(delivered: &DeliveryRecord) -> Option<SharedEvent> {
    let nameless = delivered.nameless.then_some(SharedEvent::Nameless(delivered.len));
    delivered.mark.map(SharedEvent::Message).or(nameless)
}

impl VirtualSynchrony {
    /// Judges the one order as a sequence, what is delivered before it as a set.
    pub(super) fn new(promised: PromisedOrder) -> Self {
        Self { promised, ..Self::default() }
    }

    fn add(&mut self, process: Process, told: Option<SharedEvent>) {
        let closing = self.stands.is_closing(process);
        let segment = self.segments.of(process);
        if closing { &mut segment.closing } else { &mut segment.regular }.extend(told);
    }

    fn on_change(&mut self, process: Process, view: &InstallRecord, change: &LeftBehind) -> Verdict {
        let mine = std::mem::take(self.segments.of(process));
        let Some(from) = change.from.as_ref().filter(|_| !change.partial) else { return Ok(()) };
        let key = (from.id, view.id);
        let Some((other, theirs)) = self.known.get(&key) else {
            self.known.insert(key, (process, Rc::new(mine)));
            return Ok(());
        };
        if let Some(mark) = mine.early.symmetric_difference(&theirs.early).next() {
            return Err(format!("of {from} it and {other} were not both given {mark}", from = from.id));
        }
        compare(&mine.regular, &theirs.regular, *other, "in", from.id)?;
        compare(&mine.closing, &theirs.closing, *other, "while it closed", from.id)
    }
}

fn compare(mine: &[SharedEvent], theirs: &[SharedEvent], other: Process, when: &str, view: ViewId) -> Verdict {
    let same = |(a, b): &(&SharedEvent, &SharedEvent)| {
        a == b || matches!(a, SharedEvent::Nameless(_)) || matches!(b, SharedEvent::Nameless(_))
    };
    let equal = mine.iter().zip(theirs).take_while(same).count();
    let name = |told: Option<&SharedEvent>| told.map_or("nothing".into(), SharedEvent::to_string);
    if equal == mine.len() && equal == theirs.len() {
        return Ok(());
    }
    let (here, there) = (name(mine.get(equal)), name(theirs.get(equal)));
    Err(format!("after {equal} events {when} {view} it was told {here}, but {other}, which came along, {there}"))
}
