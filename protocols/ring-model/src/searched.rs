//! How worlds are searched: what is judged, counted and told of each step.
use crate::{Action, SearchWorld, World};
use std::collections::BTreeSet;
use std::fmt;

/// How many members the views had that were formed.
#[derive(Clone, Debug, Default)]
pub struct ViewSizes(pub BTreeSet<usize>);

impl fmt::Display for ViewSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "views of {:?}", self.0)
    }
}

impl SearchWorld for World {
    type Action = Action;
    type Tally = ViewSizes;

    fn digest(&self) -> u64 {
        Self::digest(self)
    }

    fn actions(&self) -> Vec<Action> {
        Self::actions(self)
    }

    fn step(&mut self, action: Action) -> Result<(), String> {
        let told = |world: &Self| world.traces().map(|trace| trace.events.len()).sum::<usize>();
        let before = told(self);
        self.apply(action);
        let news = told(self) != before || matches!(action, Action::Crash(_));
        if news { self.check() } else { Ok(()) }
    }

    fn continues(&self) -> Result<(), String> {
        crate::fair::continues(self)
    }

    fn count(&self, ViewSizes(sizes): &mut ViewSizes) {
        sizes.extend((0..self.len()).filter_map(|i| self.view(i)).map(|view| view.members.len()));
    }

    fn tell(&self, action: Action) -> String {
        let flying = |at| self.flying().nth(at).map_or_else(String::new, ToString::to_string);
        match action {
            Action::Deliver(0) => format!("arrives {}", flying(0)),
            Action::Deliver(at) => format!("arrives first {}", flying(at)),
            Action::Double(at) => format!("arrives and will again {}", flying(at)),
            Action::Lose(at) => format!("is lost {}", flying(at)),
            Action::Fire(i, armed) => format!("n{} {armed:?}", i + 1),
            Action::Crash(i) => format!("n{} crashes", i + 1),
            Action::Restart(i) => format!("n{} starts anew", i + 1),
        }
    }
}
