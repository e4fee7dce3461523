//! Sealers and openers of a whole cluster, and what happens to datagrams between them.
mod epochs;
mod forgeries;
mod fresh;
mod nonces;

use crate::greeting;
use crate::keys::{KEY, SALT};
use crate::{Cipher, KeyEpoch, KeyRing, OVERHEAD, Opened, Opener, Salt, Sealer, Unopened};
use bytes::{BufMut, BytesMut};
use consort_types::{ClusterId, ConfigHash, Duration, Instant, MemberId, NodeId};
use consort_wire::{Identity, envelope};

pub(crate) fn identity(node: u16) -> Identity {
    Identity { cluster: ClusterId(1), config: ConfigHash(2), me: MemberId::new(node, 77) }
}

fn ring(secret: u8) -> KeyRing {
    KeyRing::new(KeyEpoch::new(1).unwrap(), &[secret; KEY])
}

/// A datagram of that kind as a node writes it, not sealed yet.
fn plain(from: &Identity, kind: u8, packet: &[u8]) -> BytesMut {
    let mut datagram = BytesMut::new();
    envelope::reserve(&mut datagram);
    datagram.put_slice(packet);
    envelope::stamp_unsummed(from, kind, &mut datagram);
    datagram
}

/// One start of a node.
struct End {
    identity: Identity,
    sealer: Sealer,
    opener: Opener,
}

impl End {
    fn new(identity: Identity, ring: &KeyRing, salt: Salt) -> Self {
        let sealer = Sealer::new(ring, &identity, salt).unwrap();
        let opener = Opener::new(ring.clone(), identity, salt, (1..=3).map(NodeId));
        Self { identity, sealer, opener }
    }

    /// A start whose salt is drawn from this.
    fn start(node: u16, incarnation: u64, chance: u8) -> Self {
        let identity = Identity { me: MemberId::new(node, incarnation), ..identity(node) };
        Self::new(identity, &ring(1), salt(Cipher::preferred(), chance))
    }

    fn seal(&mut self, kind: u8, packet: &[u8]) -> BytesMut {
        let mut datagram = plain(&self.identity, kind, packet);
        self.sealer.seal(None, &mut datagram).unwrap();
        datagram
    }

    /// What it says of a datagram that comes.
    fn open(&mut self, datagram: &[u8]) -> Result<Opened, Unopened> {
        self.opener.open(&mut BytesMut::from(datagram))
    }

    /// The same, and the packet in it.
    fn packet(&mut self, datagram: &[u8]) -> Result<Vec<u8>, Unopened> {
        let mut datagram = BytesMut::from(datagram);
        match self.opener.open(&mut datagram)? {
            Opened::Datagram { len, .. } => Ok(datagram[envelope::LEN..len].to_vec()),
            Opened::Greeting { .. } => panic!("that was a greeting"),
        }
    }

    /// The greeting that it sends when nobody waits any more, sealed.
    fn greet(&mut self, now: Instant) -> Option<BytesMut> {
        let mut greeting = self.opener.greeting(now, self.sealer.counters())?;
        self.sealer.seal(None, &mut greeting).unwrap();
        Some(greeting)
    }

    fn hears(&self, other: &Self) -> bool {
        self.opener.proven().any(|from| from == other.identity.me)
    }
}

fn salt(cipher: Cipher, chance: u8) -> Salt {
    Salt::new(cipher, [chance; SALT - 1])
}

/// Lets time pass from `now` on until nobody greets any more, or for two seconds. All greetings arrive; `copy` sees them.
fn meet(now: &mut Instant, ends: &mut [&mut End], mut copy: impl FnMut(&BytesMut)) {
    for _ in 0..400 {
        *now += Duration::from_millis(5);
        for at in 0..ends.len() {
            let Some(greeting) = ends[at].greet(*now) else { continue };
            copy(&greeting);
            for other in (0..ends.len()).filter(|other| *other != at) {
                let _ = ends[other].open(&greeting);
            }
        }
    }
}

/// Two starts that hear each other.
fn pair() -> (End, End) {
    let (mut one, mut two) = (End::start(1, 77, 11), End::start(2, 77, 22));
    meet(&mut { Instant::ZERO }, &mut [&mut one, &mut two], |_| {});
    assert!(one.hears(&two) && two.hears(&one));
    (one, two)
}

#[test]
fn every_kind_and_size_comes_out_as_it_went_in_with_both_ciphers() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let mut one = End::new(identity(1), &ring(1), salt(cipher, 1));
        let mut two = End::new(identity(2), &ring(1), salt(Cipher::preferred(), 2));
        meet(&mut { Instant::ZERO }, &mut [&mut one, &mut two], |_| {});
        for kind in [0, 1, 2, 3, 16, 17, 18] {
            for size in [0, 1, 15, 16, 17, 63, 64, 100, 1_350, 1_416, 8_900, 64_900] {
                let packet: Vec<u8> = (0..size).map(|at| at as u8).collect();
                let sealed = one.seal(kind, &packet);
                assert_eq!(sealed.len(), envelope::LEN + size + OVERHEAD);
                assert!(size < 16 || !sealed.windows(16).any(|part| part == &packet[..16]), "it is encrypted");
                assert_eq!(two.packet(&sealed), Ok(packet), "{cipher:?}, kind {kind}, {size} bytes");
            }
        }
    }
}

#[test]
fn the_envelope_that_was_opened_says_what_it_said_before() {
    let (mut one, mut two) = pair();
    let mut sealed = one.seal(1, b"packet");
    let Ok(Opened::Datagram { len, from, counter }) = two.opener.open(&mut sealed) else { panic!("it opens") };
    assert_eq!((from, counter, len), (one.identity.me, 0, envelope::LEN + 6));
    let opened = envelope::open_as(&two.identity, envelope::Proof::Opened, sealed.freeze().slice(..len)).unwrap();
    assert_eq!((opened.0.from, &opened.1[..]), (one.identity.me, &b"packet"[..]));
}

#[test]
fn what_is_for_one_node_is_taken_by_that_node_alone() {
    let (mut one, mut two) = pair();
    let mut token = plain(&one.identity, 0, b"token");
    one.sealer.seal(Some(NodeId(3)), &mut token).unwrap();
    assert_eq!(two.open(&token), Err(Unopened::Misdirected(NodeId(3))));
    let at = token.len() - 8;
    for to in [0_u16, 2] {
        token[at..at + 2].copy_from_slice(&to.to_be_bytes());
        assert_eq!(two.open(&token), Err(Unopened::Forged(NodeId(1))), "its addressee cannot be changed");
    }
}

#[test]
fn counters_come_to_an_end_and_nothing_is_sealed_twice_with_one() {
    let (mut one, mut two) = pair();
    one.sealer.skip_to(crate::COUNTER_LAST);
    one.sealer.skip_to(0);
    let last = one.seal(1, b"last");
    let mut more = plain(&one.identity, 1, b"more");
    let before = more.clone();
    for _ in 0..3 {
        assert_eq!(one.sealer.seal(None, &mut more), Err(crate::Exhausted));
        assert_eq!(more, before, "it is as it was, and must not leave");
    }
    assert_eq!(two.packet(&last), Ok(b"last".to_vec()));
    assert!(crate::Exhausted.to_string().contains("281474976710655 counters"));
}

#[test]
fn a_greeting_has_the_kind_that_is_counted_last() {
    assert_eq!(crate::place(greeting::KIND), Some(crate::KINDS.len() - 1));
    assert_eq!((crate::place(0), crate::place(4), crate::place(20)), (Some(0), None, None));
}
