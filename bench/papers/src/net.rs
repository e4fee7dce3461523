//! Engines in one view, virtual time, and a network that delays each copy of a packet as it is told. Nothing is lost.
use consort_order::{Arrival, Destination, Engine, Lane, Output, Payload, Submission, each_counter};
use consort_types::{
    Class, Duration, Incarnation, Instant, MemberId, NodeId, OfferId, OrderStream, Rng, Service, Ticket, ViewKind,
};
use std::collections::{BTreeMap, VecDeque};

/// How long a packet takes from one member to another, both counted from 0.
pub type Delay<'a> = Box<dyn FnMut(usize, usize, &mut Rng) -> Duration + 'a>;

/// What the layer above a member hears, where it bears on latency. Messages go by the number they were submitted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The place of a message is likely, but not final.
    Offered {
        /// Names the offer.
        offer: OfferId,
        /// What is offered.
        message: u64,
        /// Until when it may be taken back without harm.
        free_until: Instant,
    },
    /// The offer stands.
    Confirmed {
        /// The offer.
        offer: OfferId,
        /// What was offered.
        message: u64,
    },
    /// A message that is not on offer has its place.
    Delivered(u64),
}

/// One thing heard.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// When.
    pub at: Instant,
    /// By which member, counted from 0.
    pub member: usize,
    /// What.
    pub heard: Heard,
}

struct Flying<P> {
    from: usize,
    to: usize,
    lane: Lane,
    packet: P,
}

/// Members and what is under way between them.
pub struct Net<'a, E: Engine> {
    now: Instant,
    engines: Vec<E>,
    /// How many members each one's view has.
    views: Vec<usize>,
    flying: BTreeMap<(Instant, u64), Flying<E::Packet>>,
    sent: u64,
    delay: Delay<'a>,
    rng: Rng,
    told: VecDeque<Told>,
    /// Whose arriving packets are kept, and those.
    watched: Vec<usize>,
    seen: Vec<Seen<E::Packet>>,
}

/// A packet that arrived.
pub struct Seen<P> {
    /// When.
    pub at: Instant,
    /// At which member.
    pub member: usize,
    /// It.
    pub packet: P,
}

/// Within what time all members must be in one view.
const FORMED: Duration = Duration::from_secs(10);
/// How long a view of all is left alone before anything is measured.
const SETTLED: Duration = Duration::from_secs(1);

/// The nodes of a net of so many.
pub fn nodes(members: usize) -> Vec<NodeId> {
    (1..=members as u16).map(NodeId).collect()
}

impl<'a, E: Engine<Packet: Clone>> Net<'a, E> {
    /// Starts these engines, of the nodes 1, 2 and so on, each in its first incarnation, and waits until all are in one view.
    ///
    /// # Errors
    /// Says so where no such view comes about.
    pub fn start(engines: Vec<E>, delay: Delay<'a>, rng: Rng) -> Result<Self, String> {
        let views = vec![0; engines.len()];
        let (flying, told) = (BTreeMap::new(), VecDeque::new());
        let (watched, seen) = (Vec::new(), Vec::new());
        let mut net = Self { now: Instant::ZERO, engines, views, flying, sent: 0, delay, rng, told, watched, seen };
        for member in 0..net.engines.len() {
            net.engines[member].start(Instant::ZERO, &[]);
            net.drain(member);
        }
        while net.views.iter().any(|view| *view != net.engines.len()) {
            if net.now.since(Instant::ZERO) > FORMED {
                return Err(format!("{} members are not in one view after {FORMED:?}", net.engines.len()));
            }
            net.run_until(net.now + Duration::from_millis(100));
        }
        net.run_until(net.now + SETTLED);
        net.told.clear();
        Ok(net)
    }

    /// The present.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Lets time pass.
    pub fn run_until(&mut self, end: Instant) {
        while let Some(at) = self.next().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.step();
        }
        self.now = self.now.max(end);
    }

    /// A member multicasts a message of so many bytes, eight at least, under this number.
    ///
    /// # Errors
    /// The engine's answer where it does not take the message.
    pub fn submit(&mut self, member: usize, message: u64, len: usize) -> Result<(), String> {
        let payload = Payload::from(bytes::Bytes::from(written(message, len)));
        let submission = Submission { class: Class::Client, service: Service::Agreed, stream: OrderStream(0), payload };
        self.engines[member].submit(self.now, submission).map_err(|refused| refused.to_string())?;
        self.drain(member);
        Ok(())
    }

    /// What was heard since this was asked last, in order of time.
    pub fn take_told(&mut self) -> impl Iterator<Item = Told> + use<'a, E> {
        std::mem::take(&mut self.told).into_iter()
    }

    /// Keeps the packets that arrive at these members from now on.
    pub fn watch(&mut self, members: &[usize]) {
        self.watched = members.to_vec();
    }

    /// The packets that were kept, in order of time.
    pub fn take_seen(&mut self) -> Vec<Seen<E::Packet>> {
        std::mem::take(&mut self.seen)
    }

    /// All members.
    pub fn engines(&self) -> &[E] {
        &self.engines
    }

    /// A counter of one member; 0 where there is none of that name.
    pub fn counter(&self, member: usize, name: &str) -> u64 {
        let mut found = 0;
        each_counter(&self.engines[member], self.now, &mut |known, value| {
            found = if known == name { value } else { found }
        });
        found
    }

    /// A counter, summed over all members.
    pub fn sum(&self, name: &str) -> u64 {
        (0..self.engines.len()).map(|member| self.counter(member, name)).sum()
    }

    /// When something happens next.
    fn next(&self) -> Option<Instant> {
        let packet = self.flying.first_key_value().map(|((at, _), _)| *at);
        self.engines.iter().map(E::poll_timeout).chain([packet]).flatten().min()
    }

    /// One packet arrives, or all timers that are due go off.
    fn step(&mut self) {
        let now = self.now;
        if let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= now) {
            let Flying { from, to, lane, packet } = entry.remove();
            if self.watched.contains(&to) {
                self.seen.push(Seen { at: now, member: to, packet: packet.clone() });
            }
            self.engines[to].handle_packet(now, Arrival { at: now, from: name(from), lane }, packet);
            return self.drain(to);
        }
        for member in 0..self.engines.len() {
            if self.engines[member].poll_timeout().is_some_and(|at| at <= now) {
                self.engines[member].handle_timeout(now);
                self.drain(member);
            }
        }
    }

    fn drain(&mut self, member: usize) {
        while let Some(output) = self.engines[member].poll_output() {
            match output {
                Output::Send { to, lane, packet } => self.send(member, to, lane, &packet),
                Output::Persist { ticket, .. } => self.persisted(member, ticket),
                Output::Install(view) => {
                    self.views[member] = view.members.len();
                    if view.kind == ViewKind::Regular {
                        self.engines[member].resume(self.now, view.id);
                    }
                }
                Output::Offer(offer) => {
                    let message = number(&offer.delivery.payload);
                    self.tell(member, Heard::Offered { offer: offer.id, message, free_until: offer.free_until });
                }
                Output::Confirm { offer, delivery } => {
                    self.tell(member, Heard::Confirmed { offer, message: number(&delivery.payload) });
                }
                Output::Deliver(delivery) => self.tell(member, Heard::Delivered(number(&delivery.payload))),
                _ => {}
            }
        }
    }

    fn persisted(&mut self, member: usize, ticket: Ticket) {
        self.engines[member].handle_persisted(self.now, ticket);
    }

    fn tell(&mut self, member: usize, heard: Heard) {
        self.told.push_back(Told { at: self.now, member, heard });
    }

    fn send(&mut self, from: usize, to: Destination, lane: Lane, packet: &E::Packet) {
        let reached =
            |other: &usize| *other != from && (to == Destination::All || to == Destination::One(name(*other).node));
        for to in (0..self.engines.len()).filter(reached) {
            self.sent += 1;
            let at = self.now + (self.delay)(from, to, &mut self.rng);
            self.flying.insert((at, self.sent), Flying { from, to, lane, packet: packet.clone() });
        }
    }
}

fn name(member: usize) -> MemberId {
    MemberId { node: NodeId(member as u16 + 1), incarnation: Incarnation(1) }
}

/// A message of so many bytes, eight at least, that carries its number.
pub fn written(message: u64, len: usize) -> Vec<u8> {
    let mut bytes = message.to_le_bytes().to_vec();
    bytes.resize(len.max(bytes.len()), 0);
    bytes
}

/// The number that a message carries.
pub fn read(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    bytes.iter().zip(&mut number).for_each(|(from, to)| *to = *from);
    u64::from_le_bytes(number)
}

fn number(payload: &Payload) -> u64 {
    read(&payload.to_bytes())
}
