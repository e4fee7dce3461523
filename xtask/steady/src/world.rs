//! Three nodes and a network that loses nothing.
use crate::metered_ring::MeteredRing;
use crate::operations;
use crate::traffic::{self, Traffic};
use bytes::Bytes;
use consort_node::{Effect, Node, Reading};
use consort_order::{Destination, Lane};
use consort_ring::{Ring, RingConfig};
use consort_session::Limits;
use consort_types::{ClientId, ClusterId, ConfigHash, Duration, Instant, MemberId, NodeId};
use consort_wire::{Bump, Identity};
use std::collections::VecDeque;

/// How many nodes there are, with a client each.
pub const NODES: u16 = 3;
const CLIENT: ClientId = ClientId(1);
/// How long a datagram is under way.
const HOP: Duration = Duration::from_micros(50);
/// How long all have for what all clients said at once.
const ROUND: Duration = Duration::from_millis(2);
/// Far more datagrams than are ever under way.
const UNDER_WAY: usize = 4_096;

/// Nodes in one ring, whose clients are in one group.
#[derive(Debug)]
pub struct World {
    now: Instant,
    nodes: Vec<Node<MeteredRing>>,
    network: VecDeque<Datagram>,
    /// What the network has room for.
    room: Bump,
    told: [usize; NODES as usize],
    datagrams: u64,
    /// What was sent since somebody began to listen.
    tapped: Option<Vec<(NodeId, Lane, Bytes)>>,
}

#[derive(Debug)]
struct Datagram {
    to: usize,
    lane: Lane,
    bytes: Bytes,
}

impl World {
    /// Brings the nodes into one ring and their clients into one group.
    pub fn new() -> Self {
        let mut world = Self {
            now: Instant::ZERO,
            nodes: (0..NODES).map(|index| node(index, 1)).collect(),
            network: VecDeque::with_capacity(UNDER_WAY),
            room: Bump::new(1 << 20),
            told: [0; NODES as usize],
            datagrams: 0,
            tapped: None,
        };
        (0..world.nodes.len()).for_each(|at| world.begin(at));
        world.pass(Duration::from_secs(2));
        world
    }

    fn begin(&mut self, at: usize) {
        self.nodes[at].start(self.now, &[]);
        self.nodes[at].open_client(self.now, CLIENT);
        self.say(at, traffic::greeting());
    }

    /// A node dies, is missed, and comes back in a new incarnation.
    pub fn fail(&mut self, at: usize) {
        let incarnation = self.nodes[at].identity().me.incarnation.0 + 1;
        let dead = std::mem::replace(&mut self.nodes[at], node(at as u16, incarnation));
        drop(dead);
        self.pass(Duration::from_millis(800));
        self.begin(at);
        self.pass(Duration::from_millis(800));
        let members = |node: &Node<MeteredRing>| node.view().map_or(0, |view| view.members.len());
        assert!(self.nodes.iter().all(|node| members(node) == self.nodes.len()), "they are together again");
    }

    /// How many bytes each client was told.
    pub fn told(&self) -> &[usize; NODES as usize] {
        &self.told
    }

    /// How many datagrams came so far.
    pub fn datagrams(&self) -> u64 {
        self.datagrams
    }

    /// Every client says this, and there is time for it.
    pub fn round(&mut self, said: &Bytes) {
        for at in 0..self.nodes.len() {
            operations::request(self, at, said.clone());
        }
        self.pass(ROUND);
    }

    /// So many rounds of this traffic.
    pub fn rounds(&mut self, traffic: &Traffic, rounds: usize) {
        let said = traffic.write();
        for _ in 0..rounds {
            if traffic.messages == 0 { self.pass(ROUND) } else { self.round(&said) }
        }
    }

    /// Remembers what is sent from now on.
    pub fn tap(&mut self) {
        self.tapped = Some(Vec::new());
    }

    /// What was sent since [`Self::tap`], with its senders.
    pub fn tapped(&mut self) -> Vec<(NodeId, Lane, Bytes)> {
        self.tapped.take().unwrap_or_default()
    }

    /// Carries datagrams and keeps time for so long.
    pub fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.now += HOP;
            for _ in 0..self.network.len() {
                let Some(datagram) = self.network.pop_front() else { break };
                self.carry(datagram);
            }
            for at in 0..self.nodes.len() {
                if self.nodes[at].poll_timeout().is_some_and(|due| due <= self.now) {
                    self.nodes[at].handle_timeout(self.now);
                    self.drain(at);
                }
            }
        }
    }

    fn carry(&mut self, Datagram { to, lane, bytes }: Datagram) {
        self.datagrams += 1;
        match lane {
            Lane::Token => operations::visit(self, to, bytes),
            Lane::Data => {
                self.arrive(to, bytes);
                operations::deliver(self, to);
            }
            Lane::Control | Lane::Reliable => {
                self.arrive(to, bytes);
                self.drain(to);
            }
        }
    }

    pub(crate) fn arrive(&mut self, at: usize, bytes: Bytes) {
        self.nodes[at].handle_datagram(self.now, self.now, bytes);
    }

    pub(crate) fn say(&mut self, at: usize, bytes: Bytes) {
        assert_eq!(self.nodes[at].handle_client(self.now, CLIENT, bytes), Reading::Go, "a client is paused");
        self.drain(at);
    }

    /// Does what a node asks for.
    pub(crate) fn drain(&mut self, at: usize) {
        while let Some(effect) = self.nodes[at].poll_effect() {
            match effect {
                Effect::Send { to, lane, datagram, .. } => self.send(at, to, lane, &datagram),
                Effect::Persist { ticket, .. } => self.nodes[at].handle_persisted(self.now, ticket),
                Effect::Trim { .. } => {}
                Effect::Left
                | Effect::Restart { .. }
                | Effect::ReadAgain { .. }
                | Effect::Spool { .. }
                | Effect::Unspool { .. }
                | Effect::DropSpool { .. }
                | Effect::PromiseKey { .. }
                | Effect::SealWith { .. }
                | Effect::Close { .. } => {
                    panic!("not steady: {effect:?}")
                }
            }
        }
        while let Some(client) = self.nodes[at].poll_writable() {
            let n = self.nodes[at].client_outputs(client).map(<[u8]>::len).sum();
            self.nodes[at].client_written(self.now, client, n);
            self.told[at] += n;
        }
    }

    fn send(&mut self, from: usize, to: Destination, lane: Lane, datagram: &consort_node::Datagram) {
        let bytes = self.room.room(datagram.head.len() + datagram.body.len());
        bytes.extend_from_slice(&datagram.head);
        bytes.extend_from_slice(&datagram.body);
        let bytes = self.room.take();
        if let Some(tapped) = &mut self.tapped {
            tapped.push((NodeId(from as u16), lane, bytes.clone()));
        }
        for other in (0..self.nodes.len()).filter(|other| *other != from) {
            if to == Destination::All || to == Destination::One(NodeId(other as u16)) {
                self.network.push_back(Datagram { to: other, lane, bytes: bytes.clone() });
            }
        }
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// A node's identity.
pub(crate) fn identity(node: NodeId) -> Identity {
    Identity { cluster: ClusterId(1), config: ConfigHash(2), me: MemberId::new(node.0, 1) }
}

/// A node whose beacons come only once a minute: there are few of them whatever the traffic.
#[expect(clippy::unwrap_used, reason = "a configuration that is right")]
fn node(index: u16, incarnation: u64) -> Node<MeteredRing> {
    let identity = Identity { me: MemberId::new(index, incarnation), ..identity(NodeId(index)) };
    let mut config = RingConfig::new(NodeId(index), (0..NODES).map(NodeId).collect());
    config.timers.beacon = Duration::from_secs(60);
    let ring = Ring::new(config, identity.me.incarnation).unwrap();
    Node::new(identity, MeteredRing(ring), Limits::default())
}
