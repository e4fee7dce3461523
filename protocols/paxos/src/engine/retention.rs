//! What is retained of the log, in memory and on the disk, and what becomes of a node that missed more.
use super::{Paxos, Then};
use crate::acceptor::Accepted;
use crate::checkpoints::Program;
use crate::config::{OnBudget, Storage};
use crate::coordinator::Role;
use crate::learner::Checkpoint;
use crate::record::{LogStart, Record};
use bytes::Bytes;
use consort_order::{Output, Overfull};
use consort_types::{Duration, Instant, Ticket};
use std::collections::VecDeque;

/// Records go from the disk by so many bytes at a time.
const CHUNK: usize = 1 << 20;
/// For a member that is slow to read this many times more is retained. For copies of programs it is the budget.
const PATIENCE: usize = 4;
/// With this many times more the messages of all clients wait.
const HARD: usize = 5;
/// In how many steps time passes for what is retained.
const STEPS: u32 = 64;

/// Which records stand on the disk, by chunks: up to which ticket, and of which instances.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    chunks: VecDeque<Chunk>,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    last: Ticket,
    /// All its instances are below.
    end: u64,
    bytes: usize,
}

impl Ledger {
    /// A record was written.
    pub fn note(&mut self, ticket: Ticket, instance: Option<u64>, len: usize) {
        let end = instance.map_or(0, |at| at.saturating_add(1));
        match self.chunks.back_mut() {
            Some(chunk) if chunk.bytes < CHUNK => {
                *chunk = Chunk { last: ticket, end: chunk.end.max(end), bytes: chunk.bytes + len };
            }
            _ => self.chunks.push_back(Chunk { last: ticket, end, bytes: len }),
        }
    }

    /// The records that were found, from ticket 1 on: the instance of each, where it tells of one, and its length.
    pub fn of(records: impl Iterator<Item = (Option<u64>, usize)>) -> Self {
        let mut ledger = Self::default();
        (1..).zip(records).for_each(|(ticket, (instance, len))| ledger.note(Ticket(ticket), instance, len));
        ledger
    }

    /// The last ticket of the full chunks that tell of nothing from an instance on.
    fn below(&mut self, at: u64) -> Option<Ticket> {
        let mut last = None;
        while let [first, _, ..] = self.chunks.make_contiguous()
            && first.end <= at
        {
            last = self.chunks.pop_front().map(|chunk| chunk.last);
        }
        last
    }
}

/// When the log was how long, for what is retained by time.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline(VecDeque<(Instant, u64)>);

impl Timeline {
    /// Notes how long the log is now; returns the first instance that came after `since`.
    fn pass(&mut self, now: Instant, next: u64, since: Instant, every: Duration) -> u64 {
        if self.0.back().is_none_or(|(at, _)| now.since(*at) >= every) {
            self.0.push_back((now, next));
        }
        let old = self.0.iter().take_while(|(at, _)| *at < since).count();
        self.0.drain(..old).next_back().map_or(0, |(_, next)| next)
    }
}

impl Paxos {
    /// Lets go what need not be retained any more.
    pub(super) fn retain(&mut self, now: Instant) {
        //= X80
        let (first, limit) = (self.learner.first().at, self.config.retain);
        let outdated = self.outdated(now);
        let is_over = self.learner.bytes() > limit + limit / 8;
        if (is_over || outdated > first)
            && let to = self.still_needed(now)
            && to > first
        {
            let within = if is_over { self.learner.within(limit) } else { first };
            self.let_go(now, to.min(outdated.max(within)));
        }
        self.look_at_budget();
    }

    fn let_go(&mut self, now: Instant, to: u64) {
        if to > self.learner.first().at {
            self.learner.trim(to);
            self.trim_disk(now);
        }
    }

    /// The first instance that is retained for a program, within bounds.
    fn still_needed(&self, now: Instant) -> u64 {
        let is_patient = self.learner.bytes() <= self.budget();
        let others =
            if is_patient { self.needed(now).min(self.unread()).min(self.undeclared()) } else { self.learner.next() };
        //= X105
        let lets_go = self.config.on_budget == OnBudget::LetGo || crate::mutated!(self.config, BudgetLetsGo);
        if is_patient || !lets_go { others.min(self.lacked()) } else { others }
    }

    /// So much is held for copies of programs before messages wait, in bytes.
    pub(super) const fn budget(&self) -> usize {
        self.config.retain.saturating_mul(PATIENCE)
    }

    /// The first instance that a majority of the copies of some program lacks.
    fn lacked(&self) -> u64 {
        //= X105
        let needed = self.learner.head().declared.needed_by_copies();
        #[cfg(feature = "mutants")]
        let needed = self.misjudged().or(needed);
        needed.map_or(self.learner.next(), |from| self.instance_of(from))
    }

    /// The same where a rule is broken on purpose.
    #[cfg(feature = "mutants")]
    fn misjudged(&self) -> Option<u64> {
        let programs = self.learner.head().declared.programs().map(|(_, program)| program);
        if crate::mutated!(self.config, UnboundCopiesIgnored) {
            return programs.map(|program| program.kept_by(program.bound() / 2 + 1)).min();
        }
        programs.map(|program| program.kept_by(1)).min().filter(|_| crate::mutated!(self.config, TrimsByAny))
    }

    /// Whose messages wait, where copies of programs hold back more than may be held.
    fn look_at_budget(&mut self) {
        //= X107
        if self.learner.bytes() <= self.budget() {
            if self.overfull.is_some() {
                self.overfull = None;
            }
            return;
        }
        let beyond = self.learner.within(self.budget());
        let holds_back = |program: &Program| program.needed().is_some_and(|from| self.instance_of(from) < beyond);
        let programs = self.learner.head().declared.programs().filter(|(_, program)| holds_back(program));
        let programs: Vec<Box<str>> = programs.map(|(name, _)| name.into()).collect();
        let all = self.learner.bytes() > self.config.retain.saturating_mul(HARD);
        self.overfull = (!programs.is_empty()).then(|| Box::new(Overfull { programs, all }));
    }

    /// What is retained longer than it is to be ends here.
    fn outdated(&mut self, now: Instant) -> u64 {
        let span = self.config.retain_for;
        if span.is_zero() {
            return 0;
        }
        let since = Instant(now.0.saturating_sub(span.as_nanos() as u64));
        self.timeline.pass(now, self.learner.next(), since, span / STEPS)
    }

    /// The first instance that a member of the view has yet to read.
    fn needed(&self, now: Instant) -> u64 {
        //= X81
        let present = self.learner.present();
        let reads = self.peers.values().filter(|peer| {
            self.is_near(peer, now) && peer.beat.view == present.number && present.last.contains_key(&peer.member)
        });
        reads.map(|peer| peer.beat.next).fold(self.learner.next(), u64::min)
    }

    /// The first instance that some program has yet to read.
    fn unread(&self) -> u64 {
        //= X86
        let waits = self.held.filter(|_| !crate::mutated!(self.config, UnreadIgnored));
        let unread = waits.map_or(self.learner.next(), |from| self.instance_of(from.0));
        //= X92
        unread.min(self.unmerged.unwrap_or(unread))
    }

    /// The first instance that a majority of the copies of some program does not keep.
    fn undeclared(&self) -> u64 {
        //= X87
        let needed = self.learner.head().declared.needed_by_holders();
        let needed = needed.filter(|_| !crate::mutated!(self.config, DeclaredIgnored));
        needed.map_or(self.learner.next(), |from| self.instance_of(from))
    }

    /// In which instance a place came; the next one for what has yet to come.
    fn instance_of(&self, place: u64) -> u64 {
        let known = (place <= self.learner.place()).then(|| self.places.instance(place)).flatten();
        known.unwrap_or(self.learner.next())
    }

    /// What the disk holds below the retained log may go once all else that it tells is written anew.
    fn trim_disk(&mut self, now: Instant) {
        //= X83
        let votes = self.acceptor.as_ref().is_some_and(|acceptor| acceptor.votes());
        if !votes || self.config.storage == Storage::Memory || !self.has_room() {
            return;
        }
        if let Some(up_to) = self.ledger.below(self.learner.first().at) {
            self.note_start(now, Then::Trim(up_to));
        }
    }

    /// From here on the disk tells of the log.
    pub(super) fn note_start(&mut self, now: Instant, then: Then) {
        let (first, start) = (self.learner.first().at, self.log_start());
        (self.noted_up_to, self.marked) = (self.noted_up_to.max(first), self.marked.max(first));
        self.keep(now, &start, then);
    }

    /// The record without which the disk counts as empty.
    pub(super) fn log_start(&self) -> Record {
        let promised = self.acceptor.as_ref().map_or_else(Default::default, |acceptor| acceptor.promised);
        let (log, began, from) = (self.log, self.began.clone(), self.learner.first().clone());
        Record::Checkpoint(Box::new(LogStart { log, founders: self.founders.clone(), began, promised, from }))
    }

    /// One that was asked has trimmed what is missing here: another may hold it. Who was never let in goes on behind it.
    pub(super) fn on_checkpoint(&mut self, now: Instant, from: Checkpoint) {
        //= X82
        let next = self.learner.next();
        if from.at <= next {
            return;
        }
        let was_member = self.inside.as_ref().is_some_and(|view| view.id.number > 0);
        let was_let_in =
            [&from.present.last, &from.present.away].iter().any(|incarnations| incarnations.contains_key(&self.me));
        if !was_member && !self.awaited && (!was_let_in || self.late) {
            return self.jump(now, from);
        }
        //= X85
        let retained = &mut self.miss(next).retained;
        *retained = Some(retained.map_or(from.at, |known| known.min(from.at)));
        if crate::mutated!(self.config, OneTrimmed) {
            return self.give_up(next);
        }
        self.asked.until = now;
        self.learn(now);
    }

    /// Nobody is left to ask for the next instance: where it is gone, this node starts anew.
    pub(super) fn give_up(&mut self, next: u64) {
        //= X84
        if let Some(first) = self.missing.retained.take() {
            let cause =
                format!("the other nodes retain the order from instance {first} on, and this node has read {next}");
            let records = self.carried();
            self.output.push_back(Output::Restart { cause, records, exceed: None });
        }
    }

    /// What this acceptor has promised and accepted: a restart that it asks for itself makes it forget nothing.
    pub fn carried(&self) -> Vec<Bytes> {
        let Some(acceptor) = self.acceptor.as_ref().filter(|acceptor| acceptor.votes()) else { return Vec::new() };
        let (log, began, promised) = (self.log, self.began.clone(), acceptor.promised);
        let founders = self.founders.clone();
        let start = LogStart { log, founders, began, promised, from: self.learner.head().clone() };
        let accepted = acceptor.accepted.range(self.learner.next()..).map(|(at, accepted)| {
            let Accepted { ballot, item, body, .. } = accepted.clone();
            Record::Accepted { ballot, at: *at, item, body }
        });
        let all = std::iter::once(Record::Checkpoint(Box::new(start))).chain(accepted);
        all.map(|record| record.encode()).collect()
    }

    pub(super) fn jump(&mut self, now: Instant, from: Checkpoint) {
        if !matches!(self.role, Role::Follower { .. }) {
            self.rest(now);
        }
        self.counters.jumps += 1;
        let (number, ahead) = (from.present.number, self.named());
        self.pool.retain(|id, _| id.view >= number || ahead.contains(id));
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.accepted = acceptor.accepted.split_off(&from.at);
            acceptor.waiting = acceptor.waiting.split_off(&from.at);
        }
        self.learner.jump(from);
        self.write_on(now);
        self.take_decided(now);
        self.look_at_budget();
        (self.asked.until, self.asked.wait) = (now, Default::default());
        self.learn(now);
    }
}
