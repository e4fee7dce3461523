//! The ring as an engine.
use super::{Ring, RingState, observe_old};
use crate::installation::{Installation, Old};
use crate::packet::RingPacket;
use crate::state::{StateChange, Why};
use crate::store::Store;
use crate::timer::{Fired, Timer};
use bytes::Bytes;
use consort_member::ViewNumbers;
use consort_order::{
    AcrossPartitions, Arrival, Capability, Engine, Fact, Link, Obstacle, Offers, Output, PeerReach, Pressure, Refused,
    Submission,
};
use consort_types::{Instant, MessageId, NodeId, OrderStream, OrderWait, Seq, Service, Ticket, ViewCause, ViewId};
use consort_wire::Lane;

impl Engine for Ring {
    type Packet = RingPacket;

    fn capability(&self) -> Capability {
        Capability {
            protocol: "ring",
            services: &[Service::Agreed, Service::Safe],
            offers: Offers::None,
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
        //= M04
        self.io.presence.recall(records);
        if crate::mutated!(self.io.config, BeginsAtZero) {
            self.io.presence.numbers = ViewNumbers::new(0);
        }
        let view = self.io.presence.first_view(self.io.config.primary.never());
        self.io.installed_number = view.id.number;
        self.io.output.push_back(Output::Install(view.clone()));
        let old = Old {
            installed: Installation::new(self.io.me, view, Seq(0)),
            store: Store::default(),
            stable: Seq(0),
            frozen: 0,
        };
        (self.state, _) = self.gather(now, old, None, &Why::new(ViewCause::Started));
        self.send_beacon(now);
        self.finish(now, StateChange::Stay);
    }

    fn submit(&mut self, now: Instant, submission: Submission) -> Result<MessageId, Refused> {
        if submission.stream != OrderStream(0) {
            return Err(Refused::NoSuchStream { stream: submission.stream });
        }
        if self.io.leaving {
            return Err(Refused::Leaving);
        }
        let id = self.io.queue.push(submission)?;
        if let RingState::Operational(state) = &mut self.state {
            state.nudge(&mut self.io, now);
        }
        Ok(id)
    }

    fn handle_packet(&mut self, now: Instant, arrival: Arrival, packet: RingPacket) {
        self.note_pause(now);
        if !self.io.config.members.contains(&arrival.from.node) {
            self.io.counters.strangers += 1;
            return;
        }
        if !arrival.from.incarnation.is_plausible() {
            //= M07
            self.io.counters.implausible += 1;
            return;
        }
        if arrival.from.node == self.io.me.node {
            self.io.note_own_incarnation(now, arrival.from);
            return;
        }
        let next = match packet {
            RingPacket::Data(_)
            | RingPacket::Token(_)
            | RingPacket::Ack(_)
            | RingPacket::TokenRequest(_)
            | RingPacket::Reach(_) => {
                if !self.knows(arrival.from) {
                    return;
                }
                if !self.io.is_stamped_as_here(&packet) {
                    self.io.counters.implausible += 1;
                    return;
                }
                self.io.presence.heard.refresh(arrival.from, now);
                self.on_regular(now, &arrival, packet)
            }
            _ if self.io.heeds(now, &arrival) => {
                let next = self.on_membership(now, &arrival, packet);
                self.follow();
                next
            }
            _ => StateChange::Stay,
        };
        self.finish(now, next);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.note_pause(now);
        let mut fired = Fired::default();
        while let Some(timer) = self.io.timers.take_due(now, &mut fired) {
            let next = self.expire(now, timer);
            self.go(now, next);
        }
        self.follow();
        self.finish(now, StateChange::Stay);
    }

    fn handle_persisted(&mut self, now: Instant, _ticket: Ticket) {
        //= M03
        self.io.presence.numbers.reserved();
        let next = match &mut self.state {
            RingState::Gather(state) => state.try_commit(&mut self.io, now),
            _ => StateChange::Stay,
        };
        self.finish(now, next);
    }

    // The ring uses no reliable lane.
    fn handle_link(&mut self, _now: Instant, _peer: NodeId, _link: Link) {}

    fn handle_pressure(&mut self, pressure: Pressure) {
        match pressure {
            Pressure::Room(room) => self.io.room = room,
            Pressure::Overflow => self.io.backlog.overflowed = true,
        }
    }

    fn annotate(&mut self, annotation: Bytes) {
        self.io.presence.annotate(&annotation);
    }

    fn resume(&mut self, now: Instant, view: ViewId) {
        if self.io.queue.open_gate(view)
            && let RingState::Operational(state) = &mut self.state
        {
            state.nudge(&mut self.io, now);
        }
    }

    fn leave(&mut self, now: Instant) {
        //= M15
        if std::mem::replace(&mut self.io.leaving, true) {
            return;
        }
        self.io.timers.arm(Timer::Leave, now + self.io.timeouts.leave);
        let next = match &mut self.state {
            RingState::Operational(state) => {
                state.rotation.ask(&mut self.io, now);
                state.may_leave(&self.io)
            }
            _ => StateChange::Leave,
        };
        self.finish(now, next);
    }

    fn poll_output(&mut self) -> Option<Output<RingPacket>> {
        self.io.output.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.io.timers.next()
    }

    fn reads_first(&self) -> Lane {
        match &self.state {
            RingState::Operational(state) => state.rotation.reads_first(),
            RingState::Recovery(state) => state.rotation.reads_first(),
            _ => Lane::Data,
        }
    }

    fn obstacle(&self, _now: Instant) -> Option<Obstacle> {
        //= R50
        match &self.state {
            _ if self.io.leaving => Some(Obstacle::Leaving),
            RingState::Operational(_) => None,
            _ => Some(Obstacle::Membership),
        }
    }

    fn wait_cause(&self) -> Option<OrderWait> {
        //= R38
        if self.io.queue.is_empty() && self.io.queue.all_delivered() {
            return None;
        }
        Some(match &self.state {
            RingState::Operational(state) => state.wait_cause(&self.io.queue),
            _ => OrderWait::Membership,
        })
    }

    fn observe(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        self.each_counter(&mut |name, value| see(Fact::Counter(name, value)));
        self.reachability(now).into_iter().for_each(|reach| see(Fact::Peer(reach)));
        see(Fact::State(self.describe(now)));
    }
}

impl Ring {
    pub(crate) fn each_counter(&self, see: &mut dyn FnMut(&'static str, u64)) {
        self.io.counters.observe(see);
        see("personal_window", u64::from(self.io.personal));
        see("delay_us", self.io.delay.as_micros() as u64);
        see("queued_bytes", self.io.queue.bytes() as u64);
        see("assembly_bytes", self.installed().map_or(0, |installed| installed.deliverer.held()) as u64);
        see("torn_messages", self.installed().map_or(0, |installed| installed.deliverer.torn));
        match &self.state {
            RingState::Operational(state) => state.rotation.observe(see),
            RingState::Recovery(state) => state.rotation.observe(see),
            RingState::Gather(state) => observe_old(&state.old, see),
            RingState::Commit(state) => observe_old(&state.old, see),
            RingState::Still | RingState::Left => {}
        }
    }

    pub(crate) fn reachability(&self, now: Instant) -> Vec<PeerReach> {
        self.io.presence.reachability(&self.io.config.members, now)
    }

    pub(crate) fn describe(&self, now: Instant) -> String {
        let (state, delay) = (self.describe_state(now), self.io.delay);
        let far = if delay.is_zero() { String::new() } else { format!("; {} ms one way", delay.as_millis()) };
        self.io.presence.describe(now, state + &far)
    }
}

impl Ring {
    fn describe_state(&self, now: Instant) -> String {
        match &self.state {
            RingState::Still => "not started".into(),
            RingState::Gather(state) => state.gathering.describe("commit token"),
            RingState::Commit(state) => state.describe(),
            RingState::Recovery(state) => state.describe(),
            RingState::Operational(state) => state.describe(now),
            RingState::Left => "left".into(),
        }
    }
}
