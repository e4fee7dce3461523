//! NV: no needless views. A network in which nothing is wrong is one ring soon, and a ring of all stays as long as
//! nothing is wrong that it would have to change for. While nothing changes, whatever is wrong, all settle down after three tries.
//! A view that others installed before that time is not of it: who reads an order late takes its views late, one after another.
use super::process_views::Stands;
use super::{Calmness, Checker, PromiseRule, Verdict};
use crate::message::Process;
use crate::trace::{InstallRecord, Occurrence, PerProcess, TraceEvent};
use consort_types::{Duration, Instant, ViewId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
struct InstalledView {
    whole: bool,
    /// How many views it has installed after one of all.
    after: u32,
    /// The span in which it installed the last view, by its beginning.
    span: Instant,
    /// How often it has begun to change views in that span …
    tries: u32,
    /// … how many it has installed since it last began …
    views: u32,
    /// … and when the last one.
    last: Instant,
}

/// See the module. What to expect of a run is said before it.
#[derive(Debug)]
pub(super) struct NeedlessViews {
    expected: Calmness,
    stands: Stands,
    seen: PerProcess<InstalledView>,
    calm: bool,
    /// When a node ended last. In a time without other changes it does so because it must start anew.
    ended: Instant,
    /// When each view was installed first.
    formed: BTreeMap<ViewId, Instant>,
}

impl NeedlessViews {
    pub(super) fn new(expected: Calmness) -> Self {
        Self {
            expected,
            stands: Stands::default(),
            seen: PerProcess::default(),
            calm: false,
            ended: Instant::ZERO,
            formed: BTreeMap::new(),
        }
    }
}

impl Checker for NeedlessViews {
    fn rule(&self) -> PromiseRule {
        PromiseRule { id: "NV", name: "no needless views" }
    }

    fn see(&mut self, event: &TraceEvent) -> Verdict {
        let change = self.stands.see(event);
        match &event.what {
            Occurrence::Calm => self.calm = true,
            Occurrence::Crash => self.ended = event.at,
            Occurrence::View(view) if change.is_some() => return self.on_view(event.process, event.at, view),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self) -> Verdict {
        let in_time = |process| self.seen.get(process).is_some_and(|seen| seen.whole);
        match (self.expected.whole_by, self.stands.live().find(|(process, _)| !in_time(*process))) {
            (Some(by), Some((process, _))) if self.calm => {
                Err(format!("{process} was not in a ring of all by {by} ms"))
            }
            _ => Ok(()),
        }
    }
}

impl NeedlessViews {
    fn on_view(&mut self, process: Process, at: Instant, view: &InstallRecord) -> Verdict {
        let Calmness { nodes, whole_by, changes, .. } = self.expected;
        let late = self.stands.get(process).is_some_and(|stand| stand.late);
        let parts: BTreeSet<_> = self.stands.live().filter_map(|(_, stand)| stand.id()).collect();
        let others = parts.len().saturating_sub(1).max(1) as u32;
        let formed = *self.formed.entry(view.id).or_insert(at);
        let seen = self.seen.of(process);
        seen.after += u32::from(seen.whole);
        if changes.is_some_and(|most| seen.after > most) {
            let after = seen.after;
            return Err(format!("view {} is the {after}th after one of all {nodes}, more than was forced", view.id));
        }
        let is_whole = view.members.len() == usize::from(nodes);
        seen.whole |= is_whole && (late || whole_by.is_none_or(|by| at <= by));
        let span = self.expected.spans.iter().rev().find(|span| span.from <= at);
        let span = span.filter(|span| at < span.until);
        let from = span.map(|span| span.from.max(self.ended)).filter(|from| formed >= *from);
        from.zip(span).map_or(Ok(()), |(from, span)| seen.count(from, at, TRIES * others.max(span.faults)))
    }
}

impl InstalledView {
    /// Takes note of a view that was installed while nothing changed since `from`, of one of `most` tries.
    fn count(&mut self, from: Instant, at: Instant, most: u32) -> Verdict {
        if self.tries == 0 || self.span != from {
            *self = Self { whole: self.whole, after: self.after, span: from, ..Self::default() };
        }
        if self.tries == 0 || at.since(self.last) > PEACE {
            (self.tries, self.views) = (self.tries + 1, 0);
        }
        (self.views, self.last) = (self.views + 1, at);
        let Self { tries, views, .. } = &self;
        if *tries > most {
            return Err(format!("its views change for the {tries}th time since anything changed, at {from} ms"));
        }
        if *views > VIEWS {
            return Err(format!("its {views}th view in a row, though nothing has changed since {from} ms"));
        }
        Ok(())
    }
}

/// How often views change while nothing else does: once because of what changed before, and who does not get on with others is
/// tried again after a quarantine, and after one twice as long. The one after that outlasts every run. Each other part is tried,
/// and where views last no longer than silence takes to be noticed, each fault parts somebody by itself.
const TRIES: u32 = 3;
/// How many views one of these times takes at most: a ring may fall apart node by node, for nobody can tell who on its way
/// lost the commit token, and come together again in a few steps.
const VIEWS: u32 = 5;
/// A view that comes so long after the last is not of the same try: longer than a lost token takes to be noticed, shorter
/// than the shortest quarantine.
const PEACE: Duration = Duration::from_millis(700);
