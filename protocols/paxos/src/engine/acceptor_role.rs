//! This node as an acceptor: promises, votes, and what of them is on the disk.
use super::{Paxos, Then, Writing};
use crate::acceptor::Answer;
use crate::ballot::{Ballot, Item, ValueId};
use crate::config::Storage;
use crate::packet::Content;
use crate::record::Record;
use consort_order::Output;
use consort_types::{Instant, MemberId, Ticket};

/// What a record takes up beside its bytes until it is on the disk.
const RECORD: usize = 128;

impl Paxos {
    /// Whether the disk keeps up, so that more may be written. Whoever needs a record to answer says nothing meanwhile: it is
    /// asked again.
    pub(super) fn has_room(&self) -> bool {
        //= X28
        self.unwritten <= self.config.unwritten() || crate::mutated!(self.config, RoomIgnored)
    }

    /// Keeps a record, and then does something. In memory it is kept at once.
    pub(super) fn keep(&mut self, now: Instant, record: &Record, then: Then) {
        //= X04
        self.counters.records += 1;
        if self.config.storage == Storage::Memory {
            return self.kept(now, then);
        }
        self.ticket += 1;
        let (ticket, bytes) = (Ticket(self.ticket), record.encode());
        self.ledger.note(ticket, record.instance(), bytes.len());
        let sync = !matches!(then, Then::Nothing) && self.config.storage == Storage::Sync;
        let size = bytes.len() + RECORD;
        self.unwritten += size;
        self.writing.insert(ticket, Writing { then, bytes: size, since: now });
        self.output.push_back(Output::Persist { ticket, record: bytes, sync });
    }

    /// A record is on the disk.
    pub(super) fn on_persisted(&mut self, now: Instant, ticket: Ticket) {
        if let Some(Writing { then, bytes, .. }) = self.writing.remove(&ticket) {
            self.unwritten -= bytes;
            self.kept(now, then);
            self.write_on(now);
        }
    }

    fn kept(&mut self, now: Instant, then: Then) {
        match then {
            Then::Nothing | Then::Rest => {}
            Then::Stand(ballot) => self.stand(now, ballot),
            Then::Promise { ballot, from } => self.promise(ballot, from),
            Then::Vote { ballot, at } => self.vote(ballot, at),
            Then::Answer(incarnation) => self.answer(incarnation),
            Then::Adopted => self.adopted(now),
            Then::Announce => self.announce_return(now),
            Then::Note { voter, has_forgotten, log } => {
                if log == self.log {
                    self.noted.note_voter(voter, has_forgotten);
                    // One that comes back without its votes waits for this.
                    if has_forgotten {
                        self.beat_at = now;
                    }
                }
            }
            Then::StartAnew { cause } => {
                self.output.push_back(Output::Restart { cause, records: Vec::new(), exceed: None })
            }
            Then::Trim(up_to) => self.output.push_back(Output::Trim { up_to }),
        }
    }

    pub(super) fn on_prepare(&mut self, now: Instant, from: MemberId, ballot: Ballot, first: u64) {
        self.round = self.round.max(ballot.round);
        let blank = crate::mutated!(self.config, BlankVotes);
        if !self.has_room() {
            self.counters.put_off += 1;
            return;
        }
        let leads = self.holds_lease(now);
        let Some(acceptor) = self.acceptor.as_mut().filter(|acceptor| acceptor.votes() || blank) else { return };
        if crate::mutated!(self.config, PromisesBelow) {
            acceptor.promised = acceptor.promised.min(ballot);
        }
        let free = acceptor.is_free_for(from, now) && (!leads || crate::mutated!(self.config, LeadsUnprotected));
        let free = free && !(ballot == acceptor.promised && crate::mutated!(self.config, EqualRefused));
        match if free { acceptor.prepare(ballot) } else { Answer::Refused } {
            Answer::Refused if crate::mutated!(self.config, RefusesSilently) => {}
            Answer::Refused => {
                //= X11
                let promised = acceptor.promised;
                self.send(from.node, Content::Nack { ballot, promised });
            }
            _ if crate::mutated!(self.config, PromisesUnkept) => self.promise(ballot, first),
            _ => self.keep(now, &Record::Promised(ballot), Then::Promise { ballot, from: first }),
        }
    }

    fn promise(&mut self, ballot: Ballot, from: u64) {
        let next = self.learner.next();
        let Some(acceptor) = self.acceptor.as_ref().filter(|acceptor| acceptor.promised == ballot) else { return };
        let told = acceptor.tell(self.began.all.clone(), next, from);
        self.send(ballot.owner.node, Content::Promise { ballot, told });
    }

    /// An accept: passed on first, whatever becomes of it here.
    pub(super) fn on_accept(&mut self, now: Instant, ballot: Ballot, at: u64, item: Item, hops: u16) {
        //= X22
        if hops > 0 {
            self.pass_on(Content::Accept { ballot, at, item: item.clone(), hops: hops - 1 });
        }
        self.round = self.round.max(ballot.round);
        self.consider(now, ballot, at, item);
    }

    fn consider(&mut self, now: Instant, ballot: Ballot, at: u64, item: Item) {
        let blank = crate::mutated!(self.config, BlankVotes);
        let votes = self.acceptor.as_ref().is_some_and(|acceptor| acceptor.votes() || blank);
        if !votes || at < self.learner.first().at {
            return;
        }
        let known = self.acceptor.as_ref().and_then(|acceptor| acceptor.accepted.get(&at));
        if !self.has_room() && known.is_none_or(|known| known.ballot != ballot) {
            self.counters.put_off += 1;
            return;
        }
        let body = match &item {
            Item::Value(id) => match self.payload(id).or_else(|| self.decided_payload(at, &item)) {
                Some(body) => Some(body),
                None => return self.wait_for(ballot, at, item.clone(), *id),
            },
            _ => None,
        };
        let Some(acceptor) = &mut self.acceptor else { return };
        acceptor.waiting.remove(&at);
        let replaced = acceptor.accepted.get(&at).filter(|old| old.item != item).cloned();
        if crate::mutated!(self.config, AcceptsBelow) {
            acceptor.promised = acceptor.promised.min(ballot);
        }
        let (before, kept) =
            (acceptor.promised, acceptor.accepted.get(&at).map(|old| (old.item.clone(), old.body.clone())));
        let kept = kept.filter(|_| crate::mutated!(self.config, OldItemKept));
        let (item, body) = kept.unwrap_or((item, body));
        let answer = acceptor.accept(ballot, at, &item, body.clone());
        if crate::mutated!(self.config, PromiseUnraised) {
            acceptor.promised = before;
        }
        match answer {
            Answer::Granted => {
                self.hold_payload(replaced);
                //= X21
                self.keep(now, &Record::Accepted { ballot, at, item, body }, Then::Vote { ballot, at });
                if crate::mutated!(self.config, VotesUnkept) {
                    self.vote(ballot, at);
                }
            }
            Answer::Again => self.vote(ballot, at),
            Answer::Waits => {}
            Answer::Refused => {
                let promised = acceptor.promised;
                self.check(promised > ballot, "X26: one ballot proposes one item for an instance");
                self.send(ballot.owner.node, Content::Nack { ballot, promised });
            }
        }
    }

    /// Nothing is voted for that this acceptor could not hand on.
    fn wait_for(&mut self, ballot: Ballot, at: u64, item: Item, id: ValueId) {
        //= X23
        let Some(acceptor) = &mut self.acceptor else { return };
        if acceptor.waiting.get(&at).is_none_or(|(known, _)| *known <= ballot) {
            acceptor.waiting.insert(at, (ballot, item));
        }
        self.send(ballot.owner.node, Content::Fetch(vec![id]));
    }

    /// Payloads have come: whoever waited for them votes.
    pub(super) fn reconsider(&mut self, now: Instant, id: &ValueId) {
        let Some(acceptor) = &mut self.acceptor else { return };
        let is_waiting = |(_, (_, item)): &(&u64, &(Ballot, Item))| *item == Item::Value(*id);
        let waiting: Vec<_> = acceptor.waiting.iter().filter(is_waiting).map(|(at, _)| *at).collect();
        for at in waiting {
            let Some((ballot, item)) = self.acceptor.as_mut().and_then(|acceptor| acceptor.waiting.remove(&at)) else {
                continue;
            };
            self.consider(now, ballot, at, item);
        }
    }

    fn vote(&mut self, ballot: Ballot, at: u64) {
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.keep(ballot, at);
            let incarnations = self.began.all.clone();
            self.send(ballot.owner.node, Content::Vote { ballot, at, incarnations });
        }
    }

    pub(super) fn remember(&mut self, item: Item, body: Option<consort_wire::pack::Body>) {
        if let (Item::Value(id), Some(body)) = (item, body) {
            self.pool.insert(id, body);
        }
    }
}
