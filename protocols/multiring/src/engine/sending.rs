//! What this node puts on its rings: its own messages, what it sends on, what it knows of the rings behind it, and where views
//! begin and end.
use super::{MultiRing, Stage, cost_of};
use crate::carrier::{CarriedMessage, Carrier, CarrierContent, Message};
use crate::horizon::Horizon;
use crate::key::RingNumber;
use crate::port::{Part, Phase};
use consort_types::{Class, Instant, Service, ViewId};

impl MultiRing {
    pub(super) fn put(&mut self, ring: RingNumber, view: ViewId, content: CarrierContent) {
        if let Some(port) = self.ports.get_mut(&ring) {
            //= TM51
            if !crate::mutated!(self.config, PassedLate) {
                port.tell_passed(view);
            }
            port.push(Carrier { view, content });
        }
    }

    /// Says on a ring that the installed view begins there, if the ring has exactly the view's members.
    pub(super) fn begin(&mut self, ring: RingNumber) {
        //= TM30
        let (Some(room), Some(port)) = (&self.room, self.ports.get_mut(&ring)) else { return };
        let Some(configuration) = port.configuration() else { return };
        let standing = port.in_view.filter(|_| room.tree.is_connected()).and_then(|number| room.tree.standing(number));
        let same = standing.is_some_and(|standing| port.is_made_of(standing, &room.view));
        if port.part != Part::Apart || !matches!(self.stage, Stage::Open) || !same {
            return;
        }
        port.part = Part::Begun;
        port.push_first(Carrier { view: room.view.id, content: CarrierContent::Begin(configuration) });
    }

    /// Says on all rings that the installed view ends. Nothing of it is sent behind that.
    pub(super) fn end(&mut self) {
        //= TM32
        let Some(view) = self.room.as_ref().map(|room| room.view.id) else { return };
        for ring in self.ports.keys().copied().collect::<Vec<_>>() {
            let Some(port) = self.ports.get_mut(&ring) else { continue };
            match (port.part, port.configuration()) {
                (Part::Begun, Some(configuration)) => {
                    let begins = |carrier: &Carrier| matches!(carrier.content, CarrierContent::Begin(_));
                    let begin_waits = port.out.iter().any(begins);
                    port.drop_out();
                    if begin_waits {
                        port.part = Part::Over;
                    } else {
                        self.put(ring, view, CarrierContent::End(configuration));
                    }
                }
                // Its next configuration ends the view there.
                (Part::Begun, None) => port.drop_out(),
                (Part::Apart, _) => port.part = Part::Over,
                (Part::Over, _) => {}
            }
        }
    }

    /// Sends on in all other rings what came by one, where somebody reads it.
    pub(super) fn forward(&mut self, from: RingNumber, data: CarriedMessage) {
        //= TM22
        let Some(view) = self.room.as_ref().map(|room| room.view.id) else { return };
        if crate::mutated!(self.config, ForwardsNothing) {
            return;
        }
        let forgets = crate::mutated!(self.config, PassedForgotten);
        for ring in self.carried_but(Some(from)) {
            let Some(port) = self.ports.get_mut(&ring) else { continue };
            if data.message.passed {
                port.pass(view, &data);
            } else if port.is_unread(&data) {
                self.counters.filtered += 1;
                self.counters.filtered_bytes += data.message.payload.len() as u64;
                if !forgets {
                    port.pass(view, &data);
                }
            } else {
                self.counters.forwarded += 1;
                self.put(ring, view, CarrierContent::Data(data.clone()));
            }
        }
    }

    /// Sends what may be sent. Whether anything went.
    pub(super) fn send_on(&mut self, now: Instant) -> bool {
        let mut any = self.tell_reads() | self.send_own();
        for ring in self.ports.keys().copied().collect::<Vec<_>>() {
            any |= self.send_out(now, ring);
            any |= self.tell_horizons(now, ring);
            any |= self.tell_passed(now, ring);
        }
        any
    }

    /// Hands what waits for a ring to it. Messages wait until all have begun.
    fn send_out(&mut self, now: Instant, ring: RingNumber) -> bool {
        //= TM30
        let unasked = crate::mutated!(self.config, BeginsUnasked);
        let open = self.phase(ring) == Phase::Open || unasked;
        let Some(port) = self.ports.get_mut(&ring) else { return false };
        let free = match port.out.front().map(|carrier| &carrier.content) {
            None => return false,
            Some(CarrierContent::Begin(_) | CarrierContent::End(_)) => true,
            Some(_) => open,
        };
        free && port.send(now, open)
    }

    /// Sends own messages, as far as what is under way leaves room.
    fn send_own(&mut self) -> bool {
        //= TM23
        let Some(home) = self.home().filter(|_| matches!(self.stage, Stage::Open)) else { return false };
        let unasked = crate::mutated!(self.config, BeginsUnasked);
        let begun = self.ports.get(&home).is_some_and(|port| port.part == Part::Begun);
        if !begun || self.phase(home) != Phase::Open && !unasked {
            return false;
        }
        let mut any = false;
        if std::mem::take(&mut self.primary_due) {
            let (class, service) = (Class::Control, Service::Agreed);
            let message = Message { class, service, makes_primary: true, passed: false, payload: Default::default() };
            self.originate(home, message, None);
            any = true;
        }
        while self.queue.is_ready() && self.under_way() < self.config.credit {
            let Some(body) = self.queue.next_whole(0) else { break };
            let Some(chunk) = body.chunks().next() else { break };
            let message = Message {
                class: chunk.class,
                service: chunk.service,
                makes_primary: false,
                passed: false,
                payload: chunk.bytes.into(),
            };
            self.originate(home, message, Some(body));
            any = true;
        }
        any
    }

    /// The bytes of own messages that are not known to be handed out by all, with what it takes to hold them.
    pub(super) fn under_way(&self) -> usize {
        self.room.as_ref().map_or(0, |room| room.sent_bytes + room.store.bytes().1)
    }

    fn originate(&mut self, home: RingNumber, message: Message, body: Option<consort_wire::pack::Body>) {
        let me = self.me();
        let Some(room) = &mut self.room else { return };
        let Some(member) = room.index(me).and_then(|index| u16::try_from(index).ok()) else { return };
        let Some(ring) = self.ports.get(&home).and_then(|port| port.in_view) else { return };
        room.last += 1;
        room.sent_bytes += cost_of(body.as_ref());
        room.sent.push_back((room.last, body));
        let done = room.store.done(usize::from(member));
        let data = CarriedMessage { member, number: room.last, done, ring, stamp: 0, message };
        let view = room.view.id;
        self.put(home, view, CarrierContent::Data(data));
    }

    /// Tells the nodes of a ring what was not sent on there, where nothing else goes behind it. Whether it did.
    fn tell_passed(&mut self, now: Instant, ring: RingNumber) -> bool {
        //= TM51
        let Some(view) = self.room.as_ref().map(|room| room.view.id) else { return false };
        let open = matches!(self.stage, Stage::Open) && self.phase(ring) == Phase::Open;
        let Some(port) = self.ports.get_mut(&ring).filter(|port| !port.passing && !port.passed.is_empty()) else {
            return false;
        };
        if open {
            port.tell_passed(view);
            port.passing = true;
            self.send_out(now, ring);
        }
        open
    }

    /// Tells the nodes of a ring of the rings behind this one, where some message there may wait for that. Whether it did.
    fn tell_horizons(&mut self, now: Instant, ring: RingNumber) -> bool {
        //= TM13
        let early = crate::mutated!(self.config, TellsEarly);
        let Some(port) = self.ports.get(&ring).filter(|port| !port.telling) else { return false };
        if self.carried_but(Some(ring)).is_empty()
            || !matches!(self.stage, Stage::Open)
            || self.phase(ring) != Phase::Open
        {
            return false;
        }
        let Some(room) = &self.room else { return false };
        let news = |(behind, horizon): &(RingNumber, Horizon)| {
            let told = port.told.get(behind).copied().unwrap_or_default();
            told.reached < room.wanted && horizon.reached > told.reached
                || told.held < room.wanted_safe && horizon.held > told.held
        };
        let entries = self.behind(ring);
        if !entries.iter().any(news) {
            return false;
        }
        let view = room.view.id;
        if let Some(port) = self.ports.get_mut(&ring) {
            port.told = entries.iter().copied().collect();
            port.telling = true;
        }
        self.counters.horizons_sent += 1;
        self.put(ring, view, CarrierContent::Horizons(entries));
        if let Some(port) = self.ports.get_mut(&ring).filter(|_| early) {
            port.out.rotate_right(1);
        }
        self.send_out(now, ring);
        true
    }

    /// What this node knows of each ring that the nodes of `ring` reach by it: by the order of the ring that leads there, all of
    /// which was sent on before.
    fn behind(&self, ring: RingNumber) -> Vec<(RingNumber, Horizon)> {
        //= TM13
        //= TM15
        let Some(room) = &self.room else { return Vec::new() };
        let others = self.ports.iter().filter(|(other, _)| **other != ring).filter_map(|(_, port)| port.in_view);
        let entries = others.flat_map(|other| room.tree.beyond(other).map(move |behind| (other, behind)));
        let known = entries.filter(|(_, behind)| room.horizons.rings().contains(behind)).map(|(other, behind)| {
            let reached = room.horizons.reached_in(other, behind);
            (behind, Horizon { reached, held: room.horizons.held_in(behind) })
        });
        known.collect()
    }
}
