//! Runs to nodes that do not get all datagrams: what is too long leaves in fragments.
use super::{DatagramTarget, Outbox, Pending, len};
use crate::counters::DriverCounters;
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
            DatagramTarget::All if self.group.is_some() => self.send_to_group(run, counters),
            DatagramTarget::All => {
                self.others().into_iter().for_each(|node| self.send_cut(DatagramTarget::Data(node), run, counters))
            }
            DatagramTarget::AllTokens => {
                self.others().into_iter().for_each(|node| self.send_cut(DatagramTarget::Token(node), run, counters));
            }
            DatagramTarget::Token(_) | DatagramTarget::Data(_) => self.send_cut(target, run, counters),
        }
    }

    /// To all by multicast: in fragments for all, or whole, and in fragments to those that need them.
    fn send_to_group(&mut self, run: &[Pending], counters: &mut DriverCounters) {
        if let Some(limit) = self.narrow.all {
            return self.send_parts(DatagramTarget::All, run, limit, counters);
        }
        self.send(DatagramTarget::All, run, counters);
        let each: Vec<_> = self.narrow.each.iter().map(|(node, limit)| (*node, *limit)).collect();
        for (node, limit) in each {
            for too_long in run.split(|pending| len(&pending.datagram) <= limit).filter(|run| !run.is_empty()) {
                self.send_parts(DatagramTarget::Data(node), too_long, limit, counters);
            }
        }
    }

    /// To one node.
    fn send_cut(&mut self, target: DatagramTarget, run: &[Pending], counters: &mut DriverCounters) {
        let limit = match target {
            DatagramTarget::Token(node) | DatagramTarget::Data(node) => self.narrow.each.get(&node).copied(),
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

    fn others(&self) -> Vec<NodeId> {
        self.peers.keys().copied().filter(|node| *node != self.me).collect()
    }
}
