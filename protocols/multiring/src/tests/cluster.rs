//! Whole engines on rings that are networks of their own: packets get lost, hosts crash and come back, and any set of nodes is cut
//! off on any one ring.
use super::offers::Offers;
use crate::config::Config;
use crate::engine::MultiRing;
use crate::key::RingNumber;
use crate::layout::RingNodes;
use crate::packet::{Content, Packet, Piece, Relayed, RelayedContent};
use bytes::Bytes;
use consort_order::{
    Arrival, Delivery, Destination, Engine, Fact, Lane, Output, Submission, Topic, each_counter, state_of,
};
use consort_ring::evs::{EvsEvent, EvsMessage, EvsTrace, check, check_end};
use consort_types::{
    Class, Duration, Incarnation, Instant, MemberId, NodeId, OfferId, OrderStream, Rng, Service, Ticket, View, ViewId,
    ViewKind,
};
use std::collections::{BTreeMap, BTreeSet};

pub const MS: u64 = 1_000_000;

enum Event {
    Arrive { from: MemberId, to: u16, lane: Lane, packet: Box<Packet> },
    Timer { node: u16, incarnation: u64 },
    Persisted { node: u16, incarnation: u64, ticket: Ticket },
    Start { node: u16 },
}

pub struct Host {
    pub engine: MultiRing,
    pub incarnation: u64,
    pub up: bool,
    pub view: Option<View>,
    /// The members of every view that it was in.
    pub views: Vec<Vec<u16>>,
    /// What each ticket wrote, in all incarnations.
    disk: BTreeMap<u64, Bytes>,
    woken: Option<Instant>,
    sent: u64,
    pub left: bool,
    pub offers: Offers,
    /// When it has done all that it has begun.
    free: u64,
}

/// How far a node is with a topic that it wants to read: it joins once all of it comes here, as an ordered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Asked,
    Joining,
    In,
    Leaving,
}

pub struct Cluster {
    pub now: u64,
    pub rng: Rng,
    pub config: Config,
    pub hosts: BTreeMap<u16, Host>,
    heap: BTreeMap<(u64, u64), Event>,
    tie: u64,
    /// On which side of a cut a node is on a ring; 0 where nothing is said.
    pub sides: BTreeMap<(RingNumber, u16), u8>,
    pub loss: f64,
    /// What one node sends does not reach another on a ring.
    pub blocked: BTreeSet<(RingNumber, u16, u16)>,
    /// How much longer packets take on a ring, in nanoseconds.
    pub slow: BTreeMap<RingNumber, u64>,
    /// Nodes to which a ring brings tokens, and no data.
    pub deaf: BTreeSet<(RingNumber, u16)>,
    /// How long a host has to do with each packet that it sends or takes, in nanoseconds.
    pub toll: u64,
    traces: Vec<EvsTrace>,
    current: BTreeMap<u16, usize>,
    /// Safe messages, and how many views each node had been in when it was given them.
    pub deliveries: u64,
    pub safe: u64,
    pub took: BTreeMap<String, (u64, u64)>,
    /// Nodes that say what they read; the others read everything.
    pub choosy: BTreeSet<u16>,
    pub wishes: BTreeMap<(u16, u16), Wish>,
    /// What was sent and should not have been.
    unfit: Option<String>,
}

pub fn rings(rings: &[&[u16]]) -> Vec<RingNodes> {
    let ring = |(number, nodes): (u8, &&[u16])| RingNodes {
        id: RingNumber(number),
        nodes: nodes.iter().copied().map(NodeId).collect(),
        delay: Duration::ZERO,
    };
    (1..).zip(rings).map(ring).collect()
}

pub fn config(layout: &[&[u16]]) -> Config {
    let config = Config::new(NodeId(layout[0][0]), rings(layout));
    #[cfg(feature = "mutants")]
    let config = Config { mutant: super::mutants::broken(), ..config };
    config
}

fn engine(config: &Config, node: u16, incarnation: u64) -> MultiRing {
    let mut config = config.clone();
    config.ring.me = NodeId(node);
    MultiRing::new(config, Incarnation(incarnation)).unwrap()
}

impl Cluster {
    pub fn new(seed: u64, config: Config) -> Self {
        let host = |node: &NodeId| {
            let engine = engine(&config, node.0, 1);
            let (disk, view) = (BTreeMap::new(), None);
            let views = Vec::new();
            (
                node.0,
                Host {
                    engine,
                    incarnation: 1,
                    up: false,
                    view,
                    views,
                    disk,
                    woken: None,
                    sent: 0,
                    left: false,
                    offers: Offers::default(),
                    free: 0,
                },
            )
        };
        let mut cluster = Self {
            now: 0,
            rng: Rng::new(seed),
            hosts: config.ring.members.iter().map(host).collect(),
            heap: BTreeMap::new(),
            tie: 0,
            sides: BTreeMap::new(),
            loss: 0.0,
            blocked: BTreeSet::new(),
            slow: BTreeMap::new(),
            deaf: BTreeSet::new(),
            toll: 0,
            traces: Vec::new(),
            current: BTreeMap::new(),
            deliveries: 0,
            safe: 0,
            took: BTreeMap::new(),
            choosy: BTreeSet::new(),
            wishes: BTreeMap::new(),
            unfit: None,
            config,
        };
        for node in cluster.nodes() {
            let at = cluster.rng.below(20 * MS);
            cluster.schedule(at, Event::Start { node });
        }
        cluster
    }

    pub fn nodes(&self) -> Vec<u16> {
        self.hosts.keys().copied().collect()
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.tie += 1;
        self.heap.insert((at.max(self.now), self.tie), event);
    }

    pub fn run(&mut self, ms: u64) {
        let end = self.now + ms * MS;
        while let Some(entry) = self.heap.first_entry() {
            let (at, _) = *entry.key();
            if at > end {
                break;
            }
            self.now = at;
            let event = entry.remove();
            self.on_event(event);
        }
        self.now = end;
    }

    fn instant(&self) -> Instant {
        Instant(self.now)
    }

    fn on_event(&mut self, event: Event) {
        let now = self.instant();
        match event {
            Event::Arrive { from, to, lane, packet } if self.hosts[&to].free > self.now => {
                let at = self.hosts[&to].free;
                self.schedule(at, Event::Arrive { from, to, lane, packet });
            }
            Event::Arrive { from, to, lane, packet } => {
                self.is_busy(to);
                self.with(to, |engine| engine.handle_packet(now, Arrival { at: now, from, lane }, *packet));
            }
            Event::Timer { node, incarnation } => {
                let host = self.hosts.get_mut(&node).unwrap();
                if host.incarnation == incarnation && host.woken.is_some_and(|at| at <= now) {
                    host.woken = None;
                    self.with(node, |engine| engine.handle_timeout(now));
                }
            }
            Event::Persisted { node, incarnation, ticket } => {
                if self.hosts[&node].incarnation == incarnation {
                    self.with(node, |engine| engine.handle_persisted(now, ticket));
                }
            }
            Event::Start { node } => self.start(node),
        }
    }

    fn start(&mut self, node: u16) {
        let host = self.hosts.get_mut(&node).unwrap();
        if host.up || host.left {
            return;
        }
        host.up = true;
        let me = MemberId::new(node, host.incarnation);
        self.current.insert(node, self.traces.len());
        self.traces.push(EvsTrace { me, over: false, events: Vec::new() });
        let records: Vec<_> = host.disk.values().cloned().collect();
        host.disk = (1..).zip(records.iter().cloned()).collect();
        let now = Instant(self.now);
        self.with(node, |engine| engine.start(now, &records));
        if self.choosy.contains(&node) {
            self.with(node, |engine| engine.read(now, &[]));
        }
    }

    fn say_what_is_read(&mut self, node: u16) {
        let now = self.instant();
        let topics: Vec<_> = self.wishes.keys().filter(|(of, _)| *of == node).map(|(_, topic)| Topic(*topic)).collect();
        self.with(node, |engine| engine.read(now, &topics));
    }

    /// A node is to read a topic, or no longer.
    pub fn wish(&mut self, node: u16, topic: u16, reads: bool) {
        if !self.hosts[&node].up || !self.choosy.contains(&node) {
            return;
        }
        match (self.wishes.get(&(node, topic)), reads) {
            (None, true) => {
                self.wishes.insert((node, topic), Wish::Asked);
                self.say_what_is_read(node);
            }
            (Some(Wish::In), false) => {
                self.wishes.insert((node, topic), Wish::Leaving);
                if !self.say(node, &format!("-{topic}"), &[], Service::Agreed, 0) {
                    self.wishes.insert((node, topic), Wish::In);
                }
            }
            _ => {}
        }
    }

    /// Joins what is read by now.
    fn join(&mut self, node: u16) {
        let asked = self.wishes.iter().filter(|((of, _), wish)| *of == node && **wish == Wish::Asked);
        let reads = |topic: &u16| self.hosts[&node].engine.reads(Topic(*topic));
        let asked: Vec<_> = asked.map(|((_, topic), _)| *topic).filter(reads).collect();
        for topic in asked {
            self.wishes.insert((node, topic), Wish::Joining);
            if !self.say(node, &format!("+{topic}"), &[], Service::Agreed, 0) {
                self.wishes.insert((node, topic), Wish::Asked);
            }
        }
    }

    /// What a node's own message does to what it reads. Whether that changed what it is to be given.
    fn step(&mut self, node: u16, text: &str) -> bool {
        if let Some((_, topic)) = text.split_once('+') {
            self.wishes.insert((node, topic.parse().unwrap()), Wish::In);
        }
        let left = text.split_once('-').map(|(_, topic)| topic.parse().unwrap());
        left.is_some_and(|topic| self.wishes.remove(&(node, topic)).is_some())
    }

    /// Gives a node an input, and does what it asks for.
    pub fn with(&mut self, node: u16, act: impl FnOnce(&mut MultiRing)) {
        let host = self.hosts.get_mut(&node).unwrap();
        if !host.up {
            return;
        }
        act(&mut host.engine);
        let mut reads_less = false;
        while let Some(output) = self.hosts.get_mut(&node).unwrap().engine.poll_output() {
            reads_less |= self.on_output(node, output);
        }
        if reads_less {
            self.say_what_is_read(node);
        }
        self.join(node);
        let host = self.hosts.get_mut(&node).unwrap();
        let next = host.engine.poll_timeout().filter(|_| host.up);
        if next != host.woken {
            host.woken = next;
            let incarnation = host.incarnation;
            if let Some(at) = next {
                self.schedule(at.0, Event::Timer { node, incarnation });
            }
        }
    }

    /// Whether the node is to read less from here on.
    fn on_output(&mut self, node: u16, output: Output<Packet>) -> bool {
        let mut reads_less = false;
        match output {
            Output::Send { to, lane, packet } => self.send(node, to, lane, &packet),
            Output::Deliver(delivery) => reads_less = self.on_place(node, &delivery, None),
            Output::Confirm { offer, delivery } => reads_less = self.on_place(node, &delivery, Some(offer)),
            Output::Offer(offer) => {
                let (now, text) = (self.now, text_of(&offer.delivery));
                let judged = self.hosts.get_mut(&node).unwrap().offers.offer(now, &offer, text);
                self.judge(node, judged);
            }
            Output::Revoke { offer, .. } => {
                let judged = self.hosts.get_mut(&node).unwrap().offers.revoke(offer);
                self.judge(node, judged);
            }
            Output::Passed { position, sender, .. } => {
                let (safe, text) = (false, PASSED.into());
                self.event(node, EvsEvent::Delivered(EvsMessage { position, sender, safe, text }));
            }
            Output::Install(view) => {
                let host = self.hosts.get_mut(&node).unwrap();
                host.view = Some(view.clone());
                let (regular, id) = (view.kind == ViewKind::Regular, view.id);
                let judged = host.offers.end().filter(|_| regular);
                if regular {
                    host.views.push(view.members.iter().map(|member| member.node.0).collect());
                }
                self.judge(node, judged);
                self.event(node, EvsEvent::Installed(view));
                if regular {
                    let now = self.instant();
                    self.hosts.get_mut(&node).unwrap().engine.resume(now, id);
                }
            }
            Output::Primary(view) => self.event(node, EvsEvent::Primary(view)),
            Output::Persist { ticket, record, .. } => {
                let host = self.hosts.get_mut(&node).unwrap();
                host.disk.insert(ticket.0, record);
                let (incarnation, at) = (host.incarnation, self.now + MS);
                self.schedule(at, Event::Persisted { node, incarnation, ticket });
            }
            Output::Trim { up_to } => {
                self.hosts.get_mut(&node).unwrap().disk.retain(|ticket, _| *ticket > up_to.0);
            }
            Output::Left => {
                self.hosts.get_mut(&node).unwrap().left = true;
                self.crash(node);
            }
            _ => {}
        }
        reads_less
    }

    /// A message has its place. Whether the node is to read less from here on.
    fn on_place(&mut self, node: u16, delivery: &Delivery, offer: Option<OfferId>) -> bool {
        self.deliveries += 1;
        let safe = delivery.service == Service::Safe;
        self.safe += u64::from(safe);
        let (text, own) = (text_of(delivery), delivery.id.is_some());
        let judged = self.hosts.get_mut(&node).unwrap().offers.place(offer, &text);
        self.judge(node, judged);
        if let Some((_, took)) = self.took.get_mut(&text).filter(|_| own) {
            *took = self.now;
        }
        let (position, sender) = (delivery.position, delivery.sender);
        let reads_less = own && self.step(node, &text);
        self.event(node, EvsEvent::Delivered(EvsMessage { position, sender, safe, text }));
        reads_less
    }

    fn judge(&mut self, node: u16, judged: Option<String>) {
        if let Some(said) = judged {
            self.unfit.get_or_insert(format!("{said}, at n{node}"));
        }
    }

    fn event(&mut self, node: u16, event: EvsEvent) {
        let at = self.current[&node];
        self.traces[at].events.push(event);
    }

    /// A host has to do with a packet. When it has done that.
    fn is_busy(&mut self, node: u16) -> u64 {
        let (now, toll) = (self.now, self.toll);
        let free = &mut self.hosts.get_mut(&node).unwrap().free;
        *free = now.max(*free) + toll;
        *free
    }

    /// Only nodes of the ring get it, of those that are on the same side there.
    fn send(&mut self, node: u16, to: Destination, lane: Lane, packet: &Packet) {
        let mut head = bytes::BytesMut::new();
        let body = consort_wire::Packet::encode(packet, &mut head);
        head.extend_from_slice(&body);
        let packet = <Packet as consort_wire::Packet>::decode(head.freeze()).unwrap();
        self.watch(node, &packet);
        let ring = self.config.rings.iter().find(|ring| ring.id == packet.ring).unwrap().clone();
        let from = MemberId::new(node, self.hosts[&node].incarnation);
        let side = |node: u16| self.sides.get(&(ring.id, node)).copied().unwrap_or_default();
        let heard = ring.nodes.iter().filter(|other| other.0 != node && side(other.0) == side(node));
        let heard: Vec<_> =
            heard.filter(|other| matches!(to, Destination::All) || to == Destination::One(**other)).collect();
        for other in heard {
            let unheard = lane == Lane::Data && self.deaf.contains(&(ring.id, other.0));
            let unheard = unheard || self.blocked.contains(&(ring.id, node, other.0));
            if unheard || self.rng.chance(self.loss) {
                continue;
            }
            let slow = self.slow.get(&ring.id).copied().unwrap_or_default();
            let at = self.is_busy(node) + slow + 20_000 + self.rng.below(60_000);
            self.schedule(at, Event::Arrive { from, to: other.0, lane, packet: Box::new(packet.clone()) });
        }
    }

    /// Looks who is asked for messages of a view that ends, and who is given places alone.
    fn watch(&mut self, node: u16, packet: &Packet) {
        //= TM55 test
        let Content::Relayed(Relayed { from, to, content, .. }) = &packet.content else { return };
        let said = match content {
            RelayedContent::Pieces { pieces, .. } if to.is_none() && pieces.iter().any(Piece::is_passed) => {
                format!("filtering: n{node} gives places alone to all")
            }
            RelayedContent::Wants { view, strict: true, .. }
                if from.node.0 != node && self.installed(node) != Some(*view) =>
            {
                format!("filtering: n{node} sends on what {from} asks for of another view")
            }
            _ => return,
        };
        self.unfit.get_or_insert(said);
    }

    /// The view that a node has installed.
    fn installed(&self, node: u16) -> Option<ViewId> {
        let mut events = self.traces[self.current[&node]].events.iter().rev();
        let installed = |event: &EvsEvent| match event {
            EvsEvent::Installed(view) => Some(view.id),
            _ => None,
        };
        events.find_map(installed)
    }

    pub fn submit(&mut self, node: u16, service: Service, len: usize) {
        self.say(node, "", &[], service, len);
    }

    pub fn submit_to(&mut self, node: u16, topics: &[u16], service: Service, len: usize) {
        let told = topics.iter().fold(String::new(), |told, topic| format!("{told}/{topic}"));
        self.say(node, &told, topics, service, len);
    }

    fn say(&mut self, node: u16, told: &str, topics: &[u16], service: Service, len: usize) -> bool {
        let now = self.instant();
        let host = self.hosts.get_mut(&node).unwrap();
        if !host.up {
            return false;
        }
        host.sent += 1;
        let text = format!("{node}.{}:{}{told}", host.incarnation, host.sent);
        let mut bytes = text.clone().into_bytes();
        bytes.resize(bytes.len().max(len), b'.');
        let submission =
            Submission { class: Class::Client, service, stream: OrderStream(0), payload: Bytes::from(bytes).into() };
        let topics: Vec<_> = topics.iter().copied().map(Topic).collect();
        let mut taken = false;
        self.with(node, |engine| taken = engine.submit_to(now, submission, &topics).is_ok());
        if taken {
            self.took.insert(text.clone(), (now.0, 0));
            // What is delivered at once stands before it was accepted: that is put right here.
            let at = self.current[&node];
            self.traces[at].events.push(EvsEvent::Accepted(text));
        }
        taken
    }

    pub fn crash(&mut self, node: u16) {
        let host = self.hosts.get_mut(&node).unwrap();
        if !host.up {
            return;
        }
        (host.up, host.woken, host.view) = (false, None, None);
        host.offers = Offers::default();
        host.incarnation += 1;
        let incarnation = host.incarnation;
        host.engine = engine(&self.config, node, incarnation);
        let at = self.current[&node];
        self.traces[at].over = true;
        self.wishes.retain(|(of, _), _| *of != node);
    }

    pub fn restart(&mut self, node: u16) {
        self.start(node);
    }

    /// Parts the nodes of a ring in two.
    pub fn cut(&mut self, ring: u8, apart: &[u16]) {
        self.sides.retain(|(other, _), _| *other != RingNumber(ring));
        self.sides.extend(apart.iter().map(|node| ((RingNumber(ring), *node), 1)));
    }

    pub fn heal(&mut self) {
        self.sides.clear();
        self.blocked.clear();
        self.loss = 0.0;
        for node in self.nodes() {
            self.restart(node);
        }
    }

    pub fn check(&self) -> Result<(), String> {
        self.unfit.clone().map_or(Ok(()), Err)?;
        check(&completed(&self.traces, &self.choosy)?)
    }

    pub fn check_end(&self) -> Result<(), String> {
        self.unfit.clone().map_or(Ok(()), Err)?;
        check_end(&completed(&self.traces, &self.choosy)?).map_err(|said| format!("{said}\n{}", self.states()))
    }

    /// Who has wished to read a topic and is not in it yet.
    pub fn waiting_wishes(&self) -> Vec<(u16, u16)> {
        let waits = |wish: &Wish| matches!(wish, Wish::Asked | Wish::Joining);
        self.wishes.iter().filter(|(_, wish)| waits(wish)).map(|(of, _)| *of).collect()
    }

    pub fn states(&self) -> String {
        let state = |(node, host): (&u16, &Host)| {
            let mut lines = format!("n{node} {} {}", host.up, state_of(&host.engine, self.instant()));
            host.engine.observe(self.instant(), &mut |fact| {
                if let Fact::Part { what: "ring", part, value } = fact {
                    lines += &format!("\n  ring {part}: {value}");
                }
            });
            lines
        };
        self.hosts.iter().map(state).collect::<Vec<_>>().join("\n")
    }

    pub fn counter(&self, node: u16, name: &str) -> u64 {
        let mut found = 0;
        each_counter(&self.hosts[&node].engine, self.instant(), &mut |other, value| {
            found = if other == name { value } else { found };
        });
        found
    }

    pub fn total(&self, name: &str) -> u64 {
        self.nodes().into_iter().map(|node| self.counter(node, name)).sum()
    }

    /// The members of each node's view.
    pub fn together(&self) -> BTreeSet<Vec<u16>> {
        let up = self.hosts.values().filter(|host| host.up);
        up.map(|host| host.view.iter().flat_map(|view| &view.members).map(|member| member.node.0).collect()).collect()
    }

    /// What each node was given in its last incarnation, in order.
    pub fn texts(&self, node: u16) -> Vec<String> {
        let events = self.traces[self.current[&node]].events.iter();
        let texts = events.filter_map(|event| match event {
            EvsEvent::Delivered(message) if message.text != PASSED => Some(message.text.clone()),
            _ => None,
        });
        texts.collect()
    }
}

/// Nodes that are in one view.
pub fn formed(layout: &[&[u16]]) -> Cluster {
    let mut cluster = Cluster::new(1, config(layout));
    cluster.run(4_000);
    assert_eq!(cluster.together().len(), 1, "{}", cluster.states());
    cluster
}

/// Says which promise is broken, if one is.
pub fn sound(judged: Result<(), String>) {
    if let Err(said) = judged {
        panic!("{said}");
    }
}

/// Lets all that is under way arrive, and looks whether nothing is left.
pub fn at_rest(cluster: &mut Cluster) {
    cluster.run(2_000);
    sound(cluster.check_end());
    assert!(cluster.waiting_wishes().is_empty(), "joins: {:?} wait", cluster.waiting_wishes());
    for gauge in ["held_bytes", "queued_bytes", "waiting_messages", "store_packets", "assertion_failures"] {
        assert_eq!(cluster.total(gauge), 0, "{gauge}\n{}", cluster.states());
    }
}

/// Stands for what a node was not given.
const PASSED: &str = "passed";

/// What each was told, with what it was not given in its place: nothing that it reads. So whatever is judged of deliveries
/// is judged of places.
fn completed(traces: &[EvsTrace], choosy: &BTreeSet<u16>) -> Result<Vec<EvsTrace>, String> {
    let mut places = BTreeMap::new();
    for trace in traces {
        for (view, message) in placed(trace).filter(|(_, message)| message.text != PASSED) {
            places.insert((view, message.position), message.clone());
        }
    }
    let complete = |trace: &EvsTrace| {
        let mut reads = BTreeSet::new();
        let mut view = None;
        let mut events = Vec::new();
        for event in &trace.events {
            let event = match event {
                EvsEvent::Installed(installed) => {
                    view = if installed.kind == ViewKind::Regular { Some(installed.id) } else { view };
                    event.clone()
                }
                EvsEvent::Delivered(message) if message.text == PASSED => {
                    //= TM50 test
                    let Some(place) = places.get(&(view, message.position)) else { continue };
                    let all = !choosy.contains(&trace.me.node.0);
                    if let Some(topic) = place.text.split('/').skip(1).find(|topic| all || reads.contains(*topic)) {
                        return Err(format!("filtering: {} reads {topic} and was not given {}", trace.me, place.text));
                    }
                    EvsEvent::Delivered(place.clone())
                }
                EvsEvent::Delivered(message) if message.sender == trace.me => {
                    if let Some((_, topic)) = message.text.split_once('+') {
                        reads.insert(topic);
                    }
                    if let Some((_, topic)) = message.text.split_once('-') {
                        reads.remove(topic);
                    }
                    event.clone()
                }
                _ => event.clone(),
            };
            events.push(event);
        }
        Ok(EvsTrace { events, ..trace.clone() })
    };
    traces.iter().map(complete).collect()
}

/// What was delivered, and in which regular view.
fn placed(trace: &EvsTrace) -> impl Iterator<Item = (Option<ViewId>, &EvsMessage)> {
    let mut view = None;
    trace.events.iter().filter_map(move |event| match event {
        EvsEvent::Installed(installed) if installed.kind == ViewKind::Regular => {
            view = Some(installed.id);
            None
        }
        EvsEvent::Delivered(message) => Some((view, message)),
        _ => None,
    })
}

/// What a message says.
fn text_of(delivery: &Delivery) -> String {
    let bytes = delivery.payload.to_bytes();
    String::from_utf8_lossy(&bytes).trim_end_matches('.').to_owned()
}
