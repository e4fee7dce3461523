//! RS: a reader that outlives its daemons is told each message of its groups once, in the order. It goes on elsewhere only
//! where that daemon's history has what it has read, and nothing beside. What it is not told is named from its place on, and
//! is kept no more; histories are said to part only where they do. What is read was kept no longer than it may be.
use super::{Checker, PromiseRule, Verdict};
use crate::message::ProcessIncarnation;
use crate::trace::{NumberedRecord, NumberedStep, Occurrence, ResumedRecord, ResumedStep, TraceEvent};
use account::{Account, Segment};
use consort_types::{Duration, Instant};
use known::Known;
use std::collections::{BTreeMap, BTreeSet};

mod account;
mod known;

/// Later than this before the end, an answer or a message may still be on its way: a view that may come is waited for.
const PATIENCE: Duration = Duration::from_millis(2_500);
/// Hosts may be paused so long before they let go of what is too old, and clocks err.
const LATE: Duration = Duration::from_millis(2_500);
/// What is too old is let go of no more often.
const SWEEP_LEAST: Duration = Duration::from_secs(1);

/// So long before a moment.
fn before(at: Instant, long: Duration) -> Instant {
    Instant(at.0.saturating_sub(u64::try_from(long.as_nanos()).unwrap_or(u64::MAX)))
}

/// How much each daemon keeps for readers, and for how long.
pub type Retained = (u64, Duration);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReaderResumption {
    retained: Option<Retained>,
    known: Known,
    live: BTreeSet<ProcessIncarnation>,
    readers: BTreeMap<u16, Account>,
    now: Instant,
}

impl ReaderResumption {
    pub(super) fn new(retained: Option<Retained>) -> Self {
        Self { retained, ..Self::default() }
    }
}

impl Checker for ReaderResumption {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "RS", name: "readers resume" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let incarnation = event.process.incarnation();
        match &event.what {
            Occurrence::Start { .. } => drop(self.live.insert(incarnation)),
            Occurrence::Crash | Occurrence::Left if self.live.remove(&incarnation) => {
                self.readers.values_mut().for_each(|account| account.lose(incarnation));
            }
            Occurrence::View(view) | Occurrence::Network(view) if event.process.client == 0 => {
                self.known.view(incarnation, view, event.at);
            }
            Occurrence::Numbered(NumberedRecord { step: NumberedStep::Table, number, flag, view, .. })
                if *number > 0 =>
            {
                self.known.table(incarnation, *number, *flag && view == number);
            }
            Occurrence::Resumed(step) => return self.on_step(event, step),
            Occurrence::Quiet => {
                self.now = event.at;
                return self.in_the_end();
            }
            _ => {}
        }
        Ok(())
    }
}

impl ReaderResumption {
    fn on_step(&mut self, event: &TraceEvent, step: &ResumedRecord) -> Verdict {
        if step.step == ResumedStep::Given {
            return self.known.given(event.process.incarnation(), event.at, step);
        }
        let account = self.readers.entry(step.reader).or_default();
        match step.step {
            ResumedStep::Given => Ok(()),
            ResumedStep::Fresh => {
                account.begin_anew();
                Ok(())
            }
            ResumedStep::Away => {
                account.leave();
                Ok(())
            }
            ResumedStep::Asked => account.on_asked(event.process.incarnation(), event.at, step),
            ResumedStep::Began => account.on_began(event.process.incarnation(), event.at, step.at),
            ResumedStep::InView => account.on_view(step.view, step.flag),
            ResumedStep::Message => {
                account.on_message(step)?;
                self.is_young(event, step)
            }
            ResumedStep::CaughtUp => account.on_caught_up(step.at),
            ResumedStep::Gap => {
                account.on_gap(step)?;
                self.is_needed(event, step)
            }
            ResumedStep::Parted => account.on_parted(event.process.incarnation(), event.at, step),
        }
    }

    /// What is told right now is kept for no longer than it may be.
    fn is_young(&self, event: &TraceEvent, step: &ResumedRecord) -> Verdict {
        //= E25 test
        let Some((_, keep)) = self.retained.filter(|_| step.flag) else { return Ok(()) };
        let given = self.known.when(event.process.incarnation(), step.view, step.at);
        let most = keep + (keep / 3).max(SWEEP_LEAST) + LATE;
        match given.map(|given| event.at.since(given)) {
            Some(age) if age > most => Err(format!("is told what is {age:?} old, where {keep:?} is kept")),
            _ => Ok(()),
        }
    }

    /// Nothing is called missing that its daemon must still keep: it knew before that came that the groups are read, and it
    /// is neither too old nor too much.
    fn is_needed(&self, event: &TraceEvent, step: &ResumedRecord) -> Verdict {
        //= E26 test
        let (Some((bytes, keep)), incarnation) = (self.retained, event.process.incarnation()) else { return Ok(()) };
        let Some(groups) = self.readers.get(&step.reader).map(|account| account.groups) else { return Ok(()) };
        let wanted = self.readers.values().filter(|account| account.groups & groups == groups);
        let Some(since) = wanted.filter_map(|account| self.knows(incarnation, account)).min() else { return Ok(()) };
        let young = before(event.at, keep * 4 / 5);
        let from = since.max(young);
        match self.known.kept_for_sure(
            incarnation,
            from,
            bytes / 2,
            groups,
            ((step.view, step.at), (step.to_view, step.to)),
        ) {
            Some(at) => Err(format!("is told that {at} is missing, which its daemon must still keep")),
            None => Ok(()),
        }
    }

    /// Since when a daemon certainly knows that a reader reads its groups: there, or for long at a member of its view.
    fn knows(&self, incarnation: ProcessIncarnation, account: &Account) -> Option<Instant> {
        //= E27 test
        let segment = account.segment.as_ref()?;
        if segment.incarnation == incarnation {
            return Some(segment.begun);
        }
        let (view, since) = self.known.present(incarnation)?;
        let (theirs, _) = self.known.present(segment.incarnation)?;
        (view == theirs).then(|| segment.begun.max(since) + LATE)
    }

    fn in_the_end(&self) -> Verdict {
        for (reader, account) in &self.readers {
            self.judge(account).map_err(|how| format!("reader {reader} {how}"))?;
        }
        Ok(())
    }

    fn judge(&self, account: &Account) -> Verdict {
        let segments = || account.over.iter().chain(&account.segment);
        segments().try_for_each(|segment| self.known.has_all(segment))?;
        segments().try_for_each(|segment| self.known.misses_are_told(segment))?;
        account.resumes.iter().try_for_each(|resume| self.known.is_continued(resume, &account.archive))?;
        account.partings.iter().try_for_each(|parting| self.known.have_parted(parting))?;
        self.is_up_to_date(account)
    }

    /// When a daemon came to the view that it is in; now, if it is in none.
    fn settles(&self, incarnation: ProcessIncarnation) -> Instant {
        self.known.present(incarnation).map_or(self.now, |(_, since)| since)
    }

    /// All that its daemon has told members is told to it, too.
    fn is_up_to_date(&self, account: &Account) -> Verdict {
        let long_ago = before(self.now, PATIENCE);
        match (&account.asked, &account.segment) {
            // That a group is read stands in the order first, which may stand still until a view comes.
            (Some(asked), _)
                if self.live.contains(&asked.incarnation)
                    && self.settles(asked.incarnation).max(asked.at) < long_ago =>
            {
                Err(format!("has asked {} at {} ms, and is not answered", asked.incarnation, asked.at))
            }
            (None, Some(segment)) if self.live.contains(&segment.incarnation) => self.has_read_on(segment, long_ago),
            _ => Ok(()),
        }
    }

    fn has_read_on(&self, segment: &Segment, long_ago: Instant) -> Verdict {
        match self.known.behind(segment, long_ago) {
            Some(at) => Err(format!("was not told what stands at {at}, and its daemon {} lives", segment.incarnation)),
            None => Ok(()),
        }
    }
}
