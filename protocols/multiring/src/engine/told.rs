//! What a node tells of its rings and of their order.
use super::{MultiRing, Room, Stage};
use crate::horizon::Horizon;
use crate::key::{Key, RingNumber};
use crate::port::{Part, Phase, Port};
use consort_order::{Fact, each_counter, state_of};
use consort_types::{Instant, Service};
use std::collections::{BTreeMap, BTreeSet};

impl MultiRing {
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
        see("filtered", c.filtered);
        see("filtered_bytes", c.filtered_bytes);
        see("passed", c.passed);
        see("reads_sent", c.reads_sent);
        see("echoes_sent", c.echoes_sent);
        see("horizons_sent", c.horizons_sent);
        see("void_messages", c.void);
        see("refused_messages", c.refused);
        see("unrelated_packets", c.unrelated);
        see("unreadable_messages", c.unreadable);
        see("relayed_packets", c.relayed);
        see("repeated_packets", c.repeated);
        see("pieces_sent", c.pieces_sent);
        see("sent_again", c.sent_again);
        let (bytes, own) = self.room.as_ref().map_or((0, 0), |room| room.store.bytes());
        see("held_bytes", bytes as u64);
        see("own_held_bytes", own as u64);
        see("waiting_messages", self.room.as_ref().map_or(0, |room| room.store.waiting()) as u64);
    }

    pub(super) fn describe(&self, now: Instant) -> String {
        let told = self.vs.describe(now);
        match self.room.as_ref().and_then(|room| Some((room, room.store.next()?))) {
            Some((room, (key, _, message))) => {
                let why = self.waits_for(room, key, message.service == Service::Safe);
                format!("{told}; {} messages wait, the next {why}", room.store.waiting())
            }
            None => told,
        }
    }

    /// What a message waits for that is held and was not handed out.
    fn waits_for(&self, room: &Room, key: Key, is_safe: bool) -> String {
        //= TM12
        //= TM15
        if !matches!(self.stage, Stage::Open | Stage::Halted) {
            return "for the end of its view".into();
        }
        let horizons = room.horizons.all();
        if let Some((ring, _)) = horizons.iter().find(|(_, horizon)| horizon.reached < key.stamp) {
            return format!("until nothing before it can come from {}", self.by_way_of(*ring));
        }
        match horizons.iter().find(|(_, horizon)| is_safe && horizon.held < key.stamp) {
            Some((ring, _)) => format!("until all nodes of {} hold it", self.by_way_of(*ring)),
            None => "for its turn".into(),
        }
    }

    /// A ring, and who tells of it where this node does not stand in it.
    fn by_way_of(&self, ring: RingNumber) -> String {
        match self.room.as_ref().and_then(|room| room.tree.gateway_to(ring)) {
            Some(member) => format!("{ring} (told by {})", member.node),
            None => ring.to_string(),
        }
    }

    /// Rows for each ring: its own, those that lie behind others, and parts of one that has split.
    pub(super) fn each_part(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        let described = self.config.rings.iter().map(|ring| ring.id);
        let in_view = self.room.iter().flat_map(|room| room.tree.all());
        for number in described.chain(in_view).collect::<BTreeSet<_>>() {
            let part = number.0.into();
            let known_as = self.ports.get(&number).map_or(Some(number), |port| port.in_view);
            let horizon = self.room.as_ref().zip(known_as).map(|(room, ring)| room.horizons.of(ring));
            let horizon = horizon.unwrap_or_default();
            let value = match self.ports.get(&number) {
                Some(port) => self.describe_port(now, port, horizon),
                None if self.ports.values().any(|port| port.in_view == Some(number)) => continue,
                None => self.describe_distant(number, horizon),
            };
            see(Fact::Part { what: "ring", part, value });
            see(Fact::Part { what: "ring_horizon", part, value: horizon.reached.to_string() });
            if let Some(port) = self.ports.get(&number) {
                see(Fact::Part { what: "ring_waiting_bytes", part, value: port.out_bytes.to_string() });
                self.tell_sent_on(port, see);
            }
        }
    }

    /// What this node sends on into a ring, if it is a gateway.
    fn tell_sent_on(&self, port: &Port, see: &mut dyn FnMut(Fact)) {
        //= TM50
        if port.in_view.is_some() && self.carried_but(None).len() > 1 {
            let topics = port.readers.as_ref().map(|topics| topics.iter().copied().collect());
            see(Fact::SentOn { ring: port.number.0.into(), topics });
        }
    }

    fn describe_port(&self, now: Instant, port: &Port, horizon: Horizon) -> String {
        let stands_by = self.room.as_ref().is_some_and(|room| room.tree.stands_by(port.number));
        let phase = match (port.part, self.phase(port.number)) {
            (Part::Apart, _) if stands_by => "stands by",
            (Part::Apart, _) => "waits for the view's members",
            (Part::Over, _) => "closed for a new view",
            (Part::Begun, Phase::Forming) => "waits until all have begun",
            (Part::Begun, Phase::Open) => "open",
            (Part::Begun, Phase::Shut) => "closes for a new view",
        };
        let (reached, bytes) = (horizon.reached, port.out_bytes);
        format!("{phase}, reached {reached}, {bytes} bytes wait; {}", state_of(&port.ring, now))
    }

    fn describe_distant(&self, ring: RingNumber, horizon: Horizon) -> String {
        let gateway = self.room.as_ref().and_then(|room| room.tree.gateway_to(ring));
        let behind = gateway.map_or_else(|| "behind nobody".into(), |member| format!("behind {}", member.node));
        match self.room.as_ref().is_some_and(|room| room.horizons.rings().contains(&ring)) {
            true => format!("{behind}, reached {}, held by all there up to {}", horizon.reached, horizon.held),
            false => format!("{behind}, and none of its nodes is in the view"),
        }
    }
}
