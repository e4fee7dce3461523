//! Safe messages while the token rests: members acknowledge them at once, and no rotation has to collect what they hold.
use super::Rotation;
use super::rest::Requested;
use super::state::TokenState;
use crate::flow;
use crate::io::RingIo;
use crate::packet::{Ack, DataPacket, RingPacket};
use crate::timer::Timer;
use consort_order::Destination;
use consort_types::{Instant, MemberId, Seq};
use consort_wire::Lane;

/// So few members acknowledge to all. More of them acknowledge to the one that requested it, which announces it to all: that takes
/// a hop more, and packets in proportion to the members, not to their square.
const FEW: usize = 3;

/// What members acknowledged outside of rotations.
#[derive(Clone, Debug)]
pub(crate) struct Acks {
    /// What each member acknowledged everything up to, in the order of the ring.
    acked: Vec<Seq>,
    /// What a member announced that all hold everything up to.
    stable_by_acks: Seq,
    /// Who gets an acknowledgement, once this node holds everything up to there.
    ack_due: Option<(MemberId, Seq)>,
    /// Acknowledgements are requested for everything up to here.
    requested: Seq,
    /// The same, by this node, which has not announced it.
    unannounced: Seq,
    /// Until then the representative waits for acknowledgements.
    pub(super) deadline: Option<Instant>,
}

impl Acks {
    /// Nothing is acknowledged in a ring of so many.
    pub fn of(members: usize) -> Self {
        let none = Seq(0);
        let acked = vec![none; members];
        Self { acked, stable_by_acks: none, ack_due: None, requested: none, unannounced: none, deadline: None }
    }
}

impl DataPacket {
    /// Whether the one that it comes from requests an acknowledgement.
    pub fn requests_ack(&self, from: MemberId) -> bool {
        self.ack_request && !self.retransmission && self.originator == from.node
    }
}

impl Rotation {
    /// Marks the last of the packets that are about to be sent with a granted token, if one of them is safe.
    pub(super) fn request_acks(&mut self) {
        //= R48
        let safe = self.fresh.iter().any(|data| data.content.is_safe());
        let Some(packet) = self.fresh.last_mut().filter(|_| safe) else { return };
        packet.ack_request = true;
        (self.acks.requested, self.acks.unannounced) = (packet.seq, packet.seq);
    }

    /// A packet came that requests an acknowledgement. Whether the stable line moved.
    pub fn on_ack_request(&mut self, io: &mut RingIo, by: MemberId, seq: Seq) -> bool {
        //= R48
        self.acks.requested = self.acks.requested.max(seq);
        // It returned the token, so it lacked nothing.
        self.note_ack(by, seq);
        // Who requested less hears of it from the one that requested more.
        if self.acks.ack_due.is_none_or(|(_, known)| known < seq) {
            self.acks.ack_due = Some((by, seq));
        }
        self.ack_if_due(io)
    }

    /// Acknowledges what is requested, once everything up to there is held. Whether the stable line moved.
    pub fn ack_if_due(&mut self, io: &mut RingIo) -> bool {
        //= R48
        let held = |seq| self.store.aru() >= seq || crate::mutated!(io.config, AckedBlindly);
        let Some((by, _)) = self.acks.ack_due.filter(|(_, seq)| held(*seq)) else { return false };
        self.acks.ack_due = None;
        if self.are_few() {
            self.ack(io, Destination::All, Lane::Data);
        } else {
            self.ack(io, Destination::One(by.node), Lane::Token);
        }
        self.note_stable_by_acks(io)
    }

    /// A member acknowledges. Whether the stable line moved.
    pub fn on_ack(&mut self, io: &mut RingIo, from: MemberId, ack: Ack) -> bool {
        //= R48
        if ack.ring != self.ring {
            io.counters.foreign_ring += 1;
            return false;
        }
        //= R24
        if ack.aru > self.stable.plus(flow::reach(&io.config.windows)) {
            io.counters.beyond_window += 1;
            return false;
        }
        self.note_ack(from, ack.aru);
        self.acks.stable_by_acks = self.acks.stable_by_acks.max(ack.stable);
        self.note_stable_by_acks(io)
    }

    /// Whether acknowledgements are requested for a safe message that is not known to be held by all.
    pub(super) fn awaits_acks(&self) -> bool {
        self.stable < self.acks.requested
    }

    /// Until when the token may rest that is back: not for long while acknowledgements are awaited.
    pub(super) fn rests_until(&mut self, io: &RingIo, now: Instant, round_at: Instant) -> Instant {
        //= R48
        if !self.awaits_acks() || crate::mutated!(io.config, AcksNotAwaited) {
            self.acks.deadline = None;
            return round_at;
        }
        let deadline = *self.acks.deadline.get_or_insert(now + io.timeouts.hold / 25);
        deadline.min(round_at)
    }

    fn are_few(&self) -> bool {
        self.members.len() <= FEW
    }

    fn note_ack(&mut self, member: MemberId, aru: Seq) {
        let place = self.members.iter().position(|known| *known == member);
        if let Some(acked) = place.and_then(|place| self.acks.acked.get_mut(place)) {
            *acked = aru.max(*acked);
        }
    }

    /// Moves the stable line to what all others acknowledged, as far as this node holds it, too.
    fn note_stable_by_acks(&mut self, io: &mut RingIo) -> bool {
        //= R20
        //= R48
        let others = self.members.iter().zip(&self.acks.acked).filter(|(member, _)| **member != self.me);
        let others = others.map(|(_, acked)| *acked);
        let least = if crate::mutated!(io.config, AckedByOne) { others.max() } else { others.min() };
        let stable = least.unwrap_or_default().max(self.acks.stable_by_acks).min(self.store.aru());
        let before = self.stable;
        if stable <= before {
            return false;
        }
        self.stable = stable;
        if before < self.acks.unannounced && !self.are_few() {
            self.ack(io, Destination::All, Lane::Data);
        }
        if !self.awaits_acks() {
            self.acks.deadline = None;
            if let (TokenState::Parked(_, round_at), Requested::ByNobody) = (&self.token, self.requested_by) {
                io.timers.arm(Timer::IdleHold, *round_at);
            }
        }
        true
    }

    fn ack(&self, io: &mut RingIo, to: Destination, lane: Lane) {
        let mut ack = Ack { ring: self.ring, aru: self.store.aru(), stable: self.stable };
        if crate::mutated!(io.config, AckedBlindly) {
            ack.aru = ack.aru.max(self.acks.requested);
        }
        io.send(to, lane, RingPacket::Ack(ack));
    }
}
