//! What the ring does while there is nothing to say: the representative parks the token; whoever then has something to
//! say asks for it.
use super::{Circle, PATIENCE, Pace, Source};
use crate::engine::Io;
use crate::flow::Load;
use crate::packet::{HoldCancel, IDLE_MAX, Packet, Token};
use crate::timer::Timer;
use consort_order::{Arrival, To};
use consort_types::{Duration, Instant, MemberId, Seq};
use consort_wire::Lane;

/// A ring of one goes on within an input until it has sent so many packets: with small windows that takes many visits.
const ALONE: u64 = 64;

/// What is known of the token's idleness.
#[derive(Clone, Debug, Default)]
pub(crate) struct Idle {
    /// The token, while it rests here.
    pub parked: Option<Token>,
    /// The idle count on the token this node passed on last: above zero it may be parked by now.
    pub seen: u8,
    /// Somebody asked for the token: let it pass once, whatever it says.
    pub(super) wake: bool,
    pub(super) wanted: Wanted,
    /// The seq on the token this node passed on last.
    passed_seq: Seq,
    /// The token rested here since it came last.
    rested: bool,
    /// Another member has asked for the token since it came last.
    pub(super) asked_for: bool,
    /// Who was lent the token and has not given it back.
    pub(super) lent_to: Option<MemberId>,
    /// Who was lent it last, and its `token_seq` then.
    pub(super) last_lent: Option<(MemberId, u64)>,
    /// When a resting token goes round, whoever asks for it.
    pub(super) round_at: Instant,
    last_traffic: Instant,
}

/// Who wants the token that rests here, or that was lent from here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wanted {
    #[default]
    ByNobody,
    /// By one member.
    By(MemberId),
    /// By one member, whose request has come only to all so far.
    Unproven(MemberId),
    /// By several.
    ByMore,
}

impl Wanted {
    /// One more wants it, or the same once more.
    pub(super) fn add(&mut self, member: MemberId) {
        *self = match *self {
            Self::ByNobody => Self::By(member),
            Self::By(known) | Self::Unproven(known) if known == member => Self::By(member),
            Self::By(_) | Self::Unproven(_) | Self::ByMore => Self::ByMore,
        };
    }

    /// A request came. One that came only to all does not show that tokens come from there, and one that was lent must come back:
    /// for that one the token goes round.
    fn add_asker(&mut self, arrival: &Arrival) {
        //= R47
        let from = arrival.from;
        match *self {
            _ if arrival.lane == Lane::Token => self.add(from),
            Self::ByNobody => *self = Self::Unproven(from),
            Self::By(known) | Self::Unproven(known) if known == from => {}
            _ => *self = Self::ByMore,
        }
    }
}

/// After so many rotations in which nothing was sent and nobody lacked anything every member knows that all is stable.
const ALL_KNOW: u8 = 2;

impl Circle {
    /// Whether the arrived token has nothing to do anywhere, where this node has delivered everything up to there.
    pub fn may_park(&self, io: &Io, now: Instant, token: &Token, delivered: Seq) -> bool {
        //= R28
        if crate::mutated!(io.config, ParksWithWork) && self.is_representative() && !token.requests.is_empty() {
            return true;
        }
        self.is_representative()
            && token.seq == self.idle.passed_seq
            && is_complete(token)
            && token.idle >= io.config.idling.rounds
            && delivered == token.seq
            && !self.idle.wake
            && !io.queue.is_ready()
            && now.since(self.idle.last_traffic) >= io.config.idling.linger
    }

    /// Whether the token carries nothing but requests that nobody could fill for many rotations: it need not hurry.
    pub fn is_stuck(&self, io: &Io, token: &Token) -> bool {
        //= R36
        let pinned = |pinned: super::Pinned| pinned.aru == token.aru && pinned.visits >= PATIENCE;
        self.is_representative()
            && token.seq == self.idle.passed_seq
            && token.aru < token.seq
            && self.pinned.is_some_and(pinned)
            && !io.queue.is_ready()
    }

    /// How long an idle token rests: not for long before all know that all is stable.
    pub fn rest_of(io: &Io, token: &Token) -> Duration {
        //= R29
        if token.idle >= ALL_KNOW { io.config.timers.hold } else { io.config.timers.hold / 5 }
    }

    /// Keeps the token for a while.
    pub fn park(&mut self, io: &mut Io, now: Instant, token: Token, rest: Duration) {
        //= R29
        io.counters.holds += 1;
        self.said.patience = None;
        self.idle.parked = Some(token);
        self.idle.rested = true;
        //= R46
        self.idle.asked_for = false;
        self.idle.round_at = now + rest;
        io.timers.arm(Timer::Hold, now + rest);
        if crate::mutated!(io.config, ParksWithWork) {
            io.timers.disarm(Timer::Hold);
        }
    }

    /// A ring of one hands the token to itself by a timer: never by recursion, and never while there is nothing to do.
    pub(super) fn keep_for_myself(&mut self, io: &mut Io, now: Instant, token: Token) {
        //= R31
        let rests = token.idle >= ALL_KNOW.max(io.config.idling.rounds) && !io.queue.is_ready();
        self.idle.parked = Some(token);
        if !rests {
            io.timers.arm(Timer::Hold, now);
        }
    }

    /// Whether the token that comes here has rested since it came last.
    pub(super) fn has_rested(&mut self, token: &Token) -> bool {
        //= R45
        let rested = std::mem::take(&mut self.idle.rested);
        if self.is_representative() { rested } else { token.rested }
    }

    /// The token has rested long enough.
    pub fn release(&mut self, io: &mut Io, now: Instant, source: &mut dyn Source) {
        //= R29
        let begun = io.counters.packets_sent;
        let wanted = std::mem::take(&mut self.idle.wanted);
        while let Some(mut token) = self.idle.parked.take() {
            if let Wanted::By(member) = wanted
                && self.may_lend(io, now, &token, member)
            {
                token.lent = true;
                if member != self.me {
                    return self.lend(io, now, token, member);
                }
            }
            if self.is_alone() {
                self.last_token_seq = token.token_seq;
                self.received += 1;
            }
            let before = io.counters.packets_sent;
            self.visit(io, now, token, Pace::Configured, source);
            //= R46
            self.idle.asked_for = wanted != Wanted::ByNobody && self.idle.parked.is_none();
            let sent = io.counters.packets_sent;
            // A visit that sent nothing waits for what is delivered and let go only after this input.
            if !self.is_alone() || !io.queue.is_ready() || sent == before || sent - begun >= ALONE {
                return;
            }
        }
    }

    /// Counts how often in a row the token left the representative with the same places given out and held by all; whoever
    /// has something to do sets the count back.
    pub(super) fn note_idleness(&mut self, io: &mut Io, now: Instant, token: &mut Token, load: Load) {
        //= R28
        let same = token.seq == self.idle.passed_seq;
        if !is_complete(token) {
            token.idle = 0;
        } else if self.is_representative() {
            token.idle = if same { token.idle.saturating_add(1).min(IDLE_MAX) } else { 1 };
        } else if load != Load::default() || io.queue.is_ready() {
            // What the windows hold back waits for the token, too, and nobody else knows of it.
            token.idle = 0;
        }
        //= R45
        if self.is_representative() {
            token.rested = self.end_loan(io) || self.idle.rested;
            self.idle.wanted = Wanted::ByNobody;
        }
        if !same {
            self.idle.last_traffic = now;
        }
        self.idle.passed_seq = token.seq;
        self.idle.seen = token.idle;
        self.idle.wake = false;
        self.idle.asked_for = false;
        io.timers.disarm(Timer::HoldCancel);
    }

    /// There is something to send: see that the token comes.
    pub fn nudge(&mut self, io: &mut Io, now: Instant) {
        //= R30
        if !io.queue.is_ready() {
            return;
        }
        if self.idle.parked.is_some() {
            // By the timer, not at once: what else arrives in the same turn shall travel in the same visit.
            self.idle.wanted.add(self.me);
            io.timers.arm(Timer::Hold, now);
        } else if self.idle.seen > 0 && !self.is_representative() && !io.timers.is_armed(Timer::HoldCancel) {
            self.ask_for_token(io, now);
        }
    }

    /// Sees that the token comes by even if there is nothing to send.
    pub fn ask(&mut self, io: &mut Io, now: Instant) {
        if self.idle.parked.is_some() {
            self.idle.wanted = Wanted::ByMore;
            io.timers.arm(Timer::Hold, now);
        } else if !self.is_representative() {
            self.ask_for_token(io, now);
        }
    }

    /// Asks the representative. If it does not hear of it, perhaps it hears what all are told: that wakes everybody, and comes later.
    pub(super) fn ask_for_token(&mut self, io: &mut Io, now: Instant) {
        self.send_request(io, To::One(self.ring.representative.node), Lane::Token);
        io.timers.arm(Timer::HoldCancel, now + io.config.timers.hold_cancel / 5);
    }

    fn send_request(&self, io: &mut Io, to: To, lane: Lane) {
        io.counters.hold_cancels_sent += 1;
        io.send(to, lane, Packet::HoldCancel(HoldCancel { ring: self.ring, token_seq: self.last_token_seq }));
    }

    /// Whether the token is on its way and comes within a rotation (it is known to be busy, somebody has asked for it, or this
    /// node has lent it), or members are about to say what they hold.
    pub fn expects_soon(&self, io: &Io) -> bool {
        //= R46
        let goes_round = self.idle.parked.is_none() && (self.idle.seen == 0 || self.idle.lent_to.is_some());
        goes_round || self.idle.asked_for || io.timers.is_armed(Timer::HoldCancel) || self.awaits_proof()
    }

    /// The token that was asked for has not come yet.
    pub fn on_hold_cancel_again(&mut self, io: &mut Io, now: Instant) {
        //= R30
        if io.queue.is_ready() {
            self.send_request(io, To::All, Lane::Data);
            io.timers.arm(Timer::HoldCancel, now + io.config.timers.hold_cancel);
        }
    }

    /// Somebody wants the token. Sticky: if it is not here, it will not be parked when it next comes.
    pub fn on_hold_cancel(&mut self, io: &mut Io, now: Instant, arrival: &Arrival, cancel: HoldCancel) {
        //= R30
        if cancel.ring != self.ring {
            io.counters.unexpected += 1;
        } else if !self.is_representative() {
            //= R46
            self.idle.asked_for = true;
        } else if !self.was_granted(arrival.from, cancel) {
            self.idle.wanted.add_asker(arrival);
            if self.idle.parked.is_some() {
                io.timers.arm(Timer::Hold, now);
            } else {
                self.idle.wake = true;
            }
        }
    }
}

/// Whether every member holds all that was numbered, as far as the token knows.
fn is_complete(token: &Token) -> bool {
    token.aru == token.seq && token.requests.is_empty()
}
