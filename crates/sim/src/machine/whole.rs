//! A whole node and the clients that are connected to it.
use super::{Act, Answer, Holds, Machine};
use crate::plan::Plan;
use crate::trace::witness::{Heard, Listener, index_of};
use bytes::{Bytes, BytesMut};
use consort_node::{Effect, Limits, Node, Reading};
use consort_order::Engine;
use consort_session::client::NotSent;
use consort_session::{Client, Event, Hello};
use consort_types::{Class, ClientId, GroupName, Instant, Position, Rng, Service, Ticket, ViewId};
use consort_wire::{Identity, Lane, Payload};
use std::collections::VecDeque;

/// A node and its clients, which speak the session protocol with it, byte by byte. All clients of a run are in one
/// group: each joins as soon as its session is open, sends once it is in, and reads at once what there is to read.
#[derive(Debug)]
pub struct Whole<E: Engine> {
    node: Node<E>,
    group: GroupName,
    seats: Vec<Seat>,
    acts: VecDeque<Act>,
    /// It was asked to leave: what its clients are refused from here on is no wonder.
    leaves: bool,
    holds: Option<Holds<E>>,
    now: Instant,
    /// Cuts what goes through the connections into pieces.
    rng: Rng,
}

#[derive(Debug)]
struct Seat {
    client: Client,
    /// The node does not read from this connection now.
    paused: bool,
    listener: Listener,
    /// How many of its messages were accepted.
    sent: u64,
    waits: bool,
}

impl<E: Engine> Whole<E> {
    /// A node of a run that speaks as `identity`, with as many clients as the plan says, all in `group`.
    pub fn new(
        plan: &Plan,
        identity: Identity,
        engine: E,
        limits: Limits,
        group: GroupName,
        holds: Option<Holds<E>>,
    ) -> Self {
        let hello = Hello { wants_views: true, ..Hello::default() };
        let listener = Listener::new(std::slice::from_ref(&group));
        let seat =
            |_| Seat { client: Client::new(&hello), paused: false, listener: listener.clone(), sent: 0, waits: false };
        Self {
            node: Node::new(identity, engine, limits),
            group,
            seats: (0..plan.clients).map(seat).collect(),
            acts: VecDeque::new(),
            leaves: false,
            holds,
            now: Instant::ZERO,
            rng: Rng::new(plan.seed).fork(u64::from(identity.me.node.0)),
        }
    }

    /// The node, for looking at.
    pub const fn node(&self) -> &Node<E> {
        &self.node
    }

    /// Moves one thing on; false when nothing moves any more.
    fn advance(&mut self) -> bool {
        if let Some(effect) = self.node.poll_effect() {
            self.on_effect(effect);
            return true;
        }
        if let Some(client) = self.node.poll_writable() {
            self.read(client);
            return true;
        }
        self.write()
    }

    fn on_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Send { to, lane, datagram } => {
                let mut bytes = BytesMut::with_capacity(datagram.head.len() + datagram.body.len());
                bytes.extend_from_slice(&datagram.head);
                bytes.extend_from_slice(&datagram.body);
                self.acts.push_back(Act::Send { to, lane, bytes: bytes.freeze() });
            }
            Effect::Persist { ticket, record, .. } => self.acts.push_back(Act::Persist { ticket, record }),
            Effect::Trim { up_to } => self.acts.push_back(Act::Trim { up_to }),
            Effect::Left => self.acts.push_back(Act::Left),
            Effect::ReadAgain { client } => {
                if let Some(seat) = self.seats.get_mut(seat_of(client)) {
                    seat.paused = false;
                }
            }
            Effect::Close { client } => self.refuse(seat_of(client), "the node closed the connection".into()),
        }
    }

    /// The client reads all that the node has for it.
    fn read(&mut self, client: ClientId) {
        let at = seat_of(client);
        let bytes = Bytes::copy_from_slice(self.node.client_output(client));
        self.node.client_written(self.now, client, bytes.len());
        for piece in pieces(bytes, &mut self.rng) {
            self.seats[at].client.feed(piece);
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
        let able = |seat: &Seat| !seat.paused && !seat.client.output().is_empty();
        let Some(at) = self.seats.iter().position(able) else { return false };
        let seat = &mut self.seats[at];
        let whole = seat.client.output().len();
        let len = if self.rng.chance(0.05) { self.rng.between(1, whole as u64) as usize } else { whole };
        let bytes = Bytes::copy_from_slice(&seat.client.output()[..len]);
        seat.client.written(len);
        seat.paused = self.node.handle_client(self.now, client_at(at), bytes) == Reading::Pause;
        true
    }

    fn on_event(&mut self, at: usize, event: Event) {
        let acts = &mut self.acts;
        self.seats[at].listener.hear(&event, |heard| acts.extend(act(at as u16, heard)));
        match event {
            Event::Welcome(_) => {
                if let Err(not_sent) = self.seats[at].client.join(&self.group) {
                    self.refuse(at, not_sent.to_string());
                }
            }
            Event::GroupView(_) | Event::Progress(_) => self.room(at),
            Event::Refused { refusal, .. } => self.refuse(at, format!("{refusal:?}")),
            Event::Disconnect(farewell) => self.refuse(at, format!("{farewell:?}")),
            Event::View(_) | Event::Message(_) | Event::Status(_) | Event::Pong(_) => {}
        }
    }

    fn room(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        if seat.listener.is_joined() && std::mem::take(&mut seat.waits) {
            self.acts.push_back(Act::Room { client: Some(at as u16) });
        }
    }

    fn refuse(&mut self, at: usize, why: String) {
        if self.leaves {
            return;
        }
        self.acts.push_back(Act::Refused { client: at as u16, why });
    }
}

/// What a client makes of what it was told. That it was refused is the machine's to judge.
fn act(client: u16, heard: Heard) -> Option<Act> {
    Some(match heard {
        Heard::View(view) => Act::View { client, view },
        Heard::Primary(view) => Act::Primary { client, view },
        Heard::Group { view, change, members } => Act::Group { client, view, change, members },
        Heard::Message(message) => Act::Deliver { client, message },
        Heard::Ordered(count) => Act::Ordered { client, count },
        Heard::Refused(_) => return None,
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
        self.seats.len() as u16
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

    fn is_joined_late(&self) -> bool {
        true
    }

    fn handle_datagram(&mut self, now: Instant, arrived: Instant, bytes: Bytes) {
        self.now = now;
        self.node.handle_datagram(now, arrived, bytes);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.node.handle_timeout(now);
    }

    fn handle_persisted(&mut self, now: Instant, ticket: Ticket) {
        self.now = now;
        self.node.handle_persisted(now, ticket);
    }

    fn submit(&mut self, now: Instant, client: u16, _class: Class, service: Service, payload: Payload) -> Answer {
        self.now = now;
        let seat = &mut self.seats[usize::from(client)];
        if self.leaves {
            return Answer::Leaving;
        }
        if seat.listener.is_joined() {
            let groups = std::slice::from_ref(&self.group);
            match seat.client.multicast(service, groups, &payload.to_bytes()) {
                Ok(number) => {
                    seat.sent += 1;
                    seat.listener.sent(number, seat.sent);
                    return Answer::Accepted(None);
                }
                Err(NotSent::Credit { .. }) => {}
                Err(not_sent) => return Answer::Refused(not_sent.to_string()),
            }
        }
        seat.waits = true;
        Answer::Full
    }

    fn poll(&mut self) -> Option<Act> {
        while self.acts.is_empty() {
            if !self.advance() {
                return None;
            }
        }
        self.acts.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.node.poll_timeout()
    }

    fn reads_first(&self) -> Lane {
        self.node.reads_first()
    }

    fn holds(&self, view: ViewId, position: Position) -> Option<bool> {
        self.holds.and_then(|holds| holds(self.node.engine(), view, position))
    }

    fn observe(&self, see: &mut dyn FnMut(&str, u64)) {
        self.node.observe(see);
    }

    fn describe(&self, now: Instant) -> String {
        self.node.engine().describe(now)
    }
}
