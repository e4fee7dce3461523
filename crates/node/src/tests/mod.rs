//! Nodes, clients and a network without loss, in one place and one thread.
mod batches;
mod budgets;
mod demoted;
mod engine;
mod exchange;
mod flow;
mod garbage;
mod heartbeats;
mod kept;
mod keys;
mod limits;
mod lists;
mod offers;
mod order;
mod producers;
mod readiness;
mod reading;
mod rights;
mod scenarios;
mod slow;
mod spread;
#[path = "../../../spread/src/tests/client.rs"]
mod spread_client;
mod streams;
mod topics;
mod views;
mod wait_causes;

use crate::{Effect, Identity, Limits, Node, Reading};
use bytes::{Bytes, BytesMut};
use consort_order::Destination;
use consort_session::{ClientEnd, ClientName, DaemonEvent, Hello, ReadingStatus};
use consort_types::{ClientId, ClusterId, ConfigHash, GroupName, Instant, MemberId, NodeId, Service};
use engine::{Sequencer, TICK};
use std::collections::{BTreeMap, VecDeque};

fn group(name: &str) -> GroupName {
    GroupName::new(name.as_bytes()).unwrap()
}

fn member(node: u16) -> MemberId {
    MemberId::new(node, 100 + u64::from(node))
}

fn identity(node: u16) -> Identity {
    Identity { cluster: ClusterId(1), config: ConfigHash(2), me: member(node) }
}

/// A client, its connection, and all it was told.
struct Program {
    node: usize,
    id: ClientId,
    client: ClientEnd,
    events: Vec<DaemonEvent>,
    paused: bool,
    /// Whether it reads what it is told.
    reads: bool,
    closed: bool,
}

/// Breaks the rule that the environment names.
#[cfg(feature = "mutants")]
fn mutate(node: &mut Node<Sequencer>) {
    if let Ok(name) = std::env::var("CONSORT_NODE_MUTANT") {
        node.mutate(*crate::Mutant::ALL.iter().find(|mutant| mutant.name() == name).unwrap());
    }
}

#[cfg(not(feature = "mutants"))]
const fn mutate(_: &mut Node<Sequencer>) {}

struct World {
    now: Instant,
    nodes: Vec<Node<Sequencer>>,
    network: VecDeque<(usize, Bytes)>,
    programs: Vec<Program>,
    /// How many bytes go over a client's connection at once.
    read_size: usize,
    services: [Service; 2],
    /// What clients have on disk; `None`, and it is full.
    disk: Option<BTreeMap<ClientId, VecDeque<Bytes>>>,
    /// What drivers were told to do about keys.
    key_effects: Vec<(usize, Effect)>,
}

impl World {
    fn new(nodes: u16, limits: Limits) -> Self {
        Self::over(nodes, limits, true)
    }

    /// The same over an engine that shows again what it was given, or not.
    fn over(nodes: u16, limits: Limits, replays: bool) -> Self {
        let members: Vec<_> = (0..nodes).map(member).collect();
        let engine = |me| {
            let mut engine = Sequencer::new(member(me), members.clone());
            engine.replays = replays;
            engine
        };
        let node = |me: u16| Node::new(identity(me), engine(me), limits);
        let mut nodes: Vec<_> = (0..nodes).map(node).collect();
        nodes.iter_mut().for_each(mutate);
        let (network, programs, services) = (VecDeque::new(), Vec::new(), [Service::Fifo, Service::Agreed]);
        let disk = Some(BTreeMap::new());
        let (read_size, key_effects) = (usize::MAX, Vec::new());
        let mut world = Self { now: Instant::ZERO, nodes, network, programs, read_size, services, disk, key_effects };
        for node in 0..world.nodes.len() {
            world.nodes[node].start(world.now, &[]);
            world.drain(node);
        }
        world.settle();
        world
    }

    /// Connects a client and returns its index.
    fn connect(&mut self, node: usize, name: &str) -> usize {
        let hello = Hello { name: ClientName::new(name.as_bytes()), wants_views: true, ..Hello::default() };
        self.connect_with(node, ClientEnd::new(&hello))
    }

    fn connect_with(&mut self, node: usize, client: ClientEnd) -> usize {
        let id = ClientId(self.programs.len() as u32 + 1);
        self.nodes[node].open_client(self.now, id);
        self.drain(node);
        let (paused, reads, closed) = (false, true, false);
        self.programs.push(Program { node, id, client, events: Vec::new(), paused, reads, closed });
        self.settle();
        self.programs.len() - 1
    }

    fn client(&mut self, at: usize) -> &mut ClientEnd {
        &mut self.programs[at].client
    }

    /// Sends a message that is not like the one before: no batch comes of them.
    fn multicast(&mut self, at: usize, names: &[&str], payload: &str) {
        self.services.rotate_left(1);
        self.send_as(at, self.services[0], names, payload);
    }

    fn send_as(&mut self, at: usize, service: Service, names: &[&str], payload: &str) {
        let groups: Vec<_> = names.iter().map(|name| group(name)).collect();
        self.client(at).multicast(service, &groups, payload.as_bytes()).unwrap();
    }

    fn join(&mut self, at: usize, name: &str) {
        self.client(at).join(&group(name)).unwrap();
        self.settle();
    }

    /// Ends a connection without a word.
    fn vanish(&mut self, at: usize) {
        let (node, id) = (self.programs[at].node, self.programs[at].id);
        self.nodes[node].close_client(self.now, id);
        self.programs[at].closed = true;
        self.drain(node);
    }

    /// Lets time pass and everything happen until nothing is under way; ten ticks are enough for everything.
    fn settle(&mut self) {
        for _ in 0..10 {
            self.carry();
            self.now += TICK;
            for node in 0..self.nodes.len() {
                self.wake(node);
            }
        }
        self.carry();
    }

    /// Carries bytes and datagrams until there are none, without letting time pass.
    fn carry(&mut self) {
        loop {
            let sent = (0..self.programs.len()).filter(|at| self.write(*at)).count();
            let Some((node, datagram)) = self.network.pop_front() else {
                if sent == 0 {
                    return;
                }
                continue;
            };
            self.nodes[node].handle_datagram(self.now, self.now, datagram);
            self.drain(node);
        }
    }

    /// Hands the next bytes of a client to its node.
    fn write(&mut self, at: usize) -> bool {
        let Program { node, id, client, paused, closed, .. } = &mut self.programs[at];
        if *paused || *closed || client.output().is_empty() {
            return false;
        }
        let n = client.output().len().min(self.read_size);
        let bytes = Bytes::copy_from_slice(&client.output()[..n]);
        client.written(n);
        let node = *node;
        *paused = self.nodes[node].handle_client(self.now, *id, bytes) == Reading::Pause;
        self.drain(node);
        true
    }

    fn wake(&mut self, node: usize) {
        while self.nodes[node].poll_timeout().is_some_and(|at| at <= self.now) {
            self.nodes[node].handle_timeout(self.now);
            self.drain(node);
        }
    }

    fn drain(&mut self, node: usize) {
        while let Some(effect) = self.nodes[node].poll_effect() {
            match effect {
                Effect::Send { to, datagram, .. } => {
                    self.send(node, to, &[&datagram.head[..], &datagram.body].concat())
                }
                // Those tests look after their clients themselves.
                Effect::ReadAgain { client } | Effect::Close { client } if !self.is_program(client) => {}
                Effect::ReadAgain { client } => self.program(client).paused = false,
                Effect::Close { client } => {
                    self.read(client);
                    self.program(client).closed = true;
                }
                Effect::PromiseKey { .. } | Effect::SealWith { .. } => self.key_effects.push((node, effect)),
                Effect::Spool { .. } | Effect::Unspool { .. } | Effect::DropSpool { .. } => self.spool(node, effect),
                other => panic!("{other:?}"),
            }
        }
        while let Some(client) = self.nodes[node].poll_writable() {
            if self.is_program(client) && self.program(client).reads {
                self.read(client);
            }
        }
    }

    /// Multicast comes back to its sender, as it does on a real network.
    fn send(&mut self, _from: usize, to: Destination, bytes: &[u8]) {
        for node in 0..self.nodes.len() {
            if to == Destination::All || to == Destination::One(NodeId(node as u16)) {
                self.network.push_back((node, Bytes::copy_from_slice(bytes)));
            }
        }
    }

    /// Lets a client read all that waits for it.
    fn read(&mut self, client: ClientId) {
        let node = self.program(client).node;
        while self.nodes[node].has_output(client) {
            let bytes = Bytes::copy_from_slice(self.nodes[node].client_output(client));
            let now = self.now;
            self.nodes[node].client_written(now, client, bytes.len());
            self.program(client).client.feed(bytes);
        }
        let program = self.program(client);
        while let Some(event) = program.client.next_event().unwrap() {
            program.events.push(event);
        }
    }

    fn is_program(&self, id: ClientId) -> bool {
        id.0 as usize <= self.programs.len()
    }

    fn program(&mut self, id: ClientId) -> &mut Program {
        &mut self.programs[id.0 as usize - 1]
    }

    /// Messages and group views of one client as short texts, in their order.
    fn story(&self, at: usize) -> Vec<String> {
        self.programs[at].events.iter().filter_map(line).collect()
    }

    fn counter(&self, node: usize, name: &str) -> u64 {
        let mut found = None;
        self.nodes[node].observe(&mut |seen, value| {
            if seen == name {
                assert_eq!(found.replace(value), None, "{name} is counted twice");
            }
        });
        found.unwrap_or(0)
    }
}

fn line(event: &DaemonEvent) -> Option<String> {
    match event {
        DaemonEvent::Message(message) => {
            let groups: Vec<_> = message.groups().collect();
            let (node, client) = message.sender();
            Some(format!("{node}/{client} {}: {}", groups.join("+"), String::from_utf8_lossy(message.payload())))
        }
        DaemonEvent::Read(message) => {
            let place = message.placement()?.place;
            Some(format!("{place} {}", String::from_utf8_lossy(message.payload())))
        }
        DaemonEvent::Reading(ReadingStatus::Began { order, oldest, newest, .. }) => {
            Some(format!("reads {order}: {oldest} to {newest}"))
        }
        DaemonEvent::Reading(ReadingStatus::CaughtUp { position }) => Some(format!("caught up at {position}")),
        DaemonEvent::Reading(ReadingStatus::Lost { from, to }) => Some(format!("lost {from} to {to}")),
        DaemonEvent::Reading(ReadingStatus::InView { view, line, closing }) => {
            let closing = closing.map_or(String::new(), |closing| format!(" closing at {}", closing.line.0));
            Some(format!("in view {} behind {}{closing}", view.number, line.0))
        }
        DaemonEvent::Reading(ReadingStatus::Gap { from, to, .. }) => {
            let [from, to] = [from, to].map(|place| format!("{}:{}", place.view.number, place.at.0));
            Some(format!("gap {from} to {to}"))
        }
        DaemonEvent::Reading(ReadingStatus::Ended(end)) => {
            Some(format!("{} ({} to {}): {end}", end.cause, end.oldest, end.newest))
        }
        DaemonEvent::Declared(status) => {
            let refused =
                status.refused.as_ref().map_or(String::new(), |refusal| format!(": {}, {refusal}", refusal.cause));
            Some(format!("declared {}{refused}", status.holder))
        }
        DaemonEvent::Copies(copies) => Some(format!("copies of {}: order {}", copies.holder, copies.order)),
        DaemonEvent::Bound(bound) => Some(match &bound.outcome {
            Ok(epoch) => format!("bound {} as {epoch}", bound.holder),
            Err(refusal) => format!("not bound {}: {}, {refusal}", bound.holder, refusal.cause),
        }),
        DaemonEvent::Offer(offer) => {
            let message = line(&DaemonEvent::Message(offer.message.clone()))?;
            Some(format!("+{} in {} us {message}", offer.number, offer.free.as_micros()))
        }
        DaemonEvent::Revoke(offer) => Some(format!("-{offer}")),
        DaemonEvent::Confirm(offer) => Some(format!("={offer}")),
        DaemonEvent::GroupView(view) => {
            let names: Vec<_> = view.members.iter().map(|member| member.name.as_str()).collect();
            let who: Vec<_> = view.who.iter().map(|member| member.name.as_str()).collect();
            Some(format!("{} {} {} -> {}", view.group, view.cause, who.join(" "), names.join(" ")))
        }
        DaemonEvent::Refused { request, refusal } => Some(format!("refused {request}: {}", refusal.cause)),
        DaemonEvent::Disconnect(farewell) => Some(format!("disconnect {}", farewell.reason)),
        _ => None,
    }
}

/// Raw bytes as a client that need not keep to the rules writes them.
fn raw(fill: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut out = BytesMut::new();
    fill(&mut out);
    out.freeze()
}
