//! Recovery: on the new ring's own token, each packet that somebody lacks of its old ring is sent once, by one member.
//!
//! Leaves for Operational when all members hold everything that any of them held, or back to Gather with nothing lost.
use super::StateChange;
use super::commit::{gave_up, send};
use super::operational::Operational;
use super::{Sets, Why};
use crate::installation::{Installation, Old};
use crate::io::RingIo;
use crate::packet::{Commit, DataContent, DataPacket, Proposal, Recovered, RingPacket, Token};
use crate::timer::Timer;
use crate::token::{DataOutcome, Mode, PacketSource, Rotation};
use consort_order::SubmitQueue;
use consort_order::{Arrival, Destination, Output};
use consort_types::{Instant, MemberId, Primary, Seq, View, ViewCause, ViewKind};
use consort_wire::Lane;
use std::collections::VecDeque;

/// The state's data.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    pub old: Old,
    pub sets: Sets,
    pub rotation: Rotation,
    commit: Commit,
    /// Which of the commit token's old rings is this member's.
    mine: u8,
    /// What this member is to send for all.
    to_send: ToSend,
    /// How many packets all members send together: everything is recovered when aru reaches it.
    total: Seq,
    /// Whether the commit token this member passed on may still be lost.
    commit_out: bool,
    sent_first_token: bool,
    passed_before: Seq,
    visits: u32,
}

/// The packets of the old ring that this member is to send.
#[derive(Clone, Debug, Default)]
struct ToSend(VecDeque<Recovered>);

impl PacketSource for ToSend {
    fn next(&mut self, _queue: &mut SubmitQueue, _room: usize) -> Option<DataContent> {
        self.0.pop_front().map(DataContent::Recovered)
    }
}

impl Recovery {
    /// Enters with the commit token's second rotation; passes it on. A ring of one has nothing to wait for.
    pub fn enter(io: &mut RingIo, now: Instant, old: Old, sets: Sets, commit: Commit) -> (Self, StateChange) {
        //= M30
        io.timers.disarm_all_but(&[Timer::Beacon, Timer::Leave]);
        io.timers.arm(Timer::RecoveryMax, now + io.timeouts.recovery_max);
        let me = commit.members.iter().position(|(member, _)| *member == io.me).unwrap_or(0);
        let mine = commit.members[me].1.unwrap_or_default();
        let rotation = Rotation::new(io, now, commit.ring, commit.member_ids());
        let total = Seq(commit.olds.iter().map(|old| old.held.needed().count() as u64).sum());
        let holes = commit.olds.iter().map(|old| old.held.holes() as u64).sum::<u64>();
        let total = if crate::mutated!(io.config, HolesRecovered) { Seq(total.0 + holes) } else { total };
        let to_send = ToSend(duties(io, &old, &commit, mine, me as u8));
        let alone = rotation.is_alone();
        let (commit_out, sent_first_token, passed_before) = (!alone, false, Seq(0));
        let mut recovery = Self {
            old,
            sets,
            rotation,
            commit,
            mine,
            to_send,
            total,
            commit_out,
            sent_first_token,
            passed_before,
            visits: 0,
        };
        recovery.check_plan(io);
        recovery.oblige(io);
        if alone {
            return (recovery, StateChange::Install);
        }
        recovery.pass_on_commit(io, now);
        (recovery, StateChange::Stay)
    }

    fn check_plan(&self, io: &mut RingIo) {
        let mine = &self.commit.olds[usize::from(self.mine)];
        io.check(self.commit.ring.number > io.installed_number, "G2: ring numbers grow");
        io.check_told(mine.held.base() >= self.old.stable, "G11: what is stable is held by all");
        io.check_told(mine.line <= mine.held.highest(), "G11: what was proven stable is held by somebody");
    }

    fn check_install(&self, io: &mut RingIo, moved_together: &[MemberId]) {
        let (all_hold, alone) = (self.rotation.passed_aru.min(self.rotation.store.aru()), self.rotation.is_alone());
        io.check(
            alone || self.visits >= 2 && all_hold >= self.total,
            "G12: two visits, and all hold what is recovered",
        );
        io.check(self.old.is_as_told(), "G8: only recovered packets came into the frozen store");
        let (before, owed) = (&self.old.installed.view.members, &self.old.installed.obligations);
        let along = moved_together.iter().all(|member| before.contains(member) && owed.contains(member));
        io.check_told(along && moved_together.contains(&io.me), "G10: who moves along was in the view and is owed");
        io.check_told(owed.iter().all(|member| before.contains(member)), "G10: nothing is owed to strangers");
    }

    fn pass_on_commit(&self, io: &mut RingIo, now: Instant) {
        send(io, &self.commit);
        io.timers.arm(Timer::TokenRetransmit, now + io.timeouts.token_retransmit);
    }

    /// Once this member holds everything, others may deliver because of it: it owes them the same deliveries.
    fn oblige(&mut self, io: &RingIo) {
        //= M33
        if self.rotation.store.aru() >= self.total && !crate::mutated!(io.config, NoObligations) {
            let owed = &self.commit.olds[usize::from(self.mine)].obligations;
            self.old.installed.obligations.extend(owed);
            self.old.installed.obligations.extend(self.commit.moving_from(self.mine));
        }
    }

    /// The second rotation came back: all members have the plan, and the first token may go.
    pub fn on_commit(&mut self, io: &mut RingIo, now: Instant, from: MemberId, commit: &Commit) -> StateChange {
        //= M23
        let last = self.commit.members.last().is_some_and(|(member, _)| *member == from);
        let back = commit.ring == self.commit.ring && commit.rotation == 2 && last;
        let again = self.sent_first_token && !crate::mutated!(io.config, FirstTokenTwice);
        if !back || !self.rotation.is_representative() || again {
            io.counters.unexpected += 1;
            return StateChange::Stay;
        }
        self.sent_first_token = true;
        self.commit_out = false;
        self.rotation.first_token(io, now, Mode::Original, &mut self.to_send);
        self.after_visit(io)
    }

    /// The token of the ring to be, come perhaps some time ago.
    pub fn on_token(&mut self, io: &mut RingIo, now: Instant, arrival: &Arrival, token: Token) -> StateChange {
        //= M31
        if !self.rotation.accept(io, now, arrival, &token) {
            return StateChange::Stay;
        }
        if self.rotation.is_over(now, arrival.at, io.timeouts.token_loss) {
            return StateChange::gather(self.lost(io, now));
        }
        self.commit_out = false;
        if self.rotation.deaf_member(io, now, &token).is_some() {
            return StateChange::gather(self.lost(io, now));
        }
        self.rotation.on_token(io, now, token, Mode::Original, &mut self.to_send);
        self.after_visit(io)
    }

    fn after_visit(&mut self, io: &RingIo) -> StateChange {
        //= M34
        self.oblige(io);
        let passed = self.rotation.passed_aru;
        let complete = passed.min(self.passed_before) >= self.total && self.visits >= 1;
        self.passed_before = passed;
        self.visits += 1;
        self.rotation.store.discard_to(self.rotation.stable.min(self.total));
        if complete || crate::mutated!(io.config, InstallsEarly) && passed >= self.total {
            StateChange::Install
        } else {
            StateChange::Stay
        }
    }

    /// A packet of the ring to be. One that was recovered of this member's own old ring goes back to its place there.
    pub fn on_data(&mut self, io: &mut RingIo, from: MemberId, data: DataPacket) -> StateChange {
        //= M32
        if data.ring != self.rotation.ring {
            if crate::mutated!(io.config, StoreUnfrozen) && data.ring == self.old.installed.view.id {
                self.old.store.insert(data);
                return StateChange::Stay;
            }
            io.counters.foreign_ring += 1;
            return StateChange::Stay;
        }
        self.commit_out = false;
        if let DataContent::Recovered(recovered) = &data.content
            && recovered.old == self.mine
            && !crate::mutated!(io.config, NotPutBack)
        {
            self.put_back(recovered);
        }
        if self.rotation.receive(io, from, data) == DataOutcome::New {
            self.oblige(io);
        }
        StateChange::Stay
    }

    fn put_back(&mut self, recovered: &Recovered) {
        //= M32
        let held = &self.commit.olds[usize::from(self.mine)].held;
        if recovered.seq > held.highest() {
            return;
        }
        let content = recovered.body.clone().map_or(DataContent::Primary, DataContent::Messages);
        self.old.put_back(DataPacket {
            ring: self.old.installed.view.id,
            seq: recovered.seq,
            originator: recovered.originator,
            round: 0,
            retransmission: false,
            ack_request: false,
            stamp: recovered.stamp,
            content,
        });
    }

    /// Nothing shows that the last token, or the commit token, moved on.
    pub fn on_retransmit(&mut self, io: &mut RingIo, now: Instant) {
        if self.commit_out {
            io.counters.tokens_retransmitted += 1;
            self.pass_on_commit(io, now);
            io.send(Destination::All, Lane::Control, RingPacket::Commit(self.commit.clone()));
        } else {
            self.rotation.send_again(io, now);
        }
    }

    /// Why to gather again when the token of the ring to be is lost.
    pub fn lost(&self, io: &RingIo, now: Instant) -> Why {
        //= M40
        let _ = io;
        Why::new(ViewCause::TokenLost { after: now.since(self.rotation.token_at()) })
    }

    /// A member of the ring to be has gone back to gathering.
    pub fn on_join(&self, io: &RingIo, from: MemberId, join: &Proposal) -> StateChange {
        gave_up(&self.commit, &self.sets, io, from, join)
    }

    /// One step, with nothing between: the rest of the old view, the transitional view, what belongs to it, the new view.
    pub fn install(mut self, io: &mut RingIo, now: Instant) -> Operational {
        //= M35
        let line = self.commit.olds[usize::from(self.mine)].line;
        let line = if crate::mutated!(io.config, NoCutLine) { self.old.store.highest() } else { line };
        let line = if crate::mutated!(io.config, OwnLine) { self.old.line() } else { line };
        let moved_together: Vec<_> = self.commit.moving_from(self.mine).collect();
        self.check_install(io, &moved_together);
        if crate::mutated!(io.config, ClosesTooSoon) {
            io.output.push_back(Output::Install(self.transitional(io, &moved_together)));
        }
        self.old.deliver_regular(&io.config, line, &mut io.queue, &mut io.output);
        let closed = crate::mutated!(io.config, ClosesTooSoon);
        let untold = crate::mutated!(io.config, NoTransitional);
        if !closed && !untold {
            let all = crate::mutated!(io.config, AllMovedTogether).then(|| self.commit.member_ids());
            let along = all.as_ref().unwrap_or(&moved_together);
            io.output.push_back(Output::Install(self.transitional(io, along)));
        }
        self.old.deliver_transitional(&io.config, &mut io.queue, &mut io.output);
        io.check_told(io.queue.all_delivered(), "M35: all own messages of the old ring are delivered");
        #[cfg(feature = "mutants")]
        if crate::mutated!(io.config, QueueForgotten) {
            drop(io.queue.next_body(1 << 20));
        }
        if !crate::mutated!(io.config, PartForgotten) {
            io.queue.begin_anew();
        }
        let view = self.regular(io, now, moved_together);
        io.output.push_back(Output::Install(view.clone()));
        //= M38
        let inherited = crate::mutated!(io.config, RecoveryAruInherited);
        self.rotation.passed_aru = if inherited { Seq(u64::MAX) } else { Seq(0) };
        let installed = Installation::new(io.me, view, self.total);
        io.check(
            self.rotation.store.aru() >= installed.deliverer.delivered(),
            "G13: the new ring counts on from what it recovered",
        );
        Operational::enter(io, now, installed, self.rotation)
    }

    fn transitional(&self, io: &RingIo, moved_together: &[MemberId]) -> View {
        self.sets.transitional(self.old.installed.view.id, moved_together, io.config.primary.never())
    }

    fn regular(&self, io: &RingIo, now: Instant, moved_together: Vec<MemberId>) -> View {
        //= M55
        let members = self.commit.member_ids();
        let policy = &io.config.primary;
        let anywhere = crate::mutated!(io.config, PrimaryAnywhere) && *policy != consort_member::Policy::None;
        let at_install = policy.at_install(&io.config.members, &members);
        let evidence = self.sets.evidence(&io.hearsay(now), &self.old.installed.view.members, &members);
        View {
            id: self.rotation.ring,
            kind: ViewKind::Regular,
            members,
            moved_together,
            primary: if anywhere { Primary::Pending } else { at_install },
            cause: self.sets.trigger.clone(),
            evidence,
            missed_primary: false,
        }
    }

    /// For `status`.
    pub fn describe(&self) -> String {
        let (have, total) = (self.rotation.store.aru().min(self.total), self.total);
        format!("recovering ring {}: {have} of {total} packets", self.rotation.ring)
    }
}

/// The packets of this member's old ring that it, and nobody else, is to send.
fn duties(io: &RingIo, old: &Old, commit: &Commit, mine: u8, me: u8) -> VecDeque<Recovered> {
    //= M31
    let everything = crate::mutated!(io.config, EverybodySends);
    let needed = commit.olds[usize::from(mine)].held.needed();
    let assigned = needed.filter(|(_, holder)| *holder == me || everything);
    let recovered = assigned.filter_map(|(seq, _)| {
        let data = old.store.get(seq)?;
        let body = match &data.content {
            DataContent::Messages(body) => Some(body.clone()),
            _ => None,
        };
        Some(Recovered { old: mine, seq, originator: data.originator, stamp: data.stamp, body })
    });
    recovered.collect()
}
