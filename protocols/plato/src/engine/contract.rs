//! The node as an engine.
use super::Plato;
use crate::packet::PlatoPacket;
use bytes::Bytes;
use consort_order::{
    AcrossPartitions, Arrival, Capability, Engine, Fact, Link, Obstacle, Offers, Output, PeerReach, Refused, Submission,
};
use consort_types::{Instant, MessageId, NodeId, OrderStream, Service, Ticket, ViewId};
use consort_wire::Lane;

impl Engine for Plato {
    type Packet = PlatoPacket;

    fn capability(&self) -> Capability {
        Capability {
            protocol: "plato",
            services: &[Service::Agreed, Service::Safe],
            offers: Offers::Likely,
            needs_arrival_times: true,
            quorum: false,
            durable: false,
            reliable_links: false,
            continues_in_minority: true,
            replays: false,
            across_partitions: AcrossPartitions::PerComponent,
        }
    }

    fn start(&mut self, now: Instant, records: &[Bytes]) {
        self.now = now;
        self.membership.start(now, records);
        self.settle();
    }

    fn submit(&mut self, now: Instant, submission: Submission) -> Result<MessageId, Refused> {
        self.now = now;
        if submission.stream != OrderStream(0) {
            return Err(Refused::NoSuchStream { stream: submission.stream });
        }
        if self.membership.is_leaving() {
            return Err(Refused::Leaving);
        }
        self.membership.wake(now);
        let id = self.io.queue.push(submission)?;
        self.settle();
        Ok(id)
    }

    fn handle_packet(&mut self, now: Instant, arrival: Arrival, packet: PlatoPacket) {
        self.now = now;
        self.membership.wake(now);
        self.do_acts();
        self.arrive_own(arrival.at);
        match packet {
            PlatoPacket::Membership(packet) => self.membership.handle(now, &arrival, packet),
            packet => self.on_packet(&arrival, packet),
        }
        self.settle();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.membership.handle_timeout(now);
        self.do_acts();
        self.arrive_own(now);
        self.settle();
    }

    fn handle_persisted(&mut self, now: Instant, _ticket: Ticket) {
        self.now = now;
        self.membership.wake(now);
        self.membership.handle_persisted(now);
        self.settle();
    }

    // No reliable lane is used.
    fn handle_link(&mut self, _now: Instant, _peer: NodeId, _link: Link) {}

    fn annotate(&mut self, annotation: Bytes) {
        self.membership.annotate(annotation);
    }

    fn resume(&mut self, now: Instant, view: ViewId) {
        self.now = now;
        if self.io.queue.open_gate(view) {
            self.membership.wake(now);
            self.settle();
        }
    }

    fn leave(&mut self, now: Instant) {
        self.now = now;
        self.membership.leave(now);
        self.settle();
    }

    fn poll_output(&mut self) -> Option<Output<PlatoPacket>> {
        self.io.output.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.membership.poll_timeout(), self.next_due()].into_iter().flatten().min()
    }

    fn reads_first(&self) -> Lane {
        Lane::Data
    }

    fn obstacle(&self, _now: Instant) -> Option<Obstacle> {
        self.membership.obstacle()
    }

    fn observe(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        self.each_counter(&mut |name, value| see(Fact::Counter(name, value)));
        self.reachability(now).into_iter().for_each(|reach| see(Fact::Peer(reach)));
        see(Fact::State(self.describe(now)));
    }
}

impl Plato {
    pub(crate) fn each_counter(&self, see: &mut dyn FnMut(&'static str, u64)) {
        self.membership.observe(see);
        self.io.counters.observe(see);
        let (packets, bytes) = self.streams.kept();
        let (undelivered, awaited, assembly) = self.receiver.waiting();
        see("store_packets", packets as u64);
        see("store_bytes", bytes as u64);
        see("queued_bytes", self.io.queue.bytes() as u64);
        see("assembly_bytes", assembly as u64);
        see("packets_undelivered", undelivered as u64);
        see("places_awaited", awaited as u64);
        see("delta_ns", self.io.delta.get().map_or(0, |delta| delta.as_nanos() as u64));
    }

    pub(crate) fn reachability(&self, now: Instant) -> Vec<PeerReach> {
        self.membership.reachability(now)
    }

    pub(crate) fn describe(&self, now: Instant) -> String {
        let told = self.membership.describe(now);
        let Some(sequencer) = self.members().first().filter(|_| self.membership.is_working()) else { return told };
        match self.io.delta.get() {
            Some(delta) => format!("{told}; {sequencer} says the order, delta {} us", delta.as_micros()),
            None => format!("{told}; {sequencer} says the order, nothing is predicted"),
        }
    }
}

impl Plato {
    fn on_packet(&mut self, arrival: &Arrival, packet: PlatoPacket) {
        let Some(view) = packet.view() else { return };
        self.membership.hear(self.now, arrival, view);
        self.do_acts();
        let any = crate::mutated!(self.config, AnyViewsPackets);
        let right = (view == self.view() || any) && self.membership.is_member(arrival.from);
        if !right || arrival.from == self.me() {
            self.io.counters.foreign += 1;
            return;
        }
        match packet {
            PlatoPacket::Data(data) => self.on_data(data, arrival.at),
            PlatoPacket::Status(status) => self.on_status(arrival.from, &status),
            PlatoPacket::Request(request) => self.on_request(arrival.from, &request),
            PlatoPacket::Membership(_) => {}
        }
    }
}
