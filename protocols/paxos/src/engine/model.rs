//! What a search through every order of events (`consort-paxos-model`) does with an engine whose clock stands still.
use super::{Asked, Paxos};
use crate::ballot::Item;
use crate::coordinator::Role;
use consort_types::Instant;
use std::fmt::{self, Write};

impl Paxos {
    /// Stands, whoever else may lead.
    pub fn stand_now(&mut self, now: Instant) {
        if self.acceptor.as_ref().is_some_and(|acceptor| acceptor.votes()) {
            self.begin_to_stand(now);
            self.settle(now);
        }
    }

    /// Proposes something in the next instance, where a coordinator may.
    pub fn propose_now(&mut self, now: Instant, item: Item) {
        let Role::Leading(leading) = &mut self.role else { return };
        if self.learner.next() < leading.inherited {
            return;
        }
        let at = leading.next;
        leading.next += 1;
        self.propose(now, at, item);
        self.settle(now);
    }

    /// Asks again for whatever is unanswered.
    pub fn repeat_now(&mut self, now: Instant) {
        self.asked = Asked { next: self.learner.next(), ..Asked::default() };
        if let Role::Leading(leading) = &mut self.role {
            leading.open.values_mut().for_each(|open| open.at = Instant::ZERO);
        }
        self.ask_for_promises(now);
        self.ask_for_votes(now);
        self.look_for_log(now);
        self.catch_up(now);
        self.settle(now);
    }

    /// Whether it leads.
    pub const fn leads(&self) -> bool {
        matches!(self.role, Role::Leading(_))
    }

    /// The next instance that it would propose something in.
    pub fn proposes_at(&self) -> Option<u64> {
        let Role::Leading(leading) = &self.role else { return None };
        (self.learner.next() >= leading.inherited).then_some(leading.next)
    }

    /// Writes all that decides what it will do; not what it has counted.
    ///
    /// # Errors
    /// That of `out`.
    pub fn write_state(&self, out: &mut dyn Write) -> fmt::Result {
        let Self { me, log, acceptor, role, began, noted, round, writing, latest, .. } = self;
        let writing: Vec<_> = writing.values().map(|writing| &writing.then).collect();
        write!(out, "{me:?} {log:?} {acceptor:?} {role:?} {began:?} {noted:?} {round} {writing:?} {latest:?}")?;
        let decided = (0..8).map(|at| self.learner.decided(at));
        let peers = self.peers.values().map(|peer| (peer.member, peer.beat.next));
        write!(out, "{:?} {:?} {:?}", self.learner.next(), decided.collect::<Vec<_>>(), peers.collect::<Vec<_>>())
    }
}
