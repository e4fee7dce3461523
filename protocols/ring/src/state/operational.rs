//! Operational: the token circulates among known members.
//!
//! A configured membership never leaves this state. Where a changing one would go to Gather, [`on_token_loss`] stands.
//!
//! [`on_token_loss`]: Operational::on_token_loss
use crate::RingId;
use crate::config::{Acceleration, Idling};
use crate::delivery::Deliverer;
use crate::engine::Io;
use crate::flow::{self, Load};
use crate::packet::{Data, Packet, Token};
use crate::state::idle::Idle;
use crate::store::{Inserted, Store};
use crate::timer::Timer;
use consort_order::{Output, To};
use consort_types::{Duration, Instant, MemberId, Seq, View};
use consort_wire::Lane;

/// The state's data.
#[derive(Debug)]
pub(crate) struct Operational {
    pub(super) ring: RingId,
    pub(super) members: Vec<MemberId>,
    pub(super) me: MemberId,
    pub(super) predecessor: MemberId,
    pub(super) successor: MemberId,
    pub(super) store: Store,
    pub(super) deliverer: Deliverer,
    /// Every member is known to hold everything up to here.
    pub(super) stable: Seq,
    /// The aru on the token this node passed on last.
    pub(super) passed_aru: Seq,
    /// The seq on the token that came at the last visit: what lies beyond may still be in post-token flight.
    pub(super) previous_seq: Seq,
    /// What this node sent at its last visit.
    pub(super) last_load: Load,
    pub(super) last_token_seq: u64,
    /// Tokens received from the predecessor; what rounds of its packets are compared with.
    pub(crate) received: u64,
    /// Visits handled, with the first, which the representative makes up itself; what own packets are stamped with.
    pub(super) visits: u64,
    /// What was passed on last, to the byte.
    pub(super) copy: Option<Token>,
    pub(super) idle: Idle,
    pub(super) token_at: Instant,
    /// How long a rotation takes, smoothed.
    pub(super) rotation: Duration,
    pub(super) fresh: Vec<Data>,
    lost_since: Option<Instant>,
    restarted: Option<MemberId>,
    reads_first: Lane,
    data_since_token: u32,
}

impl Operational {
    /// Enters the state with an agreed view, which is delivered before any message.
    pub fn install(io: &mut Io, now: Instant, view: View) -> Self {
        //= R4
        [Timer::Form, Timer::Propose].into_iter().for_each(|timer| io.timers.disarm(timer));
        let members = view.members.clone();
        let (n, me) = (members.len(), io.me);
        let place = members.iter().position(|member| *member == me).unwrap_or(0);
        let mut ring = Self {
            ring: view.id,
            me,
            predecessor: members[(place + n - 1) % n],
            successor: members[(place + 1) % n],
            store: Store::default(),
            deliverer: Deliverer::new(me, &members),
            members,
            stable: Seq(0),
            passed_aru: Seq(0),
            previous_seq: Seq(0),
            last_load: Load::default(),
            last_token_seq: 0,
            received: 0,
            visits: 0,
            copy: None,
            idle: Idle::default(),
            token_at: now,
            rotation: Duration::ZERO,
            fresh: Vec::new(),
            lost_since: None,
            restarted: None,
            reads_first: Lane::Data,
            data_since_token: 0,
        };
        io.output.push_back(Output::Install(view));
        ring.watch_token(io, now);
        ring
    }

    /// The representative makes the first token.
    pub fn originate(&mut self, io: &mut Io, now: Instant) {
        //= R4
        let room = flow::reported_room(&io.config);
        self.visit(io, now, Token { ring: self.ring, window: room, room, ..Token::default() });
    }

    /// Whether a packet's sender is the member we know, in the life we know.
    pub fn knows(&mut self, io: &mut Io, from: MemberId) -> bool {
        //= R35
        let Some(member) = self.members.iter().find(|member| member.node == from.node) else { return false };
        match from.incarnation.cmp(&member.incarnation) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => io.counters.old_incarnation += 1,
            std::cmp::Ordering::Greater => {
                io.counters.new_incarnation += 1;
                self.restarted = Some(from);
            }
        }
        false
    }

    /// A token came.
    pub fn on_token(&mut self, io: &mut Io, now: Instant, from: MemberId, token: Token) {
        //= R5
        //= R24
        if token.ring != self.ring {
            io.counters.foreign_ring += 1;
        } else if token.seq > self.stable.plus(flow::reach(&io.config.windows)) {
            io.counters.beyond_window += 1;
        } else if from != self.predecessor {
            io.counters.wrong_sender += 1;
        } else if token.token_seq <= self.last_token_seq && !crate::mutated!(io.config, NoTokenDedup) {
            io.counters.duplicate_tokens += 1;
        } else {
            self.accept(io, now, token);
        }
    }

    fn accept(&mut self, io: &mut Io, now: Instant, token: Token) {
        //= R6
        io.check(token.seq >= self.store.highest(), "R6: the token covers everything held");
        self.last_token_seq = token.token_seq;
        self.received += 1;
        self.copy = None;
        io.timers.disarm(Timer::TokenRetransmit);
        self.watch_token(io, now);
        self.measure(now);
        //= R17
        self.reads_first = Lane::Data;
        self.data_since_token = 0;
        if self.may_park(io, now, &token) {
            self.park(io, now, token);
        } else {
            self.visit(io, now, token);
        }
    }

    fn measure(&mut self, now: Instant) {
        if self.visits > 0 && self.idle.seen == 0 {
            self.rotation = (self.rotation * 7 + now.since(self.token_at)) / 8;
        }
        self.token_at = now;
    }

    fn watch_token(&mut self, io: &mut Io, now: Instant) {
        self.lost_since = None;
        if self.successor != self.me {
            io.timers.arm(Timer::TokenLoss, now + io.config.timers.token_loss);
        }
    }

    /// A data packet came.
    pub fn on_data(&mut self, io: &mut Io, from: MemberId, data: Data) {
        if data.ring != self.ring || !self.members.iter().any(|member| member.node == data.originator) {
            io.counters.foreign_ring += 1;
            return;
        }
        self.note_evidence(io, data.seq);
        self.note_priority(io, from, &data);
        //= R24
        if data.seq > self.stable.plus(flow::reach(&io.config.windows)) {
            io.counters.beyond_window += 1;
            return;
        }
        let retransmission = data.retransmission;
        match self.store.insert(data) {
            Inserted::New => self.deliver(io),
            Inserted::Duplicate => {
                io.counters.duplicates += 1;
                io.counters.needless_retransmissions += u64::from(retransmission);
            }
        }
    }

    /// Whether a packet shows that the token moved on: only one numbered after the token we passed.
    fn note_evidence(&mut self, io: &mut Io, seq: Seq) {
        //= R26
        let moved_on = self.copy.as_ref().is_some_and(|copy| seq > copy.seq);
        if moved_on || crate::mutated!(io.config, AnyDataIsEvidence) {
            io.timers.disarm(Timer::TokenRetransmit);
        }
    }

    fn note_priority(&mut self, io: &mut Io, from: MemberId, data: &Data) {
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

    pub(super) fn deliver(&mut self, io: &mut Io) {
        self.deliverer.advance(&io.config, &self.store, self.stable, &mut io.queue, &mut io.output);
    }

    /// Nothing shows that the token moved on: send the copy again, exactly.
    pub fn on_token_retransmit(&mut self, io: &mut Io, now: Instant) {
        //= R25
        if crate::mutated!(io.config, TokenNotRetransmitted) {
            return;
        }
        if crate::mutated!(io.config, CopyMutated)
            && let Some(copy) = &mut self.copy
        {
            copy.token_seq += 1;
        }
        let Some(copy) = &self.copy else { return };
        io.counters.tokens_retransmitted += 1;
        io.send(To::One(self.successor.node), Lane::Token, Packet::Token(copy.clone()));
        io.timers.arm(Timer::TokenRetransmit, now + self.retransmit_after(io, copy));
    }

    pub(super) fn retransmit_after(&self, io: &Io, token: &Token) -> Duration {
        let t = &io.config.timers;
        // The measured rotation contains the wait for lost tokens: without the cap, loss would feed on itself.
        let busy = t.token_retransmit.max(self.rotation * 4).min(t.token_retransmit_idle);
        if token.idle > 0 { t.token_retransmit_idle } else { busy }
    }

    /// No new token for token_loss. With a changing membership the ring would now be formed anew; a configured one can
    /// only wait, keep what it holds, and say so.
    pub fn on_token_loss(&mut self, io: &mut Io, now: Instant) {
        //= R27
        io.counters.token_losses += 1;
        self.lost_since = Some(self.lost_since.unwrap_or(now));
    }

    /// Which lane to read first.
    pub const fn reads_first(&self) -> Lane {
        self.reads_first
    }

    /// Whether this node holds a packet, or knows that all do.
    pub fn holds(&self, seq: Seq) -> bool {
        seq <= self.store.discarded() || self.store.get(seq).is_some()
    }

    /// Gauges.
    pub fn observe(&self, see: &mut dyn FnMut(&'static str, u64)) {
        see("store_packets", self.store.held() as u64);
        see("store_bytes", self.store.bytes() as u64);
        see("assembly_bytes", self.deliverer.held() as u64);
        see("torn_messages", self.deliverer.torn);
        see("aru", self.store.aru().0);
        see("stable", self.stable.0);
        see("delivered", self.deliverer.delivered().0);
        see("rotation_us", self.rotation.as_micros() as u64);
        see("token_lost", u64::from(self.lost_since.is_some()));
    }

    /// For `status`.
    pub fn describe(&self, now: Instant) -> String {
        let (n, ring) = (self.members.len(), self.ring);
        match (self.lost_since, self.restarted) {
            (None, _) => format!("operational: ring {ring} of {n}, rotation {:?}", self.rotation),
            (Some(_), Some(member)) => format!(
                "stalled: {} was restarted; a configured membership cannot take it back, restart all {n} nodes",
                member.node
            ),
            (Some(_), None) => {
                format!("stalled: no token for {:?}; is every one of the {n} nodes up?", now.since(self.token_at))
            }
        }
    }

    pub(super) fn is_representative(&self) -> bool {
        self.me == self.ring.representative
    }

    pub(super) const fn idling(io: &Io) -> Idling {
        io.config.idling
    }
}
