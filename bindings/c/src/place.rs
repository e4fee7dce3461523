//! Places in the order.
use consort::{HistoryPlace, Place, ViewPlace};

/// A place in the order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct consort_place {
    /// The position.
    pub position: u64,
    /// The number of the view that it belongs to; 0 where positions last.
    pub view: u64,
    /// Which incarnation of that view's representative; 0 where that is not said.
    pub incarnation: u64,
    /// The node of that view's representative; 0 where that is not said.
    pub node: u16,
    /// Which of those that stand there, counted from 0.
    pub index: u16,
}

impl consort_place {
    pub(crate) fn at(position: u64) -> Self {
        Self { position, ..Self::default() }
    }
}

impl From<Place> for consort_place {
    fn from(Place { position, index }: Place) -> Self {
        Self { index, ..Self::at(position) }
    }
}

impl From<HistoryPlace> for consort_place {
    fn from(HistoryPlace { view, at }: HistoryPlace) -> Self {
        Self { view, ..Self::at(at.0) }
    }
}

impl From<ViewPlace> for consort_place {
    fn from(ViewPlace { view, at, index }: ViewPlace) -> Self {
        let (incarnation, node) = (view.representative.incarnation.0, view.representative.node.0);
        Self { position: at.0, view: view.number, incarnation, node, index }
    }
}
