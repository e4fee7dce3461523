//! In steady traffic nothing is asked of the allocator: not for a token, not for a packet, not for a message. Beacons, of which
//! there are five a second whatever the traffic, are kept out of the measurement.
#![expect(clippy::unwrap_used, reason = "a test")]
use bytes::{Bytes, BytesMut};
use consort_node::{Effect, Node, Reading};
use consort_order::To;
use consort_ring::{Config, Ring};
use consort_session::{Hello, Limits, request};
use consort_types::{ClientId, ClusterId, ConfigHash, Duration, GroupName, Instant, MemberId, NodeId, Service};
use consort_wire::{Bump, Identity};
use std::collections::VecDeque;

const NODES: u16 = 3;
const CLIENT: ClientId = ClientId(1);
/// How long a datagram is under way.
const HOP: Duration = Duration::from_micros(50);

/// Nodes with a client each, and a network that loses nothing.
struct World {
    now: Instant,
    nodes: Vec<Node<Ring>>,
    network: VecDeque<(usize, Bytes)>,
    /// What the network has room for.
    room: Bump,
    /// How many bytes each client was told.
    told: [usize; NODES as usize],
    datagrams: u64,
}

impl World {
    /// Nodes in one ring, whose clients are in the group `g`.
    fn new() -> Self {
        let all: Vec<_> = (0..NODES).map(NodeId).collect();
        let node = |index: u16| {
            let me = MemberId::new(index, 1);
            let mut config = Config::new(NodeId(index), all.clone());
            config.timers.beacon = Duration::from_secs(60);
            let ring = Ring::new(config, me.incarnation).unwrap();
            Node::new(Identity { cluster: ClusterId(1), config: ConfigHash(2), me }, ring, Limits::default())
        };
        let nodes = (0..NODES).map(node).collect();
        let (network, room) = (VecDeque::with_capacity(4_096), Bump::new(1 << 20));
        let mut world = Self { now: Instant::ZERO, nodes, network, room, told: [0; NODES as usize], datagrams: 0 };
        for at in 0..world.nodes.len() {
            world.nodes[at].start(world.now, &[]);
            world.nodes[at].open_client(world.now, CLIENT);
            let mut said = BytesMut::new();
            Hello::default().put(&mut said);
            request::put_join(&mut said, &group(), false);
            world.say(at, said.freeze());
        }
        world.pass(Duration::from_secs(2));
        world
    }

    fn say(&mut self, at: usize, bytes: Bytes) {
        assert_eq!(self.nodes[at].handle_client(self.now, CLIENT, bytes), Reading::Go);
        self.drain(at);
    }

    /// Does what a node asks for.
    fn drain(&mut self, at: usize) {
        while let Some(effect) = self.nodes[at].poll_effect() {
            match effect {
                Effect::Send { to, datagram, .. } => {
                    let bytes = self.room.room(datagram.head.len() + datagram.body.len());
                    bytes.extend_from_slice(&datagram.head);
                    bytes.extend_from_slice(&datagram.body);
                    let bytes = self.room.take();
                    for other in (0..self.nodes.len()).filter(|other| *other != at) {
                        if to == To::All || to == To::One(NodeId(other as u16)) {
                            self.network.push_back((other, bytes.clone()));
                        }
                    }
                }
                Effect::Persist { ticket, .. } => self.nodes[at].handle_persisted(self.now, ticket),
                Effect::Trim { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        while let Some(client) = self.nodes[at].poll_writable() {
            let n = self.nodes[at].client_outputs(client).map(<[u8]>::len).sum();
            self.nodes[at].client_written(self.now, client, n);
            self.told[at] += n;
        }
    }

    /// Carries datagrams and keeps time for so long.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.now += HOP;
            for _ in 0..self.network.len() {
                let Some((to, bytes)) = self.network.pop_front() else { break };
                self.nodes[to].handle_datagram(self.now, self.now, bytes);
                self.datagrams += 1;
                self.drain(to);
            }
            for at in 0..self.nodes.len() {
                if self.nodes[at].poll_timeout().is_some_and(|due| due <= self.now) {
                    self.nodes[at].handle_timeout(self.now);
                    self.drain(at);
                }
            }
        }
    }

    /// Every client sends this, and there is time for it.
    fn round(&mut self, said: &Bytes) {
        (0..self.nodes.len()).for_each(|at| self.say(at, said.clone()));
        self.pass(Duration::from_millis(2));
    }
}

fn group() -> GroupName {
    GroupName::new(b"g").unwrap()
}

/// So many messages of so many bytes, as one client sends them with one write.
fn written(messages: usize, len: usize) -> Bytes {
    let mut said = BytesMut::new();
    (0..messages).for_each(|_| request::put_multicast(&mut said, Service::Agreed, &[group()], &vec![7; len]));
    said.freeze()
}

/// How many allocations so much traffic takes, once all buffers have grown to what they need; and how many datagrams.
fn allocations(said: &Bytes, messages: usize, len: usize) -> (u64, u64) {
    let mut world = World::new();
    (0..300).for_each(|_| world.round(said));
    let (told, datagrams) = (world.told, world.datagrams);
    let counted = allocation_counter::measure(|| (0..100).for_each(|_| world.round(said)));
    let least = 100 * usize::from(NODES) * messages * len;
    let all: Vec<_> = world.told.iter().zip(told).map(|(now, before)| now - before).collect();
    assert!(all.iter().all(|told| *told >= least), "clients were told {all:?} bytes");
    (counted.count_total, world.datagrams - datagrams)
}

#[test]
fn steady_traffic_takes_nothing_from_the_allocator() {
    for (messages, len) in [(1, 100), (60, 100), (1, 1_350), (40, 1_350)] {
        let (allocations, datagrams) = allocations(&written(messages, len), messages, len);
        assert!(datagrams > 600, "{datagrams} datagrams");
        assert_eq!(allocations, 0, "for {messages} messages of {len} bytes a write; {datagrams} datagrams");
    }
}

#[test]
fn a_ring_at_rest_takes_nothing_from_the_allocator() {
    let mut world = World::new();
    world.pass(Duration::from_secs(2));
    let datagrams = world.datagrams;
    let counted = allocation_counter::measure(|| world.pass(Duration::from_secs(1)));
    assert!(world.datagrams - datagrams > 90, "{}", world.datagrams - datagrams);
    assert_eq!(counted.count_total, 0, "for {} datagrams", world.datagrams - datagrams);
}
