//! What a durable copy has on its disk: records of a journal, and what they come to when they are read again.
use super::log::{Item, Log};
use bytes::{BufMut, Bytes, BytesMut};
use consort_wire::{Malformed, Reader};
use std::collections::VecDeque;

/// The version of all records, in front of each.
const VERSION: u8 = 1;
const STATE: u8 = 1;
const PROMISE: u8 = 2;
const LINE: u8 = 3;
const ENTRY: u8 = 4;

/// What it knows without its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Names the store's history; 0 before it has begun.
    pub history: u64,
    /// It takes part in no term that is less than this.
    pub promised: u64,
    /// The last term in which it had the whole log.
    pub term: u64,
    /// It has had the whole log of a term, and has lost nothing since.
    pub remembers: bool,
    /// It began without its directory where others had a history, and does not remember since.
    pub lost: bool,
    /// How many copies the store has.
    pub copies: u16,
    /// The start of this copy that found its files to be copies of others.
    pub copied: u64,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// All that is known, and where the log begins.
    State {
        known: Known,
        base: u64,
    },
    Promise {
        term: u64,
    },
    /// The next `count` records are the entries behind `from`, and count only if all of them are there: then the log is that
    /// of this term.
    Line {
        history: u64,
        term: u64,
        from: u64,
        count: u64,
    },
    Entry {
        index: u64,
        item: Item,
    },
}

impl Record {
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(VERSION);
        match self {
            Self::State { known, base } => {
                out.put_u8(STATE);
                [known.history, known.promised, known.term, known.copied, *base]
                    .into_iter()
                    .for_each(|word| out.put_u64(word));
                out.put_u16(known.copies);
                out.put_u8(u8::from(known.remembers) | u8::from(known.lost) << 1);
            }
            Self::Promise { term } => {
                out.put_u8(PROMISE);
                out.put_u64(*term);
            }
            Self::Line { history, term, from, count } => {
                out.put_u8(LINE);
                [history, term, from, count].into_iter().for_each(|word| out.put_u64(*word));
            }
            Self::Entry { index, item: (term, bytes) } => {
                out.reserve(18 + bytes.len());
                out.put_u8(ENTRY);
                out.put_u64(*index);
                out.put_u64(*term);
                out.extend_from_slice(bytes);
            }
        }
        out.freeze()
    }

    pub fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("version")? != VERSION {
            return Err(Malformed { what: "version", at: 0 });
        }
        let record = match reader.u8("kind")? {
            STATE => {
                let (history, promised) = (reader.u64("history")?, reader.u64("promised")?);
                let (term, copied, base) = (reader.u64("term")?, reader.u64("copied")?, reader.u64("base")?);
                let (copies, flags) = (reader.u16("copies")?, reader.u8("flags")?);
                let (remembers, lost) = (flags & 1 != 0, flags & 2 != 0);
                Self::State { known: Known { history, promised, term, remembers, lost, copies, copied }, base }
            }
            PROMISE => Self::Promise { term: reader.u64("term")? },
            LINE => {
                let (history, term) = (reader.u64("history")?, reader.u64("term")?);
                Self::Line { history, term, from: reader.u64("from")?, count: reader.u64("count")? }
            }
            ENTRY => {
                let (index, term) = (reader.u64("index")?, reader.u64("term")?);
                return Ok(Self::Entry { index, item: (term, bytes.slice(reader.at()..)) });
            }
            _ => return Err(Malformed { what: "kind", at: 1 }),
        };
        reader.end("end of record")?;
        Ok(record)
    }
}

/// The state of a disk, and of each entry of the log the number of its record.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// What it knows without its log.
    pub known: Known,
    /// The log of its term.
    pub log: Log,
    /// The number of each entry's record.
    pub numbers: VecDeque<u64>,
}

/// A log of a term that is being read.
struct Unfinished {
    known: Known,
    from: u64,
    count: u64,
    items: Vec<(u64, Item)>,
}

impl Disk {
    /// What these records come to, the first of which has the number 1. Those in front may be needless already.
    ///
    /// # Errors
    /// A record is none.
    pub fn read(records: Vec<Bytes>) -> Result<Self, Malformed> {
        let (mut disk, mut unfinished) = (Self::default(), None::<Unfinished>);
        for (number, bytes) in (1..).zip(records) {
            let record = Record::decode(&bytes)?;
            //= RS23
            if let (Some(line), Record::Entry { index, item }) = (&mut unfinished, &record)
                && *index == line.from + line.items.len() as u64 + 1
            {
                line.items.push((number, item.clone()));
            } else {
                unfinished = None;
                disk.take(number, record, &mut unfinished);
            }
            if unfinished.as_ref().is_some_and(|line| line.items.len() as u64 == line.count)
                && let Some(line) = unfinished.take()
            {
                disk.take_line(line);
            }
        }
        Ok(disk)
    }

    fn take(&mut self, number: u64, record: Record, unfinished: &mut Option<Unfinished>) {
        match record {
            Record::State { known, base } => {
                self.known = known;
                self.release_to(base);
            }
            Record::Promise { term } => self.known.promised = self.known.promised.max(term),
            Record::Line { history, term, from, count } => {
                let promised = self.known.promised.max(term);
                let known = Known { history, promised, term, remembers: true, lost: false, ..self.known };
                *unfinished = Some(Unfinished { known, from, count, items: Vec::new() });
            }
            Record::Entry { index, item } => {
                if self.log.end() == 0 || self.log.base() == self.log.end() && index > self.log.end() {
                    // The records in front of it are gone, because they are in checkpoints.
                    self.release_to(index - 1);
                }
                if index == self.log.end() + 1 {
                    self.push(number, item);
                }
            }
        }
    }

    fn take_line(&mut self, line: Unfinished) {
        self.known = line.known;
        if self.log.base() > line.from {
            // What was before was taken off, and the records in front of it are gone.
            (self.log, self.numbers) = (Log::default(), VecDeque::new());
        }
        self.cut_to(line.from);
        if self.log.end() < line.from {
            self.release_to(line.from);
        }
        line.items.into_iter().for_each(|(number, item)| self.push(number, item));
    }

    /// The next entry, which is in the record of this number.
    pub fn push(&mut self, number: u64, item: Item) {
        self.log.push(item);
        self.numbers.push_back(number);
    }

    /// Takes off what is behind this index.
    pub fn cut_to(&mut self, index: u64) {
        self.log.cut_to(index);
        self.numbers.truncate((self.log.end() - self.log.base()) as usize);
    }

    /// Releases what is up to this index; returns the number of the last record that is needless, if one is.
    pub fn release_to(&mut self, index: u64) -> Option<u64> {
        let before = self.log.base();
        self.log.release_to(index);
        let gone = ((self.log.base() - before) as usize).min(self.numbers.len());
        self.numbers.drain(..gone).next_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64) -> Record {
        Record::Entry { index, item: (term, Bytes::from(index.to_string())) }
    }

    fn known(term: u64) -> Known {
        Known { history: 5, promised: term, term, remembers: true, lost: false, copies: 3, copied: 9 }
    }

    fn line(term: u64, from: u64, count: u64) -> Record {
        Record::Line { history: 5, term, from, count }
    }

    fn read(records: &[Record]) -> Disk {
        Disk::read(records.iter().map(Record::encode).collect()).unwrap()
    }

    #[test]
    fn records_read_back_and_cut_ones_are_malformed() {
        let state = Record::State { known: known(7), base: 8 };
        for record in [state, Record::Promise { term: 4 }, line(3, 2, 1), entry(6, 2)] {
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes).unwrap(), record);
            let least = if matches!(record, Record::Entry { .. }) { 18 } else { bytes.len() };
            (0..least).for_each(|len| assert!(Record::decode(&bytes.slice(..len)).is_err(), "{record:?} to {len}"));
        }
        assert!(Record::decode(&Bytes::from_static(b"\x02\x02........")).is_err(), "another version");
    }

    #[test]
    fn the_log_of_a_term_counts_only_if_it_is_whole() {
        //= RS23 test
        let before = [line(1, 0, 2), entry(1, 1), entry(2, 1), entry(3, 1)];
        let whole = read(&[&before[..], &[line(2, 1, 2), entry(2, 2), entry(3, 2)]].concat());
        assert_eq!((whole.known.term, whole.log.end(), whole.log.get(2).unwrap().0), (2, 3, 2));
        let cut = read(&[&before[..], &[line(2, 1, 2), entry(2, 2)]].concat());
        assert_eq!((cut.known.term, cut.log.end(), cut.log.get(2).unwrap().0), (1, 3, 1));
        let later = read(&[&before[..], &[line(2, 1, 2), entry(2, 2), Record::Promise { term: 3 }]].concat());
        assert_eq!((later.known.term, later.known.promised, later.log.end()), (1, 3, 3));
        let empty = read(&[&before[..], &[line(2, 1, 0)]].concat());
        assert_eq!((empty.known.term, empty.log.end()), (2, 1), "what it had beyond the log of the term is gone");
    }

    #[test]
    fn records_in_front_may_be_gone() {
        let all = [line(1, 0, 1), entry(1, 1), entry(2, 1), entry(3, 1), Record::State { known: known(1), base: 2 }];
        for gone in 0..=3 {
            let disk = read(&[&all[gone..], &[entry(4, 1)]].concat());
            assert_eq!((disk.log.base(), disk.log.end(), disk.known), (2, 4, known(1)), "without {gone}");
            assert_eq!(disk.numbers.len(), 2);
        }
        let restored = read(&[line(1, 0, 1), entry(1, 1), line(4, 70, 1), entry(71, 4)]);
        assert_eq!((restored.log.base(), restored.log.end()), (70, 71), "a checkpoint of another came in between");
        let cut = read(&[entry(15, 1), entry(16, 1), line(2, 8, 0), entry(9, 2), entry(10, 2)]);
        assert_eq!((cut.log.base(), cut.log.end(), cut.numbers.len()), (8, 10, 2), "what was before was taken off");
    }
}
