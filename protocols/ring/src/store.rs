//! The packets of one ring that are not yet known to be held by all members.
use crate::packet::DataPacket;
use consort_types::Seq;
use std::collections::VecDeque;

/// Packets by sequence number, from the one after the discard line on. Holes stand for packets that are missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    discarded: Seq,
    aru: Seq,
    slots: VecDeque<Option<DataPacket>>,
    held: usize,
    bytes: usize,
}

/// What became of a packet that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It was missing.
    New,
    /// It is there already, or lies below the discard line.
    Duplicate,
}

impl Store {
    /// Keeps a packet, unless it is there already. The caller has bounded how far ahead it may lie.
    pub fn insert(&mut self, data: DataPacket) -> Inserted {
        //= R23
        // Compared with the discard line and with what is held, never with aru: aru on the token may be lowered.
        let Some(index) = data.seq.0.checked_sub(self.discarded.0 + 1) else { return Inserted::Duplicate };
        let index = index as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, None);
        }
        let slot = &mut self.slots[index];
        if slot.is_some() {
            return Inserted::Duplicate;
        }
        self.bytes += data.wire_len();
        self.held += 1;
        *slot = Some(data);
        self.advance();
        Inserted::New
    }

    fn advance(&mut self) {
        while self.get(self.aru.next()).is_some() {
            self.aru = self.aru.next();
        }
    }

    /// The packet at a sequence number.
    pub fn get(&self, seq: Seq) -> Option<&DataPacket> {
        let index = seq.0.checked_sub(self.discarded.0 + 1)?;
        self.slots.get(usize::try_from(index).ok()?)?.as_ref()
    }

    /// Lets go of everything up to a sequence number.
    pub fn discard_to(&mut self, seq: Seq) {
        //= R22
        while self.discarded < seq {
            if let Some(Some(data)) = self.slots.pop_front() {
                self.bytes -= data.wire_len();
                self.held -= 1;
            }
            self.discarded = self.discarded.next();
        }
        self.aru = self.aru.max(seq);
    }

    /// The sequence numbers up to `limit` that are missing.
    pub fn missing_to(&self, limit: Seq) -> impl Iterator<Item = Seq> {
        (self.aru.0 + 1..=limit.0).map(Seq).filter(|seq| self.get(*seq).is_none())
    }

    /// All received up to here.
    pub const fn aru(&self) -> Seq {
        self.aru
    }

    /// The highest sequence number held or once held.
    pub fn highest(&self) -> Seq {
        self.discarded.plus(self.slots.len() as u64)
    }

    /// Everything up to here was let go.
    pub const fn discarded(&self) -> Seq {
        self.discarded
    }

    /// How many packets are held.
    pub const fn held(&self) -> usize {
        self.held
    }

    /// How many bytes they take.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::data;

    #[test]
    fn aru_stops_at_the_first_hole_and_jumps_when_it_is_filled() {
        //= R23 test
        let mut store = Store::default();
        for seq in [1, 2, 4, 5] {
            assert_eq!(store.insert(data(seq)), Inserted::New);
        }
        assert_eq!((store.aru(), store.highest(), store.held()), (Seq(2), Seq(5), 4));
        assert_eq!(store.missing_to(Seq(7)).collect::<Vec<_>>(), [Seq(3), Seq(6), Seq(7)]);
        assert_eq!(store.insert(data(3)), Inserted::New);
        assert_eq!(store.aru(), Seq(5));
    }

    #[test]
    fn duplicates_are_known_below_and_above_the_discard_line() {
        //= R23 test
        let mut store = Store::default();
        (1..=3).for_each(|seq| assert_eq!(store.insert(data(seq)), Inserted::New));
        store.discard_to(Seq(2));
        assert_eq!(store.insert(data(1)), Inserted::Duplicate);
        assert_eq!(store.insert(data(3)), Inserted::Duplicate);
        assert_eq!((store.held(), store.discarded()), (1, Seq(2)));
    }

    #[test]
    fn discarding_gives_all_memory_back() {
        //= R22 test
        let mut store = Store::default();
        (1..=100).for_each(|seq| assert_eq!(store.insert(data(seq)), Inserted::New));
        assert!(store.bytes() > 0);
        store.discard_to(Seq(100));
        assert_eq!((store.bytes(), store.held(), store.highest()), (0, 0, Seq(100)));
        assert_eq!(store.insert(data(101)), Inserted::New);
        assert_eq!(store.aru(), Seq(101));
    }
}
