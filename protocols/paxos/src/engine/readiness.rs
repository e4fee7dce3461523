//! Whether what is submitted at this node is ordered soon: a quorum votes, one of it leads, and this node is in the view.
use super::{LeaveStage, Paxos, Peer};
use crate::ballot::LogId;
use crate::coordinator::Role;
use crate::packet::Acceptance;
use consort_order::{LackingQuorum, Obstacle};
use consort_types::{Duration, Instant, NodeId};

/// A disk takes some milliseconds for a record. One with a record that waits longer than this hangs.
const HANGS: Duration = Duration::from_secs(1);

impl Paxos {
    /// Why nothing that is submitted now is ordered soon.
    pub(super) fn what_is_lacking(&self, now: Instant) -> Option<Obstacle> {
        //= X56
        if self.leave_stage != LeaveStage::Stays {
            return Some(Obstacle::Leaving);
        }
        match self.lack_of_votes(now) {
            // It votes without this node.
            Some(Obstacle::Leaderless(_)) | None if self.members().is_none() => Some(Obstacle::Outside),
            lack => lack,
        }
    }

    /// Why nothing is decided soon, whether or not this node is in the view: too few acceptors vote, or none of them leads.
    pub fn lack_of_votes(&self, now: Instant) -> Option<Obstacle> {
        //= X110
        let lacking = self.votes(now);
        if lacking.voting < lacking.needed {
            return Some(Obstacle::Quorum(Box::new(lacking)));
        }
        (!self.is_led(now)).then_some(Obstacle::Leaderless(None))
    }

    /// Whether a coordinator leads that this node reaches.
    fn is_led(&self, now: Instant) -> bool {
        let leads = |peer: &Peer| peer.log == self.log && peer.beat.lead.is_some() && self.is_mutual(peer, now);
        match self.role {
            Role::Leading(_) => self.holds_lease(now),
            _ => self.peers.values().any(leads),
        }
    }

    /// Which acceptors vote, and why the others do not.
    fn votes(&self, now: Instant) -> LackingQuorum {
        let (needed, acceptors) = (self.config.quorum(), self.config.acceptors.len());
        let mut lacking = LackingQuorum { needed, acceptors, ..LackingQuorum::default() };
        let mut has_begun = self.log != LogId::NONE;
        for node in &self.config.acceptors {
            let Some((acceptance, hangs, log)) = self.seen_as(*node, now) else {
                lacking.silent.push(*node);
                continue;
            };
            has_begun |= log != LogId::NONE;
            let is_of_log = log == self.log || self.log == LogId::NONE;
            match acceptance {
                Acceptance::Fresh | Acceptance::Ready if hangs => lacking.hanging.push(*node),
                Acceptance::Fresh | Acceptance::Ready if is_of_log => lacking.voting += 1,
                Acceptance::Blank => lacking.forgetful.push(*node),
                _ => lacking.returning.push(*node),
            }
        }
        if !has_begun {
            lacking.begin(acceptors);
        }
        lacking
    }

    /// What an acceptor says of itself and of its disk, and in which log, if it answers.
    fn seen_as(&self, node: NodeId, now: Instant) -> Option<(Acceptance, bool, LogId)> {
        if node == self.me.node {
            return Some((self.acceptance(), self.disk_hangs(now), self.log));
        }
        let peer = self.peers.get(&node).filter(|peer| self.is_near(peer, now))?;
        let put_back = self.is_put_back(peer.member);
        Some((if put_back { Acceptance::Asking } else { peer.beat.acceptor }, peer.beat.hangs, peer.log))
    }

    /// Whether the disk has kept nothing for a while of what it was given.
    pub(super) fn disk_hangs(&self, now: Instant) -> bool {
        //= X111
        self.writing.first_key_value().is_some_and(|(_, oldest)| now.since(oldest.since) >= HANGS)
    }
}
