//! Rings in a small world of their own: packets travel at once and in order, unless a test drops them.
mod acceleration;
mod idle;
mod loss;
mod membership;
mod order;
mod packets;

use crate::packet::{Content, Data, Packet};
use crate::{Config, Ring};
use bytes::Bytes;
use consort_order::{Arrival, Delivery, Engine, Lane, Output, Submission, To};
use consort_types::{Class, Duration, Incarnation, Instant, MemberId, NodeId, Seq, Service, Stream, View};
use consort_wire::pack::{Body, Outgoing};
use std::collections::VecDeque;

pub(crate) const STEP: Duration = Duration::from_micros(10);

/// A data packet with one small message.
pub(crate) fn data(seq: u64) -> Data {
    let mut body = bytes::BytesMut::new();
    let payload = Bytes::from(format!("message {seq}"));
    Outgoing::new(Class::Client, Service::Agreed, payload.into()).pack(&mut body, 1000);
    let body = Body::new(body.freeze()).unwrap();
    let ring = crate::RingId::default();
    let content = Content::Messages(body);
    Data { ring, seq: Seq(seq), originator: NodeId(1), round: 0, retransmission: false, content }
}

/// What travels: from, to, lane, packet.
#[derive(Clone, Debug)]
pub(crate) struct Flying {
    pub from: MemberId,
    pub to: NodeId,
    pub lane: Lane,
    pub packet: Packet,
}

pub(crate) struct Net {
    pub rings: Vec<Ring>,
    pub now: Instant,
    pub flying: VecDeque<Flying>,
    pub delivered: Vec<Vec<Delivery>>,
    pub views: Vec<Vec<View>>,
    pub sent: Vec<Flying>,
    pub lives: Vec<Option<MemberId>>,
    pub outputs: Vec<Vec<Event>>,
}

/// What a node was told, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Message(String),
    View(View),
    Primary,
}

pub(crate) fn member(node: u16) -> MemberId {
    MemberId::new(node, 100 + u64::from(node))
}

impl Net {
    /// `n` nodes, numbered from 1, not yet started.
    pub fn new(n: u16, adjust: impl Fn(&mut Config)) -> Self {
        let members: Vec<_> = (1..=n).map(NodeId).collect();
        let ring = |me: &NodeId| {
            let mut config = Config::new(*me, members.clone());
            adjust(&mut config);
            Ring::new(config, member(me.0).incarnation).unwrap()
        };
        let rings: Vec<_> = members.iter().map(ring).collect();
        let n = rings.len();
        let (delivered, views) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        Self {
            rings,
            now: Instant::ZERO,
            flying: VecDeque::new(),
            delivered,
            views,
            sent: Vec::new(),
            lives: vec![None; n],
            outputs: vec![Vec::new(); n],
        }
    }

    /// `n` nodes with an operational ring.
    pub fn formed(n: u16, adjust: impl Fn(&mut Config)) -> Self {
        let mut net = Self::new(n, adjust);
        (0..net.rings.len()).for_each(|i| net.start(i));
        net.run(Duration::from_millis(300));
        let formed = |views: &Vec<View>| views.last().is_some_and(|view| view.members.len() == usize::from(n));
        assert!(net.views.iter().all(formed), "{:?}", net.views);
        net.views.iter_mut().for_each(|views| drop(views.drain(..views.len() - 1)));
        net.outputs.iter_mut().for_each(Vec::clear);
        net.sent.clear();
        net
    }

    pub fn start(&mut self, i: usize) {
        let now = self.now;
        self.lives[i] = Some(MemberId { node: NodeId(i as u16 + 1), incarnation: self.rings[i].incarnation() });
        self.rings[i].start(now, &[]);
        self.drain(i);
    }

    pub fn submit(&mut self, i: usize, service: Service, payload: impl Into<Bytes>) {
        let payload = payload.into().into();
        let submission = Submission { class: Class::Client, service, stream: Stream(0), payload };
        let now = self.now;
        self.rings[i].submit(now, submission).unwrap();
        self.drain(i);
    }

    pub fn drain(&mut self, i: usize) {
        let Some(from) = self.lives[i] else { return };
        while let Some(output) = self.rings[i].poll_output() {
            match output {
                Output::Send { to, lane, packet } => self.send(from, to, lane, &packet),
                Output::Deliver(delivery) => {
                    let text = String::from_utf8_lossy(&delivery.payload.to_bytes()).into_owned();
                    self.outputs[i].push(Event::Message(text));
                    self.delivered[i].push(delivery);
                }
                Output::Persist { ticket, .. } => {
                    let now = self.now;
                    self.rings[i].handle_persisted(now, ticket);
                }
                Output::Primary(_) => self.outputs[i].push(Event::Primary),
                Output::Install(view) => {
                    let (now, id) = (self.now, view.id);
                    self.outputs[i].push(Event::View(view.clone()));
                    self.views[i].push(view);
                    self.rings[i].resume(now, id);
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, from: MemberId, to: To, lane: Lane, packet: &Packet) {
        for node in (1..=self.rings.len() as u16).map(NodeId).filter(|node| *node != from.node) {
            if to == To::All || to == To::One(node) {
                self.flying.push_back(Flying { from, to: node, lane, packet: packet.clone() });
            }
        }
        self.sent.push(Flying { from, to: NodeId(0), lane, packet: packet.clone() });
    }

    /// Hands over the next packet, unless `drop` takes it. Data before tokens or as the receiver reads first.
    pub fn step(&mut self, drop: &mut dyn FnMut(&Flying) -> bool) {
        self.now += STEP;
        let Some(first) = self.flying.pop_front() else { return self.wake() };
        if !drop(&first) {
            self.hand_over(first);
        }
        self.wake();
    }

    pub fn hand_over(&mut self, flying: Flying) {
        let i = usize::from(flying.to.0) - 1;
        if self.lives[i].is_none() {
            return;
        }
        let arrival = Arrival { at: self.now, from: flying.from, lane: flying.lane };
        let now = self.now;
        self.rings[i].handle_packet(now, arrival, flying.packet);
        self.drain(i);
    }

    fn wake(&mut self) {
        for i in 0..self.rings.len() {
            if self.lives[i].is_some() && self.rings[i].poll_timeout().is_some_and(|at| at <= self.now) {
                let now = self.now;
                self.rings[i].handle_timeout(now);
                self.drain(i);
            }
        }
    }

    pub fn run(&mut self, span: Duration) {
        self.run_dropping(span, &mut |_| false);
    }

    /// Runs for a while; skips the time in which nothing happens.
    pub fn run_dropping(&mut self, span: Duration, drop: &mut dyn FnMut(&Flying) -> bool) {
        let end = self.now + span;
        while self.now < end {
            if self.flying.is_empty() {
                let alive = self.rings.iter().zip(&self.lives).filter(|(_, life)| life.is_some());
                let next = alive.filter_map(|(ring, _)| ring.poll_timeout()).min().unwrap_or(end);
                self.now = self.now.max(next.min(end));
            }
            self.step(drop);
        }
    }

    pub fn texts(&self, i: usize) -> Vec<String> {
        let text = |d: &Delivery| String::from_utf8_lossy(&d.payload.to_bytes()).into_owned();
        self.delivered[i].iter().map(text).collect()
    }

    pub fn counter(&self, i: usize, name: &str) -> u64 {
        let mut value = None;
        self.rings[i].observe(&mut |n, v| value = if n == name { Some(v) } else { value });
        value.unwrap_or_else(|| panic!("no counter {name}"))
    }

    /// Demands that all delivered the same, and this many messages.
    pub fn agree_on(&self, n: usize) {
        let first: Vec<_> = self.delivered[0].iter().map(|d| (d.position, d.sender, d.payload.to_bytes())).collect();
        assert_eq!(first.len(), n);
        for other in &self.delivered[1..] {
            let other: Vec<_> = other.iter().map(|d| (d.position, d.sender, d.payload.to_bytes())).collect();
            assert_eq!(other, first);
        }
    }
}

/// The tokens among what was sent.
pub(crate) fn tokens(sent: &[Flying]) -> Vec<crate::packet::Token> {
    let token = |flying: &Flying| match &flying.packet {
        Packet::Token(token) => Some(token.clone()),
        _ => None,
    };
    sent.iter().filter_map(token).collect()
}
