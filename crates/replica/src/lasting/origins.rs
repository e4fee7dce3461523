//! Who numbers commands, and which of them have counted: a part of the state, so that it is the same at every replica at
//! a position of the log.
use crate::frame::{put_place, read_place};
use crate::line::Origin;
use bytes::{BufMut, BytesMut};
use consort::Place;
use consort_wire::{Malformed, Reader};
use std::collections::BTreeMap;

/// How many origins are remembered; the one that was silent for longest is forgotten for another.
pub const ORIGINS_MAX: usize = if cfg!(test) { 6 } else { 4_096 };

/// Where an origin was opened. Commands that name another epoch do not count.
pub type Epoch = Place;

/// What is remembered of one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    epoch: Epoch,
    /// The number of its last command that counted.
    last: u64,
    /// Where that was, or the opening.
    at: Place,
}

/// Of each origin its epoch and its last command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origins {
    records: BTreeMap<Origin, Record>,
    most: usize,
}

impl Default for Origins {
    fn default() -> Self {
        Self::of_most(ORIGINS_MAX)
    }
}

impl Origins {
    /// None yet, with the number that is remembered. All replicas must remember the same number.
    pub const fn of_most(most: usize) -> Self {
        Self { records: BTreeMap::new(), most }
    }

    /// Where this origin was opened, if it is remembered.
    pub fn epoch(&self, origin: Origin) -> Option<Epoch> {
        self.records.get(&origin).map(|record| record.epoch)
    }

    /// The number of the last command that counted under this epoch.
    pub fn last(&self, origin: Origin, epoch: Epoch) -> Option<u64> {
        self.records.get(&origin).filter(|record| record.epoch == epoch).map(|record| record.last)
    }

    /// An opening has this position. Another opening of an origin that is remembered changes nothing.
    pub fn open(&mut self, origin: Origin, at: Place) {
        //= RS06
        if self.records.contains_key(&origin) {
            return;
        }
        if self.records.len() >= self.most
            && let Some(silent) = self.records.iter().min_by_key(|(_, record)| record.at).map(|(origin, _)| *origin)
        {
            self.records.remove(&silent);
        }
        self.records.insert(origin, Record { epoch: at, last: 0, at });
    }

    /// Whether a command at this position counts: its origin has that epoch, and the number is the next.
    pub fn count(&mut self, origin: Origin, epoch: Epoch, number: u64, at: Place) -> bool {
        //= RS06
        let record = self.records.get_mut(&origin).filter(|record| record.epoch == epoch && number == record.last + 1);
        record.is_some_and(|record| {
            (record.last, record.at) = (number, at);
            true
        })
    }

    #[cfg(any(test, feature = "mutants"))]
    pub fn forget(&mut self, origin: Origin) {
        self.records.remove(&origin);
    }

    #[cfg(any(test, feature = "mutants"))]
    pub fn is_full(&self) -> bool {
        self.records.len() >= self.most
    }

    /// The origin that spoke last before this position.
    #[cfg(any(test, feature = "mutants"))]
    pub fn newest(&self, at: Place) -> Option<Origin> {
        self.records
            .iter()
            .filter(|(_, record)| record.at < at)
            .max_by_key(|(_, record)| record.at)
            .map(|(origin, _)| *origin)
    }

    #[cfg(any(test, feature = "mutants"))]
    pub fn set_last(&mut self, origin: Origin, last: u64) {
        self.records.get_mut(&origin).into_iter().for_each(|record| record.last = last);
    }

    /// How many bytes the table takes in a checkpoint.
    const RECORD: usize = 16 + 10 + 8 + 10;

    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(self.records.len() as u32);
        for (origin, record) in &self.records {
            out.put_u128(origin.0);
            put_place(out, record.epoch);
            out.put_u64(record.last);
            put_place(out, record.at);
        }
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let before = reader.clone();
        let count = reader.u32("origins")? as usize;
        if count > ORIGINS_MAX || count * Self::RECORD > reader.left() {
            return Err(before.bad("origins"));
        }
        let mut origins = Self::default();
        for _ in 0..count {
            let origin = Origin(crate::codec::read_u128(reader, "origin")?);
            let (epoch, last) = (read_place(reader)?, reader.u64("last")?);
            origins.records.insert(origin, Record { epoch, last, at: read_place(reader)? });
        }
        Ok(origins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_counts_under_its_epoch_and_in_turn_only() {
        //= RS06 test
        let mut origins = Origins::default();
        let (one, at) = (Origin(7), Place::at);
        assert!(!origins.count(one, at(3), 1, at(4)), "it was not opened");
        origins.open(one, at(5));
        assert!(!origins.count(one, at(3), 1, at(6)) && !origins.count(one, at(5), 2, at(6)));
        assert!(origins.count(one, at(5), 1, at(7)) && origins.count(one, at(5), 2, at(8)));
        assert!(!origins.count(one, at(5), 2, at(9)), "a second copy");
        origins.open(one, at(10));
        assert_eq!((origins.epoch(one), origins.last(one, at(5))), (Some(at(5)), Some(2)), "opened before");
    }

    #[test]
    fn the_origin_that_was_silent_longest_is_forgotten() {
        //= RS06 test
        let mut origins = Origins::default();
        (0..ORIGINS_MAX as u64).for_each(|n| origins.open(Origin(n.into()), Place::at(n + 1)));
        let last = Place::at(ORIGINS_MAX as u64 + 1);
        assert!(origins.count(Origin(0), Place::at(1), 1, last));
        origins.open(Origin(1 << 64), Place::at(last.position + 1));
        assert_eq!(origins.epoch(Origin(1)), None, "it spoke before origin 0 did");
        assert!(origins.epoch(Origin(0)).is_some() && origins.epoch(Origin(1 << 64)).is_some());
    }

    #[test]
    fn the_table_reads_back_and_cut_or_endless_ones_are_malformed() {
        let mut origins = Origins::default();
        (1..4).for_each(|n| origins.open(Origin(n), Place { position: 9, index: n as u16 }));
        let mut out = BytesMut::new();
        origins.put(&mut out);
        assert_eq!(Origins::read(&mut Reader::new(&out)), Ok(origins));
        for len in 0..out.len() {
            assert!(Origins::read(&mut Reader::new(&out[..len])).is_err(), "cut to {len}");
        }
        out[0] = 0xff;
        assert!(Origins::read(&mut Reader::new(&out)).is_err());
    }
}
