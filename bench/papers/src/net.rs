//! Engines in one view, virtual time, and a network that delays each copy of a packet as it is told. Nothing is lost, but
//! where a member has a reader that is switched out.
use super::reader::Reader;
use bytes::BytesMut;
use consort_order::{Arrival, Destination, Engine, Lane, Output, Payload, Submission, each_counter};
use consort_types::{
    Class, Duration, Incarnation, Instant, MemberId, NodeId, OfferId, OrderStream, Rng, Service, Ticket, ViewKind,
};
use consort_wire::Packet;
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
    /// It was taken from a socket, or there is none.
    read: bool,
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
    /// What all share, if they do.
    cable: Option<Cable>,
    /// Who has a reader, and it.
    reader: Option<(usize, Reader)>,
}

/// A cable that all share: one packet at a time, whoever sends it. Senders wait in turn; there are no collisions.
#[derive(Clone, Debug)]
pub struct Cable {
    /// Bits a second.
    rate: u64,
    free: Instant,
    /// How long it carries what it was given so far.
    busy: Duration,
}

/// What UDP, IP and Ethernet add to a packet, the gap between frames included.
const FRAME: usize = 66;

impl Cable {
    /// Nothing is on it.
    pub const fn new(rate: u64) -> Self {
        Self { rate, free: Instant::ZERO, busy: Duration::ZERO }
    }

    /// How long it carried packets so far.
    pub fn busy(&self, now: Instant) -> Duration {
        self.busy.saturating_sub(self.free.since(now))
    }

    /// A packet of so many bytes is to go. Returns when it has passed, and how long it took on the cable.
    fn carry(&mut self, now: Instant, len: usize) -> (Instant, Duration) {
        let takes = Duration::from_nanos((len + FRAME) as u64 * 8 * 1_000_000_000 / self.rate);
        self.free = self.free.max(now) + takes;
        self.busy += takes;
        (self.free, takes)
    }
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
        let (now, sent, cable, reader) = (Instant::ZERO, 0, None, None);
        let mut net = Self { now, engines, views, flying, sent, delay, rng, told, watched, seen, cable, reader };
        for member in 0..net.engines.len() {
            net.engines[member].start(Instant::ZERO, &[]);
            net.drain(member);
        }
        while !net.is_whole() {
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

    /// All share a cable from now on. Its time is a part of what a packet takes.
    pub fn share(&mut self, cable: Cable) {
        self.cable = Some(cable);
    }

    /// That cable.
    pub const fn cable(&self) -> Option<&Cable> {
        self.cable.as_ref()
    }

    /// What comes to this member goes through a reader from now on.
    pub fn read_with(&mut self, member: usize, reader: Reader) {
        self.reader = Some((member, reader));
    }

    /// That reader.
    pub fn reader(&self) -> Option<&Reader> {
        self.reader.as_ref().map(|(_, reader)| reader)
    }

    /// Whether all members are in one view.
    pub fn is_whole(&self) -> bool {
        self.views.iter().all(|view| *view == self.engines.len())
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
            let flying = entry.remove();
            if !flying.read && self.reader.as_ref().is_some_and(|(member, _)| *member == flying.to) {
                return self.put_in_socket(flying);
            }
            let Flying { from, to, lane, packet, .. } = flying;
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

    /// A packet comes to a member that has a reader.
    fn put_in_socket(&mut self, flying: Flying<E::Packet>) {
        let Some(at) = self.reader.as_mut().and_then(|(_, reader)| reader.take(self.now)) else { return };
        self.sent += 1;
        self.flying.insert((at, self.sent), Flying { read: true, ..flying });
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
        let passed = self.cable.as_mut().map(|cable| {
            let mut head = BytesMut::new();
            let body = packet.encode(&mut head);
            cable.carry(self.now, head.len() + body.len())
        });
        let (left, taken) = passed.unwrap_or((self.now, Duration::ZERO));
        for to in (0..self.engines.len()).filter(reached) {
            self.sent += 1;
            let at = left + (self.delay)(from, to, &mut self.rng).saturating_sub(taken);
            self.flying.insert((at, self.sent), Flying { from, to, lane, packet: packet.clone(), read: false });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cable_carries_one_packet_at_a_time() {
        let mut cable = Cable::new(10_000_000);
        let takes = Duration::from_micros(872); // 1024 and 66 bytes
        assert_eq!(cable.carry(Instant(1_000), 1_024), (Instant(873_000), takes));
        assert_eq!(cable.carry(Instant(2_000), 1_024), (Instant(1_745_000), takes), "the second waits");
        assert_eq!(cable.carry(Instant(9_000_000), 1_024), (Instant(9_872_000), takes));
        let ms = |ms: u64| Instant(ms * 1_000_000);
        assert_eq!(cable.busy(ms(20)), takes * 3);
        assert_eq!(cable.busy(ms(9)), takes * 2, "the third has yet to go");
    }
}
