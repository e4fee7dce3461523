//! Where a reading begins, and where it goes on.
use crate::outbox::SendBuffer;
use crate::{Error, Event};
use bytes::BytesMut;
use consort_session::{
    Place, PlaceError, ReachedPlace, ReadRequest, ReadingProgress, ViewClosing, ViewPlace, ViewTrail, reading as wire,
};
use consort_types::{GroupName, MemberId, Position, ViewId};
use std::fmt;
use std::str::FromStr;

/// Where a reading begins: [`Client::read`](crate::Client::read).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// At the oldest message that there is, whichever that is.
    #[default]
    Start,
    /// With what comes; nothing from before.
    New,
    /// At a place of whatever order the daemons keep. Position 0 is the start. Where positions belong to views, no other
    /// means anything without its view.
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
    /// Where histories part: what follows there has yet to be read.
    pub(crate) fn common(place: ViewPlace) -> Self {
        let (next, trail) = (Place { position: place.at.0, index: place.index }, ViewTrail::new(place.view));
        Self::After(Bookmark { order: 0, next, trail: Some(Box::new(trail)) })
    }

    pub(crate) fn put(&self, out: &mut BytesMut, groups: &[GroupName]) {
        let (order, place) = match self {
            Self::Start => (0, Place::at(0)),
            Self::New => (0, Place::at(ReadRequest::NEW)),
            Self::Place(place) => (0, *place),
            Self::After(Bookmark { next, trail: Some(trail), .. }) => {
                return wire::put_read_on(out, trail, *next, groups);
            }
            Self::After(Bookmark { order, next, .. }) => (*order, *next),
        };
        wire::put_read(out, order, place, groups);
    }
}

/// How far a reading has come: with this it goes on later, at any daemon. Should the daemons have begun another order
/// meanwhile, or have another history, the reading is refused.
///
/// As text: `00000000deadbeef:1234`, for a file; where positions belong to views, with those behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// Names the order; 0 where positions belong to views.
    pub order: u64,
    /// The first place that was not read.
    pub next: Place,
    /// The view that it belongs to, and those before, where positions belong to views.
    pub trail: Option<Box<ViewTrail>>,
}

impl Bookmark {
    /// In an order whose positions last.
    pub const fn new(order: u64, next: Place) -> Self {
        Self { order, next, trail: None }
    }

    /// The first place that was not read, where positions belong to views; `None` where they last.
    pub fn view_place(&self) -> Option<ViewPlace> {
        let view = self.trail.as_ref()?.view;
        Some(ViewPlace { view, at: Position(self.next.position), index: self.next.index })
    }
}

impl fmt::Display for Bookmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}:{}", self.order, self.next)?;
        let Some(trail) = &self.trail else { return Ok(()) };
        let view = |f: &mut fmt::Formatter<'_>, view: ViewId| {
            let MemberId { node, incarnation } = view.representative;
            write!(f, "{}/{}/{}", view.number, node.0, incarnation.0)
        };
        f.write_str("@")?;
        view(f, trail.view)?;
        if let Some(ViewClosing { line, together }) = trail.closing {
            write!(f, "!{}/{together}", line.0)?;
        }
        for (before, line) in &trail.before {
            f.write_str("+")?;
            view(f, *before)?;
            write!(f, "/{}", line.0)?;
        }
        Ok(())
    }
}

impl FromStr for Bookmark {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let wrong = || PlaceError { text: text.to_owned() };
        let (place, trail) = text.split_once('@').map_or((text, None), |(place, trail)| (place, Some(trail)));
        let (order, next) = place.split_once(':').ok_or_else(wrong)?;
        let is_order = order.len() == 16 && order.bytes().all(|byte| byte.is_ascii_hexdigit());
        let order = u64::from_str_radix(order, 16).ok().filter(|_| is_order).ok_or_else(wrong)?;
        let trail = trail.map(|trail| read_trail(trail).map(Box::new).ok_or_else(wrong)).transpose()?;
        Ok(Self { order, next: next.parse().map_err(|_| wrong())?, trail })
    }
}

/// Numbers between slashes, so many.
fn numbers<const N: usize>(text: &str) -> Option<[u64; N]> {
    let digits = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let all: Option<Vec<_>> = text.split('/').map(|part| Some(part).filter(digits)?.parse().ok()).collect();
    all?.try_into().ok()
}

fn view_of([number, node, incarnation]: [u64; 3]) -> Option<ViewId> {
    Some(ViewId { number, representative: MemberId::new(node.try_into().ok()?, incarnation) })
}

fn read_trail(text: &str) -> Option<ViewTrail> {
    let mut parts = text.split('+');
    let first = parts.next()?;
    let (view, closing) = first.split_once('!').map_or((first, None), |(view, closing)| (view, Some(closing)));
    let closing = match closing.map(numbers::<2>) {
        None => None,
        Some(closing) => closing.map(|[line, together]| Some(ViewClosing { line: Position(line), together }))?,
    };
    let before = |part: &str| {
        let [number, node, incarnation, line] = numbers(part)?;
        Some((view_of([number, node, incarnation])?, Position(line)))
    };
    let before = parts.map(before).collect::<Option<Vec<_>>>()?;
    Some(ViewTrail { view: view_of(numbers(view)?)?, closing, before })
        .filter(|trail| trail.before.len() <= ViewTrail::MOST)
}

/// Keeps the bookmark of what a program was given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reached(ReadingProgress);

impl Reached {
    pub(crate) fn bookmark(&self) -> Option<Bookmark> {
        let ReachedPlace { order, next, trail } = self.0.place()?.clone();
        Some(Bookmark { order, next, trail })
    }

    /// A reading was asked for.
    pub(crate) fn asked(&mut self, from: &ReadFrom) {
        self.0.ask(if let ReadFrom::After(bookmark) = from { bookmark.trail.as_deref() } else { None });
    }

    /// The same, and what was reached says nothing any more.
    pub(crate) fn begin(&mut self, from: &ReadFrom) {
        self.0.forget();
        self.asked(from);
    }

    /// The program is given an event.
    pub(crate) fn on_event(&mut self, event: &Event) {
        match event {
            Event::Read(message) => message.placement().iter().for_each(|placement| self.0.on_next(placement.next)),
            Event::Reading(status) => self.0.on_status(status),
            _ => {}
        }
    }
}

/// Collects a request to read.
pub(crate) fn put(outbox: &mut SendBuffer, groups: &[GroupName], from: &ReadFrom) -> Result<(), Error> {
    if groups.is_empty() || groups.len() > ReadRequest::GROUPS_MAX {
        return Err(Error::Groups { count: groups.len(), max: ReadRequest::GROUPS_MAX });
    }
    outbox.put_read(from, groups);
    outbox.shared().asked_to_read(from);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmarks_read_back_and_other_texts_are_none() {
        let bookmark = Bookmark::new(0xdead_beef, Place { position: 1234, index: 2 });
        assert_eq!(bookmark.to_string(), "00000000deadbeef:1234.2");
        assert_eq!(bookmark.to_string().parse(), Ok(bookmark));
        let view = |number| ViewId { number, representative: MemberId::new(3, 1_700_000) };
        let before = vec![(view(4), Position(7)), (view(5), Position(0))];
        let closing = Some(ViewClosing { line: Position(9), together: u64::MAX });
        for (trail, text) in [
            (ViewTrail::new(view(6)), "@6/3/1700000"),
            (
                ViewTrail { view: view(6), closing, before },
                "@6/3/1700000!9/18446744073709551615+4/3/1700000/7+5/3/1700000/0",
            ),
        ] {
            let bookmark = Bookmark { order: 0, next: Place::at(12), trail: Some(Box::new(trail)) };
            assert_eq!(bookmark.to_string(), format!("0000000000000000:12{text}"));
            assert_eq!(bookmark.to_string().parse(), Ok(bookmark));
        }
        for trail in ["", "6", "6/3", "6/70000/1", "6/3/1!", "6/3/1!5", "6/3/1+", "6/3/1+4/3/1", "6/3/1/1", "-6/3/1"] {
            assert!(format!("0000000000000000:12@{trail}").parse::<Bookmark>().is_err(), "{trail}");
        }
        for text in ["", ":", "1234", "deadbeef:1", "00000000deadbeef:", "00000000deadbeef:x", "+000000deadbeef0:1"] {
            assert_eq!(text.parse::<Bookmark>().unwrap_err(), PlaceError { text: text.to_owned() });
        }
    }
}
