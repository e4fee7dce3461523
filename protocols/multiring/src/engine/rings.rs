//! What the rings' engines hand out.
use super::{MultiRing, Stage, cost_of, early};
use crate::carrier::{CarriedMessage, Carrier, CarrierContent};
use crate::horizon::Horizon;
use crate::key::{Key, RingNumber};
use crate::packet::{Content, Packet, RelayedContent};
use crate::port::{Part, Phase, Port};
use crate::store::Taken;
use consort_order::{Delivery, Engine, Output};
use consort_ring::STAMP_END;
use consort_ring::packet::RingPacket;
use consort_types::{Instant, MemberId, View, ViewId, ViewKind};
use std::collections::BTreeSet;

/// What a ring handed out, and where in its order.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The ring, as it is described.
    port: RingNumber,
    /// The same in the view; none where this node stands by.
    ring: Option<RingNumber>,
    stamp: u64,
    sender: MemberId,
    /// It belongs to the ring's configuration itself, so nothing before it is missing.
    regular: bool,
}

impl MultiRing {
    /// Takes all that the rings hand out. Whether there was anything.
    pub(super) fn drain_rings(&mut self, now: Instant) -> bool {
        let mut any = false;
        for ring in self.ports.keys().copied().collect::<Vec<_>>() {
            while let Some(output) = self.ports.get_mut(&ring).and_then(|port| port.ring.poll_output()) {
                self.on_output(now, ring, output);
                any = true;
            }
        }
        any
    }

    fn on_output(&mut self, now: Instant, ring: RingNumber, output: Output<RingPacket>) {
        match output {
            Output::Send { to, lane, packet } => {
                let packet = Packet { ring, content: Content::Ring(packet) };
                self.output.push_back(Output::Send { to, lane, packet });
            }
            Output::Deliver(delivery) => self.on_delivery(now, ring, delivery),
            Output::Install(view) => self.on_configuration(now, ring, view),
            Output::Persist { ticket, record, sync } => {
                let (ticket, record) = self.journal.add(ring.0, ticket, &record);
                self.output.push_back(Output::Persist { ticket, record, sync });
            }
            Output::Trim { up_to } => {
                let up_to = self.journal.trim(ring.0, up_to);
                self.output.extend(up_to.map(|up_to| Output::Trim { up_to }));
            }
            Output::Left => self.on_ring_left(ring),
            // Views, beacons and stability of a ring are not those of the network; room is tried again each time.
            _ => {}
        }
    }

    /// A ring has another configuration, or begins to close the one it has.
    fn on_configuration(&mut self, now: Instant, ring: RingNumber, view: View) {
        //= TM31
        let Some(port) = self.ports.get_mut(&ring) else { return };
        if view.kind == ViewKind::Transitional {
            port.closing = true;
            return;
        }
        let id = view.id;
        port.ring.resume(now, id);
        port.enter(view);
        let had_begun = port.part == Part::Begun;
        if had_begun {
            port.part = Part::Over;
            port.drop_out();
        }
        let lost = self.note_lost(ring);
        let gone = self.out_of_reach();
        if had_begun || lost || !gone.is_empty() {
            self.vs.part(now, &gone);
        }
        self.begin(ring);
        self.mend(now);
    }

    /// Notes which members of the view a ring's configuration lacks, and tells others of those that they may still hear by other
    /// rings: perhaps nobody does. Whether it lacks any.
    fn note_lost(&mut self, ring: RingNumber) -> bool {
        //= TM33
        let (Some(room), Some(port)) = (&mut self.room, self.ports.get(&ring)) else { return false };
        let (Some(number), Some(view)) = (room.tree.number_of(ring), &port.view) else { return false };
        let here: BTreeSet<_> = view.members.iter().copied().collect();
        let lost: Vec<_> =
            room.tree.standing(number).into_iter().flatten().filter(|member| !here.contains(member)).collect();
        let elsewhere = lost.iter().any(|member| room.tree.stands_elsewhere(number, **member));
        let any = !lost.is_empty();
        room.tree.part(number, &here);
        let members = here.iter().filter_map(|member| u16::try_from(room.index(*member)?).ok()).collect();
        let view = room.view.id;
        if elsewhere && !crate::mutated!(self.config, LossUntold) {
            self.say(None, RelayedContent::Parted { view, ring: number, members });
        }
        any
    }

    /// Others of the view tell who is left in a ring.
    pub(super) fn on_parted(&mut self, now: Instant, ring: RingNumber, members: &[u16]) {
        //= TM33
        let Some(room) = &mut self.room else { return };
        let named = members.iter().filter_map(|index| room.view.members.get(usize::from(*index)).copied());
        room.tree.part(ring, &named.collect());
        let gone = self.out_of_reach();
        if !gone.is_empty() {
            self.vs.part(now, &gone);
        }
    }

    /// Members of the view that cannot be reached any more on any way.
    fn out_of_reach(&self) -> Vec<MemberId> {
        //= TM33
        let Some(room) = &self.room else { return Vec::new() };
        let reached = room.tree.within_reach();
        room.view.members.iter().copied().filter(|member| !reached.contains(member)).collect()
    }

    /// Asks for another view where the rings are not as the members of this one told: their configurations have changed since.
    pub(super) fn mend(&mut self, now: Instant) {
        //= TM63
        let Some(room) = self.room.as_ref().filter(|_| !crate::mutated!(self.config, MendsNothing)) else { return };
        let unlike = |port: &Port| {
            let none = BTreeSet::new();
            let standing = room.tree.number_of(port.number).and_then(|ring| room.tree.standing(ring)).unwrap_or(&none);
            port.view.is_some() && !port.is_made_of(standing, &room.view)
        };
        if self.ports.values().any(unlike) {
            self.vs.renew(now);
        }
    }

    fn on_delivery(&mut self, now: Instant, ring: RingNumber, delivery: Delivery) {
        let stamp = delivery.position.0;
        let Some(port) = self.ports.get(&ring) else { return };
        let (regular, in_view) = (!port.closing, port.in_view);
        if stamp == 0 || stamp >= STAMP_END {
            self.counters.unreadable += 1;
            return;
        }
        self.raise_clock(stamp);
        let place = Place { port: ring, ring: in_view, stamp, sender: delivery.sender, regular };
        match Carrier::decode(delivery.payload) {
            Ok(carrier) => self.on_carrier(now, place, carrier),
            Err(_) => self.counters.unreadable += 1,
        }
    }

    /// No stamp that this node gives from now on is below what it has seen, on whichever ring.
    fn raise_clock(&mut self, stamp: u64) {
        //= TM11
        if stamp > self.clock {
            self.clock = stamp;
            if !crate::mutated!(self.config, ClocksIgnored) {
                self.ports.values_mut().for_each(|port| port.ring.raise_clock(stamp));
            }
        }
    }

    fn on_carrier(&mut self, now: Instant, place: Place, carrier: Carrier) {
        let Carrier { view, content } = carrier;
        match content {
            CarrierContent::Begin(configuration) => self.on_begin(place, view, configuration),
            CarrierContent::End(configuration) => self.on_end(now, place, view, configuration),
            content if self.room.as_ref().is_some_and(|room| room.view.id == view) => {
                self.on_content(place, content);
            }
            _ => self.counters.void += 1,
        }
    }

    fn on_begin(&mut self, place: Place, view: ViewId, configuration: ViewId) {
        //= TM30
        let Some(port) = self.ports.get_mut(&place.port) else { return };
        if port.configuration() != Some(configuration) {
            self.counters.void += 1;
            return;
        }
        port.on_begin(view, place.sender);
        if self.phase(place.port) == Phase::Open {
            self.reach(place);
        }
    }

    fn on_end(&mut self, now: Instant, place: Place, view: ViewId, configuration: ViewId) {
        //= TM32
        let me = self.me();
        let Some(port) = self.ports.get_mut(&place.port) else { return };
        if port.view.as_ref().map(|view| view.id) != Some(configuration) {
            self.counters.void += 1;
            return;
        }
        port.on_end(view);
        if self.room.as_ref().is_none_or(|room| room.view.id != view) {
            return;
        }
        if place.sender == me && port.part == Part::Begun {
            port.part = Part::Over;
        }
        self.vs.renew(now);
    }

    /// How far a ring is with the installed view.
    pub(super) fn phase(&self, ring: RingNumber) -> Phase {
        let (Some(room), Some(port)) = (&self.room, self.ports.get(&ring)) else { return Phase::Forming };
        let carrying = port.in_view.and_then(|number| room.tree.carrying(number));
        carrying.map_or(Phase::Forming, |members| port.phase(room.view.id, members))
    }

    /// What a ring's order says by a place in it: what is first sent on that ring from there on has higher stamps.
    fn reach(&mut self, place: Place) {
        //= TM12
        let counts = place.regular || crate::mutated!(self.config, ClosingCounts);
        if let Some((room, ring)) = self.room.as_mut().zip(place.ring).filter(|_| counts) {
            room.horizons.reach(ring, ring, place.stamp);
        }
    }

    fn on_content(&mut self, place: Place, content: CarrierContent) {
        let phase = self.phase(place.port);
        let own = place.sender == self.me();
        let begun = self.ports.get(&place.port).is_some_and(|port| port.part == Part::Begun);
        let open = match phase {
            Phase::Open => begun,
            Phase::Shut => begun && own,
            Phase::Forming => begun && crate::mutated!(self.config, BeginsUnasked),
        };
        if !open || !matches!(self.stage, Stage::Open | Stage::Halted) {
            self.counters.void += 1;
            return;
        }
        if phase == Phase::Open {
            self.reach(place);
        }
        match content {
            CarrierContent::Data(data) => self.on_data(place, phase, data),
            CarrierContent::Passed(messages) => self.on_passed(place, phase, messages),
            CarrierContent::Horizons(entries) if phase == Phase::Open && place.regular => {
                self.on_horizons(place, &entries);
            }
            CarrierContent::Reads(reads) if phase == Phase::Open && place.regular => {
                self.on_reads((place.port, place.sender), reads);
            }
            CarrierContent::Echo(echo) if phase == Phase::Open && place.regular => {
                self.on_echo((place.port, place.sender), echo);
            }
            _ => {}
        }
    }

    fn on_horizons(&mut self, place: Place, entries: &[(RingNumber, Horizon)]) {
        //= TM13
        let me = self.me();
        if let Some(port) = self.ports.get_mut(&place.port).filter(|_| place.sender == me) {
            port.telling = false;
        }
        let Some((room, own)) = self.room.as_mut().zip(place.ring) else { return };
        for (ring, horizon) in entries {
            room.horizons.reach(own, *ring, horizon.reached);
            room.horizons.hold(*ring, horizon.held);
        }
    }

    /// Messages came without their bytes: they stand where they stand for all.
    fn on_passed(&mut self, place: Place, phase: Phase, messages: Vec<CarriedMessage>) {
        //= TM51
        let me = self.me();
        if let Some(port) = self.ports.get_mut(&place.port).filter(|_| place.sender == me) {
            port.passing = false;
        }
        messages.into_iter().for_each(|data| self.on_data(place, phase, data));
    }

    /// A message came by a ring: on its first one, or sent on by a gateway.
    fn on_data(&mut self, place: Place, phase: Phase, data: CarriedMessage) {
        //= TM20
        let Some((room, own)) = self.room.as_mut().zip(place.ring) else { return };
        let member = usize::from(data.member);
        let first = data.ring == own;
        let sound = if first {
            data.stamp == 0 && !data.message.passed && room.view.members.get(member) == Some(&place.sender)
        } else {
            data.stamp > 0
        };
        if !sound {
            self.counters.unreadable += 1;
            return;
        }
        let by_place = first || crate::mutated!(self.config, StampsAnew);
        let key = Key { stamp: if by_place { place.stamp } else { data.stamp }, ring: data.ring };
        if place.regular && phase == Phase::Open && !first {
            //= TM12
            room.horizons.reach(own, key.ring, key.stamp);
        }
        match room.store.take(member, data.number, key, data.message.clone()) {
            Taken::Known => return,
            Taken::Refused => {
                self.counters.refused += 1;
                return;
            }
            Taken::New => room.store.note_done(member, data.done),
        }
        if early::may_be_offered(&data.message) || crate::mutated!(self.config, EarlyAll) {
            room.early.came(member, data.number);
        }
        room.wanted = room.wanted.max(key.stamp);
        if data.message.service == consort_types::Service::Safe {
            room.wanted_safe = room.wanted_safe.max(key.stamp);
        }
        if first
            && place.sender == self.vs.me()
            && let Some((_, body)) = room.sent.pop_front()
        {
            room.sent_bytes -= cost_of(body.as_ref());
        }
        if place.regular && phase == Phase::Open && matches!(self.stage, Stage::Open) {
            self.forward(place.port, CarriedMessage { stamp: key.stamp, ..data });
        }
    }
}
