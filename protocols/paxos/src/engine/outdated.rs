//! A node that came back with a smaller number than it had: its clock was set back, and the file with its number is lost.
use super::Paxos;
use crate::packet::Content;
use consort_order::Output;
use consort_types::{Incarnation, Instant, MemberId};

impl Paxos {
    /// Says to a node whose packets are dropped, because a later incarnation of it is known, which one that is. While that one
    /// speaks, two daemons run as one node, and the earlier one stays out.
    pub(super) fn answer_outdated(&mut self, now: Instant, from: MemberId) {
        //= X09
        let later = self.latest.latest(from.node).max(self.began.all.latest(from.node));
        let speaks = |later| {
            let peer = self.peers.get(&from.node).filter(|peer| peer.member.incarnation >= later);
            peer.is_some_and(|peer| self.is_near(peer, now))
        };
        let stays = speaks(later) && !crate::mutated!(self.config, TwinAnswered);
        if later > from.incarnation && !stays && !crate::mutated!(self.config, OutdatedUnanswered) {
            self.send(from.node, Content::Outdated(later));
        }
    }

    /// Another node knows this later incarnation of this one: it ends, and begins again with a larger number.
    pub(super) fn exceed(&mut self, from: MemberId, later: Incarnation) {
        //= X09
        let can_be = later > self.me.incarnation && Incarnation(later.0.saturating_add(1)).is_plausible();
        let ends = self.output.iter().any(|output| matches!(output, Output::Restart { .. }));
        if !can_be || ends {
            self.counters.outdated += 1;
            return;
        }
        let (node, own) = (from.node, self.me.incarnation);
        let cause = format!(
            "{node} accepts no incarnation of this node before {later}, and this one is {own}: the clock was set back, and \
             the state directory is not the one of then"
        );
        let records = self.carried();
        self.output.push_back(Output::Restart { cause, records, exceed: Some(later) });
    }
}
