//! A token that rests is lent to the one member that wants it, and given back: not a part of any rotation.
use super::idle::Wanted;
use super::{Circle, Pace};
use crate::engine::Io;
use crate::flow::Load;
use crate::packet::{Content, Data, HoldCancel, Token};
use crate::timer::Timer;
use consort_types::{Instant, MemberId, NodeId, Seq};

/// What a token says after a loan on which places up to `seq` were given away, with what all hold left as it is: that is for a
/// rotation to tell.
fn after_loan(token: Token, seq: Seq, load: Load) -> Token {
    //= R47
    let aru_by = (token.aru < seq).then_some(token.ring.representative.node);
    Token { seq, fcc: token.fcc.plus(load), aru_by, idle: 1, ..token }
}

impl Circle {
    /// Whether the token that rests here may leave it without going round: nobody is known to lack anything but what was numbered
    /// while it was lent, and the next rotation has time.
    pub(super) fn may_lend(&self, io: &Io, now: Instant, token: &Token, to: MemberId) -> bool {
        //= R30
        let mine = token.aru == token.seq || token.aru_by == Some(self.me.node);
        !self.is_alone()
            && self.members.contains(&to)
            && (to == self.me || !io.queue.is_ready())
            && mine
            && token.requests.is_empty()
            && token.idle > 0
            && now < self.idle.round_at
            && io.config.idling.linger.is_zero()
            && !io.grant_backoff.stops(to.node, now)
    }

    /// Sends the token, as it rested here, to the member that wants it.
    pub(super) fn lend(&mut self, io: &mut Io, now: Instant, mut token: Token, to: MemberId) {
        //= R30
        //= R47
        token.token_seq += 1;
        token.idle = 0;
        token.rested = true;
        self.idle.seen = 0;
        // From now, not from when it comes back: that may take long.
        self.idle.round_at = self.idle.round_at.min(now + Self::rest_of(io, &token));
        self.idle.lent_to = Some(to);
        self.idle.last_lent = Some((to, token.token_seq));
        self.send_token(io, now, token, to);
    }

    /// Whether a request was sent before the token came that it was granted: the one to all often is.
    pub(super) fn was_granted(&self, from: MemberId, cancel: HoldCancel) -> bool {
        //= R47
        self.idle.last_lent.is_some_and(|(to, token_seq)| to == from && cancel.token_seq < token_seq)
    }

    /// Whether this token may come from there: a lent one from the representative, or back to it from the member that has it; any
    /// other from the predecessor.
    pub(super) fn may_come_from(&self, from: MemberId, token: &Token) -> bool {
        //= R5
        match (token.lent, self.is_representative()) {
            (false, _) => from == self.predecessor,
            (true, false) => from == self.ring.representative,
            (true, true) => self.idle.lent_to == Some(from),
        }
    }

    /// Whether this visit was all there was to do: the token goes back to where it rested, not round.
    pub(super) fn may_give_back(&self, io: &Io, token: &Token, pace: Pace) -> bool {
        //= R47
        pace == Pace::Configured
            && !io.queue.is_ready()
            && !io.leaving
            && token.requests.is_empty()
            && self.store.aru() == token.seq
            && self.fresh.iter().all(|data| matches!(data.content, Content::Messages(_)))
    }

    /// Sends what was numbered and gives the token back, with what all hold left as it is: that is for a rotation to tell.
    pub(super) fn give_back(&mut self, io: &mut Io, now: Instant, mut token: Token, load: Load) {
        //= R47
        self.ask_who_holds();
        let implied = self.is_implied(io, &token);
        if let Some(packet) = self.fresh.last_mut() {
            packet.returns = implied;
        }
        self.send_fresh(io, 0..self.fresh.len(), self.round_before(io));
        self.fresh.clear();
        // Added to the last visit's: between two rotations a member sends no more than in one visit.
        self.last_load = self.last_load.plus(load);
        if crate::mutated!(io.config, LoanMovesStable) {
            token.aru = token.seq;
            self.advance_stable(io, token.aru);
        }
        let seq = token.seq;
        token = after_loan(token, seq, load);
        io.counters.loans += 1;
        io.timers.disarm(Timer::HoldCancel);
        if self.is_representative() {
            return self.keep(io, now, token);
        }
        token.room = token.room.min(io.reported_room());
        token.lent = true;
        token.token_seq += 1;
        self.idle.seen = token.idle;
        self.idle.asked_for = false;
        if implied {
            self.keep_copy(io, now, token, self.ring.representative);
        } else {
            self.send_token(io, now, token, self.ring.representative);
        }
    }

    /// Whether the representative can tell from the packet alone what the token says that comes back.
    fn is_implied(&self, io: &Io, token: &Token) -> bool {
        //= R47
        self.fresh.len() == 1 && !self.is_representative() && io.reported_room() >= token.room
    }

    /// The length of the packet, if it gives back the token that was lent from here.
    pub fn gives_back(&self, from: MemberId, data: &Data) -> Option<usize> {
        //= R47
        let is_borrowers = data.returns && !data.retransmission && data.originator == from.node;
        let lent = self.copy.as_ref().filter(|copy| copy.lent);
        let is_next = || self.idle.lent_to == Some(from) && lent.is_some_and(|lent| data.seq == lent.seq.next());
        (is_borrowers && is_next()).then(|| data.wire_len())
    }

    /// The token that was lent, as it is with a packet of that length in the next place.
    pub fn given_back(&self, len: usize) -> Option<Token> {
        //= R47
        let lent = self.copy.clone()?;
        let (token_seq, mut load) = (lent.token_seq + 1, Load::default());
        load.add_packet(len);
        let seq = lent.seq.next();
        Some(Token { token_seq, ..after_loan(lent, seq, load) })
    }

    /// Whether the token that comes once more was lent to this node, which has given it back.
    pub(super) fn gave_back(&self, token: &Token) -> bool {
        //= R47
        let back = |copy: &Token| copy.lent && copy.token_seq == token.token_seq + 1;
        token.lent && !self.is_representative() && self.copy.as_ref().is_some_and(back)
    }

    /// Whether the token that came back may rest again.
    pub fn may_keep(&self, now: Instant, token: &Token) -> bool {
        //= R47
        token.lent
            && self.is_representative()
            && token.idle > 0
            && token.requests.is_empty()
            && token.aru_by.is_none_or(|by| by == self.me.node)
            && self.store.aru() == token.seq
            && self.idle.wanted != Wanted::ByMore
            && now < self.idle.round_at
    }

    /// The token rests again; until it goes round no longer than it would have rested at first.
    pub fn keep(&mut self, io: &mut Io, now: Instant, mut token: Token) {
        //= R29
        //= R47
        token.lent = false;
        self.idle.round_at = self.idle.round_at.min(now + Self::rest_of(io, &token));
        self.end_loan(io);
        self.idle.wake = false;
        if io.queue.is_ready() {
            self.idle.wanted.add(self.me);
        }
        self.idle.parked = Some(token);
        let until = self.rests_until(io, now);
        io.timers.arm(Timer::Hold, if self.idle.wanted == Wanted::ByNobody { until } else { now });
    }

    /// The token that was lent is no longer the borrower's. Whether there was a loan.
    pub(super) fn end_loan(&mut self, io: &mut Io) -> bool {
        //= R47
        let Some(to) = self.idle.lent_to.take() else { return false };
        io.grant_backoff.clear(to.node);
        true
    }

    /// To whom the token is lent from here.
    pub fn granted_to(&self) -> Option<NodeId> {
        self.idle.lent_to.map(|member| member.node)
    }

    /// A packet is new. Whoever awaited the token to see it sent has no more to wait for; whoever lacks one before it asks for
    /// the token, which may rest and be lent for a while.
    pub fn note_new(&mut self, io: &mut Io, now: Instant, seq: Seq) {
        //= R46
        self.idle.asked_for = false;
        //= R47
        let lacks = self.store.aru() < seq;
        if lacks && self.idle.seen > 0 && !self.is_representative() && !io.timers.is_armed(Timer::HoldCancel) {
            self.ask_for_token(io, now);
        }
    }
}
