//! Gather: members tell each other who should be in and who should be out, until all that should be in say the same.
//!
//! Leaves for an attempt at a view of exactly these: proposed here by the lowest of them, or by it there.
use super::NextState;
use super::io::MembershipIo;
use super::packet::MembershipPacket;
use super::timer::{MembershipTimer, Span};
use crate::{Gathering, JoinEffect, Overdue, Proposal, Reason, Sets};
use consort_order::Destination;
use consort_types::{Instant, MemberId, ViewId};

/// The state's data.
#[derive(Clone, Debug)]
pub(super) struct GatherState {
    pub gathering: Gathering,
}

impl GatherState {
    /// Enters from a view that is over, or returns from one that was not finished.
    pub fn enter(io: &mut MembershipIo, now: Instant, sets: Sets) -> Self {
        //= M10
        io.timers.disarm_state();
        io.counters.gathers += 1;
        let mut gather = Self { gathering: Gathering::new(io.me, sets, now) };
        gather.keep_out(io, now);
        gather.wait_for_consensus(io, now);
        gather.send_join(io, now);
        gather
    }

    fn wait_for_consensus(&self, io: &mut MembershipIo, now: Instant) {
        io.wait(MembershipTimer::Consensus, now, Span::Consensus);
    }

    fn send_join(&mut self, io: &mut MembershipIo, now: Instant) {
        let join = self.gathering.say(&io.presence, now);
        io.counters.joins_sent += 1;
        io.send(Destination::All, MembershipPacket::Join(join));
        let again = io.presence.again(now, io.timeouts.join);
        io.timers.arm(MembershipTimer::Join, again);
    }

    /// Who is in quarantine here stays out, whoever brings it.
    fn keep_out(&mut self, io: &MembershipIo, now: Instant) {
        //= V05
        if super::mutated!(io, QuarantineForgotten) {
            return;
        }
        let mut kept = self.gathering.sets.candidates();
        kept.retain(|member| io.presence.quarantine.holds(member.node, now));
        self.gathering.refuse_all(kept, Reason::Silent);
    }

    /// The sets have changed.
    fn restart(&mut self, io: &mut MembershipIo, now: Instant) {
        self.keep_out(io, now);
        let at = self.gathering.restart(now);
        self.wait_for_consensus(io, now);
        if at <= now {
            self.send_join(io, now);
        } else {
            io.timers.arm(MembershipTimer::Join, at);
        }
    }

    /// Time to say it again.
    pub fn on_join_timeout(&mut self, io: &mut MembershipIo, now: Instant) {
        self.send_join(io, now);
    }

    /// Somebody told whom it wants.
    pub fn on_join(&mut self, io: &mut MembershipIo, now: Instant, from: MemberId, join: &Proposal) -> NextState {
        match self.gathering.on_join(&io.presence, now, from, join) {
            JoinEffect::Ignored => return NextState::Stay,
            JoinEffect::Noted => {}
            JoinEffect::Changed => self.restart(io, now),
        }
        self.try_propose(io, now)
    }

    /// The engine knows that these are not reached any more.
    pub fn go_without(&mut self, io: &mut MembershipIo, now: Instant, gone: &[MemberId]) -> NextState {
        //= V20
        let wanted = self.gathering.sets.candidates();
        let gone: Vec<_> = gone.iter().copied().filter(|member| wanted.contains(member)).collect();
        if !gone.is_empty() {
            self.gathering.refuse_all(gone, Reason::Silent);
            self.restart(io, now);
        }
        self.try_propose(io, now)
    }

    /// All agree: the lowest proposes a view, the others wait for it.
    pub fn try_propose(&mut self, io: &mut MembershipIo, now: Instant) -> NextState {
        //= V10
        if super::mutated!(io, ProposesUnasked) && self.gathering.agreed.len() > 1 {
            self.gathering.agreed.extend(self.gathering.sets.candidates());
        }
        let Some(members) = self.gathering.consensus(&[Reason::Left]) else { return NextState::Stay };
        if !self.gathering.leads(&members) {
            io.wait(MembershipTimer::Consensus, now, Span::Silence);
            return NextState::Stay;
        }
        let reused = super::mutated!(io, NumberReused);
        let number = if reused { io.installed.id.number + 4 } else { io.presence.numbers.propose() };
        if !io.presence.numbers.may_use(number) {
            return NextState::Stay; // the ceiling is being raised; `handle_persisted` tries again
        }
        NextState::Attempt { view: ViewId { number, representative: io.me }, members }
    }

    /// Long enough waited.
    pub fn on_consensus_timeout(&mut self, io: &mut MembershipIo, now: Instant) -> NextState {
        let overdue = self.gathering.on_overdue();
        self.wait_for_consensus(io, now);
        match overdue {
            Overdue::Forming => {
                self.send_join(io, now);
                return NextState::Stay;
            }
            Overdue::Silent(silent) if silent.is_empty() => {}
            Overdue::Silent(_) if super::mutated!(io, SilentKept) => return NextState::Stay,
            Overdue::Silent(silent) => {
                self.gathering.refuse_all(silent, Reason::Silent);
                self.restart(io, now);
            }
        }
        self.try_propose(io, now)
    }

    /// A proposal came: take part if it is by the lowest of exactly those this member wants, and newer than any before.
    pub fn on_propose(&self, io: &mut MembershipIo, from: MemberId, view: ViewId, members: Vec<MemberId>) -> NextState {
        //= V10
        if members == self.gathering.sets.candidates() && is_acceptable(io, from, view, &members) {
            return NextState::Attempt { view, members };
        }
        io.counters.unexpected += 1;
        NextState::Stay
    }

    /// A settled stranger that all candidates hear and that hears all of them.
    pub fn on_beacon(&mut self, io: &mut MembershipIo, now: Instant, from: MemberId) {
        if self.gathering.on_beacon(&io.presence, now, from) {
            self.restart(io, now);
        }
    }
}

/// Whether this member may take part in forming this view.
pub(super) fn is_acceptable(io: &mut MembershipIo, from: MemberId, view: ViewId, members: &[MemberId]) -> bool {
    //= V10
    io.presence.numbers.saw(view.number);
    let led = members.first() == Some(&from) && view.representative == from;
    led && view.number > io.taken && io.presence.numbers.may_use(view.number)
}
