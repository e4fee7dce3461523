//! The desk at the leader: who has reported to it, and what it is told and decides. No clock and no connection inside.
//!
//! | said | bytes |
//! |---|---|
//! | hello | 1: a member that knows of no desk |
//! | report | 2, fence (16), epoch (8), all that the member knows |
//! | change | 3, what is new at the member; it counts behind the member's report alone |
//!
//! | decided | bytes |
//! |---|---|
//! | collect | 1, epoch (8): who has not reported to this desk does |
//! | decision | 2, the recipe's |
use super::bytes::{Reader, Writer};
use crate::{CandidateId, Fence};
use consort::{ClientId, NodeId};
use std::collections::BTreeMap;

/// A recipe's part: a member's everywhere, and the desk's at the leader.
pub trait Recipe: Send + 'static {
    /// All that a leader must know of this member.
    fn report(&mut self) -> Vec<u8>;
    /// What is new at this member.
    fn poll_change(&mut self) -> Option<Vec<u8>>;
    /// What was decided, at a place of the order.
    fn handle_decision(&mut self, place: Fence, decision: &[u8]);
    /// The desk forgets all.
    fn clear(&mut self);
    /// The desk is told what a member knows.
    fn handle_report(&mut self, member: CandidateId, report: &[u8]);
    /// The desk is told what is new at a member.
    fn handle_change(&mut self, member: CandidateId, change: &[u8]);
    /// A member has left, or is cut off.
    fn handle_gone(&mut self, member: CandidateId);
    /// What the desk decides next; `complete` once all members have reported.
    fn poll_decision(&mut self, complete: bool) -> Option<Vec<u8>>;
}

/// Who sends, to others: a client of a node.
pub type SenderKey = (NodeId, ClientId);

/// What a desk has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeskEffect {
    Say(Vec<u8>),
    Decide(Fence, Vec<u8>),
}

/// What stands between a recipe and the group.
#[derive(Debug, Default)]
pub struct Desk {
    /// Under which fence and epoch this member has reported, and so to whom its changes go.
    reported: Option<(Fence, u64)>,
    greets: bool,
    /// The fence of whoever leads, as far as the order was received.
    leader: Option<Fence>,
    epoch: u64,
    open: Option<Open>,
    members: Vec<SenderKey>,
}

/// This candidate leads.
#[derive(Debug)]
struct Open {
    fence: Fence,
    epoch: u64,
    stage: OpenStage,
    reported: BTreeMap<CandidateId, SenderKey>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenStage {
    /// It must ask for reports.
    Asks,
    /// It has asked, and that has no place yet.
    Asked,
    /// Reports come in.
    Collects,
}

impl Desk {
    pub fn new() -> Self {
        Self { greets: true, ..Self::default() }
    }

    /// This candidate leads under a fence, or does not.
    pub fn handle_lead<R: Recipe>(&mut self, recipe: &mut R, fence: Option<Fence>) {
        if self.open.as_ref().map(|open| open.fence) == fence {
            return;
        }
        recipe.clear();
        self.epoch += 1;
        let epoch = self.epoch;
        self.open = fence.map(|fence| Open { fence, epoch, stage: OpenStage::Asks, reported: BTreeMap::new() });
    }

    /// Somebody leads under this fence. Where a greater one was taken for the leader's before, what was decided meanwhile was
    /// missed.
    pub fn handle_leader<R: Recipe>(&mut self, recipe: &mut R, fence: Fence) {
        //= L14
        if self.leader.replace(fence).is_some_and(|before| fence < before) {
            self.handle_hole(recipe);
        }
    }

    /// Something may have been missed.
    pub fn handle_hole<R: Recipe>(&mut self, recipe: &mut R) {
        (self.reported, self.greets) = (None, true);
        let fence = self.open.take().map(|open| open.fence);
        self.handle_lead(recipe, fence);
    }

    /// Who is in the group now.
    pub fn handle_members<R: Recipe>(&mut self, recipe: &mut R, members: Vec<SenderKey>) {
        self.members = members;
        let Some(open) = &mut self.open else { return };
        let gone = open.reported.iter().filter(|(_, key)| !self.members.contains(key));
        let gone: Vec<_> = gone.map(|(member, _)| *member).collect();
        for member in gone {
            open.reported.remove(&member);
            recipe.handle_gone(member);
        }
    }

    /// A member said something.
    pub fn handle_said<R: Recipe>(&mut self, recipe: &mut R, (member, key): (CandidateId, SenderKey), said: &[u8]) {
        let Some(open) = &mut self.open else { return };
        let mut reader = Reader(said);
        match reader.kind() {
            Some(1) => {
                //= L14
                // What it knew is not what it knows.
                if open.reported.remove(&member).is_some() {
                    recipe.handle_gone(member);
                }
                open.stage = OpenStage::Asks;
            }
            Some(2) if (reader.fence(), reader.u64()) == (Some(open.fence), Some(open.epoch)) => {
                open.reported.insert(member, key);
                recipe.handle_report(member, reader.0);
            }
            Some(3) if open.reported.contains_key(&member) => recipe.handle_change(member, reader.0),
            _ => {}
        }
    }

    /// The leader decided something, at a place.
    pub fn handle_decided<R: Recipe>(
        &mut self,
        recipe: &mut R,
        (fence, place): (Fence, Fence),
        decided: &[u8],
    ) -> Option<DeskEffect> {
        let mut reader = Reader(decided);
        match reader.kind()? {
            1 => {
                //= L13
                let epoch = reader.u64()?;
                if let Some(open) = self.open.as_mut().filter(|open| (open.fence, open.epoch) == (fence, epoch))
                    && open.stage == OpenStage::Asked
                {
                    open.stage = OpenStage::Collects;
                }
                if self.reported == Some((fence, epoch)) {
                    return None;
                }
                self.reported = Some((fence, epoch));
                let report = recipe.report();
                let head = Writer::kind(2).fence(fence).u64(epoch).0;
                Some(DeskEffect::Say([head, report].concat()))
            }
            2 => {
                recipe.handle_decision(place, reader.0);
                None
            }
            _ => None,
        }
    }

    /// What is to be said next. `late` once members had a lease's time to report.
    pub fn poll<R: Recipe>(&mut self, recipe: &mut R, late: bool) -> Option<DeskEffect> {
        if std::mem::take(&mut self.greets) {
            // What was reported before is forgotten at this.
            self.reported = None;
            return Some(DeskEffect::Say(Writer::kind(1).0));
        }
        // What is new before a report stands in the report.
        if let Some(change) = recipe.poll_change()
            && self.reported.is_some()
        {
            return Some(DeskEffect::Say([vec![3], change].concat()));
        }
        let open = self.open.as_mut()?;
        if open.stage == OpenStage::Asks {
            open.stage = OpenStage::Asked;
            return Some(DeskEffect::Decide(open.fence, Writer::kind(1).u64(open.epoch).0));
        }
        //= L16
        let here = self.members.iter().all(|key| open.reported.values().any(|reported| reported == key));
        let complete = open.stage == OpenStage::Collects && here;
        let decision = recipe.poll_decision(complete || late)?;
        Some(DeskEffect::Decide(open.fence, [vec![2], decision].concat()))
    }
}
