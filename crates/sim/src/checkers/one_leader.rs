//! OL: never two candidates of a group lead at one time, each by its own lease, whatever their clocks show. A lease ends in
//! time, counted from when what it rests on was sent, and rests on nothing that was sent before its connection was lost: so
//! who is cut off stops in time. Each election has a greater fence than all before, unless since then too few remembered
//! which views counted, and disks forget.
use super::history::History;
use super::{Checker, PromiseRule, PromisedOrder, Verdict};
use crate::trace::{LedRecord, LedStep, Occurrence, TraceEvent};
use consort_types::{Duration, Instant};
use std::collections::BTreeMap;

/// A candidate, as it was seen.
#[derive(Debug, Default)]
struct Candidate {
    /// Its fence and when its lease ends or has ended.
    lease: Option<(u128, Instant)>,
    /// When it sent each of its messages.
    sent: BTreeMap<u64, Instant>,
    /// When it lost its connection last.
    hole: Option<Instant>,
}

/// See the module. Whether disks forget is said before the run.
#[derive(Debug)]
pub(super) struct OneLeader {
    disks_last: bool,
    history: History,
    candidates: BTreeMap<u16, Candidate>,
    /// The greatest fence, and how often memory had lapsed when one was elected under it.
    last: (u128, u64),
}

impl Checker for OneLeader {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "OL", name: "one leader" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        self.history.see(event);
        let Occurrence::Led(step) = &event.what else { return Ok(()) };
        let candidate = self.candidates.entry(step.candidate).or_default();
        match step.step {
            LedStep::Sent => drop(candidate.sent.insert(step.serial, event.at)),
            LedStep::Hole => candidate.hole = Some(event.at),
            LedStep::Stops => {
                if let Some((_, until)) = &mut candidate.lease {
                    *until = event.at.min(*until);
                }
            }
            LedStep::Acts => return acts(candidate, event.at),
            LedStep::Leads => return self.on_leads(event.at, step),
        }
        Ok(())
    }
}

fn acts(candidate: &Candidate, now: Instant) -> Verdict {
    match candidate.lease {
        Some((_, until)) if now <= until => Ok(()),
        lease => Err(format!("acts as leader, with the lease {lease:?}")),
    }
}

impl OneLeader {
    pub(super) fn new(nodes: u16, promised: PromisedOrder, disks_last: bool) -> Self {
        let (candidates, last) = (BTreeMap::new(), (0, 0));
        let disks_last = disks_last || promised.quorum;
        Self { disks_last, history: History::new(nodes, promised), candidates, last }
    }

    /// Whether views may have been numbered anew since then.
    const fn is_forgotten(&self, since: u64) -> bool {
        !self.disks_last && self.history.lapses() > since
    }

    fn on_leads(&mut self, now: Instant, step: &LedRecord) -> Verdict {
        let LedRecord { candidate: me, fence, until, .. } = *step;
        //= L01 test
        let other = |(at, candidate): (&u16, &Candidate)| {
            candidate.lease.filter(|(_, until)| *at != me && *until > now).map(|(fence, until)| (*at, fence, until))
        };
        if let Some((at, known, ends)) = self.candidates.iter().find_map(other) {
            return Err(format!("{me} leads under {fence} while {at} leads under {known} until {ends} ms"));
        }
        let (last, since) = self.last;
        let is_forgotten = self.is_forgotten(since);
        let candidate = self.candidates.entry(me).or_default();
        let renews = candidate.lease.is_some_and(|(known, until)| known == fence && now <= until);
        //= L09 test
        if !renews && fence <= last && !is_forgotten {
            return Err(format!("{me} is elected under {fence}, and {last} was before"));
        }
        rests_on(candidate, step)?;
        candidate.lease = Some((fence, until));
        if !renews {
            self.last = (fence, self.history.lapses());
        }
        Ok(())
    }
}

/// A lease is counted from when what it rests on was sent, behind the last loss of the connection.
fn rests_on(candidate: &Candidate, step: &LedRecord) -> Verdict {
    let LedRecord { candidate: me, serial, until, lease, .. } = *step;
    let Some(sent) = candidate.sent.get(&serial) else {
        return Err(format!("{me} leads by {serial}, which it has not sent"));
    };
    //= L08 test
    if candidate.hole.is_some_and(|hole| *sent < hole) {
        return Err(format!("{me} leads by {serial}, which it sent before it lost its connection"));
    }
    if until > *sent + Duration::from_nanos(lease) {
        return Err(format!("{me} leads until {until} ms by what it sent at {sent} ms: that is longer than a lease"));
    }
    Ok(())
}
