//! Handing out by stamps, and letting go.
use super::{MultiRing, Room, Stage};
use crate::carrier::Message;
use crate::horizon::Horizon;
use crate::key::Key;
use crate::packet::RelayedContent;
use consort_member::vs::PrimaryCall;
use consort_order::{Delivery, Output};
use consort_types::{Instant, MemberId, OrderStream, Service};

impl MultiRing {
    /// Does all that follows from an input. To be called after every one.
    pub(super) fn settle(&mut self, now: Instant) {
        loop {
            let drained = self.drain_rings(now);
            let obeyed = self.obey(now);
            let closed = self.answer_tell(now) | self.complete(now);
            let handed = self.hand_out();
            if handed {
                self.tell_soon(now);
            }
            self.offer(now);
            if !(drained | obeyed | closed | handed | self.send_on(now)) {
                break;
            }
        }
        self.let_go();
        if self.queue.has_room_again() {
            self.output.push_back(Output::Room);
        }
        self.may_leave(now);
    }

    /// Hands out what can be, while the view goes on. Whether there was any.
    fn hand_out(&mut self) -> bool {
        if !matches!(self.stage, Stage::Open | Stage::Halted) {
            return false;
        }
        let Some(mut room) = self.room.take() else { return false };
        let least = room.horizons.least();
        let any = self.hand_out_to(&mut room, least);
        self.room = Some(room);
        any
    }

    /// Hands out by keys what stands up to where everything has come, and up to the first safe message that is not held.
    pub(super) fn hand_out_to(&mut self, room: &mut Room, least: Horizon) -> bool {
        //= TM12
        //= TM14
        let mut any = false;
        let ignored = crate::mutated!(self.config, HorizonsIgnored);
        let by_reach = crate::mutated!(self.config, SafeByReach);
        let home = self.home().filter(|_| crate::mutated!(self.config, SafeAtHome));
        let held = home.map_or(least.held, |home| room.horizons.held_in(home));
        while let Some((key, member, message)) = room.store.next() {
            let safe = message.service != Service::Safe || key.stamp <= held || by_reach;
            if !(key.stamp <= least.reached || ignored) || !safe {
                break;
            }
            let message = message.clone();
            room.store.hand_out();
            let sender = room.view.members.get(member).copied().unwrap_or_default();
            self.hand(room, key, sender, message);
            any = true;
        }
        any
    }

    /// Hands out all that is left of a view whose members are reduced to those that go on together.
    pub(super) fn hand_out_rest(&mut self, room: &mut Room) {
        //= TM42
        room.call = PrimaryCall::Renounced; // a view that is being closed does not become primary any more
        let forgotten = crate::mutated!(self.config, RestForgotten);
        while let Some((key, member, message)) = room.store.next().filter(|_| !forgotten) {
            let message = message.clone();
            room.store.hand_out();
            let sender = room.view.members.get(member).copied().unwrap_or_default();
            self.hand(room, key, sender, message);
        }
    }

    fn hand(&mut self, room: &mut Room, key: Key, sender: MemberId, message: Message) {
        //= TM10
        self.counters.handed_out += 1;
        if message.makes_primary {
            if room.call == PrimaryCall::Awaited {
                room.call = PrimaryCall::Made;
                // Where the view is being closed, the membership has gone on to the next.
                if self.vs.view().id == room.view.id {
                    self.vs.became_primary();
                }
                self.output.push_back(Output::Primary(room.view.id));
            }
            return;
        }
        if message.passed {
            //= TM51
            self.counters.passed += 1;
            let (stream, position) = (OrderStream(0), key.position());
            self.output.push_back(Output::Passed { stream, position, sender });
            return;
        }
        let own = sender == self.vs.me();
        let id = if own { self.queue.delivered(message.class, message.service) } else { None };
        let delivery = Delivery {
            stream: OrderStream(0),
            position: key.position(),
            sender,
            id,
            class: message.class,
            service: message.service,
            payload: message.into_bytes(),
        };
        self.output.push_back(room.early.place(key, delivery));
    }

    /// Something was handed out: the others are to know soon.
    pub(super) fn tell_soon(&mut self, now: Instant) {
        //= TM21
        let at = now + self.config.tell;
        if let Some(room) = self.room.as_mut().filter(|room| room.view.members.len() > 1) {
            room.tell_at = room.tell_at.or(Some(at));
        }
    }

    pub(super) fn on_tell_timeout(&mut self, now: Instant) {
        let due = self.room.as_ref().and_then(|room| room.tell_at).is_some_and(|at| at <= now);
        if due {
            self.speak(now);
        }
    }

    /// Tells all members what this one has handed out.
    pub(super) fn speak(&mut self, now: Instant) {
        //= TM21
        let Some(room) = self.room.as_mut() else { return };
        room.tell_at = None;
        let (view, numbers) = (room.view.id, room.store.handed_out().to_vec());
        let silent = crate::mutated!(self.config, TellsNothing);
        if matches!(self.stage, Stage::Open | Stage::Halted) && !silent {
            self.say(None, RelayedContent::HandedOut { view, numbers });
            self.vs.spoke(now);
        }
    }

    /// A member told what it has handed out.
    pub(super) fn on_handed_out(&mut self, from: MemberId, numbers: &[u64]) {
        //= TM21
        if let Some(room) = &mut self.room
            && let Some(member) = room.index(from)
        {
            room.store.note(member, numbers);
        }
    }

    fn let_go(&mut self) {
        let early = crate::mutated!(self.config, ReleasedEarly);
        if let Some(room) = self.room.as_mut().filter(|_| matches!(self.stage, Stage::Open | Stage::Halted)) {
            if early {
                let own = room.store.handed_out().to_vec();
                (0..own.len()).for_each(|member| room.store.note(member, &own));
            }
            room.store.release();
        }
    }

    /// A leaving member goes once all it sent is known to be handed out everywhere.
    fn may_leave(&mut self, now: Instant) {
        //= M15
        let done = self.queue.is_empty() && self.queue.all_delivered() && self.under_way() == 0;
        if self.vs.is_leaving() && self.vs.is_working() && done {
            self.vs.depart(now);
            self.obey(now);
            self.drain_rings(now);
        }
    }
}
