//! Members that do not read, and are made observers: they leave their groups in the order, and read them by position.
//!
//! A client with the policy `demote` for which too much waits keeps its connection. What was ordered before its leave
//! still comes to it; what comes behind it is read from what is retained, as much as it reads. It may join again.
use crate::Node;
use crate::rights::{MembershipStep, NO_REQUEST};
use consort_order::{Engine, Refused};
use consort_session::{Refusal, RefusalCause};
use consort_types::{ClientId, GroupName};
use std::collections::{BTreeMap, VecDeque};

/// What making a client leave costs, counted as bytes copied.
const DEMOTING: usize = 1 << 10;

/// The members that are made to leave.
#[derive(Debug, Default)]
pub(crate) struct Demotions {
    all: BTreeMap<ClientId, Demotion>,
    /// Whose leaves are yet to be handed in, the next one first.
    turns: VecDeque<ClientId>,
    pub begun: u64,
}

/// One that is made to leave.
#[derive(Debug, Default)]
struct Demotion {
    /// What it is yet to leave; `None` until that was looked up.
    leaves: Option<VecDeque<GroupName>>,
    /// How many leaves have no place yet.
    under_way: usize,
    left: Vec<GroupName>,
}

impl Demotions {
    /// A client does not read. Nothing happens if it is made to leave already.
    pub fn begin(&mut self, client: ClientId) {
        self.all.entry(client).or_insert_with(|| {
            self.turns.push_back(client);
            Demotion::default()
        });
    }

    pub fn forget(&mut self, client: ClientId) {
        if self.all.remove(&client).is_some() {
            self.turns.retain(|turn| *turn != client);
        }
    }

    fn next(&self) -> Option<(ClientId, &Demotion)> {
        let client = *self.turns.front()?;
        self.all.get(&client).map(|demotion| (client, demotion))
    }

    /// It is to leave these.
    fn leaves(&mut self, client: ClientId, groups: Vec<GroupName>) {
        self.begun += u64::from(!groups.is_empty());
        if let Some(demotion) = self.all.get_mut(&client) {
            demotion.leaves = Some(groups.into());
        }
    }

    /// A leave of the first in turn is on its way into the order, or never will be.
    fn handed_in(&mut self, accepted: bool) {
        let demotion = self.turns.front().and_then(|client| self.all.get_mut(client));
        if let Some(demotion) = demotion {
            demotion.leaves.iter_mut().for_each(|leaves| drop(leaves.pop_front()));
            demotion.under_way += usize::from(accepted);
        }
    }

    /// All leaves of the first in turn were handed in.
    fn end_turn(&mut self) {
        let Some(client) = self.turns.pop_front() else { return };
        if self.all.get(&client).is_some_and(|demotion| demotion.under_way == 0) {
            self.all.remove(&client);
        }
    }

    /// A leave has its place, and changed something or not. What the client has left, if that was the last.
    fn settle(&mut self, client: ClientId, left: Option<GroupName>) -> Option<Vec<GroupName>> {
        let demotion = self.all.get_mut(&client)?;
        demotion.under_way -= demotion.under_way.min(1);
        demotion.left.extend(left);
        let more = demotion.leaves.as_ref().is_some_and(|leaves| !leaves.is_empty());
        if more || demotion.under_way > 0 {
            return None;
        }
        self.turns.retain(|turn| *turn != client);
        self.all.remove(&client).map(|demotion| demotion.left)
    }
}

impl<E: Engine> Node<E> {
    /// Has the next client that does not read leave a group, if there is one and room for it.
    pub(crate) fn demote_next(&mut self) -> bool {
        let Some((client, demotion)) = self.clients.demotions().next() else { return false };
        let next = demotion.leaves.as_ref().map(|leaves| leaves.front().cloned());
        if !self.pending.may_tell() {
            return false;
        }
        self.pending.spend(DEMOTING);
        match next {
            None => self.begin_demotion(client),
            Some(None) => self.clients.demotions().end_turn(),
            Some(Some(group)) => {
                let answer = self.ask_leave(client, &group);
                // Before the drain: an engine may deliver at once what it has just accepted.
                if !matches!(answer, Err(Refused::Full { .. })) {
                    if answer.is_ok() {
                        self.rights.begin_step(client, MembershipStep::Demoted);
                    }
                    self.clients.demotions().handed_in(answer.is_ok());
                }
                self.drain_engine();
            }
        }
        true
    }

    /// From here on what the groups are sent is to be retained, so that nothing is missing behind the leave.
    fn begin_demotion(&mut self, client: ClientId) {
        let me = self.datagrams.identity().me;
        let groups: Vec<_> = self.groups.groups_of((me, client)).cloned().collect();
        if self.clients.chose_policy(client) && !self.replays && !self.retention.is_off() {
            // Too many groups that are read: the gap is told.
            let _ = self.retention.is_read(&groups, self.now);
        }
        self.clients.demotions().leaves(client, groups);
    }

    /// A client's leave has its place.
    pub(crate) fn end_demotion(&mut self, client: ClientId, group: &GroupName, changed: bool) {
        if changed {
            let text =
                format!("this client does not read: it is no member of {group} any more; join it again to be one");
            let refusal = Refusal::new(RefusalCause::Demoted, text);
            self.clients.tell_refused(client, NO_REQUEST..NO_REQUEST + 1, &refusal);
        }
        let left = self.clients.demotions().settle(client, changed.then(|| group.clone()));
        // Others may not know of readings.
        if let Some(groups) = left.filter(|groups| !groups.is_empty() && self.clients.chose_policy(client)) {
            self.read_from_here(client, groups);
        }
    }
}
