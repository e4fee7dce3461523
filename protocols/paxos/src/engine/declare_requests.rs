//! Checkpoints of programs on their way into the log.
use super::Paxos;
use crate::ballot::Item;
use crate::coordinator::Role;
use crate::packet::Content;
use consort_order::DeclareProgress;
use consort_types::{Holder, Instant};
use std::collections::BTreeMap;

/// What this node has asked the coordinator for, and when.
#[derive(Clone, Debug, Default)]
pub(super) struct DeclareRequests(BTreeMap<Holder, (Option<u64>, Instant)>);

impl Paxos {
    /// Asks the coordinator, again after `retry`, until the log says so.
    pub(super) fn ask_to_declare(&mut self, now: Instant, holder: &Holder, from: Option<u64>) -> DeclareProgress {
        //= X87
        let declared = &self.learner.head().declared;
        if declared.stands(holder, from) {
            self.requests.0.remove(holder);
            return DeclareProgress::Stands;
        }
        if declared.is_full_for(holder) {
            self.requests.0.remove(holder);
            return DeclareProgress::Full;
        }
        let retry = self.config.retry;
        let is_due = |(asked, at): &(Option<u64>, Instant)| *asked != from || now.since(*at) >= retry;
        if self.requests.0.get(holder).is_none_or(is_due)
            && let Some(leader) = self.lead().or_else(|| self.leader.clone())
        {
            // Those that nobody asks about any more are forgotten.
            self.requests.0.retain(|_, (_, at)| now.since(*at) < retry * 4);
            self.requests.0.insert(holder.clone(), (from, now));
            self.send(leader.ballot.owner.node, Content::Declare { holder: holder.clone(), from });
        }
        DeclareProgress::Pending
    }

    /// One asks this coordinator to put a checkpoint into the log.
    pub(super) fn on_declare(&mut self, now: Instant, holder: Holder, from: Option<u64>) {
        let declared = &self.learner.head().declared;
        if declared.stands(&holder, from) || declared.is_full_for(&holder) {
            return;
        }
        let item = Item::Declare { holder, from };
        let Role::Leading(leading) = &mut self.role else { return };
        if leading.open.len() >= self.config.window || leading.open.values().any(|open| open.item == item) {
            return;
        }
        let at = leading.next;
        leading.next += 1;
        self.propose(now, at, item);
    }
}
