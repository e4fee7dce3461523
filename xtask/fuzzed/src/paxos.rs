//! Three nodes of Ring Paxos with a perfect network between them, one of which is sent what others never said.
use bytes::{Bytes, BytesMut};
use consort_order::{Arrival, Destination, Engine, Fact, Lane, Output, Packet as _, Submission};
use consort_paxos::packet::Packet;
use consort_paxos::{Config, Paxos, Storage};
use consort_types::{Class, Duration, Incarnation, Instant, MemberId, NodeId, OrderStream, Service};
use std::collections::VecDeque;

const NODES: usize = 3;
/// It follows, and votes: the first one leads.
const VICTIM: usize = 1;

thread_local! {
    /// Forming takes longer than most inputs: it is done once, and each input begins with a copy.
    static FORMED: Trio = Trio::form();
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Trio {
    nodes: [Paxos; NODES],
    flying: VecDeque<(MemberId, usize, Lane, Packet)>,
    /// All packets that others really sent, whomever to.
    sent: Vec<(MemberId, Lane, Bytes)>,
    /// Bytes of all of them, and of forged ones.
    received: usize,
    now: Instant,
}

impl Trio {
    /// Three that are in one view.
    pub fn formed() -> Self {
        FORMED.with(Self::clone)
    }

    fn form() -> Self {
        let node = |at: usize| {
            let mut config = Config::new(NodeId(at as u16), (0..NODES as u16).map(NodeId).collect());
            config.storage = Storage::Memory;
            Paxos::new(config, Incarnation(1)).expect("the defaults are right")
        };
        let nodes = std::array::from_fn(node);
        let mut trio = Self { nodes, flying: VecDeque::new(), sent: Vec::new(), received: 0, now: Instant::ZERO };
        for at in 0..NODES {
            trio.nodes[at].start(Instant::ZERO, &[]);
            trio.drain(at);
        }
        trio.run(Duration::from_millis(600));
        (0..NODES).for_each(|at| trio.submit(at));
        trio.run(Duration::from_millis(100));
        assert!(trio.nodes.iter().all(|node| node.members().is_some_and(|members| members.len() == NODES)));
        trio
    }

    /// A node is given a message.
    pub fn submit(&mut self, at: usize) {
        let payload = Bytes::from_static(&[7; 500]).into();
        let submission = Submission { class: Class::Client, service: Service::Agreed, stream: OrderStream(0), payload };
        let _ = self.nodes[at].submit(self.now, submission);
        self.drain(at);
    }

    /// A packet that another sent, counted from the last, comes again with some of its bytes replaced.
    pub fn forge(&mut self, back: u8, at: u8, bytes: &[u8]) {
        let Some((from, lane, packet)) = self.sent.iter().rev().nth(usize::from(back)).cloned() else { return };
        let mut forged = BytesMut::from(&packet[..]);
        let at = usize::from(at).min(forged.len());
        let end = forged.len().min(at + bytes.len());
        forged[at..end].copy_from_slice(&bytes[..end - at]);
        self.received += forged.len();
        if let Ok(packet) = Packet::decode(forged.freeze()) {
            let arrival = Arrival { at: self.now, from, lane };
            self.nodes[VICTIM].handle_packet(self.now, arrival, packet);
            self.drain(VICTIM);
        }
    }

    /// Lets time pass, from event to event.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            if self.flying.is_empty() {
                let next = self.nodes.iter().filter_map(Engine::poll_timeout).min();
                self.now = self.now.max(next.map_or(end, |at| at.min(end)));
            }
            self.step();
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_micros(10);
        if let Some((from, to, lane, packet)) = self.flying.pop_front() {
            self.nodes[to].handle_packet(self.now, Arrival { at: self.now, from, lane }, packet);
            self.drain(to);
        }
        for at in 0..NODES {
            if self.nodes[at].poll_timeout().is_some_and(|due| due <= self.now) {
                self.nodes[at].handle_timeout(self.now);
                self.drain(at);
            }
        }
    }

    fn drain(&mut self, at: usize) {
        let from = self.nodes[at].me();
        let mut outputs = 0;
        while let Some(output) = self.nodes[at].poll_output() {
            outputs += 1;
            assert!(outputs < OUTPUTS, "one input makes {outputs} outputs");
            match output {
                Output::Send { to, lane, packet } => {
                    for other in (0..NODES).filter(|other| *other != at) {
                        if to == Destination::All || to == Destination::One(NodeId(other as u16)) {
                            self.note(at, from, lane, &packet);
                            self.flying.push_back((from, other, lane, packet.clone()));
                        }
                    }
                }
                Output::Install(view) => self.nodes[at].resume(self.now, view.id),
                _ => {}
            }
        }
    }

    fn note(&mut self, sender: usize, from: MemberId, lane: Lane, packet: &Packet) {
        // Most packets are beats, which are much alike.
        if sender != VICTIM && (lane == Lane::Reliable || self.sent.len().is_multiple_of(4)) {
            let mut bytes = BytesMut::new();
            let body = packet.encode(&mut bytes);
            bytes.extend_from_slice(&body);
            self.received += bytes.len();
            self.sent.push((from, lane, bytes.freeze()));
        }
    }

    /// What is kept is bounded by what was sent.
    ///
    /// # Panics
    /// Where it keeps more.
    pub fn check(&self) {
        self.nodes[VICTIM].observe(self.now, &mut |fact| {
            if let Fact::Counter("pool_values" | "open_instances" | "instances_retained", value) = fact {
                assert!(value as usize <= self.received, "{fact:?} after {} bytes", self.received);
            }
        });
    }
}

/// More than one input makes, however much it was sent before.
const OUTPUTS: usize = 10_000;
