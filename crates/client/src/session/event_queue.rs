//! Events that wait for the program, and how far it has read.
use super::event::{Fate, SessionEvent};
use crate::reading::Reached;
use crate::{Bookmark, Event, ReadFrom, ReadingStatus};
use std::collections::VecDeque;

/// Events in their order, and where readings begin among them.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    items: VecDeque<QueuedItem>,
    /// How many bytes they keep.
    bytes: usize,
    reached: Reached,
    /// Where the reading was asked to go on, until it has begun.
    from: Option<Bookmark>,
}

#[derive(Debug)]
enum QueuedItem {
    Event(SessionEvent),
    /// Of a reading that was replaced: it says nothing of how far the present one has come.
    Replaced(Event),
    /// A reading is asked for from here. It is never the first: it concerns what is told behind it.
    Reading(ReadFrom),
}

impl EventQueue {
    pub fn push(&mut self, event: SessionEvent) {
        self.bytes += event.cost();
        self.items.push_back(QueuedItem::Event(event));
    }

    /// An event of a reading that was replaced.
    pub fn push_replaced(&mut self, event: Event) {
        self.bytes += event.weight();
        self.items.push_back(QueuedItem::Replaced(event));
    }

    /// A reading is asked for from there.
    pub fn push_reading(&mut self, from: &ReadFrom) {
        self.items.push_back(QueuedItem::Reading(from.clone()));
        self.begin_readings();
    }

    /// What the program is told next.
    pub fn pop(&mut self) -> Option<SessionEvent> {
        let event = match self.items.pop_front()? {
            QueuedItem::Event(event) => {
                if let SessionEvent::Event(event) = &event {
                    self.reached.on_event(event);
                }
                event
            }
            QueuedItem::Replaced(event) => SessionEvent::Event(event),
            QueuedItem::Reading(_) => return None,
        };
        self.bytes -= event.cost();
        self.begin_readings();
        Some(told(event))
    }

    fn begin_readings(&mut self) {
        while let Some(QueuedItem::Reading(from)) = self.items.front() {
            self.reached.begin(from);
            self.from = if let ReadFrom::After(bookmark) = from { Some(bookmark.clone()) } else { None };
            self.items.pop_front();
        }
    }

    /// How far the program has read.
    pub fn bookmark(&self) -> Option<Bookmark> {
        self.reached.bookmark().or_else(|| self.from.clone())
    }

    /// How many bytes wait.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The fate of a send, if it waits to be told.
    pub fn take_fate(&mut self, number: u64) -> Option<Fate> {
        let is_it =
            |item: &QueuedItem| matches!(item, QueuedItem::Event(SessionEvent::Sent { send, .. }) if *send == number);
        let at = self.items.iter().position(is_it)?;
        let QueuedItem::Event(taken) = self.items.remove(at)? else { return None };
        self.bytes -= taken.cost();
        self.begin_readings();
        if let SessionEvent::Sent { fate, .. } = taken { Some(fate) } else { None }
    }

    /// All that waits.
    pub fn into_events(mut self) -> Vec<SessionEvent> {
        std::iter::from_fn(|| self.pop()).collect()
    }
}

/// Gaps are kept as daemons told them: a bookmark needs more of them than programs do.
fn told(event: SessionEvent) -> SessionEvent {
    match event {
        SessionEvent::Event(Event::Reading(ReadingStatus::Gap { from, to, .. })) => SessionEvent::Gap { from, to },
        other => other,
    }
}
