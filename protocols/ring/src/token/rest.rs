//! What the ring does while there is nothing to say: the representative parks the token; whoever then has something to
//! say asks for it.
use super::state::TokenState;
use super::{Mode, PATIENCE, PacketSource, Rotation};
use crate::io::RingIo;
use crate::load::SentLoad;
use crate::packet::{IDLE_MAX, RingPacket, Token, TokenRequest};
use crate::timer::Timer;
use consort_order::Destination;
use consort_types::{Duration, Instant, MemberId, Seq};
use consort_wire::Lane;

/// A ring of one goes on within an input until it has sent so many packets: with small windows that takes many visits.
const ALONE: u64 = 64;

/// After so many rotations in which nothing was sent and nobody lacked anything every member knows that all is stable.
const ALL_KNOW: u8 = 2;

/// Who has asked the representative for the token since it last went round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Requested {
    #[default]
    ByNobody,
    By(MemberId),
    BySeveral,
}

impl Requested {
    /// One more asks, or the same once more.
    pub fn add(&mut self, member: MemberId) {
        *self = match *self {
            Self::ByNobody => Self::By(member),
            Self::By(known) if known == member => Self::By(member),
            Self::By(_) | Self::BySeveral => Self::BySeveral,
        };
    }
}

impl Rotation {
    /// Whether the arrived token has nothing to do anywhere, where this node has delivered everything up to there.
    pub fn may_park(&self, io: &RingIo, now: Instant, token: &Token, delivered: Seq) -> bool {
        //= R28
        if crate::mutated!(io.config, ParksWithWork) && self.is_representative() && !token.requests.is_empty() {
            return true;
        }
        self.is_representative()
            && token.seq == self.passed_seq
            && is_complete(token)
            && token.idle >= io.config.idling.rounds
            && (delivered == token.seq || crate::mutated!(io.config, ParksUndelivered))
            && self.requested_by == Requested::ByNobody
            && !io.queue.is_ready()
            && now.since(self.last_traffic) >= io.config.idling.linger
    }

    /// Whether the token carries nothing but requests that nobody could fill for many rotations: it need not hurry.
    pub fn is_stuck(&self, io: &RingIo, token: &Token) -> bool {
        //= R36
        let pinned = |pinned: super::Pinned| pinned.aru == token.aru && pinned.visits >= PATIENCE;
        self.is_representative()
            && token.seq == self.passed_seq
            && token.aru < token.seq
            && self.pinned.is_some_and(pinned)
            && !io.queue.is_ready()
    }

    /// How long an idle token rests: not for long before all know that all is stable.
    pub fn rest_of(io: &RingIo, token: &Token) -> Duration {
        //= R29
        if crate::mutated!(io.config, RestsTooLong) {
            return io.timeouts.hold * 3;
        }
        if token.idle >= ALL_KNOW { io.timeouts.hold } else { io.timeouts.hold / 5 }
    }

    /// Keeps the token for a while.
    pub fn park(&mut self, io: &mut RingIo, now: Instant, token: Token, rest: Duration) {
        //= R29
        io.counters.holds += 1;
        self.acks.deadline = None;
        self.token_is(io, TokenState::Parked(token, now + rest));
        io.timers.arm(Timer::IdleHold, now + rest);
        if crate::mutated!(io.config, ParksWithWork) {
            io.timers.disarm(Timer::IdleHold);
        }
    }

    /// A ring of one hands the token to itself by a timer: never by recursion, and never while there is nothing to do.
    pub(super) fn keep_for_myself(&mut self, io: &mut RingIo, now: Instant, token: Token) {
        //= R31
        let rests = token.idle >= ALL_KNOW.max(io.config.idling.rounds) && !io.queue.is_ready();
        self.token_is(io, TokenState::Parked(token, now));
        if !rests {
            io.timers.arm(Timer::IdleHold, now);
        }
    }

    /// The token has rested long enough, or is asked for.
    pub fn release(&mut self, io: &mut RingIo, now: Instant, source: &mut dyn PacketSource) {
        //= R29
        let begun = io.counters.packets_sent;
        while let TokenState::Parked(token, round_at) = &self.token {
            let (token, round_at) = (token.clone(), *round_at);
            if let Requested::By(member) = self.requested_by
                && self.may_grant(io, now, &token, round_at, member)
            {
                return self.grant(io, now, token, round_at, member, source);
            }
            if self.is_alone() {
                self.last_token_seq = token.token_seq;
                self.received += 1;
            }
            let before = io.counters.packets_sent;
            self.on_token(io, now, token, Mode::Configured, source);
            let sent = io.counters.packets_sent;
            // A visit that sent nothing waits for what is delivered and let go only after this input.
            if !self.is_alone() || !io.queue.is_ready() || sent == before || sent - begun >= ALONE {
                return;
            }
        }
    }

    /// Counts how often in a row the token left the representative with the same sequence numbers given out and held by all;
    /// whoever has something to do, or is known to have, sets the count back.
    pub(super) fn note_idleness(&mut self, io: &mut RingIo, now: Instant, token: &mut Token, load: SentLoad) {
        //= R28
        let same = token.seq == self.passed_seq;
        if !is_complete(token) {
            token.idle = 0;
        } else if self.is_representative() {
            //= R30
            let for_others =
                !matches!(self.requested_by, Requested::ByNobody) && self.requested_by != Requested::By(self.me);
            token.idle = match same {
                _ if for_others => 0,
                true => token.idle.saturating_add(1).min(IDLE_MAX),
                false => 1,
            };
        } else if load != SentLoad::default() || io.queue.is_ready() {
            // What the windows hold back waits for the token, too, and nobody else knows of it.
            token.idle = 0;
        }
        if self.is_representative() {
            //= R45
            token.rested = matches!(self.token, TokenState::Parked(..) | TokenState::Granted { .. });
            self.requested_by = Requested::ByNobody;
        }
        if !same {
            self.last_traffic = now;
        }
        self.passed_seq = token.seq;
        io.timers.disarm(Timer::TokenRequest);
    }

    /// There is something to send: see that the token comes.
    pub fn nudge(&mut self, io: &mut RingIo, now: Instant) {
        //= R30
        if !io.queue.is_ready() {
            return;
        }
        if matches!(self.token, TokenState::Parked(..)) {
            // By the timer, not at once: what else arrives in the same turn shall travel in the same visit.
            self.requested_by.add(self.me);
            io.timers.arm(Timer::IdleHold, now);
        } else {
            self.request_if_it_rests(io, now);
        }
    }

    /// Sees that the token comes by even if there is nothing to send.
    pub fn ask(&mut self, io: &mut RingIo, now: Instant) {
        if matches!(self.token, TokenState::Parked(..)) {
            self.requested_by = Requested::BySeveral;
            io.timers.arm(Timer::IdleHold, now);
        } else if !self.is_representative() {
            self.request(io, now);
        }
    }

    /// A packet is new. Whoever lacks one before it asks for the token, which may rest and be granted for a while.
    pub fn note_new(&mut self, io: &mut RingIo, now: Instant, seq: Seq) {
        //= R47
        if self.store.aru() < seq {
            self.request_if_it_rests(io, now);
        }
    }

    fn request_if_it_rests(&self, io: &mut RingIo, now: Instant) {
        //= R30
        let rests = self.token.may_rest_elsewhere() && !self.is_representative();
        if rests && !io.timers.is_armed(Timer::TokenRequest) {
            self.request(io, now);
        }
    }

    fn request(&self, io: &mut RingIo, now: Instant) {
        io.counters.token_requests_sent += 1;
        let request = RingPacket::TokenRequest(TokenRequest { ring: self.ring });
        io.send(Destination::One(self.ring.representative.node), Lane::Token, request);
        io.timers.arm(Timer::TokenRequest, now + io.timeouts.hold_cancel);
    }

    /// The token that was asked for has not come yet.
    pub fn request_again(&self, io: &mut RingIo, now: Instant) {
        //= R30
        if io.queue.is_ready() {
            self.request(io, now);
        }
    }

    /// Somebody wants the token. Sticky: if it is not here, it will not be parked when it next comes.
    pub fn on_token_request(&mut self, io: &mut RingIo, now: Instant, from: MemberId, request: TokenRequest) {
        //= R30
        if request.ring != self.ring || !self.is_representative() {
            io.counters.unexpected += 1;
            return;
        }
        let forgets = crate::mutated!(io.config, RequestsForgotten) && !self.is_parked();
        if forgets || crate::mutated!(io.config, RequestsIgnored) {
            return;
        }
        match self.token {
            // It asked again before what it asked for came.
            TokenState::Granted { to, .. } if to == from => return,
            TokenState::Parked(..) => io.timers.arm(Timer::IdleHold, now),
            _ => {}
        }
        self.requested_by.add(from);
        self.ask_whether_it_is_reached(io, now, from);
    }
}

/// Whether every member holds all that was numbered, as far as the token knows.
fn is_complete(token: &Token) -> bool {
    token.aru == token.seq && token.requests.is_empty()
}
