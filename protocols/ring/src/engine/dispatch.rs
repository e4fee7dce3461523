//! Which state handles which input: the tables.
use super::{Ring, RingState};
use crate::packet::{Beacon, Commit, Join, Late, Proposal, RingPacket};
use crate::state::{StateChange, Why};
use crate::timer::Timer;
use consort_order::{Arrival, Destination, Output};
use consort_types::{Instant, MemberId};
use consort_wire::Lane;

impl Ring {
    /// Packet x state, for the packets of a ring that works.
    pub(super) fn on_regular(&mut self, now: Instant, arrival: &Arrival, packet: RingPacket) -> StateChange {
        let (io, from) = (&mut self.io, arrival.from);
        match (&mut self.state, packet) {
            (RingState::Operational(state), RingPacket::Data(data)) => {
                io.backlog.waited = io.backlog.waited.max(now.since(arrival.at));
                state.on_data(io, now, from, data)
            }
            (RingState::Operational(state), RingPacket::Token(token)) => state.on_token(io, now, arrival, token),
            (RingState::Operational(state), RingPacket::Ack(ack)) => state.on_ack(io, from, ack),
            (RingState::Operational(state), RingPacket::TokenRequest(request)) => {
                state.rotation.on_token_request(io, now, from, request);
                StateChange::Stay
            }
            (RingState::Operational(state), RingPacket::Reach(reach)) => {
                state.rotation.on_reach(io, now, from, reach);
                StateChange::Stay
            }
            (RingState::Recovery(state), RingPacket::Data(data)) => state.on_data(io, from, data),
            (RingState::Recovery(state), RingPacket::Token(token)) => state.on_token(io, now, arrival, token),
            (RingState::Commit(state), RingPacket::Data(data)) => {
                state.on_data(io, data);
                StateChange::Stay
            }
            (RingState::Gather(state), RingPacket::Data(data)) => {
                state.on_data(io, data);
                StateChange::Stay
            }
            // Tokens of a ring that was given up are worth nothing; no ring is parked here.
            _ => {
                io.counters.unexpected += 1;
                StateChange::Stay
            }
        }
    }

    /// Packet x state, for the packets of membership.
    pub(super) fn on_membership(&mut self, now: Instant, arrival: &Arrival, packet: RingPacket) -> StateChange {
        let from = arrival.from;
        if !self.is_plausible(&packet) {
            self.io.counters.implausible += 1;
            return StateChange::Stay;
        }
        self.note_clocks(now, arrival, &packet);
        match packet {
            RingPacket::Join(join) => {
                if self.io.heeds_join(now, from, &join.proposal) {
                    self.on_join(now, from, &join)
                } else {
                    StateChange::Stay
                }
            }
            RingPacket::Commit(commit) => self.on_commit(now, from, commit),
            RingPacket::Beacon(beacon) => self.on_beacon(now, from, beacon),
            RingPacket::Late(late) => self.on_late(now, from, late),
            _ => StateChange::Stay,
        }
    }

    fn note_clocks(&mut self, now: Instant, arrival: &Arrival, packet: &RingPacket) {
        //= M59
        let clocks = match packet {
            RingPacket::Join(join) => &join.proposal.clocks,
            RingPacket::Beacon(beacon) => &beacon.clocks,
            _ => return,
        };
        self.io.presence.distances.note(now, arrival.at, arrival.from, clocks);
    }

    /// Whether a membership packet names incarnations that configured nodes can have, and a number that this ring could
    /// have come to.
    fn is_plausible(&self, packet: &RingPacket) -> bool {
        //= M06
        //= M07
        let io = &self.io;
        let possible =
            |member: &MemberId| io.config.members.contains(&member.node) && member.incarnation.is_plausible();
        match packet {
            RingPacket::Join(join) => {
                let Proposal { number, proc, fail, .. } = &join.proposal;
                let number = join.attempt.map_or(*number, |attempt| attempt.number.max(*number));
                io.presence.numbers.believes(number) && proc.iter().chain(fail).all(possible)
            }
            RingPacket::Commit(commit) => {
                io.presence.numbers.believes(commit.ring.number)
                    && commit.members.iter().all(|(member, _)| possible(member))
            }
            RingPacket::Beacon(beacon) => {
                io.presence.numbers.believes(beacon.view.number) && beacon.members.iter().all(possible)
            }
            _ => true,
        }
    }

    fn on_join(&mut self, now: Instant, from: MemberId, join: &Join) -> StateChange {
        let io = &mut self.io;
        match &mut self.state {
            RingState::Operational(state) => state.on_join(io, now, from, &join.proposal),
            RingState::Gather(state) => state.on_join(io, now, from, join),
            RingState::Commit(state) => state.on_join(io, from, &join.proposal),
            RingState::Recovery(state) => state.on_join(io, from, &join.proposal),
            RingState::Still | RingState::Left => StateChange::Stay,
        }
    }

    fn on_commit(&mut self, now: Instant, from: MemberId, commit: Commit) -> StateChange {
        let io = &mut self.io;
        match &mut self.state {
            RingState::Gather(state) => state.on_commit(io, from, commit),
            RingState::Commit(state) => state.on_commit(io, now, from, commit),
            RingState::Recovery(state) => state.on_commit(io, now, from, &commit),
            RingState::Operational(_) | RingState::Still | RingState::Left => {
                io.counters.unexpected += 1;
                StateChange::Stay
            }
        }
    }

    fn on_beacon(&mut self, now: Instant, from: MemberId, beacon: Beacon) -> StateChange {
        let (io, ring) = (&mut self.io, beacon.view);
        let annotation = io.presence.note_beacon(now, from, beacon);
        match &mut self.state {
            RingState::Operational(state) => {
                if state.rotation.ring == ring {
                    io.output.push_back(Output::Beacon { from, annotation });
                    return StateChange::Stay;
                }
                state.on_beacon(io, now, from, ring)
            }
            RingState::Gather(state) => {
                state.on_beacon(io, now, from);
                StateChange::Stay
            }
            _ => StateChange::Stay,
        }
    }

    fn on_late(&mut self, now: Instant, from: MemberId, late: Late) -> StateChange {
        match &mut self.state {
            RingState::Operational(state) => state.on_late(&mut self.io, now, from, late),
            _ => {
                self.io.counters.unexpected += 1;
                StateChange::Stay
            }
        }
    }

    /// Timer x state.
    pub(super) fn expire(&mut self, now: Instant, timer: Timer) -> StateChange {
        let io = &mut self.io;
        match (&mut self.state, timer) {
            (_, Timer::Beacon) => {
                self.send_beacon(now);
                StateChange::Stay
            }
            (RingState::Left | RingState::Still, _) => StateChange::Stay,
            (_, Timer::Leave) => StateChange::Leave,
            (RingState::Operational(state), Timer::TokenRetransmit) => {
                state.rotation.send_again(io, now);
                StateChange::Stay
            }
            (RingState::Operational(state), Timer::TokenLoss) => state.on_token_missed(io, now),
            (RingState::Operational(state), Timer::Question) => {
                state.ask_again(io, now);
                StateChange::Stay
            }
            (RingState::Operational(state), Timer::IdleHold) => state.on_hold_end(io, now),
            (RingState::Operational(state), Timer::TokenRequest) => {
                state.rotation.request_again(io, now);
                StateChange::Stay
            }
            (RingState::Gather(state), Timer::Join) => {
                state.on_join_timeout(io, now);
                StateChange::Stay
            }
            (RingState::Gather(state), Timer::Consensus) => state.on_consensus_timeout(io, now),
            (RingState::Commit(state), Timer::TokenRetransmit) => {
                state.on_retransmit(io, now);
                StateChange::Stay
            }
            (RingState::Commit(state), Timer::TokenLoss) => StateChange::gather(Why::new(state.sets.trigger.clone())),
            (RingState::Recovery(state), Timer::TokenRetransmit) => {
                state.on_retransmit(io, now);
                StateChange::Stay
            }
            (RingState::Recovery(state), Timer::TokenLoss | Timer::RecoveryMax) => {
                //= M39
                StateChange::gather(Why::new(state.sets.trigger.clone()))
            }
            _ => StateChange::Stay,
        }
    }

    pub(super) fn send_beacon(&mut self, now: Instant) {
        if crate::mutated!(self.io.config, NoBeacons) {
            return;
        }
        let Some(view) = self.installed().map(|installed| installed.view.clone()) else { return };
        let settled = matches!(self.state, RingState::Operational(_)) && !self.io.leaving;
        let io = &mut self.io;
        let beacon = io.presence.beacon(now, view.id, &view.members, settled, io.config.datagram.packet_room());
        io.counters.beacons_sent += 1;
        io.send(Destination::All, Lane::Control, RingPacket::Beacon(beacon));
        let next = io.presence.next_beacon(now, io.timeouts.beacon);
        io.timers.arm(Timer::Beacon, next);
    }

    /// Whether a regular packet comes from a member, in the incarnation this node knows. In any other state than
    /// Operational it may come from a member of the ring to be.
    pub(super) fn knows(&mut self, from: MemberId) -> bool {
        //= R35
        let known = match &self.state {
            RingState::Operational(_) if crate::mutated!(self.io.config, ForeignDataGathers) => {
                self.io.presence.heard.latest(from.node)
            }
            RingState::Operational(state) => state.installed.member(from.node),
            _ => self.io.presence.heard.latest(from.node),
        };
        match known.map(|member| from.incarnation.cmp(&member.incarnation)) {
            Some(std::cmp::Ordering::Equal) => return true,
            Some(std::cmp::Ordering::Less) => self.io.counters.old_incarnation += 1,
            Some(std::cmp::Ordering::Greater) => self.io.counters.new_incarnation += 1,
            None => self.io.counters.foreign_ring += 1,
        }
        false
    }
}
