//! Operational: the token of the installed ring circulates, messages are numbered and delivered.
//!
//! Leaves for Gather when the token is lost, a member says good-bye or asks for another ring, comes back in a new
//! incarnation, or turns out to be deaf; and when another ring is found with which all hear each other.
use super::StateChange;
use super::late::LateInquiry;
use super::{Reason, Why};
use crate::RingId;
use crate::installation::{Installation, Old};
use crate::io::RingIo;
use crate::packet::{Ack, DataContent, DataPacket, Proposal, Token};
use crate::timer::Timer;
use crate::token::{DataOutcome, Mode, PacketSource, Rotation};
use consort_member::{Encounter, Summons, stranger_wants};
use consort_order::SubmitQueue;
use consort_order::{Arrival, Output};
use consort_types::{Instant, MemberId, OrderStream, OrderWait, Position, Primary, Seq, ViewCause};

/// The state's data.
#[derive(Clone, Debug)]
pub(crate) struct Operational {
    pub installed: Installation,
    pub rotation: Rotation,
    fresh: Fresh,
    pub(super) since: Instant,
    stable_told: Seq,
    /// No token came for long, and the others were asked.
    pub(super) late: Option<LateInquiry>,
    /// When this member answered whoever misses the token.
    pub(super) answered_at: Instant,
}

/// What clients want sent; before it, once, that the view is primary.
#[derive(Clone, Debug)]
struct Fresh {
    primary_due: bool,
}

impl PacketSource for Fresh {
    fn next(&mut self, queue: &mut SubmitQueue, room: usize) -> Option<DataContent> {
        if std::mem::take(&mut self.primary_due) {
            return Some(DataContent::Primary);
        }
        queue.next_body(room).map(DataContent::Messages)
    }
}

impl Operational {
    /// Enters with a view that was just delivered. A ring of one makes its token now; others have theirs already.
    pub fn enter(io: &mut RingIo, now: Instant, installed: Installation, rotation: Rotation) -> Self {
        io.timers.disarm(Timer::RecoveryMax);
        io.queue.close_gate(installed.view.id);
        if crate::mutated!(io.config, GateLeftOpen) {
            io.queue.open_gate(installed.view.id);
        }
        io.installed_number = installed.view.id.number;
        io.attempt = None;
        io.suspicion.clear();
        io.counters.views += 1;
        // By the representative's next visit every member has installed the view: the token has gone all the way round
        // after the visit in which the first of them did.
        let pending = installed.view.primary == Primary::Pending;
        if pending && crate::mutated!(io.config, PrimaryAtInstall) {
            io.output.push_back(Output::Primary(installed.view.id));
        }
        let primary_due = pending && rotation.is_representative();
        let fresh = Fresh { primary_due };
        let mut state = Self {
            installed,
            rotation,
            fresh,
            since: now,
            stable_told: Seq(0),
            late: None,
            answered_at: Instant::ZERO,
        };
        if state.rotation.is_alone() {
            state.rotation.first_token(io, now, Mode::Configured, &mut state.fresh);
            state.settle(io);
        }
        state
    }

    /// Gives the ring up; what it holds stays.
    pub fn into_old(self) -> Old {
        Old { installed: self.installed, store: self.rotation.store, stable: self.rotation.stable, frozen: 0 }
    }

    /// A token came, perhaps some time ago.
    pub fn on_token(&mut self, io: &mut RingIo, now: Instant, arrival: &Arrival, mut token: Token) -> StateChange {
        let useless = self.rotation.is_over(now, arrival.at, io.timeouts.patience());
        if useless && !crate::mutated!(io.config, StaleTokenUsed) {
            //= M54
            io.counters.stale_tokens += 1; // if the ring still stands, its copy comes
            return StateChange::Stay;
        }
        if !self.rotation.accept(io, now, arrival, &token) {
            return StateChange::Stay;
        }
        self.is_found(io);
        if let Some(deaf) = self.rotation.deaf_member(io, now, &token) {
            return self.exclude(io, now, deaf);
        }
        if self.rotation.is_representative() && token.seq.0 >= io.config.renew_after {
            //= R37
            return StateChange::gather(Why::new(ViewCause::Asked { node: io.me.node }));
        }
        let delivered = self.installed.deliverer.delivered();
        // Who leaves goes once it knows that all is stable.
        let hurries = self.fresh.primary_due || io.leaving;
        if self.rotation.may_park_again(now, &token) && !hurries {
            self.rotation.park_again(io, now, token);
            return StateChange::Stay;
        }
        let came_back = self.rotation.is_representative() && std::mem::take(&mut token.granted);
        if self.rotation.may_park(io, now, &token, delivered) && !hurries && !came_back {
            let rest = Rotation::rest_of(io, &token);
            self.rotation.park(io, now, token, rest);
            return StateChange::Stay;
        }
        if self.rotation.is_stuck(io, &token) {
            let rest = io.timeouts.token_retransmit / 2;
            self.rotation.park(io, now, token, rest);
            return StateChange::Stay;
        }
        self.rotation.on_token(io, now, token, Mode::Configured, &mut self.fresh);
        self.settle(io);
        self.may_leave(io)
    }

    /// A member does not receive.
    fn exclude(&self, io: &mut RingIo, now: Instant, deaf: MemberId) -> StateChange {
        //= M53
        //= M52
        let mut why = Why::new(ViewCause::Deaf { nodes: vec![deaf.node] });
        // If it is this one, it goes alone: the others must not suffer.
        let me = io.me;
        for other in self.rotation.members.iter().filter(|other| (**other == deaf) != (deaf == me)) {
            io.keep_out(other.node, now);
            why = why.failing(*other, Reason::Deaf);
        }
        StateChange::gather(why)
    }

    /// Others have failed members. One that kept aru from moving here, too, is kept out by this member as well: else each in
    /// turn would let it in again, and no term would ever double.
    fn keep_out_deaf(&self, io: &mut RingIo, now: Instant, failed: &[(MemberId, Reason)]) {
        //= M52
        let deaf = self.rotation.pinned_by();
        let is_deaf = |(member, reason): &&(MemberId, Reason)| Some(member.node) == deaf && *reason == Reason::Apart;
        if let Some((member, _)) = failed.iter().find(is_deaf) {
            io.keep_out(member.node, now);
        }
    }

    /// Delivers what became deliverable, tells what became stable, lets go of what nobody will ask for.
    fn settle(&mut self, io: &mut RingIo) {
        self.deliver(io);
        self.check_lines(io);
        let stable = self.rotation.stable;
        if stable > self.stable_told {
            self.stable_told = stable;
            let up_to: Position = crate::delivery::position(stable, 0xffff);
            io.output.push_back(Output::Stable { stream: OrderStream(0), up_to });
        }
        //= R22
        let delivered = self.installed.deliverer.delivered();
        let early = crate::mutated!(io.config, DiscardEarly);
        self.rotation.store.discard_to(if early { delivered } else { stable.min(delivered) });
    }

    fn check_lines(&self, io: &mut RingIo) {
        let (store, stable, delivered) =
            (&self.rotation.store, self.rotation.stable, self.installed.deliverer.delivered());
        let ascending = store.discarded() <= stable && stable <= store.aru() && store.aru() <= store.highest();
        io.check(ascending && delivered <= store.aru(), "G3: let go <= stable <= all received <= highest held");
        let waits = |data: &DataPacket| data.content.is_safe() && data.seq > stable;
        io.check(
            store.get(delivered.next()).is_none_or(waits),
            "G7: only a hole or a safe message holds delivery back",
        );
    }

    fn deliver(&mut self, io: &mut RingIo) {
        let (store, stable) = (&self.rotation.store, self.rotation.stable);
        self.installed.deliverer.advance(&io.config, store, stable, &mut io.queue, &mut io.output);
    }

    /// A data packet came. One of another ring is a hint at most: beacons decide.
    pub fn on_data(&mut self, io: &mut RingIo, now: Instant, from: MemberId, data: DataPacket) -> StateChange {
        if data.ring != self.rotation.ring && !crate::mutated!(io.config, AnyRingsData) {
            io.counters.foreign_ring += 1;
            if crate::mutated!(io.config, ForeignDataGathers) && self.installed.member(from.node) != Some(from) {
                return StateChange::gather(Why::new(ViewCause::Merged { nodes: vec![from.node] }).adding([from]));
            }
            return StateChange::Stay;
        }
        let (seq, ack_request) = (data.seq, data.requests_ack(from));
        if self.rotation.receive(io, from, data) != DataOutcome::New {
            return StateChange::Stay;
        }
        self.rotation.note_new(io, now, seq);
        let stable =
            if ack_request { self.rotation.on_ack_request(io, from, seq) } else { self.rotation.ack_if_due(io) };
        if stable {
            self.settle(io);
            return self.may_leave(io);
        }
        self.deliver(io);
        StateChange::Stay
    }

    /// A member acknowledges what it holds.
    pub fn on_ack(&mut self, io: &mut RingIo, from: MemberId, ack: Ack) -> StateChange {
        if self.rotation.on_ack(io, from, ack) {
            self.settle(io);
        }
        self.may_leave(io)
    }

    /// The parked token is let go; after a pause, only once another member is known to be there still.
    pub fn on_hold_end(&mut self, io: &mut RingIo, now: Instant) -> StateChange {
        if self.rotation.is_over(now, self.rotation.token_at(), io.timeouts.patience()) {
            //= M54
            if self.late.is_none() {
                self.ask_where(io, now);
            }
            return StateChange::Stay;
        }
        self.release(io, now);
        self.may_leave(io)
    }

    pub(super) fn release(&mut self, io: &mut RingIo, now: Instant) {
        self.rotation.release(io, now, &mut self.fresh);
        self.settle(io);
    }

    /// A ring that dies young was not worth forming: those that were let in for it are kept out for a while.
    pub(super) fn quarantine_young(&self, io: &mut RingIo, now: Instant) {
        //= M52
        if now.since(self.since) < io.timeouts.token_loss * 10 && self.rotation.visits < YOUNG_VISITS {
            let view = &self.installed.view;
            for member in view.members.iter().filter(|member| !view.moved_together.contains(member)) {
                io.keep_out(member.node, now);
            }
        }
    }

    /// Somebody asks for another ring.
    pub fn on_join(&mut self, io: &mut RingIo, now: Instant, from: MemberId, join: &Proposal) -> StateChange {
        if join.leave && crate::mutated!(io.config, GoodbyeUnheeded) {
            return StateChange::Stay;
        }
        let view = &self.installed.view;
        match io.presence.summons(now, view, from, join) {
            Summons::Gather(why) => {
                self.keep_out_deaf(io, now, &why.fail);
                StateChange::gather(why)
            }
            Summons::Unheeded if crate::mutated!(io.config, StrangersAdmitted) => {
                StateChange::gather(stranger_wants(view, join))
            }
            Summons::Unheeded => {
                //= M19
                io.beacon_soon(now);
                StateChange::Stay
            }
            // The token of a ring that a member has left will be lost.
            Summons::Late | Summons::Unwanted => StateChange::Stay,
        }
    }

    /// A beacon of another ring came: perhaps there is one to merge with.
    pub fn on_beacon(&mut self, io: &mut RingIo, now: Instant, from: MemberId, ring: RingId) -> StateChange {
        //= M57
        if self.installed.member(from.node) == Some(from) && ring.number > self.rotation.ring.number {
            // That member has gone on: this ring is over.
            return StateChange::gather(Why::new(ViewCause::TokenLost { after: now.since(self.rotation.token_at()) }));
        }
        //= M51
        if !self.rotation.is_representative() || crate::mutated!(io.config, NeverMerges) {
            return StateChange::Stay;
        }
        let Encounter { news, why } = io.presence.meet(now, &self.installed.view);
        if news {
            io.beacon_soon(now);
        }
        why.map_or(StateChange::Stay, StateChange::gather)
    }

    /// There is something to send: see that the token comes.
    pub fn nudge(&mut self, io: &mut RingIo, now: Instant) {
        self.rotation.nudge(io, now);
    }

    /// A leaving member goes once all it sent is known to be everywhere.
    pub fn may_leave(&self, io: &RingIo) -> StateChange {
        //= M15
        let done = io.queue.is_empty() && io.queue.all_delivered() && self.rotation.stable >= self.rotation.last_own;
        let done = done || crate::mutated!(io.config, LeavesAtOnce);
        if io.leaving && done { StateChange::Leave } else { StateChange::Stay }
    }

    /// What own messages wait for that were numbered, or have yet to be.
    pub fn wait_cause(&self, queue: &SubmitQueue) -> OrderWait {
        //= R38
        if queue.is_gated() || self.late.is_some() {
            return OrderWait::Membership;
        }
        self.rotation.filled_by().or(self.rotation.pinned_by()).map_or(OrderWait::Window, OrderWait::Slow)
    }

    /// For `status`.
    pub fn describe(&self, now: Instant) -> String {
        let (ring, n, rotation) = (self.rotation.ring, self.rotation.members.len(), self.rotation.rotation());
        let late = self.describe_late(now).map_or_else(String::new, |late| format!("; {late}"));
        format!("operational: ring {ring} of {n}, rotation {rotation:?}{late}")
    }
}

/// A ring whose token never went round so often never worked.
const YOUNG_VISITS: u64 = 3;
