//! What members were given at each daemon: the truth about its history, as far as a member was there.
use super::account::{Parting, ReadView, Resumption, Segment, ViewAt};
use crate::checkers::Verdict;
use crate::message::ProcessIncarnation;
use crate::trace::{InstallRecord, ResumedRecord};
use consort_session::Place;
use consort_types::{Instant, ViewId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a message costs its daemon beside its payload, at most: its names, and what keeping it takes.
const EACH: u64 = 512;

/// A place in one daemon's history: which of its views, and where in it.
type Local = (usize, Place);

#[derive(Clone, Copy, Debug)]
struct GivenMessage {
    when: Instant,
    sum: u64,
    len: u64,
    groups: u8,
    /// It came while its view was closing.
    closing: bool,
}

/// One incarnation of a daemon.
#[derive(Debug, Default)]
struct IncarnationHistory {
    views: Vec<(ViewId, Instant)>,
    /// Who closes each of them together.
    together: BTreeMap<usize, Vec<ProcessIncarnation>>,
    closing: bool,
    given: BTreeMap<Local, GivenMessage>,
    /// In which of its views it came to have the table of which view.
    tables: BTreeMap<usize, u64>,
    /// Those of its views that counted.
    counted: BTreeSet<usize>,
}

/// A place as people read it.
pub(super) struct Shown(ViewAt);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of view {}", self.0.1, self.0.0)
    }
}

/// Of all incarnations.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<ProcessIncarnation, IncarnationHistory>);

impl IncarnationHistory {
    fn number(&self, view: ViewId) -> Option<usize> {
        // Where positions last, no view is named.
        if view == ViewId::default() { Some(0) } else { self.views.iter().rposition(|(known, _)| *known == view) }
    }

    fn local(&self, (view, at): ViewAt) -> Option<Local> {
        Some((self.number(view)?, at))
    }

    fn shown(&self, (number, at): Local) -> Shown {
        let view = self.views.get(number).map_or(ViewId::default(), |(view, _)| *view);
        Shown((view, at))
    }

    /// From where on the member was surely given all that names these groups: it was in one of them. It joins one group after
    /// the other, and others may speak meanwhile.
    fn given_from(&self, groups: u8) -> Option<Local> {
        let mut given = self.given.iter();
        given.find(|(_, given)| given.groups & !groups == 0).map(|(at, _)| *at)
    }

    /// Whether the member was not given what stands there and names these groups, and should have been.
    fn lacks(&self, at: Local, groups: u8) -> bool {
        !self.given.contains_key(&at) && self.given_from(groups).is_some_and(|first| first <= at)
    }

    /// Whether a view ended before its exchange was complete: nothing was given in it, and no other table taken.
    fn ended_early(&self, number: usize) -> bool {
        let mut given = self.given.range((number, Place::default())..(number + 1, Place::default()));
        let took = self.tables.get(&number).is_some_and(|of| *of > self.latest_table(number));
        number + 1 < self.views.len() && given.next().is_none() && !took
    }

    /// The latest table that it had before a view.
    fn latest_table(&self, number: usize) -> u64 {
        self.tables.range(..number).map(|(_, of)| *of).max().unwrap_or(0)
    }

    /// Where the regular part of a view is known to reach at least.
    fn line_at_least(&self, number: usize) -> u64 {
        let mut there = self.given.range((number, Place::default())..(number + 1, Place::default()));
        let last = there.rfind(|(_, given)| !given.closing);
        last.map_or(0, |((_, at), _)| at.position + 1)
    }
}

impl Known {
    pub fn view(&mut self, incarnation: ProcessIncarnation, view: &InstallRecord, when: Instant) {
        let history = self.0.entry(incarnation).or_default();
        history.closing = view.transitional;
        if view.transitional {
            if let Some(number) = history.number(view.id) {
                history.together.insert(number, view.members.clone());
            }
        } else if history.views.last().is_none_or(|(last, _)| *last != view.id) {
            history.views.push((view.id, when));
        }
    }

    pub fn given(&mut self, incarnation: ProcessIncarnation, when: Instant, step: &ResumedRecord) -> Verdict {
        let history = self.0.entry(incarnation).or_default();
        let Some(local) = history.local((step.view, step.at)) else {
            return Err(format!("is given {} of view {}, which it is not in", step.at, step.view));
        };
        let closing = history.closing;
        let given = GivenMessage { when, sum: step.sum, len: step.len, groups: step.groups, closing };
        history.given.insert(local, given);
        Ok(())
    }

    /// A daemon has the table of a view; of the one that it is in where that counts.
    pub fn table(&mut self, incarnation: ProcessIncarnation, of: u64, counts: bool) {
        let history = self.0.entry(incarnation).or_default();
        let Some(number) = history.views.len().checked_sub(1) else { return };
        history.tables.insert(number, of);
        if counts && history.views.last().is_some_and(|(view, _)| view.number == of) {
            history.counted.insert(number);
        }
    }

    /// The view that a daemon is in, and since when.
    pub fn present(&self, incarnation: ProcessIncarnation) -> Option<(ViewId, Instant)> {
        self.0.get(&incarnation)?.views.last().copied()
    }

    /// When a daemon's member was given what stands there.
    pub fn when(&self, incarnation: ProcessIncarnation, view: ViewId, at: Place) -> Option<Instant> {
        let history = self.0.get(&incarnation)?;
        history.given.get(&history.local((view, at))?).map(|given| given.when)
    }

    /// What was told within a gap that a daemon must still keep: it came after this time, and not too much came since.
    pub fn kept_for_sure(
        &self,
        incarnation: ProcessIncarnation,
        from: Instant,
        mut bytes: u64,
        groups: u8,
        (first, end): (ViewAt, ViewAt),
    ) -> Option<Shown> {
        let history = self.0.get(&incarnation)?;
        let (first, end) = (history.local(first)?, history.local(end)?);
        let mut found: Option<Local> = None;
        for (at, given) in history.given.iter().rev() {
            // What was ordered as one is let go of as one.
            let is_other = found.is_some_and(|found| (found.0, found.1.position) != (at.0, at.1.position));
            if is_other || given.when <= from {
                break;
            }
            bytes = bytes.checked_sub(given.len + EACH)?;
            if (first..end).contains(at) && given.groups & groups != 0 {
                found = Some(*at);
            }
        }
        found.map(|at| history.shown(at))
    }

    /// Whether a reader was told all that its daemon had between the beginning and the end of its reading there, and
    /// nothing else.
    pub fn has_all(&self, segment: &Segment) -> Verdict {
        let Some((history, start)) = self.0.get(&segment.incarnation).zip(segment.start) else { return Ok(()) };
        let (Some(start), Some(end)) = (history.local(start), history.local(segment.end)) else {
            return Err(format!("was in a view that {} never was in: {}", segment.incarnation, Shown(segment.end)));
        };
        let gaps: Vec<_> = segment.gaps.iter().map(|(from, to)| (history.local(*from), history.local(*to))).collect();
        let read: BTreeMap<_, _> =
            segment.read.iter().filter_map(|(at, groups)| Some((history.local(*at)?, *groups))).collect();
        let is_told =
            |at: &Local| read.contains_key(at) || gaps.iter().any(|(from, to)| *from <= Some(*at) && Some(*at) < *to);
        let mut known =
            history.given.range(start..end.max(start)).filter(|(_, given)| given.groups & segment.groups != 0);
        if let Some((at, _)) = known.find(|(at, _)| !is_told(at)) {
            return Err(format!(
                "was not told what stands at {}, and read on at {}",
                history.shown(*at),
                segment.incarnation
            ));
        }
        //= E24 test
        let is_untold = |at: &&ViewAt| {
            let given = history.local(**at).and_then(|at| history.given.get(&at));
            given.is_some_and(|given| given.closing) && !segment.closing.contains(&at.0)
        };
        if let Some(at) = segment.read.keys().find(is_untold) {
            return Err(format!("was told {}, and not how that view is being closed", Shown(*at)));
        }
        match read.iter().find(|(at, groups)| history.lacks(**at, **groups)) {
            Some((at, _)) => {
                Err(format!("was told by {} what it has not at {}", segment.incarnation, history.shown(*at)))
            }
            None => Ok(()),
        }
    }

    /// Whether a reader was told of a gap before each view into which its daemon came from a history that did not count,
    /// while others came from one that did, with messages for it.
    pub fn misses_are_told(&self, segment: &Segment) -> Verdict {
        //= E29 test
        let Some((history, start)) = self.0.get(&segment.incarnation).zip(segment.start) else { return Ok(()) };
        let (Some(first), Some(last)) = (history.number(start.0), history.number(segment.end.0)) else { return Ok(()) };
        for number in first + 1..=last {
            let view = history.views[number].0;
            let told = |(from, to): &(ViewAt, ViewAt)| {
                history.number(from.0).is_some_and(|from| from < number)
                    && history.number(to.0).is_some_and(|to| number <= to)
            };
            if segment.gaps.iter().any(told) || history.ended_early(number) {
                continue;
            }
            if let Some((other, missed)) = self.missed(history, number, segment.groups) {
                return Err(format!(
                    "was told of no gap before view {view}, and {other} came into that from {missed}, which counted"
                ));
            }
        }
        Ok(())
    }

    /// A view that counts, with messages for these groups, in which another was before it came into this view, and which is
    /// later than all that counted here. The other may have been in further ones between them that did not count.
    fn missed(&self, history: &IncarnationHistory, number: usize, groups: u8) -> Option<(ProcessIncarnation, ViewId)> {
        let (view, latest) = (history.views[number].0, history.latest_table(number));
        self.0.iter().find_map(|(other, theirs)| {
            let before = theirs.number(view)?.checked_sub(1)?;
            let is_missed = |at: &&usize| {
                let missed = theirs.views[**at].0;
                let mut given = theirs.given.range((**at, Place::default())..(**at + 1, Place::default()));
                missed.number > latest
                    && history.number(missed).is_none()
                    && given.any(|(_, given)| !given.closing && given.groups & groups != 0)
            };
            let at = theirs.counted.range(..=before).rev().find(is_missed)?;
            Some((*other, theirs.views[*at].0))
        })
    }

    /// Whether a daemon had what a reader had that went on there, and nothing beside.
    pub fn is_continued(&self, resume: &Resumption, archive: &[ReadView]) -> Verdict {
        //= E21 test
        //= E22 test
        let Resumption { incarnation, groups, at: (view, end), had, from } = resume;
        let Some((history, had)) = self.0.get(incarnation).zip(archive.get(*had)) else { return Ok(()) };
        let Some(number) = history.number(*view) else {
            return Err(format!("went on at {incarnation} in view {view}, which that never was in"));
        };
        let place = |at: Place| (number, at);
        let range = place(*from.min(end))..place(*end);
        let mut known = history.given.range(range).filter(|(_, given)| given.groups & groups != 0);
        if let Some((at, _)) = known.find(|((_, at), given)| had.read.get(at).is_none_or(|read| read.sum != given.sum))
        {
            return Err(format!(
                "went on at {incarnation}, and was never told what that has at {}",
                history.shown(*at)
            ));
        }
        let mut read = had.read.range(..*end).map(|(at, read)| (place(*at), read.groups));
        match read.find(|(at, groups)| history.lacks(*at, *groups)) {
            Some((at, _)) => {
                Err(format!("went on at {incarnation}, which does not have what it read at {}", history.shown(at)))
            }
            None => Ok(()),
        }
    }

    /// Whether a reader could not have gone on at a daemon that said so.
    pub fn have_parted(&self, parting: &Parting) -> Verdict {
        //= E23 test
        let Parting { incarnation, when, former, place: (view, at), line } = parting;
        let Some(history) = self.0.get(incarnation) else { return Ok(()) };
        let known = history.views.iter().rposition(|(known, since)| known == view && since <= when);
        let Some(number) = known else { return Ok(()) };
        let ours = history.line_at_least(number);
        if at.position <= ours && line.is_none_or(|line| *at <= Place::at(line)) && *at <= Place::at(ours) {
            return Err(format!(
                "was told by {incarnation} that histories part, and was at {}, before both lines",
                Shown((*view, *at))
            ));
        }
        let theirs = former.and_then(|former| self.0.get(&former)).and_then(|theirs| theirs.together(*view));
        match (theirs, history.together(*view)) {
            (Some(theirs), Some(ours)) if theirs == ours && line.is_some() => {
                Err(format!("was told by {incarnation} that histories part in view {view}, which both closed together"))
            }
            _ => Ok(()),
        }
    }

    /// What stands behind what a reader was told, for long.
    pub fn behind(&self, segment: &Segment, long_ago: Instant) -> Option<Shown> {
        let history = self.0.get(&segment.incarnation)?;
        let end = history.local(segment.end)?;
        let owed = |given: &GivenMessage| given.groups & segment.groups != 0 && given.when < long_ago;
        history.given.range(end..).find(|(_, given)| owed(given)).map(|(at, _)| history.shown(*at))
    }
}

impl IncarnationHistory {
    fn together(&self, view: ViewId) -> Option<&Vec<ProcessIncarnation>> {
        self.together.get(&self.number(view)?)
    }
}
