//! Gather: members tell each other who should be in and who should be out, until all that should be in say the same.
//!
//! Leaves for Commit: with a commit token for exactly these members, built here by the lowest of them or received.
use super::{Committing, Reason, Sets, StateChange, Why};
use crate::RingId;
use crate::engine::RingIo;
use crate::installation::Old;
use crate::packet::{Commit, DataPacket, Join, RingPacket};
use crate::timer::Timer;
use consort_order::Destination;
use consort_types::{Duration, Instant, MemberId};
use consort_wire::Lane;
use std::collections::{BTreeMap, BTreeSet};

/// The state's data.
#[derive(Clone, Debug)]
pub(crate) struct Gather {
    pub old: Old,
    pub sets: Sets,
    /// Who said the same as this member says now.
    agreed: BTreeSet<MemberId>,
    /// The attempt each member saw last.
    attempts: BTreeMap<MemberId, Option<RingId>>,
    /// One consensus timeout has passed: being alone is then an answer.
    waited: bool,
    /// All agree, and a commit token should come.
    committing: bool,
    joined_at: Instant,
}

/// JOINs are sent at once when the sets change, but not more often than this.
const JOIN_LEAST: Duration = Duration::from_millis(2);

impl Gather {
    /// Enters from a ring that is over, or returns from one that was not finished.
    pub fn enter(io: &mut RingIo, now: Instant, old: Old, sets: Sets) -> Self {
        //= M10
        io.timers.disarm_all_but(&[Timer::Beacon, Timer::Leave]);
        io.counters.gathers += 1;
        let me = io.me;
        let mut gather = Self {
            old,
            sets,
            agreed: [me].into(),
            attempts: BTreeMap::new(),
            waited: false,
            committing: false,
            joined_at: now,
        };
        gather.wait_for_consensus(io, now);
        gather.send_join(io, now);
        gather
    }

    fn wait_for_consensus(&self, io: &mut RingIo, now: Instant) {
        io.timers.arm(Timer::Consensus, now + io.config.timers.consensus);
    }

    fn send_join(&mut self, io: &mut RingIo, now: Instant) {
        self.joined_at = now;
        io.check(self.sets.are_sound(io.me), "G9: this member is in, nobody is out who was never in, one life a node");
        let join = Join {
            proc: self.sets.proc.clone(),
            fail: self.sets.fail.clone(),
            number: io.numbers.highest(),
            ring: self.old.installed.view.id,
            heard: io.hears(now),
            leave: false,
            episode: io.episode,
            attempt: io.attempt,
        };
        io.counters.joins_sent += 1;
        io.send(Destination::All, Lane::Control, RingPacket::Join(join));
        let span = io.config.timers.join;
        let jitter = io.rng.below(span.as_nanos() as u64 / 2);
        io.timers.arm(Timer::Join, now + span + Duration::from_nanos(jitter));
    }

    /// The sets have changed: nobody is known to agree any more.
    fn restart(&mut self, io: &mut RingIo, now: Instant) {
        //= M10
        if !crate::mutated!(io.config, AgreementKept) {
            self.agreed = [io.me].into();
        }
        self.committing = false;
        self.wait_for_consensus(io, now);
        let earliest = self.joined_at + JOIN_LEAST;
        if earliest <= now {
            self.send_join(io, now);
        } else {
            io.timers.arm(Timer::Join, earliest);
        }
    }

    /// Time to say it again.
    pub fn on_join_timeout(&mut self, io: &mut RingIo, now: Instant) {
        self.send_join(io, now);
    }

    /// Somebody told whom it wants.
    pub fn on_join(&mut self, io: &mut RingIo, now: Instant, from: MemberId, join: &Join) -> StateChange {
        //= M11
        self.note_attempt(io, now, from, join.attempt);
        if crate::mutated!(io.config, EarlierLifeKept) {
            let reasons = &self.sets.reasons;
            self.sets.fail.retain(|life| reasons.get(&life.node) != Some(&Reason::Restarted));
        }
        if join.leave && !crate::mutated!(io.config, LeaveAgrees) {
            //= M15
            if self.sets.refuse(io.me, from, Reason::Left) {
                self.restart(io, now);
            }
            return self.try_commit(io, now);
        }
        if self.sets.fail.contains(&from) || !self.sets.proc.contains(&from) && !self.admits(io, now, from, join) {
            return StateChange::Stay;
        }
        if join.leave || self.sets.equal(&join.proc, &join.fail) {
            self.agreed.insert(from);
            return self.try_commit(io, now);
        }
        if !self.sets.cover(&join.proc, &join.fail) && self.sets.merge(io.me, from, &join.proc, &join.fail) {
            self.restart(io, now);
        }
        self.try_commit(io, now)
    }

    /// A stranger is let in if it hears us, and is not in quarantine.
    fn admits(&self, io: &RingIo, now: Instant, from: MemberId, join: &Join) -> bool {
        //= M17
        join.heard.contains(&io.me.node) && !join.fail.contains(&io.me) && !io.quarantine.holds(from.node, now)
    }

    fn has_consensus(&self, candidates: &[MemberId]) -> bool {
        candidates.iter().all(|member| self.agreed.contains(member))
    }

    /// All agree: the lowest builds the commit token, the others wait for it.
    pub fn try_commit(&mut self, io: &mut RingIo, now: Instant) -> StateChange {
        //= M20
        let candidates = self.sets.candidates();
        let alone = candidates.len() == 1;
        let hasty = alone && !self.waited && !self.is_deserted(io) && !crate::mutated!(io.config, AloneAtOnce);
        let unasked = crate::mutated!(io.config, CommitsUnasked) && candidates.len() > 1 && self.agreed.len() > 1;
        if !(self.has_consensus(&candidates) || unasked) || hasty || self.committing {
            return StateChange::Stay;
        }
        if !crate::mutated!(io.config, NobodySuspected)
            && let Some(suspect) = self.blocker(io, &candidates)
        {
            return self.exclude(io, now, suspect);
        }
        if candidates.first() != Some(&io.me) {
            self.committing = true;
            io.timers.arm(Timer::Consensus, now + io.config.timers.token_loss);
            return StateChange::Stay;
        }
        let reused = crate::mutated!(io.config, NumberReused);
        let number = if reused { io.installed_number + 4 } else { io.numbers.propose() };
        if !io.numbers.may_use(number) {
            return StateChange::Stay; // the ceiling is being raised; `handle_persisted` tries again
        }
        let ring = RingId { number, representative: io.me };
        let members = candidates.into_iter().map(|member| (member, None)).collect();
        StateChange::Commit(Commit { ring, rotation: 1, members, olds: Vec::new() })
    }

    /// Whether there were others, and each of them said good-bye or was asked in vain.
    fn is_deserted(&self, io: &RingIo) -> bool {
        //= M14
        let mut others = self.sets.proc.iter().filter(|member| **member != io.me).peekable();
        let reason = |member: &MemberId| self.sets.reasons.get(&member.node);
        let has_left = |member: &MemberId| matches!(reason(member), Some(Reason::Left | Reason::Silent));
        others.peek().is_some() && others.all(has_left)
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
        if attempt > latest && self.agreed.len() > 1 {
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
        if suspect == io.me {
            let others: Vec<_> = self.sets.candidates().into_iter().filter(|member| *member != io.me).collect();
            for member in others {
                io.keep_out(member.node, now);
                self.sets.refuse(io.me, member, Reason::Deaf);
            }
        } else {
            io.keep_out(suspect.node, now);
            self.sets.refuse(io.me, suspect, Reason::Deaf);
        }
        self.restart(io, now);
        StateChange::Stay
    }

    /// Long enough waited.
    pub fn on_consensus_timeout(&mut self, io: &mut RingIo, now: Instant) -> StateChange {
        //= M12
        //= M13
        //= M14
        self.waited = true;
        let candidates = self.sets.candidates();
        if self.committing {
            // All agreed, but no commit token came: ask once more who is there.
            self.committing = false;
            self.agreed = [io.me].into();
            self.send_join(io, now);
            io.timers.arm(Timer::Consensus, now + io.config.timers.token_loss);
            return StateChange::Stay;
        }
        self.wait_for_consensus(io, now);
        let silent: Vec<_> = candidates.iter().copied().filter(|member| !self.agreed.contains(member)).collect();
        if silent.is_empty() {
            return self.try_commit(io, now);
        }
        if crate::mutated!(io.config, SilentKept) {
            return StateChange::Stay;
        }
        for member in silent {
            self.sets.refuse(io.me, member, Reason::Silent);
        }
        self.restart(io, now);
        self.try_commit(io, now)
    }

    /// A commit token came: take part if it is for exactly those this member wants, newer than any before, and its turn.
    pub fn on_commit(&mut self, io: &mut RingIo, from: MemberId, commit: Commit) -> StateChange {
        //= M21
        let candidates = self.sets.candidates();
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
    pub fn on_beacon(&mut self, io: &mut RingIo, now: Instant, from: MemberId) -> StateChange {
        //= M51
        let Some(hearing) = io.heard.get(from.node, now) else { return StateChange::Stay };
        let strangers = hearing.members.clone();
        let known = |member: &MemberId| self.sets.proc.contains(member);
        if !hearing.settled || strangers.iter().any(known) || strangers.iter().any(|m| io.quarantine.holds(m.node, now))
        {
            return StateChange::Stay;
        }
        let nodes =
            self.sets.candidates().into_iter().chain(strangers.iter().copied()).map(|member| member.node).collect();
        if io.heard.all_mutual(io.me.node, &nodes, now) {
            let why = Why::new(self.sets.trigger.clone()).adding(strangers);
            if self.sets.take(io.me, &why) {
                self.restart(io, now);
            }
        }
        StateChange::Stay
    }

    /// For `status`.
    pub fn describe(&self) -> String {
        let names = |members: &mut dyn Iterator<Item = &MemberId>| {
            members.map(|member| member.node.to_string()).collect::<Vec<_>>().join(", ")
        };
        let candidates = self.sets.candidates();
        let waiting = names(&mut candidates.iter().filter(|member| !self.agreed.contains(member)));
        let why = &self.sets.trigger;
        match waiting.is_empty() {
            true if candidates.len() == 1 => format!("gathering ({why}): nobody else heard yet"),
            true => format!("gathering ({why}): {} agree, waiting for the commit token", names(&mut candidates.iter())),
            false => format!("gathering ({why}): waiting for {waiting} to agree"),
        }
    }
}
