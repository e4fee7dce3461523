//! What a session reads, where it goes on, and when it believes that histories have parted.
use crate::{GroupName, ReadFrom, ViewPlace};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Reading {
    pub groups: Vec<GroupName>,
    /// Where the next connection begins.
    pub from: ReadFrom,
    /// Daemons that were not in the view that was read last, or say nothing, by the number of their address: up to where
    /// each has what was read.
    asked: BTreeMap<usize, Option<ViewPlace>>,
}

/// What follows where a daemon does not go on with the reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// The daemon at this address may know better.
    Ask(usize),
    /// The histories have parted. If there is a place in common, the daemon at this address has it.
    Part(Option<(ViewPlace, usize)>),
}

impl Reading {
    pub const fn new(groups: Vec<GroupName>, from: ReadFrom) -> Self {
        Self { groups, from, asked: BTreeMap::new() }
    }

    /// A daemon goes on with it.
    pub fn begun(&mut self) {
        self.asked.clear();
    }

    /// Some daemon did not know, and others are asked.
    pub fn is_asking(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The daemon at this address, of so many, has another history from here on.
    pub fn is_other(&mut self, at: usize, common: Option<ViewPlace>, addresses: usize) -> NextStep {
        //= E28
        let known = common.filter(|place| self.depth(place) == Some(0));
        if let Some(place) = known {
            return NextStep::Part(Some((place, at)));
        }
        self.asked.insert(at, common);
        self.next(at, addresses)
    }

    /// The daemon at this address, of so many, gives no answer.
    pub fn no_answer(&mut self, at: usize, addresses: usize) -> NextStep {
        self.asked.entry(at).or_insert(None);
        self.next(at, addresses)
    }

    /// Goes on there, or with the oldest that there is.
    pub fn part(&mut self, common: Option<ViewPlace>) {
        self.from = common.map_or(ReadFrom::Start, ReadFrom::common);
        self.asked.clear();
    }

    fn next(&self, at: usize, addresses: usize) -> NextStep {
        let mut others = (1..addresses).map(|step| (at + step) % addresses);
        others
            .find(|other| !self.asked.contains_key(other))
            .map_or_else(|| NextStep::Part(self.latest()), NextStep::Ask)
    }

    /// The latest place that a daemon has in common with the reader.
    fn latest(&self) -> Option<(ViewPlace, usize)> {
        let places = self.asked.iter().filter_map(|(at, place)| Some(((*place)?, *at)));
        places.max_by_key(|(place, _)| {
            (std::cmp::Reverse(self.depth(place).unwrap_or(usize::MAX)), place.at, place.index)
        })
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
