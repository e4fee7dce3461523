//! What a registry advises: who is to lead, and in which order the ring passes things on. Nothing here decides what is safe:
//! whoever leads has its own ballot and its promises.
use super::coordinator_role::CAUGHT_UP;
use super::{Paxos, Peer};
use crate::ballot::Ballot;
use crate::coordinator::Role;
use crate::packet::{Acceptance, Content};
use consort_order::Advice;
use consort_types::{Duration, Instant, MemberId, NodeId};

/// For so long a coordinator leads before it hands over.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest that this grows to while one advice is followed again and again.
const PATIENCE_MOST: Duration = Duration::from_secs(80);

/// What is advised, and what came of it.
#[derive(Clone, Debug)]
pub(super) struct Advised {
    leader: Option<NodeId>,
    ring: Vec<NodeId>,
    patience: Duration,
    /// When this node began to lead last.
    led_since: Instant,
    /// The latest ballot whose owner has handed over: nobody leads by it any more.
    over: Ballot,
}

impl Default for Advised {
    fn default() -> Self {
        let (led_since, over) = (Instant::ZERO, Ballot::ZERO);
        Self { leader: None, ring: Vec::new(), patience: PATIENCE, led_since, over }
    }
}

impl Advised {
    pub(super) fn note(&mut self, advice: Advice) {
        match advice {
            Advice::Leader { node, .. } if node != self.leader => (self.leader, self.patience) = (node, PATIENCE),
            Advice::Leader { .. } => {}
            Advice::Order { nodes, .. } => self.ring = nodes,
        }
    }

    pub(super) const fn begins_to_lead(&mut self, now: Instant) {
        self.led_since = now;
    }

    /// Whether the coordinator of this ballot has handed over: what it said before may come later.
    pub(super) fn is_over(&self, ballot: Ballot) -> bool {
        ballot <= self.over
    }

    /// Where in the ring a node stands that the node `first` begins: as advised, those that are not named last.
    pub(super) fn place(&self, first: NodeId, node: NodeId) -> usize {
        //= X99
        let named = |node| self.ring.iter().position(|named| *named == node);
        let (Some(at), len) = (named(node), self.ring.len()) else { return self.ring.len() };
        (at + len - named(first).unwrap_or(0)) % len
    }
}

impl Paxos {
    /// Who stands first where several could: the one that is advised, then the lowest number.
    pub(super) fn turn(&self, node: NodeId) -> (bool, NodeId) {
        //= X96
        (self.advised.leader != Some(node), node)
    }

    /// Whether an acceptor could lead as well as this node: it is there, has caught up, and hears a majority.
    fn is_fit(&self, peer: &Peer, now: Instant) -> bool {
        let beat = &peer.beat;
        let votes = matches!(beat.acceptor, Acceptance::Fresh | Acceptance::Ready);
        let hears =
            |node: &&NodeId| **node == peer.member.node || beat.hears.iter().any(|member| member.node == **node);
        let quorum = self.config.acceptors.iter().filter(hears).count() >= self.config.quorum();
        let caught_up = beat.next + CAUGHT_UP >= self.learner.next();
        votes && quorum && caught_up && !beat.leaving && self.is_ringed(peer, now)
    }

    /// Whom this coordinator is to hand over to.
    fn heir(&self, now: Instant) -> Option<MemberId> {
        //= X97
        let Role::Leading(leading) = &self.role else { return None };
        let node = self.advised.leader.filter(|node| *node != self.me.node && self.config.is_acceptor(*node))?;
        let peer = self.peers.get(&node)?;
        let fit = self.is_fit(peer, now) || crate::mutated!(self.config, AdvisedUnseen);
        let patient = now.since(self.advised.led_since) >= self.advised.patience;
        let due = patient || crate::mutated!(self.config, AdviceChurns);
        let settled = self.learner.next() >= leading.inherited && !leading.changes();
        (fit && due && settled).then_some(peer.member)
    }

    /// Hands over to the advised acceptor, if it is time; whether it did. What is open the next coordinator proposes again.
    pub(super) fn hand_over(&mut self, now: Instant) -> bool {
        //= X97
        let (Some(to), Role::Leading(leading)) = (self.heir(now), &self.role) else { return false };
        let ballot = leading.ballot;
        self.counters.handed_over += 1;
        self.advised.patience = (self.advised.patience * 2).min(PATIENCE_MOST);
        self.role = Role::Follower { stand_at: Instant::ZERO };
        self.await_next(now, ballot, to);
        let me = self.me.node;
        for node in self.config.acceptors.clone().into_iter().filter(|node| *node != me) {
            self.send(node, Content::Yield { ballot, to });
        }
        true
    }

    /// Waits for another coordinator as it would for one that leads.
    fn await_next(&mut self, now: Instant, ballot: Ballot, to: MemberId) {
        self.advised.over = self.advised.over.max(ballot);
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.lease = Some((to, now + self.config.lease));
        }
    }

    /// The coordinator hands over: nobody waits for it any longer.
    pub(super) fn on_yield(&mut self, now: Instant, from: MemberId, ballot: Ballot, to: MemberId) {
        //= X97
        let heeds = |acceptor: &&crate::acceptor::Acceptor| {
            let waits = acceptor.lease.is_some_and(|(holder, _)| holder == from);
            waits && acceptor.votes() && acceptor.promised <= ballot
        };
        if ballot.owner != from || self.acceptor.as_ref().filter(heeds).is_none() {
            return;
        }
        self.await_next(now, ballot, to);
        if to == self.me && matches!(self.role, Role::Follower { .. }) {
            self.begin_to_stand(now);
        }
    }
}
