//! CA: causal order. What a process had delivered in a view before it submitted a message comes before that message at
//! every process that delivers it in that view. (What it had *sent* before is the matter of FIFO.)
use super::{Checker, Rule, Verdict};
use crate::message::{Mark, Process};
use crate::trace::{Event, PerMessage, PerProcess, What};
use consort_types::ViewId;
use std::rc::Rc;

/// Which message of each origin a process delivered last in its present view. Shared by all messages submitted between
/// two deliveries.
#[derive(Clone, Debug, Default)]
struct Past {
    view: Option<ViewId>,
    /// It missed the beginning of the view.
    partial: bool,
    latest: Rc<PerProcess<u64>>,
}

/// Because the order of each sender holds, one number per origin says all of what was delivered from it.
#[derive(Debug, Default)]
pub(super) struct Causal {
    pasts: PerProcess<Past>,
    known_by: PerMessage<Past>,
}

impl Checker for Causal {
    fn rule(&self) -> Rule {
        Rule { id: "CA", name: "causal order" }
    }

    fn see(&mut self, event: &Event) -> Verdict {
        match &event.what {
            What::View(view) => {
                let view = Some(view.id);
                let past = self.pasts.of(event.process);
                if past.view != view {
                    let partial = past.view.is_none() && past.partial;
                    *past = Past { view, partial, latest: Rc::default() };
                }
            }
            What::Start { late } => self.pasts.of(event.process).partial = *late,
            What::Submit(submitted) => self.on_submit(Mark { origin: event.process, count: submitted.count }),
            What::Deliver(delivered) => {
                return delivered.mark.map_or(Ok(()), |mark| self.on_deliver(event.process, mark));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Causal {
    fn on_submit(&mut self, mark: Mark) {
        let knows = self.pasts.of(mark.origin).clone();
        *self.known_by.of(mark) = knows;
    }

    fn on_deliver(&mut self, process: Process, mark: Mark) -> Verdict {
        let here = self.pasts.of(process);
        let known = self.known_by.of(mark);
        let is_bound = known.view.is_some() && known.view == here.view && !here.partial;
        if is_bound && !Rc::ptr_eq(&known.latest, &here.latest) {
            for (origin, count) in known.latest.iter() {
                let got = here.latest.get(origin).copied().unwrap_or(0);
                if got < *count {
                    let earlier = Mark { origin, count: *count };
                    return Err(format!("{mark} although its sender had delivered {earlier} before it"));
                }
            }
        }
        let latest = Rc::make_mut(&mut here.latest).of(mark.origin);
        *latest = mark.count.max(*latest);
        Ok(())
    }
}
