//! The two ciphers. Each node seals with the one that its processor does faster and opens both.
use ring::aead::{AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, Tag, UnboundKey};
use ring::hkdf::Okm;

/// The bytes of a nonce.
pub(crate) const NONCE: usize = 12;

/// A cipher that seals and authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// Fast where the processor has instructions for AES.
    Aes256Gcm,
    /// Fast everywhere.
    ChaCha20Poly1305,
}

impl Cipher {
    /// The one that this processor does faster.
    pub fn preferred() -> Self {
        if has_aes() { Self::Aes256Gcm } else { Self::ChaCha20Poly1305 }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    /// The cipher of this number on the wire.
    pub const fn from_wire(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Aes256Gcm),
            2 => Some(Self::ChaCha20Poly1305),
            _ => None,
        }
    }

    /// Its number on the wire.
    pub const fn code(self) -> u8 {
        match self {
            Self::Aes256Gcm => 1,
            Self::ChaCha20Poly1305 => 2,
        }
    }

    pub(crate) const fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_aes() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(target_arch = "aarch64")]
fn has_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const fn has_aes() -> bool {
    false
}

/// A key, ready for use.
pub(crate) struct Key(LessSafeKey);

/// The bytes do not belong together under this key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forged;

impl Key {
    /// With these bytes, for test vectors.
    #[cfg(test)]
    pub(crate) fn of(cipher: Cipher, bytes: &[u8]) -> Self {
        Self(LessSafeKey::new(UnboundKey::new(cipher.algorithm(), bytes).unwrap()))
    }

    pub(crate) fn new(material: Okm<'_, &'static Algorithm>) -> Self {
        Self(LessSafeKey::new(UnboundKey::from(material)))
    }

    /// Encrypts in place; returns the tag. `None` for more bytes than the cipher takes, which no datagram has.
    pub(crate) fn seal(&self, nonce: [u8; NONCE], envelope: &[u8], packet: &mut [u8]) -> Option<Tag> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_separate_tag(nonce, Aad::from(envelope), packet).ok()
    }

    /// Decrypts `packet`, which ends in the tag, in place.
    pub(crate) fn open(&self, nonce: [u8; NONCE], envelope: &[u8], packet: &mut [u8]) -> Result<(), Forged> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.0.open_in_place(nonce, Aad::from(envelope), packet).map(|_| ()).map_err(|_| Forged)
    }
}

#[cfg(test)]
mod tests;
