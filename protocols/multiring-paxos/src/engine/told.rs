//! What a node tells of its rings and of their merge.
use super::{MultiRingPaxos, Reading};
use crate::slot::RingId;
use consort_order::{Fact, each_counter, state_of};
use consort_paxos::Paxos;
use consort_types::Instant;
use std::collections::BTreeMap;

impl MultiRingPaxos {
    /// The rings' counters, added up, and those of the merge.
    pub(super) fn each_counter(&self, now: Instant, see: &mut dyn FnMut(&'static str, u64)) {
        let mut sums = BTreeMap::<&'static str, u64>::new();
        for ring in self.rings.values() {
            each_counter(ring, now, &mut |name, value| *sums.entry(name).or_default() += value);
        }
        // What waits in this engine waits in no ring.
        *sums.entry("queued_bytes").or_default() += self.outgoing.bytes() as u64;
        *sums.entry("assertion_failures").or_default() += self.counters.unplaced;
        sums.into_iter().for_each(|(name, value)| see(name, value));
        let c = &self.counters;
        see("merged_items", c.handed_out);
        see("merged_void", c.voided);
        see("merge_waiting_bytes", self.rings.keys().map(|ring| self.merge.bytes(*ring) as u64).sum());
        see("turn_waiting_bytes", self.turns.bytes() as u64);
        see("merge_wait_max_us", u64::try_from(c.longest_wait.as_micros()).unwrap_or(u64::MAX));
        see("skips_asked", c.asked);
        see("skips_due", c.skips);
    }

    pub(super) fn describe(&self) -> String {
        let waits: Vec<_> =
            self.waits.iter().filter(|(ring, waiting)| waiting.slot.is_some() && self.is_read(**ring)).collect();
        let waits: Vec<_> = waits.iter().map(|(ring, _)| ring.to_string()).collect();
        let waits = if waits.is_empty() { "for no ring".into() } else { format!("for {}", waits.join(", ")) };
        let place = match self.inside {
            Some(_) if self.is_apart() => "apart from the others in",
            Some(_) => "in",
            None => "outside",
        };
        let leads = self.rings.iter().filter(|(_, ring)| ring.leader() == Some(self.me.node));
        let leads: Vec<_> = leads.map(|(id, _)| id.to_string()).collect();
        let leads = if leads.is_empty() { "no ring".into() } else { leads.join(", ") };
        format!("{place} view {}, waits {waits}, leads {leads}", self.current)
    }

    /// A row for each ring, and its numbers.
    pub(super) fn each_part(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        for id in self.readings.keys() {
            let part = u16::from(id.0);
            let Some(ring) = self.rings.get(id) else {
                see(Fact::Part { what: "ring", part, value: "not read here".into() });
                continue;
            };
            see(Fact::Part { what: "ring", part, value: self.describe_ring(now, *id, ring) });
            let mut open = 0;
            each_counter(ring, now, &mut |name, value| open = if name == "open_instances" { value } else { open });
            let wait = self.waits.get(id).filter(|waiting| waiting.slot.is_some() && self.is_read(*id));
            let wait = wait.map_or(0, |waiting| now.since(waiting.since).as_micros());
            let numbers = [
                ("ring_open_instances", u128::from(open)),
                ("ring_instances", u128::from(ring.learner().next())),
                ("ring_waiting_bytes", self.merge.bytes(*id) as u128),
                ("ring_wait_us", wait),
            ];
            for (what, number) in numbers {
                see(Fact::Part { what, part, value: number.to_string() });
            }
        }
    }

    fn describe_ring(&self, now: Instant, id: RingId, ring: &Paxos) -> String {
        let next = ring.learner().next();
        let merged = self.merge.needs(id).unwrap_or(0);
        let waits = match self.waits.get(&id).filter(|waiting| waiting.slot.is_some()) {
            Some(waiting) => format!("others wait for it since {} ms", now.since(waiting.since).as_millis()),
            None if merged < next => "waits for others".to_owned(),
            None => "nothing waits".to_owned(),
        };
        let global = if id == self.config.global { "views, " } else { "" };
        let merged = match self.readings.get(&id) {
            Some(Reading::Read) => format!("merged {merged} of {next}, {waits}"),
            reading => reading.map_or("", Reading::told).into(),
        };
        format!("{global}{merged}; {}{}", self.lacks(id), state_of(ring, now))
    }
}
