//! Who owes the delivery of which safe message: what "safe is delivered by all" is judged by, in views and in their
//! closing.
use super::Verdict;
use crate::message::{Mark, Process, ProcessIncarnation};
use crate::trace::{PerMessage, PerProcess};
use consort_types::ViewId;
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Clone, Debug)]
struct Promise {
    mark: Mark,
    by: Process,
    to: Rc<Vec<ProcessIncarnation>>,
}

#[derive(Debug, Default)]
struct SafePromise {
    promises: Vec<Promise>,
    /// Those that were in the view and have gone on.
    gone: Vec<Process>,
}

/// All promises of a run.
#[derive(Debug, Default)]
pub(super) struct Promises {
    views: BTreeMap<ViewId, SafePromise>,
    /// To whom each message was promised already.
    promised: PerMessage<Vec<Rc<Vec<ProcessIncarnation>>>>,
    got: PerProcess<PerMessage<bool>>,
}

impl Promises {
    pub fn got(&mut self, process: Process, mark: Mark) {
        *self.got.of(process).of(mark) = true;
    }

    /// A process delivered a message of a view as safe: so do, sooner or later, all these.
    pub fn promise(&mut self, view: ViewId, mark: Mark, by: Process, to: &Rc<Vec<ProcessIncarnation>>) -> Verdict {
        let known = self.promised.of(mark);
        if known.iter().any(|known| known == to) {
            return Ok(());
        }
        known.push(to.clone());
        let promised = self.views.entry(view).or_default();
        let promise = Promise { mark, by, to: to.clone() };
        let broken = promised.gone.iter().find(|process| !keeps(&self.got, **process, &promise));
        let verdict = broken.map_or(Ok(()), |process| Err(say(*process, &promise)));
        promised.promises.push(promise);
        verdict
    }

    /// A process has gone on from a view: what it has not delivered of it by now it never will.
    pub fn goes_on(&mut self, process: Process, from: ViewId) -> Verdict {
        let promised = self.views.entry(from).or_default();
        promised.gone.push(process);
        Self::judge(&self.got, promised, process)
    }

    /// A process is at rest in a view.
    pub fn rests(&self, process: Process, view: ViewId) -> Verdict {
        self.views.get(&view).map_or(Ok(()), |promised| Self::judge(&self.got, promised, process))
    }

    fn judge(got: &PerProcess<PerMessage<bool>>, promised: &SafePromise, process: Process) -> Verdict {
        let broken = promised.promises.iter().find(|promise| !keeps(got, process, promise));
        broken.map_or(Ok(()), |promise| Err(say(process, promise)))
    }
}

fn keeps(got: &PerProcess<PerMessage<bool>>, process: Process, promise: &Promise) -> bool {
    let got = || got.get(process).and_then(|got| got.get(promise.mark)).copied();
    !promise.to.contains(&process.incarnation()) || got() == Some(true)
}

fn say(process: Process, promise: &Promise) -> String {
    format!("{} was delivered as safe by {}, but never by {process}", promise.mark, promise.by)
}
