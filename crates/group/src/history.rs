//! Histories: the views that a daemon was in, and whether a reader of another daemon may go on here.
//!
//! `docs/protocols/sessions.md` states the rules.
use crate::{mutated, set_hash};
use consort_types::{MemberId, Position, ViewId};
use std::collections::VecDeque;
use std::fmt;

/// A place in one of several histories: the view, a position in it, and which of those that were ordered as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ViewPlace {
    /// The regular view.
    pub view: ViewId,
    /// Where in it.
    pub at: Position,
    /// Which of those that stand there.
    pub index: u16,
}

/// How a daemon closes a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ViewClosing {
    /// The *line*: before it every member of the view has the same messages, as far as it goes.
    pub line: Position,
    /// Stands for those that close the view together; their messages behind the line are the same.
    pub together: u64,
}

/// What a reader knows of the views it has read: with its place this says whether it may go on elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ViewTrail {
    /// The view that its place lies in.
    pub view: ViewId,
    /// How its daemon closes that view, once it does.
    pub closing: Option<ViewClosing>,
    /// The views before, the oldest first, each with its line.
    pub before: Vec<(ViewId, Position)>,
}

/// Whether a reader goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumption {
    /// At its place: it has what this daemon has before it. The number counts this daemon's views.
    Goes(u64),
    /// Not known yet: this daemon has to go on in that view, or to close it.
    Waits,
    /// Not known: this daemon was never in that view, but it is a later one, and may come. Otherwise as parted.
    MayCome(Option<ViewPlace>),
    /// Not here: this is the last place up to which both have the same, if there is a view in common.
    Parted(Option<ViewPlace>),
}

/// A view that a daemon was in.
#[derive(Clone, Copy, Debug)]
struct ViewRecord {
    id: ViewId,
    closing: Option<ViewClosing>,
    /// The first position that was not delivered, once it is over.
    end: Position,
    /// All its members came to know the same; no client's message stands in another.
    is_settled: bool,
    /// The history that counts is another's: what that has before this view was never delivered here.
    is_behind_gap: bool,
}

impl ViewRecord {
    const fn new(id: ViewId) -> Self {
        Self { id, closing: None, end: Position(0), is_settled: false, is_behind_gap: false }
    }
}

//= E20
/// The last views of a daemon. They are counted from 0.
#[derive(Debug, Default)]
pub struct Histories {
    records: VecDeque<ViewRecord>,
    /// The number of the first that is known.
    first: u64,
    /// The last position that was delivered in the last one.
    delivered: Position,
    #[cfg(feature = "mutants")]
    mutant: Option<crate::mutant::Mutant>,
}

impl ViewTrail {
    /// So many views before the present one are remembered.
    pub const MOST: usize = 16;

    /// A reader that begins in this view.
    pub const fn new(view: ViewId) -> Self {
        Self { view, closing: None, before: Vec::new() }
    }

    /// Its daemon has gone from the view to the next one, and had closed it at this line.
    pub fn enter(&mut self, view: ViewId, line: Position) {
        if view == self.view {
            return;
        }
        self.before.push((self.view, line));
        self.before.drain(..self.before.len().saturating_sub(Self::MOST));
        (self.view, self.closing) = (view, None);
    }
}

impl ViewClosing {
    /// These close a view together, and line up here.
    pub(crate) fn new(line: Position, together: &[MemberId]) -> Self {
        Self { line, together: set_hash::of_members(together) }
    }
}

impl Histories {
    /// Of a daemon that was in no view yet.
    pub const fn new() -> Self {
        Self {
            records: VecDeque::new(),
            first: 0,
            delivered: Position(0),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Breaks a rule from here on.
    #[cfg(feature = "mutants")]
    pub const fn mutate(&mut self, mutant: crate::mutant::Mutant) {
        self.mutant = Some(mutant);
    }

    /// So many views are remembered.
    pub const MOST: usize = 256;

    /// A message has its place.
    #[inline]
    pub const fn deliver(&mut self, at: Position) {
        if at.0 > self.delivered.0 {
            self.delivered = at;
        }
    }

    /// Only these go on from the view, and deliver what is left of it.
    pub fn close(&mut self, together: &[MemberId]) {
        let line = self.end();
        if let Some(record) = self.records.back_mut().filter(|record| record.closing.is_none()) {
            record.closing = Some(ViewClosing::new(line, together));
        }
    }

    /// The next view begins for those that come from the last one together.
    pub fn begin(&mut self, view: ViewId, together: &[MemberId]) {
        if mutated!(self, LineMoves)
            && let Some(record) = self.records.back_mut()
        {
            record.closing = None;
        }
        self.close(together);
        let end = self.end();
        if let Some(record) = self.records.back_mut() {
            record.end = end;
        }
        self.records.push_back(ViewRecord::new(view));
        self.delivered = Position(0);
        if self.records.len() > Self::MOST {
            self.records.pop_front();
            self.first += 1;
        }
    }

    /// All members of the view that is on know the same; `missed` if it goes on with another's history, which has what was
    /// never delivered here.
    pub fn settle(&mut self, missed: bool) {
        //= E29
        let missed = missed && !mutated!(self, MissedUntold);
        if let Some(record) = self.records.back_mut() {
            (record.is_settled, record.is_behind_gap) = (true, missed);
        }
    }

    /// The last view that has settled.
    pub fn last_settled(&self) -> Option<u64> {
        self.settled_before(self.first + self.records.len() as u64)
    }

    /// The last view before this one that has settled.
    pub fn settled_before(&self, number: u64) -> Option<u64> {
        let known = usize::try_from(number.checked_sub(self.first)?).ok()?.min(self.records.len());
        let at = self.records.range(..known).rposition(|record| record.is_settled)?;
        Some(self.first + at as u64)
    }

    /// The last settled view before this one, and where it ended here, if what counts has more between them. Who was in a
    /// later one, as another daemon's history led there, misses what is behind that.
    pub fn gap_before(&self, number: u64, was_in: u64) -> Option<(u64, Position)> {
        self.record(number).filter(|record| record.is_behind_gap)?;
        let before = self.settled_before(number)?.max(was_in);
        Some((before, self.record(before)?.end))
    }

    /// This view, or the first one behind it that has settled, if any has.
    pub fn settled_from(&self, number: u64) -> u64 {
        let last = self.first + self.records.len() as u64;
        (number..last).find(|number| self.is_settled(*number)).unwrap_or(number)
    }

    /// Whether all members of a view came to know the same.
    pub fn is_settled(&self, number: u64) -> bool {
        self.record(number).is_some_and(|record| record.is_settled)
    }

    /// The number of the view that is on; none before the first.
    pub fn last(&self) -> Option<u64> {
        (self.first + self.records.len() as u64).checked_sub(1).filter(|_| !self.records.is_empty())
    }

    /// The first position that was not delivered in the view that is on.
    pub const fn end(&self) -> Position {
        Position(self.delivered.0.saturating_add(1))
    }

    /// The name of a view by its number.
    pub fn view(&self, number: u64) -> Option<ViewId> {
        self.record(number).map(|record| record.id)
    }

    /// How a view was closed, or is being.
    pub fn closing(&self, number: u64) -> Option<ViewClosing> {
        self.record(number).and_then(|record| record.closing)
    }

    fn record(&self, number: u64) -> Option<&ViewRecord> {
        self.records.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    fn number(&self, view: ViewId) -> Option<u64> {
        let at = self.records.iter().rposition(|record| record.id == view)?;
        Some(self.first + at as u64)
    }

    /// Where the regular part of a view ends, as far as it goes.
    fn line(&self, number: u64) -> Position {
        self.closing(number).map_or(self.end(), |closing| closing.line)
    }

    /// Whether a reader that is there, with this trail, goes on here.
    pub fn resume(&self, trail: &ViewTrail, at: Position, index: u16) -> Resumption {
        let place = (at, index);
        let Some(number) = self.number(trail.view) else {
            //= E23
            let common = self.in_common(trail);
            let later = self.records.back().is_none_or(|record| trail.view.number > record.id.number);
            return if later { Resumption::MayCome(common) } else { Resumption::Parted(common) };
        };
        //= E21
        let own_line_only = mutated!(self, OwnLineOnly);
        let line = trail.closing.filter(|_| !own_line_only);
        let theirs = line.map_or(place, |closing| place.min((closing.line, 0)));
        let ours = (self.line(number), 0);
        let here = self.closing(number);
        //= E22
        let any_set = mutated!(self, AnyClosingTogether);
        let together = matches!((trail.closing, here), (Some(a), Some(b)) if any_set || a.together == b.together);
        // It is on, and was not taken so far.
        let ahead = self.last() == Some(number) && at > self.end();
        if ahead && (together || here.is_none()) {
            Resumption::Waits
        } else if together || place <= theirs.min(ours) {
            Resumption::Goes(number)
        } else if here.is_none() {
            Resumption::Waits
        } else {
            let (at, index) = theirs.min(ours);
            Resumption::Parted(Some(ViewPlace { view: trail.view, at, index }))
        }
    }

    /// The last view of a reader that this daemon was in, too, and how far both have the same there.
    fn in_common(&self, trail: &ViewTrail) -> Option<ViewPlace> {
        trail.before.iter().rev().find_map(|(view, line)| {
            let own = self.line(self.number(*view)?);
            let at = if mutated!(self, CommonToOwnLine) { own } else { own.min(*line) };
            Some(ViewPlace { view: *view, at, index: 0 })
        })
    }
}

impl fmt::Display for ViewPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} of view {}", self.at.0, self.index, self.view)
    }
}
