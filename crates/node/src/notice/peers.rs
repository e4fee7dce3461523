//! How other nodes are reached, and when that changes.
use consort_order::PeerReach;
use consort_types::{Duration, NodeId};
use std::collections::BTreeMap;
use std::fmt;

/// Who is heard no better than one way, and has not been heard for so long, is silent.
const SILENT: Duration = Duration::from_millis(500);

/// How another node is reached, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It has not been heard yet.
    Unheard,
    /// It is heard, and says that it hears us.
    Heard,
    /// It is heard, but does not hear us.
    OneWay,
    /// It is not heard any more.
    Silent,
    /// It is kept out for a while.
    Quarantined,
    /// It speaks in an incarnation that is older than one heard of.
    Outdated,
}

impl PeerState {
    const fn of(reach: &PeerReach) -> Self {
        match (reach.outdated, reach.heard) {
            (Some(_), _) => Self::Outdated,
            // The engine knows how often its beacons come: as long as it counts on the way there and back, that stands.
            (None, Some(since)) if !reach.hears_us && since.as_nanos() >= SILENT.as_nanos() => Self::Silent,
            _ if reach.quarantined => Self::Quarantined,
            (None, Some(_)) if reach.hears_us => Self::Heard,
            (None, None) => Self::Unheard,
            (None, Some(_)) => Self::OneWay,
        }
    }

    /// Its name in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unheard => "unheard",
            Self::Heard => "heard",
            Self::OneWay => "one_way",
            Self::Silent => "silent",
            Self::Quarantined => "quarantined",
            Self::Outdated => "outdated",
        }
    }
}

impl fmt::Display for PeerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How each other node was reached when it was last looked.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    states: BTreeMap<NodeId, PeerState>,
}

impl Peers {
    /// Notes how a node is reached; whether that is news. That a node was never heard is none.
    pub fn note(&mut self, reach: &PeerReach) -> Option<PeerState> {
        let state = PeerState::of(reach);
        let before = self.states.insert(reach.node, state).unwrap_or(PeerState::Unheard);
        (state != before).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Incarnation;

    const fn reach(heard_ms: Option<u64>, hears_us: bool) -> PeerReach {
        let heard = match heard_ms {
            Some(ms) => Some(Duration::from_millis(ms)),
            None => None,
        };
        PeerReach { node: NodeId(2), heard, hears_us, quarantined: false, outdated: None }
    }

    #[test]
    fn only_what_changes_is_news() {
        let mut peers = Peers::default();
        assert_eq!(peers.note(&reach(None, false)), None);
        assert_eq!(peers.note(&reach(Some(3), false)), Some(PeerState::OneWay));
        assert_eq!(peers.note(&reach(Some(5), true)), Some(PeerState::Heard));
        assert_eq!(peers.note(&reach(Some(5_000), true)), None, "beacons may be rare");
        assert_eq!(peers.note(&reach(Some(500), false)), Some(PeerState::Silent));
        let outdated = Some((Incarnation(1), Incarnation(2)));
        assert_eq!(peers.note(&PeerReach { outdated, ..reach(Some(1), false) }), Some(PeerState::Outdated));
        assert_eq!(peers.note(&PeerReach { quarantined: true, ..reach(None, false) }), Some(PeerState::Quarantined));
        assert_eq!(peers.note(&reach(Some(1), true)), Some(PeerState::Heard));
    }
}
