//! What the disk holds from an earlier incarnation.
use super::retention::Ledger;
use super::{Paxos, Then};
use crate::acceptor::{Accepted, Standing};
use crate::ballot::{Ballot, Began, Item};
use crate::record::{LogStart, Record};
use bytes::Bytes;
use consort_types::{Incarnation, Instant, Ticket};
use consort_wire::pack::Body;
use std::collections::BTreeMap;

/// All records together.
#[derive(Debug, Default)]
struct Replayed {
    start: Option<LogStart>,
    began: Began,
    outdated: Option<Incarnation>,
    promised: Ballot,
    accepted: BTreeMap<u64, Accepted>,
    learnt: BTreeMap<u64, (Item, Option<Body>)>,
    decided: u64,
}

impl Replayed {
    fn of(records: impl Iterator<Item = Record>) -> Self {
        let mut all = Self::default();
        records.for_each(|record| all.note(record));
        all
    }

    fn note(&mut self, record: Record) {
        match record {
            Record::Empty => *self = Self::default(),
            Record::Checkpoint(start) => self.start = Some(*start),
            Record::Voter(incarnation) => self.began.note_voter(incarnation, false),
            Record::Adopter(incarnation) => self.began.note_voter(incarnation, true),
            Record::Asker(incarnation) => {
                self.began.all.note(incarnation);
            }
            Record::Outdated(known) => self.outdated = Some(known.incarnation),
            Record::Promised(ballot) => self.promised = self.promised.max(ballot),
            Record::Accepted { ballot, at, item, body } => {
                self.promised = self.promised.max(ballot);
                if self.accepted.get(&at).is_none_or(|known| known.ballot <= ballot) {
                    self.accepted.insert(at, Accepted { ballot, item, body, kept: true });
                }
            }
            Record::Learnt { at, item, body } => {
                self.learnt.insert(at, (item, body));
            }
            Record::Decided(next) => self.decided = self.decided.max(next),
        }
    }

    /// What is decided at an instance.
    fn decided(&mut self, at: u64) -> Option<(Item, Option<Body>)> {
        let accepted = || self.accepted.get(&at).map(|accepted| (accepted.item.clone(), accepted.body.clone()));
        self.learnt.remove(&at).or_else(accepted)
    }
}

impl Paxos {
    /// Goes on where the disk says that an earlier incarnation of this acceptor was. The records have the tickets from 1 on.
    pub(super) fn replay(&mut self, now: Instant, records: &[Bytes]) {
        //= X34
        self.ticket = records.len() as u64;
        let read: Vec<_> = records.iter().map_while(|record| Record::decode(record).ok()).collect();
        let readable = read.len() == records.len();
        self.check(readable, "X04: what was kept can be read");
        if self.acceptor.is_none() || records.is_empty() {
            return;
        }
        self.ledger = Ledger::of(read.iter().map(Record::instance).zip(records.iter().map(Bytes::len)));
        let mut disk = Replayed::of(read.into_iter());
        match disk.start.take().filter(|_| readable) {
            Some(start) => self.go_on(now, start, disk),
            // What an earlier log has left behind must not be taken for a part of the next one.
            None => self.keep(now, &Record::Empty, Then::Trim(Ticket(self.ticket))),
        }
    }

    fn go_on(&mut self, now: Instant, start: LogStart, mut disk: Replayed) {
        (self.log, self.founders) = (start.log, start.founders);
        self.began = start.began;
        self.began.merge(&disk.began);
        self.noted = self.began.clone();
        let (promised, first) = (start.promised.max(disk.promised), start.from.at);
        self.round = self.round.max(promised.round);
        self.learner.jump(start.from);
        let decided: Vec<_> = (first..disk.decided).map_while(|at| Some((at, disk.decided(at)?))).collect();
        self.marked = decided.last().map_or(first, |(at, _)| at + 1);
        self.noted_up_to = self.marked;
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.promised = promised;
            acceptor.accepted = disk.accepted.split_off(&first);
        }
        self.begin_to_ask(self.began.voters().latest(self.me.node));
        if let (Some(known), Some(acceptor)) = (disk.outdated, &mut self.acceptor) {
            acceptor.standing = Standing::Outdated { known };
        }
        // One by one: a value that was decided twice is held for each of its instances.
        for (at, (item, body)) in decided {
            self.remember(item.clone(), body);
            self.learner.decide(at, item);
            self.take_decided(now);
        }
    }
}
