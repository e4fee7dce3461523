//! Nodes that are kept out for a while, because a view with them did not last.
use consort_types::{Duration, Instant, NodeId};
use std::collections::BTreeMap;

/// Keeps out by node index, so that a new incarnation does not slip through; doubles the time at each repetition.
#[derive(Clone, Debug, Default)]
pub struct Quarantine(BTreeMap<NodeId, Term>);

#[derive(Clone, Copy, Debug)]
struct Term {
    until: Instant,
    span: Duration,
}

impl Quarantine {
    /// The first term.
    pub const FIRST: Duration = Duration::from_secs(1);
    /// The longest term.
    pub const LONGEST: Duration = Duration::from_secs(60);

    /// Keeps a node out: for a second, or twice as long as last time if that ended less than one such term ago.
    pub fn put(&mut self, node: NodeId, now: Instant) {
        let span = match self.0.get(&node) {
            Some(term) if now < term.until => return,
            Some(term) if now < term.until + term.span => (term.span * 2).min(Self::LONGEST),
            _ => Self::FIRST,
        };
        self.0.insert(node, Term { until: now + span, span });
    }

    /// Whether a node is kept out now.
    pub fn holds(&self, node: NodeId, now: Instant) -> bool {
        self.0.get(&node).is_some_and(|term| now < term.until)
    }

    /// The nodes kept out now.
    pub fn nodes(&self, now: Instant) -> impl Iterator<Item = NodeId> {
        self.0.iter().filter(move |(_, term)| now < term.until).map(|(node, _)| *node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_double_up_to_a_minute_and_start_anew_after_good_conduct() {
        let mut quarantine = Quarantine::default();
        let mut now = Instant::ZERO;
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            quarantine.put(NodeId(1), now);
            let almost = now + Duration::from_secs(seconds) + Duration::ZERO;
            assert!(quarantine.holds(NodeId(1), Instant(almost.0 - 1)));
            assert!(!quarantine.holds(NodeId(1), almost));
            now = almost;
        }
        now += Duration::from_secs(61);
        quarantine.put(NodeId(1), now);
        assert!(!quarantine.holds(NodeId(1), now + Quarantine::FIRST));
        assert!(!quarantine.holds(NodeId(2), now));
    }
}
