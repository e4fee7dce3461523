//! As an engine.
use super::Toto;
use crate::config::Early;
use crate::packet::TotoPacket;
use bytes::Bytes;
use consort_order::{
    AcrossPartitions, Arrival, Capability, Engine, Fact, Lane, Link, Obstacle, Offers, Output, PeerReach, Refused,
    Submission,
};
use consort_types::{Instant, MessageId, NodeId, OrderStream, Service, Ticket, ViewId};

impl Engine for Toto {
    type Packet = TotoPacket;

    fn capability(&self) -> Capability {
        Capability {
            protocol: "toto",
            services: match self.config.early {
                Early::No => &[Service::Agreed, Service::Safe],
                Early::Causal => &[Service::Causal, Service::Agreed, Service::Safe],
            },
            offers: Offers::None,
            needs_arrival_times: false,
            quorum: false,
            durable: false,
            reliable_links: false,
            continues_in_minority: true,
            replays: false,
            across_partitions: AcrossPartitions::PerComponent,
        }
    }

    fn start(&mut self, now: Instant, records: &[Bytes]) {
        self.vs.start(now, records);
        self.settle(now);
    }

    fn submit(&mut self, now: Instant, submission: Submission) -> Result<MessageId, Refused> {
        if submission.stream != OrderStream(0) {
            return Err(Refused::NoSuchStream { stream: submission.stream });
        }
        if self.vs.is_leaving() {
            return Err(Refused::Leaving);
        }
        self.vs.wake(now);
        let id = self.queue.push(submission)?;
        self.settle(now);
        Ok(id)
    }

    fn handle_packet(&mut self, now: Instant, arrival: Arrival, packet: TotoPacket) {
        match (packet.view(), packet) {
            (_, TotoPacket::Member(packet)) => self.vs.handle(now, &arrival, packet),
            (None, _) => {}
            (Some(view), packet) => {
                self.vs.hear(now, &arrival, view);
                self.obey(now);
                if view == self.vs.view().id && self.vs.is_member(arrival.from) {
                    self.on_packet(now, arrival.from, packet);
                } else {
                    self.counters.foreign_view += 1;
                }
            }
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.vs.handle_timeout(now);
        self.obey(now);
        self.on_ack_timeout(now);
        self.ask(now);
        self.answer(now);
        self.settle(now);
    }

    fn handle_persisted(&mut self, now: Instant, _ticket: Ticket) {
        self.vs.wake(now);
        self.vs.handle_persisted(now);
        self.settle(now);
    }

    // No reliable lane is used.
    fn handle_link(&mut self, _now: Instant, _peer: NodeId, _link: Link) {}

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

    fn poll_output(&mut self) -> Option<Output<TotoPacket>> {
        self.output.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let repair = self.room.as_ref().and_then(|room| room.repair.next());
        [self.vs.poll_timeout(), self.ack_at, repair].into_iter().flatten().min()
    }

    fn reads_first(&self) -> Lane {
        Lane::Data
    }

    fn obstacle(&self, _now: Instant) -> Option<Obstacle> {
        self.vs.obstacle()
    }

    fn observe(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        self.each_counter(&mut |name, value| see(Fact::Counter(name, value)));
        self.reachability(now).into_iter().for_each(|reach| see(Fact::Peer(reach)));
        see(Fact::State(self.describe(now)));
    }
}

impl Toto {
    pub(crate) fn each_counter(&self, see: &mut dyn FnMut(&'static str, u64)) {
        self.vs.observe(see);
        let c = &self.counters;
        see("messages_sent", c.messages_sent);
        see("nulls_sent", c.nulls_sent);
        see("naks_sent", c.naks_sent);
        see("retransmissions_sent", c.retransmissions_sent);
        see("status_sent", c.status_sent);
        see("useless_packets", c.useless);
        see("foreign_view", c.foreign_view);
        see("released", c.released);
        see("ordered_messages", c.ordered);
        see("latency_index_sum", c.latency_index_sum);
        see("concurrency_sum", c.concurrency_sum);
        see("assertion_failures", c.assertion_failures);
        see("queued_bytes", self.queue.bytes() as u64);
        let Some(room) = &self.room else { return };
        let (packets, bytes) = room.dag.load();
        see("store_packets", packets as u64);
        see("store_bytes", bytes as u64);
        see("assembly_bytes", room.deliverer.held() as u64);
        see("torn_messages", c.torn + room.deliverer.torn);
        see("activations", c.activations + room.votes.activations);
        see("undecided", room.votes.waiting() as u64);
        see("unstable", room.deliverer.waiting() as u64);
    }

    pub(crate) fn reachability(&self, now: Instant) -> Vec<PeerReach> {
        self.vs.reachability(now)
    }

    pub(crate) fn describe(&self, now: Instant) -> String {
        let told = self.vs.describe(now);
        let waiting = self.room.as_ref().map_or(0, |room| room.votes.waiting());
        if waiting == 0 { told } else { format!("{told}; {waiting} messages wait for votes") }
    }
}
