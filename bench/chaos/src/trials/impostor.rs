//! Somebody who has the cluster's key file: it reads what daemons say, and seals in any name, as the daemons do.
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use consort_ring::packet::RingPacket;
use consort_seal::greeting::{self, Entry, Greeting};
use consort_seal::{Cipher, KeyRing, Opened, Opener, Salt, Sealer};
use consort_types::{Incarnation, MemberId, NodeId, Rng};
use consort_wire::envelope::{self, EnvelopeView, Identity};
use consort_wire::{Lane, Packet};
use rustix::net::sockopt::set_ip_multicast_if;

use super::capture::{Datagram, capture_both};
use super::stage::{GROUP, PORT};

/// How many packets it remembers, and how many datagrams it reads at a time.
const REMEMBERED: usize = 400;
const READ: usize = 400;
/// How long it reads at a time.
const TURN: Duration = Duration::from_millis(10);
/// The kinds of all that daemons say to each other.
pub const KINDS: [u8; 8] = [0, 1, 2, 3, 16, 17, 18, greeting::KIND];
/// So many datagrams no daemon ever sends.
const FAR: u64 = 1 << 40;
/// So many starts of a node its ears believe at most, one after the other.
const ANSWERS: u32 = 100;
/// How long daemons may take to believe a start of its own.
const PATIENCE: Duration = Duration::from_secs(30);
/// At the end of a sealed datagram stand its tag, the node that it is for, and its counter, in so many bytes.
const TAG: usize = 16;
const ADDRESSEE: usize = 2;
const COUNTER: usize = 6;

/// In whose name something is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Of the node whose place it has.
    Own,
    /// Of a node whose daemon runs: as the start that runs.
    Member(NodeId),
    /// Of such a node, as a start of it that never was and is later. It must have [begun](Impostor::begin).
    Later(NodeId),
    /// Of a node that is not configured.
    Stranger(NodeId),
}

/// What is said behind the seal.
#[derive(Clone, Debug)]
pub struct Saying {
    pub name: Name,
    /// A lane, or a kind of what drivers say to each other.
    pub kind: u8,
    /// What stands where the envelope has its nonce.
    pub nonce: u64,
    pub packet: Vec<u8>,
    /// To whom; to all where that is `None`.
    pub to: Option<NodeId>,
}

/// A packet that a daemon has sent.
#[derive(Clone, Debug)]
pub struct Heard {
    pub from: NodeId,
    pub kind: u8,
    pub packet: RingPacket,
}

/// The start of a daemon, as its envelopes show it.
#[derive(Debug)]
struct Start {
    identity: Identity,
    salt: Salt,
    /// The next counter of each kind.
    next: BTreeMap<u8, u64>,
}

/// A start of its own.
#[derive(Debug)]
struct Guise {
    identity: Identity,
    sealer: Sealer,
    opener: Opener,
}

/// Opens what is for one node, without that node's knowledge.
#[derive(Debug)]
struct Ear {
    me: NodeId,
    salt: Salt,
    opener: Opener,
}

/// How a sealed datagram ends.
struct End {
    tag: [u8; TAG],
    to: NodeId,
    counter: u64,
}

/// Somebody with the key.
#[derive(Debug)]
pub struct Impostor {
    keys: KeyRing,
    nodes: Vec<NodeId>,
    sockets: Vec<UdpSocket>,
    began: Instant,
    starts: BTreeMap<NodeId, Start>,
    guises: Vec<Guise>,
    /// Open what is for a node, of each.
    ears: BTreeMap<NodeId, Ear>,
    heard: VecDeque<Heard>,
    /// The tags of what it has said in others' names.
    said: BTreeSet<[u8; TAG]>,
    rng: Rng,
}

impl Impostor {
    /// Has these keys and the place of the last of these nodes, at whose addresses it speaks. Must run in their namespace.
    /// The others must run, and greet it.
    ///
    /// # Errors
    /// The system's, or that they do not believe it.
    pub fn open(keys: KeyRing, addresses: &[Ipv4Addr]) -> io::Result<Self> {
        let mut impostor = Self::new(keys, addresses)?;
        let own = impostor.nodes.last().copied().ok_or_else(|| io::Error::other("there is no node"))?;
        impostor.begin(own)?;
        Ok(impostor)
    }

    fn new(keys: KeyRing, addresses: &[Ipv4Addr]) -> io::Result<Self> {
        let open = |at: &Ipv4Addr| {
            let socket = UdpSocket::bind((*at, 0))?;
            set_ip_multicast_if(&socket, at)?;
            Ok(socket)
        };
        Ok(Self {
            keys,
            nodes: (1..=addresses.len() as u16).map(NodeId).collect(),
            sockets: addresses.iter().map(open).collect::<io::Result<_>>()?,
            began: Instant::now(),
            starts: BTreeMap::new(),
            guises: Vec::new(),
            ears: BTreeMap::new(),
            heard: VecDeque::new(),
            said: BTreeSet::new(),
            rng: Rng::new(since_1970().as_nanos() as u64),
        })
    }

    /// Begins a start of this node, and has the daemons believe it.
    ///
    /// # Errors
    /// The system's, or that they do not.
    pub fn begin(&mut self, node: NodeId) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.starts.is_empty() {
            in_time(deadline, "heard no daemon")?;
            self.listen()?;
        }
        let later = Incarnation(since_1970().as_micros() as u64);
        let Some(Start { identity, .. }) = self.starts.values().next() else { return Ok(()) };
        let identity = Identity { me: MemberId { node, incarnation: later }, ..*identity };
        let salt = Salt::new(Cipher::preferred(), std::array::from_fn(|_| self.rng.next_u64() as u8));
        let sealer = Sealer::new(&self.keys, &identity, salt).ok_or_else(|| io::Error::other("no key to seal with"))?;
        let opener = Opener::new(self.keys.clone(), identity, salt, self.nodes.iter().copied());
        self.guises.push(Guise { identity, sealer, opener });
        // The last node has no daemon, and a node does not greet itself.
        let others = self.nodes.iter().filter(|other| **other != node && Some(*other) != self.nodes.last()).count();
        while self.guises.last().is_some_and(|guise| guise.opener.proven_count() < others) {
            in_time(deadline, &format!("the daemons did not believe it as {node}"))?;
            self.listen()?;
        }
        Ok(())
    }

    /// Reads what daemons say for a short while, and greets those who want to be greeted.
    ///
    /// # Errors
    /// The system's.
    pub fn listen(&mut self) -> io::Result<()> {
        for datagram in capture_both(TURN, READ)? {
            self.read(&datagram);
        }
        let now = consort_types::Instant(self.began.elapsed().as_nanos() as u64);
        let mut greetings = Vec::new();
        for Guise { identity, sealer, opener } in &mut self.guises {
            let Some(mut greeting) = opener.greeting(now, sealer.counters()) else { continue };
            sealer.seal(None, &mut greeting).map_err(io::Error::other)?;
            greetings.push((identity.me.node, greeting));
        }
        greetings.iter().try_for_each(|(node, greeting)| self.send(*node, None, greeting))
    }

    /// Of chance.
    pub const fn seed(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// What it has read last, the latest behind.
    pub const fn heard(&self) -> &VecDeque<Heard> {
        &self.heard
    }

    fn read(&mut self, datagram: &Datagram) {
        let (Ok(view), Some(end)) = (EnvelopeView::new(&datagram.bytes), End::of(&datagram.bytes)) else { return };
        let (from, kind, salt) = (view.from(), view.kind(), Salt::from_wire(view.salt()));
        let is_own = self.guises.iter().any(|guise| guise.identity.me == from) || self.said.contains(&end.tag);
        let Some(salt) = salt.filter(|_| !is_own && self.nodes.contains(&from.node)) else { return };
        for guise in &mut self.guises {
            // What is for the guise itself: greetings.
            let _ = guise.opener.open(&mut datagram.bytes.clone());
        }
        if self.starts.get(&from.node).is_none_or(|known| known.salt != salt) {
            let identity = Identity { cluster: view.cluster(), config: view.config(), me: from };
            self.starts.insert(from.node, Start { identity, salt, next: BTreeMap::new() });
            self.introduce(from.node);
        }
        if let Some(start) = self.starts.get_mut(&from.node) {
            let next = start.next.entry(kind).or_default();
            *next = end.counter.saturating_add(1).max(*next);
        }
        self.overhear(from.node, kind, end.to, &datagram.bytes);
    }

    /// Opens what is for somebody else, or for all.
    fn overhear(&mut self, from: NodeId, kind: u8, to: NodeId, datagram: &[u8]) {
        let Some(whose) = self.ears.keys().find(|node| **node == to).or(self.nodes.last()).copied() else { return };
        let ear = self.ears.get_mut(&whose);
        let mut bytes = datagram.to_vec();
        let Some(Ok(Opened::Datagram { len, .. })) = ear.map(|ear| ear.opener.open(&mut bytes)) else { return };
        let packet = bytes.get(envelope::LEN..len).unwrap_or_default().to_vec();
        if let Ok(packet) = RingPacket::decode(packet.into()) {
            self.heard.push_back(Heard { from, kind, packet });
            self.heard.drain(..self.heard.len().saturating_sub(REMEMBERED));
        }
    }

    /// Makes its own ears believe a start, by a greeting in its name that nobody else hears.
    fn introduce(&mut self, node: NodeId) {
        let Some(Start { identity, salt, .. }) = self.starts.get(&node) else { return };
        for me in &self.nodes {
            let chance = std::array::from_fn(|_| self.rng.next_u64() as u8);
            let ear = self.ears.entry(*me).or_insert_with(|| Ear::new(*me, identity, &self.keys, &self.nodes, chance));
            let adopted = (0..ANSWERS).any(|answer| {
                let Some(mut sealer) = Sealer::new(&self.keys, identity, *salt) else { return false };
                let entry = Entry { node: ear.me, salt: Some(ear.salt), question: 0, answer, proven: true };
                let greeting = Greeting { counters: Default::default(), entries: vec![entry] };
                let mut greeting = greeting.encode(identity);
                sealer.skip_to(u64::from(answer));
                let sealed = sealer.seal(None, &mut greeting).is_ok();
                sealed && matches!(ear.opener.open(&mut greeting), Ok(Opened::Greeting { proven: true, .. }))
            });
            debug_assert!(adopted, "an ear believes whatever it is told with the key");
        }
    }

    /// Seals and sends. False if there is nobody of that name.
    ///
    /// # Errors
    /// The system's.
    pub fn say(&mut self, saying: &Saying) -> io::Result<bool> {
        let Some((node, datagram)) = self.sealed(saying)? else { return Ok(false) };
        let to = saying.to.map(|to| {
            let port = if saying.kind == Lane::Data as u8 { PORT + 1 } else { PORT };
            SocketAddrV4::new(self.address(to), port)
        });
        self.send(node, to, &datagram)?;
        Ok(true)
    }

    /// Uses up counters of a member far ahead of those that its daemon has come to: whatever that says is taken for old.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_out(&mut self, node: NodeId) -> io::Result<()> {
        self.listen()?;
        for kind in KINDS {
            if let Some(start) = self.starts.get_mut(&node) {
                *start.next.entry(kind).or_default() += FAR;
            }
            self.say(&Saying { name: Name::Member(node), kind, nonce: 0, packet: Vec::new(), to: None })?;
        }
        Ok(())
    }

    fn sealed(&mut self, saying: &Saying) -> io::Result<Option<(NodeId, BytesMut)>> {
        let Saying { name, kind, nonce, ref packet, to } = *saying;
        let plain = |identity: &Identity| {
            let mut datagram = BytesMut::new();
            envelope::reserve(&mut datagram);
            datagram.extend_from_slice(packet);
            envelope::stamp_unsummed(identity, kind, &mut datagram);
            envelope::set_nonce(&mut datagram, nonce);
            datagram
        };
        let guise = |node: NodeId| move |guise: &&mut Guise| guise.identity.me.node == node;
        let own = match name {
            Name::Own => self.guises.first_mut(),
            Name::Later(node) => self.guises.iter_mut().skip(1).find(guise(node)),
            Name::Member(_) | Name::Stranger(_) => None,
        };
        if let Some(Guise { identity, sealer, .. }) = own {
            let mut datagram = plain(identity);
            sealer.seal(to, &mut datagram).map_err(io::Error::other)?;
            return Ok(Some((identity.me.node, datagram)));
        }
        let (start, identity) = match name {
            Name::Member(node) => (self.starts.get_mut(&node), None),
            Name::Stranger(node) => (self.starts.values_mut().next(), Some(node)),
            Name::Own | Name::Later(_) => return Ok(None),
        };
        let Some(start) = start else { return Ok(None) };
        let stranger = |node| Identity { me: MemberId { node, ..start.identity.me }, ..start.identity };
        let identity = identity.map_or(start.identity, stranger);
        let sealer = Sealer::new(&self.keys, &identity, start.salt);
        let mut sealer = sealer.ok_or_else(|| io::Error::other("no key to seal with"))?;
        let next = start.next.entry(kind).or_default();
        sealer.skip_to(*next);
        let mut datagram = plain(&identity);
        *next = sealer.seal(to, &mut datagram).map_err(io::Error::other)? + 1;
        self.said.extend(End::of(&datagram).map(|end| end.tag));
        Ok(Some((identity.me.node, datagram)))
    }

    fn address(&self, node: NodeId) -> Ipv4Addr {
        let at = self.sockets.get(usize::from(node.0).saturating_sub(1));
        match at.and_then(|socket| socket.local_addr().ok()) {
            Some(std::net::SocketAddr::V4(at)) => *at.ip(),
            _ => Ipv4Addr::from(GROUP.0),
        }
    }

    /// From the node's address, or from its own if the node has none; to all where nobody is named.
    fn send(&self, from: NodeId, to: Option<SocketAddrV4>, datagram: &[u8]) -> io::Result<()> {
        let to = to.unwrap_or(SocketAddrV4::new(Ipv4Addr::from(GROUP.0), GROUP.1));
        let socket = self.sockets.get(usize::from(from.0).saturating_sub(1)).or(self.sockets.last());
        let sent = socket.map_or(Ok(0), |socket| socket.send_to(datagram, to));
        match sent {
            // A port that nobody has any more, and a queue that is full.
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::WouldBlock) => {
                Ok(())
            }
            sent => sent.map(drop),
        }
    }
}

impl Ear {
    fn new(me: NodeId, other: &Identity, keys: &KeyRing, nodes: &[NodeId], chance: [u8; 15]) -> Self {
        let (identity, salt) = (
            Identity { me: MemberId { node: me, ..MemberId::default() }, ..*other },
            Salt::new(Cipher::preferred(), chance),
        );
        Self { me, salt, opener: Opener::new(keys.clone(), identity, salt, nodes.iter().copied()) }
    }
}

impl End {
    fn of(datagram: &[u8]) -> Option<Self> {
        let end = datagram.get(envelope::LEN..)?.last_chunk::<{ TAG + ADDRESSEE + COUNTER }>()?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (tag, rest) = end.split_first_chunk::<TAG>()?;
        let (to, counter) = rest.split_at(ADDRESSEE);
        Some(Self { tag: *tag, to: NodeId(number(to) as u16), counter: number(counter) })
    }
}

fn in_time(deadline: Instant, problem: &str) -> io::Result<()> {
    if Instant::now() > deadline { Err(io::Error::other(format!("{problem} within {PATIENCE:?}"))) } else { Ok(()) }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_ring::RingId;
    use consort_ring::packet::TokenRequest;
    use consort_seal::KeyEpoch;
    use consort_types::{ClusterId, ConfigHash};

    fn keys() -> KeyRing {
        KeyRing::new(KeyEpoch::new(1).unwrap(), &[7; 32])
    }

    /// A daemon's start.
    fn start(node: u16) -> Guise {
        let identity = Identity { cluster: ClusterId(7), config: ConfigHash(9), me: MemberId::new(node, 77) };
        let salt = Salt::new(Cipher::preferred(), [node as u8; 15]);
        let sealer = Sealer::new(&keys(), &identity, salt).unwrap();
        Guise { identity, sealer, opener: Opener::new(keys(), identity, salt, (1..=3).map(NodeId)) }
    }

    /// Two that hear each other.
    fn pair() -> [Guise; 2] {
        let mut pair = [start(1), start(2)];
        for now in (0..40).map(|n| consort_types::Instant(n * 20_000_000)) {
            for at in 0..2 {
                let Guise { sealer, opener, .. } = &mut pair[at];
                let Some(mut greeting) = opener.greeting(now, sealer.counters()) else { continue };
                sealer.seal(None, &mut greeting).unwrap();
                assert!(pair[1 - at].opener.open(&mut greeting).is_ok());
            }
        }
        assert!(pair.iter().all(|one| one.opener.proven_count() == 1));
        pair
    }

    fn impostor() -> Impostor {
        Impostor::new(keys(), &[Ipv4Addr::LOCALHOST; 3]).unwrap()
    }

    fn request() -> Vec<u8> {
        let mut head = BytesMut::new();
        RingPacket::TokenRequest(TokenRequest { ring: RingId::default() }).encode(&mut head);
        head.to_vec()
    }

    fn datagram(bytes: &[u8]) -> Datagram {
        let nowhere = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1);
        Datagram { from: nowhere, to: nowhere, bytes: bytes.to_vec() }
    }

    #[test]
    fn it_reads_what_one_says_to_another_and_what_it_says_in_its_name_opens_there() {
        let ([mut one, mut two], mut impostor) = (pair(), impostor());
        let mut sealed = BytesMut::new();
        envelope::reserve(&mut sealed);
        sealed.extend_from_slice(&request());
        envelope::stamp_unsummed(&one.identity, 0, &mut sealed);
        one.sealer.seal(Some(NodeId(2)), &mut sealed).unwrap();
        impostor.read(&datagram(&sealed));
        let Some(Heard { from: NodeId(1), kind: 0, .. }) = impostor.heard().back() else { panic!("it was not read") };
        assert!(two.opener.open(&mut sealed).is_ok());
        let saying =
            Saying { name: Name::Member(NodeId(1)), kind: 0, nonce: 0, packet: request(), to: Some(NodeId(2)) };
        for _ in 0..2 {
            let (node, mut said) = impostor.sealed(&saying).unwrap().unwrap();
            let again = datagram(&said);
            assert!(matches!(two.opener.open(&mut said), Ok(Opened::Datagram { from, .. }) if from == one.identity.me));
            assert_eq!(node, NodeId(1));
            impostor.read(&again);
        }
        assert_eq!(impostor.heard().len(), 1, "what it has said itself is not heard");
    }

    #[test]
    fn a_stranger_s_datagram_is_of_nobody_and_of_whom_nothing_was_heard_nothing_is_said() {
        let ([mut one, mut two], mut impostor) = (pair(), impostor());
        let saying = |name| Saying { name, kind: 1, nonce: 0, packet: request(), to: None };
        assert!(impostor.sealed(&saying(Name::Member(NodeId(1)))).unwrap().is_none());
        impostor.read(&datagram(b"noise"));
        impostor.read(&datagram(&[0; 200]));
        let mut greeting = one.opener.greeting(consort_types::Instant(1 << 40), one.sealer.counters()).unwrap();
        one.sealer.seal(None, &mut greeting).unwrap();
        impostor.read(&datagram(&greeting));
        assert!(impostor.heard().is_empty() && impostor.starts.len() == 1);
        let (_, mut said) = impostor.sealed(&saying(Name::Stranger(NodeId(9)))).unwrap().unwrap();
        assert_eq!(two.opener.open(&mut said), Err(consort_seal::Unopened::Stranger(NodeId(9))));
        assert!(impostor.sealed(&saying(Name::Later(NodeId(2)))).unwrap().is_none());
    }
}
