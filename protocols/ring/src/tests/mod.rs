//! Rings in a small world of their own: packets travel at once and in order, unless a test drops them.
mod acceleration;
mod acks;
mod distance;
mod distances;
mod faults;
mod grants;
mod hostile;
mod idle;
mod loss;
mod membership;
mod order;
mod packets;
mod wait_causes;

mod scenarios;
mod unicast;

use crate::evs::{EvsEvent, EvsMessage, EvsTrace};
use crate::packet::{DataContent, DataPacket, RingPacket};
use crate::{Ring, RingConfig};
use bytes::Bytes;
use consort_order::{Arrival, Delivery, Destination, Engine, Lane, Output, Refused, Submission};
use consort_types::{
    Class, Duration, Incarnation, Instant, MemberId, NodeId, OrderStream, Seq, Service, View, ViewCause,
};
use consort_wire::pack::{Body, OutgoingMessage};
use std::collections::{BTreeSet, VecDeque};

pub(crate) const STEP: Duration = Duration::from_micros(10);

/// A data packet with one small message.
pub(crate) fn data(seq: u64) -> DataPacket {
    let mut body = bytes::BytesMut::new();
    let payload = Bytes::from(format!("message {seq}"));
    OutgoingMessage::new(Class::Client, Service::Agreed, payload.into()).pack(&mut body, 1000);
    let body = Body::new(body.freeze()).unwrap();
    let ring = crate::RingId::default();
    let content = DataContent::Messages(body);
    DataPacket {
        ring,
        seq: Seq(seq),
        originator: NodeId(1),
        round: 0,
        retransmission: false,
        ack_request: false,
        stamp: 0,
        content,
    }
}

/// What travels: from, to, lane, packet.
#[derive(Clone, Debug)]
pub(crate) struct Flying {
    pub from: MemberId,
    pub to: NodeId,
    pub lane: Lane,
    pub packet: RingPacket,
}

/// Nodes and what travels between them. The first node is number 1, but stands at index 0.
pub(crate) struct Net {
    pub rings: Vec<Ring>,
    pub now: Instant,
    pub flying: VecDeque<Flying>,
    pub delivered: Vec<Vec<Delivery>>,
    pub views: Vec<Vec<View>>,
    /// Who gave a view up, why, and whom it wanted out.
    pub interruptions: Vec<(usize, ViewCause, Vec<MemberId>)>,
    pub sent: Vec<Flying>,
    /// Who runs, in which incarnation.
    pub incarnations: Vec<Option<MemberId>>,
    /// What every incarnation did and was told, from its start on.
    pub traces: Vec<EvsTrace>,
    /// How long a packet takes; everything else waits meanwhile.
    pub step: Duration,
    /// Ways that are cut: from, to.
    pub cuts: BTreeSet<(u16, u16)>,
    /// Whether the layer above resumes every view at once.
    pub resumes: bool,
    /// Nodes that are stopped, with what came for them meanwhile.
    stopped: Vec<Option<VecDeque<(Instant, Flying)>>>,
    /// The last record of each node's disk.
    pub disks: Vec<Option<Bytes>>,
    /// Writes to disk are not answered while it stalls.
    pub disks_stall: bool,
}

pub(crate) fn member(node: u16) -> MemberId {
    MemberId::new(node, 100 + u64::from(node))
}

/// `cargo xtask mutants` asks which scenario notices a broken rule.
#[cfg(feature = "mutants")]
fn break_a_rule(config: &mut RingConfig) {
    let name = std::env::var("CONSORT_RING_MUTANT").unwrap_or_default();
    config.mutant = crate::Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name);
}

impl Net {
    /// `n` nodes, numbered from 1, not yet started.
    pub fn new(n: u16, adjust: impl Fn(&mut RingConfig)) -> Self {
        let members: Vec<_> = (1..=n).map(NodeId).collect();
        let ring = |me: &NodeId| {
            let mut config = RingConfig::new(*me, members.clone());
            adjust(&mut config);
            #[cfg(feature = "mutants")]
            break_a_rule(&mut config);
            Ring::new(config, member(me.0).incarnation).unwrap()
        };
        let rings: Vec<_> = members.iter().map(ring).collect();
        let n = rings.len();
        Self {
            rings,
            now: Instant::ZERO,
            flying: VecDeque::new(),
            delivered: vec![Vec::new(); n],
            views: vec![Vec::new(); n],
            interruptions: Vec::new(),
            sent: Vec::new(),
            incarnations: vec![None; n],
            traces: Vec::new(),
            step: STEP,
            cuts: BTreeSet::new(),
            resumes: true,
            stopped: vec![None; n],
            disks: vec![None; n],
            disks_stall: false,
        }
    }

    /// `n` nodes with an operational ring.
    pub fn formed(n: u16, adjust: impl Fn(&mut RingConfig)) -> Self {
        let mut net = Self::new(n, adjust);
        (0..net.rings.len()).for_each(|i| net.start(i));
        net.run(Duration::from_millis(300));
        let formed = |views: &Vec<View>| views.last().is_some_and(|view| view.members.len() == usize::from(n));
        assert!(net.views.iter().all(formed), "{:?}", net.views);
        net.views.iter_mut().for_each(|views| drop(views.drain(..views.len() - 1)));
        net.sent.clear();
        net.interruptions.clear();
        net
    }

    pub fn start(&mut self, i: usize) {
        let now = self.now;
        let me = MemberId { node: NodeId(i as u16 + 1), incarnation: self.rings[i].incarnation() };
        self.incarnations[i] = Some(me);
        self.traces.push(EvsTrace { me, over: false, events: Vec::new() });
        let records: Vec<_> = self.disks[i].iter().cloned().collect();
        self.rings[i].start(now, &records);
        self.drain(i);
    }

    pub fn submit(&mut self, i: usize, service: Service, payload: impl Into<Bytes>) {
        self.try_submit(i, Class::Client, service, payload.into()).unwrap();
    }

    pub fn try_submit(&mut self, i: usize, class: Class, service: Service, payload: Bytes) -> Result<(), Refused> {
        let now = self.now;
        let text = String::from_utf8_lossy(&payload).into_owned();
        let submission = Submission { class, service, stream: OrderStream(0), payload: payload.into() };
        self.rings[i].submit(now, submission)?;
        self.note(i, EvsEvent::Accepted(text));
        self.drain(i);
        Ok(())
    }

    fn note(&mut self, i: usize, event: EvsEvent) {
        let me = self.incarnations[i];
        let trace = self.traces.iter_mut().rfind(|trace| Some(trace.me) == me);
        trace.unwrap().events.push(event);
    }

    pub fn drain(&mut self, i: usize) {
        let Some(from) = self.incarnations[i] else { return };
        while let Some(output) = self.rings[i].poll_output() {
            match output {
                Output::Send { to, lane, packet } => self.send(i, from, to, lane, &packet),
                Output::Deliver(delivery) => self.deliver(i, delivery),
                Output::Persist { ticket, record, .. } if !self.disks_stall => {
                    let now = self.now;
                    self.disks[i] = Some(record);
                    self.rings[i].handle_persisted(now, ticket);
                }
                Output::Primary(view) => self.note(i, EvsEvent::Primary(view)),
                Output::Install(view) => self.install(i, view),
                Output::Interrupted { cause, out } => self.interruptions.push((i, cause, out)),
                Output::Left => self.crash(i),
                _ => {}
            }
        }
    }

    fn deliver(&mut self, i: usize, delivery: Delivery) {
        let (position, sender, safe) = (delivery.position, delivery.sender, delivery.service == Service::Safe);
        let text = String::from_utf8_lossy(&delivery.payload.to_bytes()).into_owned();
        self.note(i, EvsEvent::Delivered(EvsMessage { position, sender, safe, text }));
        self.delivered[i].push(delivery);
    }

    fn install(&mut self, i: usize, view: View) {
        let (now, id) = (self.now, view.id);
        self.note(i, EvsEvent::Installed(view.clone()));
        self.views[i].push(view);
        if self.resumes {
            self.rings[i].resume(now, id);
        }
    }

    fn send(&mut self, i: usize, from: MemberId, to: Destination, lane: Lane, packet: &RingPacket) {
        if let RingPacket::Data(data) = packet
            && matches!(data.content, DataContent::Messages(_))
            && data.originator == from.node
            && !data.retransmission
        {
            self.note(i, EvsEvent::Numbered(data.ring, data.seq));
        }
        for node in (1..=self.rings.len() as u16).map(NodeId).filter(|node| *node != from.node) {
            if to == Destination::All || to == Destination::One(node) {
                self.flying.push_back(Flying { from, to: node, lane, packet: packet.clone() });
            }
        }
        self.sent.push(Flying { from, to: NodeId(0), lane, packet: packet.clone() });
    }

    /// Hands over the next packet, unless `drop` takes it. Data before tokens or as the receiver reads first.
    pub fn step(&mut self, drop: &mut dyn FnMut(&Flying) -> bool) {
        self.now += self.step;
        let Some(first) = self.flying.pop_front() else { return self.wake() };
        if !self.cuts.contains(&(first.from.node.0, first.to.0)) && !drop(&first) {
            self.hand_over(first);
        }
        self.wake();
    }

    /// A packet arrives now; at a stopped node it waits.
    pub fn hand_over(&mut self, flying: Flying) {
        let i = usize::from(flying.to.0) - 1;
        let now = self.now;
        match &mut self.stopped[i] {
            Some(waiting) => waiting.push_back((now, flying)),
            None => self.read(i, now, flying),
        }
    }

    fn read(&mut self, i: usize, at: Instant, flying: Flying) {
        if self.incarnations[i].is_none() {
            return;
        }
        let arrival = Arrival { at, from: flying.from, lane: flying.lane };
        let now = self.now;
        self.rings[i].handle_packet(now, arrival, flying.packet);
        self.drain(i);
    }

    fn runs(&self, i: usize) -> bool {
        self.incarnations[i].is_some() && self.stopped[i].is_none()
    }

    fn wake(&mut self) {
        for i in 0..self.rings.len() {
            if self.runs(i) && self.rings[i].poll_timeout().is_some_and(|at| at <= self.now) {
                let now = self.now;
                self.rings[i].handle_timeout(now);
                self.drain(i);
            }
        }
    }

    pub fn run(&mut self, span: Duration) {
        self.run_dropping(span, &mut |_| false);
    }

    /// Runs for a while, with losses.
    pub fn run_dropping(&mut self, span: Duration, drop: &mut dyn FnMut(&Flying) -> bool) {
        let end = self.now + span;
        while self.now < end {
            self.skip_to(end);
            self.step(drop);
        }
    }

    /// Skips the time in which nothing happens.
    pub fn skip_to(&mut self, end: Instant) {
        if self.flying.is_empty() {
            let running = (0..self.rings.len()).filter(|i| self.runs(*i));
            let next = running.filter_map(|i| self.rings[i].poll_timeout()).min().unwrap_or(end);
            self.now = self.now.max(next.min(end));
        }
    }

    /// Runs until something is so; it must come to be within `span`.
    pub fn run_until(&mut self, span: Duration, mut so: impl FnMut(&Self) -> bool) {
        self.run_dropping_until(span, &mut |_| false, &mut so);
    }

    /// Runs, with losses, until something is so.
    pub fn run_dropping_until(
        &mut self,
        span: Duration,
        drop: &mut dyn FnMut(&Flying) -> bool,
        so: &mut dyn FnMut(&Self) -> bool,
    ) {
        let end = self.now + span;
        while !so(self) {
            assert!(self.now < end, "not so after {span:?}: {}", self.describe());
            self.skip_to(end);
            self.step(drop);
        }
    }

    pub fn texts(&self, i: usize) -> Vec<String> {
        let text = |d: &Delivery| String::from_utf8_lossy(&d.payload.to_bytes()).into_owned();
        self.delivered[i].iter().map(text).collect()
    }

    pub fn counter(&self, i: usize, name: &str) -> u64 {
        let mut value = None;
        self.rings[i].each_counter(&mut |n, v| value = if n == name { Some(v) } else { value });
        value.unwrap_or_else(|| panic!("no counter {name}"))
    }

    /// A counter, summed over all nodes.
    pub fn total(&self, name: &str) -> u64 {
        (0..self.rings.len()).map(|i| self.counter(i, name)).sum()
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

/// With a `linger`, however short, the token always goes round.
pub(crate) fn never_granted(config: &mut RingConfig) {
    config.idling.linger = Duration::from_nanos(1);
}

/// The tokens among what was sent.
pub(crate) fn tokens(sent: &[Flying]) -> Vec<crate::packet::Token> {
    let token = |flying: &Flying| match &flying.packet {
        RingPacket::Token(token) => Some(token.clone()),
        _ => None,
    };
    sent.iter().filter_map(token).collect()
}
