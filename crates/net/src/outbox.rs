//! Datagrams out, in the order in which the node emitted them; equal ones to the same place as super-packets.
mod dispatch;
mod fragmenter;

use crate::counters::DriverCounters;
use crate::options::Peer;
use crate::path_mtu::PathLimits;
use crate::seals::Seals;
use bytes::Bytes;
use consort_node::{Datagram, Destination, Lane};
use consort_types::NodeId;
use consort_wire::Identity;
use dispatch::Dispatch;
use fragmenter::Fragmenter;
use socket2::{SockAddr, Socket};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

/// So many bytes that wait are sent without waiting for more.
const FULL: usize = 1 << 16;

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DatagramTarget {
    /// To all others on the data lane.
    All,
    /// To all others, on their token sockets.
    AllTokens,
    Token(NodeId),
    Data(NodeId),
    /// To all others on the data lane, each by itself and never in pieces: it is its length that is to arrive.
    Probes,
}

impl DatagramTarget {
    /// The only node that is to take it; `None` for all.
    const fn addressee(self) -> Option<NodeId> {
        match self {
            Self::Token(node) | Self::Data(node) => Some(node),
            Self::All | Self::AllTokens | Self::Probes => None,
        }
    }

    const fn of(to: Destination, lane: Lane) -> Self {
        match (to, lane) {
            (Destination::All, Lane::Token) => Self::AllTokens,
            (Destination::All, _) => Self::All,
            (Destination::One(node), Lane::Data) => Self::Data(node),
            (Destination::One(node), _) => Self::Token(node),
        }
    }
}

struct Pending {
    target: DatagramTarget,
    datagram: Datagram,
}

struct Addresses {
    token: SockAddr,
    data: SockAddr,
}

/// Collects datagrams and sends them.
pub(crate) struct Outbox {
    token: Rc<Socket>,
    data: Rc<Socket>,
    group: Option<SockAddr>,
    peers: BTreeMap<NodeId, Addresses>,
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
    /// Sends tokens from `token` and data from `data`; to all through `group` if there is one.
    pub(crate) fn new(
        token: Rc<Socket>,
        data: Rc<Socket>,
        group: Option<SocketAddr>,
        identity: Identity,
        seals: Rc<Seals>,
        peers: &[Peer],
    ) -> Self {
        let addresses = |peer: &Peer| (peer.node, Addresses { token: peer.token.into(), data: peer.data.into() });
        Self {
            token,
            data,
            group: group.map(SockAddr::from),
            peers: peers.iter().map(addresses).collect(),
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
    pub(crate) fn push(&mut self, to: Destination, lane: Lane, datagram: Datagram) {
        self.urgent |= lane == Lane::Token;
        self.add(DatagramTarget::of(to, lane), datagram);
    }

    /// The same with what the driver says to all others.
    pub(crate) fn push_probe(&mut self, probe: Bytes) {
        self.add(DatagramTarget::Probes, Datagram { head: probe, body: Bytes::new() });
    }

    /// Seals it as it is: from here on it has the length that it has on its way.
    fn add(&mut self, target: DatagramTarget, datagram: Datagram) {
        let Some(datagram) = self.seals.seal(target.addressee(), datagram) else { return };
        self.bytes += len(&datagram);
        self.pending.push(Pending { target, datagram });
    }

    /// From now on datagrams that would not get there whole leave in pieces.
    pub(crate) fn set_narrow(&mut self, narrow: PathLimits) {
        self.narrow = narrow;
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
                DatagramTarget::Probes => run.chunks(1).for_each(|one| self.send(DatagramTarget::All, one, counters)),
                target if self.narrow.each.is_empty() => self.send(target, run, counters),
                target => self.send_narrow(target, run, counters),
            }
        }
        pending.clear();
        self.pending = pending;
        (self.bytes, self.urgent) = (0, false);
    }

    /// Sends a run as it is.
    fn send(&mut self, target: DatagramTarget, run: &[Pending], counters: &mut DriverCounters) {
        let Self { token, data, group, peers, me, dispatch, .. } = self;
        let others = peers.iter().filter(|(node, _)| *node != me).map(|(_, addresses)| addresses);
        match (target, group) {
            (DatagramTarget::All | DatagramTarget::Probes, Some(group)) => {
                dispatch.send_to_group(data, group, run, counters)
            }
            (DatagramTarget::All | DatagramTarget::Probes, None) => {
                others.for_each(|peer| dispatch.send(data, &peer.data, run, Lane::Data, counters));
            }
            (DatagramTarget::AllTokens, _) => {
                others.for_each(|peer| dispatch.send(token, &peer.token, run, Lane::Token, counters));
            }
            (DatagramTarget::Token(node), _) => match peers.get(&node) {
                Some(peer) => dispatch.send(token, &peer.token, run, Lane::Token, counters),
                None => counters.send_errors += run.len() as u64,
            },
            (DatagramTarget::Data(node), _) => match peers.get(&node) {
                Some(peer) => dispatch.send(data, &peer.data, run, Lane::Data, counters),
                None => counters.send_errors += run.len() as u64,
            },
        }
    }
}

fn len(datagram: &Datagram) -> usize {
    datagram.head.len() + datagram.body.len()
}

#[cfg(test)]
mod tests;
