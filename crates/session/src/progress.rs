//! How far a reading has come, by what its client was given: with this it goes on at the next daemon. Clients and the
//! simulator keep it alike.
use crate::{Place, ReadingStatus};
use consort_group::{ViewClosing, ViewTrail};
use consort_types::{Position, ViewId};

/// A place that a reading has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachedPlace {
    /// Names the order; 0 where positions belong to views.
    pub order: u64,
    /// The first place that was not read.
    pub next: Place,
    /// The view that it belongs to, and those before, where positions belong to views.
    pub trail: Option<Box<ViewTrail>>,
}

/// Follows one reading after the other. See the module.
#[derive(Clone, Debug, Default)]
pub struct ReadingProgress {
    reached: Option<ReachedPlace>,
    /// What the next reading that begins goes on with.
    trail: Option<Box<ViewTrail>>,
}

impl ReadingProgress {
    /// Where to read on; `None` while no reading has begun, or the one that has does not know its view yet.
    pub fn place(&self) -> Option<&ReachedPlace> {
        self.reached.as_ref().filter(|reached| reached.order != 0 || reached.trail.is_some())
    }

    /// A reading was asked for from a place in a view with this trail, or from elsewhere.
    pub fn ask(&mut self, trail: Option<&ViewTrail>) {
        self.trail = trail.cloned().map(Box::new);
    }

    /// What was reached says nothing any more.
    pub fn forget(&mut self) {
        self.reached = None;
    }

    /// The client was told something of its reading.
    pub fn on_status(&mut self, status: &ReadingStatus) {
        match status {
            ReadingStatus::Began { order, from, .. } => {
                let trail = self.trail.take().filter(|_| *order == 0);
                self.reached = Some(ReachedPlace { order: *order, next: *from, trail });
            }
            ReadingStatus::CaughtUp { position } | ReadingStatus::Lost { to: position, .. } => {
                self.on_next(Place::at(position.saturating_add(1)));
            }
            ReadingStatus::InView { view, line, closing } => self.on_view(*view, *line, *closing),
            ReadingStatus::Gap { to, closing, .. } => {
                self.on_view(to.view, self.line(), *closing);
                self.on_next(Place { position: to.at.0, index: to.index });
            }
            ReadingStatus::Ended(_) => {}
        }
    }

    /// Up to where all daemons surely have what was given of the present view.
    fn line(&self) -> Position {
        let Some(reached) = &self.reached else { return Position(0) };
        let closing = reached.trail.as_ref().and_then(|trail| trail.closing);
        let given = Position(reached.next.position);
        closing.map_or(given, |closing| given.min(closing.line))
    }

    /// All before this place was given.
    pub fn on_next(&mut self, next: Place) {
        if let Some(reached) = &mut self.reached {
            reached.next = reached.next.max(next);
        }
    }

    fn on_view(&mut self, view: ViewId, line: Position, closing: Option<ViewClosing>) {
        let Some(ReachedPlace { next, trail, .. }) = &mut self.reached else { return };
        let trail = trail.get_or_insert_with(|| Box::new(ViewTrail::new(view)));
        if trail.view != view {
            *next = Place::at(0);
        }
        trail.enter(view, line);
        trail.closing = closing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_group::ViewPlace;
    use consort_types::MemberId;

    fn view(number: u64) -> ViewId {
        ViewId { number, representative: MemberId::new(3, 9) }
    }

    fn in_view(number: u64, line: u64, closing: Option<ViewClosing>) -> ReadingStatus {
        ReadingStatus::InView { view: view(number), line: Position(line), closing }
    }

    fn began(order: u64, from: Place) -> ReadingStatus {
        ReadingStatus::Began { order, from, oldest: 1, newest: 9 }
    }

    #[test]
    fn it_follows_what_was_given_and_never_goes_back() {
        let mut progress = ReadingProgress::default();
        progress.on_next(Place::at(3));
        assert_eq!(progress.place(), None, "nothing was begun");
        let from = Place { position: 6, index: 2 };
        progress.on_status(&began(7, from));
        let next = |progress: &ReadingProgress| progress.place().map(|place| (place.order, place.next));
        assert_eq!(next(&progress), Some((7, from)));
        progress.on_next(Place::at(8));
        progress.on_next(Place::at(7));
        assert_eq!(next(&progress), Some((7, Place::at(8))));
        progress.on_status(&ReadingStatus::Lost { from: 8, to: 11 });
        assert_eq!(next(&progress), Some((7, Place::at(12))));
        progress.on_status(&ReadingStatus::CaughtUp { position: 20 });
        assert_eq!(next(&progress), Some((7, Place::at(21))));
    }

    #[test]
    fn in_views_it_follows_the_views() {
        //= E24 test
        let mut progress = ReadingProgress::default();
        progress.on_status(&began(0, Place::at(6)));
        assert_eq!(progress.place(), None, "it is in no view yet");
        progress.on_status(&in_view(4, 0, None));
        progress.on_next(Place::at(8));
        let closing = Some(ViewClosing { line: Position(8), together: 5 });
        progress.on_status(&in_view(4, 0, closing));
        let first = ViewTrail { view: view(4), closing, before: Vec::new() };
        let place = |next, trail: &ViewTrail| ReachedPlace { order: 0, next, trail: Some(Box::new(trail.clone())) };
        assert_eq!(progress.place(), Some(&place(Place::at(8), &first)));
        progress.on_status(&in_view(5, 8, None));
        let before = vec![(view(4), Position(8))];
        let trail = ViewTrail { view: view(5), closing: None, before: before.clone() };
        assert_eq!(progress.place(), Some(&place(Place::at(0), &trail)));
        let [from, to] =
            [(5, 0), (5, 30)].map(|(number, at)| ViewPlace { view: view(number), at: Position(at), index: 0 });
        progress.on_status(&ReadingStatus::Gap { from, to, closing: None });
        assert_eq!(progress.place().unwrap().next, Place::at(30));
        let mut again = ReadingProgress::default();
        again.ask(Some(&first));
        again.on_status(&began(0, Place::at(8)));
        again.on_status(&in_view(4, 0, None));
        again.on_status(&in_view(5, 8, None));
        assert_eq!(again.place().unwrap().trail.as_ref().unwrap().before, before, "what was read before is kept");
    }
}
