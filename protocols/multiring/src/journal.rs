//! The records of several engines in one list: each has tickets of its own, and the driver one row of them.
use bytes::{BufMut, Bytes, BytesMut};
use consort_types::Ticket;
use std::collections::VecDeque;

/// Whose record it is: 0 is the membership of the whole network, others are rings by their numbers.
pub type RecordOwner = u8;

/// Which records are still needed.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    /// The last ticket given out.
    last: u64,
    /// Those that are needed: the driver's ticket, whose it is, and its ticket there.
    needed: VecDeque<(u64, RecordOwner, u64)>,
    trimmed: u64,
}

impl Journal {
    /// Takes up the records of earlier incarnations. Those of rings that this node is not in any more are not needed.
    pub fn recall(&mut self, records: &[Bytes], known: impl Fn(RecordOwner) -> bool) {
        for record in records {
            self.last += 1;
            let owner = record.first().copied().unwrap_or_default();
            if !known(owner) {
                continue;
            }
            let own = self.needed.iter().filter(|(_, other, _)| *other == owner).count() as u64 + 1;
            self.needed.push_back((self.last, owner, own));
        }
    }

    /// The records of one owner among all.
    pub fn of(owner: RecordOwner, records: &[Bytes]) -> Vec<Bytes> {
        let own = records.iter().filter(|record| record.first() == Some(&owner));
        own.map(|record| record.slice(1..)).collect()
    }

    /// The driver's ticket for a record, and the record as it is to be written.
    pub fn add(&mut self, owner: RecordOwner, ticket: Ticket, record: &Bytes) -> (Ticket, Bytes) {
        self.last += 1;
        self.needed.push_back((self.last, owner, ticket.0));
        let mut tagged = BytesMut::with_capacity(record.len() + 1);
        tagged.put_u8(owner);
        tagged.put_slice(record);
        (Ticket(self.last), tagged.freeze())
    }

    /// Whose record a ticket of the driver names, and its ticket there.
    pub fn owner(&self, ticket: Ticket) -> Option<(RecordOwner, Ticket)> {
        let found = self.needed.iter().find(|(own, _, _)| *own == ticket.0)?;
        Some((found.1, Ticket(found.2)))
    }

    /// An owner does not need its records up to a ticket any more. Says up to where nobody needs any, if that is news.
    pub fn trim(&mut self, owner: RecordOwner, up_to: Ticket) -> Option<Ticket> {
        self.needed.retain(|(_, other, ticket)| *other != owner || *ticket > up_to.0);
        let free = self.needed.front().map_or(self.last, |(first, _, _)| first - 1);
        let news = free > self.trimmed;
        self.trimmed = self.trimmed.max(free);
        news.then_some(Ticket(free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_let_go_once_nobody_needs_any_before() {
        //= TM07 test
        let mut journal = Journal::default();
        let old = [Bytes::from_static(b"\x00a"), Bytes::from_static(b"\x02b")];
        let gone = Bytes::from_static(b"\x07z");
        let mut without = Journal::default();
        without.recall(&[gone, old[0].clone()], |owner| owner == 0);
        assert_eq!(without.trim(0, Ticket(1)), Some(Ticket(2)), "nobody needs those of a ring that is no more");
        journal.recall(&old, |_| true);
        assert_eq!(Journal::of(2, &old), [Bytes::from_static(b"b")]);
        let (ticket, record) = journal.add(0, Ticket(2), &Bytes::from_static(b"c"));
        assert_eq!((ticket, &record[..]), (Ticket(3), &b"\x00c"[..]));
        assert_eq!(journal.owner(Ticket(3)), Some((0, Ticket(2))));
        assert_eq!(journal.trim(2, Ticket(1)), None, "the first of all is needed");
        assert_eq!(journal.trim(0, Ticket(1)), Some(Ticket(2)));
        assert_eq!(journal.trim(0, Ticket(1)), None, "that was told");
        assert_eq!(journal.owner(Ticket(9)), None);
    }
}
