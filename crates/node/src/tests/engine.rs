//! An ordering protocol for tests: the first member numbers everything, the network loses nothing, and nothing moves
//! before the next tick.
use bytes::{BufMut, Bytes, BytesMut};
use consort_order::{
    AcrossPartitions, Arrival, Capability, Declaration, DeclareProgress, Delivery, Destination, Engine, Fact, Lane,
    Link, Malformed, Obstacle, Offers, Output, Overfull, Packet, Payload, PeerReach, Pressure, Refused, Retained,
    Submission, Topic,
};
use consort_types::{
    Class, Copies, Duration, Holder, Instant, MemberId, MessageId, NodeId, OrderStream, OrderWait, Position, Primary,
    Service, Ticket, View, ViewCause, ViewId, ViewKind,
};
use consort_wire::Reader;
use std::collections::{BTreeMap, VecDeque};

pub(super) const TICK: Duration = Duration::from_millis(1);

/// One message on its way, or, with a position, in its place.
#[derive(Clone, Debug)]
pub(super) struct Numbered {
    position: u64,
    sender: MemberId,
    class: Class,
    service: Service,
    payload: Bytes,
}

impl Packet for Numbered {
    fn encode(&self, head: &mut BytesMut) -> Bytes {
        head.put_u64(self.position);
        consort_wire::Writer::put_member(head, self.sender);
        head.put_u8(u8::from(self.class == Class::Control));
        head.put_u8(self.service as u8);
        self.payload.clone()
    }

    fn decode(bytes: Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&bytes);
        let (position, sender) = (reader.u64("position")?, reader.member("sender")?);
        let class = if reader.u8("class")? == 1 { Class::Control } else { Class::Client };
        let service = Service::from_wire(reader.u8("service")?).ok_or(reader.bad("service"))?;
        Ok(Self { position, sender, class, service, payload: bytes.slice(reader.at()..) })
    }
}

/// The engine of one node.
#[derive(Debug)]
pub(super) struct Sequencer {
    me: MemberId,
    members: Vec<MemberId>,
    view: ViewId,
    resumed: bool,
    annotation: Bytes,
    queue: VecDeque<Numbered>,
    queued: usize,
    pub limit: usize,
    pub message_max: usize,
    /// What control messages may queue.
    pub control_limit: usize,
    /// What it was told last to let through.
    pub room: usize,
    /// The first member delivers what it is given within `submit`.
    pub at_once: bool,
    /// What it says that messages wait for.
    pub wait_cause: Option<OrderWait>,
    /// Why it says that nothing is ordered soon.
    pub obstacle: Option<Obstacle>,
    /// How it says that others are reached.
    pub peers: Vec<PeerReach>,
    /// Nothing moves, whatever time it is.
    pub stuck: bool,
    /// How views begin.
    pub primary: Primary,
    refused: bool,
    pub numbered: u64,
    /// What it was asked to declare, and what it answers the third time.
    pub declared: Vec<(String, Option<Position>)>,
    pub declaring: DeclareProgress,
    /// Why messages of clients wait.
    pub overfull: Option<Overfull>,
    /// Whether it can show again what it was given.
    pub replays: bool,
    /// All that has its place.
    log: Vec<Delivery>,
    /// The first position that is retained.
    pub oldest: u64,
    /// From where on programs have yet to read.
    pub held: Option<Position>,
    /// Learns what has its place and delivers none of it, as one that others left out.
    pub is_away: bool,
    /// Names the order.
    pub order: u64,
    submitted: u64,
    /// What was submitted here and has no place yet.
    own: VecDeque<MessageId>,
    /// The streams that client messages were for.
    pub streams: Vec<u16>,
    /// Whether nodes may be spared what they do not read, and the topics that client messages were for.
    pub filters: bool,
    pub topics: Vec<Vec<Topic>>,
    /// What this node reads, and whether all of that comes.
    pub reading: Option<Vec<Topic>>,
    pub is_read: bool,
    /// What keeps a topic from bringing anything.
    pub stalled: BTreeMap<Topic, OrderWait>,
    tick: Option<Instant>,
    outputs: VecDeque<Output<Numbered>>,
}

impl Sequencer {
    pub fn new(me: MemberId, members: Vec<MemberId>) -> Self {
        Self {
            me,
            members,
            view: ViewId::default(),
            resumed: false,
            annotation: Bytes::new(),
            queue: VecDeque::new(),
            queued: 0,
            limit: 1 << 20,
            message_max: 1 << 20,
            control_limit: usize::MAX,
            room: usize::MAX,
            at_once: false,
            wait_cause: None,
            obstacle: None,
            peers: Vec::new(),
            stuck: false,
            primary: Primary::NoPolicy,
            refused: false,
            numbered: 0,
            declared: Vec::new(),
            declaring: DeclareProgress::Stands,
            overfull: None,
            replays: true,
            log: Vec::new(),
            oldest: 1,
            held: None,
            is_away: false,
            order: 77,
            submitted: 0,
            own: VecDeque::new(),
            streams: Vec::new(),
            filters: false,
            topics: Vec::new(),
            reading: None,
            is_read: true,
            stalled: BTreeMap::new(),
            tick: None,
            outputs: VecDeque::new(),
        }
    }

    /// What the layer above wants carried in beacons.
    pub fn annotation(&self) -> Bytes {
        self.annotation.clone()
    }

    /// Installs a view of these, of whom those of the view before came along.
    pub fn install(&mut self, members: Vec<MemberId>, cause: ViewCause) {
        let together = members.iter().filter(|member| self.members.contains(member)).copied().collect();
        self.install_with(members, together, cause);
    }

    /// Installs a view of these, of whom some came along.
    pub fn install_with(&mut self, members: Vec<MemberId>, moved_together: Vec<MemberId>, cause: ViewCause) {
        self.view = ViewId { number: self.view.number + 1, representative: members[0] };
        self.members.clone_from(&members);
        self.resumed = false;
        let (id, kind, primary) = (self.view, ViewKind::Regular, self.primary);
        self.outputs.push_back(Output::Install(View {
            id,
            kind,
            members,
            moved_together,
            primary,
            cause,
            evidence: Vec::new(),
            missed_primary: false,
        }));
    }

    /// Lets the engine say anything.
    pub fn put_out(&mut self, output: Output<Numbered>) {
        self.outputs.push_back(output);
    }

    pub fn resumed(&self) -> bool {
        self.resumed
    }

    fn send(&mut self, mut message: Numbered) {
        let first = self.members[0];
        if first != self.me {
            let (to, lane) = (Destination::One(first.node), Lane::Token);
            self.outputs.push_back(Output::Send { to, lane, packet: message });
            return;
        }
        self.numbered += 1;
        message.position = self.numbered;
        let packet = message.clone();
        self.outputs.push_back(Output::Send { to: Destination::All, lane: Lane::Data, packet });
        self.deliver(message);
    }

    fn deliver(&mut self, message: Numbered) {
        let delivery = Delivery {
            stream: OrderStream(0),
            position: Position(message.position),
            sender: message.sender,
            id: if message.sender == self.me { self.own.pop_front() } else { None },
            class: message.class,
            service: message.service,
            payload: message.payload.into(),
        };
        self.log.push(delivery.clone());
        if !self.is_away {
            self.outputs.push_back(Output::Deliver(delivery));
        }
    }
}

impl Engine for Sequencer {
    type Packet = Numbered;

    fn capability(&self) -> Capability {
        Capability {
            protocol: "test",
            services: &[Service::Agreed],
            offers: Offers::None,
            needs_arrival_times: false,
            quorum: false,
            durable: false,
            reliable_links: false,
            continues_in_minority: true,
            replays: self.replays,
            across_partitions: AcrossPartitions::PerComponent,
        }
    }

    fn start(&mut self, now: Instant, _records: &[Bytes]) {
        self.install(self.members.clone(), ViewCause::Formed);
        self.tick = Some(now + TICK);
    }

    fn submit(&mut self, _now: Instant, submission: Submission) -> Result<MessageId, Refused> {
        assert!(self.outputs.is_empty(), "one input, then the drain");
        let len = submission.payload.len();
        if len > self.message_max {
            return Err(Refused::TooLarge { len, max: self.message_max });
        }
        let client = submission.class == Class::Client;
        let limit = if client { self.limit } else { self.control_limit };
        if self.queued + len > limit {
            self.refused = true;
            return Err(Refused::Full { queued: self.queued, limit });
        }
        self.queued += len;
        let (sender, class, service) = (self.me, submission.class, submission.service);
        let payload: Payload = submission.payload;
        let message = Numbered { position: 0, sender, class, service, payload: payload.to_bytes() };
        self.submitted += 1;
        self.own.push_back(MessageId(self.submitted));
        self.streams.extend(client.then_some(submission.stream.0));
        if self.at_once && self.members[0] == self.me {
            self.queued -= len;
            self.send(message);
        } else {
            self.queue.push_back(message);
        }
        Ok(MessageId(self.submitted))
    }

    fn submit_to(&mut self, now: Instant, submission: Submission, topics: &[Topic]) -> Result<MessageId, Refused> {
        self.topics.push(topics.to_vec());
        self.submit(now, submission)
    }

    fn filters(&self) -> bool {
        self.filters
    }

    fn read(&mut self, _now: Instant, topics: &[Topic]) {
        assert!(self.outputs.is_empty(), "one input, then the drain");
        self.reading = Some(topics.to_vec());
    }

    fn reads(&self, topic: Topic) -> bool {
        self.reading.as_ref().is_none_or(|reading| self.is_read && reading.contains(&topic))
    }

    fn stalled(&self, topic: Topic) -> Option<OrderWait> {
        self.stalled.get(&topic).copied()
    }

    fn handle_packet(&mut self, _now: Instant, _arrival: Arrival, packet: Numbered) {
        match packet.position {
            0 => self.send(packet),
            _ => self.deliver(packet),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.tick.is_none_or(|tick| tick > now) {
            return;
        }
        self.tick = Some(now + TICK);
        if self.stuck {
            return;
        }
        let queue = std::mem::take(&mut self.queue);
        let (may_go, waits) = queue.into_iter().partition(|m| self.resumed || m.class == Class::Control);
        (self.queue, self.queued) = (waits, 0);
        let may_go: VecDeque<Numbered> = may_go;
        may_go.into_iter().for_each(|message| self.send(message));
        if (self.resumed || self.queued == 0) && std::mem::take(&mut self.refused) {
            self.outputs.push_back(Output::Room);
        }
    }

    fn handle_persisted(&mut self, _now: Instant, _ticket: Ticket) {}

    fn handle_link(&mut self, _now: Instant, _peer: NodeId, _link: Link) {}

    fn handle_pressure(&mut self, pressure: Pressure) {
        if let Pressure::Room(room) = pressure {
            self.room = room;
        }
    }

    fn annotate(&mut self, annotation: Bytes) {
        self.annotation = annotation;
    }

    fn resume(&mut self, _now: Instant, view: ViewId) {
        assert!(self.outputs.is_empty(), "one input, then the drain");
        self.resumed |= view == self.view;
    }

    fn leave(&mut self, _now: Instant) {
        self.outputs.push_back(Output::Left);
    }

    fn poll_output(&mut self) -> Option<Output<Numbered>> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.tick
    }

    fn reads_first(&self) -> Lane {
        Lane::Token
    }

    fn retained(&self) -> Option<Retained> {
        let last = self.log.last()?.position;
        Some(Retained { order: self.order, first: Position(self.oldest), last }).filter(|_| self.replays)
    }

    fn replay(&self, from: Position, see: &mut dyn FnMut(&Delivery) -> bool) {
        let retained = self.log.iter().filter(|delivery| delivery.position.0 >= self.oldest);
        let _ = retained.skip_while(|delivery| delivery.position < from).all(see);
    }

    fn hold(&mut self, from: Option<Position>) {
        self.held = from;
    }

    fn declare(&mut self, _now: Instant, declaration: &Declaration) -> DeclareProgress {
        if !self.replays {
            return DeclareProgress::Unsupported;
        }
        let from = match declaration {
            Declaration::Keep { from, .. } => Some(*from),
            Declaration::Bind(binding) => Some(binding.from),
            Declaration::Withdraw(_) => None,
        };
        self.declared.push((declaration.holder().to_string(), from));
        if self.declared.len() < 3 { DeclareProgress::Pending } else { self.declaring.clone() }
    }

    fn copies(&self, holder: &Holder) -> Copies {
        let copies = Copies::unsupported(holder.clone());
        Copies { lasts: self.replays, order: if self.replays { self.order } else { 0 }, ..copies }
    }

    fn overfull(&self) -> Option<&Overfull> {
        self.overfull.as_ref()
    }

    fn obstacle(&self, _now: Instant) -> Option<Obstacle> {
        self.obstacle.clone()
    }

    fn wait_cause(&self) -> Option<OrderWait> {
        self.wait_cause.filter(|_| self.queued > 0)
    }

    fn observe(&self, now: Instant, see: &mut dyn FnMut(Fact)) {
        self.each_counter(&mut |name, value| see(Fact::Counter(name, value)));
        self.peers.iter().for_each(|reach| see(Fact::Peer(*reach)));
        see(Fact::State(self.describe(now)));
    }
}

impl Sequencer {
    fn each_counter(&self, see: &mut dyn FnMut(&'static str, u64)) {
        see("test_numbered", self.numbered);
    }

    fn describe(&self, _now: Instant) -> String {
        format!("testing, {} queued", self.queue.len())
    }
}
