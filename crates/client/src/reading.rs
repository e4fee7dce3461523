//! Where a reading begins, and where it goes on.
use crate::outbox::SendBuffer;
use crate::{Error, Event};
use consort_session::{Place, PlaceError, ReadRequest, ReadingStatus};
use consort_types::GroupName;
use std::fmt;
use std::str::FromStr;

/// Where a reading begins: [`Client::read`](crate::Client::read).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// At the oldest message that there is, whichever that is.
    #[default]
    Start,
    /// At a place of whatever order the daemons keep. Position 0 is the start.
    Place(Place),
    /// Behind the last message that was read before.
    After(Bookmark),
}

impl From<u64> for ReadFrom {
    fn from(position: u64) -> Self {
        Self::Place(Place::at(position))
    }
}

impl From<Place> for ReadFrom {
    fn from(place: Place) -> Self {
        Self::Place(place)
    }
}

impl From<Bookmark> for ReadFrom {
    fn from(bookmark: Bookmark) -> Self {
        Self::After(bookmark)
    }
}

impl ReadFrom {
    /// The order that is meant, 0 for any, and the first place.
    pub(crate) const fn parts(self) -> (u64, Place) {
        match self {
            Self::Start => (0, Place::at(0)),
            Self::Place(place) => (0, place),
            Self::After(bookmark) => (bookmark.order, bookmark.next),
        }
    }
}

/// How far a reading has come: with this it goes on later, at any daemon. Should the daemons have begun another order
/// meanwhile, the reading is refused.
///
/// As text: `00000000deadbeef:1234`, for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// Names the order.
    pub order: u64,
    /// The first place that was not read.
    pub next: Place,
}

impl fmt::Display for Bookmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}:{}", self.order, self.next)
    }
}

impl FromStr for Bookmark {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let wrong = || PlaceError { text: text.to_owned() };
        let (order, next) = text.split_once(':').ok_or_else(wrong)?;
        let is_order = order.len() == 16 && order.bytes().all(|byte| byte.is_ascii_hexdigit());
        let order = u64::from_str_radix(order, 16).ok().filter(|_| is_order).ok_or_else(wrong)?;
        Ok(Self { order, next: next.parse().map_err(|_| wrong())? })
    }
}

/// Keeps the bookmark of what a program was given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached(Option<Bookmark>);

impl Reached {
    pub(crate) const fn bookmark(self) -> Option<Bookmark> {
        self.0
    }

    /// The program is given an event.
    pub(crate) fn on_event(&mut self, event: &Event) {
        match event {
            Event::Read(message) => message.placement().iter().for_each(|placement| self.on_next(placement.next)),
            Event::Reading(ReadingStatus::Began { order, from, .. }) => {
                self.0 = Some(Bookmark { order: *order, next: *from });
            }
            Event::Reading(ReadingStatus::CaughtUp { position } | ReadingStatus::Lost { to: position, .. }) => {
                self.on_next(Place::at(position.saturating_add(1)));
            }
            _ => {}
        }
    }

    /// All before this place was given.
    fn on_next(&mut self, next: Place) {
        if let Some(bookmark) = &mut self.0 {
            bookmark.next = bookmark.next.max(next);
        }
    }
}

/// Collects a request to read.
pub(crate) fn put(outbox: &mut SendBuffer, groups: &[GroupName], from: ReadFrom) -> Result<(), Error> {
    if groups.is_empty() || groups.len() > ReadRequest::GROUPS_MAX {
        return Err(Error::Groups { count: groups.len(), max: ReadRequest::GROUPS_MAX });
    }
    outbox.put_read(from, groups);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmarks_read_back_and_other_texts_are_none() {
        let bookmark = Bookmark { order: 0xdead_beef, next: Place { position: 1234, index: 2 } };
        assert_eq!(bookmark.to_string(), "00000000deadbeef:1234.2");
        assert_eq!(bookmark.to_string().parse(), Ok(bookmark));
        for text in ["", ":", "1234", "deadbeef:1", "00000000deadbeef:", "00000000deadbeef:x", "+000000deadbeef0:1"] {
            assert_eq!(text.parse::<Bookmark>().unwrap_err(), PlaceError { text: text.to_owned() });
        }
    }

    #[test]
    fn a_bookmark_follows_what_was_given_and_never_goes_back() {
        let mut reached = Reached::default();
        reached.on_next(Place::at(3));
        assert_eq!(reached.bookmark(), None, "nothing was begun");
        let from = Place { position: 6, index: 2 };
        let at = |next| Some(Bookmark { order: 7, next });
        reached.on_event(&Event::Reading(ReadingStatus::Began { order: 7, from, oldest: 5, newest: 9 }));
        assert_eq!(reached.bookmark(), at(from));
        reached.on_next(Place::at(8));
        reached.on_next(Place::at(7));
        assert_eq!(reached.bookmark(), at(Place::at(8)));
        reached.on_event(&Event::Reading(ReadingStatus::Lost { from: 8, to: 11 }));
        assert_eq!(reached.bookmark(), at(Place::at(12)));
        reached.on_event(&Event::Reading(ReadingStatus::CaughtUp { position: 20 }));
        assert_eq!(reached.bookmark(), at(Place::at(21)));
    }
}
