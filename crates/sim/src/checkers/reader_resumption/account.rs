//! What one reader was told, as it was told it.
use crate::checkers::Verdict;
use crate::message::ProcessIncarnation;
use crate::trace::ResumedRecord;
use consort_session::Place;
use consort_types::{Instant, ViewId};
use std::collections::{BTreeMap, BTreeSet};

/// Shorter messages do not tell which they are.
const NAMED: u64 = 12;

/// A place in the histories of all daemons.
pub(super) type ViewAt = (ViewId, Place);

/// What a reader was told at one place.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadMessage {
    pub sum: u64,
    /// Which of the groups that are read it names.
    pub groups: u8,
}

/// What a reader has read of one view.
#[derive(Clone, Debug)]
pub(super) struct ReadView {
    pub view: ViewId,
    /// From here on it has all that it was to have.
    pub from: Place,
    /// What stood where.
    pub read: BTreeMap<Place, ReadMessage>,
}

/// What a reader was told by one daemon, without a break.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub incarnation: ProcessIncarnation,
    pub groups: u8,
    pub begun: Instant,
    /// Where it begins, once that is known: in which view.
    pub start: Option<ViewAt>,
    /// Behind what it was told last.
    pub end: ViewAt,
    /// What it was told, and which groups that names.
    pub read: BTreeMap<ViewAt, u8>,
    /// The views of which it was told how they are being closed.
    pub closing: BTreeSet<ViewId>,
    pub gaps: Vec<(ViewAt, ViewAt)>,
}

/// A place that was asked for.
#[derive(Clone, Debug)]
pub(super) struct AskedPlace {
    pub incarnation: ProcessIncarnation,
    pub at: Instant,
    /// The place, and the line of the former daemon if it was closing the view; none of one that begins anew.
    pub place: Option<(ViewAt, Option<u64>)>,
}

/// A reader went on at a daemon where it had been at another.
#[derive(Clone, Debug)]
pub(super) struct Resumption {
    pub incarnation: ProcessIncarnation,
    pub groups: u8,
    /// Where.
    pub at: ViewAt,
    /// What it had of that view, among all that it read, and from where on in it.
    pub had: usize,
    pub from: Place,
}

/// A reader was told that histories part.
#[derive(Clone, Debug)]
pub(super) struct Parting {
    pub incarnation: ProcessIncarnation,
    pub when: Instant,
    /// By whom it was told what it had read last.
    pub former: Option<ProcessIncarnation>,
    /// Where it was, and the line of the former daemon if that was closing the view.
    pub place: ViewAt,
    pub line: Option<u64>,
}

/// One reader.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub groups: u8,
    pub asked: Option<AskedPlace>,
    pub segment: Option<Segment>,
    pub over: Vec<Segment>,
    pub resumes: Vec<Resumption>,
    pub partings: Vec<Parting>,
    /// The views it has ever read. Of those that it has gone on from, nothing before that is changed any more.
    pub archive: Vec<ReadView>,
    /// Which of them it is to have read now, the last one last.
    views: Vec<usize>,
    /// What it has read that can be told from all else.
    sums: BTreeSet<u64>,
    /// Where it is in that view.
    next: Place,
    former: Option<ProcessIncarnation>,
}

impl Account {
    /// It has left its daemon, or ends its reading there.
    pub fn leave(&mut self) {
        self.asked = None;
        if let Some(segment) = self.segment.take() {
            self.former = Some(segment.incarnation);
            self.over.push(segment);
        }
    }

    pub fn lose(&mut self, incarnation: ProcessIncarnation) {
        let there = self.segment.as_ref().is_some_and(|segment| segment.incarnation == incarnation);
        if there || self.asked.as_ref().is_some_and(|asked| asked.incarnation == incarnation) {
            self.leave();
        }
    }

    pub fn begin_anew(&mut self) {
        self.leave();
        (self.former, self.next) = (None, Place::default());
        self.views.clear();
        self.sums.clear();
    }

    pub fn on_asked(&mut self, incarnation: ProcessIncarnation, at: Instant, step: &ResumedRecord) -> Verdict {
        self.leave();
        self.groups = step.groups;
        let is_known = step.flag || step.at != Place::default();
        let line = Some(step.to.position).filter(|line| *line != u64::MAX);
        let place = is_known.then_some(((step.view, step.at), line));
        if place.is_none() {
            self.begin_anew();
        }
        self.asked = Some(AskedPlace { incarnation, at, place });
        Ok(())
    }

    pub fn on_began(&mut self, incarnation: ProcessIncarnation, begun: Instant, at: Place) -> Verdict {
        let Some(asked) = self.asked.take() else {
            return Err("is told that a reading begins, and asked for none".into());
        };
        let view = asked.place.map_or(ViewId::default(), |((view, _), _)| view);
        if let Some(((_, place), _)) = asked.place.filter(|((_, place), _)| *place != at) {
            return Err(format!("is to read from {at} on, and has asked for {place}"));
        }
        if asked.place.is_some() {
            self.resume(incarnation, (view, at))?;
        }
        self.next = at;
        let start = (asked.place.is_some()).then_some((view, at));
        let (read, closing, gaps) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        self.segment =
            Some(Segment { incarnation, groups: self.groups, begun, start, end: (view, at), read, closing, gaps });
        Ok(())
    }

    /// What it had of the view is compared in the end with what that daemon had.
    fn resume(&mut self, incarnation: ProcessIncarnation, at: ViewAt) -> Verdict {
        let had = self.views.last().copied().filter(|had| self.archive[*had].view == at.0);
        let Some(had) = had else { return Err(format!("goes on in view {}, which it has not read", at.0)) };
        self.resumes.push(Resumption { incarnation, groups: self.groups, at, had, from: self.archive[had].from });
        Ok(())
    }

    fn last(&mut self) -> Option<&mut ReadView> {
        self.archive.get_mut(*self.views.last()?)
    }

    /// It reads a view from this place on.
    fn push(&mut self, view: ViewId, from: Place, read: BTreeMap<Place, ReadMessage>) {
        self.views.push(self.archive.len());
        self.archive.push(ReadView { view, from, read });
    }

    fn open(&mut self) -> Result<&mut Segment, String> {
        self.segment.as_mut().ok_or_else(|| "is told of a reading that it does not have".into())
    }

    pub fn on_view(&mut self, view: ViewId, closing: bool) -> Verdict {
        //= E24 test
        let next = self.next;
        let segment = self.open()?;
        if closing {
            segment.closing.insert(view);
        }
        let is_new = segment.end.0 != view;
        let begins = segment.start.is_none();
        if begins {
            segment.start = Some((view, next));
        }
        if is_new && !begins {
            segment.end = (view, Place::default());
        } else {
            segment.end.0 = view;
        }
        let from = segment.end.1;
        if self.last().is_some_and(|last| last.view.number > view.number) {
            return Err(format!("is told that it is in view {view}, which is over for it"));
        }
        if self.last().is_none_or(|last| last.view != view) {
            self.push(view, from, BTreeMap::new());
            self.next = from;
        }
        Ok(())
    }

    pub fn on_message(&mut self, step: &ResumedRecord) -> Verdict {
        let ResumedRecord { view, at, to, sum, len, groups, .. } = *step;
        let (next, wanted) = (self.next, self.groups);
        if groups & wanted == 0 {
            return Err(format!("is told {at} of view {view}, which is for other groups"));
        }
        if at < next {
            return Err(format!("is told {at} of view {view} once more, or late: it has read up to {next}"));
        }
        let segment = self.open()?;
        if segment.start.is_none() {
            segment.start = Some((view, next));
        }
        if segment.end.0 != view {
            return Err(format!("is told {at} of view {view}, and not that it is in that view"));
        }
        segment.end = (view, to);
        segment.read.insert((view, at), groups);
        self.next = to;
        if len >= NAMED && !self.sums.insert(sum) {
            return Err(format!("is told once more, at {at} of view {view}, what it has read"));
        }
        if self.last().is_none_or(|last| last.view != view) {
            self.push(view, next, BTreeMap::new());
        }
        if let Some(last) = self.last() {
            last.read.insert(at, ReadMessage { sum, groups });
        }
        Ok(())
    }

    pub fn on_caught_up(&mut self, end: Place) -> Verdict {
        let next = self.next.max(end);
        let segment = self.open()?;
        segment.end.1 = next;
        self.next = next;
        Ok(())
    }

    pub fn on_gap(&mut self, step: &ResumedRecord) -> Verdict {
        //= E26 test
        let (from, to) = ((step.view, step.at), (step.to_view, step.to));
        let here = self.next;
        let segment = self.open()?;
        // Its daemon may have looked at more, which was for others.
        let is_behind = if segment.end.0 == from.0 { from.1 < here } else { from.0.number < segment.end.0.number };
        if is_behind {
            return Err(format!(
                "is told of a gap from {} of view {}, and is at {here} of {}",
                from.1, from.0, segment.end.0
            ));
        }
        if to.0.number < from.0.number || to.0 == from.0 && to.1 <= from.1 {
            return Err(format!("is told of a gap from {} of view {} to {} of {}", from.1, from.0, to.1, to.0));
        }
        segment.start.get_or_insert(from);
        segment.gaps.push((from, to));
        segment.end = to;
        if step.flag {
            segment.closing.insert(to.0);
        }
        self.next = to.1;
        match self.last().filter(|last| last.view == to.0) {
            Some(last) => last.from = to.1,
            None => self.push(to.0, to.1, BTreeMap::new()),
        }
        Ok(())
    }

    pub fn on_parted(&mut self, incarnation: ProcessIncarnation, when: Instant, step: &ResumedRecord) -> Verdict {
        let Some(asked) = self.asked.take() else {
            return Err("is told that histories part, and has asked for nothing".into());
        };
        let Some((place, line)) = asked.place else {
            return Err("begins anew, and is told that histories part".into());
        };
        self.partings.push(Parting { incarnation, when, former: self.former, place, line });
        if step.flag {
            return self.go_back((step.to_view, step.to));
        }
        self.begin_anew();
        Ok(())
    }

    /// What it read behind this place says nothing any more.
    fn go_back(&mut self, (view, at): ViewAt) -> Verdict {
        let Some(common) = self.views.iter().position(|read| self.archive[*read].view == view) else {
            return Err(format!("is told of a view in common that it has not read, {view}"));
        };
        let gone: Vec<_> = self.views.drain(common..).collect();
        let lost = gone.iter().skip(1).flat_map(|read| self.archive[*read].read.values());
        let mut lost: BTreeSet<_> = lost.map(|read| read.sum).collect();
        if let Some(last) = gone.first().map(|read| self.archive[*read].clone()) {
            let mut read = last.read;
            lost.extend(read.split_off(&at).values().map(|read| read.sum));
            self.push(view, last.from, read);
        }
        self.sums.retain(|sum| !lost.contains(sum));
        Ok(())
    }
}
