//! Packets over several rings: gateways send them on as they are.
use super::MultiRing;
use super::closing::Request;
use crate::key::RingNumber;
use crate::packet::{Content, Packet, Relayed, RelayedContent};
use consort_order::{Arrival, Destination, Lane, Output};
use consort_types::{Instant, MemberId, NodeId};

impl MultiRing {
    /// Says something to a node, or to all, whatever rings lie between.
    pub(super) fn say(&mut self, to: Option<NodeId>, content: RelayedContent) {
        let relayed = Relayed { from: self.me(), to, content };
        for ring in self.ports.keys().copied().collect::<Vec<_>>() {
            self.relay(ring, relayed.clone());
        }
    }

    /// Puts a packet on a ring, if somebody on its side is to have it.
    pub(super) fn relay(&mut self, ring: RingNumber, relayed: Relayed) {
        let to = match relayed.to {
            Some(node) if !self.layout.is_beyond(ring, node) => return,
            Some(node) if self.layout.stands_in(node, ring) => Destination::One(node),
            _ => Destination::All,
        };
        let lane = if matches!(relayed.content, RelayedContent::Pieces { .. }) { Lane::Data } else { Lane::Control };
        let packet = Packet { ring, content: Content::Relayed(relayed) };
        self.output.push_back(Output::Send { to, lane, packet });
    }

    /// A packet came that somebody on the side of a ring said.
    pub(super) fn on_relayed(&mut self, now: Instant, ring: RingNumber, arrival: &Arrival, relayed: Relayed) {
        //= TM05
        let near = self.ports.get(&ring).is_some_and(|port| port.has(arrival.from));
        let there = self.layout.is_beyond(ring, relayed.from.node);
        let itself = arrival.from.node != relayed.from.node || arrival.from == relayed.from;
        if !near || !there || !itself {
            self.counters.unrelated += 1;
            return;
        }
        if relayed.to != Some(self.config.ring.me) {
            if self.answers_instead(now, ring, &relayed) {
                return;
            }
            for other in self.ports.keys().copied().filter(|other| *other != ring).collect::<Vec<_>>() {
                self.counters.relayed += 1;
                self.relay(other, relayed.clone());
            }
            if relayed.to.is_some() {
                return;
            }
        }
        let arrival = Arrival { from: relayed.from, ..*arrival };
        match (relayed.content.view(), relayed.content) {
            (_, RelayedContent::Member(packet)) => self.vs.handle(now, &arrival, packet),
            (Some(view), content) => {
                self.vs.hear(now, &arrival, view);
                self.obey(now);
                if view == self.vs.view().id && self.vs.is_member(arrival.from) {
                    self.on_member_said(now, ring, arrival.from, content);
                }
            }
            (None, _) => {}
        }
    }

    fn on_member_said(&mut self, now: Instant, ring: RingNumber, from: MemberId, content: RelayedContent) {
        match content {
            RelayedContent::HandedOut { numbers, .. } => self.on_handed_out(from, &numbers),
            RelayedContent::Known { asks, horizons, .. } => self.on_known(from, asks, horizons),
            RelayedContent::Wants { member, number, offset, .. } => {
                let (member, first) = (usize::from(member), (number, offset as usize));
                self.on_wants(now, Request { asker: from, ring, member, first });
            }
            RelayedContent::Pieces { pieces, .. } => self.on_pieces(now, pieces),
            RelayedContent::Member(_) => {}
        }
    }
}
