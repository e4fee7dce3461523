//! Gathering: members tell each other who should be in and who should be out, until all that should be in say the same.
//!
//! A gathering holds what was said and decides what follows of it. Who gathers sends the JOINs, keeps the time, and, where all
//! agree, forms the view in its own way: the ring by a commit token, view synchrony by a proposal.
use crate::{Presence, Proposal, Reason, Sets, Why};
use consort_types::{Duration, Instant, MemberId};
use std::collections::BTreeSet;

/// One gathering, or the next try of one.
#[derive(Clone, Debug)]
pub struct Gathering {
    /// Who should be in and who out.
    pub sets: Sets,
    /// Who said the same as this member says now, itself among them.
    pub agreed: BTreeSet<MemberId>,
    /// One consensus timeout has passed: being alone is then an answer.
    pub waited: bool,
    me: MemberId,
    /// All agree, and what the lowest sends to form the view should come.
    awaiting: bool,
    joined_at: Instant,
}

/// What a JOIN has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinEffect {
    /// It is not heeded.
    Ignored,
    /// The sets are what they were; its sender may agree now.
    Noted,
    /// The sets have changed: [`Gathering::restart`].
    Changed,
}

/// What is to be done once consensus was waited for in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// All agreed, but nothing came of it: ask all once more.
    Forming,
    /// These, if any, did not agree.
    Silent(Vec<MemberId>),
}

/// JOINs are sent at once when the sets change, but not more often than this.
const JOIN_LEAST: Duration = Duration::from_millis(2);

impl Gathering {
    /// Begins, or begins again: nobody else is known to agree. A JOIN is to be sent now.
    pub fn new(me: MemberId, sets: Sets, now: Instant) -> Self {
        Self { sets, agreed: [me].into(), waited: false, me, awaiting: false, joined_at: now }
    }

    /// What to say; it counts as sent.
    pub fn say(&mut self, presence: &Presence, now: Instant) -> Proposal {
        self.joined_at = now;
        presence.proposal(now, &self.sets)
    }

    /// Nobody is known to agree any more, and consensus is waited for anew. Returns when to say so, now or in a moment.
    pub fn restart(&mut self, now: Instant) -> Instant {
        //= M10
        self.ask_anew();
        now.max(self.joined_at + JOIN_LEAST)
    }

    fn ask_anew(&mut self) {
        self.agreed = [self.me].into();
        self.awaiting = false;
    }

    /// Somebody told whom it wants.
    pub fn on_join(&mut self, presence: &Presence, now: Instant, from: MemberId, join: &Proposal) -> JoinEffect {
        //= M11
        let sets = &mut self.sets;
        let changed = if join.leave {
            //= M15
            sets.refuse(self.me, from, Reason::Left)
        } else if sets.fail.contains(&from) || !sets.proc.contains(&from) && !presence.admits(now, from, join) {
            return JoinEffect::Ignored;
        } else if sets.equal(&join.proc, &join.fail) {
            self.agreed.insert(from);
            false
        } else {
            !sets.cover(&join.proc, &join.fail) && sets.merge(self.me, from, &join.proc, &join.fail)
        };
        if changed { JoinEffect::Changed } else { JoinEffect::Noted }
    }

    /// The candidates, if all of them agree and nothing has come of that yet. Being alone counts at once only if there were
    /// others and all of them were failed for one of these reasons, which prove that they are gone.
    pub fn consensus(&self, gone: &[Reason]) -> Option<Vec<MemberId>> {
        //= M14
        let candidates = self.sets.candidates();
        let hasty = candidates.len() == 1 && !self.waited && !self.is_deserted(gone);
        let agree = candidates.iter().all(|member| self.agreed.contains(member));
        (agree && !hasty && !self.awaiting).then_some(candidates)
    }

    fn is_deserted(&self, gone: &[Reason]) -> bool {
        //= M14
        let mut others = self.sets.proc.iter().filter(|member| **member != self.me).peekable();
        let is_gone = |member: &MemberId| self.sets.reasons.get(&member.node).is_some_and(|why| gone.contains(why));
        others.peek().is_some() && others.all(is_gone)
    }

    /// Whether this member, the lowest, is to form the view. Else the lowest is awaited.
    pub fn leads(&mut self, candidates: &[MemberId]) -> bool {
        //= M20
        let leads = candidates.first() == Some(&self.me);
        self.awaiting |= !leads;
        leads
    }

    /// Long enough waited.
    pub fn on_overdue(&mut self) -> Overdue {
        //= M12
        //= M13
        //= M14
        self.waited = true;
        if self.awaiting {
            self.ask_anew();
            return Overdue::Forming;
        }
        let candidates = self.sets.candidates().into_iter();
        Overdue::Silent(candidates.filter(|member| !self.agreed.contains(member)).collect())
    }

    /// These should be out.
    pub fn refuse_all(&mut self, members: impl IntoIterator<Item = MemberId>, reason: Reason) {
        for member in members {
            self.sets.refuse(self.me, member, reason);
        }
    }

    /// A beacon came: its sender's members are wanted in if they are settled strangers that all candidates hear and that hear
    /// all of them. Returns whether the sets have changed.
    pub fn on_beacon(&mut self, presence: &Presence, now: Instant, from: MemberId) -> bool {
        //= M51
        let Some(hearing) = presence.heard.get(from.node, now) else { return false };
        let strangers = &hearing.members;
        let kept_away =
            |member: &MemberId| self.sets.proc.contains(member) || presence.quarantine.holds(member.node, now);
        if !hearing.settled || strangers.iter().any(kept_away) {
            return false;
        }
        let candidates = self.sets.candidates();
        let nodes = candidates.iter().chain(strangers).map(|member| member.node).collect();
        let why = || Why::new(self.sets.trigger.clone()).adding(strangers.iter().copied());
        presence.heard.all_mutual(self.me.node, &nodes, now) && self.sets.take(self.me, &why())
    }

    /// For `status`; `forming` is what comes once all agree.
    pub fn describe(&self, forming: &str) -> String {
        let names = |members: &mut dyn Iterator<Item = &MemberId>| {
            members.map(|member| member.node.to_string()).collect::<Vec<_>>().join(", ")
        };
        let candidates = self.sets.candidates();
        let waiting = names(&mut candidates.iter().filter(|member| !self.agreed.contains(member)));
        let why = &self.sets.trigger;
        match waiting.is_empty() {
            true if candidates.len() == 1 => format!("gathering ({why}): nobody else heard yet"),
            true => format!("gathering ({why}): {} agree, waiting for the {forming}", names(&mut candidates.iter())),
            false => format!("gathering ({why}): waiting for {waiting} to agree"),
        }
    }
}
