//! Reading by position: where it begins, and what is told of it beside messages.
use crate::failure::Failure;
use crate::place::Place;
use consort::{ReadFrom, ReadingEnd, ReadingStatus};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

/// A reading begins: the messages follow.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct ReadingBegan {
    /// The first place that is told.
    start: Place,
    /// The oldest position that the daemon can tell, and the newest.
    oldest: u64,
    newest: u64,
}

/// All that there was is told; messages that follow are new.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct CaughtUp {
    /// The last position of the order.
    position: u64,
}

/// What stands from one place to another cannot be told any more; that one is not included. The reading goes on there.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct Gap {
    start: Place,
    end: Place,
}

/// A reading was refused, or is over.
#[pyclass(frozen, get_all, module = "consort")]
pub(crate) struct ReadingEnded {
    /// A number of `ReadingEnd`.
    cause: u8,
    /// The oldest position that the daemon can tell, and the newest; 0 where it can tell none.
    oldest: u64,
    newest: u64,
    text: String,
    /// Where histories parted: up to where both are the same, if there is such a place.
    common: Option<Place>,
}

#[pymethods]
impl ReadingBegan {
    fn __repr__(&self) -> String {
        format!("ReadingBegan(start={})", self.start.__repr__())
    }
}

#[pymethods]
impl CaughtUp {
    fn __repr__(&self) -> String {
        format!("CaughtUp(position={})", self.position)
    }
}

#[pymethods]
impl Gap {
    fn __repr__(&self) -> String {
        format!("Gap(start={}, end={})", self.start.__repr__(), self.end.__repr__())
    }
}

#[pymethods]
impl ReadingEnded {
    fn __repr__(&self) -> String {
        format!("ReadingEnded(cause={}, {:?})", self.cause, self.text)
    }
}

impl Gap {
    pub(crate) fn new(start: impl Into<Place>, end: impl Into<Place>) -> Self {
        Self { start: start.into(), end: end.into() }
    }
}

/// What is told of a reading. Views that it enters are in the bookmark.
pub(crate) fn to_python(py: Python<'_>, status: ReadingStatus) -> PyResult<Bound<'_, PyAny>> {
    match status {
        ReadingStatus::Began { from, oldest, newest, .. } => {
            ReadingBegan { start: from.into(), oldest, newest }.into_bound_py_any(py)
        }
        ReadingStatus::CaughtUp { position } => CaughtUp { position }.into_bound_py_any(py),
        ReadingStatus::Lost { from, to } => {
            Gap::new(consort::Place::at(from), consort::Place::at(to.saturating_add(1))).into_bound_py_any(py)
        }
        ReadingStatus::Gap { from, to, .. } => Gap::new(from, to).into_bound_py_any(py),
        ReadingStatus::Ended(ReadingEnd { cause, oldest, newest, text, common }) => {
            ReadingEnded { cause: cause as u8, oldest, newest, text, common: common.map(Place::from) }
                .into_bound_py_any(py)
        }
        ReadingStatus::InView { .. } => py.None().into_bound_py_any(py),
    }
}

/// Where a reading begins: `start`, `new`, a position, or a bookmark.
pub(crate) fn read_from(text: &str) -> Result<ReadFrom, Failure> {
    match text {
        "start" => Ok(ReadFrom::Start),
        "new" => Ok(ReadFrom::New),
        _ if text.contains(':') => text.parse().map(ReadFrom::After).map_err(|_| no_place(text)),
        _ => text.parse().map(ReadFrom::Place).map_err(|_| no_place(text)),
    }
}

fn no_place(text: &str) -> Failure {
    let text: String = text.chars().take(60).collect();
    Failure::invalid(format!("{text:?} is no place to read from; give \"start\", \"new\", a position or a bookmark"))
}
