//! How other nodes are reached, and when that changes.
use consort_order::PeerReach;
use consort_types::{Duration, Instant, NodeId};
use std::collections::BTreeMap;
use std::fmt;

/// One way for this time is no start: there each of two nodes receives the other before it says so.
const ONE_WAY_FOR: Duration = Duration::from_secs(2);
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
    /// Which nodes are heard one way, and since when, until that is logged.
    one_way: BTreeMap<NodeId, Instant>,
}

impl Peers {
    /// Notes how a node is reached; whether that is news. That a node was never heard is none, nor is one way for a moment.
    pub fn note(&mut self, now: Instant, reach: &PeerReach) -> Option<PeerState> {
        let state = PeerState::of(reach);
        if state != PeerState::OneWay {
            self.one_way.remove(&reach.node);
        } else if now.since(*self.one_way.entry(reach.node).or_insert(now)) < ONE_WAY_FOR {
            return None;
        }
        let before = self.states.insert(reach.node, state).unwrap_or(PeerState::Unheard);
        (state != before).then_some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Incarnation;

    /// All that is noted at one time.
    struct At<'a>(&'a mut Peers, Instant);

    impl At<'_> {
        fn note(&mut self, reach: &PeerReach) -> Option<PeerState> {
            self.0.note(self.1, reach)
        }
    }

    const fn reach(heard_ms: Option<u64>, hears_us: bool) -> PeerReach {
        let heard = match heard_ms {
            Some(ms) => Some(Duration::from_millis(ms)),
            None => None,
        };
        PeerReach { node: NodeId(2), heard, hears_us, quarantined: false, outdated: None }
    }

    #[test]
    fn only_what_changes_is_news() {
        let mut all = Peers::default();
        let mut peers = At(&mut all, Instant::ZERO);
        assert_eq!(peers.note(&reach(None, false)), None);
        assert_eq!(peers.note(&reach(Some(5), true)), Some(PeerState::Heard));
        assert_eq!(peers.note(&reach(Some(5_000), true)), None, "beacons may be rare");
        assert_eq!(peers.note(&reach(Some(500), false)), Some(PeerState::Silent));
        let outdated = Some((Incarnation(1), Incarnation(2)));
        assert_eq!(peers.note(&PeerReach { outdated, ..reach(Some(1), false) }), Some(PeerState::Outdated));
        assert_eq!(peers.note(&PeerReach { quarantined: true, ..reach(None, false) }), Some(PeerState::Quarantined));
        assert_eq!(peers.note(&reach(Some(1), true)), Some(PeerState::Heard));
    }

    #[test]
    fn one_way_is_news_once_it_lasts() {
        let (mut all, start) = (Peers::default(), Instant::ZERO);
        let at = |all: &mut Peers, ms: u64, reach: &PeerReach| all.note(start + Duration::from_millis(ms), reach);
        assert_eq!(at(&mut all, 0, &reach(Some(0), false)), None, "every start begins so");
        assert_eq!(at(&mut all, 250, &reach(Some(5), true)), Some(PeerState::Heard));
        assert_eq!(at(&mut all, 500, &reach(Some(3), false)), None);
        assert_eq!(at(&mut all, 2_499, &reach(Some(3), false)), None);
        assert_eq!(at(&mut all, 2_500, &reach(Some(3), false)), Some(PeerState::OneWay));
        assert_eq!(at(&mut all, 3_000, &reach(Some(3), false)), None, "it is known");
        assert_eq!(at(&mut all, 3_250, &reach(Some(3), true)), Some(PeerState::Heard));
    }
}
