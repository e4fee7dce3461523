//! Rings that are idle skip while somebody waits for them.
use super::{MultiRingPaxos, Reading};
use crate::merge::Wait;
use crate::pace::{Pace, Wanted, believed};
use crate::packet::{Content, Packet};
use crate::slot::{RingId, Slot};
use consort_order::{Destination, Lane, Output};
use consort_types::Instant;

impl MultiRingPaxos {
    /// The furthest slot that any ring has come to, as far as this node has read.
    fn furthest(&self) -> Slot {
        Slot(self.rings.values().map(|ring| ring.learner().head().slots).max().unwrap_or(0)).plus(1)
    }

    /// Tells the coordinators of rings that messages wait for.
    pub(super) fn ask_for_slots(&mut self, now: Instant) {
        //= MP42
        self.note_waits(now);
        let due = self.waits.iter().filter(|(_, waiting)| now >= waiting.ask_at);
        let due: Vec<_> = due.filter_map(|(ring, waiting)| Some((*ring, waiting.slot?))).collect();
        for (ring, slot) in due {
            let Some(waiting) = self.waits.get_mut(&ring) else { continue };
            waiting.ask_at = now + self.config.delta_t;
            self.ask(now, ring, slot);
        }
    }

    fn note_waits(&mut self, now: Instant) {
        let filled = |ring| Slot(self.rings.get(&ring).map_or(0, |engine| engine.learner().filled()));
        let waits: Vec<_> = self.merge.waits(filled).into_iter().chain(self.nearing()).collect();
        self.waits.retain(|ring, _| self.rings.contains_key(ring));
        for ring in self.rings.keys() {
            let wanted = waits.iter().filter_map(|wait| match wait {
                Wait::Slot(of, slot) if of == ring => Some(*slot),
                _ => None,
            });
            let slot = wanted.max();
            let waiting = self.waits.entry(*ring).or_default();
            match (waiting.slot, slot) {
                (None, Some(_)) => waiting.since = now,
                (Some(_), None) if self.readings.get(ring) == Some(&Reading::Read) => {
                    let waited = now.since(waiting.since);
                    self.counters.longest_wait = self.counters.longest_wait.max(waited);
                }
                _ => {}
            }
            waiting.slot = slot;
        }
    }

    fn ask(&mut self, now: Instant, ring: RingId, slot: Slot) {
        let Some(engine) = self.rings.get(&ring) else { return };
        let Some(leader) = engine.leader() else { return };
        let clock = self.clock.slot(now, self.furthest());
        //= MP43
        let known = if self.inside.is_some() { engine.learner().head().slots } else { 0 };
        let said = Wanted { slot, reached: Slot(known).plus(1), clock };
        if leader == self.me.node {
            return self.on_wanted(now, ring, said);
        }
        self.counters.asked += 1;
        let packet = Packet { ring, content: Content::Wanted(said) };
        self.output.push_back(Output::Send { to: Destination::One(leader), lane: Lane::Reliable, packet });
    }

    /// Somebody waits for a ring: its coordinator skips now, and goes on for a while.
    pub(super) fn on_wanted(&mut self, now: Instant, ring: RingId, said: Wanted) {
        //= MP42
        let furthest = self.furthest();
        let [slot, clock] = [said.slot, said.clock].map(|slot| believed(slot, furthest));
        if self.clock.heard(now, clock) > self.config.delta_t {
            self.paces.values_mut().for_each(Pace::forget_skips);
        }
        if let Some(pace) = self.paces.get_mut(&ring) {
            pace.heard(now, slot);
            if self.config.compensates {
                pace.make_up(Wanted { clock, ..said }, self.config.delta_t);
            }
            self.skip_on(now);
        }
    }

    /// Skips in the rings that were waited for lately.
    pub(super) fn skip_on(&mut self, now: Instant) {
        //= MP41
        if self.config.skips_unasked {
            self.paces.values_mut().for_each(|pace| pace.go_on(now));
        }
        for ring in self.rings.keys().copied().collect::<Vec<_>>() {
            let due = self.paces.get_mut(&ring).is_some_and(|pace| pace.is_due(now, self.config.delta_t));
            if due {
                let target = self.target(now, ring);
                self.skip(now, ring, target);
            }
        }
    }

    fn target(&mut self, now: Instant, ring: RingId) -> Slot {
        let clock = self.clock.slot(now, self.furthest());
        self.paces.get(&ring).map_or(clock, |pace| pace.target(clock))
    }

    fn skip(&mut self, now: Instant, ring: RingId, to: Slot) {
        if let Some(engine) = self.rings.get_mut(&ring).filter(|engine| engine.may_skip()) {
            self.counters.skips += 1;
            engine.skip(now, to.0);
            self.paces.entry(ring).or_default().skipped(to);
        }
    }

    /// When to ask or to skip next.
    pub(super) fn next_pace(&self) -> Option<Instant> {
        let asks = self.waits.values().filter(|waiting| waiting.slot.is_some()).map(|waiting| waiting.ask_at);
        let leads = self.rings.iter().filter(|(_, engine)| engine.leader() == Some(self.me.node));
        let skips = leads.filter_map(|(ring, _)| self.paces.get(ring)?.due());
        asks.chain(skips).min()
    }
}
