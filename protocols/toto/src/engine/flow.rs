//! Sending: messages as windows allow, acknowledgements as others need them, requests for what is lost; and taking in.
use super::room::Room;
use super::{ClosingStage, Toto};
use crate::config::{ACK, ACK_GAP};
use crate::dag::DagMark;
use crate::delivery::{DeliveryContext, is_ordered};
use crate::packet::{ACK_LEN, DagContent, DagMessage, HEAD_LEN, HoldingsStatus, Nak, TotoPacket};
use crate::repair::whom;
use consort_member::vs::PrimaryCall;
use consort_order::{Destination, Lane, Output};
use consort_types::{Instant, MemberId, OrderStream};

/// From this number on a view is formed anew, long before numbers run out.
const RENEW_AT: u64 = crate::packet::K_END / 2;

impl Toto {
    fn send(&mut self, to: Destination, packet: TotoPacket) {
        self.output.push_back(Output::Send { to, lane: Lane::Data, packet });
    }

    /// A packet of the installed view came from one of its members.
    pub(super) fn on_packet(&mut self, now: Instant, from: MemberId, packet: TotoPacket) {
        match packet {
            TotoPacket::Message(message) => self.on_message(message),
            TotoPacket::Nak(nak) => self.on_nak(now, &nak),
            TotoPacket::Status(status) => self.on_status(from, &status),
            TotoPacket::Member(_) => {}
        }
    }

    fn on_message(&mut self, message: DagMessage) {
        let mark = (usize::from(message.sender), message.k);
        let Some(room) = &mut self.room else { return };
        room.repair.seen(mark);
        //= A30
        let open = match &self.stage {
            ClosingStage::Open | ClosingStage::Halted => true,
            ClosingStage::Frozen => crate::mutated!(self.config, TakenAfterTelling),
            ClosingStage::Fetching(cut) => {
                let agreed = cut.held.get(mark.0).is_some_and(|held| mark.1 <= *held);
                agreed || crate::mutated!(self.config, TakenAfterTelling)
            }
        };
        let made_up = mark.0 == room.dag.me();
        if !open || made_up || room.dag.take(message) == crate::dag::Insertion::Useless {
            self.counters.useless += 1;
            return;
        }
        self.insert_all();
    }

    fn insert_all(&mut self) {
        while let Some(mark) = self.insert_next() {
            self.inserted(mark);
        }
    }

    fn insert_next(&mut self) -> Option<DagMark> {
        let room = self.room.as_mut()?;
        #[cfg(feature = "mutants")]
        if crate::mutated!(self.config, InsertedBlindly) {
            return room.dag.insert_blindly();
        }
        //= A30
        let agreed = match &self.stage {
            ClosingStage::Fetching(cut) if !crate::mutated!(self.config, ParkedTaken) => Some(&cut.held[..]),
            _ => None,
        };
        room.dag.insert_next(agreed)
    }

    /// A message was inserted, this member's or another's.
    fn inserted(&mut self, mark: DagMark) {
        let Some(room) = &mut self.room else { return };
        let Some(content) = room.dag.node(mark).map(|node| node.content.clone()) else { return };
        let ordered = is_ordered(&self.config, &content);
        room.votes.insert(&room.dag, mark, ordered);
        if ordered {
            self.counters.ordered += 1;
            let beside = room.dag.heard_beside(mark);
            self.counters.concurrency_sum += beside;
            room.came.insert(mark, beside);
        } else if let DagContent::Body(body) = &content {
            let mut way = DeliveryContext { config: &self.config, queue: &mut self.queue, output: &mut self.output };
            room.deliverer.deliver_early(&mut way, mark.0, body);
        }
    }

    fn on_nak(&mut self, now: Instant, nak: &Nak) {
        let Some(room) = &mut self.room else { return };
        let alone = !matches!(self.stage, ClosingStage::Open);
        room.repair.on_nak(now, &self.config, &room.dag, &mut self.rng, nak, alone);
    }

    fn on_status(&mut self, from: MemberId, status: &HoldingsStatus) {
        //= A04
        let (Some(room), Some(place)) = (&mut self.room, self.vs.index(from)) else { return };
        if status.held.len() != room.dag.n() {
            self.counters.useless += 1;
            return;
        }
        room.dag.note_held(place, &status.held);
        for (of, held) in status.held.iter().enumerate() {
            room.dag.rumour(of, *held);
        }
    }

    /// Tells what this member holds, its own last message among it.
    pub(super) fn speak(&mut self, now: Instant) {
        //= A04
        let Some(room) = &mut self.room else { return };
        let status = HoldingsStatus { view: room.view.id, held: room.dag.held_vector() };
        let deaf = room.deaf(now);
        if !crate::mutated!(self.config, StatusForgotten) {
            self.counters.status_sent += 1;
            self.send(Destination::All, TotoPacket::Status(status));
        }
        self.vs.spoke(now);
        if let Some(deaf) = deaf {
            self.vs.exclude(now, deaf);
        }
    }

    /// Sends what may be sent, releases what is decided, delivers it, lets go of what is not needed, and sees that what
    /// is lacking is asked for. To be called after every input.
    pub(super) fn settle(&mut self, now: Instant) {
        if let Some(room) = &mut self.room {
            room.laggards.awake(now);
        }
        self.obey(now);
        if matches!(self.stage, ClosingStage::Fetching(_)) {
            self.fetch(now);
            self.obey(now);
        }
        self.send_all(now);
        self.collect();
        if self.acknowledge(now) {
            // What it decides may have made room.
            self.send_all(now);
        }
        self.look(now);
        if self.queue.has_room_again() {
            self.output.push_back(Output::Room);
        }
        self.may_leave(now);
    }

    /// Releases and delivers what is decided, and sends what may be sent.
    fn send_all(&mut self, now: Instant) {
        loop {
            self.release();
            self.deliver();
            if !self.send_next(now) {
                return;
            }
        }
    }

    const fn may_deliver(&self) -> bool {
        matches!(self.stage, ClosingStage::Open | ClosingStage::Halted)
    }

    /// Releases all that the votes decide.
    pub(super) fn release(&mut self) {
        if self.may_deliver() || crate::mutated!(self.config, CrashEarly) {
            let Some(mut room) = self.room.take() else { return };
            self.release_in(&mut room);
            self.room = Some(room);
        }
    }

    pub(super) fn release_in(&mut self, room: &mut Room) {
        loop {
            let released = room.votes.release(&room.dag);
            if released.is_empty() {
                return;
            }
            for mark in released {
                self.counters.released += 1;
                let beside = room.dag.heard_beside(mark);
                self.counters.latency_index_sum += beside;
                let came = room.came.remove(&mark).unwrap_or_default();
                *self.counters.indices.entry((beside, came)).or_default() += 1;
                if let Some(node) = room.dag.node(mark) {
                    room.deliverer.release(mark, node.content.clone());
                }
            }
        }
    }

    pub(super) fn deliver(&mut self) {
        if !self.may_deliver() && !crate::mutated!(self.config, CrashEarly) {
            return;
        }
        let Some(room) = &mut self.room else { return };
        let mut way = DeliveryContext { config: &self.config, queue: &mut self.queue, output: &mut self.output };
        room.deliverer.advance(&mut way, room.dag.stable());
        if room.deliverer.call == PrimaryCall::Made {
            self.vs.became_primary();
        }
        if let Some(up_to) = room.deliverer.stable(room.dag.stable()) {
            self.output.push_back(Output::Stable { stream: OrderStream(0), up_to });
        }
    }

    /// Sends the next packet, if there is anything to send and it may be sent.
    fn send_next(&mut self, now: Instant) -> bool {
        //= A09
        let Some(room) = &self.room else { return false };
        if !matches!(self.stage, ClosingStage::Open) && !crate::mutated!(self.config, SentAfterHalt) {
            return false;
        }
        let (mine, all) = room.under_way();
        let full = mine >= self.config.window || all >= self.config.window_all;
        if full && !crate::mutated!(self.config, WindowIgnored) {
            return false;
        }
        if std::mem::take(&mut self.primary_due) {
            return self.originate(now, DagContent::Primary);
        }
        let room_left = self.config.datagram.packet_room() - HEAD_LEN - ACK_LEN * room.dag.leaves();
        let next = if self.queue.is_ready() { self.queue.next_body(room_left) } else { None };
        next.is_some_and(|body| self.originate(now, DagContent::Body(body)))
    }

    fn originate(&mut self, now: Instant, content: DagContent) -> bool {
        let Some(room) = &mut self.room else { return false };
        let message = room.dag.originate(content);
        let mark = (usize::from(message.sender), message.k);
        if room.view.members.len() > 1 {
            self.send(Destination::All, TotoPacket::Message(message));
            self.vs.spoke(now);
        }
        self.counters.messages_sent += 1;
        self.sent_at = now;
        self.ack_at = None;
        self.inserted(mark);
        if mark.1 == RENEW_AT {
            self.vs.renew(now);
            self.obey(now);
        }
        true
    }

    fn collect(&mut self) {
        let Some(room) = &mut self.room else { return };
        let early = crate::mutated!(self.config, DiscardEarly);
        if matches!(self.stage, ClosingStage::Open) {
            let pending = room.votes.first_pending();
            room.dag.collect(&pending, early);
        }
    }

    /// Sees that what others said is followed by something of this member soon. Says whether it is now.
    fn acknowledge(&mut self, now: Instant) -> bool {
        //= A25
        let Some(room) = &self.room else { return false };
        if !matches!(self.stage, ClosingStage::Open) || crate::mutated!(self.config, NoNulls) {
            self.ack_at = None;
            return false;
        }
        let many = room.dag.unacknowledged();
        if many >= self.config.ack_every {
            self.send_null(now);
            return true;
        }
        self.ack_at = if many == 0 { None } else { self.ack_at.into_iter().chain([self.ack_due(now, room)]).min() };
        false
    }

    /// When what is not acknowledged now must be at the latest.
    fn ack_due(&self, now: Instant, room: &Room) -> Instant {
        //= A26
        let awaited = || room.dag.is_awaited(room.votes.needed_of_others());
        let never = crate::mutated!(self.config, VotesHeldBack);
        match self.config.ack {
            Some(span) => now + span,
            None if !never && awaited() => now.max(self.sent_at + ACK_GAP),
            None => now + ACK,
        }
    }

    fn send_null(&mut self, now: Instant) {
        //= A25
        self.counters.nulls_sent += 1;
        self.originate(now, DagContent::Null);
    }

    pub(super) fn on_ack_timeout(&mut self, now: Instant) {
        if self.ack_at.is_some_and(|at| at <= now) {
            self.ack_at = None;
            self.send_null(now);
        }
    }

    /// Looks what is lacking.
    fn look(&mut self, now: Instant) {
        let Some(room) = &mut self.room else { return };
        let agreed = match &self.stage {
            ClosingStage::Fetching(cut) => Some(&cut.held[..]),
            _ => None,
        };
        if matches!(self.stage, ClosingStage::Frozen) || crate::mutated!(self.config, NeverAsks) {
            room.repair.forget();
            return;
        }
        room.repair.look(now, &self.config, &room.dag, agreed);
        if agreed.is_some() {
            self.ask(now);
        }
    }

    /// Asks for what is lacking, where it is time.
    pub(super) fn ask(&mut self, now: Instant) {
        //= A06
        let Some(Room { view, dag, repair, .. }) = &mut self.room else { return };
        let members = &view.members;
        let target = |place: usize, everybody: bool| match &self.stage {
            ClosingStage::Fetching(cut) => Destination::One(cut.holders[place].node),
            _ => whom(members[place].node, everybody),
        };
        for (to, nak) in repair.ask(now, &self.config, dag, view.id, target) {
            self.counters.naks_sent += 1;
            self.output.push_back(Output::Send { to, lane: Lane::Data, packet: TotoPacket::Nak(nak) });
        }
    }

    /// Sends again what others asked for.
    pub(super) fn answer(&mut self, now: Instant) {
        //= A07
        let Some(room) = &mut self.room else { return };
        for mark in room.repair.answer(now, &self.config) {
            if let Some(message) = room.dag.message(mark) {
                self.counters.retransmissions_sent += 1;
                let packet = TotoPacket::Message(message);
                self.output.push_back(Output::Send { to: Destination::All, lane: Lane::Data, packet });
            }
        }
    }

    /// A leaving member goes once all it sent is known to be everywhere.
    fn may_leave(&mut self, now: Instant) {
        //= M15
        let Some(room) = &self.room else { return };
        if !self.vs.is_leaving() || !self.vs.is_working() || !self.queue.is_empty() || !self.queue.all_delivered() {
            return;
        }
        if room.dag.under_way().0 == 0 {
            self.vs.depart(now);
            self.obey(now);
        }
    }
}
