//! Which state handles which input: the tables.
use super::attempt::Told;
use super::packet::MembershipPacket;
use super::timer::MembershipTimer;
use super::{Membership, MembershipAction, MembershipState, NextState};
use crate::{Beacon, Proposal};
use consort_order::Arrival;
use consort_types::{Instant, MemberId, ViewId};

impl Membership {
    /// A membership packet came.
    pub fn handle(&mut self, now: Instant, arrival: &Arrival, packet: MembershipPacket) {
        self.wake(now);
        if !self.io.knows(now, arrival.from) || !self.io.heeds(now, arrival) {
            return;
        }
        self.io.presence.heard.refresh(arrival.from, now);
        if !self.is_plausible(&packet) {
            self.io.counters.implausible += 1;
            return;
        }
        if let MembershipPacket::Join(Proposal { clocks, .. }) | MembershipPacket::Beacon(Beacon { clocks, .. }) =
            &packet
        {
            //= M59
            self.io.presence.distances.note(now, arrival.at, arrival.from, clocks);
        }
        let next = self.on_packet(now, arrival.from, packet);
        self.follow();
        self.finish(now, next);
    }

    /// A packet of the engine came, sent in `view`. To be called before the engine looks at it, and all acts taken: it may
    /// be what shows that a new view stands. The engine uses the packet only if `view` is then the installed one and the
    /// sender one of its members.
    pub fn hear(&mut self, now: Instant, arrival: &Arrival, view: ViewId) {
        //= V02
        self.wake(now);
        let from = arrival.from;
        if !self.io.knows(now, from) {
            return;
        }
        // Who is in a view that works is heard in it, whoever else goes by its index.
        let stands = self.is_working() && self.is_member(from);
        if !stands && !self.io.presence.heard.is_latest(from, now) && !super::mutated!(self.io, DeadHeeded) {
            self.io.counters.old_incarnation += 1;
            return;
        }
        self.io.presence.heard.refresh(from, now);
        if let MembershipState::Attempt(attempt) = &self.state {
            let next = attempt.hear(&self.io, from, view);
            self.finish(now, next);
        }
        if let MembershipState::Working(working) = &mut self.state
            && view == self.io.installed.id
        {
            working.hear(&mut self.io, now, from);
        }
    }

    /// Whether a packet names incarnations that configured nodes can have, and a number that this group could have come to.
    fn is_plausible(&self, packet: &MembershipPacket) -> bool {
        //= M06
        //= M07
        let believes = |view: &ViewId| self.io.presence.numbers.believes(view.number);
        let nodes = &self.io.settings.nodes;
        let possible =
            |member: &MemberId| nodes.binary_search(&member.node).is_ok() && member.incarnation.is_plausible();
        match packet {
            MembershipPacket::Join(join) => {
                self.io.presence.numbers.believes(join.number) && join.proc.iter().chain(&join.fail).all(possible)
            }
            MembershipPacket::Beacon(beacon) => believes(&beacon.view) && beacon.members.iter().all(possible),
            MembershipPacket::Propose { view, members } => believes(view) && members.iter().all(possible),
            MembershipPacket::Plan(plan) => believes(&plan.view) && plan.members.iter().all(possible),
            MembershipPacket::Told { view, .. }
            | MembershipPacket::Ready { view, .. }
            | MembershipPacket::Install { view } => believes(view),
        }
    }

    /// Packet x state.
    fn on_packet(&mut self, now: Instant, from: MemberId, packet: MembershipPacket) -> NextState {
        let io = &mut self.io;
        match (&mut self.state, packet) {
            (MembershipState::Still | MembershipState::Left, _) => NextState::Stay,
            (_, MembershipPacket::Beacon(beacon)) => self.on_beacon(now, from, beacon),
            (state, MembershipPacket::Join(join)) => match state {
                _ if !io.heeds_join(now, from, &join) => NextState::Stay,
                MembershipState::Working(working) => working.on_join(io, now, from, &join),
                MembershipState::Gather(gather) => gather.on_join(io, now, from, &join),
                MembershipState::Attempt(attempt) => attempt.on_join(io, from, &join),
                MembershipState::Still | MembershipState::Left => NextState::Stay,
            },
            (MembershipState::Gather(gather), MembershipPacket::Propose { view, members }) => {
                gather.on_propose(io, from, view, members)
            }
            (MembershipState::Attempt(attempt), MembershipPacket::Propose { view, members }) => {
                attempt.on_propose(io, now, from, view, members)
            }
            (MembershipState::Attempt(attempt), MembershipPacket::Told { view, old, holding, hollow, links }) => {
                attempt.on_told(io, now, from, view, Told { old, holding, hollow, links })
            }
            (MembershipState::Attempt(attempt), MembershipPacket::Plan(plan)) => attempt.on_plan(io, now, from, plan),
            (MembershipState::Attempt(attempt), MembershipPacket::Ready { view, done }) => {
                attempt.on_ready(io, now, from, view, done)
            }
            (MembershipState::Attempt(attempt), MembershipPacket::Install { view }) => attempt.hear(io, from, view),
            (MembershipState::Working(working), MembershipPacket::Ready { view, done }) => {
                working.on_ready(io, now, from, view, done);
                NextState::Stay
            }
            _ => {
                io.counters.unexpected += 1;
                NextState::Stay
            }
        }
    }

    fn on_beacon(&mut self, now: Instant, from: MemberId, beacon: Beacon) -> NextState {
        let (io, view) = (&mut self.io, beacon.view);
        let annotation = io.presence.note_beacon(now, from, beacon);
        match &mut self.state {
            MembershipState::Working(working) if io.installed.id == view => {
                working.hear(io, now, from);
                io.acts.push_back(MembershipAction::Beacon { from, annotation });
                NextState::Stay
            }
            MembershipState::Working(working) => working.on_beacon(io, now),
            MembershipState::Gather(gather) => {
                gather.on_beacon(io, now, from);
                NextState::Stay
            }
            _ => NextState::Stay,
        }
    }

    /// Timer x state.
    pub(super) fn expire(&mut self, now: Instant, timer: MembershipTimer) -> NextState {
        let settled = self.is_working() && !self.io.leaving;
        let io = &mut self.io;
        match (&mut self.state, timer) {
            (MembershipState::Left | MembershipState::Still, _) => NextState::Stay,
            (_, MembershipTimer::Beacon) => {
                io.send_beacon(now, settled);
                NextState::Stay
            }
            (_, MembershipTimer::Leave) => NextState::Leave,
            (MembershipState::Working(working), MembershipTimer::Heartbeat) => {
                working.speak(io, now);
                NextState::Stay
            }
            (MembershipState::Working(working), MembershipTimer::Silence) => working.on_silence(io, now),
            (MembershipState::Gather(gather), MembershipTimer::Join) => {
                gather.on_join_timeout(io, now);
                NextState::Stay
            }
            (MembershipState::Gather(gather), MembershipTimer::Consensus) => gather.on_consensus_timeout(io, now),
            (MembershipState::Attempt(attempt), MembershipTimer::Repeat) => {
                attempt.on_repeat(io, now);
                NextState::Stay
            }
            (MembershipState::Attempt(attempt), MembershipTimer::Silence) => attempt.on_silence(io, now),
            (MembershipState::Attempt(attempt), MembershipTimer::AttemptMax) => attempt.give_up(io, now),
            _ => NextState::Stay,
        }
    }
}
