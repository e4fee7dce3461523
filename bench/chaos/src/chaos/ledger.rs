//! What visitors were told, through whichever listener: each word at most once, each speaker's words in their order,
//! and all that anybody was told in one order.
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Mutex;

use super::board::held;

/// The bytes of a word at the start of a payload.
pub const LEN: usize = 16;

/// What a visitor says: which visit it was, and the how manieth word of it, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word {
    /// The visit.
    pub visit: u64,
    /// Counted from 1.
    pub count: u64,
}

impl Word {
    /// A payload of so many bytes, [`LEN`] at least, that says it.
    pub fn payload(self, len: usize) -> Vec<u8> {
        let mut bytes = [self.visit.to_be_bytes(), self.count.to_be_bytes()].concat();
        bytes.resize(len.max(LEN), 0x5a);
        bytes
    }

    /// What a payload says.
    pub fn of(payload: &[u8]) -> Option<Self> {
        let (visit, rest) = payload.split_first_chunk()?;
        let (count, _) = rest.split_first_chunk()?;
        Some(Self { visit: u64::from_be_bytes(*visit), count: u64::from_be_bytes(*count) })
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "word {} of visit {:x}", self.count, self.visit)
    }
}

/// What one visitor was told in one visit.
#[derive(Clone, Debug, Default)]
pub struct VisitLog {
    /// For errors: who, where, through which listener.
    pub who: String,
    /// Whether that was the Spread listener.
    pub spread: bool,
    /// In the order of arrival.
    pub heard: Vec<Word>,
    /// Those of them that came while the group was closing: promised only among those that moved along.
    pub apart: BTreeSet<Word>,
    /// Whether it is.
    pub closing: bool,
}

impl VisitLog {
    /// A word came.
    pub fn hear(&mut self, word: Word) {
        self.heard.push(word);
        if self.closing {
            self.apart.insert(word);
        }
    }
}

/// What all were told.
#[derive(Debug, Default)]
pub struct Ledger {
    logs: Mutex<Vec<VisitLog>>,
    wrong: Mutex<Vec<String>>,
}

/// How much that was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Visits through the native listener, and through the Spread listener.
    pub visits: [usize; 2],
    /// Words heard, over all.
    pub heard: [usize; 2],
    /// Different words.
    pub words: usize,
}

impl Ledger {
    /// A visit is over.
    pub fn add(&self, log: VisitLog) {
        held(&self.logs).push(log);
    }

    /// A promise was broken before a visitor's eyes.
    pub fn broken(&self, what: String) {
        held(&self.wrong).push(what);
    }

    /// Judges everything. Where parts of a network close their common view each in an order of its own, what came then is
    /// left out of the one order.
    ///
    /// # Errors
    /// The first promise that was broken.
    pub fn judge(&self, per_component: bool) -> Result<Extent, String> {
        if let Some(first) = held(&self.wrong).first() {
            return Err(first.clone());
        }
        let logs = held(&self.logs);
        logs.iter().try_for_each(each_in_order)?;
        let words = in_one_order(&logs, per_component)?;
        let mut extent = Extent { words, ..Extent::default() };
        for log in logs.iter() {
            extent.visits[usize::from(log.spread)] += 1;
            extent.heard[usize::from(log.spread)] += log.heard.len();
        }
        Ok(extent)
    }
}

/// A speaker's words come in their order, and none twice.
fn each_in_order(log: &VisitLog) -> Result<(), String> {
    let mut last = BTreeMap::new();
    for word in &log.heard {
        let before = last.insert(word.visit, word.count).unwrap_or(0);
        if before >= word.count {
            return Err(format!("{} was told {word} after word {before}", log.who));
        }
    }
    Ok(())
}

/// There is an order that all logs agree with; how many words it has.
fn in_one_order(logs: &[VisitLog], per_component: bool) -> Result<usize, String> {
    let mut follow: BTreeMap<Word, Vec<Word>> = BTreeMap::new();
    let mut before: BTreeMap<Word, usize> = BTreeMap::new();
    for log in logs {
        for word in &log.heard {
            before.entry(*word).or_default();
        }
        let ordered = |word: &&Word| !per_component || !log.apart.contains(word);
        let ordered: Vec<_> = log.heard.iter().filter(ordered).copied().collect();
        for pair in ordered.windows(2) {
            follow.entry(pair[0]).or_default().push(pair[1]);
            *before.entry(pair[1]).or_default() += 1;
        }
    }
    let words = before.len();
    let mut free: VecDeque<Word> = before.iter().filter(|(_, count)| **count == 0).map(|(word, _)| *word).collect();
    while let Some(word) = free.pop_front() {
        before.remove(&word);
        for next in follow.remove(&word).unwrap_or_default() {
            if let Some(count) = before.get_mut(&next) {
                *count -= 1;
                if *count == 0 {
                    free.push_back(next);
                }
            }
        }
    }
    match before.first_key_value() {
        None => Ok(words),
        Some((word, _)) => {
            Err(format!("visitors were told {} words in orders that contradict each other: {word}", before.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(visit: u64, count: u64) -> Word {
        Word { visit, count }
    }

    fn verdict(logs: &[&[(u64, u64)]]) -> Result<Extent, String> {
        let ledger = Ledger::default();
        for (number, heard) in logs.iter().enumerate() {
            let heard = heard.iter().map(|(visit, count)| word(*visit, *count)).collect();
            ledger.add(VisitLog {
                who: format!("visitor {number}"),
                spread: number == 0,
                heard,
                ..VisitLog::default()
            });
        }
        ledger.judge(false)
    }

    #[test]
    fn a_word_is_known_again() {
        let word = word(7 << 40, 3);
        assert_eq!(word.payload(0).len(), LEN);
        assert_eq!(Word::of(&word.payload(2_000)), Some(word));
        assert_eq!(Word::of(&[0; LEN - 1]), None);
    }

    #[test]
    fn logs_that_miss_words_agree_as_long_as_one_order_fits_all() {
        let fits = verdict(&[&[(1, 1), (2, 1), (1, 2)], &[(1, 1), (1, 2), (2, 2)], &[(2, 1), (2, 2)], &[]]);
        assert_eq!(fits, Ok(Extent { visits: [3, 1], heard: [5, 3], words: 4 }));
    }

    #[test]
    fn contradictions_are_found_across_any_number_of_logs() {
        assert!(verdict(&[&[(1, 1), (2, 1)], &[(2, 1), (1, 1)]]).unwrap_err().contains("contradict"));
        let circle = verdict(&[&[(1, 1), (2, 1)], &[(2, 1), (3, 1)], &[(3, 1), (1, 1)]]);
        assert!(circle.unwrap_err().starts_with("visitors were told 3 words"));
    }

    #[test]
    fn what_came_while_a_view_was_closing_is_in_an_order_of_its_part() {
        let ledger = Ledger::default();
        for (closing, words) in [(false, [word(1, 1), word(2, 1)]), (true, [word(2, 1), word(1, 1)])] {
            let mut log = VisitLog { closing, ..VisitLog::default() };
            words.into_iter().for_each(|word| log.hear(word));
            ledger.add(log);
        }
        assert_eq!(ledger.judge(true).map(|extent| extent.words), Ok(2));
        assert!(ledger.judge(false).is_err());
    }

    #[test]
    fn a_word_twice_or_behind_a_later_one_is_wrong() {
        assert_eq!(verdict(&[&[(1, 1), (1, 1)]]).unwrap_err(), "visitor 0 was told word 1 of visit 1 after word 1");
        assert_eq!(
            verdict(&[&[], &[(1, 2), (1, 1)]]).unwrap_err(),
            "visitor 1 was told word 1 of visit 1 after word 2"
        );
    }

    #[test]
    fn what_a_visitor_saw_itself_comes_first() {
        let ledger = Ledger::default();
        ledger.broken("n1: its session ended".into());
        assert_eq!(ledger.judge(false).unwrap_err(), "n1: its session ended");
    }
}
