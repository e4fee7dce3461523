//! A whole node and the clients that are connected to it.
mod candidate;
mod election;
mod reader;
mod resumer;
mod resuming_readers;
mod roamer;
mod roaming_sessions;
mod servers;
mod side;

pub use candidate::ElectionTouch;
pub use reader::Bookmarks;
pub use resuming_readers::ResumingReaders;
pub use roaming_sessions::RoamingSessions;
pub use servers::{OrderBelow, ServerFlaw, ServerTouch, Servers};
pub(crate) use side::private;

use super::{GroupSeen, Holds, Machine, MachineOutput, SubmitAnswer, observe_kept_out, sum};
use crate::message::index_of;
use crate::plan::RunPlan;
use crate::trace::witness::{ListenerEvent, SessionListener};
use crate::trace::{NumberedStep, OfferRecord};
use bytes::{Bytes, BytesMut};
use consort_node::{Effect, Limits, Node, Reading};
use consort_order::{Advice, Engine, Link, state_of};
use consort_session::client::NotSent;
use consort_session::{Addressee, ClientEnd, DaemonEvent, Hello, Message, Offer, Refusal, RefusalCause, Target, Undo};
use consort_types::{
    Class, ClientId, Duration, GroupName, Instant, MemberId, NodeId, Position, Rng, Service, Ticket, ViewId,
};
use consort_wire::{Identity, Lane, Payload};
use reader::Reader;
use resumer::Resumers;
use roamer::{Roamers, SeenTable};
use servers::ServerLinks;
use side::{Deed, Side};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many clients of a node come and go beside its processes.
const VISITORS: u16 = 2;

/// A client that collects messages does so no longer.
const COLLECTS: Duration = Duration::from_millis(2);

/// A node and its clients, which speak the session protocol with it, byte by byte. The processes of a run are in one
/// group: each joins as soon as its session is open, sends once it is in, and reads at once what there is to read. Beside
/// that they, and visitors that are in nobody's plan, do with other groups whatever clients do.
#[derive(Debug)]
pub struct Whole<E: Engine> {
    node: Node<E>,
    me: MemberId,
    group: GroupName,
    processes: u16,
    seats: Vec<ClientSeat>,
    side: Side,
    /// The client that reads by position, where that can be done: the last of those that are there from the start.
    reader: Option<Reader>,
    /// Sessions that go from node to node, where there are such.
    roamers: Option<Roamers>,
    /// Readers that outlive their nodes, where there are such.
    resumers: Option<Resumers>,
    /// Servers with a replicated state, where there are such.
    servers: Option<ServerLinks>,
    seen_table: SeenTable,
    /// The client that reads next, before any other.
    reads_next: Option<ClientId>,
    acts: VecDeque<MachineOutput>,
    /// What clients that do not read have on disk.
    spools: BTreeMap<ClientId, VecDeque<Bytes>>,
    /// It was asked to leave: what its clients are refused from here on is no wonder.
    leaves: bool,
    holds: Option<Holds<E>>,
    now: Instant,
    /// Cuts what goes through the connections into pieces.
    rng: Rng,
}

#[derive(Debug)]
struct ClientSeat {
    client: ClientEnd,
    /// The node does not read from this connection now.
    paused: bool,
    /// It collects its messages and writes them with one write, at the next input or then.
    writes_by: Option<Instant>,
    listener: SessionListener,
    /// How many of its messages were accepted.
    sent: u64,
    waits: bool,
    /// Requests that may well be refused.
    dared: BTreeSet<u64>,
    /// How many messages it has sent beside its plan.
    said: u64,
    /// What it has on offer, if it is optimistic.
    offers: BTreeMap<u64, Message>,
    undo: Option<Undo>,
    gone: bool,
}

impl ClientSeat {
    /// Of three seats next to each other one is not optimistic, one undoes any offer, and one only the latest.
    /// Where places last, the first kind asks for them.
    fn new(group: &GroupName, at: u16, places_last: bool) -> Self {
        let undo = [None, Some(Undo::Any), Some(Undo::Latest)][usize::from(at % 3)];
        let wants_positions = places_last && undo.is_none();
        Self::with(group, &Hello { wants_views: true, optimistic: undo, wants_positions, ..Hello::default() })
    }

    fn with(group: &GroupName, hello: &Hello) -> Self {
        let client = ClientEnd::new(hello);
        let listener = SessionListener::new(std::slice::from_ref(group));
        let (paused, writes_by, waits, gone) = (false, None, false, false);
        Self {
            client,
            paused,
            writes_by,
            listener,
            sent: 0,
            waits,
            dared: BTreeSet::new(),
            said: 0,
            offers: BTreeMap::new(),
            undo: hello.optimistic,
            gone,
        }
    }
}

impl<E: Engine> Whole<E> {
    /// A node of a run that speaks as `identity`, with as many clients as the plan says, all in `group`.
    pub fn new(
        plan: &RunPlan,
        identity: Identity,
        engine: E,
        limits: Limits,
        group: GroupName,
        holds: Option<Holds<E>>,
    ) -> Self {
        let places_last = engine.capability().replays;
        let seat = |at| ClientSeat::new(&group, at + identity.me.node.0, places_last);
        Self {
            node: Node::new(identity, engine, limits).of_nodes(usize::from(plan.nodes)),
            me: identity.me,
            processes: plan.clients,
            seats: (0..plan.clients + VISITORS).map(seat).collect(),
            reader: None,
            roamers: None,
            resumers: None,
            servers: None,
            seen_table: SeenTable::default(),
            group,
            side: Side::new(plan, identity.me.node),
            reads_next: None,
            acts: VecDeque::new(),
            spools: BTreeMap::new(),
            leaves: false,
            holds,
            now: Instant::ZERO,
            rng: Rng::new(plan.seed).fork(u64::from(identity.me.node.0)),
        }
    }

    /// One more client, which reads by position, if the node retains anything. What the readers of all nodes have read
    /// outlasts their nodes.
    #[must_use]
    pub fn with_reader(mut self, plan: &RunPlan, bookmarks: Bookmarks) -> Self {
        if self.node.engine().capability().replays {
            self.reader = Some(Reader::new(plan, self.me.node, self.seats.len(), bookmarks));
            self.seats.push(ClientSeat::with(&self.group, &Hello::default()));
        }
        self
    }

    /// Sessions that go from node to node connect here, too.
    #[must_use]
    pub fn with_roamers(mut self, plan: &RunPlan, sessions: Option<RoamingSessions>) -> Self {
        self.roamers = sessions.map(|sessions| Roamers::new(plan, self.me.node, sessions));
        self
    }

    /// Readers that outlive their nodes connect here, too. The first client is given all that they may read.
    #[must_use]
    pub fn with_resumers(self, plan: &RunPlan, readers: Option<ResumingReaders>) -> Self {
        let Some(readers) = readers else { return self };
        let (bytes, keep) = readers.retention();
        let mut whole = Self { node: self.node.retaining(bytes, keep), ..self };
        if let Some(first) = whole.seats.first_mut() {
            *first =
                ClientSeat::with(&whole.group, &Hello { wants_views: true, wants_positions: true, ..Hello::default() });
        }
        whole.resumers = Some(Resumers::new(plan, whole.me.node, readers));
        whole
    }

    /// Servers that outlive their nodes connect here, too.
    #[must_use]
    pub fn with_servers(mut self, plan: &RunPlan, servers: Option<Servers>) -> Self {
        self.servers = servers.map(|servers| ServerLinks::new(plan, self.me.node, servers));
        self
    }

    /// The node, for looking at.
    pub const fn node(&self) -> &Node<E> {
        &self.node
    }

    /// The node, for breaking it on purpose.
    pub const fn node_mut(&mut self) -> &mut Node<E> {
        &mut self.node
    }

    /// Time has passed: now and then some client does something.
    fn pass(&mut self, now: Instant) {
        self.now = now;
        self.seats.iter_mut().for_each(|seat| seat.writes_by = None);
        self.pass_reader(now);
        if !self.leaves {
            self.pass_roamers(now);
            self.pass_resumers(now);
            self.pass_servers(now);
        }
        if self.leaves || !self.side.is_due(now) {
            return;
        }
        let at = self.side.choose(self.seats.len());
        if self.reader.as_ref().is_some_and(|reader| reader.seat == at)
            || self.is_roamer(at)
            || self.is_resumer(at)
            || self.is_server(at)
        {
            return;
        }
        let visits = at >= usize::from(self.processes);
        if self.seats[at].gone || self.seats[at].client.free() == 0 {
            return;
        }
        match self.side.deed(visits) {
            Deed::Join { group, closed } => self.join(at, &group, closed),
            Deed::JoinMany(groups) => groups.iter().for_each(|group| self.join(at, group, false)),
            Deed::Leave(group) => {
                let asked = self.seats[at].client.leave(&group);
                self.dare(at, asked);
            }
            Deed::Send { service, to } => self.send(at, service, &to),
            Deed::Vanish => self.vanish(at),
        }
    }

    fn is_roamer(&self, at: usize) -> bool {
        self.roamers.as_ref().is_some_and(|roamers| roamers.has(at))
    }

    fn is_resumer(&self, at: usize) -> bool {
        self.resumers.as_ref().is_some_and(|resumers| resumers.has(at))
    }

    fn is_server(&self, at: usize) -> bool {
        self.servers.as_ref().is_some_and(|servers| servers.has(at))
    }

    fn join(&mut self, at: usize, group: &GroupName, closed: bool) {
        let client = &mut self.seats[at].client;
        let asked = if closed { client.join_closed(group) } else { client.join(group) };
        self.dare(at, asked);
    }

    fn send(&mut self, at: usize, service: Service, to: &[Target]) {
        let count = self.seats[at].said + 1;
        let payload = side::payload(self.me, at as u16, count);
        let asked = self.seats[at].client.multicast(service, to, &payload);
        if asked.is_ok() {
            self.seats[at].said = count;
            let groups = to.iter().map(|to| String::from_utf8_lossy(to.target()).into()).collect();
            self.acts.push_back(MachineOutput::Spoke { client: at as u16, count, groups });
        }
        self.dare(at, asked);
    }

    /// What has no credit is not asked for.
    fn dare(&mut self, at: usize, asked: Result<u64, NotSent>) {
        self.seats[at].dared.extend(asked);
    }

    /// A visitor's connection ends, and another visitor comes.
    fn vanish(&mut self, at: usize) {
        self.seats[at].gone = true;
        self.acts.push_back(MachineOutput::Gone { client: at as u16 });
        self.node.close_client(self.now, client_at(at));
        let places_last = self.reader.is_some();
        self.seats.push(ClientSeat::new(&self.group, at as u16, places_last));
        self.node.open_client(self.now, client_at(self.seats.len() - 1));
    }

    /// Moves one thing on; false when nothing moves any more.
    fn advance(&mut self) -> bool {
        if let Some(effect) = self.node.poll_effect() {
            self.on_effect(effect);
            return true;
        }
        if self.look_at_table() {
            return true;
        }
        if let Some(client) = self.reads_next.take().or_else(|| self.node.poll_writable()) {
            self.read_in_turn(client);
            return true;
        }
        self.write()
    }

    /// What a reader is told that outlives its node is judged by what the first client was given before.
    fn read_in_turn(&mut self, client: ClientId) {
        let first = client_at(0);
        if self.is_resumer(seat_of(client)) && self.node.has_output(first) && !self.is_stalled(first) {
            self.reads_next = Some(client);
            return self.read(first);
        }
        self.read(client);
    }

    /// Whether this happened to a client that outlives the node.
    fn outlives(&self, act: &MachineOutput) -> bool {
        match act {
            MachineOutput::Resumed { client, .. } => self.is_resumer((*client).into()),
            MachineOutput::Numbered { client, step } => {
                self.is_roamer((*client).into()) || !matches!(step.step, NumberedStep::Given | NumberedStep::Table)
            }
            MachineOutput::Led { .. } | MachineOutput::Replica { .. } => true,
            _ => false,
        }
    }

    fn on_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Send { to, lane, datagram, .. } => {
                let mut bytes = BytesMut::with_capacity(datagram.head.len() + datagram.body.len());
                bytes.extend_from_slice(&datagram.head);
                bytes.extend_from_slice(&datagram.body);
                self.acts.push_back(MachineOutput::Send { to, lane, bytes: bytes.freeze() });
            }
            Effect::Persist { ticket, record, sync } => {
                self.acts.push_back(MachineOutput::Persist { ticket, record, sync })
            }
            Effect::Trim { up_to } => self.acts.push_back(MachineOutput::Trim { up_to }),
            Effect::Restart { cause, records, .. } => self.acts.push_back(MachineOutput::Restart { cause, records }),
            Effect::Left => self.acts.push_back(MachineOutput::Left),
            Effect::ReadAgain { client } => {
                if let Some(seat) = self.seats.get_mut(seat_of(client)) {
                    seat.paused = false;
                }
            }
            Effect::Spool { client, bytes } => {
                self.node.handle_spooled(self.now, client, bytes.len());
                self.spools.entry(client).or_default().push_back(bytes);
            }
            Effect::Unspool { client, .. } => {
                let block = self.spools.get_mut(&client).and_then(VecDeque::pop_front);
                self.node.handle_unspooled(self.now, client, block.unwrap_or_default());
            }
            Effect::DropSpool { client } => drop(self.spools.remove(&client)),
            // Nothing is sealed here.
            Effect::PromiseKey { .. } | Effect::SealWith { .. } => {}
            Effect::Close { client } if self.is_server(seat_of(client)) => self.on_server_closed(seat_of(client)),
            Effect::Close { client } => self.refuse(seat_of(client), "the node closed the connection".into()),
        }
    }

    /// The client reads all that the node has for it.
    fn read(&mut self, client: ClientId) {
        let at = seat_of(client);
        if self.is_stalled(client) {
            return;
        }
        while self.node.has_output(client) {
            let mut bytes = BytesMut::new();
            self.node.client_outputs(client).for_each(|part| bytes.extend_from_slice(part));
            let bytes = bytes.freeze();
            self.node.client_written(self.now, client, bytes.len());
            for piece in pieces(bytes, &mut self.rng) {
                self.seats[at].client.feed(piece);
            }
        }
        loop {
            match self.seats[at].client.next_event() {
                Ok(Some(event)) => self.on_event(at, event),
                Ok(None) => return,
                Err(malformed) => return self.refuse(at, malformed.to_string()),
            }
        }
    }

    /// Some client writes what it has to say, if its connection is read from; false where none can.
    fn write(&mut self) -> bool {
        let able = |seat: &ClientSeat| {
            !seat.paused && seat.writes_by.is_none() && !seat.gone && !seat.client.output().is_empty()
        };
        let Some(at) = self.seats.iter().position(able) else { return false };
        let seat = &mut self.seats[at];
        let whole = seat.client.output().len();
        let len = if self.rng.chance(0.05) { self.rng.between(1, whole as u64) as usize } else { whole };
        let bytes = Bytes::copy_from_slice(&seat.client.output()[..len]);
        seat.client.written(len);
        seat.paused = self.node.handle_client(self.now, client_at(at), bytes) == Reading::Pause;
        true
    }

    fn on_event(&mut self, at: usize, event: DaemonEvent) {
        let acts = &mut self.acts;
        self.seats[at].listener.hear(&event, |heard| acts.extend(act(at as u16, heard)));
        match event {
            event if self.is_server(at) => self.on_server_event(at, event),
            DaemonEvent::Welcome(_) if self.is_roamer(at) => self.welcome_roamer(at),
            DaemonEvent::Welcome(_) if self.is_resumer(at) => self.welcome_resumer(at),
            DaemonEvent::Welcome(_) if at >= usize::from(self.processes) => self.welcome_reader(at),
            DaemonEvent::Welcome(_) => {
                self.join_roaming(at);
                self.join_apart(at);
                if let Err(not_sent) = self.seats[at].client.join(&self.group) {
                    self.refuse(at, not_sent.to_string());
                }
            }
            // A candidate that stands still reads of its group late, and one that has moved never.
            DaemonEvent::GroupView(_) | DaemonEvent::GroupSignal(_) if self.is_roamer(at) => {}
            DaemonEvent::GroupView(view) => {
                let group = GroupSeen::of(&view, (self.me, client_at(at)));
                self.acts.push_back(MachineOutput::Group { client: at as u16, group: Box::new(group) });
                self.room(at);
            }
            DaemonEvent::GroupSignal(signal) => {
                self.acts.push_back(MachineOutput::Signal { client: at as u16, group: signal.group.as_str().into() });
            }
            DaemonEvent::Message(message) => self.on_message(at, &message),
            DaemonEvent::Offer(offer) => self.on_offer(at, offer),
            DaemonEvent::Revoke(offer) => {
                self.seats[at].offers.remove(&offer);
                self.acts.push_back(MachineOutput::Revoke { client: at as u16, offer });
            }
            DaemonEvent::Confirm(offer) => self.on_confirm(at, offer),
            DaemonEvent::Progress(_) if self.is_roamer(at) => self.send_pending(at),
            DaemonEvent::Progress(_) => self.room(at),
            DaemonEvent::Refused { request, refusal }
                if self.seats[at].dared.contains(&request) && is_fair(&refusal) => {}
            DaemonEvent::Refused { request, ref refusal } if self.on_refused_roamer(at, request, refusal) => {}
            DaemonEvent::Refused { refusal, .. } => self.refuse(at, format!("{refusal:?}")),
            DaemonEvent::Disconnect(farewell) => self.refuse(at, format!("{farewell:?}")),
            DaemonEvent::Read(ref message) if self.on_resumed_read(at, message) => {}
            DaemonEvent::Reading(ref status) if self.on_resumed(at, status) => {}
            DaemonEvent::Read(message) => self.on_read(at, &message),
            DaemonEvent::Reading(status) => self.on_reading(at, &status),
            DaemonEvent::Producer(status) => self.on_producer(at, &status),
            DaemonEvent::Incarnation(_) | DaemonEvent::Declared(_) | DaemonEvent::Rotated(_) => {}
            DaemonEvent::Copies(_) | DaemonEvent::Bound(_) => {}
            DaemonEvent::View(view) => {
                self.note_view(at, view.id);
                self.view_election(at, view.kind, view.id.number);
            }
            DaemonEvent::Waiting(_) | DaemonEvent::Status(_) => {}
            DaemonEvent::Pong(_) | DaemonEvent::Heartbeat => {}
        }
    }

    fn on_offer(&mut self, at: usize, offer: Offer) {
        let seat = &mut self.seats[at];
        let (strict, payload) = (seat.undo == Some(Undo::Latest), offer.message.clone().into_payload());
        let told = OfferRecord { offer: offer.number, sum: sum(&payload.into()), strict };
        seat.offers.insert(offer.number, offer.message);
        self.acts.push_back(MachineOutput::Offer { client: at as u16, offer: told });
    }

    /// The message of an offer counts from here on as one that was told without.
    fn on_confirm(&mut self, at: usize, offer: u64) {
        let message = self.seats[at].offers.remove(&offer);
        let sum = message.as_ref().map_or(0, |message| sum(&message.clone().into_payload().into()));
        self.acts.push_back(MachineOutput::Confirm { client: at as u16, offer, sum });
        if let Some(message) = message {
            self.on_event(at, DaemonEvent::Message(message));
        }
    }

    /// What is not of the workload.
    fn on_message(&mut self, at: usize, message: &Message) {
        if self.on_given(at, message) {
            return;
        }
        if message.groups().any(|group| group == self.group.as_str()) {
            return self.on_placed(at, message);
        }
        if self.on_numbered(at, message) {
            return;
        }
        let Some((incarnation, client, count)) = side::read(message.payload()) else {
            return self.refuse(at, "a message that nobody sends".into());
        };
        let groups = message.groups().map(Into::into).collect();
        self.acts.push_back(MachineOutput::Side { client: at as u16, from: (incarnation, client), count, groups });
    }

    fn room(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        if seat.listener.is_joined() && std::mem::take(&mut seat.waits) {
            self.acts.push_back(MachineOutput::Room { client: Some(at as u16) });
        }
    }

    fn refuse(&mut self, at: usize, why: String) {
        if self.leaves || self.seats[at].gone {
            return;
        }
        self.acts.push_back(MachineOutput::Refused { client: at as u16, why });
    }
}

/// Whether a join, leave or message of chance may be refused so.
const fn is_fair(refusal: &Refusal) -> bool {
    matches!(refusal.cause, RefusalCause::AlreadyMember | RefusalCause::NotMember | RefusalCause::Closed)
}

/// What a client makes of what it was told of the workload. That it was refused is the machine's to judge, and group views
/// are told of all groups.
fn act(client: u16, heard: ListenerEvent) -> Option<MachineOutput> {
    Some(match heard {
        ListenerEvent::View(view) => MachineOutput::View { client, view },
        ListenerEvent::Network(view) => MachineOutput::Network { client, view },
        ListenerEvent::Primary(view) => MachineOutput::Primary { client, view },
        ListenerEvent::Message(message) => MachineOutput::Deliver { client, message },
        ListenerEvent::Ordered(count) => MachineOutput::Ordered { client, count },
        ListenerEvent::Group(_) | ListenerEvent::Signal(_) | ListenerEvent::Refused(_) => return None,
    })
}

fn seat_of(client: ClientId) -> usize {
    index_of(client).into()
}

const fn client_at(seat: usize) -> ClientId {
    ClientId(seat as u32 + 1)
}

/// Mostly one piece, now and then two.
fn pieces(mut bytes: Bytes, rng: &mut Rng) -> impl Iterator<Item = Bytes> {
    let cut = if rng.chance(0.05) { rng.below(bytes.len() as u64 + 1) as usize } else { 0 };
    let front = bytes.split_to(cut);
    [front, bytes].into_iter().filter(|piece| !piece.is_empty())
}

impl<E: Engine> Machine for Whole<E> {
    fn processes(&self) -> u16 {
        self.processes
    }

    fn start(&mut self, now: Instant, records: &[Bytes]) {
        self.now = now;
        self.node.start(now, records);
        (0..self.seats.len()).for_each(|at| self.node.open_client(now, client_at(at)));
    }

    fn leave(&mut self, now: Instant) {
        self.now = now;
        self.leaves = true;
        self.node.leave(now);
    }

    fn advise(&mut self, now: Instant, advice: Advice) {
        self.now = now;
        self.node.advise(now, advice);
    }

    fn note_time(&mut self, now: Instant) {
        self.roamers.iter_mut().for_each(|roamers| roamers.time = now);
        self.servers.iter().for_each(|servers| servers.note_time(now));
    }

    fn is_joined_late(&self) -> bool {
        true
    }

    fn needs_arrival_times(&self) -> bool {
        self.node.engine().capability().needs_arrival_times
    }

    fn handle_datagram(&mut self, now: Instant, arrived: Instant, bytes: Bytes) {
        self.pass(now);
        self.node.handle_datagram(now, arrived, bytes);
    }

    fn handle_overflow(&mut self, now: Instant) {
        self.now = now;
        self.node.note_overflow(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.pass(now);
        self.node.handle_timeout(now);
    }

    fn handle_persisted(&mut self, now: Instant, ticket: Ticket) {
        self.now = now;
        self.node.handle_persisted(now, ticket);
    }

    fn handle_link(&mut self, now: Instant, peer: NodeId, link: Link) {
        self.now = now;
        self.node.handle_link(now, peer, link);
    }

    fn submit(&mut self, now: Instant, client: u16, _class: Class, service: Service, payload: Payload) -> SubmitAnswer {
        self.now = now;
        let seat = &mut self.seats[usize::from(client)];
        if self.leaves {
            return SubmitAnswer::Leaving;
        }
        if seat.listener.is_joined() {
            let groups = std::slice::from_ref(&self.group);
            match seat.client.multicast(service, groups, &payload.to_bytes()) {
                Ok(number) => {
                    if self.rng.chance(0.2) {
                        seat.writes_by.get_or_insert(now + COLLECTS);
                    }
                    seat.sent += 1;
                    seat.listener.sent(number, seat.sent);
                    return SubmitAnswer::Accepted(None);
                }
                Err(NotSent::Credit { .. }) => {}
                Err(not_sent) => return SubmitAnswer::Refused(not_sent.to_string()),
            }
        }
        seat.waits = true;
        SubmitAnswer::Full
    }

    fn poll(&mut self) -> Option<MachineOutput> {
        while self.acts.is_empty() {
            if !self.advance() {
                return None;
            }
        }
        self.acts.pop_front()
    }

    fn poll_last(&mut self) -> Option<MachineOutput> {
        self.crash_servers();
        let first = self.acts.iter().position(|act| self.outlives(act))?;
        self.acts.drain(..=first).next_back()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let roams = self.roamers.as_ref().filter(|_| !self.leaves).and_then(Roamers::next);
        let resumes = self.resumers.as_ref().filter(|_| !self.leaves).map(Resumers::next);
        let serves = self.servers.as_ref().filter(|_| !self.leaves).map(ServerLinks::next);
        let others = self.node.poll_timeout().into_iter().chain(roams).chain(resumes).chain(serves);
        self.seats.iter().filter_map(|seat| seat.writes_by).chain(others).min()
    }

    fn reads_first(&self) -> Lane {
        self.node.reads_first()
    }

    fn holds(&self, view: ViewId, position: Position) -> Option<bool> {
        self.holds.and_then(|holds| holds(self.node.engine(), view, position))
    }

    fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        self.node.observe(see);
        observe_kept_out(self.node.engine(), self.now, see);
    }

    fn describe(&self, now: Instant) -> String {
        state_of(self.node.engine(), now)
    }
}
