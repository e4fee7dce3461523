//! One engine whose only peers are a test: what it is told, and what it says.
use crate::acceptor::Standing;
use crate::ballot::{Ballot, Began, Item, LogId, ValueId};
use crate::config::Config;
use crate::coordinator::Role;
use crate::engine::Paxos;
use crate::packet::{Acceptance, Beat, Content, Lead, Packet, Recovered, Told};
use crate::record::{LogStart, Record};
use consort_order::{Arrival, Destination, Engine, Lane, Link, Output, Submission};
use consort_types::{Class, Incarnation, Instant, MemberId, NodeId, OrderStream, Service, ViewKind};
use consort_wire::Packet as _;

pub const LOG: LogId = LogId(5);

/// Another node in its first incarnation; this one is node 0 in its ninth.
pub const fn other(node: u16) -> MemberId {
    MemberId::new(node, 1)
}

pub const ME: MemberId = MemberId::new(0, 9);

/// What a disk holds behind everything else that it needs.
pub fn log_start() -> Record {
    let (began, from) = Default::default();
    Record::Checkpoint(Box::new(LogStart { log: LOG, founders: Vec::new(), began, promised: Ballot::ZERO, from }))
}

pub fn ballot(round: u64, owner: MemberId) -> Ballot {
    Ballot { generation: 0, round, owner }
}

/// Node 0 of some, all of which vote. Its disk takes everything at once.
pub struct Solo {
    pub engine: Paxos,
    now: Instant,
    /// What its disk was given, in that order.
    pub records: Vec<Record>,
    /// The messages it was given.
    pub delivered: Vec<String>,
    /// Whether it has gone.
    pub left: bool,
    /// It ended its incarnation, and the next one must exceed this.
    pub exceeds: Option<Incarnation>,
    said: Vec<(Destination, Content)>,
}

impl Solo {
    /// It finds these on its disk.
    pub fn with(nodes: u16, records: &[Record]) -> Self {
        let mut config = Config::new(NodeId(0), (0..nodes).map(NodeId).collect());
        config.acceptors = config.members.clone();
        #[cfg(feature = "mutants")]
        {
            config.mutant = super::mutants::broken();
        }
        let engine = Paxos::new(config, Incarnation(9)).unwrap();
        let now = Instant(1_000_000_000);
        let (written, delivered, said) = Default::default();
        let mut solo = Self { engine, now, records: written, delivered, left: false, exceeds: None, said };
        let records: Vec<_> = records.iter().map(Record::encode).collect();
        solo.engine.start(now, &records);
        solo.drain();
        solo
    }

    /// It has a log, and has promised nothing.
    pub fn voting(nodes: u16) -> Self {
        Self::with(nodes, &[log_start()])
    }

    /// It has forgotten, and knows which log the others have.
    pub fn blank(nodes: u16) -> Self {
        let mut solo = Self::with(nodes, &[]);
        solo.hand(other(1), Content::Beat(Box::new(beat(Ballot::ZERO))));
        assert_eq!(solo.engine.log(), LOG);
        solo
    }

    /// It stands, and what it has asked is still unanswered.
    pub fn standing(nodes: u16) -> (Self, Ballot) {
        let mut solo = Self::voting(nodes);
        (1..nodes).for_each(|node| drop(solo.hand(other(node), Content::Beat(Box::new(beat(Ballot::ZERO))))));
        solo.tick();
        let Role::Preparing { ballot, .. } = solo.engine.role() else { panic!("it does not stand") };
        let ballot = *ballot;
        (solo, ballot)
    }

    /// It leads by the promises of a majority that has accepted nothing.
    pub fn leading(nodes: u16) -> (Self, Ballot) {
        let (mut solo, ballot) = Self::standing(nodes);
        for node in 1..=nodes / 2 {
            solo.hand(other(node), Content::Promise { ballot, told: Told::default() });
        }
        assert!(solo.leads());
        (solo, ballot)
    }

    pub fn leads(&self) -> bool {
        matches!(self.engine.role(), Role::Leading(_))
    }

    pub fn votes(&self) -> bool {
        self.engine.acceptor().unwrap().votes()
    }

    /// Whether it has all that it may have promised, and waits until others have noted that it is about to vote.
    pub fn announces(&self) -> bool {
        matches!(self.engine.acceptor().unwrap().standing, Standing::Announcing { .. })
    }

    /// Another says that its disk has this incarnation.
    pub fn note_at(&mut self, node: u16) {
        let noted = std::iter::once(ME).collect();
        self.hand(other(node), Content::Beat(Box::new(Beat { noted, ..beat(Ballot::ZERO) })));
    }

    /// Another says something; what it says upon that.
    pub fn hand(&mut self, from: MemberId, content: Content) -> Vec<(Destination, Content)> {
        let mut bytes = bytes::BytesMut::new();
        let tail = Packet { log: LOG, content }.encode(&mut bytes);
        bytes.extend_from_slice(&tail);
        let Ok(packet) = Packet::decode(bytes.freeze()) else { return Vec::new() };
        let arrival = Arrival { at: self.now, from, lane: Lane::Reliable };
        self.engine.handle_packet(self.now, arrival, packet);
        self.drain()
    }

    /// Its next beat is due; what it says then.
    pub fn tick(&mut self) -> Vec<(Destination, Content)> {
        self.now = self.engine.poll_timeout().unwrap().max(self.now);
        self.engine.handle_timeout(self.now);
        self.drain()
    }

    /// Two beats pass, in which all others are heard.
    pub fn rounds(&mut self, nodes: u16, next: u64) -> Vec<(Destination, Content)> {
        let mut said = Vec::new();
        for _ in 0..4 {
            for node in 1..nodes {
                let beat = Beat { next, view: 1, ..beat(Ballot::ZERO) };
                said.extend(self.hand(other(node), Content::Beat(Box::new(beat))));
            }
            said.extend(self.tick());
        }
        said
    }

    /// What those that heard its last beat say of it.
    pub fn echo(&self) -> Option<(Ballot, u64)> {
        let Role::Leading(leading) = self.engine.role() else { return None };
        Some((leading.ballot, leading.beats.back()?.0))
    }

    /// The link to another breaks, or comes up again.
    pub fn link(&mut self, node: NodeId, link: Link) {
        self.engine.handle_link(self.now, node, link);
    }

    pub fn submit(&mut self, text: &'static str) -> Vec<(Destination, Content)> {
        let payload = bytes::Bytes::from_static(text.as_bytes()).into();
        let stream = OrderStream(0);
        let submission = Submission { class: Class::Client, service: Service::Agreed, stream, payload };
        self.engine.submit(self.now, submission).unwrap();
        self.drain()
    }

    pub fn leave(&mut self) {
        self.engine.leave(self.now);
    }

    pub fn decide(&mut self, at: u64, item: Item) -> Vec<(Destination, Content)> {
        self.hand(other(1), Content::Decide { at, item, hops: 0 })
    }

    pub fn gauge(&self, wanted: &str) -> u64 {
        let mut found = None;
        self.engine.each_counter(&mut |name, value| {
            if name == wanted {
                found = Some(value);
            }
        });
        found.unwrap()
    }

    fn drain(&mut self) -> Vec<(Destination, Content)> {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send { to, packet, .. } => self.said.push((to, packet.content)),
                Output::Persist { ticket, record, .. } => {
                    self.records.push(Record::decode(&record).unwrap());
                    self.engine.handle_persisted(self.now, ticket);
                }
                Output::Deliver(delivery) => {
                    self.delivered.push(String::from_utf8_lossy(&delivery.payload.to_bytes()).into_owned());
                }
                Output::Left => self.left = true,
                Output::Restart { exceed, .. } => self.exceeds = exceed,
                Output::Install(view) if view.kind == ViewKind::Regular => self.engine.resume(self.now, view.id),
                _ => {}
            }
        }
        std::mem::take(&mut self.said)
    }
}

/// A beat of one that votes, hears everybody and leads nobody.
pub fn beat(promised: Ballot) -> Beat {
    let hears = std::iter::once(ME).chain((1..7).map(other)).collect();
    Beat { acceptor: Acceptance::Ready, promised, hears, ..Beat::default() }
}

/// A beat of a coordinator, with the ring it announces.
pub fn lead(ballot: Ballot, ring: &[u16]) -> Content {
    let lead = Lead { ballot, version: 1, ring: ring.iter().copied().map(NodeId).collect() };
    Content::Beat(Box::new(Beat { lead: Some(lead), ..beat(ballot) }))
}

pub const fn named(sender: MemberId, view: u64, number: u64) -> ValueId {
    ValueId { sender, view, number }
}

/// Whether one of these is such a packet.
pub fn says(said: &[(Destination, Content)], what: impl Fn(&Content) -> bool) -> bool {
    said.iter().any(|(_, content)| what(content))
}

/// What one that votes tells one that has forgotten.
pub fn recovered(told: Told, promised: Ballot) -> Content {
    Content::Recovered(Box::new(Recovered {
        promised,
        told,
        founders: Vec::new(),
        began: Began { all: std::iter::once(ME).collect(), ..Began::default() },
    }))
}
