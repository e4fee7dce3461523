//! The states, and which follows which.
//!
//! ```text
//! dispatch  state x packet, state x timer: tables      contract  the ring as an engine
//! ```
mod contract;
mod dispatch;

use crate::RingId;
use crate::config::{RingConfig, RingConfigError};
use crate::installation::{Installation, Old};
use crate::io::RingIo;
use crate::packet::{Commit, Join, RingPacket};
use crate::state::table;
use crate::state::{Committing, Gather, Operational, Recovery, Sets, StateChange, Why};
use crate::state_name::RingStateName;
use crate::timer::Timer;
use consort_order::{Destination, Output};
use consort_types::{Duration, Incarnation, Instant, Position, Seq};
use consort_wire::Lane;

/// One node of a ring.
#[derive(Clone, Debug)]
pub struct Ring {
    io: RingIo,
    pub(crate) state: RingState,
}

/// Each state owns its data.
#[derive(Clone, Debug)]
pub(crate) enum RingState {
    /// Not started, or between two states.
    Still,
    /// Members look for each other.
    Gather(Box<Gather>),
    /// They tell what they hold.
    Commit(Box<Committing>),
    /// They recover what some of them lack.
    Recovery(Box<Recovery>),
    /// The token circulates.
    Operational(Box<Operational>),
    /// It said good-bye.
    Left,
}

impl RingState {
    const fn name(&self) -> RingStateName {
        match self {
            Self::Still => RingStateName::Still,
            Self::Gather(_) => RingStateName::Gather,
            Self::Commit(_) => RingStateName::Commit,
            Self::Recovery(_) => RingStateName::Recovery,
            Self::Operational(_) => RingStateName::Operational,
            Self::Left => RingStateName::Left,
        }
    }
}
impl Ring {
    /// A node that is about to start; `incarnation` is this incarnation of it, larger than every earlier one.
    ///
    /// # Errors
    /// [`RingConfigError`] if the settings cannot work.
    pub fn new(mut config: RingConfig, incarnation: Incarnation) -> Result<Self, RingConfigError> {
        config.validate()?;
        config.members.sort_unstable();
        Ok(Self { io: RingIo::new(config, incarnation), state: RingState::Still })
    }

    /// Whether this node holds the packet of a position of a ring, or once held it and knows that all do; `None` if it
    /// has not installed that ring, or has gone on from it.
    pub fn holds_in(&self, ring: RingId, position: Position) -> Option<bool> {
        (self.installed()?.view.id == ring).then(|| self.holds(position))
    }

    /// The same for the ring installed last.
    pub fn holds(&self, position: Position) -> bool {
        let seq = crate::delivery::seq_of(position);
        match &self.state {
            RingState::Operational(state) => state.rotation.holds(seq),
            RingState::Gather(state) => old_holds(&state.old, seq),
            RingState::Commit(state) => old_holds(&state.old, seq),
            RingState::Recovery(state) => old_holds(&state.old, seq),
            RingState::Still | RingState::Left => false,
        }
    }

    /// Stamps that this node gives from now on are above this one. Means nothing where the ring does not stamp.
    pub fn raise_clock(&mut self, stamp: u64) {
        //= R49
        self.io.clock = self.io.clock.max(stamp.min(crate::STAMP_END / 2));
    }

    /// The settings.
    pub const fn config(&self) -> &RingConfig {
        &self.io.config
    }

    /// This incarnation of the node.
    pub const fn incarnation(&self) -> Incarnation {
        self.io.me.incarnation
    }

    /// What all states share, for looking at.
    #[cfg(any(test, feature = "model"))]
    pub(crate) const fn io(&self) -> &RingIo {
        &self.io
    }

    #[cfg(feature = "model")]
    pub(crate) const fn io_mut(&mut self) -> &mut RingIo {
        &mut self.io
    }

    #[cfg(feature = "model")]
    pub(crate) fn come_due(&mut self, now: Instant, timer: Timer) {
        self.io.timers.disarm(timer);
        let next = self.expire(now, timer);
        self.finish(now, next);
    }

    #[cfg(test)]
    pub(crate) fn received_for_test(&self) -> u64 {
        let RingState::Operational(state) = &self.state else { return 0 };
        state.rotation.received()
    }

    /// How long packets are under way between those that are in the ring or are to be, one way, as the timers have it: what was
    /// measured, or what the settings say if that is more. Zero in a LAN.
    pub const fn delay(&self) -> Duration {
        self.io.delay
    }

    /// The rule whose assertion failed last, if any did.
    pub const fn last_assertion(&self) -> Option<&'static str> {
        self.io.counters.last_assertion
    }

    /// The state's name.
    pub const fn state(&self) -> &'static str {
        self.state.name().as_str()
    }

    pub(crate) fn installed(&self) -> Option<&Installation> {
        match &self.state {
            RingState::Operational(state) => Some(&state.installed),
            RingState::Gather(state) => Some(&state.old.installed),
            RingState::Commit(state) => Some(&state.old.installed),
            RingState::Recovery(state) => Some(&state.old.installed),
            RingState::Still | RingState::Left => None,
        }
    }

    /// The timers follow how far those are with whom this node is, or wants to be.
    pub(super) fn follow(&mut self) {
        //= M60
        match &self.state {
            RingState::Operational(state) => self.io.follow(&state.rotation.members),
            RingState::Gather(state) => self.io.follow(&state.gathering.sets.candidates()),
            RingState::Commit(state) => self.io.follow(&state.candidates()),
            RingState::Recovery(state) => self.io.follow(&state.rotation.members),
            RingState::Still | RingState::Left => {}
        }
    }

    /// Goes wherever the answer leads, and where that leads. The table of ways is in `state/table.rs`.
    fn go(&mut self, now: Instant, mut next: StateChange) {
        while let Some(step) = next.step() {
            let from = self.state.name();
            next = self.enter(now, next);
            self.follow();
            self.io.check(table::allows(from, step, self.state.name()), "M05: there is no such way");
        }
    }

    /// State x step: makes the state that follows out of the one that ends.
    fn enter(&mut self, now: Instant, answer: StateChange) -> StateChange {
        let state = std::mem::replace(&mut self.state, RingState::Still);
        let next;
        (self.state, next) = match (state, answer) {
            (_, StateChange::Leave) => (self.depart(), StateChange::Stay),
            (RingState::Operational(state), StateChange::Gather(why)) => {
                //= R47
                if let Some(node) = state.rotation.granted_to() {
                    self.io.grant_backoff.stop(node, now);
                }
                state.note_end(&mut self.io, now);
                let out = why.fail.iter().map(|(member, _)| *member).collect();
                self.io.output.push_back(Output::Interrupted { cause: why.trigger.clone(), out });
                self.gather(now, state.into_old(), None, &why)
            }
            (RingState::Commit(state), StateChange::Gather(why)) => self.gather(now, state.old, Some(state.sets), &why),
            (RingState::Recovery(state), StateChange::Gather(why)) => {
                self.gather(now, state.old, Some(state.sets), &why)
            }
            (RingState::Gather(state), StateChange::Commit(commit)) => self.commit(now, *state, commit),
            (RingState::Commit(state), StateChange::Recover(commit)) => {
                let (state, next) = Recovery::enter(&mut self.io, now, state.old, state.sets, commit);
                (RingState::Recovery(Box::new(state)), next)
            }
            (RingState::Recovery(state), StateChange::Install) => {
                (RingState::Operational(Box::new(state.install(&mut self.io, now))), StateChange::Stay)
            }
            (state, _) => (state, StateChange::Stay),
        };
        next
    }

    fn commit(&mut self, now: Instant, state: Gather, commit: Commit) -> (RingState, StateChange) {
        let alone = commit.members.len() == 1;
        let agreed = commit.member_ids() == state.gathering.sets.candidates();
        let led = commit.members.first().is_some_and(|(first, _)| *first == commit.ring.representative);
        self.io.check(agreed && led, "G9: the ring to be is what was agreed, led by its lowest");
        match Committing::enter(&mut self.io, now, state.old, state.gathering.sets, commit) {
            Ok(state) => {
                let next = if alone { StateChange::Recover(state.alone()) } else { StateChange::Stay };
                (RingState::Commit(Box::new(state)), next)
            }
            Err(back) => {
                let (old, sets) = *back;
                (RingState::Gather(Box::new(Gather::enter(&mut self.io, now, old, sets))), StateChange::Stay)
            }
        }
    }

    fn gather(&mut self, now: Instant, old: Old, sets: Option<Sets>, why: &Why) -> (RingState, StateChange) {
        //= M10
        let fresh = sets.is_none();
        if fresh {
            self.io.presence.episode += 1;
            self.io.presence.distances.measure_anew(now);
        }
        self.io.presence.wants = None;
        let mut sets = sets.unwrap_or_else(|| Sets::new(self.io.me, &old.installed.view.members, why.trigger.clone()));
        sets.take(self.io.me, why);
        let mut gather = Gather::enter(&mut self.io, now, old, sets);
        let next = if fresh { gather.try_commit(&mut self.io, now) } else { StateChange::Stay };
        (RingState::Gather(Box::new(gather)), next)
    }

    /// Says good-bye, three times because it cannot be asked for again.
    fn depart(&mut self) -> RingState {
        //= M15
        let ring = RingId { number: self.io.installed_number, representative: self.io.me };
        let goodbye = Join { proposal: self.io.presence.goodbye(), ring, attempt: None };
        for _ in 0..3 {
            self.io.send(Destination::All, Lane::Control, RingPacket::Join(goodbye.clone()));
        }
        self.io.timers.disarm_all_but(&[]);
        self.io.output.push_back(Output::Left);
        RingState::Left
    }

    /// A wake-up that comes much later than it was asked for means that this node was paused. What it waited for may lie
    /// in its queues: it must not be judged before they were read.
    fn note_pause(&mut self, now: Instant) {
        //= M54
        if crate::mutated!(self.io.config, PausesUnnoticed) {
            return;
        }
        let Some(asked) = self.io.timers.next() else { return };
        let t = &self.io.timeouts;
        // Until the timers are looked at, that pause is known already.
        if now.since(asked.max(self.io.paused_at)) <= t.token_loss / 2 {
            return;
        }
        self.io.paused_at = now;
        self.io.counters.pauses += 1;
        let grace = now + 3 * t.token_retransmit_idle;
        if let RingState::Operational(state) = &mut self.state {
            return state.on_pause(&mut self.io, now);
        }
        for timer in [Timer::TokenLoss, Timer::Consensus] {
            self.io.timers.postpone(timer, grace);
        }
    }

    fn finish(&mut self, now: Instant, next: StateChange) {
        self.go(now, next);
        let armed = self.io.timers.armed_as(self.state.name());
        self.io.check(armed, "G14: exactly the timers of the state are armed");
        self.io.reserve();
        if self.io.queue.has_room_again() {
            self.io.output.push_back(Output::Room);
        }
    }
}

fn observe_old(old: &Old, see: &mut dyn FnMut(&'static str, u64)) {
    see("store_packets", old.store.held() as u64);
    see("store_bytes", old.store.bytes() as u64);
}

fn old_holds(old: &Old, seq: Seq) -> bool {
    seq <= old.store.discarded() || old.store.get(seq).is_some()
}
