//! Who is up to date, who serves whom, and what is made of a gift.
//!
//! One that became up to date may be alone with that: the others had lost their connections before they received its
//! *ready*. They would go on without it, as those that all are there. So it *counts* only once one that counts has said,
//! in the order, that it received that *ready*: then those that all are there include one that knows of it. Until then its
//! machine takes nothing, and it goes on in no view. If all that count leave first, it lags.
//!
//! In the same way one that counts and leaves, or asks, does so until another that counts has said that it received that: what
//! it had answered is then known to one of those that are left.
use super::{Base, Effect, Engine, Gift, Input};
use crate::frame::{Frame, Hello, Peer};
use crate::line::{Entry, Point, ReplicaId};

impl Engine {
    /// Has those taken off that left within this view, or asked. A safe message does it: their leaving is not.
    pub(super) fn tell_gone(&mut self) {
        if !self.is_lowest() || self.came.is_some() {
            return;
        }
        for (id, peer) in &self.bound {
            let asked = self.asks.get(id).map(|(hello, _)| hello.ask);
            let ask = if self.members.contains(peer) { asked } else { Some(0) };
            if let Some(ask) = ask.filter(|ask| self.goodbyes.insert((*peer, *ask))) {
                self.effects.push_back(Effect::Send(Frame::Gone { id: *id, peer: *peer, ask }));
            }
        }
    }

    pub(super) fn take_hello(&mut self, hello: Hello) {
        if !self.is_of_now(&hello) {
            return;
        }
        if hello.id == self.settings.id {
            // It was of unknown fate and asked again. The others take it for a question.
            return self.step_down(false);
        }
        self.stop_donating(|id| *id == hello.id);
        // One that counts is taken off by another that does, because those that are left must know what it had answered.
        if !self.line.counts().contains(&hello.id) {
            self.unbind(hello.id);
        }
        self.asks.insert(hello.id, (hello, self.line.step));
    }

    pub(super) fn take_gone(&mut self, id: ReplicaId, peer: Peer, ask: u64) {
        let asked = self.asks.get(&id).is_some_and(|(hello, _)| hello.ask == ask);
        let left = !self.members.contains(&peer);
        if self.bound.get(&id) != Some(&peer) || !asked && !left {
            return;
        }
        let mut counts = self.line.counts().clone();
        counts.remove(&id);
        self.goodbyes.remove(&(peer, ask));
        self.line.set_counts(counts);
        self.unbind(id);
    }

    /// It is not up to date any more.
    fn unbind(&mut self, id: ReplicaId) {
        self.line.fresh.remove(&id);
        self.bound.remove(&id);
        self.may_differ = true;
    }

    /// Whether it was said of the membership that is now. What was said of an earlier one was said anew since.
    pub(super) fn is_of_now(&self, hello: &Hello) -> bool {
        hello.at == self.at && self.members.contains(&hello.peer)
    }

    pub(super) fn take_ready(&mut self, id: ReplicaId, peer: Peer, ask: u64) {
        let asked = self.asks.get(&id).is_some_and(|(hello, _)| hello.ask == ask && hello.peer == peer);
        if !asked || self.line.counts().contains(&id) {
            return;
        }
        self.asks.remove(&id);
        self.stop_donating(|donated| *donated == id);
        self.bound.insert(id, peer);
        self.line.fresh.insert(id, ask);
        if self.counts() {
            self.remember();
            self.effects.push_back(Effect::Send(Frame::Admit { id, ask }));
        }
    }

    pub(super) fn take_admit(&mut self, id: ReplicaId, ask: u64) {
        let is_there = self.bound.get(&id).is_some_and(|peer| self.members.contains(peer));
        if self.line.fresh.get(&id) != Some(&ask) || !is_there {
            return;
        }
        self.line.fresh.remove(&id);
        let mut counts = self.line.counts().clone();
        counts.insert(id);
        self.line.set_counts(counts);
        self.may_differ = true;
        if id == self.settings.id {
            self.remember();
            // It received what the others became since, and had no reason to say so then.
            let others: Vec<_> = self.line.fresh.iter().map(|(id, ask)| Frame::Admit { id: *id, ask: *ask }).collect();
            self.effects.extend(others.into_iter().map(Effect::Send));
            self.become_current();
        }
    }

    /// Whether this one is up to date, and known to be.
    pub(super) fn counts(&self) -> bool {
        self.line.counts().contains(&self.settings.id)
    }

    /// Whether its machine takes nothing now.
    pub(super) fn holds_back(&self) -> bool {
        self.closing || !self.counts()
    }

    /// None that counts is left in the group, and this one does not: it lags.
    pub(super) fn leave_if_unknown(&mut self) -> bool {
        if self.closing || self.counts() || self.present().next().is_some() {
            return false;
        }
        self.step_down(false);
        // What it takes here may be the last hello. The others have its own, if its *ready* is not ordered yet.
        self.conclude();
        true
    }

    /// Gives the machine what was held back, unless the view is closing, and serves those that asked.
    pub(super) fn after_step(&mut self) {
        if !self.follows || self.closing || self.leave_if_unknown() {
            return;
        }
        self.line.settle();
        if !self.counts() {
            return;
        }
        if std::mem::take(&mut self.may_differ) {
            self.remember();
        }
        // An operator's word counts once.
        self.settings.forces = false;
        self.flush();
        self.tell_gone();
        if !self.is_lowest() {
            return self.stop_donating(|_| true);
        }
        let asked: Vec<_> = self.asks.values().cloned().collect();
        for (hello, step) in asked {
            if !self.line.counts().contains(&hello.id) && self.donating.insert(hello.id, hello.ask) != Some(hello.ask) {
                let gift = Box::new(self.gift(&hello, step));
                self.effects.push_back(Effect::Donate { id: hello.id, peer: hello.peer, gift });
            }
        }
    }

    fn gift(&self, hello: &Hello, step: u64) -> Gift {
        let same = hello.line.history == self.line.history;
        let base = if same && self.log.holds(hello.line.end) {
            Base::Line(self.log.behind(hello.line.end))
        } else if same && self.log.holds(hello.applied) {
            Base::Applied(self.log.behind(hello.applied))
        } else {
            let began = hello.applied.position > 0;
            Base::Snapshot { parted: began && (!same || self.log.refutes(hello.applied)) }
        };
        let (ask, covers) = (hello.ask, self.line.step - step);
        let (line, bound, seen) = (self.line.clone(), self.bound.clone(), self.seen.clone());
        let (asks, claim) = (self.asks.values().cloned().collect(), self.claim.clone());
        Gift { ask, covers, base, line, bound, asks, seen, claim }
    }

    pub(super) fn stop_donating(&mut self, which: impl Fn(&ReplicaId) -> bool) {
        let stopped: Vec<_> = self.donating.keys().filter(|id| which(id)).copied().collect();
        self.donating.retain(|id, _| !stopped.contains(id));
        self.effects.extend(stopped.into_iter().map(|id| Effect::StopDonating { id }));
    }

    /// All of a gift is there; a snapshot was restored.
    pub fn on_gift(&mut self, gift: Gift) {
        let Some(buffer) = self.buffer.take_if(|_| gift.ask == self.ask && !self.follows) else { return };
        (self.follows, self.recalls) = (true, None);
        let entries = self.found_on(gift.base, gift.line.end);
        for entry in entries {
            self.append(entry);
        }
        self.flush();
        (self.line, self.seen, self.bound, self.claim) = (gift.line, gift.seen, gift.bound, gift.claim);
        self.asks = gift.asks.into_iter().map(|ask| (ask.0.id, ask)).collect();
        let mut covered = gift.covers;
        // What came first came in the membership of then.
        (self.at, self.members) = (buffer.at, buffer.members);
        for input in buffer.inputs {
            match input {
                Input::Frame(_) if covered > 0 => covered -= 1,
                // Its donor has seen that already.
                Input::Changed(membership) if covered > 0 => {
                    (self.at, self.members) = (membership.at, membership.members);
                }
                Input::Frame(frame) => self.on_frame(frame),
                Input::Changed(membership) => self.on_membership(membership),
            }
        }
        if let (true, Some(peer)) = (self.follows, self.me) {
            self.effects.push_back(Effect::Send(Frame::Ready { id: self.settings.id, peer, ask: self.ask }));
        }
    }

    fn found_on(&mut self, base: Base, end: Point) -> Vec<Entry> {
        match base {
            Base::Line(entries) => entries,
            Base::Applied(entries) => {
                self.held.clear();
                if !self.log.cut_to(self.applied) {
                    self.log.restart(self.applied);
                }
                self.line.end = self.applied;
                entries
            }
            Base::Snapshot { .. } => {
                self.held.clear();
                (self.applied, self.line.end) = (end, end);
                self.log.restart(end);
                Vec::new()
            }
        }
    }

    /// The replicas that count, are in the group, and have not asked.
    fn present(&self) -> impl Iterator<Item = &Peer> {
        let follow = self.line.counts().iter().filter(|id| !self.asks.contains_key(id));
        follow.filter_map(|id| self.bound.get(id)).filter(|peer| self.members.contains(peer))
    }

    /// Whether it is the lowest of these.
    pub(super) fn is_lowest(&self) -> bool {
        let lowest = self.present().min();
        lowest.is_some() && lowest == self.me.as_ref()
    }
}
