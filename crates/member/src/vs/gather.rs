//! Gather: members tell each other who should be in and who should be out, until all that should be in say the same.
//!
//! Leaves for an attempt at a view of exactly these: proposed here by the lowest of them, or by it there.
use super::NextState;
use super::io::MembershipIo;
use super::packet::{JoinProposal, MembershipPacket};
use super::timer::MembershipTimer;
use crate::{Reason, Sets, Why};
use consort_order::Destination;
use consort_types::{Duration, Instant, MemberId, ViewId};
use std::collections::BTreeSet;

/// The state's data.
#[derive(Clone, Debug)]
pub(super) struct GatherState {
    pub sets: Sets,
    /// Who said the same as this member says now.
    agreed: BTreeSet<MemberId>,
    /// One consensus timeout has passed: being alone is then an answer.
    waited: bool,
    /// All agree, and a proposal should come.
    awaiting: bool,
    joined_at: Instant,
}

/// JOINs are sent at once when the sets change, but not more often than this.
const JOIN_LEAST: Duration = Duration::from_millis(2);

impl GatherState {
    /// Enters from a view that is over, or returns from one that was not finished.
    pub fn enter(io: &mut MembershipIo, now: Instant, sets: Sets) -> Self {
        //= M10
        io.timers.disarm_state();
        io.counters.gathers += 1;
        let agreed = [io.me].into();
        let mut gather = Self { sets, agreed, waited: false, awaiting: false, joined_at: now };
        gather.keep_out(io, now);
        gather.wait_for_consensus(io, now);
        gather.send_join(io, now);
        gather
    }

    fn wait_for_consensus(&self, io: &mut MembershipIo, now: Instant) {
        io.timers.arm(MembershipTimer::Consensus, now + io.settings.timers.consensus);
    }

    fn send_join(&mut self, io: &mut MembershipIo, now: Instant) {
        self.joined_at = now;
        let join = JoinProposal {
            proc: self.sets.proc.clone(),
            fail: self.sets.fail.clone(),
            number: io.numbers.highest(),
            heard: io.hears(now),
            leave: false,
            episode: io.episode,
        };
        io.counters.joins_sent += 1;
        io.send(Destination::All, MembershipPacket::Join(join));
        let span = io.settings.timers.join;
        let jitter = io.rng.below(span.as_nanos() as u64 / 2);
        io.timers.arm(MembershipTimer::Join, now + span + Duration::from_nanos(jitter));
    }

    /// Who is in quarantine here stays out, whoever brings it.
    fn keep_out(&mut self, io: &MembershipIo, now: Instant) {
        //= V05
        if super::mutated!(io, QuarantineForgotten) {
            return;
        }
        for member in self.sets.candidates().into_iter().filter(|member| io.quarantine.holds(member.node, now)) {
            self.sets.refuse(io.me, member, Reason::Silent);
        }
    }

    /// The sets have changed: nobody is known to agree any more.
    fn restart(&mut self, io: &mut MembershipIo, now: Instant) {
        //= M10
        self.agreed = [io.me].into();
        self.awaiting = false;
        self.wait_for_consensus(io, now);
        let earliest = self.joined_at + JOIN_LEAST;
        if earliest <= now {
            self.send_join(io, now);
        } else {
            io.timers.arm(MembershipTimer::Join, earliest);
        }
    }

    /// Time to say it again.
    pub fn on_join_timeout(&mut self, io: &mut MembershipIo, now: Instant) {
        self.send_join(io, now);
    }

    /// Somebody told whom it wants.
    pub fn on_join(&mut self, io: &mut MembershipIo, now: Instant, from: MemberId, join: &JoinProposal) -> NextState {
        //= M11
        if join.leave {
            //= M15
            if self.sets.refuse(io.me, from, Reason::Left) {
                self.restart(io, now);
            }
            return self.try_propose(io, now);
        }
        if self.sets.fail.contains(&from) || !self.sets.proc.contains(&from) && !admits(io, now, from, join) {
            return NextState::Stay;
        }
        if self.sets.equal(&join.proc, &join.fail) {
            self.agreed.insert(from);
            return self.try_propose(io, now);
        }
        let known = self.sets.cover(&join.proc, &join.fail);
        if !known && self.sets.merge(io.me, from, &join.proc, &join.fail) {
            self.keep_out(io, now);
            self.restart(io, now);
        }
        self.try_propose(io, now)
    }

    /// All agree: the lowest proposes a view, the others wait for it.
    pub fn try_propose(&mut self, io: &mut MembershipIo, now: Instant) -> NextState {
        //= V10
        let candidates = self.sets.candidates();
        let hasty = candidates.len() == 1 && !self.waited && !self.is_deserted(io);
        let unasked = super::mutated!(io, ProposesUnasked) && candidates.len() > 1 && self.agreed.len() > 1;
        let agree = candidates.iter().all(|member| self.agreed.contains(member)) || unasked;
        if !agree || hasty || self.awaiting {
            return NextState::Stay;
        }
        if candidates.first() != Some(&io.me) {
            self.awaiting = true;
            io.timers.arm(MembershipTimer::Consensus, now + io.settings.timers.silence);
            return NextState::Stay;
        }
        let reused = super::mutated!(io, NumberReused);
        let number = if reused { io.installed.id.number + 4 } else { io.numbers.propose() };
        if !io.numbers.may_use(number) {
            return NextState::Stay; // the ceiling is being raised; `handle_persisted` tries again
        }
        NextState::Attempt { view: ViewId { number, representative: io.me }, members: candidates }
    }

    /// Whether there were others, and each of them said good-bye.
    fn is_deserted(&self, io: &MembershipIo) -> bool {
        //= M14
        let mut others = self.sets.proc.iter().filter(|member| **member != io.me).peekable();
        let has_left = |member: &MemberId| self.sets.reasons.get(&member.node) == Some(&Reason::Left);
        others.peek().is_some() && others.all(has_left)
    }

    /// Long enough waited.
    pub fn on_consensus_timeout(&mut self, io: &mut MembershipIo, now: Instant) -> NextState {
        //= M12
        //= M13
        //= M14
        self.waited = true;
        if self.awaiting {
            // All agreed, but no proposal came: ask once more who is there.
            self.awaiting = false;
            self.agreed = [io.me].into();
            self.send_join(io, now);
            self.wait_for_consensus(io, now);
            return NextState::Stay;
        }
        self.wait_for_consensus(io, now);
        let candidates = self.sets.candidates();
        let silent: Vec<_> = candidates.into_iter().filter(|member| !self.agreed.contains(member)).collect();
        if silent.is_empty() {
            return self.try_propose(io, now);
        }
        if super::mutated!(io, SilentKept) {
            return NextState::Stay;
        }
        for member in silent {
            self.sets.refuse(io.me, member, Reason::Silent);
        }
        self.restart(io, now);
        self.try_propose(io, now)
    }

    /// A proposal came: take part if it is by the lowest of exactly those this member wants, and newer than any before.
    pub fn on_propose(&self, io: &mut MembershipIo, from: MemberId, view: ViewId, members: Vec<MemberId>) -> NextState {
        //= V10
        if members == self.sets.candidates() && is_acceptable(io, from, view, &members) {
            return NextState::Attempt { view, members };
        }
        io.counters.unexpected += 1;
        NextState::Stay
    }

    /// A settled stranger that all candidates hear and that hears all of them.
    pub fn on_beacon(&mut self, io: &mut MembershipIo, now: Instant, from: MemberId) -> NextState {
        //= M51
        let Some(hearing) = io.heard.get(from.node, now) else { return NextState::Stay };
        let strangers = hearing.members.clone();
        let known = |member: &MemberId| self.sets.proc.contains(member);
        let kept_out = |member: &MemberId| io.quarantine.holds(member.node, now);
        if !hearing.settled || strangers.iter().any(known) || strangers.iter().any(kept_out) {
            return NextState::Stay;
        }
        let candidates = self.sets.candidates();
        let nodes = candidates.iter().chain(&strangers).map(|member| member.node).collect();
        if io.heard.all_mutual(io.me.node, &nodes, now) {
            let why = Why::new(self.sets.trigger.clone()).adding(strangers);
            if self.sets.take(io.me, &why) {
                self.restart(io, now);
            }
        }
        NextState::Stay
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
            true => format!("gathering ({why}): {} agree, waiting for the proposal", names(&mut candidates.iter())),
            false => format!("gathering ({why}): waiting for {waiting} to agree"),
        }
    }
}

/// Whether this member may take part in forming this view.
pub(super) fn is_acceptable(io: &mut MembershipIo, from: MemberId, view: ViewId, members: &[MemberId]) -> bool {
    //= V10
    io.numbers.saw(view.number);
    let led = members.first() == Some(&from) && view.representative == from;
    led && view.number > io.taken && io.numbers.may_use(view.number)
}

/// A stranger is let in if it hears us, and is not in quarantine.
fn admits(io: &MembershipIo, now: Instant, from: MemberId, join: &JoinProposal) -> bool {
    //= M17
    join.heard.contains(&io.me.node) && !join.fail.contains(&io.me) && !io.quarantine.holds(from.node, now)
}
