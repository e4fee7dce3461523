//! Which state handles which input: the tables.
use super::packet::{Beacon, Packet};
use super::timer::Timer;
use super::{Act, Membership, Next, State};
use crate::Hearing;
use consort_order::Arrival;
use consort_types::{Instant, MemberId, ViewId};

impl Membership {
    /// A membership packet came.
    pub fn handle(&mut self, now: Instant, arrival: &Arrival, packet: Packet) {
        self.io.note_pause(now);
        if !self.io.knows(now, arrival.from) || !self.io.heeds(now, arrival) {
            return;
        }
        self.io.heard.refresh(arrival.from, now);
        if !self.is_plausible(&packet) {
            self.io.counters.implausible += 1;
            return;
        }
        let next = self.on_packet(now, arrival.from, packet);
        self.finish(now, next);
    }

    /// A packet of the engine came, sent in `view`. To be called before the engine looks at it, and all acts taken: it may
    /// be what shows that a new view stands. The engine uses the packet only if `view` is then the installed one and the
    /// sender one of its members.
    pub fn hear(&mut self, now: Instant, arrival: &Arrival, view: ViewId) {
        //= V02
        self.io.note_pause(now);
        let from = arrival.from;
        if !self.io.knows(now, from) {
            return;
        }
        // Who is in a view that works is heard in it, whoever else goes by its index.
        let stands = self.is_working() && self.is_member(from);
        if !stands && !self.io.heard.is_latest(from, now) && !super::mutated!(self.io, DeadHeeded) {
            self.io.counters.old_incarnation += 1;
            return;
        }
        self.io.heard.refresh(from, now);
        if let State::Attempt(attempt) = &self.state {
            let next = attempt.hear(&self.io, from, view);
            self.finish(now, next);
        }
        if let State::Working(working) = &mut self.state
            && view == self.io.installed.id
        {
            working.hear(&mut self.io, now, from);
        }
    }

    /// Whether a packet names lives that configured nodes can have, and a number that this group could have come to.
    fn is_plausible(&self, packet: &Packet) -> bool {
        //= M06
        //= M07
        let believes = |view: &ViewId| self.io.numbers.believes(view.number);
        let nodes = &self.io.settings.nodes;
        let possible =
            |member: &MemberId| nodes.binary_search(&member.node).is_ok() && member.incarnation.is_plausible();
        match packet {
            Packet::Join(join) => {
                self.io.numbers.believes(join.number) && join.proc.iter().chain(&join.fail).all(possible)
            }
            Packet::Beacon(beacon) => believes(&beacon.view) && beacon.members.iter().all(possible),
            Packet::Propose { view, members } => believes(view) && members.iter().all(possible),
            Packet::Plan(plan) => believes(&plan.view) && plan.members.iter().all(possible),
            Packet::Told { view, .. } | Packet::Ready { view, .. } | Packet::Install { view } => believes(view),
        }
    }

    /// Packet x state.
    fn on_packet(&mut self, now: Instant, from: MemberId, packet: Packet) -> Next {
        let io = &mut self.io;
        match (&mut self.state, packet) {
            (State::Still | State::Left, _) => Next::Stay,
            (_, Packet::Beacon(beacon)) => self.on_beacon(now, from, beacon),
            (state, Packet::Join(join)) => match state {
                _ if !io.heeds_join(now, from, &join) => Next::Stay,
                State::Working(working) => working.on_join(io, now, from, &join),
                State::Gather(gather) => gather.on_join(io, now, from, &join),
                State::Attempt(attempt) => attempt.on_join(io, from, &join),
                State::Still | State::Left => Next::Stay,
            },
            (State::Gather(gather), Packet::Propose { view, members }) => gather.on_propose(io, from, view, members),
            (State::Attempt(attempt), Packet::Propose { view, members }) => {
                attempt.on_propose(io, now, from, view, members)
            }
            (State::Attempt(attempt), Packet::Told { view, old, holding }) => {
                attempt.on_told(io, now, from, (view, old), holding)
            }
            (State::Attempt(attempt), Packet::Plan(plan)) => attempt.on_plan(io, now, from, plan),
            (State::Attempt(attempt), Packet::Ready { view, done }) => attempt.on_ready(io, now, from, view, done),
            (State::Attempt(attempt), Packet::Install { view }) => attempt.hear(io, from, view),
            (State::Working(working), Packet::Ready { view, done }) => {
                working.on_ready(io, now, from, view, done);
                Next::Stay
            }
            _ => {
                io.counters.unexpected += 1;
                Next::Stay
            }
        }
    }

    fn on_beacon(&mut self, now: Instant, from: MemberId, beacon: Beacon) -> Next {
        //= M50
        let io = &mut self.io;
        io.numbers.saw(beacon.view.number);
        io.heard.note_named(io.me, &beacon.members, now);
        io.heard.note(Hearing {
            member: from,
            at: now,
            hears: beacon.heard,
            view: beacon.view,
            members: beacon.members,
            wants: beacon.wants,
            settled: beacon.settled,
        });
        match &mut self.state {
            State::Working(working) if io.installed.id == beacon.view => {
                working.hear(io, now, from);
                io.acts.push_back(Act::Beacon { from, annotation: beacon.annotation });
                Next::Stay
            }
            State::Working(working) => working.on_beacon(io, now),
            State::Gather(gather) => gather.on_beacon(io, now, from),
            _ => Next::Stay,
        }
    }

    /// Timer x state.
    pub(super) fn expire(&mut self, now: Instant, timer: Timer) -> Next {
        let settled = self.is_working() && !self.io.leaving;
        let io = &mut self.io;
        match (&mut self.state, timer) {
            (State::Left | State::Still, _) => Next::Stay,
            (_, Timer::Beacon) => {
                io.send_beacon(now, settled);
                Next::Stay
            }
            (_, Timer::Leave) => Next::Leave,
            (State::Working(working), Timer::Heartbeat) => {
                working.speak(io, now);
                Next::Stay
            }
            (State::Working(working), Timer::Silence) => working.on_silence(io, now),
            (State::Gather(gather), Timer::Join) => {
                gather.on_join_timeout(io, now);
                Next::Stay
            }
            (State::Gather(gather), Timer::Consensus) => gather.on_consensus_timeout(io, now),
            (State::Attempt(attempt), Timer::Repeat) => {
                attempt.on_repeat(io, now);
                Next::Stay
            }
            (State::Attempt(attempt), Timer::Silence) => attempt.on_silence(io, now),
            (State::Attempt(attempt), Timer::AttemptMax) => attempt.give_up(io, now),
            _ => Next::Stay,
        }
    }
}
