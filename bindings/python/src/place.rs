//! Views and places in the order, as Python sees them.
use consort::{GroupViewId, Position};
use pyo3::prelude::*;
use std::fmt;

/// Names a view, or a membership of a group. Compare for equality only.
#[pyclass(frozen, get_all, eq, hash, module = "consort")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ViewId {
    /// The view's number.
    number: u64,
    /// The node of its representative.
    node: u16,
    /// Which incarnation of that.
    incarnation: u64,
    /// Which change in that view; 0 of a view of the network.
    change: u64,
}

/// Where a message stands. Several that were ordered as one have one position, and are counted by `index` from 0.
#[pyclass(frozen, get_all, eq, hash, module = "consort")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    position: u64,
    index: u16,
    /// The view that the position belongs to; none where positions last.
    view: Option<ViewId>,
}

#[pymethods]
impl ViewId {
    fn __repr__(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for ViewId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ViewId({}@n{}, change={})", self.number, self.node, self.change)
    }
}

#[pymethods]
impl Place {
    fn __str__(&self) -> String {
        consort::Place { position: self.position, index: self.index }.to_string()
    }

    pub(crate) fn __repr__(&self) -> String {
        let of = self.view.as_ref().map(|view| format!(", view={view}")).unwrap_or_default();
        format!("Place({}{of})", self.__str__())
    }
}

impl From<consort::Place> for Place {
    fn from(consort::Place { position, index }: consort::Place) -> Self {
        Self { position, index, view: None }
    }
}

impl From<consort::ViewPlace> for Place {
    fn from(consort::ViewPlace { view, at: Position(position), index }: consort::ViewPlace) -> Self {
        Self { position, index, view: Some(view_id(GroupViewId { view, change: 0 })) }
    }
}

pub(crate) const fn view_id(id: GroupViewId) -> ViewId {
    let representative = id.view.representative;
    ViewId {
        number: id.view.number,
        node: representative.node.0,
        incarnation: representative.incarnation.0,
        change: id.change,
    }
}
