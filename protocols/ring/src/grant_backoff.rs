//! To whom the token is not granted for a while. It belongs to the engine, not to a ring: what cost one ring must not cost the
//! next one, too.
use consort_types::{Duration, Instant, NodeId};
use std::collections::BTreeMap;

/// Stops grants by node, so that a new incarnation does not slip through.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrantBackoff(BTreeMap<NodeId, GrantStop>);

#[derive(Clone, Copy, Debug)]
struct GrantStop {
    /// No earlier.
    until: Instant,
    /// How long that was; no time at the first stop.
    span: Duration,
    /// Packets pass to the node and back since.
    proved: bool,
}

/// The stop after packets passed and a granted token did not.
const FIRST: Duration = Duration::from_secs(64);
/// The longest one: what never heals costs a ring each hour.
const LONGEST: Duration = Duration::from_secs(4096);

impl GrantBackoff {
    /// A ring was lost while the token was granted to this node.
    pub fn stop(&mut self, node: NodeId, now: Instant) {
        //= R47
        let span = match self.0.get(&node) {
            Some(stop) if !stop.is_over(now) => return,
            Some(stop) => (stop.span * 4).clamp(FIRST, LONGEST),
            None => Duration::ZERO,
        };
        self.0.insert(node, GrantStop { until: now + span, span, proved: false });
    }

    /// A token that was granted to this node came back.
    pub fn clear(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    /// Whether grants to this node are stopped now.
    pub fn stops(&self, node: NodeId, now: Instant) -> bool {
        self.0.get(&node).is_some_and(|stop| !stop.is_over(now))
    }

    /// Whether the stop ends with the proof that packets pass to the node and back.
    pub fn needs_proof(&self, node: NodeId, now: Instant) -> bool {
        self.0.get(&node).is_some_and(|stop| now >= stop.until && !stop.proved)
    }

    /// Packets passed to the node and back.
    pub fn prove(&mut self, node: NodeId, now: Instant) {
        if let Some(stop) = self.0.get_mut(&node).filter(|stop| now >= stop.until) {
            stop.proved = true;
        }
    }
}

impl GrantStop {
    fn is_over(&self, now: Instant) -> bool {
        now >= self.until && self.proved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_ends_with_the_proof_and_grows_up_to_an_hour_where_that_proved_nothing() {
        //= R47 test
        let (mut backoff, mut now, node) = (GrantBackoff::default(), Instant::ZERO, NodeId(1));
        for seconds in [0, 64, 256, 1024, 4096, 4096] {
            assert!(!backoff.stops(node, now), "before a stop of {seconds} s");
            backoff.stop(node, now);
            backoff.stop(node, now);
            let end = now + Duration::from_secs(seconds);
            if seconds > 0 {
                now = Instant(end.0 - 1);
                backoff.prove(node, now);
                assert!(backoff.stops(node, end) && !backoff.needs_proof(node, now), "proved too early");
            }
            now = end;
            assert!(backoff.stops(node, now + FIRST) && backoff.needs_proof(node, now), "nothing is proved");
            backoff.prove(node, now);
            assert!(!backoff.needs_proof(node, now));
        }
        backoff.clear(node);
        backoff.stop(node, now);
        assert!(backoff.stops(node, now) && !backoff.stops(NodeId(2), now));
        backoff.prove(node, now);
        assert!(!backoff.stops(node, now), "the first one again");
    }
}
