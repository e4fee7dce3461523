//! The recorded counts. A word a line, sorted, so that two changes of different words merge by themselves.
use super::list::{LIST, Word};
use super::tally::Counts;
use std::collections::BTreeMap;
use std::path::Path;

const HEAD: &str = "\
# How often words that may not come back are used in comments, texts and pages. Counts only fall:
# cargo xtask words --accept lowers them.
";

/// The count of each recorded word, by its name.
#[derive(Debug, PartialEq, Eq)]
pub struct Record(BTreeMap<String, usize>);

/// Now against then.
#[derive(Debug)]
pub struct Judgement {
    /// The words that are used more often than recorded, with both counts.
    pub risen: BTreeMap<&'static Word, (usize, usize)>,
    /// How many are used less often, or are not in the list any more.
    pub fallen: usize,
}

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong with it.
    pub fn read(file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}; take it from git", file.display()))?;
        Self::parse(&text).map_err(|wrong| format!("{}: {wrong}; take it from git", file.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let entry = |line: &str| {
            let count = line.rsplit_once(' ').and_then(|(word, count)| Some((word.to_owned(), count.parse().ok()?)));
            count.ok_or_else(|| format!("`{line}` is not a word and its count"))
        };
        lines.map(entry).collect::<Result<_, _>>().map(Self)
    }

    /// Writes it.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn write(&self, file: &Path) -> Result<(), String> {
        let lines: String = self.0.iter().map(|(word, count)| format!("{word} {count}\n")).collect();
        std::fs::write(file, format!("{HEAD}{lines}")).map_err(|e| format!("{} cannot be written: {e}", file.display()))
    }

    /// Takes the smaller count of each word, and the count of a word that is not recorded yet.
    pub fn lower(&mut self, now: &Counts) {
        let lowered = |(word, now): (&&str, &usize)| {
            let then = self.0.get(*word).unwrap_or(now);
            ((*word).to_owned(), *then.min(now))
        };
        self.0 = now.iter().map(lowered).collect();
    }

    /// Compares with the counts of now. A word that is not recorded has the count 0.
    pub fn judge(&self, now: &Counts) -> Judgement {
        let then = |word: &str| self.0.get(word).copied().unwrap_or(0);
        let both = |word: &'static Word| (word, (then(word.name()), now.get(word.name()).copied().unwrap_or(0)));
        let risen = LIST.iter().map(both).filter(|(_, (then, now))| now > then).collect();
        let has_fallen = |(word, then): &(&String, &usize)| now.get(word.as_str()).is_none_or(|now| now < then);
        Judgement { risen, fallen: self.0.iter().filter(has_fallen).count() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_counts_are_refused() {
        assert_eq!(Record::parse("# head\nso many 3\n").unwrap().0["so many"], 3);
        for wrong in ["tell", "tell x", "tell -1"] {
            assert!(Record::parse(wrong).unwrap_err().contains(&format!("`{wrong}`")));
        }
    }

    #[test]
    fn words_that_left_the_list_count_as_fallen() {
        let record = Record::parse("gone 3\ntell 1").unwrap();
        let judgement = record.judge(&[("tell", 2)].into());
        assert_eq!((judgement.fallen, judgement.risen.values().collect::<Vec<_>>()), (1, vec![&(1, 2)]));
    }
}
