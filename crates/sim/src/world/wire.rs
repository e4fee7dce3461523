//! What leaves a host, on its way to the others.
use super::{DatagramView, SimWorld, WorldEvent};
use crate::fault::{Fault, Lanes};
use crate::link::{Copy, flip};
use crate::machine::Machine;
use crate::message::Process;
use crate::network::{Departure, SimSocket};
use crate::trace::Occurrence;
use bytes::{Bytes, BytesMut};
use consort_order::Destination;
use consort_types::{Duration, NodeId};
use consort_wire::{Lane, envelope};
use std::ops::Range;

impl<M: Machine> SimWorld<'_, M> {
    pub(super) fn send(&mut self, host: u16, to: Destination, lane: Lane, bytes: &Bytes) {
        let socket = match (lane, to) {
            (Lane::Token, _) | (Lane::Control, Destination::One(_)) => SimSocket::Token,
            (Lane::Data, _) | (Lane::Control, Destination::All) => SimSocket::Data,
            (Lane::Reliable, _) => return self.send_reliable(host, to, bytes),
        };
        if bytes.len() > self.plan.datagram && lane == Lane::Data {
            return self.refuse_long(host, bytes.len());
        }
        self.recorder.totals.sent += 1;
        self.recorder.digest.add(self.hosts[usize::from(host)].free.0 ^ u64::from(host) << 48 ^ (lane as u64) << 62);
        self.recorder.digest.add_bytes(&bytes[..bytes.len().min(envelope::LEN)]);
        let alone = matches!(to, Destination::One(_)) || self.network.fans_out();
        let way = LinkDirection { host, lane, socket, alone };
        if let (true, Lane::Token, Destination::One(node)) = (self.lies_in_wait, lane, to) {
            self.on_grant(host, node);
        }
        match to {
            Destination::One(node) => self.transmit(way, node.0..node.0.saturating_add(1), bytes),
            Destination::All if self.network.fans_out() => {
                (0..self.plan.nodes).filter(|to| *to != host).for_each(|to| self.transmit(way, to..to + 1, bytes));
            }
            Destination::All => self.transmit(way, 0..self.plan.nodes, bytes),
        }
    }

    /// One system call, one serialisation, a copy for each receiver.
    fn transmit(&mut self, way: LinkDirection, receivers: Range<u16>, bytes: &Bytes) {
        let LinkDirection { host, lane, socket, .. } = way;
        let place = &mut self.hosts[usize::from(host)];
        place.spend(place.model.send + place.model.bytes(bytes.len()));
        let (at, from, len) = (place.free, NodeId(host), bytes.len());
        let Departure { at_switch, sender_free } = self.network.leave(at, from, len);
        place.free = sender_free;
        for to in receivers.start..receivers.end.min(self.plan.nodes) {
            if to == host {
                continue;
            }
            if self.is_sifted(way, NodeId(to), bytes) {
                continue;
            }
            let frame = DatagramView { at, from, to: NodeId(to), lane, bytes };
            let Some(late) = self.fate.as_mut().map_or(Some(Duration::ZERO), |fate| fate(frame)) else { continue };
            for Copy { at, flip, .. } in self.network.cross(at_switch, from, NodeId(to), socket, len) {
                let bytes = flip.map_or_else(|| bytes.clone(), |bit| flipped(bytes, bit));
                self.schedule(at + late, WorldEvent::Arrive { host: to, socket, bytes });
            }
        }
    }

    /// Whether a fault takes the datagram for what it is.
    fn is_sifted(&mut self, way: LinkDirection, to: NodeId, bytes: &Bytes) -> bool {
        let from = NodeId(way.host);
        for at in 0..self.sieves.len() {
            let taken = match self.sieves[at] {
                Fault::Cut { scope, lanes: Lanes::Unicast } => way.alone && scope.holds(from, to),
                Fault::KindLoss { scope, kind, p } => {
                    scope.holds(from, to) && bytes.get(envelope::LEN) == Some(&kind) && self.chance.chance(p)
                }
                _ => false,
            };
            if taken {
                self.sifted += 1;
                return true;
            }
        }
        false
    }

    /// Only the membership's packets may be longer than a datagram, and be cut into fragments by IP: those of the control
    /// lane, and what forms a ring on the token's.
    fn refuse_long(&mut self, host: u16, len: usize) {
        let why = format!("{len} bytes do not fit a datagram of {}", self.plan.datagram);
        self.recorder.record(Process::of(self.incarnations.present(host), 0), Occurrence::Refused(why.into()));
    }

    /// Occurrence may not be lost goes to one node.
    fn send_reliable(&mut self, host: u16, to: Destination, bytes: &Bytes) {
        let Destination::One(node) = to else {
            let why = "a reliable stream leads to one node, not to all".into();
            return self.recorder.record(Process::of(self.incarnations.present(host), 0), Occurrence::Refused(why));
        };
        self.recorder.totals.sent += 1;
        self.recorder.digest.add(self.hosts[usize::from(host)].free.0 ^ u64::from(host) << 48 ^ 3 << 62);
        self.recorder.digest.add_bytes(&bytes[..bytes.len().min(envelope::LEN)]);
        self.stream(host, node, bytes);
    }

    /// Whether a fault takes all that is sent from one node to the other alone.
    pub(super) fn is_unicast_cut(&self, from: NodeId, to: NodeId) -> bool {
        let takes =
            |fault: &Fault| matches!(fault, Fault::Cut { scope, lanes: Lanes::Unicast } if scope.holds(from, to));
        self.sieves.iter().any(takes)
    }
}

#[derive(Clone, Copy)]
struct LinkDirection {
    host: u16,
    lane: Lane,
    socket: SimSocket,
    /// It is sent to one node only.
    alone: bool,
}

fn flipped(bytes: &Bytes, bit: usize) -> Bytes {
    let mut changed = BytesMut::from(&bytes[..]);
    flip(&mut changed, bit);
    changed.freeze()
}
