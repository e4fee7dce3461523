//! A number that stands for everything a run did.

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash that depends on every number put in and on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceDigest(pub u64);

impl TraceDigest {
    /// Puts a number in.
    pub const fn add(&mut self, number: u64) {
        let mixed = (self.0.rotate_left(23) ^ number).wrapping_add(ODD).wrapping_mul(ODD);
        self.0 = mixed ^ (mixed >> 29);
    }

    /// Puts bytes in, and how many.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }
}

impl std::fmt::Display for TraceDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(parts: &[&[u8]]) -> TraceDigest {
        let mut digest = TraceDigest::default();
        parts.iter().for_each(|part| digest.add_bytes(part));
        digest
    }

    #[test]
    fn every_byte_their_order_and_their_number_count() {
        let all = [digest(&[]), digest(&[b""]), digest(&[b"a"]), digest(&[b"a\0"]), digest(&[b"a", b"b"])];
        let more = [digest(&[b"b", b"a"]), digest(&[b"ab"]), digest(&[b"12345678", b"9"]), digest(&[b"123456789"])];
        let mut seen: Vec<_> = all.iter().chain(&more).map(|digest| digest.0).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 9);
    }
}
