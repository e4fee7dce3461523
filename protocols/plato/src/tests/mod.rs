//! Some nodes, a network that does what it is told, and time that passes when it is told to.
mod hostile;
mod links;
mod order;
mod views;

use crate::{Plato, PlatoConfig, PlatoPacket, Prediction, Sequencing};
use bytes::Bytes;
use consort_order::{Arrival, Delivery, Destination, Engine, Lane, Output, Packet as _, Submission};
use consort_types::{Class, Duration, Incarnation, Instant, MemberId, NodeId, OrderStream, Service, View, ViewKind};
use std::collections::BTreeMap;

const HOP: Duration = Duration::from_micros(200);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// What a node's upper layer was told.
#[derive(Clone, Debug)]
enum Told {
    Offer(u64, String),
    Revoke(u64),
    Confirm(u64, String),
    Deliver(String),
    View(View),
    Primary,
}

struct Node {
    engine: Plato,
    up: bool,
    told: Vec<(Instant, Told)>,
    /// All it delivered.
    got: Vec<Delivery>,
}

/// What becomes of a packet on its way from one node to another: how much later it comes, or that it is lost.
type Fate = Box<dyn FnMut(u16, u16, &PlatoPacket) -> Option<Duration>>;

struct Cluster {
    now: Instant,
    nodes: Vec<Node>,
    wire: BTreeMap<(Instant, u64), (u16, u16, Lane, PlatoPacket)>,
    sent: u64,
    fate: Fate,
}

fn config(me: u16, n: u16) -> PlatoConfig {
    break_a_rule(PlatoConfig::new(NodeId(me), (1..=n).map(NodeId).collect()))
}

/// `cargo xtask mutants` asks which scenario notices a broken rule.
fn break_a_rule(config: PlatoConfig) -> PlatoConfig {
    #[cfg(feature = "mutants")]
    if let Ok(name) = std::env::var("CONSORT_PLATO_MUTANT") {
        let mutant = crate::Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name);
        return PlatoConfig { mutant, ..config };
    }
    config
}

impl Cluster {
    /// Nodes 1 to n, one view.
    fn new(n: u16, adjust: impl Fn(&mut PlatoConfig)) -> Self {
        let node = |me| {
            let mut config = config(me, n);
            adjust(&mut config);
            let engine = Plato::new(config, Incarnation(10)).unwrap();
            Node { engine, up: true, told: Vec::new(), got: Vec::new() }
        };
        let nodes = (1..=n).map(node).collect();
        let fate = Box::new(|_, _, _: &PlatoPacket| Some(Duration::ZERO));
        let mut cluster = Self { now: Instant(1_000_000), nodes, wire: BTreeMap::new(), sent: 0, fate };
        for me in 1..=n {
            let now = cluster.now;
            cluster.at(me, |engine| engine.start(now, &[]));
        }
        cluster.pass(ms(2_000));
        let views = cluster.views();
        assert!(views.iter().all(|view| view.members.len() == usize::from(n)), "{views:?}");
        cluster.nodes.iter_mut().for_each(|node| node.told.clear());
        cluster
    }

    fn at<T>(&mut self, me: u16, input: impl FnOnce(&mut Plato) -> T) -> T {
        let answer = input(&mut self.nodes[usize::from(me) - 1].engine);
        self.drain(me);
        answer
    }

    fn drain(&mut self, me: u16) {
        while let Some(output) = self.nodes[usize::from(me) - 1].engine.poll_output() {
            self.output(me, output);
        }
    }

    fn output(&mut self, me: u16, output: Output<PlatoPacket>) {
        let text = |delivery: &Delivery| String::from_utf8_lossy(&delivery.payload.to_bytes()).into_owned();
        let told = match output {
            Output::Send { to, lane, packet } => return self.send(me, to, lane, &packet),
            Output::Persist { ticket, .. } => {
                let now = self.now;
                return self.at(me, |engine| engine.handle_persisted(now, ticket));
            }
            Output::Offer(offer) => Told::Offer(offer.id.0, text(&offer.delivery)),
            Output::Revoke { offer, .. } => Told::Revoke(offer.0),
            Output::Confirm { offer, delivery } => {
                let told = Told::Confirm(offer.0, text(&delivery));
                self.nodes[usize::from(me) - 1].got.push(delivery);
                told
            }
            Output::Deliver(delivery) => {
                let told = Told::Deliver(text(&delivery));
                self.nodes[usize::from(me) - 1].got.push(delivery);
                told
            }
            Output::Install(view) => {
                let (id, kind) = (view.id, view.kind);
                self.tell(me, Told::View(view));
                if kind == ViewKind::Regular {
                    let now = self.now;
                    self.nodes[usize::from(me) - 1].engine.resume(now, id);
                }
                return;
            }
            Output::Primary(_) => Told::Primary,
            Output::Left => {
                self.nodes[usize::from(me) - 1].up = false;
                return;
            }
            _ => return,
        };
        self.tell(me, told);
    }

    fn tell(&mut self, me: u16, told: Told) {
        let now = self.now;
        self.nodes[usize::from(me) - 1].told.push((now, told));
    }

    fn send(&mut self, me: u16, to: Destination, lane: Lane, packet: &PlatoPacket) {
        let room = self.nodes[usize::from(me) - 1].engine.config().datagram.packet_room();
        let len = written(packet).len();
        assert!(len <= room || matches!(packet, PlatoPacket::Membership(_)), "{len} bytes, {room} fit: {packet:?}");
        for other in (1..=self.nodes.len() as u16).filter(|other| *other != me) {
            if to != Destination::All && to != Destination::One(NodeId(other)) {
                continue;
            }
            if let Some(late) = (self.fate)(me, other, packet) {
                self.sent += 1;
                self.wire.insert((self.now + HOP + late, self.sent), (me, other, lane, packet.clone()));
            }
        }
    }

    /// Lets everything happen that happens within this time.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let packet = self.wire.first_key_value().map(|((at, _), _)| *at);
            let timer = |node: &Node| node.engine.poll_timeout().filter(|_| node.up);
            let timer = self.nodes.iter().zip(1..).filter_map(|(node, me)| Some((timer(node)?, me))).min();
            let next = packet.into_iter().chain(timer.map(|(at, _)| at)).min().filter(|at| *at <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            match timer {
                Some((at, me)) if packet.is_none_or(|packet| at < packet) => {
                    let now = self.now;
                    self.at(me, |engine| engine.handle_timeout(now));
                }
                _ => self.carry(),
            }
        }
        self.now = end;
    }

    fn carry(&mut self) {
        let Some(((at, _), (from, to, lane, packet))) = self.wire.pop_first() else { return };
        if self.nodes[usize::from(to) - 1].up {
            let packet = carried(&packet);
            let (now, from) = (self.now, MemberId::new(from, 10));
            self.at(to, |engine| engine.handle_packet(now, Arrival { at, from, lane }, packet));
        }
    }

    fn say(&mut self, me: u16, text: &str) {
        self.say_as(me, Service::Agreed, text);
    }

    fn say_as(&mut self, me: u16, service: Service, text: &str) {
        let payload = Bytes::copy_from_slice(text.as_bytes()).into();
        let submission = Submission { class: Class::Client, service, stream: OrderStream(0), payload };
        let now = self.now;
        self.at(me, |engine| engine.submit(now, submission)).unwrap();
    }

    /// What a node delivered, as texts.
    fn got(&self, me: u16) -> Vec<String> {
        let text = |delivery: &Delivery| String::from_utf8_lossy(&delivery.payload.to_bytes()).into_owned();
        self.nodes[usize::from(me) - 1].got.iter().map(text).collect()
    }

    /// What a node was told, in short: `+a` offered, `-a` revoked, `=a` confirmed, `a` delivered, `closes`, `view of 2`, `primary`.
    fn told(&self, me: u16) -> Vec<String> {
        let mut names = BTreeMap::new();
        let told = self.nodes[usize::from(me) - 1].told.iter().map(|(_, told)| match told {
            Told::Offer(id, text) => {
                names.insert(*id, text.clone());
                format!("+{text}")
            }
            Told::Revoke(id) => format!("-{}", names[id]),
            Told::Confirm(id, text) => {
                assert_eq!(&names[id], text);
                format!("={text}")
            }
            Told::Deliver(text) => text.clone(),
            Told::View(view) if view.kind == ViewKind::Transitional => "closes".into(),
            Told::View(view) => format!("view of {}", view.members.len()),
            Told::Primary => "primary".into(),
        });
        told.collect()
    }

    /// When a node was first told something.
    fn when(&self, me: u16, what: &str) -> Instant {
        let at = self
            .told(me)
            .iter()
            .position(|told| told == what)
            .unwrap_or_else(|| panic!("no {what}: {:?}", self.told(me)));
        self.nodes[usize::from(me) - 1].told[at].0
    }

    fn views(&self) -> Vec<View> {
        let last = |node: &Node| {
            let views = node.told.iter().rev().find_map(|(_, told)| match told {
                Told::View(view) if view.kind == ViewKind::Regular => Some(view.clone()),
                _ => None,
            });
            views.unwrap()
        };
        self.nodes.iter().filter(|node| node.up).map(last).collect()
    }

    fn counter(&self, me: u16, name: &str) -> u64 {
        let mut found = None;
        self.nodes[usize::from(me) - 1].engine.each_counter(&mut |seen, value| {
            if seen == name {
                found = Some(value);
            }
        });
        found.unwrap_or_else(|| panic!("nothing is called {name}"))
    }

    fn crash(&mut self, me: u16) {
        self.nodes[usize::from(me) - 1].up = false;
    }
}

/// A packet as it comes out of the network: written and read.
fn carried(packet: &PlatoPacket) -> PlatoPacket {
    PlatoPacket::decode(written(packet)).unwrap()
}

fn written(packet: &PlatoPacket) -> Bytes {
    let mut bytes = bytes::BytesMut::new();
    let body = packet.encode(&mut bytes);
    bytes.extend_from_slice(&body);
    bytes.freeze()
}

/// Receivers that believe that packets 100 us apart are in order, a sequencer that tells two places at a time.
fn usual(config: &mut PlatoConfig) {
    config.prediction = Prediction::Fixed(us(100));
    config.sequencing = Sequencing { every: 2, within: Some(ms(5)) };
}
