//! Whether a write that is given to this node now is ordered soon, and the reason if it is not. Everything that says whether a
//! node is ready, primary, or what its clients wait for, asks here.
use crate::Node;
use crate::status::log_full;
use consort_order::{Engine, Fact, Obstacle};
use consort_types::{Primary, View, ViewKind};
use std::fmt;

/// Why a node is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unready {
    /// The engine orders nothing.
    Obstacle(Obstacle),
    /// It has not begun.
    NoView,
    /// The view ends, and the next one has yet to come.
    Closing,
    /// The daemons exchange their groups.
    Settling,
    /// It orders, but in a part of the cluster that may not act for the whole.
    NotPrimary,
    /// The view is to be primary once all its members have installed it.
    Pending,
    /// Without a policy every part goes on by itself, but this node has met none of these many others since it began.
    Unmet(usize),
    /// The log is full of what copies of programs have not kept: whose messages wait.
    LogFull(String),
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Obstacle(obstacle) => obstacle.fmt(f),
            Self::NoView => f.write_str("no view yet"),
            Self::Closing => f.write_str("the view is closing"),
            Self::Settling => f.write_str("the daemons are exchanging their groups"),
            Self::NotPrimary => {
                f.write_str("the view is not primary: another part of the cluster may act for the whole")
            }
            Self::Pending => f.write_str("the view is not primary yet: not all its members have installed it"),
            Self::Unmet(1) => f.write_str("the other node has not answered since this node began"),
            Self::Unmet(others) => write!(f, "none of the {others} other nodes has answered since this node began"),
            Self::LogFull(whose) => write!(f, "the log is full up to its budget: {whose}"),
        }
    }
}

impl<E: Engine> Node<E> {
    /// Why a write that is given to this node now is not ordered soon; `None` if it is.
    pub fn unready(&self) -> Option<Unready> {
        //= G73
        if let Some(obstacle) = self.engine.obstacle(self.now) {
            return Some(Unready::Obstacle(obstacle));
        }
        let unsettled = match self.regular_view() {
            Err(unready) => return Some(unready),
            Ok(view) => match view.primary {
                _ if self.settling.is_some() => Some(Unready::Settling),
                Primary::No => Some(Unready::NotPrimary),
                Primary::Pending => Some(Unready::Pending),
                Primary::NoPolicy => self.unmet(),
                Primary::Yes => None,
            },
        };
        let full = || self.engine.overfull().filter(|overfull| overfull.all);
        unsettled.or_else(|| full().map(|overfull| Unready::LogFull(log_full(overfull))))
    }

    fn regular_view(&self) -> Result<&View, Unready> {
        match &self.view {
            None => Err(Unready::NoView),
            Some(view) if view.kind == ViewKind::Transitional => Err(Unready::Closing),
            Some(view) => Ok(view),
        }
    }

    /// A node of a cluster whose nodes are all known that has met none of them: its network may be wrong, and the others may
    /// be there.
    fn unmet(&self) -> Option<Unready> {
        //= G74
        if !self.expects_others {
            return None;
        }
        let (mut others, mut met) = (0, false);
        self.engine.observe(self.now, &mut |fact| {
            if let Fact::Peer(reach) = fact {
                (others, met) = (others + 1, met || reach.heard.is_some());
            }
        });
        (others > 0 && !met).then_some(Unready::Unmet(others))
    }

    /// Whether this node's part of the cluster may act for the whole: a view that a quorum has made primary counts no more
    /// where this node reaches no quorum, as others may have gone on without it.
    pub(crate) fn primary_now(&self) -> Option<Primary> {
        //= G75
        let primary = self.view.as_ref()?.primary;
        let cut_off = || matches!(self.engine.obstacle(self.now), Some(Obstacle::Quorum(_) | Obstacle::Apart));
        Some(if primary == Primary::Yes && cut_off() { Primary::No } else { primary })
    }

    /// Whether the node is in a view whose exchange of groups is done, and that the order knows of.
    pub(crate) fn is_settled(&self) -> bool {
        let is_alone_at_first = |view: &View| self.engine.capability().quorum && view.id.number == 0;
        self.settling.is_none() && self.regular_view().is_ok_and(|view| !is_alone_at_first(view))
    }
}
