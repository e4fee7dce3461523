//! Acceptors that know nothing: they begin a log together, or ask the others what they may have promised.
use super::{Paxos, Peer, Then};
use crate::acceptor::{Accepted, Acceptor, Standing, latest};
use crate::ballot::{Ballot, Began, Incarnations, Item, LogId};
use crate::config::Storage;
use crate::learner::Entry;
use crate::packet::{Acceptance, Content, Recovered, Told};
use crate::record::Record;
use consort_order::Output;
use consort_types::{Instant, MemberId, NodeId};
use std::collections::BTreeMap;

impl Paxos {
    /// What this node says of itself as an acceptor.
    pub(super) fn acceptance(&self) -> Acceptance {
        match &self.acceptor {
            None => Acceptance::None,
            Some(Acceptor { standing: Standing::Asking { .. } | Standing::Outdated { .. }, .. }) => Acceptance::Asking,
            Some(Acceptor { standing: Standing::Announcing { .. }, .. }) => Acceptance::Announcing,
            Some(acceptor) if !acceptor.votes() => Acceptance::Blank,
            Some(acceptor) if acceptor.is_fresh() => Acceptance::Fresh,
            Some(_) => Acceptance::Ready,
        }
    }

    /// Whether this node has neither promised nor learnt anything, so that it may take up any log.
    fn is_unbound(&self) -> bool {
        self.learner.next() == 0 && self.acceptor.as_ref().is_none_or(|acceptor| acceptor.is_fresh())
    }

    /// All acceptors, where none remembers a log and this node is bound to none.
    fn who_may_found(&self, now: Instant) -> Option<Vec<MemberId>> {
        //= X51
        self.who_promised_nothing(now).filter(|_| self.is_unbound())
    }

    /// All acceptors, each other one of which has said, since all of these incarnations began, that it has promised nothing.
    fn who_promised_nothing(&self, now: Instant) -> Option<Vec<MemberId>> {
        let nothing = |acceptor: &MemberId| {
            let Some(beat) = self.peers.get(&acceptor.node).map(|peer| &peer.beat) else { return *acceptor == self.me };
            match beat.acceptor {
                Acceptance::Blank | Acceptance::Fresh => true,
                Acceptance::Asking | Acceptance::Announcing => beat.promised == Ballot::ZERO,
                Acceptance::None | Acceptance::Ready => false,
            }
        };
        self.who_hear_each_other(now).filter(|acceptors| acceptors.iter().all(nothing))
    }

    /// The present incarnations of all acceptors, where each has said what it said last since all of these began.
    fn who_hear_each_other(&self, now: Instant) -> Option<Vec<MemberId>> {
        let incarnation = |node: &NodeId| match self.peers.get(node) {
            _ if *node == self.me.node => Some(self.me),
            Some(peer) if self.is_near(peer, now) => Some(peer.member),
            _ => None,
        };
        let mut acceptors = self.config.acceptors.clone();
        acceptors.sort_unstable();
        if crate::mutated!(self.config, LogByMajority) {
            acceptors.retain(|node| incarnation(node).is_some());
            acceptors.truncate(if acceptors.len() < self.config.quorum() { 0 } else { acceptors.len() });
        }
        let incarnations = acceptors
            .iter()
            .map(incarnation)
            .collect::<Option<Vec<_>>>()
            .filter(|incarnations| !incarnations.is_empty())?;
        let hears_all = |incarnation: &MemberId| {
            let hears = |peer: &Peer, other: &MemberId| other == incarnation || peer.beat.hears.contains(other);
            let peer = self.peers.get(&incarnation.node);
            *incarnation == self.me || peer.is_some_and(|peer| incarnations.iter().all(|other| hears(peer, other)))
        };
        incarnations.iter().all(hears_all).then_some(incarnations)
    }

    /// Begins a log, takes one up, or asks what was forgotten.
    pub(super) fn look_for_log(&mut self, now: Instant) {
        if self.is_log_lost(now) {
            return self.leave_log();
        }
        let founders = self.acceptor.is_some().then(|| self.who_may_found(now)).flatten();
        match founders {
            Some(founders) => self.found(now, LogId::of(&founders), founders),
            None => self.take_up_log(now),
        }
        self.ask_what_was_forgotten();
        self.adopt(now);
    }

    /// Whether this node is bound to a log in which nothing can be decided any more. What a disk of its own tells of that log
    /// only an operator gives up.
    fn is_log_lost(&self, now: Instant) -> bool {
        //= X100
        let forgets = self.acceptor.is_none() || self.config.storage == Storage::Memory;
        if self.log == LogId::NONE || self.is_unbound() || crate::mutated!(self.config, LostLogKept) {
            return false;
        }
        let knows_nothing = self.acceptor.as_ref().is_some_and(Acceptor::is_blank);
        forgets && self.is_forgotten(now) || (forgets || knows_nothing) && self.is_left_by_majority(now)
    }

    /// Whether too few acceptors vote in this node's log, and none that does not can begin to: that takes a quorum of others.
    fn is_forgotten(&self, now: Instant) -> bool {
        let Some(own) = &self.acceptor else { return false };
        if own.is_fresh() && self.who_promised_nothing(now).is_some() {
            return true;
        }
        let Some(acceptors) = self.who_hear_each_other(now).filter(|_| !self.founders.is_empty()) else { return false };
        let votes = |acceptor: &&MemberId| match self.peers.get(&acceptor.node) {
            // It votes once somebody tells it that the log has begun (X58).
            _ if self.founders.contains(*acceptor) && !crate::mutated!(self.config, LiveLogLeft) => true,
            Some(peer) => peer.log == self.log && matches!(peer.beat.acceptor, Acceptance::Fresh | Acceptance::Ready),
            None => own.votes(),
        };
        acceptors.iter().filter(votes).count() < self.config.quorum()
    }

    /// Whether so many acceptors have promised something in another log that too few are left in this one.
    fn is_left_by_majority(&self, now: Instant) -> bool {
        let mut elsewhere: BTreeMap<LogId, usize> = BTreeMap::new();
        let others = self.peers.values().filter(|peer| self.config.is_acceptor(peer.member.node));
        for peer in others.filter(|peer| self.is_near(peer, now) && peer.beat.acceptor == Acceptance::Ready) {
            if peer.log != self.log {
                *elsewhere.entry(peer.log).or_default() += 1;
            }
        }
        elsewhere.values().any(|acceptors| *acceptors >= self.config.quorum())
    }

    /// Ends this incarnation. It takes nothing along: what was promised in a log that is lost binds nobody.
    fn leave_log(&mut self) {
        //= X100
        if !self.output.iter().any(|output| matches!(output, Output::Restart { .. })) {
            let cause = format!(
                "its acceptors have forgotten the order that this node has read up to instance {}, or have begun another",
                self.learner.next()
            );
            self.output.push_back(Output::Restart { cause, records: Vec::new(), exceed: None });
        }
    }

    fn found(&mut self, now: Instant, log: LogId, founders: Vec<MemberId>) {
        if self.log == log && self.acceptor.as_ref().is_some_and(|acceptor| acceptor.votes()) {
            return;
        }
        //= X34
        if self.log != LogId::NONE && self.log != log {
            self.keep(now, &Record::Empty, Then::Nothing);
        }
        self.begin_log(log);
        self.founders = founders;
        self.began.note_voter(self.me, false);
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.standing = Standing::Voting;
        }
        let start = self.log_start();
        self.keep(now, &start, Then::Rest);
    }

    /// Whoever is bound to no log takes up the one that acceptors have promised something in.
    fn take_up_log(&mut self, now: Instant) {
        //= X53
        let alive = self.peers.values().filter(|peer| self.is_near(peer, now));
        let log = alive.filter(|peer| peer.beat.acceptor == Acceptance::Ready).map(|peer| peer.log).next();
        let Some(log) = log.filter(|log| *log != self.log && self.is_unbound()) else { return };
        let before = self.log;
        self.begin_log(log);
        self.founders.clear();
        self.began.all.note(self.me);
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.standing = Standing::Blank { answers: BTreeMap::new() };
            //= X34
            if before != LogId::NONE {
                self.keep(now, &Record::Empty, Then::Nothing);
            }
        }
    }

    /// What was heard of another log says nothing of this one.
    fn begin_log(&mut self, log: LogId) {
        //= X101
        if self.log != log {
            self.learner.forget_ahead();
            (self.leader, self.echo) = (None, None);
            if !crate::mutated!(self.config, AnyLogsVoters) {
                [&mut self.began, &mut self.noted].into_iter().for_each(Began::forget_voters);
            }
        }
        self.log = log;
    }

    /// Whether a later incarnation is there of one that this log is named after: others may begin a log with that one.
    pub(super) fn is_superseded(&self, now: Instant) -> bool {
        //= X57
        let present = |node: NodeId| match self.peers.get(&node) {
            _ if node == self.me.node => Some(self.me),
            peer => peer.filter(|peer| self.is_near(peer, now)).map(|peer| peer.member),
        };
        self.founders.iter().any(|founder| present(founder.node).is_some_and(|incarnation| incarnation != *founder))
    }

    fn ask_what_was_forgotten(&mut self) {
        let Some(acceptor) = &self.acceptor else { return };
        let ends = self.writing.values().any(|writing| matches!(writing.then, Then::StartAnew { .. }));
        if !acceptor.is_blank() || self.log == LogId::NONE || ends {
            return;
        }
        if crate::mutated!(self.config, EmptyDiskTrusted) {
            return self.found(self.started, self.log, Vec::new());
        }
        //= X32
        let me = self.me.node;
        for node in self.config.acceptors.clone().into_iter().filter(|node| *node != me) {
            self.send(node, Content::Recover);
        }
    }

    /// Another acceptor has forgotten. Its earlier votes count no more, which is kept before it is told anything.
    pub(super) fn on_recover(&mut self, now: Instant, from: MemberId) {
        if !self.config.is_acceptor(from.node) || self.began.all.outdates(from) {
            return;
        }
        if self.has_room() && self.acceptor.as_ref().is_some_and(|acceptor| acceptor.votes()) {
            self.began.all.note(from);
            if self.noted.all.latest(from.node) == from.incarnation {
                return self.answer(from);
            }
            self.keep(now, &Record::Asker(from), Then::Answer(from));
        }
    }

    pub(super) fn answer(&mut self, incarnation: MemberId) {
        self.noted.all.note(incarnation);
        let next = self.learner.next();
        let Some(acceptor) = self.acceptor.as_ref().filter(|acceptor| acceptor.votes()) else { return };
        let (told, promised) = (acceptor.tell(Incarnations::default(), next, 0), acceptor.promised);
        let (founders, began) = (self.founders.clone(), self.began.clone());
        self.send(incarnation.node, Content::Recovered(Box::new(Recovered { promised, told, founders, began })));
    }

    pub(super) fn on_recovered(&mut self, now: Instant, from: MemberId, recovered: Recovered) {
        let Recovered { promised, told, founders, began } = recovered;
        self.began.merge(&began);
        let outdated = [from, self.me].into_iter().any(|incarnation| self.began.all.outdates(incarnation));
        // What was said to an earlier incarnation is not for this one.
        let outdated = outdated || began.all.latest(self.me.node) != self.me.incarnation;
        let Some(Acceptor { standing: Standing::Blank { answers }, .. }) = &mut self.acceptor else { return };
        if outdated || from == self.me {
            return;
        }
        answers.insert(from, (told, promised));
        if self.founders.is_empty() && LogId::of(&founders) == self.log {
            self.founders = founders;
        }
        if self.has_begun_this_log() {
            return self.take_over(now, Ballot::ZERO, BTreeMap::new(), 0);
        }
        self.adopt(now);
    }

    /// Whether the log is named after this very incarnation: then no incarnation of this node has promised anything in it.
    fn has_begun_this_log(&self) -> bool {
        //= X58
        let any = crate::mutated!(self.config, AnyIncarnationBegan);
        self.founders.iter().any(|founder| *founder == self.me || any && founder.node == self.me.node)
    }

    /// Takes over what enough others have told, once everything below is learnt and every payload held.
    pub(super) fn adopt(&mut self, now: Instant) {
        //= X32
        //= X33
        let Some(Acceptor { standing: Standing::Blank { answers }, .. }) = &self.acceptor else { return };
        let counts = |(incarnation, _): &(&MemberId, &(Told, Ballot))| {
            !self.began.all.outdates(**incarnation) && !self.is_put_back(**incarnation)
        };
        let told: Vec<_> =
            answers.iter().filter(counts).map(|(incarnation, answer)| (*incarnation, answer.clone())).collect();
        let alone = crate::mutated!(self.config, RecoversAlone) && !told.is_empty();
        if told.len() < self.config.quorum() && !alone {
            return;
        }
        let promised = told.iter().map(|(_, (_, promised))| *promised).max().unwrap_or(Ballot::ZERO);
        let (from, best) = latest(told.iter().map(|(_, (told, _))| told), self.learner.next());
        if self.learner.next() < from && !crate::mutated!(self.config, AdoptsUnlearnt) {
            return self.learn(now);
        }
        let missing: Vec<_> = self.missing(&best);
        if !missing.is_empty() {
            let holders: Vec<_> = told.iter().map(|(incarnation, _)| incarnation.node).collect();
            return self.fetch(now, &missing, &holders);
        }
        //= X109
        let in_memory = self.config.storage == Storage::Memory;
        let witnesses = if in_memory { 0 } else { self.config.quorum() };
        self.take_over(now, promised, best, witnesses);
    }

    /// Asks for payloads. Each that comes is a reason to look what is missing still, but not to ask for all of that again.
    pub(super) fn fetch(&mut self, now: Instant, missing: &[crate::ballot::ValueId], holders: &[NodeId]) {
        //= X78
        if now < self.fetch_at && !crate::mutated!(self.config, FetchesForEach) {
            return;
        }
        self.fetch_at = now + self.config.retry * 4;
        holders.iter().for_each(|holder| self.send(*holder, Content::Fetch(missing.to_vec())));
    }

    /// Values among these whose payload is not held.
    pub(super) fn missing(&self, best: &BTreeMap<u64, (Ballot, Item)>) -> Vec<crate::ballot::ValueId> {
        let lacks = |(_, item): &(Ballot, Item)| match item {
            Item::Value(id) if self.payload(id).is_none() => Some(*id),
            _ => None,
        };
        best.values().filter_map(lacks).collect()
    }

    /// The checkpoint with the log's name is written last: what stands on the disk without it is not all.
    fn take_over(&mut self, now: Instant, promised: Ballot, best: BTreeMap<u64, (Ballot, Item)>, witnesses: usize) {
        //= X34
        self.round = self.round.max(promised.round);
        let mut records = Vec::new();
        if crate::mutated!(self.config, LogNameFirst) {
            records.push(self.log_start());
        }
        for at in self.learner.first().at..self.learner.next() {
            let Some(Entry { item, body }) = self.learner.entry(at).cloned() else { break };
            records.push(Record::Learnt { at, item, body });
        }
        (self.marked, self.noted_up_to) = (self.learner.next(), self.learner.next());
        records.push(Record::Decided(self.marked));
        for (at, (ballot, item)) in best {
            let body = if let Item::Value(id) = &item { self.payload(id) } else { None };
            records.push(Record::Accepted { ballot, at, item: item.clone(), body: body.clone() });
            if let Some(acceptor) = &mut self.acceptor {
                acceptor.accepted.insert(at, Accepted { ballot, item, body, kept: true });
            }
        }
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.promised = promised;
            acceptor.standing = Standing::Adopting { witnesses };
        }
        self.began.note_voter(self.me, witnesses > 0);
        records.iter().for_each(|record| self.keep(now, record, Then::Nothing));
        let start = self.log_start();
        self.keep(now, &start, Then::Adopted);
    }

    /// All that this acceptor took over is kept.
    pub(super) fn adopted(&mut self, now: Instant) {
        if let Some(Acceptor { standing: Standing::Adopting { witnesses }, .. }) = self.acceptor {
            self.announce(now, witnesses, witnesses > 0);
        }
    }
}
