//! Datagrams out, in the order in which the node emitted them; equal ones to the same place as super-packets.
mod dispatch;
mod fragmenter;

use crate::counters::DriverCounters;
use crate::options::{NetworkOptions, Peer};
use crate::path_mtu::{GroupReach, PathLimits};
use crate::seals::Seals;
use bytes::Bytes;
use consort_node::{Datagram, Destination, Lane};
use consort_types::NodeId;
use consort_wire::Identity;
use dispatch::Dispatch;
pub(crate) use dispatch::Refused;
use fragmenter::Fragmenter;
use socket2::{SockAddr, Socket};
use std::collections::BTreeMap;
use std::rc::Rc;

/// So many bytes that wait are sent without waiting for more.
const FULL: usize = 1 << 16;

/// For all networks.
const EACH: u8 = 0;

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DatagramTarget {
    /// To all others of a network on the data lane.
    All(u8),
    /// To all others of a network, on their token sockets.
    AllTokens(u8),
    /// To one node of a network.
    Token(NodeId, u8),
    Data(NodeId, u8),
    /// To all others on the data lane, one datagram after the other and never in pieces: it is its length that is to arrive.
    Probes,
}

impl DatagramTarget {
    /// The only node that is to take it; `None` for all.
    const fn addressee(self) -> Option<NodeId> {
        match self {
            Self::Token(node, _) | Self::Data(node, _) => Some(node),
            Self::All(_) | Self::AllTokens(_) | Self::Probes => None,
        }
    }

    const fn of(to: Destination, lane: Lane, network: u8) -> Self {
        match (to, lane) {
            (Destination::All, Lane::Token) => Self::AllTokens(network),
            (Destination::All, _) => Self::All(network),
            (Destination::One(node), Lane::Data) => Self::Data(node, network),
            (Destination::One(node), _) => Self::Token(node, network),
        }
    }
}

struct Pending {
    target: DatagramTarget,
    datagram: Datagram,
}

/// How a node is reached in a network.
struct Addresses {
    token: SockAddr,
    data: SockAddr,
}

/// Where datagrams leave into one network.
struct Exit {
    number: u8,
    token: Rc<Socket>,
    data: Rc<Socket>,
    /// What all others there listen to, if there is such a group.
    group: Option<SockAddr>,
    /// Who stands there.
    peers: BTreeMap<NodeId, Addresses>,
}

/// The sockets of one network, and whether there is a group that data to all may leave by.
pub(crate) struct ExitSockets {
    pub(crate) token: Rc<Socket>,
    pub(crate) data: Rc<Socket>,
    pub(crate) has_group: bool,
}

/// Collects datagrams and sends them.
pub(crate) struct Outbox {
    exits: Vec<Exit>,
    me: NodeId,
    /// Who does not get all.
    narrow: PathLimits,
    cutter: Fragmenter,
    seals: Rc<Seals>,
    pending: Vec<Pending>,
    bytes: usize,
    urgent: bool,
    dispatch: Dispatch,
}

impl Outbox {
    /// Sends into these networks by these sockets.
    pub(crate) fn new(
        networks: &[NetworkOptions],
        sockets: Vec<ExitSockets>,
        identity: Identity,
        seals: Rc<Seals>,
    ) -> Self {
        let peer = |peer: &Peer| (peer.node, Addresses { token: peer.token.into(), data: peer.data.into() });
        let exit = |(network, sockets): (&NetworkOptions, ExitSockets)| Exit {
            number: network.number,
            token: sockets.token,
            data: sockets.data,
            group: sockets.has_group.then(|| network.multicast.into()),
            peers: network.peers.iter().map(peer).collect(),
        };
        Self {
            exits: networks.iter().zip(sockets).map(exit).collect(),
            me: identity.me.node,
            narrow: PathLimits::default(),
            cutter: Fragmenter::new(identity, Rc::clone(&seals)),
            seals,
            pending: Vec::new(),
            bytes: 0,
            urgent: false,
            dispatch: Dispatch::default(),
        }
    }

    /// Puts a datagram behind those that wait.
    pub(crate) fn push(&mut self, to: Destination, lane: Lane, network: u8, datagram: Datagram) {
        self.urgent |= lane == Lane::Token;
        self.add(DatagramTarget::of(to, lane, network), datagram);
    }

    /// The same with what the driver says to all others, in each network.
    pub(crate) fn push_probe(&mut self, probe: Bytes) {
        self.add(DatagramTarget::Probes, Datagram { head: probe, body: Bytes::new() });
    }

    /// Seals it as it is: from here on it has the length that it has on its way.
    fn add(&mut self, target: DatagramTarget, datagram: Datagram) {
        let Some(datagram) = self.seals.seal(target.addressee(), datagram) else { return };
        self.bytes += len(&datagram);
        self.pending.push(Pending { target, datagram });
    }

    /// From now on datagrams that would not get there whole leave in pieces, and those that would not by multicast leave by
    /// themselves.
    pub(crate) fn set_narrow(&mut self, narrow: PathLimits) {
        self.narrow = narrow;
    }

    /// Who gets what is multicast.
    pub(crate) const fn group_reach(&self) -> &GroupReach {
        &self.narrow.group
    }

    /// Super-packets that the kernel refused are tried again, whatever they were refused for.
    pub(crate) fn try_super_packets_again(&mut self) {
        self.dispatch.try_super_packets_again();
    }

    /// What the kernel has refused since this was asked last, if anything.
    pub(crate) fn take_refused(&mut self) -> Option<Refused> {
        self.dispatch.take_refused()
    }

    /// Whether waiting for more would gain nothing: a token must not wait, or a super-packet is full.
    pub(crate) fn is_due(&self) -> bool {
        self.urgent || self.bytes >= FULL
    }

    /// How many buffers were handed to the group's address: each comes back to our own group socket's filter.
    pub(crate) fn group_buffers(&self) -> u64 {
        self.dispatch.group_buffers()
    }

    /// Sends everything that waits.
    pub(crate) fn flush(&mut self, counters: &mut DriverCounters) {
        if self.pending.is_empty() {
            return;
        }
        let mut pending = std::mem::take(&mut self.pending);
        self.dispatch.begin();
        for run in pending.chunk_by(|a, b| a.target == b.target) {
            match run[0].target {
                DatagramTarget::Probes => run.chunks(1).for_each(|one| self.send_probe(one, counters)),
                target if self.narrow.is_wide() => self.send(target, run, counters),
                target => self.send_narrow(target, run, counters),
            }
        }
        pending.clear();
        self.pending = pending;
        (self.bytes, self.urgent) = (0, false);
    }

    /// Sends a run as it is.
    fn send(&mut self, target: DatagramTarget, run: &[Pending], counters: &mut DriverCounters) {
        match target {
            DatagramTarget::All(network) => self.send_to_all(network, run, counters),
            DatagramTarget::Probes => self.send_probe(run, counters),
            DatagramTarget::AllTokens(network) => {
                let Self { exits, me, dispatch, .. } = self;
                for exit in exits.iter().filter(|exit| exit.serves(network)) {
                    exit.others(*me)
                        .for_each(|(_, peer)| dispatch.send(&exit.token, &peer.token, run, Lane::Token, counters));
                }
            }
            DatagramTarget::Token(node, network) | DatagramTarget::Data(node, network) => {
                let mut exits = self.exits.iter().filter(|exit| exit.serves(network));
                let Some((exit, peer)) = exits.find_map(|exit| Some((exit, exit.peers.get(&node)?))) else {
                    counters.send_errors += run.len() as u64;
                    return;
                };
                match target {
                    DatagramTarget::Token(..) => {
                        self.dispatch.send(&exit.token, &peer.token, run, Lane::Token, counters)
                    }
                    _ => self.dispatch.send(&exit.data, &peer.data, run, Lane::Data, counters),
                }
            }
        }
    }

    /// On the data lane: by the group alone where it is used.
    fn send_to_all(&mut self, network: u8, run: &[Pending], counters: &mut DriverCounters) {
        let Self { exits, me, dispatch, narrow, .. } = self;
        for exit in exits.iter().filter(|exit| exit.serves(network)) {
            match exit.group.as_ref().filter(|_| narrow.group != GroupReach::None) {
                Some(group) => dispatch.send_to_group(&exit.data, group, run, counters),
                None => {
                    exit.others(*me)
                        .for_each(|(_, peer)| dispatch.send(&exit.data, &peer.data, run, Lane::Data, counters));
                }
            }
        }
    }

    /// By each group, whether or not it is used, and to each node by itself that may not get that.
    fn send_probe(&mut self, probe: &[Pending], counters: &mut DriverCounters) {
        let Self { exits, me, dispatch, narrow, .. } = self;
        for exit in exits.iter() {
            if let Some(group) = &exit.group {
                dispatch.send_to_group(&exit.data, group, probe, counters);
            }
            let alone = |node: &NodeId| exit.group.is_none() || narrow.unsure.contains(node);
            for (_, peer) in exit.others(*me).filter(|(node, _)| alone(node)) {
                dispatch.send(&exit.data, &peer.data, probe, Lane::Data, counters);
            }
        }
    }
}

impl Exit {
    /// Whether what is for a network leaves here.
    const fn serves(&self, network: u8) -> bool {
        network == EACH || self.number == network
    }

    /// The other nodes of its network.
    fn others(&self, me: NodeId) -> impl Iterator<Item = (&NodeId, &Addresses)> {
        self.peers.iter().filter(move |(node, _)| **node != me)
    }
}

fn len(datagram: &Datagram) -> usize {
    datagram.head.len() + datagram.body.len()
}

#[cfg(test)]
mod tests;
