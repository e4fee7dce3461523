//! Worlds are known by 64 bits.
use std::fmt::{self, Write};

/// Sums up text (FNV-1a over words, then mixed): the same text gives the same sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Adds a number.
    pub const fn add(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 29);
    }

    /// Of one value, by its debug text.
    pub fn of(value: &dyn fmt::Debug) -> u64 {
        let mut digest = Self::default();
        // Writing to a sum cannot fail.
        let _ = write!(digest, "{value:?}");
        digest.sum()
    }

    /// The sum so far.
    pub const fn sum(self) -> u64 {
        let z = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        z ^ (z >> 32)
    }
}

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut words = text.as_bytes().chunks_exact(8);
        for word in &mut words {
            let word = <[u8; 8]>::try_from(word).unwrap_or_default();
            self.add(u64::from_le_bytes(word));
        }
        let rest = words.remainder().iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        self.add(rest ^ (text.len() as u64) << 56);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_a_little_differ_in_their_sums() {
        let sums: Vec<_> = (0..10_000).map(|k| Digest::of(&(k, "some text"))).collect();
        let distinct: std::collections::BTreeSet<_> = sums.iter().collect();
        assert_eq!(distinct.len(), sums.len());
        assert_eq!(Digest::of(&"a"), Digest::of(&"a"));
    }
}
