//! What the fuzzer runs, one module for each target: takes bytes, panics where a promise is broken. They stand apart from the
//! fuzzer so that a plain test can take every input of the corpora through them. And what several targets share: cutting bytes
//! into pieces, and two rings with a perfect network between them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a broken promise is a panic here")]
pub mod envelope;
pub mod group_ordered;
pub mod multiring_packet;
pub mod multiring_paxos_packet;
pub mod node;
pub mod pack;
pub mod path;
pub mod paxos;
pub mod paxos_input;
pub mod paxos_packet;
pub mod paxos_record;
pub mod plato_packet;
pub mod records_segment;
pub mod resp;
pub mod ring_input;
pub mod ring_packet;
pub mod sealed;
pub mod session_events;
pub mod session_requests;
pub mod spread;
pub mod toto_packet;

use bytes::{Bytes, BytesMut};
use consort_order::{Arrival, Destination, Engine, Lane, Output, Packet as _, Submission};
use consort_ring::packet::RingPacket;
use consort_ring::{Ring, RingConfig};
use consort_types::{Class, Duration, Incarnation, Instant, MemberId, NodeId, OrderStream, Service};
use std::collections::VecDeque;

/// Cuts `bytes` into pieces, each behind its length in one byte: how the fuzzer says where one input ends.
pub fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = bytes.split_first()?;
        let (piece, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        bytes = rest;
        Some(piece)
    })
}

/// Node `node` in its only incarnation.
pub fn member(node: u16) -> MemberId {
    MemberId::new(node, 100 + u64::from(node))
}

/// The ring of one of `n` nodes, numbered from 1.
pub fn ring(me: u16, n: u16) -> Ring {
    let config = RingConfig::new(NodeId(me), (1..=n).map(NodeId).collect());
    Ring::new(config, Incarnation(100 + u64::from(me))).expect("the defaults are right")
}

thread_local! {
    /// Forming takes longer than most inputs: it is done once, and each input begins with a copy.
    static FORMED: Pair = Pair::form();
}

/// Two rings whose packets arrive at once.
#[derive(Clone, Debug)]
pub struct Pair {
    rings: [Ring; 2],
    flying: VecDeque<(usize, Lane, RingPacket)>,
    /// All packets that the second ring sent.
    sent: Vec<RingPacket>,
    now: Instant,
}

impl Pair {
    /// Two rings that have found each other.
    pub fn formed() -> Self {
        FORMED.with(Self::clone)
    }

    fn form() -> Self {
        let rings = [ring(1, 2), ring(2, 2)];
        let mut pair = Self { rings, flying: VecDeque::new(), sent: Vec::new(), now: Instant::ZERO };
        for at in 0..2 {
            pair.rings[at].start(Instant::ZERO, &[]);
            pair.drain(at);
        }
        pair.run(Duration::from_millis(500));
        pair
    }

    /// Both rings are given a message.
    pub fn submit(&mut self, service: Service) {
        for at in 0..2 {
            let payload = Bytes::from_static(&[7; 2_000]).into();
            let submission = Submission { class: Class::Client, service, stream: OrderStream(0), payload };
            let _ = self.rings[at].submit(self.now, submission);
            self.drain(at);
        }
    }

    /// A packet that the second ring sent, counted from the last, with some of its bytes replaced; `None` if it is none
    /// any more.
    pub fn forge(&self, back: u8, at: u8, bytes: &[u8]) -> Option<RingPacket> {
        let mut forged = BytesMut::new();
        let body = self.sent.iter().rev().nth(usize::from(back))?.encode(&mut forged);
        forged.extend_from_slice(&body);
        let at = usize::from(at).min(forged.len());
        let end = forged.len().min(at + bytes.len());
        forged[at..end].copy_from_slice(&bytes[..end - at]);
        RingPacket::decode(forged.freeze()).ok()
    }

    /// Hands a packet to the first ring, as if the second had sent it.
    pub fn hand_over(&mut self, lane: Lane, packet: RingPacket) {
        self.flying.push_front((0, lane, packet));
        self.step();
    }

    /// Lets time pass, from event to event.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            if self.flying.is_empty() {
                let next = self.rings.iter().filter_map(Engine::poll_timeout).min();
                self.now = self.now.max(next.map_or(end, |at| at.min(end)));
            }
            self.step();
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_micros(10);
        if let Some((to, lane, packet)) = self.flying.pop_front() {
            let arrival = Arrival { at: self.now, from: member(2 - to as u16), lane };
            self.rings[to].handle_packet(self.now, arrival, packet);
            self.drain(to);
        }
        for at in 0..2 {
            if self.rings[at].poll_timeout().is_some_and(|due| due <= self.now) {
                self.rings[at].handle_timeout(self.now);
                self.drain(at);
            }
        }
    }

    fn drain(&mut self, at: usize) {
        while let Some(output) = self.rings[at].poll_output() {
            match output {
                Output::Send { to, lane, packet }
                    if to == Destination::All || to == Destination::One(member(2 - at as u16).node) =>
                {
                    if at == 1 {
                        self.sent.push(packet.clone());
                    }
                    self.flying.push_back((1 - at, lane, packet));
                }
                Output::Persist { ticket, .. } => self.rings[at].handle_persisted(self.now, ticket),
                Output::Install(view) => self.rings[at].resume(self.now, view.id),
                _ => {}
            }
        }
    }
}

/// Takes one input, and panics where a promise is broken.
pub type Target = fn(&[u8]);

/// All targets by their names, which are also those of their corpora.
pub const TARGETS: &[(&str, Target)] = &[
    ("envelope", envelope::run),
    ("group_ordered", group_ordered::run),
    ("multiring_packet", multiring_packet::run),
    ("multiring_paxos_packet", multiring_paxos_packet::run),
    ("node", node::run),
    ("pack", pack::run),
    ("path", path::run),
    ("paxos_input", paxos_input::run),
    ("paxos_packet", paxos_packet::run),
    ("paxos_record", paxos_record::run),
    ("plato_packet", plato_packet::run),
    ("records_segment", records_segment::run),
    ("resp", resp::run),
    ("ring_input", ring_input::run),
    ("ring_packet", ring_packet::run),
    ("sealed", sealed::run),
    ("session_events", session_events::run),
    ("session_requests", session_requests::run),
    ("spread", spread::run),
    ("toto_packet", toto_packet::run),
];
