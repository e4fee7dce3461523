//! From a cluster's key to the key of one start of one sender.
use crate::cipher::{Cipher, Key};
use consort_types::{ClusterId, MemberId};
use ring::hkdf::{HKDF_SHA256, Prk};
use std::fmt;

/// The bytes of a cluster's key.
pub const KEY: usize = 32;
/// The bytes of a salt.
pub const SALT: usize = 16;
/// Two epochs may be valid at once.
pub const EPOCHS_MOST: usize = 2;
/// Keeps these keys apart from all others that somebody may derive from the same secret.
const EXTRACT: &[u8] = b"consort cluster key 1";
const EXPAND: &[u8] = b"consort datagrams 1";

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

/// A cluster's keys: one to seal with, and perhaps another that is opened, too.
#[derive(Clone)]
pub struct KeyRing {
    sealing: (KeyEpoch, Prk),
    other: Option<(KeyEpoch, Prk)>,
}

impl KeyRing {
    /// With one key.
    pub fn new(epoch: KeyEpoch, key: &[u8; KEY]) -> Self {
        Self { sealing: (epoch, extract(key)), other: None }
    }

    /// Opens also what is sealed with that key.
    #[must_use]
    pub fn with_other(mut self, epoch: KeyEpoch, key: &[u8; KEY]) -> Self {
        self.other = Some((epoch, extract(key)));
        self
    }

    /// The epoch that is sealed with.
    pub const fn sealing(&self) -> KeyEpoch {
        self.sealing.0
    }

    /// All epochs that are opened, the one that is sealed with first.
    pub fn epochs(&self) -> impl Iterator<Item = KeyEpoch> {
        [Some(self.sealing.0), self.other.as_ref().map(|(epoch, _)| *epoch)].into_iter().flatten()
    }

    /// The key of one start of a sender in an epoch; `None` for an epoch without a key.
    pub(crate) fn derive(&self, epoch: KeyEpoch, cluster: ClusterId, from: MemberId, salt: &Salt) -> Option<Key> {
        let all = [Some(&self.sealing), self.other.as_ref()];
        let (_, secret) = all.into_iter().flatten().find(|(known, _)| *known == epoch)?;
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

fn extract(key: &[u8; KEY]) -> Prk {
    ring::hkdf::Salt::new(HKDF_SHA256, EXTRACT).extract(key)
}
