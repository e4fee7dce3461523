//! The ring: each link carries each payload once. It is a short cut; what it loses is asked for directly.
use super::Paxos;
use crate::acceptor::Accepted;
use crate::ballot::{Item, ValueId};
use crate::packet::{Content, Value};
use consort_types::{Instant, NodeId};

impl Paxos {
    /// Whom this node passes things on to.
    fn successor(&self) -> Option<NodeId> {
        let ring = &self.leader.as_ref()?.ring;
        let next = match ring.iter().position(|node| *node == self.me.node) {
            Some(at) => ring[(at + 1) % ring.len()],
            None => *ring.first()?,
        };
        (next != self.me.node).then_some(next)
    }

    pub(super) fn pass_on(&mut self, content: Content) {
        if let Some(next) = self.successor() {
            self.send(next, content);
        }
    }

    /// Sends the next own values, if there are any and credit for them.
    pub(super) fn propose_own(&mut self, now: Instant) {
        while let Some(sent) = self.proposer.next(&self.config, now) {
            self.pool.insert(sent.id, sent.body.clone());
            self.send_round(sent.id, sent.body);
            self.propose_values(now);
        }
    }

    fn send_round(&mut self, id: ValueId, body: consort_wire::pack::Body) {
        //= X61
        let hops = self.leader.as_ref().map_or(0, |lead| lead.ring.len() as u16);
        if hops > 1 {
            self.pass_on(Content::Value(Value { id, hops: hops - 2, body }));
        }
    }

    /// Another coordinator leads: it may not have what is under way.
    pub(super) fn hand_in_again(&mut self, now: Instant) {
        let mut sent = Vec::new();
        for value in self.proposer.sent() {
            value.at = now;
            sent.push((value.id, value.body.clone()));
        }
        sent.into_iter().for_each(|(id, body)| self.send_round(id, body));
    }

    /// Values that are under way for long go to the coordinator directly.
    pub(super) fn resend(&mut self, now: Instant) {
        //= X62
        let Some(leader) = self.leader.as_ref().map(|lead| lead.ballot.owner.node) else { return };
        let (retry, mut late) = (self.config.retry * 4, Vec::new());
        for value in self.proposer.sent().filter(|value| now.since(value.at) >= retry) {
            value.at = now;
            late.push((value.id, value.body.clone()));
        }
        if leader != self.me.node {
            self.counters.retried += late.len() as u64;
            late.into_iter().for_each(|(id, body)| self.send(leader, Content::Value(Value { id, hops: 0, body })));
        }
    }

    /// A payload: passed on first, whatever becomes of it here.
    pub(super) fn on_value(&mut self, now: Instant, value: Value) {
        //= X61
        let Value { id, hops, body } = value;
        let stops = crate::mutated!(self.config, HeldStops) && self.pool.contains_key(&id);
        if hops > 0 && !stops {
            self.pass_on(Content::Value(Value { id, hops: hops - 1, body: body.clone() }));
        }
        if self.is_past(&id) && !self.is_wanted(&id) {
            return;
        }
        self.pool.insert(id, body);
        self.reconsider(now, &id);
        self.lead_if_promised(now);
        self.adopt(now);
        self.take_decided(now);
        self.propose_values(now);
    }

    /// Whether this value had its place, or can have none any more.
    fn is_past(&self, id: &ValueId) -> bool {
        let present = self.learner.present();
        let had = || present.last.get(&id.sender).is_some_and(|last| id.number <= *last);
        id.view < present.number || id.view == present.number && had()
    }

    /// An item is not accepted any more at its instance: another one may still name the payload that only it held.
    pub(super) fn hold_payload(&mut self, gone: Option<Accepted>) {
        //= X15
        if let Some(Accepted { item: Item::Value(id), body: Some(body), .. }) = gone
            && !self.is_past(&id)
            && !crate::mutated!(self.config, PayloadReplaced)
        {
            self.pool.entry(id).or_insert(body);
        }
    }

    /// Values that instances name which are not taken yet.
    pub(super) fn named(&self) -> std::collections::BTreeSet<ValueId> {
        let mut named = self.learner.ahead();
        if let crate::coordinator::Role::Leading(leading) = &self.role {
            let value = |open: &crate::coordinator::Open| if let Item::Value(id) = open.item { Some(id) } else { None };
            named.extend(leading.open.values().filter_map(value));
        }
        named
    }

    /// Whether something that is not decided here names this value.
    fn is_wanted(&self, id: &ValueId) -> bool {
        let item = Item::Value(*id);
        let waits = |acceptor: &crate::acceptor::Acceptor| acceptor.waiting.values().any(|(_, waits)| *waits == item);
        self.acceptor.as_ref().is_some_and(waits)
            || matches!(self.role, crate::coordinator::Role::Preparing { .. })
            || self.acceptor.as_ref().is_some_and(|acceptor| !acceptor.votes())
            || self.learner.is_behind()
    }

    pub(super) fn on_fetch(&mut self, from: NodeId, names: &[ValueId]) {
        //= X23
        for id in names {
            if let Some(body) = self.payload(id) {
                self.counters.fetched += 1;
                self.send(from, Content::Value(Value { id: *id, hops: 0, body }));
            }
        }
    }
}
