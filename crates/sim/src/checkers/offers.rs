//! OF: offers are closed. Each is made once, and closed by one revoke or one confirm; what is confirmed is what was offered.
//! Where a process's offers are strict, a message gets its place only when nothing is on offer that was offered before it.
//! Nothing is on offer when a view is installed, nor in the end.
use super::{Checker, PromiseRule, Verdict};
use crate::message::{Process, ProcessIncarnation};
use crate::trace::{Occurrence, OfferRecord, PerProcess, TraceEvent};
use std::collections::BTreeSet;

/// What one process has on offer.
#[derive(Clone, Debug, Default)]
struct Offers {
    /// In the order in which they were offered.
    open: Vec<OfferRecord>,
    confirmed: BTreeSet<u64>,
    /// It was told where it stands.
    stands: bool,
    /// The next delivery is that of a confirm.
    confirming: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct OffersClosed {
    of: PerProcess<Offers>,
    /// Nothing more comes from these.
    over: BTreeSet<ProcessIncarnation>,
}

impl Checker for OffersClosed {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "OF", name: "offers are closed" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let offers = match &event.what {
            Occurrence::Crash | Occurrence::Left => {
                self.over.insert(event.process.incarnation());
                return Ok(());
            }
            Occurrence::Gone => {
                *self.of.of(event.process) = Offers::default();
                return Ok(());
            }
            Occurrence::Quiet => return self.nothing_is_open(),
            Occurrence::Offer(_) | Occurrence::Revoke(_) | Occurrence::Confirm { .. } | Occurrence::Deliver(_) => {
                self.of.of(event.process)
            }
            Occurrence::View(_) | Occurrence::Network(_) => self.of.of(event.process),
            _ => return Ok(()),
        };
        match &event.what {
            Occurrence::Offer(offered) => offers.offer(*offered),
            Occurrence::Revoke(offer) => offers.close(*offer).map(drop),
            Occurrence::Confirm { offer, sum } => offers.confirm(*offer, *sum),
            Occurrence::View(view) => offers.on_view(view.transitional),
            Occurrence::Network(view) if !view.transitional => offers.end_of_view(),
            Occurrence::Deliver(_) => offers.deliver(),
            _ => Ok(()),
        }
    }
}

impl OffersClosed {
    fn nothing_is_open(&self) -> Verdict {
        let live = |process: &Process| !self.over.contains(&process.incarnation());
        match self.of.iter().find(|(process, offers)| live(process) && !offers.open.is_empty()) {
            Some((process, offers)) => Err(format!("{} offers are still open at {process}", offers.open.len())),
            None => Ok(()),
        }
    }
}

impl Offers {
    fn offer(&mut self, offered: OfferRecord) -> Verdict {
        let OfferRecord { offer, .. } = offered;
        if self.open.iter().any(|open| open.offer == offer) {
            return Err(format!("{offer} is offered although it is on offer"));
        }
        if self.confirmed.contains(&offer) {
            return Err(format!("{offer} is offered although it was confirmed"));
        }
        self.open.push(offered);
        Ok(())
    }

    fn close(&mut self, offer: u64) -> Result<(usize, OfferRecord), String> {
        let at = self.open.iter().position(|open| open.offer == offer);
        at.map(|at| (at, self.open.remove(at))).ok_or_else(|| format!("{offer} is closed although it is not on offer"))
    }

    fn confirm(&mut self, offer: u64, sum: u64) -> Verdict {
        let (at, offered) = self.close(offer)?;
        self.confirmed.insert(offer);
        self.confirming = true;
        if offered.sum != sum {
            return Err(format!("{offer} is confirmed with other bytes than it was offered with"));
        }
        match self.open[..at].iter().find(|open| open.strict && offered.strict) {
            Some(before) => {
                Err(format!("{offer} is confirmed while {} is on offer, which was offered first", before.offer))
            }
            None => Ok(()),
        }
    }

    fn deliver(&mut self) -> Verdict {
        let confirmed = std::mem::take(&mut self.confirming);
        match self.open.iter().find(|open| open.strict && !confirmed) {
            Some(open) => Err(format!("a message that was not offered is delivered while {} is on offer", open.offer)),
            None => Ok(()),
        }
    }

    /// The first that counts for a process may be told long after it was installed: it says only where the process stands.
    fn on_view(&mut self, transitional: bool) -> Verdict {
        let moves = std::mem::replace(&mut self.stands, true) && !transitional;
        if moves { self.end_of_view() } else { Ok(()) }
    }

    fn end_of_view(&mut self) -> Verdict {
        let left = std::mem::take(&mut self.open);
        match left.first() {
            Some(open) => Err(format!("a view is installed while {} is on offer", open.offer)),
            None => Ok(()),
        }
    }
}
