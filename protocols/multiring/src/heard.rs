//! Which of a node's packets came already: where there are several ways, each comes by every one of them.
use consort_types::{Incarnation, MemberId, NodeId};
use std::collections::{BTreeMap, VecDeque};

/// So many of a node's latest packets are told apart.
const LATEST: usize = 1024;

/// What came of each node lately.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    nodes: BTreeMap<NodeId, Latest>,
}

#[derive(Clone, Debug, Default)]
struct Latest {
    /// The packets, and whether they were taken in.
    known: BTreeMap<(Incarnation, u64), bool>,
    in_turn: VecDeque<(Incarnation, u64)>,
}

impl Heard {
    /// Notes a packet, the `number`-th of its author. Whether it is the first time that it comes, as far as is remembered.
    pub fn is_new(&mut self, author: MemberId, number: u64) -> bool {
        //= TM62
        let latest = self.nodes.entry(author.node).or_default();
        let one = (author.incarnation, number);
        if latest.known.contains_key(&one) {
            return false;
        }
        latest.known.insert(one, false);
        latest.in_turn.push_back(one);
        if latest.in_turn.len() > LATEST
            && let Some(oldest) = latest.in_turn.pop_front()
        {
            latest.known.remove(&oldest);
        }
        true
    }

    /// Takes in a packet that came. Whether it was not taken in before.
    pub fn take(&mut self, author: MemberId, number: u64) -> bool {
        //= TM62
        let latest = self.nodes.get_mut(&author.node);
        let taken = latest.and_then(|latest| latest.known.get_mut(&(author.incarnation, number)));
        taken.is_some_and(|taken| !std::mem::replace(taken, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_is_new_once_in_any_order_and_a_false_number_keeps_no_other_out() {
        //= TM62 test
        let (mut heard, author) = (Heard::default(), MemberId::new(3, 7));
        for number in [1, 3, 2, u64::MAX, 1023, 900, 4] {
            assert!(heard.is_new(author, number), "{number}");
            assert!(!heard.is_new(author, number), "{number} again");
        }
        for other in [MemberId::new(3, 8), MemberId::new(3, 6), MemberId::new(4, 7)] {
            assert!(heard.is_new(other, 1) && !heard.is_new(other, 1), "{other}");
        }
    }

    #[test]
    fn a_packet_that_was_sent_on_alone_is_taken_in_once_when_it_comes_again() {
        //= TM62 test
        let (mut heard, author) = (Heard::default(), MemberId::new(3, 7));
        assert!(!heard.take(author, 1), "it never came");
        assert!(heard.is_new(author, 1));
        assert!(!heard.is_new(author, 1) && heard.take(author, 1) && !heard.take(author, 1));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        //= TM62 test
        let (mut heard, author) = (Heard::default(), MemberId::new(3, 7));
        (0..5_000).for_each(|number| assert!(heard.is_new(author, number)));
        assert!(!heard.is_new(author, 4_000));
        assert_eq!((heard.nodes[&NodeId(3)].known.len(), heard.nodes[&NodeId(3)].in_turn.len()), (LATEST, LATEST));
    }
}
