//! Two lines that go on in one view: a history that was forced, or begun anew, meets the one that it left behind.
//!
//! Whoever goes on in a new view claims it, and says on what. All see the claims at the same places of the order. Those
//! whose line is the earlier one lag from there, and are sent the later one: so each learns that it has parted.
use super::{Base, Effect, Engine, Gift};
use crate::frame::{Claim, Frame};
use crate::line::{Line, Origin, ReplicaId};
use std::collections::BTreeSet;

impl Engine {
    /// It goes on with these, which left that view together, once a message of this view shows that they do.
    pub(super) fn go_on(&mut self, left: u64, came: BTreeSet<ReplicaId>) {
        let Line { history, epoch, step, end, .. } = self.line;
        if left > epoch {
            self.silent.insert(left);
        }
        while self.silent.len() > Claim::SILENT_MOST {
            self.silent.pop_first();
        }
        let silent = self.silent.clone();
        let claim = Claim { view: self.at.0, came: came.clone(), history, epoch, step, end, silent };
        (self.came, self.claim) = (Some(came), Some(claim.clone()));
        self.effects.push_back(Effect::Send(Frame::Claim(Box::new(claim))));
    }

    /// The epoch of what is taken in this view.
    pub(super) fn epoch_here(&self) -> u64 {
        self.claim.as_ref().map_or(self.line.epoch, Claim::epoch_here)
    }

    /// Whether this is of a line that counts more than the one it follows.
    pub fn is_behind(&self, frame: &Frame) -> bool {
        let Some(own) = self.claim.as_ref().filter(|_| self.follows) else { return false };
        match frame {
            Frame::Claim(other) => other.view == own.view && other.rank() > own.rank(),
            // One who followed a later view, and lags, knows of a line that went on there; or it took alone what was said in
            // a view that this line went through.
            Frame::Hello(hello) => {
                let theirs = hello.line.epoch;
                self.is_of_now(hello)
                    && (own.epoch.saturating_add(1)..own.epoch_here()).contains(&theirs)
                    && !own.silent.contains(&theirs)
            }
            _ => false,
        }
    }

    /// Follows no more, and asks for the line that counts: nobody who has seen this goes on without those that have it.
    pub(super) fn yield_to(&mut self, frame: Frame) {
        let Some(own) = self.claim.take() else { return };
        self.heard = match &frame {
            Frame::Hello(hello) => (hello.line.epoch, hello.line.up_to_date()),
            Frame::Claim(other) => (other.epoch_here(), other.came.clone()),
            _ => return,
        };
        // What it took in this view is of the line that does not count.
        self.line.epoch = own.epoch;
        self.step_down(false);
        self.note(frame);
    }

    /// Whether the machine has what the history of a gift does not have.
    pub fn has_parted(&self, gift: &Gift) -> bool {
        let Base::Snapshot { parted } = gift.base else { return false };
        let held: BTreeSet<_> = self.held.iter().filter_map(held_back).collect();
        let began = self.applied.position > 0;
        parted || began && (gift.line.history != self.line.history || self.seen.has_more_than(&gift.seen, &held))
    }
}

/// The command of an effect that waits.
pub(super) fn held_back(effect: &Effect) -> Option<(Origin, u64)> {
    if let Effect::Apply { entry, .. } = effect { Some((entry.origin, entry.number)) } else { None }
}
