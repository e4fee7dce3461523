//! Which of a node's packets came already: where there are several ways, each comes by every one of them.
use consort_types::{Incarnation, MemberId, NodeId};
use std::collections::{BTreeMap, VecDeque};

/// So far behind the highest number of an author, a repeated packet can be distinguished from a new one.
const WINDOW: u64 = 4096;
const WORDS: usize = (WINDOW / 64) as usize;
/// So many incarnations of a node have numbers of their own: packets of an old one may still arrive beside its successor's.
const INCARNATIONS: usize = 4;

/// What came of each node lately.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// One for each incarnation, the most recently received from last.
    nodes: BTreeMap<NodeId, VecDeque<(Incarnation, Numbers)>>,
}

/// Which numbers of one author came.
#[derive(Clone, Debug)]
struct Numbers {
    highest: u64,
    /// A number that is higher by more than the window. It counts once another beside it has come, for one alone may be false.
    suspect: Option<u64>,
    /// Of the numbers up to the highest: which came, and which were taken in.
    came: Box<[u64; WORDS]>,
    taken: Box<[u64; WORDS]>,
}

impl Heard {
    /// Notes a packet, the `number`-th of its author. Whether it is the first time that it comes; false where that cannot
    /// be known any more, because it would be sent round for ever where rings form a loop.
    pub fn is_new(&mut self, author: MemberId, number: u64) -> bool {
        //= TM62
        let known = self.nodes.entry(author.node).or_default();
        let at = known.iter().position(|(incarnation, _)| *incarnation == author.incarnation);
        let mut one = at.and_then(|at| known.remove(at)).unwrap_or_else(|| (author.incarnation, Numbers::new()));
        let is_new = one.1.note(number);
        if known.len() >= INCARNATIONS {
            known.pop_front();
        }
        known.push_back(one);
        is_new
    }

    /// Takes in a packet that came. Whether it was not taken in before.
    pub fn take(&mut self, author: MemberId, number: u64) -> bool {
        //= TM62
        let known = self.nodes.get_mut(&author.node).into_iter().flatten();
        let mut of_author = known.filter(|(incarnation, _)| *incarnation == author.incarnation);
        of_author.next().is_some_and(|(_, numbers)| numbers.take(number))
    }
}

impl Numbers {
    fn new() -> Self {
        Self { highest: 0, suspect: None, came: Box::new([0; WORDS]), taken: Box::new([0; WORDS]) }
    }

    fn note(&mut self, number: u64) -> bool {
        if number > self.highest {
            let is_near = number - self.highest <= WINDOW;
            let confirms = self.suspect.is_some_and(|other| other != number && other.abs_diff(number) < WINDOW);
            if !is_near && !confirms {
                self.suspect = Some(number);
                return false;
            }
            self.rise_to(number);
        }
        self.knows(number) && !mark(&mut self.came, number)
    }

    fn take(&mut self, number: u64) -> bool {
        self.knows(number) && is_marked(&self.came, number) && !mark(&mut self.taken, number)
    }

    fn knows(&self, number: u64) -> bool {
        number <= self.highest && self.highest - number < WINDOW
    }

    fn rise_to(&mut self, number: u64) {
        for new in (self.highest + 1..=number).rev().take(WINDOW as usize) {
            let (word, bit) = place(new);
            self.came[word] &= !bit;
            self.taken[word] &= !bit;
        }
        (self.highest, self.suspect) = (number, None);
    }
}

const fn place(number: u64) -> (usize, u64) {
    let at = number % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}

fn is_marked(bits: &[u64; WORDS], number: u64) -> bool {
    let (word, bit) = place(number);
    bits[word] & bit != 0
}

/// Marks it. Whether it was.
fn mark(bits: &mut [u64; WORDS], number: u64) -> bool {
    let (word, bit) = place(number);
    let was = bits[word] & bit != 0;
    bits[word] |= bit;
    was
}

#[cfg(test)]
mod tests {
    use super::*;
    use consort_types::Rng;

    #[test]
    fn each_packet_is_new_once_in_any_order_and_a_false_number_keeps_no_other_out() {
        //= TM62 test
        let (mut heard, author) = (Heard::default(), MemberId::new(3, 7));
        assert!(!heard.is_new(author, u64::MAX), "a number without another one near it");
        for number in [1, 3, 2, 1023, 900, 4, 4000] {
            assert!(heard.is_new(author, number), "{number}");
            assert!(!heard.is_new(author, number) && !heard.is_new(author, u64::MAX), "{number} again");
        }
        for other in [MemberId::new(3, 8), MemberId::new(3, 6), MemberId::new(4, 7)] {
            assert!(heard.is_new(other, 1) && !heard.is_new(other, 1), "{other}");
        }
        assert!(!heard.is_new(author, 4000), "its other incarnations are others");
    }

    #[test]
    fn what_comes_round_behind_any_number_of_others_is_not_new_again() {
        //= TM62 test
        // In a loop of slow rings more packets of an author were under way than were remembered, and went round for ever.
        for lag in [1, 1_024, 4_095, 4_096, 4_097, 20_000] {
            let (mut heard, author) = (Heard::default(), MemberId::new(3, 7));
            for number in 1..=30_000 {
                assert!(heard.is_new(author, number));
                assert!(number <= lag || !heard.is_new(author, number - lag), "{number} - {lag}");
            }
        }
        let (mut heard, mut rng, mut new) = (Heard::default(), Rng::new(1), std::collections::BTreeSet::new());
        for round in 0..200_000 {
            let author = MemberId::new(1, rng.below(4));
            let number = (round / 8 + rng.below(6_000)).saturating_sub(rng.below(12_000));
            assert!(!heard.is_new(author, number) || new.insert((author, number)), "{number} of {author}");
        }
        assert!(new.len() > 20_000, "{}", new.len());
    }

    #[test]
    fn who_begins_to_listen_late_hears_from_the_second_packet_on() {
        //= TM62 test
        let (mut heard, author) = (Heard::default(), MemberId::new(3, 7));
        assert!(!heard.is_new(author, 1_000_000));
        assert!(
            heard.is_new(author, 1_000_001) && heard.is_new(author, 1_000_000),
            "the first came by another way, too"
        );
        assert!(!heard.is_new(author, 1_000_000 - 4_096) && heard.is_new(author, 999_000));
    }

    #[test]
    fn a_packet_that_was_sent_on_alone_is_taken_in_once_when_it_comes_again() {
        //= TM62 test
        let (mut heard, author) = (Heard::default(), MemberId::new(3, 7));
        assert!(!heard.take(author, 1), "it never came");
        assert!(heard.is_new(author, 1));
        assert!(!heard.is_new(author, 1) && heard.take(author, 1) && !heard.take(author, 1));
        (2..=4_097).for_each(|number| assert!(heard.is_new(author, number) && heard.take(author, number)));
        assert!(!heard.take(author, 1));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        //= TM62 test
        let mut heard = Heard::default();
        (0..100).for_each(|incarnation| assert!(heard.is_new(MemberId::new(3, incarnation), 1)));
        assert_eq!(heard.nodes[&NodeId(3)].len(), INCARNATIONS);
    }
}
