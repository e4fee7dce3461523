//! This node as a learner: what is decided, and what others know of it.
use super::{Asked, Missing, Paxos, find};
use crate::ballot::{Item, LogId};
use crate::learner::Checkpoint;
use crate::packet::{AT_THE_END, Content};
use crate::record::Record;
use consort_types::{Duration, Instant, NodeId};
use consort_wire::pack::Body;

/// How much one answer holds at most.
const ENTRIES: usize = 256;
const BYTES: usize = 256 << 10;
/// With more records on their way to the disk nothing is asked for that would add to them.
const UNWRITTEN: usize = 4_096;

impl Paxos {
    pub(super) fn on_decide(&mut self, now: Instant, at: u64, item: Item, hops: u16) {
        if hops > 0 {
            self.pass_on(Content::Decide { at, item: item.clone(), hops: hops - 1 });
        }
        let agrees = self.learner.decide(at, item);
        self.check(agrees, "X40: one item for each instance");
        self.take_decided(now);
    }

    /// Payload of what is decided already at an instance, where it is this.
    pub(super) fn decided_payload(&self, at: u64, item: &Item) -> Option<Body> {
        self.learner.entry(at).filter(|entry| entry.item == *item)?.body.clone()
    }

    /// Something was missing for a while: it is asked of those who know more, in turn.
    pub(super) fn catch_up(&mut self, now: Instant) {
        let next = self.learner.next();
        let behind = self.learner.is_behind()
            || self.peers.values().any(|peer| peer.log == self.log && self.is_near(peer, now) && peer.beat.next > next);
        let stands_still = self.asked.next == next;
        if behind && stands_still || self.seeks_end {
            self.learn(now);
        }
        self.asked.next = next;
    }

    /// Asks somebody who knows more.
    pub(super) fn learn(&mut self, now: Instant) {
        //= X41
        if self.seeks_end {
            return self.seek_end(now);
        }
        if self.is_answer_due(now) || self.writing.len() > UNWRITTEN {
            return;
        }
        let next = self.learner.next();
        let unasked = self.unasked(now, next);
        if unasked.is_empty() {
            return self.give_up(next);
        }
        let knows = self.reachable(&unasked, next);
        let turn = self.asked.turn + 1;
        let Some(node) = knows.get(turn % knows.len().max(1)).copied() else { return };
        // Who is slow to answer is not helped by being asked for the same again; who fell silent says nothing of others.
        let slow = if self.asked.until > now { Duration::ZERO } else { self.asked.wait };
        let wait = (slow * 2).clamp(self.config.lease, self.config.lease * 8);
        self.asked = Asked { whom: Some(node), until: now + wait, wait, next, turn };
        self.missing.asked.insert(node);
        self.send(node, Content::Learn(next));
    }

    /// Asks where the log ends: first whoever knows most of it.
    fn seek_end(&mut self, now: Instant) {
        //= X98
        if self.is_answer_due(now) || self.log == LogId::NONE {
            return;
        }
        let near = self.peers.values().filter(|peer| peer.log == self.log && self.is_near(peer, now));
        let mut near: Vec<_> = near.map(|peer| (peer.beat.next, peer.member.node)).collect();
        near.retain(|(_, node)| self.is_linked(*node));
        near.sort_unstable_by(|one, other| other.cmp(one));
        let Some((_, node)) = near.get(self.asked.turn % near.len().max(1)).copied() else { return };
        let (next, wait, turn) = (self.learner.next(), self.config.lease, self.asked.turn + 1);
        self.asked = Asked { whom: Some(node), until: now + wait, wait, next, turn };
        self.send(node, Content::Learn(AT_THE_END));
    }

    /// Where the log ends, for who has yet to begin; an answer that comes later than another says nothing new.
    pub(super) fn on_end(&mut self, now: Instant, end: Checkpoint) {
        //= X98
        if std::mem::take(&mut self.seeks_end) && end.at > self.learner.next() {
            self.jump(now, end);
        }
    }

    /// Whether the one that was asked last may still answer.
    fn is_answer_due(&self, now: Instant) -> bool {
        //= X63
        let peer = self.asked.whom.and_then(|node| self.peers.get(&node));
        let waits = crate::mutated!(self.config, AwaitsTheGone);
        self.asked.until > now && (waits || peer.is_none_or(|peer| self.is_near(peer, now)))
    }

    /// Those who know the next instance, and were not asked for it in vain, each with how far it knows the log.
    fn unasked(&mut self, now: Instant, next: u64) -> Vec<(NodeId, u64)> {
        //= X85
        self.miss(next);
        let near = self.peers.values().filter(|peer| peer.log == self.log && self.is_near(peer, now));
        let mut near: Vec<_> = near.map(|peer| (peer.member.node, peer.beat.next)).collect();
        near.retain(|(_, known)| *known > next);
        let asked = |(node, _): &(NodeId, u64)| self.missing.asked.contains(node) || !self.is_linked(*node);
        if self.missing.retained.is_none() && near.iter().all(asked) {
            self.missing.asked.clear();
        }
        near.retain(|(node, _)| !self.missing.asked.contains(node));
        near
    }

    /// Of these, those who know most and can be asked now.
    fn reachable(&self, unasked: &[(NodeId, u64)], next: u64) -> Vec<NodeId> {
        //= X63
        let linked: Vec<_> = unasked.iter().filter(|(node, _)| self.is_linked(*node)).collect();
        let most = linked.iter().map(|(_, known)| *known).max().unwrap_or(next);
        // Those who know little more answer with little.
        let knows = linked.iter().filter(|(_, known)| known - next >= (most - next).div_ceil(2));
        knows.map(|(node, _)| *node).collect()
    }

    fn is_linked(&self, node: NodeId) -> bool {
        !self.links_down.contains_key(&node) || crate::mutated!(self.config, AwaitsTheGone)
    }

    /// What a link had under way is lost with it: no answer comes to what was asked by it.
    pub(super) fn forget_question(&mut self, now: Instant, peer: NodeId) {
        //= X63
        if self.asked.whom == Some(peer) && !crate::mutated!(self.config, AwaitsTheGone) {
            self.missing.asked.remove(&peer);
            (self.asked.until, self.asked.wait) = (now, Duration::ZERO);
        }
    }

    /// What was said of an earlier instance says nothing of this one.
    pub(super) fn miss(&mut self, next: u64) -> &mut Missing {
        if self.missing.at != next {
            self.missing = Missing { at: next, ..Missing::default() };
        }
        &mut self.missing
    }

    pub(super) fn on_learn(&mut self, from: NodeId, first: u64) {
        if first == AT_THE_END && self.log != LogId::NONE {
            //= X98
            return self.send(from, Content::End(Box::new(self.learner.head().clone())));
        }
        let retained = self.learner.first();
        if first < retained.at && self.log != LogId::NONE {
            //= X82
            return self.send(from, Content::Checkpoint(Box::new(retained.clone())));
        }
        let (mut entries, mut bytes) = (Vec::new(), 0);
        while let Some(entry) = self.learner.entry(first + entries.len() as u64)
            && entries.len() < ENTRIES
            && bytes < BYTES
        {
            bytes += entry.body.as_ref().map_or(0, |body| body.as_bytes().len());
            entries.push((entry.item.clone(), entry.body.clone()));
        }
        if entries.is_empty() && crate::mutated!(self.config, HolesDecided) {
            entries.push((Item::Nothing, None));
        }
        if crate::mutated!(self.config, NothingRelearnt) {
            entries.clear();
        }
        if !entries.is_empty() && self.log != LogId::NONE {
            self.send(from, Content::Learnt { from: first, entries });
        }
    }

    pub(super) fn on_learnt(&mut self, now: Instant, first: u64, entries: Vec<(Item, Option<Body>)>) {
        let before = self.learner.next();
        for (at, (item, body)) in (first..).zip(entries) {
            if at >= before {
                self.counters.learnt += 1;
                self.remember(item.clone(), body);
                let agrees = self.learner.decide(at, item);
                self.check(agrees, "X40: one item for each instance");
            }
        }
        self.take_decided(now);
        if self.learner.next() > before {
            (self.asked.until, self.asked.wait) = (now, Duration::ZERO);
            self.learn(now);
        }
        self.lead_if_promised(now);
        self.adopt(now);
    }

    /// Takes all that follows without a gap.
    pub(super) fn take_decided(&mut self, now: Instant) {
        let before = self.learner.next();
        while let Some((at, meaning)) = self.learner.take(|id| find(&self.pool, self.acceptor.as_ref(), id)) {
            self.write_learnt(now, at);
            self.close(at);
            self.places.note(at, &meaning, &self.learner);
            self.on_meaning(now, meaning);
        }
        if self.learner.next() > before {
            self.retain(now);
            self.propose_values(now);
        }
    }

    /// An acceptor that did not accept what is decided keeps it, too: after a restart it must not take the one for the other.
    fn write_learnt(&mut self, now: Instant, at: u64) {
        let Some(acceptor) = &mut self.acceptor else { return };
        acceptor.waiting.remove(&at);
        let Some(entry) = self.learner.entry(at) else { return };
        let accepted = acceptor.accepted.remove(&at);
        let same = accepted.as_ref().is_some_and(|accepted| accepted.item == entry.item);
        self.hold_payload(accepted.filter(|_| !same));
        if same && self.noted_up_to == at || crate::mutated!(self.config, LearntUnwritten) {
            self.noted_up_to = self.noted_up_to.max(at + 1);
        }
        self.write_on(now);
    }

    /// Writes what is decided and not yet on its way to the disk, in its order and as far as there is room.
    pub(super) fn write_on(&mut self, now: Instant) {
        //= X29
        let writes = self.acceptor.as_ref().is_some_and(|acceptor| !acceptor.is_blank());
        let first = self.learner.first().at;
        if writes && self.noted_up_to < first && self.has_room() {
            self.note_start(now, super::Then::Rest);
        }
        while writes && (first..self.learner.next()).contains(&self.noted_up_to) && self.has_room() {
            let at = self.noted_up_to;
            let Some(entry) = self.learner.entry(at) else { return };
            let record = Record::Learnt { at, item: entry.item.clone(), body: entry.body.clone() };
            self.noted_up_to += 1;
            self.keep(now, &record, super::Then::Nothing);
        }
    }

    /// What is decided is not open any more, by whatever way that became known.
    fn close(&mut self, at: u64) {
        if let crate::coordinator::Role::Leading(leading) = &mut self.role {
            leading.open.remove(&at);
        }
    }

    /// Tells the disk how far everything is decided.
    pub(super) fn mark(&mut self) {
        let next = self.noted_up_to;
        let votes = self.acceptor.as_ref().is_some_and(|acceptor| acceptor.votes());
        if votes && next > self.marked && self.has_room() {
            self.marked = next;
            self.keep(self.started, &Record::Decided(next), super::Then::Nothing);
        }
    }
}
