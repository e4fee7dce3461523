//! What somebody with the key says: garbage, and packets that are well formed and lie.
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};
use consort_ring::packet::{
    Ack, Beacon, Clocks, DataContent, DataPacket, Join, Late, NUMBER_MAX, Proposal, RingPacket, Token, Trail,
};
use consort_ring::{RingId, SEQ_END};
use consort_seal::greeting::{self, Entry, Greeting};
use consort_types::{ClusterId, ConfigHash, MemberId, NodeId, Rng, Seq};
use consort_wire::envelope::{self, EnvelopeView, Identity};
use consort_wire::pack::Body;
use consort_wire::path_mtu::{self, PathReport, Probe, Shape};
use consort_wire::{Lane, Packet};

use super::impostor::{Heard, KINDS, Name, Saying};

/// Whose name stands in an envelope that is left behind.
const NOBODY: Identity = Identity { cluster: ClusterId(0), config: ConfigHash(0), me: MemberId::new(0, 0) };
/// The longest garbage: with envelope and seal it fits into a datagram.
const LONGEST: u64 = 1_390;
/// A node that is not configured.
const STRANGER: NodeId = NodeId(9);
/// How often a packet is bent, until it reads well.
const TRIES: usize = 50;

/// One lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lie {
    /// Bytes of chance behind a seal that opens.
    Garbage,
    /// The same in the name of a node that is not configured.
    Stranger,
    /// A message in a member's name, at a place to come.
    Order,
    /// A packet that a daemon sent, with some bytes changed so that it reads well.
    Bent,
    /// A token with numbers far ahead.
    Token,
    /// Who should be in the next ring, and who should not.
    Join,
    /// Where a member is, and whom it hears.
    Beacon,
    /// What a member holds.
    Ack,
    /// Where the token is.
    Late,
    /// What drivers say to prove that they speak now.
    Greeting,
    /// What else they say: probes, pieces of datagrams, settings.
    Driver,
}

/// All of them.
pub const LIES: [Lie; 11] = [
    Lie::Garbage,
    Lie::Stranger,
    Lie::Order,
    Lie::Bent,
    Lie::Token,
    Lie::Join,
    Lie::Beacon,
    Lie::Ack,
    Lie::Late,
    Lie::Greeting,
    Lie::Driver,
];

impl Lie {
    /// What it is called in the trial's line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Garbage => "garbage",
            Self::Stranger => "of a stranger",
            Self::Order => "messages",
            Self::Bent => "bent",
            Self::Token => "tokens",
            Self::Join => "joins",
            Self::Beacon => "beacons",
            Self::Ack => "acks",
            Self::Late => "lates",
            Self::Greeting => "greetings",
            Self::Driver => "of drivers",
        }
    }
}

/// Makes lies.
#[derive(Debug)]
pub struct Liar {
    rng: Rng,
    /// The nodes whose daemons run.
    members: Vec<NodeId>,
}

impl Liar {
    /// Lies to these.
    pub const fn new(seed: u64, members: Vec<NodeId>) -> Self {
        Self { rng: Rng::new(seed), members }
    }

    /// Makes one of what was heard; `None` where nothing was heard that it is made of.
    pub fn tell(&mut self, lie: Lie, heard: &VecDeque<Heard>) -> Option<Saying> {
        let ring = heard.iter().rev().find_map(ring);
        match lie {
            Lie::Garbage => Some(self.garbage()),
            Lie::Stranger => Some(Saying { name: Name::Stranger(STRANGER), ..self.garbage() }),
            Lie::Order => self.order(heard),
            Lie::Bent => self.bent(heard),
            Lie::Token => self.token(heard),
            Lie::Join => self.join(ring?, heard),
            Lie::Beacon => self.beacon(heard),
            Lie::Ack => self.ack(ring?, heard),
            Lie::Late => self.late(ring?, heard),
            Lie::Greeting => Some(self.greeting()),
            Lie::Driver => self.driver(),
        }
    }

    fn garbage(&mut self) -> Saying {
        let len = self.rng.below(LONGEST) as usize;
        let kind = KINDS[self.rng.below(KINDS.len() as u64) as usize];
        let mut packet: Vec<u8> = (0..len).map(|_| self.rng.next_u64() as u8).collect();
        // Every other one has the kind byte of a packet.
        if self.rng.chance(0.5) {
            packet.iter_mut().take(1).for_each(|first| *first = self.rng.between(1, 9) as u8);
        }
        Saying { name: self.any(), kind, nonce: self.rng.below(1 << 20), packet, to: self.somebody() }
    }

    fn order(&mut self, heard: &VecDeque<Heard>) -> Option<Saying> {
        let all: Vec<_> = heard.iter().filter_map(message).collect();
        let ring = all.last()?.ring;
        let one = all[self.chance(all.len())];
        let originator = self.member()?;
        let seq = Seq(highest(ring, heard).0 + self.rng.between(1, 2));
        let content = if self.rng.chance(0.5) { one.content.clone() } else { self.altered(one) };
        let packet = DataPacket { ring, seq, originator, round: one.round + 1, content, ..one.clone() };
        Some(said(Name::Member(originator), Lane::Data, &RingPacket::Data(packet), None))
    }

    /// Messages with some bytes changed so that they read well, to those who do not look into them.
    fn altered(&mut self, data: &DataPacket) -> DataContent {
        let DataContent::Messages(body) = &data.content else { return data.content.clone() };
        let (whole, rng) = (body.as_bytes(), &mut self.rng);
        let altered = (0..TRIES).find_map(|_| Body::new(bend(rng, whole).into()).ok());
        DataContent::Messages(altered.unwrap_or_else(|| body.clone()))
    }

    fn bent(&mut self, heard: &VecDeque<Heard>) -> Option<Saying> {
        let Heard { from, kind, packet } = heard.get(self.rng.below(heard.len() as u64) as usize)?;
        let (whole, rng) = (bytes(packet), &mut self.rng);
        let packet = (0..TRIES).map(|_| bend(rng, &whole)).find(|bent| reads_well(bent))?;
        let name = if self.rng.chance(0.7) { Name::Member(*from) } else { self.any() };
        let to = if *kind == Lane::Token as u8 { Some(self.member()?) } else { self.somebody() };
        Some(Saying { name, kind: *kind, nonce: 0, packet, to })
    }

    fn token(&mut self, heard: &VecDeque<Heard>) -> Option<Saying> {
        let last = last_token(heard)?;
        let mut token = Token { token_seq: last.token_seq + self.rng.between(1, 1 << 20), ..last.clone() };
        let far = [1, 1 << 10, 1 << 30, SEQ_END][self.rng.below(4) as usize];
        token.seq = Seq((last.seq.0 + self.rng.below(far)).min(SEQ_END - 1));
        token.aru = Seq(last.aru.0 + self.rng.below(token.seq.0 - last.aru.0 + 1));
        let (name, to) = (Name::Member(self.member()?), self.member());
        Some(said(name, Lane::Token, &RingPacket::Token(token), to))
    }

    fn join(&mut self, ring: RingId, heard: &VecDeque<Heard>) -> Option<Saying> {
        let known = &members(heard);
        let rng = &mut self.rng;
        let mut some = |p: f64| known.iter().filter(|_| rng.chance(p)).copied().collect::<BTreeSet<MemberId>>();
        let (proc, fail) = (some(0.8), some(0.3));
        let far = if self.rng.chance(0.1) { NUMBER_MAX - ring.number } else { 1_000 };
        let proposal = Proposal {
            proc,
            fail,
            number: ring.number + self.rng.below(far),
            heard: known.iter().map(|member| member.node).collect(),
            leave: self.rng.chance(0.2),
            episode: self.rng.below(100),
            clocks: Box::new(self.clocks()),
        };
        Some(said(self.any(), Lane::Control, &RingPacket::Join(Join { proposal, ring, attempt: None }), None))
    }

    /// Ways that nothing takes.
    fn clocks(&mut self) -> Clocks {
        let mut any = || self.rng.next_u64() as u32;
        let (stamp, delay) = (any(), any());
        Clocks { stamp, delay, echoes: self.members.iter().map(|node| (*node, any())).collect() }
    }

    fn beacon(&mut self, heard: &VecDeque<Heard>) -> Option<Saying> {
        let last = heard.iter().rev().find_map(|heard| match &heard.packet {
            RingPacket::Beacon(beacon) => Some(beacon),
            _ => None,
        })?;
        let rng = &mut self.rng;
        let mut view = last.view;
        view.number += rng.below(1_000);
        let heard = self.members.iter().filter(|_| rng.chance(0.5)).copied().collect();
        let annotation: Vec<u8> = (0..rng.below(60)).map(|_| rng.next_u64() as u8).collect();
        let (wants, settled) = (rng.chance(0.3).then_some(view), rng.chance(0.5));
        let clocks = Box::new(self.clocks());
        let beacon = Beacon { view, heard, wants, settled, clocks, annotation: annotation.into(), ..last.clone() };
        Some(said(self.any(), Lane::Control, &RingPacket::Beacon(beacon), None))
    }

    fn ack(&mut self, ring: RingId, heard: &VecDeque<Heard>) -> Option<Saying> {
        let far = if self.rng.chance(0.5) { 10 } else { 1 << 40 };
        let aru = Seq((highest(ring, heard).0 + self.rng.below(far)).min(SEQ_END - 1));
        let stable = Seq(self.rng.below(aru.0 + 1));
        let name = Name::Member(self.member()?);
        Some(said(name, Lane::Control, &RingPacket::Ack(Ack { ring, aru, stable }), self.somebody()))
    }

    fn late(&mut self, ring: RingId, heard: &VecDeque<Heard>) -> Option<Saying> {
        let last = last_token(heard)?;
        let trail = Trail { token_seq: last.token_seq + self.rng.below(1 << 20), to: self.member()? };
        let heard = self.members.iter().copied().collect();
        let late = Late { ring, asks: self.rng.chance(0.5), trail, heard };
        Some(said(Name::Member(self.member()?), Lane::Control, &RingPacket::Late(late), None))
    }

    fn greeting(&mut self) -> Saying {
        let rng = &mut self.rng;
        let mut entry = |node: &NodeId| Entry {
            node: *node,
            salt: None,
            question: rng.below(100) as u32,
            answer: rng.below(100) as u32,
            proven: rng.chance(0.5),
        };
        let entries = self.members.iter().map(&mut entry).collect();
        let said = Greeting { counters: std::array::from_fn(|_| self.rng.next_u64() >> 16), entries };
        let packet = said.encode(&NOBODY).split_off(envelope::LEN).to_vec();
        Saying { name: self.any(), kind: greeting::KIND, nonce: 0, packet, to: None }
    }

    fn driver(&mut self) -> Option<Saying> {
        let rng = &mut self.rng;
        let mut word = || format!("{:x}", rng.next_u64());
        let lines: Vec<_> = (0..3).map(|_| (word(), word())).collect();
        let datagram = match rng.below(3) {
            0 => path_mtu::seal_settings(&NOBODY, &lines).0,
            1 => {
                let shape = Shape::new(rng.between(1_000, 60_000) as usize, 1_000)?;
                let (whole, which) = (vec![7; shape.total()], rng.below(shape.count() as u64) as usize);
                path_mtu::cut(NOBODY, rng.below(4) as u32, shape, &whole, &[]).nth(which)?
            }
            _ => {
                let report = |node: &NodeId| PathReport {
                    node: *node,
                    passes: Some(rng.next_u64() as u16),
                    doubts: rng.chance(0.5),
                    wants_all: rng.chance(0.5),
                    by_group: [None, Some(true), Some(false)][rng.below(3) as usize],
                };
                let reports = self.members.iter().map(report).collect();
                Probe { round: rng.next_u64() as u32, reports }.seal(&NOBODY, rng.between(100, LONGEST) as usize)
            }
        };
        let view = EnvelopeView::new(&datagram).ok()?;
        let (kind, nonce, packet) = (view.kind(), view.nonce(), datagram[envelope::LEN..].to_vec());
        Some(Saying { name: self.any(), kind, nonce, packet, to: self.somebody() })
    }

    /// A number below `n`.
    pub const fn chance(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    fn member(&mut self) -> Option<NodeId> {
        self.members.get(self.rng.below(self.members.len() as u64) as usize).copied()
    }

    /// All, or one of them.
    fn somebody(&mut self) -> Option<NodeId> {
        if self.rng.chance(0.5) { None } else { self.member() }
    }

    fn any(&mut self) -> Name {
        let member = self.member().filter(|_| self.rng.chance(0.8));
        match member {
            Some(node) if self.rng.chance(0.2) => Name::Later(node),
            Some(node) => Name::Member(node),
            None => Name::Own,
        }
    }
}

/// The ring that a packet names.
fn ring(heard: &Heard) -> Option<RingId> {
    match &heard.packet {
        RingPacket::Data(data) => Some(data.ring),
        RingPacket::Token(token) => Some(token.ring),
        RingPacket::Ack(ack) => Some(ack.ring),
        RingPacket::Beacon(beacon) => Some(beacon.view),
        _ => None,
    }
}

fn message(heard: &Heard) -> Option<&DataPacket> {
    match &heard.packet {
        RingPacket::Data(data) if matches!(data.content, DataContent::Messages(_)) => Some(data),
        _ => None,
    }
}

fn last_token(heard: &VecDeque<Heard>) -> Option<&Token> {
    heard.iter().rev().find_map(|heard| match &heard.packet {
        RingPacket::Token(token) => Some(token),
        _ => None,
    })
}

fn said(name: Name, lane: Lane, packet: &RingPacket, to: Option<NodeId>) -> Saying {
    Saying { name, kind: lane as u8, nonce: 0, packet: bytes(packet), to }
}

/// The highest place of this ring that was heard of.
fn highest(ring: RingId, heard: &VecDeque<Heard>) -> Seq {
    let place = |heard: &Heard| match &heard.packet {
        RingPacket::Data(data) if data.ring == ring => Some(data.seq),
        RingPacket::Token(token) if token.ring == ring => Some(token.seq),
        _ => None,
    };
    heard.iter().filter_map(place).max().unwrap_or_default()
}

/// Those who were named as members last, one of each node.
fn members(heard: &VecDeque<Heard>) -> Vec<MemberId> {
    let mut members = BTreeMap::new();
    for heard in heard {
        let RingPacket::Beacon(beacon) = &heard.packet else { continue };
        members.extend(beacon.members.iter().map(|member| (member.node, *member)));
    }
    members.into_values().collect()
}

fn bytes(packet: &RingPacket) -> Vec<u8> {
    let mut head = BytesMut::new();
    let body = packet.encode(&mut head);
    [&head[..], &body[..]].concat()
}

/// The bytes with some of them changed.
fn bend(rng: &mut Rng, whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..rng.between(1, 3) {
        let at = rng.between(1, bytes.len() as u64 - 1) as usize;
        match rng.below(3) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at..].iter_mut().take(8).for_each(|byte| *byte = 0xff),
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
    bytes
}

fn reads_well(packet: &[u8]) -> bool {
    RingPacket::decode(Bytes::copy_from_slice(packet)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::{Class, Service};
    use consort_wire::pack::OutgoingMessage;

    const RING: RingId = RingId { number: 12, representative: MemberId::new(1, 7) };
    const LAST: Seq = Seq(9);

    fn heard() -> VecDeque<Heard> {
        let (mut body, payload) = (BytesMut::new(), Bytes::from_static(b"a message").into());
        OutgoingMessage::new(Class::Client, Service::Agreed, payload).pack(&mut body, 100);
        let data = DataPacket {
            ring: RING,
            seq: Seq(8),
            originator: NodeId(1),
            round: 3,
            retransmission: false,
            ack_request: false,
            stamp: 0,
            content: DataContent::Messages(Body::new(body.freeze()).unwrap()),
        };
        let beacon = Beacon {
            view: RING,
            members: [1, 2, 3].map(|node| MemberId::new(node, 7)).into(),
            heard: BTreeSet::new(),
            wants: None,
            settled: true,
            clocks: Box::default(),
            annotation: Bytes::new(),
            padding: 0,
        };
        let token = Token { ring: RING, token_seq: 30, seq: LAST, aru: Seq(5), ..Token::default() };
        let from = |packet| Heard { from: NodeId(1), kind: Lane::Control as u8, packet };
        [RingPacket::Data(data), RingPacket::Beacon(beacon), RingPacket::Token(token)].map(from).into()
    }

    fn liar() -> Liar {
        Liar::new(1, [1, 2, 3].map(NodeId).into())
    }

    #[test]
    fn each_lie_is_what_it_is_called_and_reads_well() {
        let (mut liar, heard) = (liar(), heard());
        for lie in LIES.into_iter().cycle().take(200 * LIES.len()) {
            let said = liar.tell(lie, &heard).unwrap();
            let packet = RingPacket::decode(said.packet.clone().into());
            match (lie, packet) {
                (Lie::Garbage, _) => assert!(KINDS.contains(&said.kind) && said.packet.len() < LONGEST as usize),
                (Lie::Stranger, _) => assert_eq!(said.name, Name::Stranger(STRANGER)),
                (Lie::Order, Ok(RingPacket::Data(data))) => {
                    assert!(data.seq > LAST && data.ring == RING && said.name == Name::Member(data.originator));
                }
                (Lie::Token, Ok(RingPacket::Token(token))) => assert!(token.token_seq > 30 && token.seq >= LAST),
                (Lie::Bent, Ok(_)) | (Lie::Join, Ok(RingPacket::Join(_))) => {}
                (Lie::Beacon, Ok(RingPacket::Beacon(_))) | (Lie::Late, Ok(RingPacket::Late(_))) => {}
                (Lie::Ack, Ok(RingPacket::Ack(ack))) => assert!(ack.aru >= LAST),
                (Lie::Greeting, _) => assert!(Greeting::decode(&said.packet).is_ok()),
                (Lie::Driver, _) => assert!((16..=18).contains(&said.kind)),
                (lie, packet) => panic!("{lie:?}: {packet:?}"),
            }
        }
    }

    #[test]
    fn of_nothing_that_was_heard_only_that_is_made_which_needs_nothing() {
        let mut liar = liar();
        let told = LIES.into_iter().filter(|lie| liar.tell(*lie, &VecDeque::new()).is_some()).collect::<Vec<_>>();
        assert_eq!(told, [Lie::Garbage, Lie::Stranger, Lie::Greeting, Lie::Driver]);
    }
}
