//! How worlds are searched: what is judged, counted and told of each step.
use crate::{Action, World};
use consort_ring_model::SearchWorld;
use std::fmt;

/// In how many worlds acceptors have promised different ballots.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contested(pub u64);

impl fmt::Display for Contested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with two ballots", self.0)
    }
}

impl SearchWorld for World {
    type Action = Action;
    type Tally = Contested;

    fn digest(&self) -> u64 {
        Self::digest(self)
    }

    fn actions(&self) -> Vec<Action> {
        Self::actions(self)
    }

    fn step(&mut self, action: Action) -> Result<(), String> {
        self.apply(action);
        self.verdict()
    }

    fn continues(&self) -> Result<(), String> {
        crate::fair::continues(self)
    }

    fn count(&self, Contested(worlds): &mut Contested) {
        *worlds += u64::from(self.has_two_ballots());
    }

    fn tell(&self, action: Action) -> String {
        match action {
            Action::Deliver(from, to) | Action::Overtake(from, to) | Action::Lose(from, to) => {
                let flying = self.first(from, to).map_or_else(String::new, ToString::to_string);
                format!("{action:?}: {flying}")
            }
            _ => format!("{action:?}"),
        }
    }
}
