//! This node's log as one of many that are merged: what their merger needs beside the contract.
use super::coordinator_role::CAUGHT_UP;
use super::{Paxos, Peer};
use crate::ballot::{Item, LogId};
use crate::coordinator::Role;
use consort_types::{Instant, NodeId};

/// Of the window of instances skips fill this part at most.
const SKIPS: usize = 4;

impl Paxos {
    /// Who leads, as far as this node knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.leader.as_ref().map(|lead| lead.ballot.owner.node)
    }

    /// Whether this node leads, and may propose to skip.
    pub fn may_skip(&self) -> bool {
        //= X95
        let Role::Leading(leading) = &self.role else { return false };
        let (window, skips) = (self.config.window, self.open_skips().count());
        let full = leading.open.len() >= window || skips >= (window / SKIPS).max(1);
        self.learner.next() >= leading.inherited && !full
    }

    fn open_skips(&self) -> impl Iterator<Item = u64> {
        let open = if let Role::Leading(leading) = &self.role { Some(&leading.open) } else { None };
        open.into_iter().flatten().filter_map(|(_, open)| if let Item::Skip(to) = open.item { Some(to) } else { None })
    }

    /// Proposes that the slots below `to` are nobody's, where this node may and none proposes as much.
    pub fn skip(&mut self, now: Instant, to: u64) {
        //= X91
        let furthest = self.open_skips().max().unwrap_or(0).max(self.learner.head().slots + 1);
        if !self.may_skip() || to <= furthest {
            return;
        }
        let Role::Leading(leading) = &mut self.role else { return };
        let at = leading.next;
        leading.next += 1;
        self.propose(now, at, Item::Skip(to));
        self.settle(now);
    }

    /// Whether it has a log, and nobody that it hears knows much more of it.
    pub fn is_caught_up(&self, now: Instant) -> bool {
        let next = self.learner.next();
        // Where it has read nothing the others may have trimmed what it would read first.
        let most = if next == 0 { 0 } else { next + CAUGHT_UP };
        let more = |peer: &Peer| peer.log == self.log && self.is_near(peer, now) && peer.beat.next > most;
        self.log != LogId::NONE && !self.seeks_end && !self.peers.values().any(more)
    }

    /// Whether a majority of the acceptors is heard, and none that is heard knows more of this log.
    pub fn is_level(&self, now: Instant) -> bool {
        let more =
            |peer: &Peer| peer.log == self.log && self.is_near(peer, now) && peer.beat.next > self.learner.next();
        self.is_quorum_near(now) && !self.peers.values().any(more)
    }

    /// Whether this node has other logs to read before it may be let in: until then it is in no view.
    pub const fn reserve(&mut self, reserved: bool) {
        //= X93
        self.reserved = reserved;
    }

    /// Whether this node may be let in at any time where this log is merged with others: then what one node does not retain
    /// is asked of every other, as by one that was let in.
    pub const fn miss_nothing(&mut self, awaited: bool) {
        //= X85
        self.awaited = awaited;
    }

    /// This view is installed where the log is merged with others; what was read is not installed until then.
    pub const fn note_installed(&mut self, number: u64) {
        self.installed = Some(number);
    }

    /// What stands from this instance on is yet to be merged with other logs: it is let go later, within bounds. Nothing is
    /// where the log is not merged.
    pub const fn hold_from(&mut self, at: Option<u64>) {
        self.unmerged = at;
    }

    /// Said before the start of one who only reads and sends, on a node that has read this log before and does not go on
    /// there: it begins where the log ends now.
    pub const fn begin_late(&mut self) {
        //= X98
        (self.late, self.seeks_end) = (true, true);
    }

    /// Whether a view of the log has this node that an earlier reader of it was let in to.
    pub(super) fn is_member_in_name(&self) -> bool {
        //= X98
        let present = self.learner.present();
        self.late && present.last.contains_key(&self.me) && !self.is_member(present.number)
    }

    /// Whether this node receives what another one sends, so that a view may have it.
    pub fn reaches(&self, node: NodeId, now: Instant) -> bool {
        self.peers.get(&node).map_or(node == self.me.node, |peer| self.is_near(peer, now))
    }

    /// Whether no view of the log has this node any more, as far as it has read.
    pub fn is_out(&self) -> bool {
        !self.learner.present().last.contains_key(&self.me)
    }
}
