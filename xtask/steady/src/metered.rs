//! A ring whose handling of packets can be told apart from what the node does around it.
use crate::measured;
use bytes::Bytes;
use consort_order::{Arrival, Capability, Engine, Lane, Link, Output, Reach, Refused, Submission};
use consort_ring::Ring;
use consort_ring::packet::Packet;
use consort_types::{Hold, Instant, MessageId, NodeId, Ticket, ViewId};

/// The ring as it is; tokens and data reach it through [`measured`].
#[derive(Debug)]
pub struct Metered(pub Ring);

impl Engine for Metered {
    type Packet = Packet;

    fn handle_packet(&mut self, now: Instant, arrival: Arrival, packet: Packet) {
        match packet {
            Packet::Token(token) => measured::token(&mut self.0, now, arrival, token),
            Packet::Data(data) => measured::data(&mut self.0, now, arrival, data),
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

    fn throttle(&mut self, room: usize) {
        self.0.throttle(room);
    }

    fn resume(&mut self, now: Instant, view: ViewId) {
        self.0.resume(now, view);
    }

    fn leave(&mut self, now: Instant) {
        self.0.leave(now);
    }

    fn poll_output(&mut self) -> Option<Output<Packet>> {
        self.0.poll_output()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    fn reads_first(&self) -> Lane {
        self.0.reads_first()
    }

    fn observe(&self, see: &mut dyn FnMut(&'static str, u64)) {
        self.0.observe(see);
    }

    fn reachability(&self, now: Instant) -> Vec<Reach> {
        self.0.reachability(now)
    }

    fn hold(&self) -> Option<Hold> {
        self.0.hold()
    }

    fn expects_soon(&self) -> bool {
        self.0.expects_soon()
    }

    fn describe(&self, now: Instant) -> String {
        self.0.describe(now)
    }
}
