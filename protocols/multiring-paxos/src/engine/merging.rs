//! What the rings have decided, handed out in one order.
use super::{Message, MultiRingPaxos};
use crate::config::Reads;
use crate::merge::Merged;
use crate::outgoing::OVERHEAD;
use crate::packet::{HEADER, Stamp, unstamp};
use crate::ring_log::LogItem;
use crate::slot::RingId;
use crate::turns::{Line, Turn};
use consort_order::{Delivery, Output};
use consort_types::{OrderStream, Position};
use consort_wire::pack::Chunk;

impl MultiRingPaxos {
    /// Takes what the rings have decided, and hands out what is certain; whether anything was.
    pub(super) fn merge_on(&mut self) -> bool {
        let before = self.counters.handed_out;
        loop {
            self.feed();
            let fed = self.counters.handed_out;
            while let Some(merged) = self.merge.hand_out() {
                self.on_merged(merged);
            }
            if self.counters.handed_out == fed {
                return fed > before;
            }
        }
    }

    fn feed(&mut self) {
        //= MP54
        for ring in self.merge.rings().collect::<Vec<_>>() {
            let Some(engine) = self.rings.get(&ring) else { continue };
            let Some(mut next) = self.merge.end(ring) else { continue };
            if next < engine.learner().first().at {
                return self.on_missed(ring);
            }
            while let Some(entry) = engine.learner().entry(next)
                && self.merge.push(ring, next, entry.clone()).is_ok()
            {
                next += 1;
            }
            if let (Some(needs), Some(engine)) = (self.merge.needs(ring), self.rings.get_mut(&ring)) {
                engine.hold_from(Some(needs));
            }
        }
    }

    fn on_merged(&mut self, merged: Merged<LogItem>) {
        let Merged { position, item } = merged;
        let ring = RingId(position.0 as u8);
        self.counters.handed_out += 1;
        match item {
            LogItem::Message { sender, chunk } => self.on_message(position, (sender, chunk.class), &chunk),
            LogItem::View(number) if ring == self.config.global || crate::mutated!(self.config, ViewsOfAnyRing) => {
                self.on_view(position, number);
            }
            LogItem::Primary(number) if ring == self.config.global => {
                let id = self.views.primaries.remove(&number).filter(|id| self.inside == Some(*id));
                self.output.extend(id.map(Output::Primary));
            }
            LogItem::View(_) | LogItem::Primary(_) => {}
        }
    }

    /// A message counts in the view that it was sent in, and is handed out in its turn among those of its sender.
    fn on_message(&mut self, position: Position, line: Line, chunk: &Chunk) {
        //= MP52
        let Some((Stamp { view, number }, bytes)) = unstamp(&chunk.bytes) else { return };
        if view != self.current && !crate::mutated!(self.config, AnyViewCounts) || self.inside.is_none() {
            self.counters.voided += 1;
            return;
        }
        //= MP51
        let (message, len) = (Message { service: chunk.service, bytes }, chunk.bytes.len());
        let ring = RingId(position.0 as u8);
        if self.config.reads == Reads::Groups {
            //= MP73
            return self.deliver(ring, line, position, message);
        }
        if crate::mutated!(self.config, RingsOvertake) {
            return self.deliver_next(ring, line, message);
        }
        let turn = self.turns.take(line, number, len - HEADER + OVERHEAD, message);
        self.counters.voided += u64::from(turn == Turn::Void);
        while let Some(message) = self.turns.next(line) {
            self.deliver_next(ring, line, message);
        }
    }

    fn deliver_next(&mut self, ring: RingId, line: Line, message: Message) {
        //= MP62
        self.place.0 += 1;
        self.deliver(ring, line, self.place, message);
    }

    fn deliver(&mut self, ring: RingId, (sender, class): Line, position: Position, message: Message) {
        let own = sender == self.me;
        let id = if own { self.outgoing.placed(self.outgoing.line_of(class, ring)) } else { None };
        self.counters.unplaced += u64::from(own && id.is_none());
        self.output.push_back(Output::Deliver(Delivery {
            stream: OrderStream(0),
            position,
            sender,
            id,
            class,
            service: message.service,
            payload: message.bytes.into(),
        }));
    }

    /// The next view of the global ring holds from here on.
    fn on_view(&mut self, position: Position, number: u64) {
        //= MP53
        self.current = number;
        //= MP62
        if !crate::mutated!(self.config, PlacesRunOn) {
            self.place = position;
        }
        if !crate::mutated!(self.config, TurnsOutliveViews) {
            self.counters.voided += self.turns.begin();
        }
        (self.open, self.inside) = (false, None);
        if !crate::mutated!(self.config, NothingTakenBack) {
            self.outgoing.take_back();
        }
        let installs = self.views.installs.remove(&number).unwrap_or_default();
        self.views.installs.retain(|later, _| *later > number);
        self.views.primaries.retain(|later, _| *later >= number);
        let Some(view) = installs.last() else { return };
        self.inside = Some(view.id);
        if let Some(global) = self.rings.get_mut(&self.config.global) {
            global.note_installed(number);
        }
        self.output.extend(installs.into_iter().map(Output::Install));
    }
}
