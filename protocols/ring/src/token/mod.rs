//! The circulation of one ring's token among its members: what Recovery and Operational share.
mod acks;
mod arrival;
mod grant;
mod rest;
mod state;

use crate::RingId;
use crate::config::Acceleration;
use crate::flow::{self};
use crate::io::RingIo;
use crate::load::SentLoad;
use crate::packet::{DataContent, DataPacket, RingPacket, Token, Trail};
use crate::store::{Inserted, Store};
use crate::timer::{Span, Timer};
use crate::tuning::Tuner;
use acks::Acks;
use consort_order::{Arrival, Destination, SubmitQueue};
use consort_types::{Duration, Instant, MemberId, NodeId, Seq};
use consort_wire::Lane;
use rest::Requested;
use state::TokenState;

/// One ring's token, as one member sees it.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    pub ring: RingId,
    pub members: Vec<MemberId>,
    pub me: MemberId,
    predecessor: MemberId,
    successor: MemberId,
    pub store: Store,
    /// Every member is known to hold everything up to here.
    pub stable: Seq,
    /// The last sequence number this node gave to a packet of its own.
    pub last_own: Seq,
    /// The aru on the token this node passed on last.
    pub passed_aru: Seq,
    /// The seq on the token that came at the last visit: what lies beyond may still be in post-token flight.
    previous_seq: Seq,
    /// What this node sent at its last visit.
    last_load: SentLoad,
    last_token_seq: u64,
    /// Tokens received from the predecessor; what rounds of its packets are compared with.
    received: u64,
    /// Visits handled, with the first, which the representative makes up itself; what own packets are stamped with.
    pub visits: u64,
    token: TokenState,
    requested_by: Requested,
    acks: Acks,
    /// The seq on the token this node passed on last, and when it last differed from the one before.
    passed_seq: Seq,
    last_traffic: Instant,
    token_at: Instant,
    /// How long a rotation takes, smoothed.
    rotation: Duration,
    /// How long the last one took; zero if the token rested.
    took: Duration,
    tuner: Tuner,
    /// More could have been sent at the last visit, if the windows were larger.
    hungry: bool,
    /// How many packets were missed for the first time at the last visit.
    lost: u16,
    /// What is missing up to here was counted.
    asked_to: Seq,
    fresh: Vec<DataPacket>,
    pinned: Option<Pinned>,
    /// Who had the least on the token that was passed on last, if not all had everything.
    behind: Option<NodeId>,
    /// More could have been sent at the last visit, if all members held what was sent before.
    store_is_full: bool,
    reads_first: Lane,
    data_since_token: u32,
}

/// Where new packets come from.
pub(crate) trait PacketSource {
    /// The content of the next packet, at most `room` bytes of it; `None` if nothing is to be sent.
    fn next(&mut self, queue: &mut SubmitQueue, room: usize) -> Option<DataContent>;
}

/// How a ring circulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As configured.
    Configured,
    /// Like the original ring, whatever is configured, and never idle: while recovering.
    Original,
}

/// No token gets there: each hop adds one, and a token that is accepted may be granted and come back.
const TOKEN_SEQ_END: u64 = u64::MAX - 8;

/// For how many rotations at full speed a member may still get what it lacks.
const PATIENCE: u32 = 10;

/// An aru that does not move.
#[derive(Clone, Copy, Debug)]
struct Pinned {
    by: NodeId,
    aru: Seq,
    since: Instant,
    visits: u32,
}

/// What became of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataOutcome {
    /// It is new and kept.
    New,
    /// It changes nothing.
    Nothing,
}

impl Rotation {
    pub fn new(io: &mut RingIo, now: Instant, ring: RingId, members: Vec<MemberId>) -> Self {
        //= R1
        let (n, me) = (members.len(), io.me);
        let place = members.iter().position(|member| *member == me).unwrap_or(0);
        let rotation = Self {
            ring,
            me,
            predecessor: members[(place + n - 1) % n],
            successor: members[(place + 1) % n],
            members,
            store: Store::default(),
            stable: Seq(0),
            last_own: Seq(0),
            passed_aru: Seq(0),
            previous_seq: Seq(0),
            last_load: SentLoad::default(),
            last_token_seq: 0,
            received: 0,
            visits: 0,
            token: TokenState::default(),
            requested_by: Requested::default(),
            acks: Acks::of(n),
            passed_seq: Seq(0),
            last_traffic: Instant::ZERO,
            token_at: now,
            rotation: Duration::ZERO,
            took: Duration::ZERO,
            tuner: Tuner::default(),
            hungry: false,
            lost: 0,
            asked_to: Seq(0),
            fresh: Vec::new(),
            pinned: None,
            behind: None,
            store_is_full: false,
            reads_first: Lane::Data,
            data_since_token: 0,
        };
        rotation.watch_token(io, now);
        rotation
    }

    /// The representative makes the first token.
    pub fn first_token(&mut self, io: &mut RingIo, now: Instant, pace: Mode, source: &mut dyn PacketSource) {
        //= R4
        let room = io.reported_room();
        let personal = io.first_window();
        let token = Token { ring: self.ring, window: room, room, personal, ..Token::default() };
        self.on_token(io, now, token, pace, source);
    }

    /// Takes a token, if it is ours to take.
    pub fn accept(&mut self, io: &mut RingIo, now: Instant, arrival: &Arrival, token: &Token) -> bool {
        //= R5
        let from = arrival.from;
        if token.ring != self.ring && !crate::mutated!(io.config, AnyRingsTokens) {
            io.counters.foreign_ring += 1;
            return false;
        }
        if !self.may_come_from(io, from, token) {
            let for_another = arrival.lane == Lane::Control; // a copy that went to all
            io.counters.wrong_sender += u64::from(!for_another);
            return false;
        }
        if token.token_seq >= TOKEN_SEQ_END {
            io.counters.implausible += 1; // it could not be granted and come back: no ring lives long enough to get there
            return false;
        }
        if token.token_seq <= self.last_token_seq && !crate::mutated!(io.config, NoTokenDedup) {
            io.counters.duplicate_tokens += 1;
            if self.has_returned(token) {
                io.counters.tokens_retransmitted += 1;
                self.send_copy(io);
            }
            return false;
        }
        //= R24
        if token.seq > self.stable.plus(flow::reach(&io.config.windows)) {
            io.counters.beyond_window += 1;
            return false;
        }
        //= R6
        let covers = token.seq >= self.store.highest();
        io.check_told(covers, "R6: the token covers everything held");
        if !covers {
            return false; // what would be numbered by it has sequence numbers that are taken
        }
        let within = token.aru <= token.seq && token.requests.highest() <= token.seq;
        io.check(within, "G1: nothing on the token lies beyond its seq");
        self.last_token_seq = token.token_seq;
        //= R17
        self.received += u64::from(from == self.predecessor && !token.granted);
        io.timers.disarm(Timer::TokenRetransmit);
        self.watch_token(io, now);
        if let Some(node) = self.granted_to() {
            //= R47
            io.grant_backoff.clear(node);
        }
        self.measure(now, token);
        //= R17
        self.reads_first = Lane::Data;
        self.data_since_token = 0;
        true
    }

    fn measure(&mut self, now: Instant, token: &Token) {
        self.took = Duration::ZERO;
        //= R45
        if !token.granted && !token.rested && self.visits > 0 {
            self.took = now.since(self.token_at);
            //= R25
            let first = self.rotation.is_zero();
            // One that is much longer has waited for a lost token. Counted in full, a few of them would make the next ones wait
            // for so long that the ring is given up.
            let counted = self.took.min(self.rotation * 5 / 4);
            self.rotation = if first { self.took } else { (self.rotation * 7 + counted) / 8 };
        }
        self.token_at = now;
    }

    fn watch_token(&self, io: &mut RingIo, now: Instant) {
        if self.successor == self.me {
            io.timers.disarm(Timer::TokenLoss);
        } else {
            io.wait(Timer::TokenLoss, now, Span::TokenLoss);
        }
    }

    /// A data packet of this ring came.
    pub fn receive(&mut self, io: &mut RingIo, from: MemberId, data: DataPacket) -> DataOutcome {
        if !self.members.iter().any(|member| member.node == data.originator) {
            io.counters.foreign_ring += 1;
            return DataOutcome::Nothing;
        }
        self.note_evidence(io, data.seq);
        self.note_priority(io, from, &data);
        //= R24
        if data.seq > self.stable.plus(flow::reach(&io.config.windows)) {
            io.counters.beyond_window += 1;
            return DataOutcome::Nothing;
        }
        if let Some(held) = self.store.get(data.seq) {
            let same = held.originator == data.originator && held.wire_len() == data.wire_len();
            io.check_told(same, "G4: a sequence number means one packet");
        }
        let retransmission = data.retransmission;
        match self.store.insert(data) {
            Inserted::New => DataOutcome::New,
            Inserted::Duplicate => {
                io.counters.duplicates += 1;
                io.counters.needless_retransmissions += u64::from(retransmission);
                DataOutcome::Nothing
            }
        }
    }

    /// Whether a packet shows that the token moved on: only one numbered after the token we passed.
    fn note_evidence(&mut self, io: &mut RingIo, seq: Seq) {
        //= R26
        let moved_on = self.token.copy().is_some_and(|copy| seq > copy.seq);
        if moved_on || crate::mutated!(io.config, AnyDataIsEvidence) {
            io.timers.disarm(Timer::TokenRetransmit);
        }
    }

    fn note_priority(&mut self, io: &mut RingIo, from: MemberId, data: &DataPacket) {
        //= R17
        let first = !data.retransmission || crate::mutated!(io.config, RetransmissionRaisesPriority);
        let of_predecessor = from == self.predecessor && data.originator == from.node;
        let accelerated = io.config.acceleration == Acceleration::Accelerated;
        if accelerated && first && of_predecessor && (data.round > self.received || data.retransmission) {
            io.check(!data.retransmission, "R17: only a first transmission raises the token's priority");
            self.reads_first = Lane::Token;
        }
        //= R18
        self.data_since_token = self.data_since_token.saturating_add(1);
        if io.config.starvation_guard.is_some_and(|most| self.data_since_token > most) {
            self.reads_first = Lane::Token;
        }
    }

    /// Sends the token that is about to be there, and keeps the copy.
    fn send_token(&mut self, io: &mut RingIo, now: Instant, state: TokenState) {
        self.token_is(io, state);
        let Some(token) = self.token.copy() else { return };
        //= R25
        io.timers.arm(Timer::TokenRetransmit, now + self.retransmit_after(io, token));
        self.send_copy(io);
    }

    /// Nothing shows that the token moved on: send the copy again, exactly.
    pub fn send_again(&mut self, io: &mut RingIo, now: Instant) {
        //= R25
        if crate::mutated!(io.config, TokenNotRetransmitted) {
            return;
        }
        if crate::mutated!(io.config, CopyMutated)
            && let TokenState::Passed(copy) | TokenState::Granted { copy, .. } | TokenState::Returned(copy) =
                &mut self.token
        {
            copy.token_seq += 1;
        }
        let Some(copy) = self.token.copy() else { return };
        let (copy_is_granted, again) = (self.granted_to().is_some(), copy.clone());
        // The rest of an idle token is over by now: it is missed.
        let rests = if copy.idle > 0 { io.timeouts.token_retransmit_idle / 4 } else { self.retransmit_after(io, copy) };
        io.timers.arm(Timer::TokenRetransmit, now + rests);
        io.counters.tokens_retransmitted += 1;
        self.send_copy(io);
        // Its receiver is the successor, or the representative; of a grant the packet does not say.
        if !copy_is_granted && !crate::mutated!(io.config, CopiesToOne) {
            io.send(Destination::All, Lane::Control, RingPacket::Token(again));
        }
    }

    fn send_copy(&self, io: &mut RingIo) {
        if let Some(copy) = self.token.copy() {
            io.send(Destination::One(self.sent_to().node), Lane::Token, RingPacket::Token(copy.clone()));
        }
    }

    const fn sent_to(&self) -> MemberId {
        match self.token {
            TokenState::Granted { to, .. } => to,
            TokenState::Returned(_) => self.ring.representative,
            _ => self.successor,
        }
    }

    /// How long to wait for a sign of the token that was passed on before its copy is sent for the first time.
    fn retransmit_after(&self, io: &RingIo, token: &Token) -> Duration {
        let t = &io.timeouts;
        // The measured rotation contains the wait for lost tokens: without the cap, loss would feed on itself.
        let busy = t.token_retransmit.max(self.rotation * 2).min(t.token_retransmit_idle);
        // What rests goes round before and after it, and must not be taken for lost where that takes long.
        let rests = |rest: Duration| (rest + self.rotation * 2).min(t.token_retransmit_idle * 2);
        match token.idle {
            0 => busy,
            1 => busy.max(t.token_retransmit_idle / 4).max(rests(Self::rest_of(io, token))),
            _ => t.token_retransmit_idle.max(rests(t.hold)),
        }
    }

    /// Whether a token that came here then is of no use: the others have given the ring up since. What would be numbered now
    /// nobody else would hear.
    pub fn is_over(&self, now: Instant, token_came: Instant, patience: Duration) -> bool {
        //= M54
        !self.is_alone() && now.since(token_came) >= patience
    }

    /// Where the token was last.
    pub fn trail(&self) -> Trail {
        //= M58
        let passed_on = self.token.copy().map(|copy| Trail { token_seq: copy.token_seq, to: self.sent_to().node });
        passed_on.unwrap_or(Trail { token_seq: self.last_token_seq, to: self.me.node })
    }

    /// Whether the token rests here.
    pub const fn is_parked(&self) -> bool {
        matches!(self.token, TokenState::Parked(..))
    }

    /// The member that has kept aru from moving for so long, over so many rotations, that it must be deaf.
    pub fn deaf_member(&mut self, io: &RingIo, now: Instant, token: &Token) -> Option<MemberId> {
        //= M53
        let counts = token.aru < token.seq && !token.granted && !crate::mutated!(io.config, DeafKept);
        let by = token.aru_by.filter(|_| counts)?;
        let pinned = match self.pinned {
            Some(pinned) if pinned.by == by && pinned.aru == token.aru => {
                Pinned { visits: pinned.visits + 1, ..pinned }
            }
            _ => Pinned { by, aru: token.aru, since: now, visits: 0 },
        };
        self.pinned = Some(pinned);
        let t = &io.timeouts;
        let deaf = pinned.visits >= t.fail_to_receive_rotations && now.since(pinned.since) >= t.token_loss * 5 / 4;
        self.members.iter().copied().find(|member| deaf && member.node == by)
    }

    /// The member that fills the store: because it lags behind, nothing new may be numbered.
    pub fn filled_by(&self) -> Option<NodeId> {
        //= R38
        self.behind.filter(|_| self.store_is_full)
    }

    /// The member that has kept aru where it is for many rotations. Repeating for it what it lacks uses the windows up.
    pub fn pinned_by(&self) -> Option<NodeId> {
        //= R38
        let pinned = self.pinned.filter(|pinned| pinned.aru == self.passed_aru && pinned.visits >= PATIENCE);
        pinned.map(|pinned| pinned.by)
    }

    /// Which lane to read first.
    pub const fn reads_first(&self) -> Lane {
        self.reads_first
    }

    /// Whether this node made the ring.
    pub fn is_representative(&self) -> bool {
        self.me == self.ring.representative
    }

    /// Whether the token goes to this node itself.
    pub fn is_alone(&self) -> bool {
        self.successor == self.me
    }

    /// Whether this node holds a packet, or knows that all do.
    pub fn holds(&self, seq: Seq) -> bool {
        seq <= self.store.discarded() || self.store.get(seq).is_some()
    }

    /// When the last token came.
    pub const fn token_at(&self) -> Instant {
        self.token_at
    }

    /// How long a rotation takes.
    pub const fn rotation(&self) -> Duration {
        self.rotation
    }

    /// Tokens received; for tests of R17.
    #[cfg(test)]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Gauges.
    pub fn observe(&self, see: &mut dyn FnMut(&'static str, u64)) {
        see("store_packets", self.store.held() as u64);
        see("store_bytes", self.store.bytes() as u64);
        see("aru", self.store.aru().0);
        see("stable", self.stable.0);
        see("rotation_us", self.rotation.as_micros() as u64);
    }
}
