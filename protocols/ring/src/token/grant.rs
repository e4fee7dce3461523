//! A token that rests is granted to the one member that asks for it, and returned: not a part of any rotation.
use super::rest::Requested;
use super::state::TokenState;
use super::{Mode, PacketSource, Rotation};
use crate::io::RingIo;
use crate::load::SentLoad;
use crate::packet::{DataContent, Reach, RingPacket, Token};
use crate::timer::Timer;
use consort_order::Destination;
use consort_types::{Instant, MemberId, NodeId};
use consort_wire::Lane;

impl Rotation {
    /// Whether the token that rests here may leave it without going round: nobody is known to lack anything but what was numbered
    /// since, and the next rotation has time.
    pub(super) fn may_grant(&self, io: &RingIo, now: Instant, token: &Token, round_at: Instant, to: MemberId) -> bool {
        //= R47
        !self.is_alone()
            && (to == self.me || !io.queue.is_ready())
            && (token.aru == token.seq || token.aru_by == Some(self.me.node))
            && token.requests.is_empty()
            && token.idle > 0
            && now < round_at
            && io.config.idling.linger.is_zero()
            && (!io.grant_backoff.stops(to.node, now) || crate::mutated!(io.config, GrantedForEver))
    }

    /// Sends the token, as it rested here, to the member that asks for it; or uses it where it is.
    pub(super) fn grant(
        &mut self,
        io: &mut RingIo,
        now: Instant,
        mut token: Token,
        round_at: Instant,
        to: MemberId,
        source: &mut dyn PacketSource,
    ) {
        //= R47
        self.requested_by = Requested::ByNobody;
        token.granted = true;
        token.idle = 0;
        token.rested = true;
        // From now, not from when it comes back: that may take long.
        let round_at = round_at.min(now + Self::rest_of(io, &token));
        if to == self.me {
            self.token_is(io, TokenState::Parked(token.clone(), round_at));
            return self.on_token(io, now, token, Mode::Configured, source);
        }
        token.token_seq += 1;
        self.send_token(io, now, TokenState::Granted { copy: token, to, round_at });
    }

    /// Whether this token may come from there: a granted one from the representative, or back to it from the member that has it;
    /// any other from the predecessor.
    pub(super) fn may_come_from(&self, io: &RingIo, from: MemberId, token: &Token) -> bool {
        //= R5
        match (token.granted, self.is_representative()) {
            (false, _) => from == self.predecessor,
            (true, false) => from == self.ring.representative,
            (true, true) => self.granted_to() == Some(from.node) || crate::mutated!(io.config, ReturnedByAnybody),
        }
    }

    /// A ring ended while the token was granted to it: before it is granted again, packets must pass there and back.
    pub(super) fn ask_whether_it_is_reached(&self, io: &mut RingIo, now: Instant, to: MemberId) {
        //= R47
        if io.grant_backoff.needs_proof(to.node, now) {
            let question = RingPacket::Reach(Reach { ring: self.ring, asks: true });
            io.send(Destination::One(to.node), Lane::Token, question);
        }
    }

    /// The representative asks whether it reaches this member, or a member answers it.
    pub fn on_reach(&self, io: &mut RingIo, now: Instant, from: MemberId, reach: Reach) {
        //= R47
        if reach.ring != self.ring || reach.asks != (from == self.ring.representative) {
            io.counters.unexpected += 1;
        } else if reach.asks {
            let answer = RingPacket::Reach(Reach { ring: self.ring, asks: false });
            io.send(Destination::One(from.node), Lane::Token, answer);
        } else if self.is_representative() {
            io.grant_backoff.prove(from.node, now);
        }
    }

    /// To whom the token is granted from here.
    pub fn granted_to(&self) -> Option<NodeId> {
        match self.token {
            TokenState::Granted { to, .. } => Some(to.node),
            _ => None,
        }
    }

    /// Whether this visit was all there was to do: the token goes back to where it rested, not round.
    pub(super) fn may_return(&self, io: &RingIo, token: &Token, pace: Mode) -> bool {
        //= R47
        pace == Mode::Configured
            && !io.queue.is_ready()
            && !io.leaving
            && token.requests.is_empty()
            && (self.store.aru() == token.seq || crate::mutated!(io.config, ReturnsWithHole))
            && self.fresh.iter().all(|data| matches!(data.content, DataContent::Messages(_)))
    }

    /// Sends what was numbered and returns the token, with what all hold left as it is: that is for a rotation to tell.
    pub(super) fn return_token(&mut self, io: &mut RingIo, now: Instant, mut token: Token, load: SentLoad) {
        //= R47
        self.request_acks();
        self.send_fresh(io, 0..self.fresh.len(), self.round_before(io));
        self.fresh.clear();
        // Added to the last visit's: between two rotations a member sends no more than in one visit.
        self.last_load = self.last_load.plus(load);
        if crate::mutated!(io.config, GrantMovesStable) {
            token.aru = token.seq;
            self.advance_stable(io, token.aru);
        }
        token.aru_by = (token.aru < token.seq).then_some(self.ring.representative.node);
        token.fcc = token.fcc.plus(load);
        token.idle = 1;
        io.counters.grants += 1;
        io.timers.disarm(Timer::TokenRequest);
        if self.is_representative() {
            return self.park_again(io, now, token);
        }
        token.room = token.room.min(io.reported_room());
        token.granted = true;
        token.token_seq += 1;
        self.send_token(io, now, TokenState::Returned(token));
    }

    /// Whether the token that comes once more was granted to this node, which has returned it.
    pub(super) fn has_returned(&self, token: &Token) -> bool {
        //= R47
        token.granted && matches!(&self.token, TokenState::Returned(copy) if copy.token_seq == token.token_seq + 1)
    }

    /// Whether the token that came back may rest again.
    pub fn may_park_again(&self, now: Instant, token: &Token) -> bool {
        //= R47
        let in_time = matches!(self.token, TokenState::Granted { round_at, .. } if now < round_at);
        token.granted
            && in_time
            && token.idle > 0
            && token.requests.is_empty()
            && token.aru_by.is_none_or(|by| by == self.me.node)
            && self.store.aru() == token.seq
            && self.requested_by != Requested::BySeveral
    }

    /// The token rests again; until it goes round no longer than it would have rested at first.
    pub fn park_again(&mut self, io: &mut RingIo, now: Instant, mut token: Token) {
        //= R29
        let (TokenState::Granted { round_at, .. } | TokenState::Parked(_, round_at)) = self.token else { return };
        token.granted = false;
        self.token_is(io, TokenState::Parked(token, round_at));
        if io.queue.is_ready() {
            self.requested_by.add(self.me);
        }
        let until = self.rests_until(io, now, round_at);
        io.timers.arm(Timer::IdleHold, if self.requested_by == Requested::ByNobody { until } else { now });
    }
}
