//! PL: a good-bye is heard at once. When a node has left in good order, whoever is in a view with it soon is in one without
//! it, in a run in which nothing else goes wrong.
use super::process_views::Stands;
use super::{Checker, PromiseRule, Verdict};
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{Occurrence, TraceEvent};
use consort_types::{Duration, Instant};

/// See the module. How soon is said before the run.
#[derive(Debug)]
pub(super) struct Prompt {
    within: Option<Duration>,
    stands: Stands,
    /// Who is still in a view with whom, and until when that may be.
    waiting: Vec<(Process, ProcessIncarnation, Instant)>,
}

impl Prompt {
    pub(super) fn new(within: Option<Duration>) -> Self {
        Self { within, stands: Stands::default(), waiting: Vec::new() }
    }
}

impl Checker for Prompt {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "PL", name: "good-byes are heard at once" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let Some(within) = self.within else { return Ok(()) };
        self.stands.see(event);
        if event.what == Occurrence::Left {
            let left = event.process.incarnation();
            let with = |(process, stand): (Process, &super::process_views::Stand)| {
                let members = &stand.regular.as_ref()?.members;
                (process.incarnation() != left && members.contains(&left)).then_some((process, left, event.at + within))
            };
            self.waiting.extend(self.stands.live().filter_map(with));
        }
        self.waiting.retain(|(process, left, _)| {
            let stand = self.stands.get(*process).filter(|stand| stand.is_live());
            stand.and_then(|stand| stand.regular.as_ref()).is_some_and(|view| view.members.contains(left))
        });
        match self.waiting.iter().find(|(.., until)| *until < event.at) {
            Some((process, left, _)) => {
                let how = format!("{left} left {:?} ago, and {process} is still in a view with it", within);
                self.waiting.clear();
                Err(how)
            }
            None => Ok(()),
        }
    }
}
