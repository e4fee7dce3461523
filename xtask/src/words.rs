//! `cargo xtask words`: words that may not come back into comments, texts and pages, against how often each was recorded.
//!
//! ```text
//! list      the words, and what to write instead
//! prose     the comments and string literals of a source, or the words of a page
//! tally     how often each word is used, and in which lines
//! record    the recorded counts, which only fall
//! growth    the files whose uses have grown since the record was last committed
//! ```
mod growth;
mod list;
mod prose;
mod record;
mod tally;

use crate::trace::root;
use list::LIST;
use record::Record;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use tally::Tally;

const HELP: &str = "\
cargo xtask words [--accept]

Counts words that may not come back in the comments and string literals of *.rs and in *.md. Fails if a word is used more
often than xtask/words.txt records; then prints what to write instead, and the lines that are new since the record was
last committed.

  --accept    lower the record where a word is used less often now, and record words that are new in the list. It never
              raises a count, because each new use can be written with another word

The list of the words, with what to write instead, is xtask/src/words/list.rs.
";

/// The recorded counts, seen from the workspace.
const RECORD: &str = "xtask/words.txt";

/// Runs the command with the words behind its name.
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let done = match read(words) {
        Ok(Some(accepts)) => run(&root(), accepts),
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(misuse) => {
            eprintln!("words: {misuse}; see cargo xtask words --help");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("words: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the record is to be lowered; `None` if help is wanted.
fn read(words: impl IntoIterator<Item = OsString>) -> Result<Option<bool>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut parser = lexopt::Parser::from_args(words);
    let mut accepts = false;
    while let Some(word) = parser.next()? {
        match word {
            Long("accept") => accepts = true,
            Long("help") | Short('h') => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(accepts))
}

/// Whether no word is used more often than recorded.
fn run(root: &Path, accepts: bool) -> Result<bool, String> {
    let file = root.join(RECORD);
    let tally = Tally::of_tree(root).map_err(|error| format!("the tree cannot be read: {error}"))?;
    let mut record = Record::read(&file)?;
    if accepts {
        record.lower(&tally.counts());
        record.write(&file)?;
    }
    let judgement = record.judge(&tally.counts());
    for (word, (then, now)) in &judgement.risen {
        println!("`{}` is used {now} times, {then} are recorded: write {} instead", word.name(), word.instead);
        growth::new_uses(root, RECORD, word, &tally).iter().for_each(|line| println!("  {line}"));
    }
    if judgement.fallen > 0 {
        println!("{} words are used less often than recorded: cargo xtask words --accept", judgement.fallen);
    }
    println!("words: {} in the list, {} used more often than recorded", LIST.len(), judgement.risen.len());
    Ok(judgement.risen.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use list::Word;

    /// A tree with these files and this record.
    fn tree(source: &str, page: &str, record: &str) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        tally::FOLDERS.iter().for_each(|folder| std::fs::create_dir(tree.path().join(folder)).unwrap());
        for (file, text) in [("crates/a.rs", source), ("docs/a.md", page), (RECORD, record)] {
            std::fs::write(tree.path().join(file), text).unwrap();
        }
        tree
    }

    fn record(tree: &tempfile::TempDir) -> String {
        let text = std::fs::read_to_string(tree.path().join(RECORD)).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
    }

    fn all(uses: &[(&str, usize)]) -> String {
        let count = |word: &Word| uses.iter().find(|(name, _)| *name == word.name()).map_or(0, |(_, count)| *count);
        let mut lines: Vec<_> = LIST.iter().map(|word| format!("{} {}\n", word.name(), count(word))).collect();
        lines.sort();
        lines.concat()
    }

    #[test]
    fn a_count_that_rises_fails_and_is_never_accepted() {
        let tree = tree("// It tells.\nlet a = \"told\";", "Nobody tells.\n", &all(&[("tell", 2), ("nobody", 1)]));
        assert_eq!(run(tree.path(), false), Ok(false));
        assert_eq!(run(tree.path(), true), Ok(false));
        assert_eq!(record(&tree), all(&[("tell", 2), ("nobody", 1)]));
    }

    #[test]
    fn a_count_that_falls_holds_and_can_be_recorded() {
        let tree = tree("// It tells.\nlet told = 1;", "", &all(&[("tell", 2), ("nobody", 1)]));
        assert_eq!(run(tree.path(), false), Ok(true));
        assert_eq!(record(&tree), all(&[("tell", 2), ("nobody", 1)]));
        assert_eq!(run(tree.path(), true), Ok(true));
        assert_eq!(record(&tree), all(&[("tell", 1)]));
    }

    #[test]
    fn a_word_that_is_new_in_the_list_fails_until_recorded() {
        let tree = tree("// It tells.", "", "");
        assert_eq!(run(tree.path(), false), Ok(false));
        assert_eq!(run(tree.path(), true), Ok(true));
        assert_eq!(record(&tree), all(&[("tell", 1)]));
    }

    #[test]
    fn options_are_to_accept_and_to_help() {
        let asked = |line: &str| read(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string());
        assert_eq!((asked(""), asked("--accept"), asked("--help")), (Ok(Some(false)), Ok(Some(true)), Ok(None)));
        assert!(asked("--raise").unwrap_err().contains("--raise"));
    }
}
