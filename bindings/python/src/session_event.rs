//! What a session tells beside the events of a client.
use crate::event;
use crate::place::Place;
use crate::reading::Gap;
use consort::{Event, Fate, HistoryPlace, ReadingStatus, SessionEvent};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

/// What became of a send: one for each.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct Sent {
    /// Its number.
    send: u64,
    /// A number of `Fate`.
    fate: u8,
    /// Where it is ordered: the number of the view, and the position in it. Later places are greater.
    place: Option<(u64, u64)>,
    /// Why it was refused, a number of `Refusal`.
    cause: Option<u8>,
    text: String,
}

/// A join was refused.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct JoinRefused {
    group: String,
    /// A number of `Refusal`.
    cause: u8,
    text: String,
}

/// The session is connected, at first or again. Groups were joined again: messages between the loss and the group's next
/// view are not received. What is read goes on where it was.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct Connected {
    /// Where.
    address: String,
}

/// The connection was lost, or left for a daemon that may know what was read; others are tried.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct Lost {
    text: String,
}

/// The daemons' history is another than the one that was read: behind a place that both have, or, where there is none, at
/// all. What was read behind it is not in theirs. The reading goes on there, or with the oldest that is retained.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct Parted {
    /// The first place that they have not in common.
    common: Option<Place>,
}

/// Sends wait.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct Waits {
    text: String,
}

/// The session goes on with the producer that it was given.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct Resumed {
    /// How many of its sends are ordered, over all its sessions; none if nobody knows of it.
    ordered: Option<u64>,
}

#[pymethods]
impl Sent {
    fn __repr__(&self) -> String {
        let fate = match (self.fate, &self.place) {
            (ORDERED, Some((view, at))) => format!("ordered at {at} of view {view}"),
            (ORDERED, None) => "ordered".into(),
            (REFUSED, _) => format!("refused: {}", self.text),
            _ => "forgotten".into(),
        };
        format!("Sent(send={}, {fate})", self.send)
    }
}

#[pymethods]
impl JoinRefused {
    fn __repr__(&self) -> String {
        format!("JoinRefused(group={:?}, {:?})", self.group, self.text)
    }
}

#[pymethods]
impl Connected {
    fn __repr__(&self) -> String {
        format!("Connected({:?})", self.address)
    }
}

#[pymethods]
impl Lost {
    fn __repr__(&self) -> String {
        format!("Lost({:?})", self.text)
    }
}

#[pymethods]
impl Parted {
    fn __repr__(&self) -> String {
        let common = self.common.as_ref().map_or("nothing".into(), Place::__repr__);
        format!("Parted(common={common})")
    }
}

#[pymethods]
impl Waits {
    fn __repr__(&self) -> String {
        format!("Waits({:?})", self.text)
    }
}

#[pymethods]
impl Resumed {
    fn __repr__(&self) -> String {
        let ordered = self.ordered.map_or("unknown".into(), |ordered| ordered.to_string());
        format!("Resumed(ordered={ordered})")
    }
}

const ORDERED: u8 = 1;
const REFUSED: u8 = 2;
const FORGOTTEN: u8 = 3;

impl Sent {
    pub(crate) fn new(send: u64, fate: Fate) -> Self {
        match fate {
            Fate::Ordered { at } => {
                let place = at.map(|HistoryPlace { view, at }| (view, at.0));
                Self { send, fate: ORDERED, place, cause: None, text: String::new() }
            }
            Fate::Refused(refusal) => {
                let (cause, text) = (Some(refusal.cause as u8), refusal.text);
                Self { send, fate: REFUSED, place: None, cause, text }
            }
            Fate::Forgotten => Self { send, fate: FORGOTTEN, place: None, cause: None, text: String::new() },
        }
    }
}

/// Whether Python is told of it.
pub(crate) const fn is_told(event: &SessionEvent) -> bool {
    !matches!(event, SessionEvent::Event(Event::Reading(ReadingStatus::InView { .. })))
}

/// An event of a session for Python.
pub(crate) fn to_python(py: Python<'_>, event: SessionEvent) -> PyResult<Bound<'_, PyAny>> {
    match event {
        SessionEvent::Event(event) => event::to_python(py, event),
        SessionEvent::Sent { send, fate } => Sent::new(send, fate).into_bound_py_any(py),
        SessionEvent::JoinRefused { group, refusal } => {
            JoinRefused { group: group.as_str().into(), cause: refusal.cause as u8, text: refusal.text }
                .into_bound_py_any(py)
        }
        SessionEvent::Connected { address } => Connected { address: address.to_string() }.into_bound_py_any(py),
        SessionEvent::Lost { why } => Lost { text: why }.into_bound_py_any(py),
        SessionEvent::Gap { from, to } => Gap::new(from, to).into_bound_py_any(py),
        SessionEvent::Parted { common } => Parted { common: common.map(Place::from) }.into_bound_py_any(py),
        SessionEvent::Waits(wait) => Waits { text: wait.text().into() }.into_bound_py_any(py),
        SessionEvent::Resumed { ordered } => Resumed { ordered }.into_bound_py_any(py),
        _ => py.None().into_bound_py_any(py),
    }
}
