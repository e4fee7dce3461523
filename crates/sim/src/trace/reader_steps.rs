//! What happens to readers that go on at the next daemon where they were.
use consort_session::Place;
use consort_types::ViewId;
use std::fmt;

/// A step of a reader that goes from daemon to daemon, or of a member that is given what it reads. What a step has no use for
/// is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumedRecord {
    /// Which.
    pub step: ResumedStep,
    /// Which of the run's readers.
    pub reader: u16,
    /// One bit for each group: those that the message names, or that are read.
    pub groups: u8,
    /// The view that the place lies in; where positions last, the same for all.
    pub view: ViewId,
    /// The place: of a message, where it is asked for, the first that is missing. Of a view, its predecessor's line.
    pub at: Place,
    /// Of a gap the first that is not missing, of histories that part the last that both have: its view and its place.
    pub to_view: ViewId,
    /// See there. Of a place that is asked for, the line of the former daemon.
    pub to: Place,
    /// A sum of the message's bytes.
    pub sum: u64,
    /// How many bytes it has.
    pub len: u64,
    /// Of a place that is asked for: it lies in a view. Of a message: the reader was told it just now. Of histories that
    /// part: they have a view in common. Of a view: it is closing.
    pub flag: bool,
}

/// What is said of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumedStep {
    /// A member was given a message.
    Given,
    /// A reader begins anew: what it read before says nothing any more.
    Fresh,
    /// A place is asked for.
    Asked,
    /// A reading begins.
    Began,
    /// It is in this view now, or that is closing.
    InView,
    /// A message was read.
    Message,
    /// All there is was told.
    CaughtUp,
    /// What stands from one place to another is not retained.
    Gap,
    /// The daemon has another history.
    Parted,
    /// The reader has left its daemon.
    Away,
}

impl ResumedRecord {
    /// A step of which nothing is said.
    pub fn of(step: ResumedStep) -> Self {
        let (view, place) = (ViewId::default(), Place::default());
        let (reader, groups, sum, len, flag) = (0, 0, 0, 0, false);
        Self { step, reader, groups, view, at: place, to_view: view, to: place, sum, len, flag }
    }
}

impl fmt::Display for ResumedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, reader, groups, view, at, to_view, to, sum, len, flag } = self;
        write!(f, "step={} reader={reader} groups={groups} view={view} place={at}", step.name())?;
        write!(f, " to_view={to_view} to={to} sum={sum} len={len} flag={flag}")
    }
}

impl ResumedStep {
    /// All of them, with the words for them.
    const ALL: [(Self, &'static str); 10] = [
        (Self::Given, "given"),
        (Self::Fresh, "fresh"),
        (Self::Asked, "asked"),
        (Self::Began, "began"),
        (Self::InView, "in_view"),
        (Self::Message, "message"),
        (Self::CaughtUp, "caught_up"),
        (Self::Gap, "gap"),
        (Self::Parted, "parted"),
        (Self::Away, "away"),
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(step, _)| *step == self).map_or("", |(_, name)| name)
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(step, _)| *step)
    }
}
