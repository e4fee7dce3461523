//! A member that misses the token asks the others before it gives the ring up: whoever was not run for a while comes back,
//! and the token with it.
use super::Operational;
use super::StateChange;
use super::{Reason, Why};
use crate::io::RingIo;
use crate::packet::{Late, RingPacket, Trail};
use crate::timer::{Span, Timer};
use consort_order::Destination;
use consort_types::{Instant, MemberId, NodeId, ViewCause};
use consort_wire::Lane;
use std::collections::{BTreeMap, BTreeSet};

/// What others said since this member is late.
#[derive(Clone, Debug)]
pub(super) struct LateInquiry {
    since: Instant,
    heard: BTreeMap<MemberId, Trail>,
    /// Whom this member or another has heard: a way that is cut in one direction is no reason to part.
    there: BTreeSet<NodeId>,
}

impl Operational {
    /// No new token for `token_loss`: asks the others; or, if that was long ago, gives the ring up.
    pub fn on_token_missed(&mut self, io: &mut RingIo, now: Instant) -> StateChange {
        //= R27
        //= M57
        if self.late.is_some() || crate::mutated!(io.config, GivenUpUnasked) {
            return self.on_token_loss(io, now);
        }
        self.ask_where(io, now);
        StateChange::Stay
    }

    /// Begins to ask.
    pub(super) fn ask_where(&mut self, io: &mut RingIo, now: Instant) {
        //= M57
        io.counters.tokens_late += 1;
        // The token may have rested before whoever has it now was not run any more.
        io.wait(Timer::TokenLoss, now, Span::Question);
        self.ask_anew(io, now);
    }

    fn ask_anew(&mut self, io: &mut RingIo, now: Instant) {
        self.late = Some(LateInquiry { since: now, heard: BTreeMap::new(), there: BTreeSet::new() });
        self.ask_again(io, now);
    }

    /// Time to ask again.
    pub fn ask_again(&self, io: &mut RingIo, now: Instant) {
        //= M57
        self.say_where(io, true);
        let again = io.presence.again(now, io.timeouts.join);
        io.timers.arm(Timer::Question, again);
    }

    fn say_where(&self, io: &mut RingIo, asks: bool) {
        let heard = self.late.as_ref().map_or_else(BTreeSet::new, |question| question.there.clone());
        let late = Late { ring: self.rotation.ring, asks, trail: self.rotation.trail(), heard };
        io.send(Destination::All, Lane::Control, RingPacket::Late(late));
    }

    /// A token came, or is known not to be missed.
    pub(super) fn is_found(&mut self, io: &mut RingIo) {
        self.late = None;
        io.timers.disarm(Timer::Question);
    }

    /// Somebody misses the token, or answers whoever does.
    pub fn on_late(&mut self, io: &mut RingIo, now: Instant, from: MemberId, late: Late) -> StateChange {
        //= M57
        if late.ring != self.rotation.ring {
            io.counters.foreign_ring += 1;
            if late.ring.number < self.rotation.ring.number {
                io.beacon_soon(now);
            }
            return StateChange::Stay;
        }
        match &mut self.late {
            Some(question) => {
                question.heard.insert(from, late.trail);
                question.there.extend(late.heard);
                question.there.insert(from.node);
            }
            None if late.asks && now.since(self.answered_at) >= io.timeouts.join => {
                self.answered_at = now;
                self.say_where(io, false);
            }
            None => {}
        }
        if self.late.is_some() && self.rotation.is_parked() {
            //= M54
            self.is_found(io);
            io.wait(Timer::TokenLoss, now, Span::TokenLoss);
            self.release(io, now);
            return self.may_leave(io);
        }
        StateChange::Stay
    }

    /// This node was not run for a while: what it has heard before is not what is so now, and it must first hear what the
    /// others say.
    pub fn on_pause(&mut self, io: &mut RingIo, now: Instant) {
        //= M54
        if self.late.is_some() && io.timers.postpone(Timer::TokenLoss, now + io.timeouts.question()) {
            self.ask_anew(io, now);
        }
    }

    /// Asked in vain: this ring is over. Who was silent all the time is out from the start.
    pub fn on_token_loss(&self, io: &mut RingIo, now: Instant) -> StateChange {
        //= R27
        //= M57
        if crate::mutated!(io.config, TokenLossIgnored) {
            return StateChange::Stay;
        }
        io.counters.token_losses += 1;
        self.quarantine_young(io, now);
        let mut why = Why::new(ViewCause::TokenLost { after: now.since(self.rotation.token_at()) });
        if !crate::mutated!(io.config, SilentAskedAgain) {
            for member in self.silent() {
                why = why.failing(member, Reason::Silent);
            }
        }
        StateChange::gather(why)
    }

    /// This member has asked for the token, and these were heard.
    #[cfg(feature = "model")]
    pub fn have_answered(&mut self, there: &[consort_types::NodeId]) {
        let there = there.iter().copied().collect();
        self.late = Some(LateInquiry { since: Instant::ZERO, heard: BTreeMap::new(), there });
    }

    /// Whom nobody has heard since this member is late.
    fn silent(&self) -> Vec<MemberId> {
        let Some(question) = &self.late else { return Vec::new() };
        let is_there = |member: &MemberId| *member == self.rotation.me || question.there.contains(&member.node);
        self.rotation.members.iter().copied().filter(|member| !is_there(member)).collect()
    }

    /// Learns from the end of this ring: if all were there and the token was not, it does not pass from one to the next.
    pub fn note_end(&self, io: &mut RingIo, now: Instant) {
        //= M58
        if let Some(suspect) = self.stuck_before(io, now)
            && !crate::mutated!(io.config, HopForgotten)
        {
            io.suspicion.note(self.rotation.ring, suspect);
        }
    }

    /// The member that the token did not come to, though all were heard for long enough.
    fn stuck_before(&self, io: &RingIo, now: Instant) -> Option<MemberId> {
        let question = self.late.as_ref()?;
        let all_tell = question.heard.len() + 1 == self.rotation.members.len();
        if now.since(question.since) < io.timeouts.consensus / 2 || !all_tell {
            return None;
        }
        let mine = (self.rotation.me, self.rotation.trail());
        let told = question.heard.iter().map(|(member, trail)| (*member, *trail)).chain([mine]);
        let (last, trail) = told.max_by_key(|(_, trail)| trail.token_seq)?;
        let members = &self.rotation.members;
        let place = members.iter().position(|member| *member == last)?;
        let next = members[(place + 1) % members.len()];
        (next.node == trail.to).then_some(next)
    }

    /// For `status`: whom this member has asked, and who has not answered.
    pub(super) fn describe_late(&self, now: Instant) -> Option<String> {
        let question = self.late.as_ref()?;
        let after = now.since(self.rotation.token_at());
        let silent: Vec<_> = self.silent().iter().map(|member| member.node.to_string()).collect();
        let asked = now.since(question.since);
        Some(match silent.is_empty() {
            true => format!("no token for {after:?}: asked {asked:?} ago, all answer"),
            false => format!("no token for {after:?}: asked {asked:?} ago, no answer from {}", silent.join(", ")),
        })
    }
}
