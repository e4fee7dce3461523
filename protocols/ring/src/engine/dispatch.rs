//! Which state handles which input: the tables.
use super::{Ring, RingState};
use crate::packet::{Beacon, Commit, Join, Late, RingPacket};
use crate::state::{StateChange, Why};
use crate::timer::Timer;
use consort_member::Hearing;
use consort_order::{Arrival, Destination, Output};
use consort_types::{Duration, Instant, MemberId};
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
        match packet {
            RingPacket::Join(join) => {
                if self.io.heeds_join(now, arrival, &join) {
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

    /// Whether a membership packet names lives that configured nodes can have, and a number that this ring could have come to.
    fn is_plausible(&self, packet: &RingPacket) -> bool {
        //= M06
        //= M07
        let io = &self.io;
        let possible =
            |member: &MemberId| io.config.members.contains(&member.node) && member.incarnation.is_plausible();
        match packet {
            RingPacket::Join(join) => {
                let number = join.attempt.map_or(join.number, |attempt| attempt.number.max(join.number));
                io.numbers.believes(number) && join.proc.iter().chain(&join.fail).all(possible)
            }
            RingPacket::Commit(commit) => {
                io.numbers.believes(commit.ring.number) && commit.members.iter().all(|(member, _)| possible(member))
            }
            RingPacket::Beacon(beacon) => {
                io.numbers.believes(beacon.ring.number) && beacon.members.iter().all(possible)
            }
            _ => true,
        }
    }

    fn on_join(&mut self, now: Instant, from: MemberId, join: &Join) -> StateChange {
        let io = &mut self.io;
        match &mut self.state {
            RingState::Operational(state) => state.on_join(io, now, from, join),
            RingState::Gather(state) => state.on_join(io, now, from, join),
            RingState::Commit(state) => state.on_join(io, from, join),
            RingState::Recovery(state) => state.on_join(io, from, join),
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
        //= M50
        let io = &mut self.io;
        io.numbers.saw(beacon.ring.number);
        io.heard.note_named(io.me, &beacon.members, now);
        let ring = beacon.ring;
        io.heard.note(Hearing {
            member: from,
            at: now,
            hears: beacon.heard,
            view: beacon.ring,
            members: beacon.members,
            wants: beacon.wants,
            settled: beacon.settled,
        });
        match &mut self.state {
            RingState::Operational(state) => {
                if state.rotation.ring == ring {
                    io.output.push_back(Output::Beacon { from, annotation: beacon.annotation });
                    return StateChange::Stay;
                }
                state.on_beacon(io, now, from, ring)
            }
            RingState::Gather(state) => state.on_beacon(io, now, from),
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
        //= M50
        if crate::mutated!(self.io.config, NoBeacons) {
            return;
        }
        let Some(installed) = self.installed() else { return };
        let (ring, members) = (installed.view.id, installed.view.members.clone());
        let settled = matches!(self.state, RingState::Operational(_)) && !self.io.leaving;
        let io = &mut self.io;
        let heard = io.hears(now);
        let padded = io.beacons.is_multiple_of(10);
        let beacon =
            Beacon { ring, members, heard, wants: io.wants, settled, annotation: io.annotation.clone(), padding: 0 };
        let padding = if padded { io.config.datagram.packet_room().saturating_sub(beacon.bare_len()) } else { 0 };
        io.beacons += 1;
        io.counters.beacons_sent += 1;
        io.beacon_at = now;
        io.send(Destination::All, Lane::Control, RingPacket::Beacon(Beacon { padding, ..beacon }));
        let tenth = io.config.timers.beacon.as_nanos() as u64 / 10;
        let jitter = Duration::from_nanos(io.rng.below(2 * tenth));
        io.timers.arm(Timer::Beacon, now + (io.config.timers.beacon - Duration::from_nanos(tenth) + jitter));
    }

    /// Whether a regular packet comes from a member, in the life this node knows. In any other state than Operational it
    /// may come from a member of the ring to be.
    pub(super) fn knows(&mut self, from: MemberId) -> bool {
        //= R35
        let known = match &self.state {
            RingState::Operational(_) if crate::mutated!(self.io.config, ForeignDataGathers) => {
                self.io.heard.latest(from.node)
            }
            RingState::Operational(state) => state.installed.member(from.node),
            _ => self.io.heard.latest(from.node),
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
