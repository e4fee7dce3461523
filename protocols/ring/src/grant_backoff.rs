//! To whom the token is not granted for a while. It belongs to the engine, not to a ring: what cost one ring must not cost the
//! next one, too.
use consort_types::{Duration, Instant, NodeId};
use std::collections::BTreeMap;

/// Stops grants by node, so that a new incarnation does not slip through; four times as long at each repetition.
#[derive(Clone, Debug, Default)]
pub(crate) struct GrantBackoff(BTreeMap<NodeId, GrantStop>);

#[derive(Clone, Copy, Debug)]
struct GrantStop {
    until: Instant,
    span: Duration,
}

/// The first stop.
const FIRST: Duration = Duration::from_secs(64);
/// The longest one: what never heals costs a ring each hour.
const LONGEST: Duration = Duration::from_secs(4096);

impl GrantBackoff {
    /// A ring was lost while the token was granted to this node, or tokens are known not to pass to it or back.
    pub fn stop(&mut self, node: NodeId, now: Instant) {
        //= R47
        let span = match self.0.get(&node) {
            Some(stop) if now < stop.until => return,
            Some(stop) => (stop.span * 4).min(LONGEST),
            None => FIRST,
        };
        self.0.insert(node, GrantStop { until: now + span, span });
    }

    /// A token that was granted to this node came back.
    pub fn clear(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    /// Whether grants to this node are stopped now.
    pub fn stops(&self, node: NodeId, now: Instant) -> bool {
        self.0.get(&node).is_some_and(|stop| now < stop.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_grow_up_to_an_hour_and_begin_anew_once_a_token_came_back() {
        //= R47 test
        let (mut backoff, mut now, node) = (GrantBackoff::default(), Instant::ZERO, NodeId(1));
        for seconds in [64, 256, 1024, 4096, 4096] {
            backoff.stop(node, now);
            backoff.stop(node, now + FIRST / 2);
            now += Duration::from_secs(seconds);
            assert!(backoff.stops(node, Instant(now.0 - 1)) && !backoff.stops(node, now));
        }
        backoff.clear(node);
        backoff.stop(node, now);
        assert!(backoff.stops(node, now) && !backoff.stops(node, now + FIRST) && !backoff.stops(NodeId(2), now));
    }
}
