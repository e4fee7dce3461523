//! A ring whose handling of packets can be told apart from what the node does around it.
use crate::operations;
use bytes::Bytes;
use consort_order::{Arrival, Capability, Engine, Fact, Lane, Link, Obstacle, Output, Pressure, Refused, Submission};
use consort_ring::Ring;
use consort_ring::packet::RingPacket;
use consort_types::{Instant, MessageId, NodeId, OrderWait, Ticket, ViewId};

/// The ring as it is; tokens and data reach it through [`operations`].
#[derive(Debug)]
pub struct MeteredRing(pub Ring);

impl Engine for MeteredRing {
    type Packet = RingPacket;

    fn handle_packet(&mut self, now: Instant, arrival: Arrival, packet: RingPacket) {
        match packet {
            RingPacket::Token(token) => operations::token(&mut self.0, now, arrival, token),
            RingPacket::Data(data) => operations::data(&mut self.0, now, arrival, data),
            other => self.0.handle_packet(now, arrival, other),
        }
    }

    fn capability(&self) -> Capability {
        self.0.capability()
    }

    fn start(&mut self, now: Instant, records: &[Bytes]) {
        self.0.start(now, records);
    }

    fn submit(&mut self, now: Instant, submission: Submission) -> Result<MessageId, Refused> {
        self.0.submit(now, submission)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn handle_persisted(&mut self, now: Instant, ticket: Ticket) {
        self.0.handle_persisted(now, ticket);
    }

    fn handle_link(&mut self, now: Instant, peer: NodeId, link: Link) {
        self.0.handle_link(now, peer, link);
    }

    fn annotate(&mut self, annotation: Bytes) {
        self.0.annotate(annotation);
    }

    fn handle_pressure(&mut self, pressure: Pressure) {
        self.0.handle_pressure(pressure);
    }

    fn resume(&mut self, now: Instant, view: ViewId) {
        self.0.resume(now, view);
    }

    fn leave(&mut self, now: Instant) {
        self.0.leave(now);
    }

    fn poll_output(&mut self) -> Option<Output<RingPacket>> {
        self.0.poll_output()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    fn reads_first(&self) -> Lane {
        self.0.reads_first()
    }

    fn obstacle(&self, now: Instant) -> Option<Obstacle> {
        self.0.obstacle(now)
    }

    fn wait_cause(&self) -> Option<OrderWait> {
        self.0.wait_cause()
    }

    fn observe(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        self.0.observe(now, see);
    }
}
