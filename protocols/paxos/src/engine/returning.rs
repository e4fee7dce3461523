//! An acceptor that comes back with records: are they the newest, or were they put back to an earlier state?
//!
//! Each voting incarnation writes its own name to its disk, and a majority less one of the others have it on theirs. So an
//! acceptor whose records end at an earlier incarnation is found out by any of them.
use super::{Paxos, Peer, Then};
use crate::acceptor::{Acceptor, Standing};
use crate::ballot::LogId;
use crate::config::Storage;
use crate::packet::{Acceptance, Beat};
use crate::record::Record;
use consort_types::{Duration, Incarnation, Instant, MemberId, NodeId};
use std::collections::BTreeMap;

/// What lasts longer is worth a warning.
const LASTS: Duration = Duration::from_secs(2);

impl Paxos {
    /// The disk had records, which the incarnation `follows` wrote last. In memory they were carried over, and where they
    /// name none there is nothing to ask for.
    pub(super) fn begin_to_ask(&mut self, follows: Incarnation) {
        let Some(acceptor) = &mut self.acceptor else { return };
        let is_named = follows.0 > 0 || self.config.copied_in.0 > 0;
        let trusts = self.config.storage == Storage::Memory || !is_named;
        let trusts = trusts || crate::mutated!(self.config, CopiesTrusted);
        self.follows = if trusts { Incarnation(0) } else { follows };
        acceptor.standing = if trusts { Standing::Voting } else { Standing::Asking { answered: false } };
        if trusts {
            self.began.note_voter(self.me, false);
        }
    }

    /// Whether the records were found to be copies, and nothing was written since that says what they lack.
    fn is_copy(&self) -> bool {
        self.follows < self.config.copied_in
    }

    /// Other acceptors that have received beats of this incarnation and hold this node's log: what they know counts.
    fn answers(&self, now: Instant) -> impl Iterator<Item = &Peer> {
        let knows = move |peer: &&Peer| {
            let has_log = !matches!(peer.beat.acceptor, Acceptance::None | Acceptance::Blank) && peer.log == self.log;
            has_log && self.config.is_acceptor(peer.member.node) && self.is_mutual(peer, now)
        };
        self.peers.values().filter(knows)
    }

    /// How many other acceptors must have said that they know of no later vote.
    fn answers_needed(&self) -> usize {
        //= X35
        //= X36
        let others = self.config.acceptors.len() - 1;
        if self.is_copy() { self.config.quorum().min(others) } else { self.config.quorum() - 1 }
    }

    /// Goes on as far as the others' answers allow.
    pub(super) fn return_to_vote(&mut self, now: Instant) {
        match self.acceptor.as_ref().map(|acceptor| &acceptor.standing) {
            Some(Standing::Asking { answered: false }) => self.end_asking(now),
            Some(Standing::Announcing { .. }) => self.end_announcing(now),
            _ => {}
        }
    }

    fn end_asking(&mut self, now: Instant) {
        //= X35
        let (answers, others) = (self.answers(now).count(), self.config.acceptors.len() - 1);
        let waited = now.since(self.started) >= self.config.lease;
        if answers < self.answers_needed() || !(waited || answers == others) || !self.has_room() {
            return;
        }
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.standing = Standing::Asking { answered: true };
        }
        self.keep(now, &Record::Voter(self.me), Then::Announce);
    }

    /// The records are the newest, and this incarnation's name is among them.
    pub(super) fn announce_return(&mut self, now: Instant) {
        if self.acceptor.as_ref().is_some_and(Acceptor::returns) {
            self.announce(now, self.config.quorum() - 1, false);
        }
    }

    /// This incarnation's name is on the disk. It votes once this number of others has it on theirs.
    pub(super) fn announce(&mut self, now: Instant, witnesses: usize, has_forgotten: bool) {
        [&mut self.began, &mut self.noted].into_iter().for_each(|began| began.note_voter(self.me, has_forgotten));
        let witnesses = if crate::mutated!(self.config, Unannounced) { 0 } else { witnesses };
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.standing = Standing::Announcing { witnesses };
        }
        self.end_announcing(now);
    }

    fn end_announcing(&mut self, now: Instant) {
        //= X35
        let Some(Acceptor { standing: Standing::Announcing { witnesses }, .. }) = self.acceptor else { return };
        let has_noted = |peer: &&Peer| peer.beat.noted.latest(self.me.node) == self.me.incarnation;
        if self.answers(now).filter(has_noted).count() < witnesses {
            return;
        }
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.standing = Standing::Voting;
        }
    }

    /// Another node speaks: one that has forgotten makes its earlier votes count no more, one that votes its earlier records.
    pub(super) fn note_incarnation(&mut self, from: MemberId, log: LogId, beat: &Beat) {
        //= X31
        //= X109
        let asks = beat.acceptor == Acceptance::Asking || self.later_than_records(from, log, beat).is_some();
        if !self.config.is_acceptor(from.node) || asks {
            return;
        }
        self.began.all.note(from);
        let is_voter = beat.acceptor.is_voter() || crate::mutated!(self.config, AskersVote);
        if is_voter && (log == self.log || crate::mutated!(self.config, AnyLogsVoters)) {
            self.began.note_voter(from, beat.has_forgotten());
        }
    }

    /// Another acceptor votes, or is about to: the disk knows of it before it counts.
    pub(super) fn note_voter(&mut self, now: Instant, from: MemberId, log: LogId, beat: &Beat) {
        //= X35
        let keeps = self.config.storage != Storage::Memory
            && self.acceptor.as_ref().is_some_and(|acceptor| acceptor.votes() || acceptor.returns());
        let is_known = self.noted.voters().latest(from.node) >= from.incarnation
            || self.writing.values().any(|writing| matches!(writing.then, Then::Note(noted, _) if noted == from));
        if beat.acceptor.is_voter() && keeps && !is_known && log == self.log && log != LogId::NONE && self.has_room() {
            let has_forgotten = beat.has_forgotten();
            let record = if has_forgotten { Record::Adopter(from) } else { Record::Voter(from) };
            self.keep(now, &record, Then::Note(from, has_forgotten));
        }
    }

    /// The incarnation of a node that this one knows to have voted after the records which that node has come back with.
    fn later_than_records(&self, from: MemberId, log: LogId, beat: &Beat) -> Option<Incarnation> {
        let known = self.began.latest_voter(from.node, beat.acceptor != Acceptance::Asking);
        let lacks = beat.follows.0 > 0 && beat.follows < known && known < from.incarnation;
        (lacks && log == self.log && self.config.is_acceptor(from.node)).then_some(known)
    }

    /// Whether a node does not know by itself that its disk was put back: its votes do not count.
    pub(super) fn is_put_back(&self, member: MemberId) -> bool {
        let peer = self.peers.get(&member.node).filter(|peer| peer.member == member);
        peer.is_some_and(|peer| self.later_than_records(member, peer.log, &peer.beat).is_some())
    }

    /// Another node knows of a vote of this one that its records lack: they count as forgotten.
    pub(super) fn heed_memory_of(&mut self, now: Instant, from: MemberId, log: LogId, beat: &Beat) {
        //= X35
        let asks = matches!(self.acceptor, Some(Acceptor { standing: Standing::Asking { .. }, .. }));
        let known = beat.began.latest_voter(self.me.node, !asks && !crate::mutated!(self.config, ConfirmedUndone));
        let lacks = self.follows.0 > 0 && self.follows < known && known < self.me.incarnation;
        let is_of_log = log == self.log || crate::mutated!(self.config, AnyLogsVoters);
        if !lacks || !is_of_log || !beat.hears.contains(&self.me) || crate::mutated!(self.config, PutBackVotes) {
            return;
        }
        let Some(acceptor) = &mut self.acceptor else { return };
        acceptor.standing = Standing::Blank { answers: BTreeMap::new() };
        let cause = format!(
            "the records of this node end at its incarnation {}, and {from} knows that incarnation {known} has voted, so that \
             they were put back from a copy or a snapshot: they count as lost, and the other acceptors are asked",
            self.follows
        );
        self.follows = Incarnation(0);
        self.keep(now, &Record::Empty, Then::StartAnew { cause });
    }

    /// What keeps this node from taking part until a person does something, if anything does for long.
    pub(super) fn trouble(&self, now: Instant) -> Option<String> {
        //= X36
        let asks =
            self.acceptor.as_ref().is_some_and(|acceptor| acceptor.standing == Standing::Asking { answered: false });
        if !asks || !self.is_copy() || now.since(self.started) < LASTS {
            return None;
        }
        let said: Vec<NodeId> = self.answers(now).map(|peer| peer.member.node).collect();
        let silent = self.config.acceptors.iter().filter(|node| **node != self.me.node && !said.contains(node));
        let silent: Vec<_> = silent.map(NodeId::to_string).collect();
        Some(format!(
            "the votes of this node are a copy, which may be older than what it voted: it votes again once {} of the other \
             acceptors say that they know of nothing later, and {} did; start {}; where too few will ever come back, end this \
             daemon and see `consort adopt --help`",
            self.answers_needed(),
            said.len(),
            silent.join(" and ")
        ))
    }
}
