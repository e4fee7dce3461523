//! From a cluster's key to the key of one start of one sender.
use crate::cipher::{Cipher, Key};
use consort_types::{ClusterId, MemberId};
use ring::hkdf::{HKDF_SHA256, Prk};
use std::fmt;

/// The bytes of a cluster's key.
pub const KEY: usize = 32;
/// The bytes of a salt.
pub const SALT: usize = 16;
/// So many keys may stand in a file.
pub const EPOCHS_MOST: usize = 2;
/// Keeps these keys apart from all others that somebody may derive from the same secret.
const EXTRACT: &[u8] = b"consort cluster key 1";
const EXPAND: &[u8] = b"consort datagrams 1";
const FINGERPRINT: &[u8] = b"consort fingerprint 1";

/// Names one of a cluster's keys: 1 or more. Datagrams say with which one they are sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyEpoch(u16);

impl KeyEpoch {
    /// An epoch; `None` for 0, which means plain.
    pub const fn new(number: u16) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// Its number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for KeyEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Tells one start of a node from all others, and which cipher it seals with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Salt([u8; SALT]);

impl Salt {
    /// A salt of 15 bytes of chance, which must be drawn anew from the system's generator at each start.
    pub fn new(cipher: Cipher, chance: [u8; SALT - 1]) -> Self {
        let mut salt = [cipher.code(); SALT];
        salt[1..].copy_from_slice(&chance);
        Self(salt)
    }

    /// The salt with these bytes; `None` if they name no cipher.
    pub const fn from_wire(bytes: [u8; SALT]) -> Option<Self> {
        if Cipher::from_wire(bytes[0]).is_some() { Some(Self(bytes)) } else { None }
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; SALT] {
        &self.0
    }

    /// Which cipher.
    pub fn cipher(&self) -> Cipher {
        Cipher::from_wire(self.0[0]).unwrap_or(Cipher::ChaCha20Poly1305)
    }
}

/// A cluster's keys: one to seal with, and perhaps others that are opened, too.
#[derive(Clone)]
pub struct KeyRing {
    sealing: (KeyEpoch, Prk),
    others: Vec<(KeyEpoch, Prk)>,
}

impl KeyRing {
    /// With one key.
    pub fn new(epoch: KeyEpoch, key: &[u8; KEY]) -> Self {
        Self { sealing: (epoch, extract(key)), others: Vec::new() }
    }

    /// Opens also what is sealed with that key.
    #[must_use]
    pub fn with_other(mut self, epoch: KeyEpoch, key: &[u8; KEY]) -> Self {
        self.others.push((epoch, extract(key)));
        self
    }

    /// The same that seals with that epoch; `None` where it has no key of it.
    pub fn sealing_with(&self, epoch: KeyEpoch) -> Option<Self> {
        let sealing = self.all().find(|(known, _)| *known == epoch)?.clone();
        let others = self.all().filter(|(known, _)| *known != epoch).cloned().collect();
        Some(Self { sealing, others })
    }

    /// The same without the keys that `drops` names, except for the one that seals.
    #[must_use]
    pub fn without(mut self, drops: impl Fn(KeyEpoch) -> bool) -> Self {
        self.others.retain(|(epoch, _)| !drops(*epoch));
        self
    }

    /// The same with another ring's key of that epoch, if it has one and this has none.
    #[must_use]
    pub fn with_key_of(mut self, other: &Self, epoch: KeyEpoch) -> Self {
        let missing = self.epochs().all(|known| known != epoch);
        self.others.extend(other.all().filter(|(known, _)| missing && *known == epoch).cloned());
        self
    }

    /// The epoch that is sealed with.
    pub const fn sealing(&self) -> KeyEpoch {
        self.sealing.0
    }

    /// All epochs that are opened, the one that is sealed with first.
    pub fn epochs(&self) -> impl Iterator<Item = KeyEpoch> {
        self.all().map(|(epoch, _)| *epoch)
    }

    /// The same with what tells each key from others of its epoch: whoever knows that knows nothing of the key.
    pub fn fingerprints(&self) -> impl Iterator<Item = (KeyEpoch, u64)> {
        self.all().map(|(epoch, secret)| (*epoch, fingerprint(secret)))
    }

    fn all(&self) -> impl Iterator<Item = &(KeyEpoch, Prk)> {
        std::iter::once(&self.sealing).chain(&self.others)
    }

    /// The key of one start of a sender in an epoch; `None` for an epoch without a key.
    pub(crate) fn derive(&self, epoch: KeyEpoch, cluster: ClusterId, from: MemberId, salt: &Salt) -> Option<Key> {
        let (_, secret) = self.all().find(|(known, _)| *known == epoch)?;
        let (epoch, cluster) = (epoch.get().to_be_bytes(), cluster.0.to_be_bytes());
        let (node, incarnation) = (from.node.0.to_be_bytes(), from.incarnation.0.to_be_bytes());
        let info: [&[u8]; 6] = [EXPAND, &epoch, &cluster, &node, &incarnation, salt.bytes()];
        secret.expand(&info, salt.cipher().algorithm()).ok().map(Key::new)
    }
}

/// Says which epochs, never the keys.
impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.epochs()).finish()
    }
}

/// How long a fingerprint is.
struct FingerprintLen;

impl ring::hkdf::KeyType for FingerprintLen {
    fn len(&self) -> usize {
        size_of::<u64>()
    }
}

fn fingerprint(secret: &Prk) -> u64 {
    let mut bytes = [0; size_of::<u64>()];
    // Eight bytes are never too many to ask for.
    let filled = secret.expand(&[FINGERPRINT], FingerprintLen).and_then(|material| material.fill(&mut bytes));
    debug_assert!(filled.is_ok());
    u64::from_be_bytes(bytes)
}

fn extract(key: &[u8; KEY]) -> Prk {
    ring::hkdf::Salt::new(HKDF_SHA256, EXTRACT).extract(key)
}
