//! How often each word of the list is used, and where.
use super::list::{LIST, Word};
use super::prose::{self, Place};
use crate::pages;
use crate::trace::{each_file, name};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// All folders with sources or pages.
pub const FOLDERS: [&str; 8] = ["bench", "bindings", "crates", "dist", "docs", "fuzz", "protocols", "xtask"];
/// These name the words on purpose: the list and its tests.
const EXCEPTED: [&str; 2] = ["xtask/src/words.rs", "xtask/src/words/"];

/// The count of each word, by its name.
pub type Counts = BTreeMap<&'static str, usize>;

/// For each word the files that use it, each with the lines.
#[derive(Debug, Default)]
pub struct Tally(BTreeMap<&'static str, BTreeMap<String, Vec<usize>>>);

impl Tally {
    /// Counts in all sources and pages of the workspace.
    ///
    /// # Errors
    /// Those of reading the files.
    pub fn of_tree(root: &Path) -> io::Result<Self> {
        let mut tally = Self::default();
        let mut add = |path: &Path, text: &str| tally.add(&name(root, path), text);
        for page in pages::TOP.map(|page| root.join(page)).iter().filter(|page| page.exists()) {
            add(page, &std::fs::read_to_string(page)?);
        }
        for folder in FOLDERS.map(|folder| root.join(folder)) {
            each_file(&folder, "md", &mut add)?;
            each_file(&folder, "rs", &mut add)?;
        }
        Ok(tally)
    }

    fn add(&mut self, file: &str, text: &str) {
        if EXCEPTED.iter().any(|excepted| file.starts_with(excepted)) {
            return;
        }
        let words = if file.ends_with(".rs") { prose::of_source(text) } else { prose::of_page(text) };
        for word in LIST {
            let lines = uses(word, &words);
            if !lines.is_empty() {
                self.0.entry(word.name()).or_default().insert(file.to_owned(), lines);
            }
        }
    }

    /// The count of every word of the list.
    pub fn counts(&self) -> Counts {
        let count = |word: &Word| self.0.get(word.name()).map_or(0, |files| files.values().map(Vec::len).sum());
        LIST.iter().map(|word| (word.name(), count(word))).collect()
    }

    /// The files that use a word, each with the lines.
    pub fn files(&self, word: &Word) -> impl Iterator<Item = (&String, &Vec<usize>)> {
        self.0.get(word.name()).into_iter().flatten()
    }
}

/// The line of each use, where its last word is. A phrase may continue in the next line.
fn uses(word: &Word, words: &[Place]) -> Vec<usize> {
    let forms: Vec<Vec<&str>> = word.forms.iter().map(|form| form.split(' ').collect()).collect();
    let ends_here = |end: usize| {
        let is_form = |form: &Vec<&str>| {
            (end + 1)
                .checked_sub(form.len())
                .is_some_and(|begin| words[begin..=end].iter().map(|(word, _)| word.as_str()).eq(form.iter().copied()))
        };
        forms.iter().any(is_form).then(|| words[end].1)
    };
    (0..words.len()).filter_map(ends_here).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(tally: &Tally, name: &str) -> usize {
        tally.counts()[name]
    }

    #[test]
    fn all_forms_count_and_phrases_go_on_in_the_next_line() {
        let mut tally = Tally::default();
        tally.add("a.md", "It tells them, and it Told\nthem so\nmany times.");
        tally.add("b.rs", "// so many told\nlet told = so_many;");
        assert_eq!((count(&tally, "tell"), count(&tally, "so many"), count(&tally, "whom")), (3, 2, 0));
        let lines: Vec<_> = tally.files(LIST.iter().find(|word| word.name() == "so many").unwrap()).collect();
        assert_eq!(lines, [(&"a.md".to_owned(), &vec![3]), (&"b.rs".to_owned(), &vec![1])]);
    }

    #[test]
    fn the_list_itself_does_not_count() {
        let mut tally = Tally::default();
        tally.add("xtask/src/words/list.rs", "// told");
        assert_eq!(count(&tally, "tell"), 0);
    }
}
