//! What a registry outside of the order has to say: a thread of its own asks it, and a running loop takes up what it says.
use crate::stop::Stop;
use consort_order::Advice;
use consort_types::OrderStream;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a registry says now. Clones stand for the same: what one is told, a running loop takes up. Of each order only the last
/// word counts, so nothing piles up where a loop is busy.
#[derive(Clone, Debug)]
pub struct Advisor {
    now: Arc<Mutex<Advised>>,
    news: Stop,
}

#[derive(Debug, Default)]
struct Advised {
    /// By the order and by the kind of advice.
    advice: BTreeMap<(OrderStream, bool), Advice>,
    /// How the registry is, as the node's status tells.
    facts: Vec<(String, String)>,
    /// The loop has been told that there is news, and has not looked.
    told: bool,
}

impl Advisor {
    /// One that advises nothing yet.
    ///
    /// # Errors
    /// Those of making a pair of sockets: no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { now: Arc::default(), news: Stop::new()? })
    }

    fn lock(&self) -> MutexGuard<'_, Advised> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This is advised from here on, in place of what was advised before of the same order.
    pub fn advise(&self, advice: Advice) {
        let kind = matches!(advice, Advice::Order { .. });
        self.change(|now| drop(now.advice.insert((advice.stream(), kind), advice)));
    }

    /// The node's status tells this of the registry from here on.
    pub fn tell(&self, facts: Vec<(String, String)>) {
        self.change(|now| now.facts = facts);
    }

    fn change(&self, change: impl FnOnce(&mut Advised)) {
        let mut now = self.lock();
        change(&mut now);
        if !std::mem::replace(&mut now.told, true) {
            self.news.set();
        }
    }

    /// All that is advised now.
    pub(crate) fn all(&self) -> Vec<Advice> {
        self.lock().advice.values().cloned().collect()
    }

    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        self.lock().facts.clone()
    }

    /// Whether there is news since it was last asked.
    pub(crate) fn take(&self) -> bool {
        let mut now = self.lock();
        std::mem::take(&mut now.told) && self.news.take()
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.news.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::NodeId;

    #[test]
    fn the_last_word_of_each_order_counts_and_is_told_to_every_loop() {
        let advisor = Advisor::new().unwrap();
        assert!(!advisor.take() && advisor.all().is_empty());
        let leader = |stream, node| Advice::Leader { stream: OrderStream(stream), node: Some(NodeId(node)) };
        let order = Advice::Order { stream: OrderStream(1), nodes: vec![NodeId(2)] };
        (0..10_000).for_each(|at| advisor.clone().advise(leader(1, at)));
        advisor.advise(leader(2, 7));
        advisor.advise(order.clone());
        assert!(advisor.take() && !advisor.take());
        assert_eq!(advisor.all(), [leader(1, 9_999), order, leader(2, 7)]);
        assert_eq!(advisor.all().len(), 3, "a loop that begins later is told all of it, too");
        advisor.tell(vec![("registry".into(), "away".into())]);
        assert!(advisor.take());
        assert_eq!(advisor.facts().len(), 1);
    }
}
