//! A small fixed sequencer: node 0 numbers, the others ask again for what they miss. It exists to try the simulator on
//! something simpler than any real protocol, and to be broken in ways that each checker must notice.
use bytes::{BufMut, Bytes, BytesMut};
use consort_order::{
    AcrossPartitions, Arrival, Capability, Delivery, Destination, Engine, Fact, Link, Offers, Output, Refused,
    Submission,
};
use consort_types::{
    Class, Duration, Instant, MemberId, MessageId, NodeId, OrderStream, Position, Primary, Service, Ticket, View,
    ViewCause, ViewId, ViewKind,
};
use consort_wire::{Lane, Malformed, Packet, Payload, Reader, Writer};
use std::collections::{BTreeMap, VecDeque};

const TICK: Duration = Duration::from_millis(5);
const WAITING_MAX: usize = 64 << 10;
const RESEND_MAX: u64 = 20;

/// How the sequencer is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// Node 2 delivers two messages that it can deliver at once the wrong way round.
    Swaps,
    /// Node 2 goes on where a message is missing.
    PastHoles,
    /// Delivers again what comes again.
    Twice,
    /// Loses the last byte of a message.
    Cut,
    /// Says that the leader sent everything.
    WrongSender,
    /// The leader numbers requests as they come.
    Overtaking,
    /// Delivers safe messages at once.
    SafeEarly,
    /// Node 2 delivers nothing after its hundredth message.
    Stuck,
    /// Node 2 counts positions from its own first message.
    OwnPositions,
    /// Gives a sender's messages back without their id.
    NoId,
    /// Installs a view without itself.
    OutsideView,
    /// Never lets go of what is stable.
    Hoards,
    /// Asks the leader for everything twice.
    AsksTwice,
    /// Counts an assertion that failed.
    Asserts,
    /// Wants to be woken in the past.
    Spins,
    /// Refuses what it should take.
    Refuses,
    /// Never says that there is room again.
    NoRoom,
}

#[derive(Clone, Debug)]
pub struct Ordered {
    sender: MemberId,
    id: u64,
    class: Class,
    service: Service,
    payload: Bytes,
}

#[derive(Clone, Debug)]
pub enum Message {
    Request(Ordered),
    Ordered {
        seq: u64,
        message: Ordered,
    },
    Missing {
        from: u64,
    },
    /// From the leader: how far it has numbered, and what all hold. From others: what they hold, twice.
    Line {
        next: u64,
        stable: u64,
    },
}

impl Packet for Message {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        let put = |head: &mut BytesMut, kind: u8, a: u64, b: u64| {
            head.put_u8(kind);
            head.put_u64(a);
            head.put_u64(b);
        };
        let message = match self {
            Self::Request(message) => {
                put(head, 0, 0, 0);
                message
            }
            Self::Ordered { seq, message } => {
                put(head, 1, *seq, 0);
                message
            }
            Self::Missing { from } => {
                put(head, 2, *from, 0);
                return Bytes::new();
            }
            Self::Line { next, stable } => {
                put(head, 3, *next, *stable);
                return Bytes::new();
            }
        };
        head.put_member(message.sender);
        head.put_u64(message.id);
        head.put_u8(u8::from(message.class == Class::Control));
        head.put_u8(message.service as u8);
        message.payload.clone()
    }

    fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&bytes);
        let kind = reader.u8("kind")?;
        let (a, b) = (reader.u64("a")?, reader.u64("b")?);
        if kind == 2 || kind == 3 {
            reader.end("packet")?;
            return Ok(if kind == 2 { Self::Missing { from: a } } else { Self::Line { next: a, stable: b } });
        }
        let sender = reader.member("sender")?;
        let id = reader.u64("id")?;
        let class = if reader.u8("class")? == 0 { Class::Client } else { Class::Control };
        let service = Service::from_wire(reader.u8("service")?).ok_or(reader.bad("service"))?;
        let message = Ordered { sender, id, class, service, payload: bytes.slice(reader.at()..) };
        Ok(if kind == 0 { Self::Request(message) } else { Self::Ordered { seq: a, message } })
    }
}

#[derive(Debug)]
pub struct Sequencer {
    flaw: Flaw,
    me: MemberId,
    members: Vec<MemberId>,
    submitted: u64,
    /// My messages without a number.
    waiting: BTreeMap<u64, Ordered>,
    /// Held back until the layer above has settled.
    held: Vec<Submission>,
    resumed: bool,
    refused: bool,
    /// At the leader: the next request of each node, and what each node holds.
    next_of: BTreeMap<NodeId, u64>,
    held_by: BTreeMap<NodeId, u64>,
    numbered: u64,
    /// What has a number and may still be needed, by number from 1.
    store: BTreeMap<u64, Ordered>,
    received: u64,
    delivered: u64,
    /// Where node 2 would be if it counted by itself.
    counted: u64,
    stable: u64,
    asked: u64,
    tick: Option<Instant>,
    /// When the leader is to number what waits at itself.
    number: Option<Instant>,
    output: VecDeque<Output<Message>>,
}

impl Sequencer {
    pub fn new(me: MemberId, members: Vec<MemberId>, flaw: Flaw) -> Self {
        Self {
            flaw,
            me,
            next_of: members.iter().map(|member| (member.node, 1)).collect(),
            held_by: members.iter().map(|member| (member.node, 0)).collect(),
            members,
            submitted: 0,
            waiting: BTreeMap::new(),
            held: Vec::new(),
            resumed: false,
            refused: false,
            numbered: 0,
            store: BTreeMap::new(),
            received: 0,
            delivered: 0,
            counted: 0,
            stable: 0,
            asked: 0,
            tick: None,
            number: None,
            output: VecDeque::new(),
        }
    }

    pub fn holds(&self, _view: ViewId, position: Position) -> Option<bool> {
        Some(position.0 <= self.stable || self.store.contains_key(&position.0))
    }

    /// The first view is of oneself alone, as in any group; from then on the members are those that were configured.
    fn install(&mut self, number: u64, kind: ViewKind, members: Vec<MemberId>) {
        let representative = if members.len() == 1 { self.me } else { self.members[0] };
        let moved_together = vec![self.me];
        let (primary, cause, evidence) = (Primary::No, ViewCause::Formed, Vec::new());
        let id = ViewId { number, representative };
        self.output.push_back(Output::Install(View {
            id,
            kind,
            members,
            moved_together,
            primary,
            cause,
            evidence,
            missed_primary: false,
        }));
    }

    /// A gauge by its name.
    pub fn observed(&self, name: &str) -> u64 {
        let mut found = 0;
        self.each_counter(&mut |known, value| found = if known == name { value } else { found });
        found
    }

    fn leader(&self) -> NodeId {
        self.members[0].node
    }

    fn leads(&self) -> bool {
        self.me.node == self.leader()
    }

    /// This node is the one that some flaws strike.
    fn is_odd_one(&self) -> bool {
        self.me.node == NodeId(2)
    }

    fn send(&mut self, to: Destination, packet: Message) {
        self.output.push_back(Output::Send { to, lane: Lane::Data, packet });
    }

    fn waiting_bytes(&self) -> usize {
        let held = self.held.iter().map(|submission| submission.payload.len());
        self.waiting.values().map(|message| message.payload.len()).chain(held).map(|len| len + 64).sum()
    }

    fn on_request(&mut self, message: Ordered) {
        let next = self.next_of.entry(message.sender.node).or_insert(1);
        if message.id < *next || (message.id > *next && self.flaw != Flaw::Overtaking) {
            return; // numbered already, or its turn has not come: it will be asked for again
        }
        *next = message.id + 1;
        self.numbered += 1;
        let seq = self.numbered;
        self.send(Destination::All, Message::Ordered { seq, message: message.clone() });
        self.on_ordered(seq, message);
    }

    fn on_ordered(&mut self, seq: u64, message: Ordered) {
        if seq <= self.stable || self.store.contains_key(&seq) {
            if self.flaw == Flaw::Twice && seq <= self.delivered {
                self.deliver(seq, message);
            }
            return;
        }
        self.store.insert(seq, message);
        while self.store.contains_key(&(self.received + 1)) {
            self.received += 1;
        }
        self.advance();
    }

    fn advance(&mut self) {
        let before = self.output.len();
        self.deliver_what_can_be();
        if self.flaw == Flaw::Swaps && self.is_odd_one() && self.output.len() == before + 2 {
            self.output.swap(before, before + 1);
        }
    }

    fn deliver_what_can_be(&mut self) {
        loop {
            let mut next = self.delivered + 1;
            if self.flaw == Flaw::PastHoles && self.is_odd_one() && !self.store.contains_key(&next) {
                next += 1;
            }
            let Some(message) = self.store.get(&next).cloned() else { return };
            let waits = message.service == Service::Safe && next > self.stable && self.flaw != Flaw::SafeEarly;
            if waits || (self.flaw == Flaw::Stuck && self.is_odd_one() && self.delivered == 100) {
                return;
            }
            self.delivered = next;
            self.settle(&message);
            self.deliver(next, message);
        }
    }

    /// A message of mine has its number.
    fn settle(&mut self, message: &Ordered) {
        if message.sender == self.me {
            self.waiting.remove(&message.id);
            if self.refused && self.waiting_bytes() < WAITING_MAX / 2 && self.flaw != Flaw::NoRoom {
                self.refused = false;
                self.output.push_back(Output::Room);
            }
        }
    }

    fn deliver(&mut self, seq: u64, message: Ordered) {
        self.counted += 1;
        let mut payload = message.payload;
        if self.flaw == Flaw::Cut && payload.len() > 100 {
            payload.truncate(payload.len() - 1);
        }
        let own = message.sender == self.me && self.flaw != Flaw::NoId;
        let odd = self.flaw == Flaw::OwnPositions && self.is_odd_one();
        self.output.push_back(Output::Deliver(Delivery {
            stream: OrderStream(0),
            position: Position(if odd { self.counted + 1 } else { seq }),
            sender: if self.flaw == Flaw::WrongSender { self.members[0] } else { message.sender },
            id: own.then_some(MessageId(message.id)),
            class: message.class,
            service: message.service,
            payload: Payload::from(payload),
        }));
    }

    fn on_missing(&mut self, node: NodeId, from: u64) {
        let range = from..=self.numbered.min(from.saturating_add(RESEND_MAX));
        let again: Vec<_> = range.filter_map(|seq| Some((seq, self.store.get(&seq)?.clone()))).collect();
        again
            .into_iter()
            .for_each(|(seq, message)| self.send(Destination::One(node), Message::Ordered { seq, message }));
    }

    fn on_line(&mut self, from: NodeId, next: u64, stable: u64) {
        if self.leads() {
            let held = self.held_by.entry(from).or_default();
            *held = next.max(*held);
            return;
        }
        if next > self.received {
            self.ask();
        }
        self.settle_stable(stable.min(self.received));
    }

    fn ask(&mut self) {
        self.asked += 1;
        self.send(Destination::One(self.leader()), Message::Missing { from: self.received + 1 });
    }

    fn settle_stable(&mut self, stable: u64) {
        self.stable = stable.max(self.stable);
        self.advance();
        let kept = self.stable.min(self.delivered) + 1;
        if self.flaw != Flaw::Hoards {
            self.store = self.store.split_off(&kept);
        }
    }

    fn on_tick(&mut self, now: Instant) {
        self.tick = Some(now + TICK);
        if self.leads() {
            self.held_by.insert(self.me.node, self.received);
            let stable = self.held_by.values().min().copied().unwrap_or(0);
            self.settle_stable(stable);
            self.send(Destination::All, Message::Line { next: self.numbered, stable });
            return;
        }
        self.send(Destination::One(self.leader()), Message::Line { next: self.received, stable: self.received });
        let again: Vec<_> = self.waiting.values().take(RESEND_MAX as usize).cloned().collect();
        again.into_iter().for_each(|message| self.send(Destination::One(self.leader()), Message::Request(message)));
        if self.flaw == Flaw::AsksTwice {
            self.ask();
        }
    }
}

impl Engine for Sequencer {
    type Packet = Message;

    fn capability(&self) -> Capability {
        Capability {
            protocol: "sequencer",
            services: &[Service::Agreed, Service::Safe],
            offers: Offers::None,
            needs_arrival_times: false,
            quorum: false,
            durable: false,
            reliable_links: false,
            continues_in_minority: false,
            replays: false,
            across_partitions: AcrossPartitions::PerComponent,
        }
    }

    fn start(&mut self, now: Instant, _records: &[Bytes]) {
        self.tick = Some(now + TICK);
        let mut members = self.members.clone();
        if self.flaw == Flaw::OutsideView {
            members.retain(|member| *member != self.me);
        }
        self.install(1, ViewKind::Regular, vec![self.me]);
        self.install(1, ViewKind::Transitional, vec![self.me]);
        self.install(2, ViewKind::Regular, members);
    }

    fn leave(&mut self, _now: Instant) {
        self.output.push_back(Output::Left);
    }

    fn submit(&mut self, now: Instant, submission: Submission) -> Result<MessageId, Refused> {
        let queued = self.waiting_bytes();
        if queued > WAITING_MAX {
            self.refused = true;
            return Err(Refused::Full { queued, limit: WAITING_MAX });
        }
        if self.flaw == Flaw::Refuses && self.submitted == 9 {
            return Err(Refused::TooLarge { len: submission.payload.len(), max: 0 });
        }
        if submission.class == Class::Client && !self.resumed {
            self.held.push(submission);
            return Ok(MessageId(0)); // nobody who holds messages back asks for their names
        }
        self.submitted += 1;
        let Submission { class, service, payload, .. } = submission;
        let message = Ordered { sender: self.me, id: self.submitted, class, service, payload: payload.to_bytes() };
        self.waiting.insert(message.id, message.clone());
        if self.leads() {
            self.number = Some(now);
        } else {
            self.send(Destination::One(self.leader()), Message::Request(message));
        }
        Ok(MessageId(self.submitted))
    }

    fn handle_packet(&mut self, _now: Instant, arrival: Arrival, packet: Message) {
        match packet {
            Message::Request(message) if self.leads() => self.on_request(message),
            Message::Ordered { seq, message } => self.on_ordered(seq, message),
            Message::Missing { from } if self.leads() => self.on_missing(arrival.from.node, from),
            Message::Line { next, stable } => self.on_line(arrival.from.node, next, stable),
            Message::Request(_) | Message::Missing { .. } => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.number.take().is_some() {
            let mine: Vec<_> = self.waiting.values().cloned().collect();
            mine.into_iter().for_each(|message| self.on_request(message));
        }
        if self.tick.is_some_and(|at| at <= now) {
            self.on_tick(now);
        }
    }

    fn handle_persisted(&mut self, _now: Instant, _ticket: Ticket) {}
    fn handle_link(&mut self, _now: Instant, _peer: NodeId, _link: Link) {}
    fn annotate(&mut self, _annotation: Bytes) {}
    fn resume(&mut self, now: Instant, view: ViewId) {
        self.resumed |= view.number == 2;
        for submission in if self.resumed { std::mem::take(&mut self.held) } else { Vec::new() } {
            let _ = self.submit(now, submission);
        }
    }

    fn poll_output(&mut self) -> Option<Output<Message>> {
        self.output.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.flaw == Flaw::Spins && self.delivered > 10 { Some(Instant::ZERO) } else { self.number.or(self.tick) }
    }

    fn reads_first(&self) -> Lane {
        Lane::Data
    }

    fn observe(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        self.each_counter(&mut |name, value| see(Fact::Counter(name, value)));
        see(Fact::State(self.describe(now)));
    }
}

impl Sequencer {
    fn each_counter(&self, see: &mut dyn FnMut(&'static str, u64)) {
        see("store_packets", self.store.len() as u64);
        see("queued_bytes", self.waiting_bytes() as u64);
        see("asked", self.asked);
        see("assertion_failures", u64::from(self.flaw == Flaw::Asserts && self.delivered > 10));
    }

    fn describe(&self, _now: Instant) -> String {
        format!("delivered {} of {} received", self.delivered, self.received)
    }
}
