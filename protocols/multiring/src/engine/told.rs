//! What a node tells of its rings and of their order.
use super::{JoinedRings, Stage};
use crate::port::{Part, Phase, Port};
use consort_order::{Fact, each_counter, state_of};
use consort_types::{Instant, OrderWait};
use std::collections::BTreeMap;

impl JoinedRings {
    /// The rings' counters, added up, those of the membership, and those of the order.
    pub(super) fn each_counter(&self, now: Instant, see: &mut dyn FnMut(&'static str, u64)) {
        let mut sums = BTreeMap::<&'static str, u64>::new();
        for port in self.ports.values() {
            each_counter(&port.ring, now, &mut |name, value| *sums.entry(name).or_default() += value);
        }
        for name in ["views", "gathers", "joins_sent", "beacons_sent"] {
            sums.remove(name); // those of the whole network count
        }
        self.vs.observe(&mut |name, value| *sums.entry(name).or_default() += value);
        *sums.entry("assertion_failures").or_default() += self.counters.assertion_failures;
        let out: usize = self.ports.values().map(|port| port.out_bytes).sum();
        *sums.entry("queued_bytes").or_default() += (self.queue.bytes() + out) as u64;
        sums.into_iter().for_each(|(name, value)| see(name, value));
        let c = &self.counters;
        see("handed_out", c.handed_out);
        see("forwarded", c.forwarded);
        see("horizons_sent", c.horizons_sent);
        see("void_messages", c.void);
        see("refused_messages", c.refused);
        see("unrelated_packets", c.unrelated);
        see("unreadable_messages", c.unreadable);
        see("relayed_packets", c.relayed);
        see("pieces_sent", c.pieces_sent);
        see("sent_again", c.sent_again);
        let (bytes, own) = self.room.as_ref().map_or((0, 0), |room| room.store.bytes());
        see("held_bytes", bytes as u64);
        see("own_held_bytes", own as u64);
        see("waiting_messages", self.room.as_ref().map_or(0, |room| room.store.waiting()) as u64);
    }

    pub(super) fn waits_for(&self) -> Option<OrderWait> {
        if self.queue.is_empty() && self.queue.all_delivered() {
            return None;
        }
        let open = self.ports.keys().all(|ring| self.phase(*ring) == Phase::Open);
        let stands = open && matches!(self.stage, Stage::Open) && !self.queue.is_gated();
        Some(if stands { OrderWait::Window } else { OrderWait::Membership })
    }

    pub(super) fn describe(&self, now: Instant) -> String {
        let told = self.vs.describe(now);
        let Some(room) = &self.room else { return told };
        let held_up = room.horizons.all().into_iter().min_by_key(|(_, horizon)| horizon.reached);
        match held_up {
            Some((ring, _)) if room.store.waiting() > 0 => {
                format!("{told}; {} messages wait, longest for {ring}", room.store.waiting())
            }
            _ => told,
        }
    }

    /// A row for each ring of this node.
    pub(super) fn each_part(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        for (number, port) in &self.ports {
            let value = self.describe_port(now, port);
            see(Fact::Part { what: "ring", part: number.0.into(), value });
        }
    }

    fn describe_port(&self, now: Instant, port: &Port) -> String {
        let phase = match (port.part, self.phase(port.number)) {
            (Part::Apart, _) => "waits for the view's members",
            (Part::Over, _) => "closed for a new view",
            (Part::Begun, Phase::Forming) => "waits until all have begun",
            (Part::Begun, Phase::Open) => "open",
            (Part::Begun, Phase::Shut) => "closes for a new view",
        };
        let reached = self.room.as_ref().map_or(0, |room| room.horizons.of(port.number).reached);
        format!("{phase}, reached {reached}, {} bytes wait; {}", port.out_bytes, state_of(&port.ring, now))
    }
}
