//! An ordering protocol for these tests: the first member numbers everything, and the others ask again for what they
//! miss. It uses every way to the network that there is.
use bytes::{BufMut, Bytes, BytesMut};
use consort_order::{
    AcrossPartitions, Arrival, Capability, Delivery, Destination, Engine, Fact, Lane, Link, Malformed, Offers, Output,
    Packet, Refused, Submission,
};
use consort_types::{
    Class, Duration, Instant, MemberId, MessageId, NodeId, OrderStream, Position, Primary, Service, Ticket, View,
    ViewCause, ViewId, ViewKind,
};
use consort_wire::{Reader, Writer};
use std::collections::{BTreeMap, VecDeque};

const TICK: Duration = Duration::from_millis(3);
const WAITING_MAX: usize = 256;
const ASK_MAX: u64 = 100;

/// A message, and who knows it by which number.
#[derive(Clone, Debug)]
pub struct Entry {
    sender: MemberId,
    id: u64,
    class: Class,
    service: Service,
    payload: Bytes,
}

#[derive(Clone, Debug)]
pub enum Message {
    Request(Entry),
    Ordered(u64, Entry),
    Missing(u64),
    Beacon(u64),
}

impl Packet for Message {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        let (kind, number) = match self {
            Self::Request(_) => (0, 0),
            Self::Ordered(seq, _) => (1, *seq),
            Self::Missing(seq) => (2, *seq),
            Self::Beacon(next) => (3, *next),
        };
        head.put_u8(kind);
        head.put_u64(number);
        let (Self::Request(entry) | Self::Ordered(_, entry)) = self else { return Bytes::new() };
        head.put_member(entry.sender);
        head.put_u64(entry.id);
        head.put_u8(u8::from(entry.class == Class::Control));
        head.put_u8(entry.service as u8);
        entry.payload.clone()
    }

    fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&bytes);
        let (kind, number) = (reader.u8("kind")?, reader.u64("number")?);
        match kind {
            2 => return Ok(Self::Missing(number)),
            3 => return Ok(Self::Beacon(number)),
            _ => {}
        }
        let (sender, id) = (reader.member("sender")?, reader.u64("id")?);
        let class = if reader.u8("class")? == 1 { Class::Control } else { Class::Client };
        let service = Service::from_wire(reader.u8("service")?).ok_or(reader.bad("service"))?;
        let entry = Entry { sender, id, class, service, payload: bytes.slice(reader.at()..) };
        Ok(if kind == 0 { Self::Request(entry) } else { Self::Ordered(number, entry) })
    }
}

pub struct Sequencer {
    me: MemberId,
    members: Vec<MemberId>,
    pub needs_arrival_times: bool,
    /// It sends everything through reliable links.
    pub reliable: bool,
    /// The first member writes each message down before it numbers it.
    pub durable: bool,
    found: u64,
    written: u64,
    /// Written down, and not known to be durable yet.
    unsynced: BTreeMap<Ticket, Entry>,
    /// The latest arrival, to see that times never lie ahead of `now`.
    arrivals_ahead: u64,
    next_id: u64,
    /// The gate for client messages is open.
    resumed: bool,
    /// Mine, not seen in the order yet.
    waiting: BTreeMap<u64, Entry>,
    refused: bool,
    ordered: Vec<Entry>,
    seen: BTreeMap<MemberId, u64>,
    early: BTreeMap<u64, Entry>,
    delivered: u64,
    tick: Instant,
    /// How often it looks after what was lost.
    pub every: Duration,
    outputs: VecDeque<Output<Message>>,
}

impl Sequencer {
    pub fn new(me: MemberId, members: Vec<MemberId>) -> Self {
        Self {
            me,
            members,
            needs_arrival_times: false,
            reliable: false,
            durable: false,
            found: 0,
            written: 0,
            unsynced: BTreeMap::new(),
            arrivals_ahead: 0,
            next_id: 1,
            resumed: false,
            waiting: BTreeMap::new(),
            refused: false,
            ordered: Vec::new(),
            seen: BTreeMap::new(),
            early: BTreeMap::new(),
            delivered: 0,
            tick: Instant::ZERO,
            every: TICK,
            outputs: VecDeque::new(),
        }
    }

    fn leads(&self) -> bool {
        self.me == self.members[0]
    }

    fn leader(&self) -> Destination {
        Destination::One(self.members[0].node)
    }

    fn send(&mut self, to: Destination, lane: Lane, packet: Message) {
        if self.reliable {
            let others =
                self.members.iter().filter(|member| **member != self.me).map(|member| Destination::One(member.node));
            let to: Vec<_> = if to == Destination::All { others.collect() } else { vec![to] };
            let send = |to| Output::Send { to, lane: Lane::Reliable, packet: packet.clone() };
            return self.outputs.extend(to.into_iter().map(send));
        }
        self.outputs.push_back(Output::Send { to, lane, packet });
    }

    fn ask(&mut self, entry: Entry) {
        if self.leads() {
            self.on_request(entry);
        } else {
            self.send(self.leader(), Lane::Token, Message::Request(entry));
        }
    }

    /// Requests of one sender are numbered in the order of their ids; others are asked for again by their sender.
    fn on_request(&mut self, entry: Entry) {
        let seen = self.seen.entry(entry.sender).or_default();
        if entry.id != *seen + 1 {
            return;
        }
        *seen = entry.id;
        if !self.durable {
            return self.number(entry);
        }
        self.written += 1;
        let ticket = Ticket(self.written);
        self.outputs.push_back(Output::Persist { ticket, record: entry.payload.clone(), sync: true });
        self.unsynced.insert(ticket, entry);
    }

    fn number(&mut self, entry: Entry) {
        self.ordered.push(entry.clone());
        let seq = self.ordered.len() as u64;
        self.send(Destination::All, Lane::Data, Message::Ordered(seq, entry.clone()));
        self.on_ordered(seq, entry);
    }

    fn on_ordered(&mut self, seq: u64, entry: Entry) {
        if seq > self.delivered {
            self.early.insert(seq, entry);
        }
        while let Some(entry) = self.early.remove(&(self.delivered + 1)) {
            self.delivered += 1;
            self.deliver(entry);
        }
    }

    fn deliver(&mut self, entry: Entry) {
        let own = entry.sender == self.me;
        if own {
            self.waiting.remove(&entry.id);
            if std::mem::take(&mut self.refused) {
                self.outputs.push_back(Output::Room);
            }
        }
        self.outputs.push_back(Output::Deliver(Delivery {
            stream: OrderStream(0),
            position: Position(self.delivered),
            sender: entry.sender,
            id: own.then_some(MessageId(entry.id)),
            class: entry.class,
            service: entry.service,
            payload: entry.payload.into(),
        }));
    }

    fn on_missing(&mut self, from: NodeId, first: u64) {
        for seq in first..=(self.ordered.len() as u64).min(first + ASK_MAX) {
            let entry = self.ordered[seq as usize - 1].clone();
            self.send(Destination::One(from), Lane::Data, Message::Ordered(seq, entry));
        }
    }
}

impl Engine for Sequencer {
    type Packet = Message;

    fn capability(&self) -> Capability {
        Capability {
            protocol: "test sequencer",
            services: &[Service::Agreed],
            offers: Offers::None,
            needs_arrival_times: self.needs_arrival_times,
            quorum: false,
            durable: self.durable,
            reliable_links: self.reliable,
            continues_in_minority: false,
            replays: false,
            across_partitions: AcrossPartitions::PerComponent,
        }
    }

    fn start(&mut self, now: Instant, records: &[Bytes]) {
        self.found = records.len() as u64;
        self.tick = now + self.every;
        self.outputs.push_back(Output::Install(View {
            id: ViewId { number: 1, representative: self.members[0] },
            kind: ViewKind::Regular,
            members: self.members.clone(),
            moved_together: vec![self.me],
            primary: Primary::No,
            cause: ViewCause::Formed,
            evidence: Vec::new(),
            missed_primary: false,
        }));
    }

    fn submit(&mut self, _now: Instant, submission: Submission) -> Result<MessageId, Refused> {
        if self.waiting.len() >= WAITING_MAX && submission.class == Class::Client {
            self.refused = true;
            return Err(Refused::Full { queued: self.waiting.len(), limit: WAITING_MAX });
        }
        if submission.class == Class::Client && !self.resumed {
            self.refused = true;
            return Err(Refused::Full { queued: 0, limit: 0 });
        }
        let id = self.next_id;
        self.next_id += 1;
        let Submission { class, service, payload, .. } = submission;
        let entry = Entry { sender: self.me, id, class, service, payload: payload.to_bytes() };
        self.waiting.insert(id, entry.clone());
        self.ask(entry);
        Ok(MessageId(id))
    }

    fn handle_packet(&mut self, now: Instant, arrival: Arrival, packet: Message) {
        self.arrivals_ahead += u64::from(arrival.at > now);
        match packet {
            Message::Request(entry) => self.on_request(entry),
            Message::Ordered(seq, entry) => self.on_ordered(seq, entry),
            Message::Missing(seq) => self.on_missing(arrival.from.node, seq.max(1)),
            Message::Beacon(last) if last > self.delivered => {
                self.send(self.leader(), Lane::Control, Message::Missing(self.delivered + 1));
            }
            Message::Beacon(_) => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now < self.tick {
            return;
        }
        self.tick = now + self.every;
        if self.leads() {
            self.send(Destination::All, Lane::Control, Message::Beacon(self.ordered.len() as u64));
            return;
        }
        let again: Vec<_> = self.waiting.values().cloned().collect();
        again.into_iter().for_each(|entry| self.ask(entry));
    }

    fn handle_persisted(&mut self, _now: Instant, ticket: Ticket) {
        assert_eq!(self.unsynced.keys().next(), Some(&ticket), "records are done in order");
        let entry = self.unsynced.remove(&ticket).unwrap();
        self.number(entry);
    }

    fn handle_link(&mut self, _now: Instant, _peer: NodeId, _link: Link) {}

    fn annotate(&mut self, _annotation: Bytes) {}

    /// Over reliable links it misses something while it leaves, as an engine may.
    fn leave(&mut self, _now: Instant) {
        let restart = Output::Restart { cause: "it missed something".into(), records: Vec::new(), exceed: None };
        self.outputs.push_back(if self.reliable { restart } else { Output::Left });
    }

    fn resume(&mut self, _now: Instant, _view: ViewId) {
        self.resumed = true;
        if std::mem::take(&mut self.refused) {
            self.outputs.push_back(Output::Room);
        }
    }

    fn poll_output(&mut self) -> Option<Output<Message>> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.tick)
    }

    fn reads_first(&self) -> Lane {
        if self.leads() { Lane::Token } else { Lane::Data }
    }

    fn observe(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        self.each_counter(&mut |name, value| see(Fact::Counter(name, value)));
        see(Fact::State(self.describe(now)));
    }
}

impl Sequencer {
    fn each_counter(&self, see: &mut dyn FnMut(&'static str, u64)) {
        see("arrivals_ahead", self.arrivals_ahead);
        see("records_found", self.found);
    }

    fn describe(&self, _now: Instant) -> String {
        format!("delivered {}", self.delivered)
    }
}
