//! One checker per promise. Each reads the events of a run one by one, knows nothing of any protocol, and says at once
//! when the promise is broken; some can only be judged when the run is over.
//!
//! | id | promise | file |
//! |---|---|---|
//! | TO1 | one total order, whatever the positions say | `total_order` |
//! | TO1p | positions increase and mean one message each | `position` |
//! | TO2 | no gap within a view | `gap` |
//! | ND | nothing is delivered twice | `duplicate` |
//! | NC | nothing is delivered that was not sent just so | `created` |
//! | FIFO | a sender's messages stay in their order | `fifo` |
//! | CA | a message comes after all that its sender knew of | `causal` |
//! | SD | whoever stays delivers its own messages | `self_delivery` |
//! | SF1 | what one delivers as safe, all deliver | `safe_delivered` |
//! | SF4 | what one delivers as safe, all hold | `safe_held` |
//! | W | views are well formed | `view` |
//! | LV | what was accepted is delivered once faults stop | `liveness` |
//! | BM | memory stays in its bounds and is given back | `memory` |
//! | NR | nothing is repeated where nothing was lost | `needless` |
//! | AF | the protocol's own assertions hold | `assertion` |
//!
//! That one seed gives one run (DET) is judged by running it twice and comparing digests.
use crate::trace::{Event, Trace};
use std::fmt;

mod assertion;
mod causal;
mod created;
mod duplicate;
mod fifo;
mod gap;
mod liveness;
mod memory;
mod needless;
mod position;
mod safe_delivered;
mod safe_held;
mod self_delivery;
mod total_order;
mod view;

#[cfg(test)]
mod tests;

pub(crate) use assertion::GAUGE as ASSERTIONS;
pub use memory::Bounds;

/// What a checker says of an event: nothing, or how the promise is broken.
pub type Verdict = Result<(), String>;

/// Watches over one promise.
pub trait Checker {
    /// Its id and its name.
    fn rule(&self) -> Rule;

    /// Takes the next event.
    ///
    /// # Errors
    /// A sentence that says how the event breaks the promise.
    fn see(&mut self, event: &Event) -> Verdict;

    /// The run is over.
    ///
    /// # Errors
    /// A sentence that says what is still owed.
    fn end(&mut self) -> Verdict {
        Ok(())
    }
}

/// The id of a promise, as the documents cite it, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Its id.
    pub id: &'static str,
    /// Its name, a few words.
    pub name: &'static str,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id, self.name)
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// The event that broke it; `None` where it was found at the end.
    pub event: Option<Event>,
    /// How.
    pub how: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.event {
            Some(event) => write!(f, "{} broken at {} ms by {}: {}", self.rule, event.at, event.process, self.how),
            None => write!(f, "{} broken at the end: {}", self.rule, self.how),
        }
    }
}

/// All checkers over one run.
pub struct Suite {
    checkers: Vec<Box<dyn Checker>>,
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rules()).finish()
    }
}

impl Suite {
    /// Every checker there is.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            checkers: vec![
                Box::<created::Created>::default(),
                Box::<duplicate::Duplicate>::default(),
                Box::<total_order::TotalOrder>::default(),
                Box::<position::Positions>::default(),
                Box::<gap::Gap>::default(),
                Box::<fifo::Fifo>::default(),
                Box::<causal::Causal>::default(),
                Box::<safe_held::SafeHeld>::default(),
                Box::<safe_delivered::SafeDelivered>::default(),
                Box::<self_delivery::SelfDelivery>::default(),
                Box::<view::Views>::default(),
                Box::<assertion::Assertions>::default(),
                Box::new(needless::Needless(bounds.needless.clone())),
                Box::new(memory::Memory::new(bounds)),
                Box::<liveness::Liveness>::default(),
            ],
        }
    }

    /// What it watches over.
    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        self.checkers.iter().map(|checker| checker.rule())
    }

    /// Shows an event to all; returns what it broke.
    pub fn see(&mut self, event: &Event) -> Vec<Violation> {
        let judge = |checker: &mut Box<dyn Checker>| {
            let how = checker.see(event).err()?;
            Some(Violation { rule: checker.rule(), event: Some(event.clone()), how })
        };
        self.checkers.iter_mut().filter_map(judge).collect()
    }

    /// Ends the run; returns what was still owed.
    pub fn end(&mut self) -> Vec<Violation> {
        let judge = |checker: &mut Box<dyn Checker>| {
            let how = checker.end().err()?;
            Some(Violation { rule: checker.rule(), event: None, how })
        };
        self.checkers.iter_mut().filter_map(judge).collect()
    }
}

/// Judges a whole trace, of a simulation or of anything else.
pub fn judge(trace: &Trace, bounds: Bounds) -> Vec<Violation> {
    let mut suite = Suite::new(bounds);
    let mut broken: Vec<_> = trace.events.iter().flat_map(|event| suite.see(event)).collect();
    broken.extend(suite.end());
    broken
}
