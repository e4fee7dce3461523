//! As an engine.
use super::{MultiRing, Stage};
use crate::carrier::{Message, TOPICS};
use crate::journal::Journal;
use crate::key::RingNumber;
use crate::packet::{Content, Packet};
use crate::port::Phase;
use bytes::Bytes;
use consort_order::{
    AcrossPartitions, Arrival, Capability, Engine, Fact, Lane, Link, Obstacle, Offers, Output, Pressure, Refused,
    Submission, Topic,
};
use consort_types::{Instant, MessageId, NodeId, OrderStream, OrderWait, Service, Ticket, ViewId};

impl Engine for MultiRing {
    type Packet = Packet;

    fn capability(&self) -> Capability {
        Capability {
            protocol: "multiring",
            services: &[Service::Agreed, Service::Safe],
            offers: Offers::Fifo,
            needs_arrival_times: false,
            quorum: false,
            durable: false,
            reliable_links: false,
            continues_in_minority: true,
            replays: false,
            across_partitions: AcrossPartitions::Evs,
        }
    }

    fn start(&mut self, now: Instant, records: &[Bytes]) {
        //= TM07
        let ports = &self.ports;
        self.journal.recall(records, |owner| owner == 0 || ports.contains_key(&RingNumber(owner)));
        for (number, port) in &mut self.ports {
            port.ring.start(now, &Journal::of(number.0, records));
        }
        self.vs.start(now, &Journal::of(0, records));
        self.settle(now);
    }

    fn submit(&mut self, now: Instant, submission: Submission) -> Result<MessageId, Refused> {
        self.submit_to(now, submission, &[])
    }

    fn submit_to(&mut self, now: Instant, submission: Submission, topics: &[Topic]) -> Result<MessageId, Refused> {
        let (len, max) = (submission.payload.len(), self.config.ring.message_max);
        if submission.stream != OrderStream(0) {
            return Err(Refused::NoSuchStream { stream: submission.stream });
        }
        if self.vs.is_leaving() {
            return Err(Refused::Leaving);
        }
        if len > max {
            return Err(Refused::TooLarge { len, max });
        }
        self.vs.wake(now);
        //= TM50
        let topics = if topics.len() > TOPICS { &[] } else { topics };
        let payload = Message::with_topics(topics, &submission.payload);
        let id = self.queue.push(Submission { payload, ..submission })?;
        self.settle(now);
        Ok(id)
    }

    fn filters(&self) -> bool {
        true
    }

    fn read(&mut self, now: Instant, topics: &[Topic]) {
        //= TM52
        if self.own_reads.set(topics) {
            self.vs.wake(now);
            self.settle(now);
        }
    }

    fn reads(&self, topic: Topic) -> bool {
        self.is_read(topic)
    }

    fn handle_packet(&mut self, now: Instant, arrival: Arrival, packet: Packet) {
        let Some(port) = self.ports.get_mut(&packet.ring) else { return };
        self.vs.wake(now);
        match packet.content {
            Content::Ring(content) => port.ring.handle_packet(now, arrival, content),
            Content::Relayed(relayed) => self.on_relayed(now, packet.ring, &arrival, relayed),
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.vs.handle_timeout(now);
        self.ports.values_mut().for_each(|port| port.ring.handle_timeout(now));
        self.on_tell_timeout(now);
        self.on_closing_timeout(now);
        self.settle(now);
    }

    fn handle_persisted(&mut self, now: Instant, ticket: Ticket) {
        //= TM07
        self.vs.wake(now);
        let Some((owner, ticket)) = self.journal.owner(ticket) else { return };
        match self.ports.iter_mut().find(|(number, _)| number.0 == owner) {
            Some((_, port)) => port.ring.handle_persisted(now, ticket),
            None => self.vs.handle_persisted(now),
        }
        self.settle(now);
    }

    // No reliable lane is used.
    fn handle_link(&mut self, _now: Instant, _peer: NodeId, _link: Link) {}

    fn handle_pressure(&mut self, pressure: Pressure) {
        self.ports.values_mut().for_each(|port| port.ring.handle_pressure(pressure));
    }

    fn annotate(&mut self, annotation: Bytes) {
        self.vs.annotate(annotation);
    }

    fn resume(&mut self, now: Instant, view: ViewId) {
        if self.queue.open_gate(view) {
            self.vs.wake(now);
            self.settle(now);
        }
    }

    fn leave(&mut self, now: Instant) {
        self.vs.leave(now);
        self.settle(now);
    }

    fn poll_output(&mut self) -> Option<Output<Packet>> {
        self.output.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let rings = self.ports.values().filter_map(|port| port.ring.poll_timeout());
        let tell = self.room.as_ref().and_then(|room| room.tell_at);
        rings.chain(self.vs.poll_timeout()).chain(tell).chain(self.closing_at()).min()
    }

    fn reads_first(&self) -> Lane {
        let token = self.ports.values().any(|port| port.ring.reads_first() == Lane::Token);
        if token { Lane::Token } else { Lane::Data }
    }

    fn obstacle(&self, now: Instant) -> Option<Obstacle> {
        //= TM72
        let closed = || !self.is_open() || self.ports.values().any(|port| port.ring.obstacle(now).is_some());
        self.vs.obstacle().or_else(|| closed().then_some(Obstacle::Membership))
    }

    fn wait_cause(&self) -> Option<OrderWait> {
        if self.queue.is_empty() && self.queue.all_delivered() {
            return None;
        }
        let stands = self.is_open() && !self.queue.is_gated();
        Some(if stands { OrderWait::Window } else { OrderWait::Membership })
    }

    fn observe(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        self.each_counter(now, &mut |name, value| see(Fact::Counter(name, value)));
        self.vs.reachability(now).into_iter().for_each(|reach| see(Fact::Peer(reach)));
        self.each_part(now, see);
        see(Fact::State(self.describe(now)));
    }
}

impl MultiRing {
    /// Whether the view goes on, on all rings of this node.
    fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open) && self.ports.keys().all(|ring| self.phase(*ring) == Phase::Open)
    }
}
