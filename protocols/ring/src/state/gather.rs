//! Gather: members tell each other who should be in and who should be out, until all that should be in say the same.
//!
//! Leaves for Commit: with a commit token for exactly these members, built here by the lowest of them or received.
use super::{Committing, Reason, Sets, StateChange};
use crate::RingId;
use crate::installation::Old;
use crate::io::RingIo;
use crate::packet::{Commit, DataPacket, Join, RingPacket};
use crate::timer::{Span, Timer};
use consort_member::{Gathering, JoinEffect, Overdue};
use consort_order::Destination;
use consort_types::{Instant, MemberId};
use consort_wire::Lane;
use std::collections::BTreeMap;

/// The state's data.
#[derive(Clone, Debug)]
pub(crate) struct Gather {
    pub old: Old,
    pub gathering: Gathering,
    /// The attempt each member saw last.
    attempts: BTreeMap<MemberId, Option<RingId>>,
}

/// Members that failed for these reasons are gone: who is left of all is alone at once.
const GONE: &[Reason] = &[Reason::Left, Reason::Silent];

impl Gather {
    /// Enters from a ring that is over, or returns from one that was not finished.
    pub fn enter(io: &mut RingIo, now: Instant, old: Old, sets: Sets) -> Self {
        //= M10
        io.timers.disarm_all_but(&[Timer::Beacon, Timer::Leave]);
        io.counters.gathers += 1;
        let mut gather = Self { old, gathering: Gathering::new(io.me, sets, now), attempts: BTreeMap::new() };
        gather.gathering.waited = crate::mutated!(io.config, AloneAtOnce);
        gather.wait_for_consensus(io, now);
        gather.send_join(io, now);
        gather
    }

    fn wait_for_consensus(&self, io: &mut RingIo, now: Instant) {
        io.wait(Timer::Consensus, now, Span::Consensus);
    }

    fn send_join(&mut self, io: &mut RingIo, now: Instant) {
        let sound = self.gathering.sets.are_sound(io.me);
        io.check(sound, "G9: this member is in, nobody is out who was never in, one incarnation a node");
        let proposal = self.gathering.say(&io.presence, now);
        let join = Join { proposal, ring: self.old.installed.view.id, attempt: io.attempt };
        io.counters.joins_sent += 1;
        io.send(Destination::All, Lane::Control, RingPacket::Join(join));
        let again = io.presence.again(now, io.timeouts.join);
        io.timers.arm(Timer::Join, again);
    }

    /// The sets have changed, or what was agreed is used up.
    fn restart(&mut self, io: &mut RingIo, now: Instant) {
        let kept = crate::mutated!(io.config, AgreementKept).then(|| self.gathering.agreed.clone());
        let at = self.gathering.restart(now);
        self.gathering.agreed.extend(kept.into_iter().flatten());
        self.wait_for_consensus(io, now);
        if at <= now {
            self.send_join(io, now);
        } else {
            io.timers.arm(Timer::Join, at);
        }
    }

    /// Time to say it again.
    pub fn on_join_timeout(&mut self, io: &mut RingIo, now: Instant) {
        self.send_join(io, now);
    }

    /// Somebody told whom it wants.
    pub fn on_join(&mut self, io: &mut RingIo, now: Instant, from: MemberId, join: &Join) -> StateChange {
        self.note_attempt(io, now, from, join.attempt);
        let gathering = &mut self.gathering;
        if crate::mutated!(io.config, EarlierIncarnationKept) {
            let reasons = &gathering.sets.reasons;
            gathering.sets.fail.retain(|incarnation| reasons.get(&incarnation.node) != Some(&Reason::Restarted));
        }
        if join.proposal.leave && gathering.sets.proc.contains(&from) && crate::mutated!(io.config, LeaveAgrees) {
            gathering.agreed.insert(from);
            return self.try_commit(io, now);
        }
        match gathering.on_join(&io.presence, now, from, &join.proposal) {
            JoinEffect::Ignored => return StateChange::Stay,
            JoinEffect::Noted => {}
            JoinEffect::Changed => self.restart(io, now),
        }
        self.try_commit(io, now)
    }

    /// All agree: the lowest builds the commit token, the others wait for it.
    pub fn try_commit(&mut self, io: &mut RingIo, now: Instant) -> StateChange {
        //= M20
        if crate::mutated!(io.config, CommitsUnasked) && self.gathering.agreed.len() > 1 {
            self.gathering.agreed.extend(self.gathering.sets.candidates());
        }
        let Some(candidates) = self.gathering.consensus(GONE) else { return StateChange::Stay };
        if !crate::mutated!(io.config, NobodySuspected)
            && let Some(suspect) = self.blocker(io, &candidates)
        {
            return self.exclude(io, now, suspect);
        }
        if !self.gathering.leads(&candidates) {
            io.wait(Timer::Consensus, now, Span::TokenLoss);
            return StateChange::Stay;
        }
        let reused = crate::mutated!(io.config, NumberReused);
        let number = if reused { io.installed_number + 4 } else { io.presence.numbers.propose() };
        if !io.presence.numbers.may_use(number) {
            return StateChange::Stay; // the ceiling is being raised; `handle_persisted` tries again
        }
        let ring = RingId { number, representative: io.me };
        let members = candidates.into_iter().map(|member| (member, None)).collect();
        StateChange::Commit(Commit { ring, rotation: 1, members, olds: Vec::new() })
    }

    /// The member that the last commit token did not get past, if that happened twice running.
    fn blocker(&self, io: &mut RingIo, candidates: &[MemberId]) -> Option<MemberId> {
        //= M25
        let attempt = candidates.iter().filter_map(|member| self.attempt_of(io, *member)).max()?;
        if candidates.first() != Some(&attempt.representative) {
            return None;
        }
        let unreached = candidates.iter().copied().find(|member| self.attempt_of(io, *member) != Some(attempt));
        let suspect = unreached.unwrap_or(attempt.representative);
        if io.suspicion.note(attempt, suspect) { Some(suspect) } else { None }
    }

    /// Notes the last attempt a member saw. One that nobody has told of yet has used up what was agreed before: those
    /// that agreed may have seen it, too, and must say so before anybody is suspected.
    fn note_attempt(&mut self, io: &mut RingIo, now: Instant, from: MemberId, attempt: Option<RingId>) {
        //= M25
        let latest = self.attempts.values().copied().max().flatten().max(io.attempt);
        self.attempts.insert(from, attempt);
        if attempt > latest && self.gathering.agreed.len() > 1 {
            self.restart(io, now);
        }
    }

    fn attempt_of(&self, io: &RingIo, member: MemberId) -> Option<RingId> {
        if member == io.me { io.attempt } else { self.attempts.get(&member).copied().flatten() }
    }

    fn exclude(&mut self, io: &mut RingIo, now: Instant, suspect: MemberId) -> StateChange {
        //= M25
        //= M52
        io.suspicion.clear();
        // If it is this one, it goes alone: the others must not suffer.
        let mut out = self.gathering.sets.candidates();
        out.retain(|member| *member != io.me && (suspect == io.me || *member == suspect));
        out.iter().for_each(|member| io.keep_out(member.node, now));
        self.gathering.refuse_all(out, Reason::Deaf);
        self.restart(io, now);
        StateChange::Stay
    }

    /// Long enough waited.
    pub fn on_consensus_timeout(&mut self, io: &mut RingIo, now: Instant) -> StateChange {
        let overdue = self.gathering.on_overdue();
        self.wait_for_consensus(io, now);
        match overdue {
            Overdue::Forming => {
                self.send_join(io, now);
                io.wait(Timer::Consensus, now, Span::TokenLoss);
                return StateChange::Stay;
            }
            Overdue::Silent(silent) if silent.is_empty() => {}
            Overdue::Silent(_) if crate::mutated!(io.config, SilentKept) => return StateChange::Stay,
            Overdue::Silent(silent) => {
                self.gathering.refuse_all(silent, Reason::Silent);
                self.restart(io, now);
            }
        }
        self.try_commit(io, now)
    }

    /// A commit token came: take part if it is for exactly those this member wants, newer than any before, and its turn.
    pub fn on_commit(&mut self, io: &mut RingIo, from: MemberId, commit: Commit) -> StateChange {
        //= M21
        let candidates = self.gathering.sets.candidates();
        let wanted = commit.member_ids() == candidates || crate::mutated!(io.config, CommitForOthers);
        if wanted && Committing::is_my_turn(io, from, &commit) {
            return StateChange::Commit(commit);
        }
        io.counters.unexpected += 1;
        StateChange::Stay
    }

    /// A packet of the installed ring: kept, so that it need not be recovered; not delivered.
    pub fn on_data(&mut self, io: &mut RingIo, data: DataPacket) {
        let reach = crate::flow::reach(&io.config.windows);
        if data.ring == self.old.installed.view.id && data.seq <= self.old.stable.plus(reach) {
            self.old.store.insert(data);
        } else {
            io.counters.foreign_ring += 1;
        }
    }

    /// A settled stranger that all candidates hear and that hears all of them.
    pub fn on_beacon(&mut self, io: &mut RingIo, now: Instant, from: MemberId) {
        if self.gathering.on_beacon(&io.presence, now, from) {
            self.restart(io, now);
        }
    }
}
