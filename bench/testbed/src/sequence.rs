//! What a receiver saw, reduced to what two receivers must agree on.
use super::job::Received;
use super::message::{Kind, Stamp};
use sha2::{Digest, Sha256};

/// A hash over all messages in their order, and whether any sender's are missing or misplaced.
#[derive(Debug)]
pub struct Sequence {
    bytes: Option<Sha256>,
    order: u64,
    next: Vec<u64>,
    ended: usize,
    wrong: u64,
}

impl Sequence {
    /// Of messages from so many senders. `all_bytes` hashes all that they carry, else only who sent which.
    pub fn new(senders: u16, all_bytes: bool) -> Self {
        let bytes = all_bytes.then(Sha256::new);
        Self { bytes, order: 0, next: vec![0; senders.into()], ended: 0, wrong: 0 }
    }

    /// The next message.
    pub fn take(&mut self, stamp: Stamp, message: &[u8]) {
        self.order = (self.order.rotate_left(5) ^ stamp.number ^ u64::from(stamp.sender) << 48)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if let Some(bytes) = &mut self.bytes {
            bytes.update((message.len() as u64).to_be_bytes());
            bytes.update(message);
        }
        match self.next.get_mut(usize::from(stamp.sender)) {
            Some(next) if *next == stamp.number => *next += 1,
            Some(next) => {
                self.wrong += 1;
                *next = stamp.number + 1;
            }
            None => self.wrong += 1,
        }
        self.ended += usize::from(stamp.kind == Kind::End);
    }

    /// Whether every sender's end was seen.
    pub fn is_complete(&self) -> bool {
        self.ended == self.next.len()
    }

    /// Writes down the result.
    pub fn finish(self, received: &mut Received) {
        received.complete = self.is_complete();
        received.wrong = self.wrong;
        received.digest = match self.bytes {
            Some(bytes) => bytes.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
            None => format!("{:016x}", self.order),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(order: &[(u16, u64)], all_bytes: bool) -> Received {
        let mut sequence = Sequence::new(2, all_bytes);
        for (sender, number) in order {
            let kind = if *number == 1 { Kind::End } else { Kind::Measured };
            sequence.take(Stamp { at: 0, number: *number, sender: *sender, kind }, &[*sender as u8, *number as u8]);
        }
        let mut received = Received::default();
        sequence.finish(&mut received);
        received
    }

    #[test]
    fn equal_sequences_have_equal_digests_and_others_have_not() {
        for all_bytes in [true, false] {
            let one = seen(&[(0, 0), (1, 0), (0, 1), (1, 1)], all_bytes);
            let two = seen(&[(1, 0), (0, 0), (0, 1), (1, 1)], all_bytes);
            assert_eq!(one.digest, seen(&[(0, 0), (1, 0), (0, 1), (1, 1)], all_bytes).digest);
            assert_ne!(one.digest, two.digest);
            assert!(one.complete && one.wrong == 0 && two.complete && two.wrong == 0);
        }
    }

    #[test]
    fn holes_and_strangers_are_wrong_and_a_missing_end_is_incomplete() {
        assert_eq!(seen(&[(0, 0), (0, 2)], false).wrong, 1);
        assert_eq!(seen(&[(5, 0)], false).wrong, 1);
        assert!(!seen(&[(0, 0), (0, 1), (1, 0)], false).complete);
    }
}
