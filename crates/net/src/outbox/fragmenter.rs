//! Runs to nodes that do not get all datagrams: what is too long leaves in fragments.
use super::{DatagramTarget, Exit, Outbox, Pending, len};
use crate::counters::DriverCounters;
use crate::path_mtu::GroupReach;
use crate::seals::Seals;
use bytes::Bytes;
use consort_node::Datagram;
use consort_types::NodeId;
use consort_wire::Identity;
use consort_wire::path_mtu::{self, Shape};
use std::rc::Rc;

/// Cuts datagrams.
pub(super) struct Fragmenter {
    identity: Identity,
    seals: Rc<Seals>,
    next: u32,
}

impl Fragmenter {
    pub(super) const fn new(identity: Identity, seals: Rc<Seals>) -> Self {
        Self { identity, seals, next: 0 }
    }

    /// The fragments of a run's datagrams, each as long as `limit` at most. What cannot be cut stays whole.
    fn cut(&mut self, run: &[Pending], limit: usize, counters: &mut DriverCounters) -> Vec<Pending> {
        let mut fragments = Vec::with_capacity(run.len() * 2);
        for Pending { target, datagram } in run {
            let Some(shape) = Shape::new(len(datagram), limit - self.seals.overhead().min(limit)) else {
                fragments.push(Pending { target: *target, datagram: datagram.clone() });
                continue;
            };
            counters.datagrams_cut += 1;
            self.next = self.next.wrapping_add(1);
            let cut = path_mtu::cut(self.identity, self.next, shape, &datagram.head, &datagram.body);
            let sealed =
                cut.filter_map(|head| self.seals.seal(target.addressee(), Datagram { head, body: Bytes::new() }));
            fragments.extend(sealed.map(|datagram| Pending { target: *target, datagram }));
        }
        fragments
    }
}

impl Outbox {
    /// Sends a run while some do not get all.
    #[cold]
    pub(super) fn send_narrow(&mut self, target: DatagramTarget, run: &[Pending], counters: &mut DriverCounters) {
        match target {
            DatagramTarget::Probes => self.send(target, run, counters),
            DatagramTarget::All(network) => {
                for at in self.exits_of(network) {
                    match self.exits[at].group {
                        Some(_) if self.narrow.group != GroupReach::None => self.send_to_group(at, run, counters),
                        _ => self.others_at(at).into_iter().for_each(|(node, network)| {
                            self.send_cut(DatagramTarget::Data(node, network), run, counters);
                        }),
                    }
                }
            }
            DatagramTarget::AllTokens(network) => {
                let nodes: Vec<_> = self.exits_of(network).into_iter().flat_map(|at| self.others_at(at)).collect();
                for (node, network) in nodes {
                    self.send_cut(DatagramTarget::Token(node, network), run, counters);
                }
            }
            DatagramTarget::Token(..) | DatagramTarget::Data(..) => self.send_cut(target, run, counters),
        }
    }

    /// To all of a network by multicast, and to those by themselves that do not get it.
    fn send_to_group(&mut self, at: usize, run: &[Pending], counters: &mut DriverCounters) {
        let network = self.exits[at].number;
        self.multicast(at, run, counters);
        let GroupReach::AllBut(without) = &self.narrow.group else { return };
        let without: Vec<_> = without.iter().filter(|node| self.exits[at].peers.contains_key(node)).copied().collect();
        for node in without {
            self.send_cut(DatagramTarget::Data(node, network), run, counters);
        }
    }

    /// In fragments for all, or whole, and in fragments to those that need them.
    fn multicast(&mut self, at: usize, run: &[Pending], counters: &mut DriverCounters) {
        let Exit { number, peers, .. } = &self.exits[at];
        let (network, all) = (*number, DatagramTarget::All(*number));
        let without = |node: &NodeId| matches!(&self.narrow.group, GroupReach::AllBut(nodes) if nodes.contains(node));
        let gets = |node: &NodeId| *node != self.me && peers.contains_key(node) && !without(node);
        let narrow = self.narrow.each.iter().filter(|(node, _)| gets(node));
        let each: Vec<_> = narrow.map(|(node, limit)| (*node, *limit)).collect();
        if let Some(limit) = self.narrow.all.filter(|_| !each.is_empty()) {
            return self.send_parts(all, run, limit, counters);
        }
        self.send(all, run, counters);
        for (node, limit) in each {
            for too_long in run.split(|pending| len(&pending.datagram) <= limit).filter(|run| !run.is_empty()) {
                self.send_parts(DatagramTarget::Data(node, network), too_long, limit, counters);
            }
        }
    }

    /// To one node.
    fn send_cut(&mut self, target: DatagramTarget, run: &[Pending], counters: &mut DriverCounters) {
        let limit = match target {
            DatagramTarget::Token(node, _) | DatagramTarget::Data(node, _) => self.narrow.each.get(&node).copied(),
            _ => None,
        };
        self.send_parts(target, run, limit.unwrap_or(usize::MAX), counters);
    }

    //= W08
    fn send_parts(&mut self, target: DatagramTarget, run: &[Pending], limit: usize, counters: &mut DriverCounters) {
        let fits = |pending: &Pending| len(&pending.datagram) <= limit;
        for part in run.chunk_by(|a, b| fits(a) == fits(b)) {
            if fits(&part[0]) {
                self.send(target, part, counters);
            } else {
                let fragments = self.cutter.cut(part, limit, counters);
                self.send(target, &fragments, counters);
            }
        }
    }

    /// The places of the networks that what is for this one leaves into.
    fn exits_of(&self, network: u8) -> Vec<usize> {
        (0..self.exits.len()).filter(|at| self.exits[*at].serves(network)).collect()
    }

    /// The other nodes of the network at a place, and its number.
    fn others_at(&self, at: usize) -> Vec<(NodeId, u8)> {
        let exit = &self.exits[at];
        exit.others(self.me).map(|(node, _)| (*node, exit.number)).collect()
    }
}
