//! What a session reads, where it goes on, and when it believes that histories have parted, or that something is missing.
use crate::reading::Reached;
use crate::{Bookmark, Event, GroupName, Place, ReadFrom, ReadingStatus, ViewPlace, ViewTrail};
use consort_types::Position;
use std::cmp::Reverse;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Reading {
    pub groups: Vec<GroupName>,
    /// Where the next connection begins.
    pub from: ReadFrom,
    /// Behind the last message, where other views were entered since: nothing was read there.
    read_to: Option<ViewPlace>,
    /// What daemons said that do not go on with it, by the number of their address.
    asked: BTreeMap<usize, Answer>,
    /// The number of the view in which a gap ends that is not told; 0 for none. Who has what is missing has come so far.
    sought: u64,
}

/// What a daemon said that does not go on with a reading.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// Nothing, or that it does not let this client read.
    None,
    /// Its history is another one, as far as it can tell; up to there it has what was read.
    Other(Option<ViewPlace>),
    /// It lacks what follows, up to there.
    Lacks(ViewPlace),
}

/// What follows where a daemon does not go on with the reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// The daemon at this address may know better, or lacks least.
    Ask(usize),
    /// The same daemon goes on where the reading begins now.
    Again,
    /// The histories have parted. If there is a place in common, the daemon at this address has it.
    Part(Option<(ViewPlace, usize)>),
    /// No daemon has said anything of use.
    Give,
}

impl Reading {
    pub const fn new(groups: Vec<GroupName>, from: ReadFrom) -> Self {
        Self { groups, from, read_to: None, asked: BTreeMap::new(), sought: 0 }
    }

    /// The program is told this, and had come as far as that before.
    pub fn goes_on(&mut self, event: &Event, before: &Reached) {
        match event {
            // Such a daemon may yet say that something is missing.
            Event::Reading(ReadingStatus::Began { .. }) if self.sought > 0 => {}
            Event::Reading(ReadingStatus::Began { .. }) => self.asked.clear(),
            Event::Reading(ReadingStatus::InView { .. }) => self.enters(before),
            Event::Reading(ReadingStatus::CaughtUp { .. }) => {
                self.asked.clear();
                self.enters(before);
            }
            _ => {
                self.asked.clear();
                self.read_to = None;
                if matches!(event, Event::Reading(ReadingStatus::Gap { .. })) {
                    self.sought = 0;
                }
            }
        }
    }

    fn enters(&mut self, before: &Reached) {
        if self.read_to.is_none() {
            self.read_to = before.bookmark().and_then(|bookmark| bookmark.view_place());
        }
    }

    /// Some daemon did not know, and others are asked.
    pub fn is_asking(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The daemon at this address, of so many, has another history from here on.
    pub fn is_other(&mut self, at: usize, common: Option<ViewPlace>, addresses: usize) -> NextStep {
        //= E31
        if let Some(from) = common.and_then(|place| self.nothing_read_behind(&place)) {
            self.from = ReadFrom::After(from);
            return NextStep::Again;
        }
        //= E28
        let known = common.filter(|place| self.depth(place) == Some(0) && self.sought == 0);
        if let Some(place) = known {
            return NextStep::Part(Some((place, at)));
        }
        self.asked.insert(at, Answer::Other(common));
        self.next(at, addresses)
    }

    /// The daemon at this address, of so many, gives no answer.
    pub fn no_answer(&mut self, at: usize, addresses: usize) -> NextStep {
        let answer = self.asked.entry(at).or_insert(Answer::None);
        if matches!(answer, Answer::Lacks(_)) {
            *answer = Answer::None;
        }
        self.next(at, addresses)
    }

    /// The daemon at this address, of so many, lacks what follows, up to this place. Which one is to be asked, unless the
    /// program is to be told.
    pub fn lacks(&mut self, at: usize, to: ViewPlace, addresses: usize) -> Option<usize> {
        //= E30
        self.sought = self.sought.max(to.view.number);
        let again = matches!(self.asked.insert(at, Answer::Lacks(to)), Some(Answer::Lacks(_)));
        match self.next(at, addresses) {
            NextStep::Ask(next) if next != at && !again => Some(next),
            _ => None,
        }
    }

    /// The daemon at this address, of so many, has told all that it has, up to this place. Which one is to be asked, where
    /// others have come further.
    pub fn is_behind(&mut self, at: usize, arrived: &Reached, addresses: usize) -> Option<usize> {
        //= E30
        let view = arrived.bookmark().and_then(|bookmark| bookmark.view_place()).map(|place| place.view.number);
        if view.is_some_and(|view| view < self.sought)
            && let NextStep::Ask(next) = self.no_answer(at, addresses)
            && next != at
        {
            return Some(next);
        }
        self.sought = 0;
        None
    }

    /// Goes on there, or with the oldest that there is.
    pub fn part(&mut self, common: Option<ViewPlace>) {
        self.from = common.map_or(ReadFrom::Start, ReadFrom::common);
        (self.read_to, self.sought) = (None, 0);
        self.asked.clear();
    }

    fn next(&mut self, at: usize, addresses: usize) -> NextStep {
        let mut others = (1..addresses).map(|step| (at + step) % addresses);
        if let Some(other) = others.find(|other| !self.asked.contains_key(other)) {
            return NextStep::Ask(other);
        }
        if let Some(lacking) = self.lacking() {
            return NextStep::Ask(lacking);
        }
        if self.asked.values().any(|answer| matches!(answer, Answer::Other(_))) {
            return NextStep::Part(self.latest());
        }
        self.asked.clear();
        self.sought = 0;
        NextStep::Give
    }

    /// The daemon that lacks least.
    fn lacking(&self) -> Option<usize> {
        let places = self.asked.iter().filter_map(|(at, answer)| match answer {
            Answer::Lacks(to) => Some((*at, *to)),
            Answer::None | Answer::Other(_) => None,
        });
        places.min_by_key(|(_, to)| (to.view.number, to.at, to.index)).map(|(at, _)| at)
    }

    /// The latest place that a daemon has in common with the reader.
    fn latest(&self) -> Option<(ViewPlace, usize)> {
        let places = self.asked.iter().filter_map(|(at, answer)| match answer {
            Answer::Other(Some(place)) => Some((*place, *at)),
            Answer::Other(None) | Answer::None | Answer::Lacks(_) => None,
        });
        places.max_by_key(|(place, _)| self.rank(place))
    }

    /// Where to go on from a place in common, if the reading came further, but no message stood there.
    fn nothing_read_behind(&self, common: &ViewPlace) -> Option<Bookmark> {
        let ReadFrom::After(from) = &self.from else { return None };
        let (read_to, trail) = (self.read_to?, from.trail.as_ref()?);
        let depth = self.depth(common)?;
        let is_further = self.rank(&from.view_place()?) > self.rank(common);
        if !is_further || self.rank(&read_to) > self.rank(common) {
            return None;
        }
        let before = trail.before[..trail.before.len() - depth].to_vec();
        let trail = ViewTrail { before, ..ViewTrail::new(common.view) };
        let next = Place { position: common.at.0, index: common.index };
        Some(Bookmark { order: 0, next, trail: Some(Box::new(trail)) })
    }

    /// Later places have higher ranks; those of views that are not remembered have the lowest.
    fn rank(&self, place: &ViewPlace) -> (Reverse<usize>, Position, u16) {
        (Reverse(self.depth(place).unwrap_or(usize::MAX)), place.at, place.index)
    }

    /// How many views ago the place's view was read: 0 for the one that was read last.
    fn depth(&self, place: &ViewPlace) -> Option<usize> {
        let ReadFrom::After(bookmark) = &self.from else { return None };
        let trail = bookmark.trail.as_ref()?;
        let before = trail.before.iter().rev().map(|(view, _)| *view);
        std::iter::once(trail.view).chain(before).position(|view| view == place.view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bookmark, Place, Position, ViewId, ViewTrail};
    use consort_types::MemberId;

    fn view(number: u64) -> ViewId {
        ViewId { number, representative: MemberId::new(1, 1) }
    }

    fn place(number: u64, at: u64) -> ViewPlace {
        ViewPlace { view: view(number), at: Position(at), index: 0 }
    }

    /// Somebody who read views 5 and 6, and is in 7.
    fn reading() -> Reading {
        let before = vec![(view(5), Position(50)), (view(6), Position(60))];
        let trail = Some(Box::new(ViewTrail { view: view(7), closing: None, before }));
        Reading::new(Vec::new(), ReadFrom::After(Bookmark { order: 0, next: Place::at(3), trail }))
    }

    #[test]
    fn who_was_not_there_is_no_proof_while_others_are_left_to_ask() {
        //= E28 test
        let mut reading = reading();
        assert_eq!(reading.is_other(1, None, 3), NextStep::Ask(2));
        assert_eq!(reading.no_answer(2, 3), NextStep::Ask(0));
        assert!(reading.is_asking());
        assert_eq!(reading.is_other(0, None, 3), NextStep::Part(None));
        reading.part(None);
        assert_eq!((reading.is_asking(), &reading.from), (false, &ReadFrom::Start));
    }

    #[test]
    fn the_latest_place_in_common_counts_whoever_named_it() {
        //= E28 test
        let mut reading = reading();
        assert_eq!(reading.is_other(0, Some(place(5, 50)), 4), NextStep::Ask(1));
        assert_eq!(reading.is_other(1, Some(place(6, 8)), 4), NextStep::Ask(2));
        assert_eq!(reading.is_other(2, Some(place(6, 7)), 4), NextStep::Ask(3));
        assert_eq!(reading.is_other(3, None, 4), NextStep::Part(Some((place(6, 8), 1))));
    }

    #[test]
    fn who_was_there_knows() {
        //= E28 test
        let mut reading = reading();
        assert_eq!(reading.is_other(1, Some(place(7, 2)), 3), NextStep::Part(Some((place(7, 2), 1))));
    }

    #[test]
    fn of_one_daemon_its_word_is_all_there_is() {
        let mut reading = reading();
        assert_eq!(reading.is_other(0, Some(place(6, 9)), 1), NextStep::Part(Some((place(6, 9), 0))));
    }
}
