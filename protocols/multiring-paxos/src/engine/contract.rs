//! As an engine.
use super::{Farewell, MultiRingPaxos};
use crate::config::Reads;
use crate::packet::{Content, Packet};
use crate::slot::RingId;
use bytes::Bytes;
use consort_order::{
    AcrossPartitions, Advice, Arrival, Capability, Engine, Fact, Lane, Link, Obstacle, Offers, Output, Refused,
    Submission, Topic,
};
use consort_types::{Class, Duration, Instant, MessageId, NodeId, OrderStream, OrderWait, Service, Ticket, ViewId};

/// How long a node that leaves waits for its messages.
const FAREWELL: Duration = Duration::from_millis(300);

impl Engine for MultiRingPaxos {
    type Packet = Packet;

    fn capability(&self) -> Capability {
        Capability {
            protocol: "multiring-paxos",
            services: &[Service::Agreed],
            offers: Offers::None,
            needs_arrival_times: false,
            quorum: true,
            durable: false,
            reliable_links: true,
            continues_in_minority: false,
            replays: false,
            across_partitions: AcrossPartitions::Evs,
        }
    }

    fn start(&mut self, now: Instant, records: &[Bytes]) {
        for (ring, engine) in &mut self.rings {
            engine.start(now, &Self::records_of(*ring, records));
        }
        self.settle(now);
    }

    fn submit(&mut self, now: Instant, submission: Submission) -> Result<MessageId, Refused> {
        let Submission { class, service, stream, payload } = submission;
        let Some(ring) = self.ring_of(class, stream) else { return Err(Refused::NoSuchStream { stream }) };
        match self.farewell {
            Farewell::Stays => {}
            // Its next incarnation takes it, or its client hears that this one has ended.
            Farewell::Restarts => return Err(self.outgoing.full()),
            Farewell::Sends { .. } | Farewell::Leaves => return Err(Refused::Leaving),
        }
        let id = self.outgoing.push(class, ring, service, payload)?;
        self.settle(now);
        Ok(id)
    }

    fn filters(&self) -> bool {
        self.config.reads == Reads::Groups
    }

    /// A topic is the number of a ring.
    fn read(&mut self, now: Instant, topics: &[Topic]) {
        let ring = |topic: &Topic| u8::try_from(topic.0).ok().map(RingId);
        self.wanted = Some(topics.iter().filter_map(ring).collect());
        self.settle(now);
    }

    fn reads(&self, topic: Topic) -> bool {
        let ring = u8::try_from(topic.0).ok().map(RingId);
        ring.is_none_or(|ring| self.is_read(ring))
    }

    fn handle_packet(&mut self, now: Instant, arrival: Arrival, packet: Packet) {
        let Packet { ring, content } = packet;
        match content {
            Content::Ring(packet) => {
                if let Some(engine) = self.rings.get_mut(&ring) {
                    engine.handle_packet(now, arrival, packet);
                }
            }
            Content::Wanted(said) => self.on_wanted(now, ring, said),
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.rings.values_mut().for_each(|ring| ring.handle_timeout(now));
        self.look_for_majorities(now);
        self.skip_on(now);
        self.settle(now);
    }

    /// With `memory` nothing is written.
    fn handle_persisted(&mut self, _now: Instant, _ticket: Ticket) {}

    fn handle_link(&mut self, now: Instant, peer: NodeId, link: Link) {
        self.rings.values_mut().for_each(|ring| ring.handle_link(now, peer, link));
        self.settle(now);
    }

    fn annotate(&mut self, annotation: Bytes) {
        if let Some(ring) = self.rings.get_mut(&self.config.global) {
            ring.annotate(annotation);
        }
    }

    fn advise(&mut self, now: Instant, advice: Advice) {
        //= MP90
        let ring = u8::try_from(advice.stream().0).ok().map(RingId);
        if let Some(engine) = ring.and_then(|ring| self.rings.get_mut(&ring)) {
            engine.advise(now, of_one_order(advice));
        }
    }

    fn resume(&mut self, now: Instant, view: ViewId) {
        if self.inside == Some(view) {
            self.open = true;
            self.settle(now);
        }
    }

    fn leave(&mut self, now: Instant) {
        if self.farewell == Farewell::Stays {
            self.farewell = Farewell::Sends { until: now + FAREWELL };
            self.settle(now);
        }
    }

    fn poll_output(&mut self) -> Option<Output<Packet>> {
        self.output.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.farewell == Farewell::Restarts {
            return None;
        }
        let rings = self.rings.values().filter_map(Engine::poll_timeout);
        let until = if let Farewell::Sends { until } = self.farewell { Some(until) } else { None };
        rings.chain(until).chain(self.next_pace()).min()
    }

    fn reads_first(&self) -> Lane {
        Lane::Data
    }

    fn obstacle(&self, now: Instant) -> Option<Obstacle> {
        //= MP95
        if self.farewell != Farewell::Stays {
            return Some(Obstacle::Leaving);
        }
        let read = self.rings.iter().filter(|(id, _)| **id == self.config.global || self.is_read(**id));
        let of_votes = read.filter_map(|(id, ring)| Some(ring.lack_of_votes(now)?.of_part(id.0.into())));
        of_votes
            .min_by_key(|obstacle| matches!(obstacle, Obstacle::Leaderless(_)))
            .or_else(|| self.inside.is_none().then_some(Obstacle::Outside))
            .or_else(|| self.is_apart().then_some(Obstacle::Apart))
    }

    fn wait_cause(&self) -> Option<OrderWait> {
        (!self.outgoing.is_empty()).then(|| self.cause_of_waits())
    }

    fn stalled(&self, topic: Topic) -> Option<OrderWait> {
        let ring = u8::try_from(topic.0).ok().map(RingId)?;
        self.dead_rings.contains_key(&ring).then_some(OrderWait::Ring(ring.0.into()))
    }

    fn observe(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        self.each_counter(now, &mut |name, value| see(Fact::Counter(name, value)));
        if let Some(global) = self.rings.get(&self.config.global) {
            global.observe(now, &mut |fact| {
                if let Fact::Peer(reach) = fact {
                    see(Fact::Peer(reach));
                }
            });
        }
        see(Fact::State(self.describe()));
        self.trouble(now).into_iter().for_each(|trouble| see(Fact::Trouble(trouble)));
        self.each_part(now, see);
    }
}

/// The same for the engine of one ring, which has one order.
fn of_one_order(advice: Advice) -> Advice {
    let stream = OrderStream(0);
    match advice {
        Advice::Leader { node, .. } => Advice::Leader { stream, node },
        Advice::Order { nodes, .. } => Advice::Order { stream, nodes },
    }
}

impl MultiRingPaxos {
    /// Control messages go to the global ring, and so does stream 0. Any other stream is the ring of its number.
    fn ring_of(&self, class: Class, stream: OrderStream) -> Option<RingId> {
        //= MP57
        if class == Class::Control || stream == OrderStream(0) {
            return Some(self.config.global);
        }
        let ring = RingId(u8::try_from(stream.0).ok()?);
        self.readings.contains_key(&ring).then_some(ring)
    }
}
