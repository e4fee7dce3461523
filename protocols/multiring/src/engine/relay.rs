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
        let relayed = self.relayed(to, content);
        for ring in self.ports.keys().copied().collect::<Vec<_>>() {
            self.relay(ring, relayed.clone());
        }
    }

    /// The next of this node's packets for other rings.
    pub(super) fn relayed(&mut self, to: Option<NodeId>, content: RelayedContent) -> Relayed {
        //= TM62
        self.relayed += 1;
        Relayed { from: self.me(), number: self.relayed, to, content }
    }

    /// Puts a packet on a ring, if somebody on its side is to have it.
    pub(super) fn relay(&mut self, ring: RingNumber, relayed: Relayed) {
        let Some(to) = self.next_on_the_way(ring, &relayed) else { return };
        let lane = if matches!(relayed.content, RelayedContent::Pieces { .. }) { Lane::Data } else { Lane::Control };
        let packet = Packet { ring, content: Content::Relayed(relayed) };
        self.output.push_back(Output::Send { to, lane, packet });
    }

    /// To whom on a ring a packet goes; none where that leads nowhere.
    fn next_on_the_way(&self, ring: RingNumber, relayed: &Relayed) -> Option<Destination> {
        let Some(node) = relayed.to else { return Some(Destination::All) };
        let (leads, is_there) = if self.is_strict(relayed) {
            let room = self.room.as_ref()?;
            let number = self.ports.get(&ring)?.in_view?;
            let member = room.view.members.iter().copied().find(|member| member.node == node)?;
            let is_there = room.tree.carrying(number).is_some_and(|carry| carry.contains(&member));
            (room.tree.is_beyond(number, member), is_there)
        } else {
            (self.layout.is_beyond(ring, node), self.ports.get(&ring)?.hears(node))
        };
        leads.then_some(if is_there { Destination::One(node) } else { Destination::All })
    }

    /// Whether messages of the view come to this node and to another by one and the same ring of it.
    fn carries_with(&self, ring: RingNumber, other: MemberId) -> bool {
        let number = self.ports.get(&ring).and_then(|port| port.in_view);
        let carrying = self.room.as_ref().zip(number).and_then(|(room, number)| room.tree.carrying(number));
        carrying.is_some_and(|carrying| carrying.contains(&other))
    }

    /// Whether a packet goes only the way that messages of the view went.
    fn is_strict(&self, relayed: &Relayed) -> bool {
        //= TM55
        let strict = matches!(relayed.content, RelayedContent::Wants { strict: true, .. });
        strict && !crate::mutated!(self.config, AnyWay)
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
        //= TM55
        let strict = self.is_strict(&relayed);
        if strict && !self.carries_with(ring, arrival.from) {
            return;
        }
        //= TM62
        let is_new = self.heard.is_new(relayed.from, relayed.number);
        let for_all = relayed.to.is_none();
        let for_me = relayed.to == Some(self.config.ring.me);
        if is_new && !for_me {
            self.send_further(now, ring, &relayed);
        }
        if !for_me && !for_all || self.hears_amiss(arrival.from, relayed.from) {
            return;
        }
        // By a shared ring it may come later than by others.
        if !self.heard.take(relayed.from, relayed.number) {
            self.counters.repeated += 1;
            return;
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

    /// Whether somebody came by others who shares a ring with this node and should be heard there itself. Others bring it now and
    /// then only: whoever is heard so would come and go for ever.
    fn hears_amiss(&self, by: MemberId, from: MemberId) -> bool {
        //= TM05
        by != from && self.ports.values().any(|port| port.has(from)) && !crate::mutated!(self.config, HearsByOthers)
    }

    /// Sends a packet on by all other rings that lead to whom it is for.
    fn send_further(&mut self, now: Instant, from: RingNumber, relayed: &Relayed) {
        let others = self.ports.keys().copied().filter(|other| *other != from);
        let lead: Vec<_> = others.filter(|other| self.next_on_the_way(*other, relayed).is_some()).collect();
        if lead.is_empty() || self.answers_instead(now, from, relayed) {
            return;
        }
        for ring in lead {
            self.counters.relayed += 1;
            self.relay(ring, relayed.clone());
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
            RelayedContent::Pieces { pieces, .. } => self.on_pieces(now, from, pieces),
            RelayedContent::Parted { ring, members, .. } => self.on_parted(now, ring, &members),
            RelayedContent::Member(_) => {}
        }
    }
}
