//! Checkpoints that programs have declared: what they keep by themselves need not be retained for them.
use consort_types::Holder;
use std::collections::BTreeMap;

/// Of each holder the first place that it does not keep yet. The same at every node at a place of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared(BTreeMap<Holder, u64>);

impl Declared {
    /// How many holders there are at most. Part of the protocol: every node must refuse the same.
    pub const MOST: usize = 64;

    /// Takes what the log says. A checkpoint never moves back: what was let go does not return.
    pub fn note(&mut self, holder: Holder, from: Option<u64>) {
        match from {
            None => {
                self.0.remove(&holder);
            }
            Some(_) if self.is_full_for(&holder) => {}
            Some(from) => {
                let known = self.0.entry(holder).or_default();
                *known = from.max(*known);
            }
        }
    }

    /// Whether nothing is left to be done for this to stand.
    pub fn stands(&self, holder: &Holder, from: Option<u64>) -> bool {
        match (self.0.get(holder), from) {
            (known, None) => known.is_none(),
            (known, Some(from)) => known.is_some_and(|known| *known >= from),
        }
    }

    /// Whether there is no room for one more.
    pub fn is_full_for(&self, holder: &Holder) -> bool {
        self.0.len() >= Self::MOST && !self.0.contains_key(holder)
    }

    /// Of each program the first place that a majority of its copies does not keep yet.
    pub fn needed(&self) -> impl Iterator<Item = u64> {
        //= X87
        let mut programs: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (holder, from) in &self.0 {
            programs.entry(holder.program()).or_default().push(*from);
        }
        programs.into_values().filter_map(|mut copies| {
            copies.sort_unstable_by(|one, other| other.cmp(one));
            copies.get(copies.len() / 2).copied()
        })
    }

    /// All of them, by holder.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Holder, u64)> {
        self.0.iter().map(|(holder, from)| (holder, *from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(text: &str) -> Holder {
        text.parse().unwrap()
    }

    #[test]
    fn a_majority_of_the_copies_of_each_program_says_what_is_needed() {
        //= X87 test
        let mut declared = Declared::default();
        let needed = |declared: &Declared| declared.needed().collect::<Vec<_>>();
        assert_eq!(needed(&declared), []);
        declared.note(holder("bill"), Some(50));
        for (copy, from) in [("a", 10), ("b", 20), ("c", 30)] {
            declared.note(holder(&format!("ledger/{copy}")), Some(from));
        }
        assert_eq!(needed(&declared), [50, 20], "two of three keep what stands below 20");
        declared.note(holder("ledger/d"), Some(5));
        assert_eq!(needed(&declared), [50, 10], "three of four");
        declared.note(holder("ledger/b"), Some(1));
        assert!(declared.stands(&holder("ledger/b"), Some(20)), "it does not move back");
        declared.note(holder("bill"), None);
        declared.note(holder("nobody"), None);
        assert_eq!(needed(&declared), [10]);
        assert!(declared.stands(&holder("bill"), None) && !declared.stands(&holder("bill"), Some(1)));
    }

    #[test]
    fn there_are_so_many_and_no_more() {
        //= X87 test
        let mut declared = Declared::default();
        (0..Declared::MOST + 3).for_each(|n| declared.note(holder(&n.to_string()), Some(7)));
        assert_eq!(declared.iter().len(), Declared::MOST);
        assert!(declared.is_full_for(&holder("x")) && !declared.is_full_for(&holder("3")));
        declared.note(holder("3"), None);
        declared.note(holder("x"), Some(9));
        assert!(declared.stands(&holder("x"), Some(9)));
    }
}
