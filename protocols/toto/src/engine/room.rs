//! What there is of one view.
use crate::config::TotoConfig;
use crate::dag::{Dag, DagMark};
use crate::delivery::DagDeliverer;
use crate::repair::Repair;
use crate::votes::Votes;
use consort_member::vs::Laggards;
use consort_types::{Instant, MemberId, View};
use std::collections::BTreeMap;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Room {
    pub view: View,
    pub dag: Dag,
    pub votes: Votes,
    pub deliverer: DagDeliverer,
    pub repair: Repair,
    pub laggards: Laggards,
    /// For each ordered message that is not released: of how many machines messages beside it were held when it came.
    pub came: BTreeMap<DagMark, u64>,
}

impl Room {
    pub fn new(config: &TotoConfig, view: View, me: MemberId, now: Instant) -> Self {
        let n = view.members.len();
        let place = view.members.binary_search(&me).unwrap_or(0);
        // Nobody's numbers run further ahead of what all hold than windows and acknowledgements of windows allow.
        let ahead = config.window * (n as u64 + 1) + 64;
        Self {
            dag: Dag::new(view.id, place, n, ahead),
            votes: Votes::new(config, n),
            deliverer: DagDeliverer::new(view.id, view.members.clone(), place),
            repair: Repair::new(n),
            laggards: Laggards::new(now, n, config.deaf, config.timers.silence),
            came: BTreeMap::new(),
            view,
        }
    }

    /// How many packets with messages are under way, of this member and of all: not known to be held by all, or undecided
    /// here. A member that hears what others hold, but not their votes, must not go on for ever.
    pub fn under_way(&self) -> (u64, u64) {
        //= A09
        let (mine, all) = self.dag.under_way();
        let undecided = self.votes.waiting_of(self.dag.me());
        (mine.max(undecided as u64), all.max(self.votes.waiting() as u64))
    }

    /// A member that is heard, and has lacked for too long what others hold: it does not receive. If all others lack what
    /// this one sent, and only that, it is this one.
    pub fn deaf(&mut self, now: Instant) -> Option<MemberId> {
        //= A08
        let place = self.laggards.deaf(now, self.dag.me(), self.dag.known())?;
        self.view.members.get(place).copied()
    }
}
