//! Token rings joined by gateways. Each ring is a network of its own on a switch, and a node has an interface and a pair of
//! sockets in each of its rings. One process reads them all: a gateway is no more than a node of several rings. Those of one
//! ring send and receive; gateways only send on.
mod host;

use crate::wires::{FRAME, Load, SEND_BUFFER, Site, len as len_in_ring};
use bytes::{Bytes, BytesMut};
use consort_multiring::packet::{Content, Packet, RING_LEN};
use consort_multiring::{Config, RingNodes, RingNumber};
use consort_order::{Arrival, Destination, Engine, Lane, Output, Payload, Pressure, Submission, Topic};
use consort_types::{Class, Duration, Incarnation, Instant, MemberId, NodeId, OrderStream, Rng, Service, ViewKind};
use consort_wire::Packet as _;
use host::Host;
use std::collections::{BTreeMap, BTreeSet};

/// By when all must be in one view.
const FORMED: Duration = Duration::from_secs(60);

/// Rings, what they run on, and what is sent.
pub struct Plan<'a> {
    /// Every host, interface and switch.
    pub site: &'a Site,
    /// The nodes of each ring.
    pub rings: Vec<Vec<u16>>,
    /// How much is sent.
    pub load: Load,
    /// Of its own messages a node has so many under way at most where the load is full.
    pub ahead: usize,
    /// What is asked for each message.
    pub service: Service,
    /// How large each is, in bytes: eight at least.
    pub len: usize,
    /// The share of a ring's messages that somebody reads behind each of its gateways.
    pub read_behind: f64,
    /// The settings of every node.
    pub adjust: &'a dyn Fn(&mut Config),
}

impl Plan<'_> {
    fn rings(&self) -> Vec<RingNodes> {
        let ring = |(id, nodes): (u8, &Vec<u16>)| RingNodes {
            id: RingNumber(id),
            nodes: nodes.iter().copied().map(NodeId).collect(),
            delay: Duration::ZERO,
        };
        (1..).zip(&self.rings).map(ring).collect()
    }
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Messages of all senders that have their place, in a second.
    pub rate: f64,
    /// From when a message is made up to when a receiver has it, for each receiver but its sender.
    pub took: Vec<Duration>,
    /// Of a gateway's time, how much its processor is busy, in hundredths; the most of all gateways. None has none.
    pub busiest_gateway: Option<f64>,
}

enum Happens {
    AtSwitch { to: Destination, flying: Flying },
    Arrive { to: usize, flying: Flying },
    Wake { host: usize },
}

#[derive(Clone)]
struct Flying {
    ring: RingNumber,
    from: usize,
    lane: Lane,
    len: usize,
    packet: Packet,
}

/// Nodes, and all that is under way.
pub struct Gateways<'a> {
    plan: &'a Plan<'a>,
    rings: BTreeMap<RingNumber, Vec<usize>>,
    now: Instant,
    tie: u64,
    heap: BTreeMap<(Instant, u64), Happens>,
    hosts: Vec<Host>,
    /// When each message was made up, and by whom.
    messages: Vec<(Instant, usize)>,
    /// What follows the number in a message.
    filling: Bytes,
    next_write: Option<Instant>,
    rng: Rng,
    measured: Option<(Vec<Duration>, u64)>,
    /// Which rings share a gateway.
    next_to: BTreeMap<RingNumber, Vec<RingNumber>>,
}

impl<'a> Gateways<'a> {
    /// Nodes that are in one view, and under load.
    ///
    /// # Errors
    /// What is wrong with the settings, or that no view of all came about.
    pub fn start(plan: &'a Plan<'a>, seed: u64) -> Result<Self, String> {
        let rings = plan.rings();
        let mut rng = Rng::new(seed).fork(0x6a7e);
        let nodes: BTreeSet<_> = rings.iter().flat_map(|ring| ring.nodes.iter().copied()).collect();
        let hosts: Result<Vec<_>, String> = nodes.iter().map(|me| Host::new(plan, *me, &rings, &mut rng)).collect();
        let index = |node: &NodeId| usize::from(node.0);
        let mut gateways = Self {
            plan,
            rings: rings.iter().map(|ring| (ring.id, ring.nodes.iter().map(index).collect())).collect(),
            now: Instant::ZERO,
            tie: 0,
            heap: BTreeMap::new(),
            hosts: hosts?,
            messages: Vec::new(),
            filling: Bytes::from(vec![0; plan.len.saturating_sub(8)]),
            next_write: None,
            rng,
            measured: None,
            next_to: rings.iter().map(|ring| (ring.id, next_to(ring, &rings))).collect(),
        };
        gateways.form()?;
        gateways.read();
        Ok(gateways)
    }

    fn form(&mut self) -> Result<(), String> {
        for host in 0..self.hosts.len() {
            self.hosts[host].engine.start(Instant::ZERO, &[]);
            self.drain(host);
            self.schedule_wake(host);
        }
        let all = self.hosts.len();
        while let Some(lonely) = self.hosts.iter().position(|host| host.members < all) {
            if self.now.since(Instant::ZERO) > FORMED {
                let state = consort_order::state_of(&self.hosts[lonely].engine, self.now);
                return Err(format!("node {lonely} is not in a view of all {all} after {FORMED:?}: {state}"));
            }
            self.run(Duration::from_millis(50));
        }
        match self.plan.load {
            Load::Full => (0..all).for_each(|host| {
                self.hosts[host].sends = !self.hosts[host].is_gateway();
                self.schedule_wake(host);
            }),
            Load::Rate(_) => self.next_write = Some(self.now),
        }
        Ok(())
    }

    /// Nodes of a ring read what concerns it; gateways only send on.
    fn read(&mut self) {
        for at in 0..self.hosts.len() {
            let host = &mut self.hosts[at];
            let rings = host.rings();
            let own: Vec<_> = rings.iter().filter(|_| rings.len() == 1).map(|ring| topic(*ring)).collect();
            host.engine.read(self.now, &own);
            self.drain(at);
            self.schedule_wake(at);
        }
    }

    /// Whom a message of a ring concerns: behind each gateway its share.
    fn topics(&mut self, ring: RingNumber) -> Vec<Topic> {
        if self.plan.read_behind >= 1.0 {
            return Vec::new();
        }
        let (mut concerned, mut at) = (vec![ring], 0);
        while let Some(ring) = concerned.get(at).copied() {
            for next in self.next_to.get(&ring).cloned().unwrap_or_default() {
                if !concerned.contains(&next) && self.rng.chance(self.plan.read_behind) {
                    concerned.push(next);
                }
            }
            at += 1;
        }
        concerned.into_iter().map(topic).collect()
    }

    /// Lets time pass without measuring, then measures.
    ///
    /// # Errors
    /// That nothing is handed out, or that a view ends.
    pub fn measure(&mut self, before: Duration, span: Duration) -> Result<Measured, String> {
        self.run(before);
        let views = self.views();
        self.hosts.iter_mut().for_each(|host| host.busy = Duration::ZERO);
        self.measured = Some(Default::default());
        self.run(span);
        let (took, given) = self.measured.take().unwrap_or_default();
        if given == 0 || self.views() > views {
            return Err(format!("{given} messages are handed out, and {} views end", self.views() - views));
        }
        let gateways = self.hosts.iter().filter(|host| host.is_gateway());
        let busy = gateways.map(|host| 100.0 * host.busy.as_secs_f64() / span.as_secs_f64());
        let rate = given as f64 / span.as_secs_f64();
        Ok(Measured { rate, took, busiest_gateway: busy.reduce(f64::max) })
    }

    fn views(&self) -> u64 {
        self.hosts.iter().map(|host| host.views).sum()
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let next = self.heap.first_key_value().map(|((at, _), _)| *at);
            let Some(at) = next.into_iter().chain(self.next_write).min().filter(|at| *at <= end) else { break };
            self.now = self.now.max(at);
            if self.next_write == Some(at) {
                self.write();
            } else if let Some((_, happens)) = self.heap.pop_first() {
                self.happen(happens);
            }
        }
        self.now = end;
    }

    fn happen(&mut self, happens: Happens) {
        match happens {
            Happens::AtSwitch { to, flying } => self.at_switch(to, &flying),
            Happens::Arrive { to, flying } => {
                self.hosts[to].take(self.now, flying, &self.plan.site.host);
                self.schedule_wake(to);
            }
            Happens::Wake { host } => self.wake(host),
        }
    }

    /// Somebody makes a message up.
    fn write(&mut self) {
        let Load::Rate(rate) = self.plan.load else { return };
        let senders: Vec<_> = (0..self.hosts.len()).filter(|host| !self.hosts[*host].is_gateway()).collect();
        let host = senders[self.rng.below(senders.len() as u64) as usize];
        self.hosts[host].wants.push_back(self.now);
        self.next_write = Some(self.now + Duration::from_nanos(self.rng.exponential(1e9 / rate) as u64 + 1));
        self.schedule_wake(host);
    }

    /// Only nodes of the ring hear what is sent there.
    fn at_switch(&mut self, to: Destination, flying: &Flying) {
        let heard = self.rings.get(&flying.ring).into_iter().flatten().copied().filter(|host| *host != flying.from);
        let heard = heard.filter(|host| to == Destination::All || to == Destination::One(NodeId(*host as u16)));
        for host in heard.collect::<Vec<_>>() {
            if let Some(at) = self.hosts[host].through_port(self.now, flying.ring, flying.len + FRAME) {
                self.schedule(at, Happens::Arrive { to: host, flying: flying.clone() });
            }
        }
    }

    /// One thing is done: a timer, a packet, or a message.
    fn wake(&mut self, at: usize) {
        let now = self.now;
        let host = &mut self.hosts[at];
        host.wake = None;
        if host.free <= now {
            host.free = now;
            self.act(at);
            self.drain(at);
            let host = &mut self.hosts[at];
            host.busy += host.free.since(now);
        }
        self.schedule_wake(at);
    }

    fn act(&mut self, at: usize) {
        let (now, model) = (self.now, &self.plan.site.host);
        let host = &mut self.hosts[at];
        if host.engine.poll_timeout().is_some_and(|due| due <= now) {
            host.free += model.timer;
            return host.engine.handle_timeout(now);
        }
        if let Some(written) = host.next_message(now, self.plan.ahead) {
            host.free += model.message;
            return self.submit(at, written);
        }
        if let Some((arrived, flying)) = host.next_packet(model) {
            host.free += model.receive + model.bytes(flying.len);
            if std::mem::take(&mut host.ran_over) {
                host.engine.handle_pressure(Pressure::Overflow);
            }
            let arrival = Arrival { at: arrived, from: name(flying.from), lane: flying.lane };
            host.engine.handle_packet(now, arrival, flying.packet);
        }
    }

    fn submit(&mut self, at: usize, written: Instant) {
        let number = self.messages.len() as u64;
        let head = Bytes::copy_from_slice(&number.to_le_bytes());
        let payload = [head, self.filling.clone()].into_iter().collect();
        let submission =
            Submission { class: Class::Client, service: self.plan.service, stream: OrderStream(0), payload };
        let ring = self.hosts[at].rings().first().copied().unwrap_or_default();
        let topics = self.topics(ring);
        // What is refused was not sent: the load is more than the rings take.
        if self.hosts[at].engine.submit_to(self.now, submission, &topics).is_ok() {
            self.hosts[at].ahead += 1;
            self.messages.push((written, at));
        }
    }

    fn drain(&mut self, at: usize) {
        while let Some(output) = self.hosts[at].engine.poll_output() {
            let host = &mut self.hosts[at];
            match output {
                Output::Send { to, lane, packet } => self.send(at, to, lane, packet),
                Output::Persist { ticket, .. } => host.engine.handle_persisted(self.now, ticket),
                Output::Install(view) if view.kind == ViewKind::Regular => {
                    host.members = view.members.len();
                    host.views += 1;
                    host.engine.resume(self.now, view.id);
                }
                Output::Deliver(delivery) => self.deliver(at, &delivery.payload),
                _ => {}
            }
        }
    }

    fn deliver(&mut self, at: usize, payload: &Payload) {
        let Some(number) = payload.read_from(0).take().map(u64::from_le_bytes) else { return };
        let (written, sender) = self.messages[number as usize];
        let host = &mut self.hosts[at];
        host.ahead -= usize::from(sender == at);
        if host.is_gateway() {
            return;
        }
        host.free += self.plan.site.host.message;
        if let Some((took, given)) = &mut self.measured {
            if sender == at {
                *given += 1;
            } else {
                took.push(host.free.since(written));
            }
        }
    }

    fn send(&mut self, at: usize, to: Destination, lane: Lane, packet: Packet) {
        let (ring, len) = (packet.ring, len(&packet));
        let host = &mut self.hosts[at];
        host.free += self.plan.site.host.send + self.plan.site.host.bytes(len);
        let lane = if matches!(to, Destination::One(_)) { Lane::Token } else { lane };
        let left = host.through_uplink(ring, len + FRAME);
        host.free = host.free.max(Instant(left.0.saturating_sub(SEND_BUFFER.as_nanos() as u64)));
        self.schedule(left, Happens::AtSwitch { to, flying: Flying { ring, from: at, lane, len, packet } });
    }

    fn schedule(&mut self, at: Instant, happens: Happens) {
        self.tie += 1;
        self.heap.insert((at, self.tie), happens);
    }

    fn schedule_wake(&mut self, at: usize) {
        let now = self.now;
        let host = &mut self.hosts[at];
        let due = if host.has_work(now, self.plan.ahead) { Some(now) } else { host.engine.poll_timeout() };
        let Some(due) = due.map(|due| due.max(host.free).max(now)) else { return };
        if host.wake.is_none_or(|wake| due < wake) {
            host.wake = Some(due);
            self.schedule(due, Happens::Wake { host: at });
        }
    }
}

/// The datagram's bytes.
fn len(packet: &Packet) -> usize {
    match &packet.content {
        Content::Ring(of_ring) => RING_LEN + len_in_ring(of_ring),
        Content::Relayed(_) => {
            let mut head = BytesMut::new();
            let body = packet.encode(&mut head);
            consort_wire::envelope::LEN + head.len() + body.len()
        }
    }
}

/// The rings that share a node with this one.
fn next_to(ring: &RingNodes, rings: &[RingNodes]) -> Vec<RingNumber> {
    let shares = |other: &&RingNodes| other.id != ring.id && other.nodes.iter().any(|node| ring.nodes.contains(node));
    rings.iter().filter(shares).map(|other| other.id).collect()
}

/// What concerns the nodes of a ring.
fn topic(ring: RingNumber) -> Topic {
    Topic(ring.0.into())
}

fn name(member: usize) -> MemberId {
    MemberId { node: NodeId(member as u16), incarnation: Incarnation(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_sim::HostModel;

    const SITE: Site = Site {
        rate: 1_000_000_000,
        delay: Duration::from_micros(5),
        port: 1 << 20,
        loss: 0.0,
        host: HostModel::SERVER,
        clients: None,
    };

    fn plan(rings: &[&[u16]]) -> Plan<'static> {
        let rings = rings.iter().map(|ring| ring.to_vec()).collect();
        let (load, service) = (Load::Rate(400.0), Service::Safe);
        Plan { site: &SITE, rings, load, ahead: 0, service, len: 100, read_behind: 1.0, adjust: &|_| () }
    }

    fn run(rings: &[&[u16]], seed: u64) -> Measured {
        let (before, span) = (Duration::from_millis(200), Duration::from_millis(500));
        Gateways::start(&plan(rings), seed).unwrap().measure(before, span).unwrap()
    }

    #[test]
    fn what_is_sent_on_one_ring_comes_to_all_nodes_of_all_rings() {
        let measured = run(&[&[0, 1, 4], &[2, 3, 4]], 1);
        assert!((measured.rate / 400.0 - 1.0).abs() < 0.2, "{}", measured.rate);
        // Three of four receivers are not the sender.
        let sent = measured.rate / 2.0;
        assert!((measured.took.len() as f64 / sent / 3.0 - 1.0).abs() < 0.05, "{} {sent}", measured.took.len());
        assert!(measured.busiest_gateway.is_some_and(|busy| busy > 0.0 && busy < 100.0));
    }

    #[test]
    fn what_nobody_reads_behind_a_gateway_stays_on_its_ring() {
        let given = |read_behind| {
            let plan = Plan { read_behind, ..plan(&[&[0, 1, 4], &[2, 3, 4]]) };
            let mut gateways = Gateways::start(&plan, 1).unwrap();
            let span = Duration::from_millis(500);
            let measured = gateways.measure(Duration::from_millis(300), span).unwrap();
            assert!((measured.rate / 400.0 - 1.0).abs() < 0.2, "{}", measured.rate);
            measured.took.len() as f64 / measured.rate / span.as_secs_f64()
        };
        // One other on the same ring reads each, and two on the other one every fourth.
        let (all, some) = (given(1.0), given(0.25));
        assert!((all - 3.0).abs() < 0.1 && (some - 1.5).abs() < 0.2, "{all} {some}");
    }

    #[test]
    fn the_same_seed_measures_the_same() {
        let rings: [&[u16]; 2] = [&[0, 1, 3], &[2, 3]];
        let (one, again, other) = (run(&rings, 1), run(&rings, 1), run(&rings, 2));
        assert_eq!((one.rate, &one.took), (again.rate, &again.took));
        assert_ne!(one.took, other.took);
    }

    #[test]
    fn of_a_loop_of_rings_one_gateway_stands_by() {
        let loops: [&[u16]; 3] = [&[0, 3, 5], &[1, 3, 4], &[2, 4, 5]];
        let (looped, row) = (run(&loops, 1), run(&[&[0, 3, 5], &[1, 3, 4], &[2, 4]], 1));
        assert!((looped.rate / row.rate - 1.0).abs() < 0.05, "{} {}", looped.rate, row.rate);
    }

    #[test]
    fn rings_at_which_nobody_sends_measure_nothing() {
        let mut gateways = plan(&[&[0, 1]]);
        gateways.load = Load::Full;
        let error = Gateways::start(&gateways, 1).unwrap().measure(Duration::ZERO, Duration::from_millis(50));
        assert!(error.err().unwrap().contains("0 messages are handed out"));
    }
}
